// Bundles the console (console/) into build/console/, the static files that the Worker serves, and knows
// when that is done already: a stamp holds a hash of everything that went into it.
import { createHash } from 'node:crypto';
import { copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { gzipSync } from 'node:zlib';
import { root } from './project.mjs';
import { Explained, duration } from './run.mjs';

const source = join(root, 'console');
const target = join(root, 'build', 'console');
/** Beside the files and not among them, since those are served. */
const stampPath = join(root, 'build', 'console-stamp');

const copied = ['index.html', 'icon.svg'];
const outputs = [...copied, 'app.js', 'app.css'];
/** What is bundled, all of it under the MIT License, which asks to be passed on with every copy. */
const bundled = ['preact', '@preact/signals', '@tanstack/virtual-core', 'uplot'];

/** Builds unless the output is up to date. To be called after worker-build, which may empty build/. */
export async function buildConsole({ say = console.log } = {}) {
  const stamp = stampOfInputs();
  if (existsSync(stampPath) && readFileSync(stampPath, 'utf8') === stamp && outputs.every((name) => existsSync(join(target, name)))) return;
  const began = performance.now();
  // Not at the top: this module is loaded before the packages are installed.
  const { build } = await import('esbuild');
  mkdirSync(target, { recursive: true });
  try {
    await build({
      entryPoints: { app: join(source, 'main.jsx') },
      outdir: target,
      absWorkingDir: root,
      bundle: true,
      minify: true,
      format: 'esm',
      target: 'es2022',
      jsx: 'automatic',
      jsxImportSource: 'preact',
      legalComments: 'none',
      footer: { js: `/*\n${licences()}*/` },
      logLevel: 'warning',
    });
  } catch {
    throw new Explained('build: the console could not be bundled, see the message above');
  }
  for (const name of copied) copyFileSync(join(source, name), join(target, name));
  writeFileSync(stampPath, stamp);
  const size = gzipSync(readFileSync(join(target, 'app.js'))).length;
  say(`build: the console is bundled in ${duration(performance.now() - began)}, ${Math.round(size / 1_000)} kB of script when compressed`);
}

/** Who wrote what is bundled, and the permission that all of them give in the same words. */
function licences() {
  const parts = bundled.map((name) => {
    const folder = join(root, 'node_modules', name);
    const { version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    const [, holder, permission] = readFileSync(join(folder, 'LICENSE'), 'utf8').match(/^(Copyright .*)$\s+^(Permission [^]*)/m);
    return { line: `${name} ${version}: ${holder}\n`, permission };
  });
  return `This script contains:\n${parts.map(({ line }) => line).join('')}\n${parts[0].permission}`;
}

function stampOfInputs() {
  const hash = createHash('sha256');
  for (const path of [join(root, 'package-lock.json'), join(root, 'scripts/lib/console.mjs'), ...filesOf(source)]) {
    hash.update(relative(root, path)).update('\0').update(readFileSync(path)).update('\0');
  }
  return hash.digest('hex');
}

function filesOf(folder) {
  return readdirSync(folder, { recursive: true })
    .map((name) => join(folder, name))
    .filter((path) => !path.includes('screenshots') && statSync(path).isFile())
    .sort();
}
