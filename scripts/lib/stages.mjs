// What `npm test` runs, in order: to add a stage, add a line.
// A stage is a command, the way to read its counts, and the stages it can't do without.
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { root, runtimeNode, toolEnv, wasmEnv, wasmTarget } from './project.mjs';
import { cargoCounts, exitCounts, nodeCounts } from './counts.mjs';

const cargo = (...args) => () => ['cargo', args];
const script = (path, ...args) => () => [runtimeNode(), [path, ...args]];
const nodeTests = (dir) => () => [runtimeNode(), ['--test', '--test-reporter=spec', ...testFiles(dir)]];

export const stages = [
  { name: 'fmt', command: cargo('fmt', '--check'), counts: exitCounts },
  { name: 'clippy', command: cargo('clippy', '--all-targets', '--', '-D', 'warnings'), counts: exitCounts },
  { name: 'clippy-wasm', command: cargo('clippy', '--lib', '--target', wasmTarget, '--', '-D', 'warnings'), counts: exitCounts, env: wasmEnv },
  { name: 'native', command: cargo('test', '--no-fail-fast'), counts: cargoCounts },
  { name: 'simulation', command: cargo('test', '--test', 'simulation'), counts: cargoCounts, env: longSimulation },
  { name: 'build', command: script('scripts/build.mjs', '--skip-setup'), counts: exitCounts },
  { name: 'worker', command: nodeTests('tests/worker'), counts: nodeCounts, needs: ['build'] },
  { name: 'console', command: nodeTests('tests/console'), counts: nodeCounts, needs: ['build'] },
  { name: 'kill', command: nodeTests('tests/kill'), counts: nodeCounts, needs: ['build'] },
  { name: 'clients', command: nodeTests('tests/clients'), counts: nodeCounts, needs: ['build'] },
  { name: 'selfhost', command: nodeTests('tests/selfhost'), counts: nodeCounts, needs: ['build'] },
  { name: 'examples', command: nodeTests('tests/examples'), counts: nodeCounts, needs: ['build'] },
  { name: 'deploy', command: nodeTests('tests/deploy'), counts: nodeCounts, needs: ['build'] },
  { name: 'fuzz', command: nodeTests('tests/fuzz'), counts: nodeCounts, needs: ['build'] },
  { name: 'fuzz-targets', command: cargo('check', '--locked', '--manifest-path', 'fuzz/Cargo.toml', '--no-default-features', '--target-dir', 'target/fuzz'), counts: exitCounts },
  { name: 'bench', command: script('scripts/bench.mjs', '--smoke'), counts: exitCounts, needs: ['build'] },
].map((stage) => ({ env: toolEnv, needs: [], ...stage }));

/** On CI 5 million operations on 100 seeds: some three minutes on two cores. At hand a tenth. */
function longSimulation() {
  return { ...toolEnv(), PULLQ_SIM_OPS: process.env.CI ? '50000' : '5000' };
}

/** Listed here and not by a pattern: a folder without tests must not look like a folder whose tests pass. */
function testFiles(dir) {
  const path = join(root, dir);
  const names = existsSync(path) ? readdirSync(path).filter((name) => name.endsWith('.test.mjs')).sort() : [];
  return names.length > 0 ? names.map((name) => `${dir}/${name}`) : [`${dir}/*.test.mjs`];
}
