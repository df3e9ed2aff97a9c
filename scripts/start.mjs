// `npm start`: set-up, build, then `wrangler dev` until Ctrl-C. PORT moves it from 8787.
// The queues' state stays in .wrangler/ and is there again at the next start.
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { root, runtimeNode, toolEnv } from './lib/project.mjs';
import { Explained, exitCode, main, start, stopOnSignals } from './lib/run.mjs';
import { devAccount, devToken, setup } from './lib/setup.mjs';
import { buildWorker } from './lib/worker.mjs';

const host = '127.0.0.1';
const port = Number(process.env.PORT || 8787);
const address = `http://${host}:${port}`;

stopOnSignals(0);
await main(async () => {
  await assertPortFree();
  await setup({ skip: ['tests'] });
  await buildWorker();
  const server = start(runtimeNode(), [
    join(root, 'node_modules', 'wrangler', 'bin', 'wrangler.js'), 'dev',
    '--ip', host, '--port', String(port), '--show-interactive-dev-session=false',
  ], { env: toolEnv() });
  const stopped = new AbortController();
  const ended = exitCode(server).finally(() => stopped.abort());
  if (await answers(stopped.signal)) printWelcome();
  return ended;
});

async function assertPortFree() {
  if (!Number.isInteger(port) || port < 1 || port > 65_535) {
    throw new Explained(`PORT=${process.env.PORT} is not a port: give a number from 1 to 65535.`);
  }
  const probe = createServer();
  const free = await new Promise((resolve) => {
    probe.once('error', () => resolve(false));
    probe.listen(port, host, () => resolve(true));
  });
  if (!free) throw new Explained(`Port ${port} can't be used (is pullq running already?): choose another with PORT=8790 npm start.`);
  await new Promise((resolve) => probe.close(resolve));
}

/** Waits until the server answers anything at all; false when it ended before. */
async function answers(ended) {
  while (!ended.aborted) {
    const answered = await fetch(address, { signal: AbortSignal.timeout(5_000) }).then(() => true, () => false);
    if (answered) return !ended.aborted;
    await sleep(200);
  }
  return false;
}

function printWelcome() {
  console.log(`
pullq serves on ${address}
dev token: ${devToken}
console:   ${address}/console/ (sign in with the dev token)

Try it, create a queue:

  curl -X POST ${address}/client/v4/accounts/${devAccount}/queues -H 'Authorization: Bearer ${devToken}' -H 'Content-Type: application/json' -d '{"queue_name":"hello"}'

Ctrl-C stops it.
`);
}
