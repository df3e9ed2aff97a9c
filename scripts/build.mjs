// `npm run build`, and what wrangler calls before it serves or deploys: builds the Worker unless it is built.
// wrangler runs out of node_modules itself and asks to leave that alone (--skip-packages).
import { main, stopOnSignals } from './lib/run.mjs';
import { setup } from './lib/setup.mjs';
import { buildWorker } from './lib/worker.mjs';

stopOnSignals();
await main(async () => {
  const skip = process.argv.includes('--skip-packages') ? ['tests', 'packages'] : ['tests'];
  if (!process.argv.includes('--skip-setup')) await setup({ skip });
  await buildWorker();
});
