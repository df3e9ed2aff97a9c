// `npm test`: set-up, then every stage of lib/stages.mjs; the last line is "N passed, M failed".
// `npm test -- --only worker` runs the named stages (repeat it, or separate names by commas) and what they need.
import { Explained, duration, main, run, stopOnSignals } from './lib/run.mjs';
import { settle } from './lib/counts.mjs';
import { setup } from './lib/setup.mjs';
import { stages } from './lib/stages.mjs';

stopOnSignals();
await main(async () => {
  const chosen = chooseStages(process.argv.slice(2));
  const setUp = await setup().then(() => true, (error) => {
    console.error(error instanceof Explained ? error.message : error);
    return false;
  });
  const results = [];
  if (setUp) {
    for (const stage of chosen) results.push(await runStage(stage, results));
  } else {
    results.push({ name: 'set-up', passed: 0, failed: 1, ms: 0 });
  }
  return report(results);
});

function chooseStages(args) {
  const names = args.flatMap((arg, index) => {
    if (arg === '--only') return [];
    if (arg.startsWith('--only=')) return arg.slice('--only='.length).split(',');
    if (args[index - 1] === '--only') return arg.split(',');
    throw new Explained(`Unknown argument ${arg}: npm test -- --only <stage>`);
  });
  const unknown = names.filter((name) => !stages.some((stage) => stage.name === name));
  if (unknown.length > 0 || (args.length > 0 && names.length === 0)) {
    throw new Explained(`No such stage: ${unknown.join(', ')}. The stages are ${stages.map(({ name }) => name).join(', ')}.`);
  }
  const wanted = new Set(names.flatMap((name) => [name, ...stages.find((stage) => stage.name === name).needs]));
  return names.length === 0 ? stages : stages.filter(({ name }) => wanted.has(name));
}

/** Runs a stage unless one that it needs has failed, which is a failure of its own. */
async function runStage(stage, earlier) {
  const broken = earlier.find(({ name, failed }) => failed > 0 && stage.needs.includes(name));
  const [command, args] = stage.command();
  console.log(`\n=== ${stage.name}: ${broken ? `not run, ${broken.name} failed` : shown(command, args)}`);
  if (broken) return { name: stage.name, passed: 0, failed: 1, ms: 0 };
  const began = performance.now();
  const output = [];
  const code = await run(command, args, { env: stage.env(), onOutput: (text) => output.push(text) });
  const result = settle(stage.counts(output.join(''), code), code);
  const ms = performance.now() - began;
  console.log(`=== ${stage.name}: ${result.passed} passed, ${result.failed} failed (${duration(ms)})`);
  return { name: stage.name, ...result, ms };
}

function shown(command, args) {
  return [command.split('/').at(-1), ...args].join(' ');
}

function report(results) {
  const total = (key) => results.reduce((sum, result) => sum + result[key], 0);
  console.log();
  for (const { name, passed, failed, ms } of results) {
    console.log(`${failed > 0 ? 'FAILED' : 'ok    '} ${name.padEnd(12)} ${passed} passed, ${failed} failed, ${duration(ms)}`);
  }
  console.log(`${total('passed')} passed, ${total('failed')} failed`);
  return total('failed') > 0 ? 1 : 0;
}
