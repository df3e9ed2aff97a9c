// `npm run package`: packs what serves without Rust and without this repository, the build with its server and
// the helper for other code, into pullq-<version>.tgz. To be installed with npm, or published as it is.
//
// It is packed from a copy: a manifest of its own leaves out what is for development alone, the Node that
// comes with the npm packages above all, which would take the place of the user's own.
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { spawnSync } from 'node:child_process';
import { parseArgs } from 'node:util';
import { binDir, root } from './lib/project.mjs';
import { Explained, main, read } from './lib/run.mjs';

const staged = join(root, 'target', 'package');

const files = [
  'LICENSE', 'README.md', 'binding', 'build/console', 'build/index.js', 'build/index_bg.wasm', 'build/worker', 'openapi.json',
  ...['lock', 'options', 'project', 'run', 'rust', 'settings', 'setup', 'tokens', 'workerd'].map((name) => `scripts/lib/${name}.mjs`),
  'scripts/selfhost.mjs', 'scripts/token.mjs', 'selfhost', 'wrangler.toml',
];

const manifestFields = ['name', 'version', 'description', 'license', 'type', 'engines', 'bin', 'exports', 'dependencies'];

await main(() => {
  const { values: { to } } = parseArgs({ options: { to: { type: 'string', default: root } } });
  if (!existsSync(join(root, 'build', 'index.js'))) throw new Explained('There is nothing to pack yet: run npm run build first.');
  rmSync(staged, { recursive: true, force: true });
  for (const path of files.filter((path) => existsSync(join(root, path)))) {
    mkdirSync(dirname(join(staged, path)), { recursive: true });
    cpSync(join(root, path), join(staged, path), { recursive: true });
  }
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  writeFileSync(join(staged, 'package.json'), `${JSON.stringify(Object.fromEntries(manifestFields.map((field) => [field, manifest[field]])), null, 2)}\n`);
  // Node takes no TypeScript out of an installed package.
  const script = read(join(binDir, 'esbuild'), [join(root, 'binding', 'pullq.ts'), '--format=esm', '--target=es2022']);
  if (script === undefined) throw new Explained('binding/pullq.ts could not be turned into JavaScript: is it sound, and are the npm packages installed?');
  writeFileSync(join(staged, 'binding', 'pullq.js'), `${script}\n`);
  const { status, stdout, stderr } = spawnSync('npm', ['pack', '--silent', '--pack-destination', resolve(to)], { cwd: staged, encoding: 'utf8' });
  if (status !== 0) throw new Explained(`npm could not pack it:\n${stderr}`);
  console.log(join(resolve(to), stdout.trim()));
});
