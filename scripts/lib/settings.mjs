// The settings of a server of one's own: what the Worker knows, out of the environment and a file.
import { existsSync, readFileSync } from 'node:fs';
import { parseEnv } from 'node:util';
import { Explained } from './run.mjs';

/** The README says what each of them does. */
const known = /^(API_TOKENS(_\d+)?|CLOUDEVENTS_[A-Z_]+|JSON_BODIES|CORS_ORIGINS|WRONG_TOKENS_PER_MINUTE|COUNT_ROWS|LOG_REQUESTS)$/;

/**
 * The Worker's settings among `env`, and those of `file`, which win. An empty one is as good as none.
 * `warn` is told of names in the file that nobody knows.
 */
export function settingsFrom({ env, file, warn }) {
  const fromFile = file === undefined ? {} : readSettings(file);
  for (const name of Object.keys(fromFile)) {
    if (!known.test(name)) warn(`${file}: pullq has no setting ${name}.`);
  }
  return Object.fromEntries(
    Object.entries({ ...env, ...fromFile }).filter(([name, value]) => known.test(name) && value !== ''),
  );
}

/** Lines like those of .dev.vars and of systemd's EnvironmentFile. */
function readSettings(file) {
  if (!existsSync(file)) throw new Explained(`There is no file ${file}.`);
  return parseEnv(readFileSync(file, 'utf8'));
}
