// `npm run bench`: pullq beside a floor and its peers, in one run on this machine; see bench/README.md.
// Prints the tables, writes bench/results.json and the pictures of bench/.
// `-- --rounds 2 --seconds 0.2` makes it shorter (5 rounds of half a second a measurement otherwise).
// `-- --as-built` measures what lies in build/, whatever src/ holds.
// `-- --builds old=/a/folder,new=build`: builds of pullq against each other, and nothing else; the ratios are the
// last one's to each.
// `-- --smoke`: one minute, pullq and the naive queue alone; fails when something doesn't run or when rows
// written for a message exceed their budget, and writes nothing.
import { rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { budgets, rowBudgets } from '../bench/lib/budgets.mjs';
import { buildFloor, buildLoad } from '../bench/lib/build.mjs';
import { byConnections, bySize } from '../bench/lib/growth.mjs';
import { generatorLimit } from '../bench/lib/load.mjs';
import { startPeers } from '../bench/lib/peers.mjs';
import { drawGrowth } from '../bench/lib/pictures.mjs';
import { machine, newDataFolder } from '../bench/lib/place.mjs';
import { fullPlan, smokePlan } from '../bench/lib/plan.mjs';
import { budgetTable, costTable, cpuTable, speedTable, targetsTable } from '../bench/lib/report.mjs';
import { runRounds, summarize } from '../bench/lib/rounds.mjs';
import { countRows } from '../bench/lib/rows.mjs';
import { manyWaiting, pullByBacklog } from '../bench/lib/waiting.mjs';
import { startFloors, startNaive, startPullq, stopWorkers } from '../bench/lib/workers.mjs';
import { root } from './lib/project.mjs';
import { Explained, duration, main, stopAll, stopOnSignals } from './lib/run.mjs';
import { setup } from './lib/setup.mjs';
import { buildWorker } from './lib/worker.mjs';

const say = console.log;
const { values: options } = parseArgs({
  options: { smoke: { type: 'boolean' }, builds: { type: 'string' }, 'as-built': { type: 'boolean' }, rounds: { type: 'string', default: '5' }, seconds: { type: 'string', default: '0.5' } },
});

stopOnSignals();
await main(async () => {
  if (!options.smoke && !options.builds) {
    await setup();
    if (!options['as-built']) await buildWorker();
    await buildFloor();
  }
  await buildLoad();
  const began = performance.now();
  const folder = newDataFolder();
  try {
    if (options.builds) await runBuilds(folder, options.builds);
    else await (options.smoke ? runSmoke(folder) : runAll(folder));
  } finally {
    await stopWorkers();
    await stopAll();
    rmSync(folder, { recursive: true, force: true });
  }
  say(`\nbench: done in ${duration(performance.now() - began)}`);
});

async function runSmoke(folder) {
  const rows = await rowsOf(folder, [1, 100]);
  const targets = [await startPullq(folder), await startNaive(folder)];
  const summary = summarize(await runRounds({ plan: smokePlan, targets, rounds: 1, seconds: 0.3, say }));
  const waiting = await manyWaiting(targets[0], { rounds: 1, seconds: 0.2, messages: 10_000, say });
  await stop(targets);
  if (!(waiting.wake_ms.median > 0)) throw new Explained('bench: the object did not wake');
  say(`\n${costTable(rows)}\n\n${targetsTable(summary, targets)}\n`);
  const counts = rowBudgets(rows);
  say(budgetTable(counts));
  if (counts.some(({ met }) => !met)) throw new Explained('bench: a budget on rows is not met');
}

async function runBuilds(folder, named) {
  const builds = named.split(',').map((each) => each.split('='));
  const latest = builds.length - 1;
  const targets = [];
  for (const [index, [name, build]] of builds.entries()) {
    targets.push(await startPullq(join(folder, name), {}, { build: resolve(build), name: index === latest ? 'pullq' : name }));
  }
  const plan = fullPlan.filter(({ workload, size }) => size === 200 && workload.does !== 'hand-over');
  const summary = summarize(await runRounds({ plan, targets, rounds: Number(options.rounds), seconds: Number(options.seconds), say }));
  await stop(targets);
  say(`\n${targetsTable(summary, targets)}\n\n${cpuTable(summary, targets)}\n\n${speedTable(summary, targets)}`);
}

async function runAll(folder) {
  const about = machine(folder);
  say(`bench: ${JSON.stringify(about)}`);
  const generator = await generatorLimit();
  say(`bench: the generator alone reaches ${JSON.stringify(generator)} calls/s by connections`);
  const rows = await rowsOf(folder, [1, 10, 100]);

  const { started: peers, skipped } = await startPeers(folder, { say });
  const pullq = await startPullq(folder);
  const naive = await startNaive(folder);
  const floors = await startFloors(folder);
  const targets = [pullq, ...floors, naive, ...peers];

  const [rounds, seconds] = [Number(options.rounds), Number(options.seconds)];
  const summary = summarize(await runRounds({ plan: fullPlan, targets, rounds, seconds, say }));
  const growing = { rounds: Math.ceil(rounds / 2), seconds: 0.6 * seconds };
  const growth = {
    connections: await byConnections(targets, growing),
    sizes: await bySize(targets, growing),
    backlog: await pullByBacklog([pullq, naive, ...peers.filter(({ name }) => name === 'pgmq')], { ...growing, say }),
  };
  const waiting = await manyWaiting(pullq, { rounds, seconds, say });
  await stop(targets);

  const checked = budgets({ rows, summary, waiting });
  say(`\n${targetsTable(summary, targets)}\n\n${speedTable(summary, targets)}\n\n${costTable(rows)}\n\n${budgetTable(checked)}\n`);
  say(JSON.stringify(checked));
  for (const { name, why } of skipped) say(`SKIPPED ${name}: ${why}`);
  const versions = Object.fromEntries(peers.map(({ name, version }) => [name, version]));
  writeFileSync(join(root, 'bench', 'results.json'), `${JSON.stringify({
    machine: about, generator_calls_per_s: generator, peers: versions, skipped, budgets: checked, rows, waiting, summary, growth,
  }, null, 1)}\n`);
  await drawGrowth(join(root, 'bench'), growth);
}

async function rowsOf(folder, batches) {
  const counting = [await startPullq(join(folder, 'counting'), { COUNT_ROWS: 'on' }), await startNaive(join(folder, 'counting'), { COUNT_ROWS: 'on' })];
  const rows = {};
  for (const target of counting) rows[target.name] = await countRows(target, batches);
  await stop(counting);
  return rows;
}

/** The floor's two objects share a server. */
async function stop(targets) {
  const stops = new Map(targets.map((target) => [target.server ?? target, target.stop]));
  await Promise.all([...stops.values()].map((each) => each()));
}
