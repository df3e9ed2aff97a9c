// `npm run setup`: brings everything that building, serving and testing need, and skips what is there.
// Runs before any npm package is installed, so it uses Node's own modules alone.
import { main, stopOnSignals } from './lib/run.mjs';
import { setup } from './lib/setup.mjs';

stopOnSignals();
await main(() => setup());
