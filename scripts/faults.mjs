// `npm run faults`: plants each fault of tests/faults/faults.mjs in a copy of the engine, one after the
// other, runs the simulation on it, and says which check caught it. Fails when one is not caught.
// `npm run faults -- --only "a name"` plants the faults whose names contain that; `--write` puts the table
// into ARCHITECTURE.md.
//
// The copy has the engine alone, which knows nothing of the rest of the crate: it compiles in seconds.
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { faults } from '../tests/faults/faults.mjs';
import { root, toolEnv } from './lib/project.mjs';
import { Explained, duration, main, stopOnSignals } from './lib/run.mjs';

/** What one fault may cost: seeds, and operations of each. The first check that fails ends it. */
const SEEDS = 60;
const OPERATIONS = 3_000;
const WITHIN_MS = 300_000;

const folder = join(root, 'target', 'faults');
const crate = join(folder, 'crate');

stopOnSignals();
await main(() => {
  const only = process.argv.indexOf('--only');
  const chosen = faults.filter(({ name }) => only < 0 || name.includes(process.argv[only + 1]));
  copyEngine();
  const problems = faults.flatMap(misplaced);
  if (problems.length > 0) throw new Explained(problems.join('\n'));
  const sound = simulate();
  if (sound.failed) throw new Explained(`The simulation fails without a fault:\n${sound.output}`);
  console.log(`without a fault: nothing is found in ${SEEDS} seeds with ${OPERATIONS} operations each (${duration(sound.ms)})\n`);
  const rows = chosen.map((fault) => ({ ...fault, check: plant(fault) }));
  const caught = rows.filter(({ check }) => check !== undefined);
  console.log(`\n${caught.length} of ${rows.length} faults were caught`);
  if (caught.length < rows.length) return 1;
  if (process.argv.includes('--write') && rows.length === faults.length) writeTable(rows);
  return 0;
});

/** The engine, the simulation and what they need, in a crate of their own. */
function copyEngine() {
  rmSync(crate, { recursive: true, force: true });
  mkdirSync(join(crate, 'src'), { recursive: true });
  for (const path of ['Cargo.toml', 'Cargo.lock', 'src/queue', 'tests/simulation', 'tests/sqlite']) {
    cpSync(join(root, path), join(crate, path), { recursive: true });
  }
  writeFileSync(join(crate, 'src/lib.rs'), 'pub mod queue;\n');
}

function misplaced({ name, file, search }) {
  const times = readFileSync(join(crate, 'src/queue', file), 'utf8').split(search).length - 1;
  return times === 1 ? [] : [`${name}: its search text stands ${times} times in src/queue/${file}`];
}

/** Plants a fault, simulates and takes it out again; the check that caught it, or undefined. */
function plant({ name, file, search, replace }) {
  const path = join(crate, 'src/queue', file);
  const sound = readFileSync(path, 'utf8');
  writeFileSync(path, sound.replace(search, () => replace));
  const { compiled, failed, output, ms } = simulate();
  writeFileSync(path, sound);
  if (!compiled) throw new Explained(`${name}: the crate does not compile with it:\n${output}`);
  const [, seed, operation, check] = output.match(/^seed (\d+), operation (\d+): promise (.*)$/m) ?? [];
  if (failed && check === undefined) throw new Explained(`${name}: the simulation failed without a broken promise:\n${output}`);
  const found = failed ? `${check} (seed ${seed}, operation ${operation})` : 'NOT CAUGHT';
  console.log(`${name.padEnd(44)} ${found}, ${duration(ms)}`);
  return check;
}

/** Replaces the table in ARCHITECTURE.md. */
function writeTable(rows) {
  const path = join(root, 'ARCHITECTURE.md');
  const text = readFileSync(path, 'utf8');
  const table = rows.map(({ name, what, check }) => `| ${name} | ${what} | ${check} |\n`).join('');
  const written = text.replace(/(## Faults planted\n[^#]*?\| --- \| --- \| --- \|\n)(?:\|.*\n)*/, (_, head) => head + table);
  if (!written.includes(table)) throw new Explained('ARCHITECTURE.md has no table under "Faults planted".');
  writeFileSync(path, written);
}

function simulate() {
  const env = {
    ...toolEnv(),
    CARGO_TARGET_DIR: join(folder, 'target'),
    PULLQ_SIM_SEEDS: String(SEEDS),
    PULLQ_SIM_OPS: String(OPERATIONS),
    // A fault may leave something unused; and what matters here is time to compile more than time to run.
    RUSTFLAGS: '--cap-lints=warn',
    CARGO_PROFILE_TEST_OPT_LEVEL: '1',
    CARGO_PROFILE_TEST_DEBUG: 'false',
  };
  const cargo = (...args) => spawnSync('cargo', ['test', '--quiet', '--test', 'simulation', ...args], {
    cwd: crate, env, encoding: 'utf8', timeout: WITHIN_MS, maxBuffer: 1 << 28,
  });
  const began = performance.now();
  const built = cargo('--no-run');
  if (built.status !== 0) return { compiled: false, failed: true, output: built.stderr, ms: 0 };
  const { status, stdout, stderr } = cargo('simulation_keeps_every_promise');
  return { compiled: true, failed: status !== 0, output: stdout + stderr, ms: performance.now() - began };
}
