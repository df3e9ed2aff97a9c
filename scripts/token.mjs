// `npm run token -- --name billing --account <id|*>`: makes an API token and says how to set it. The token itself
// is shown once and kept nowhere; a deployment holds its SHA-256 alone.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { readAccount, readOptions } from './lib/options.mjs';
import { root } from './lib/project.mjs';
import { Explained, main } from './lib/run.mjs';
import { devToken } from './lib/setup.mjs';
import { hashOf, newToken, tokenEntry } from './lib/tokens.mjs';

const usage = `npm run token -- --name NAME --account ID|'*' [--queues 'a,b-*'] [--permissions read,write] [--existing FILE]

  --name         what the token is called in logs, unlike any other
  --account      the account it is good for, 32 hexadecimal digits, or '*' for every account
  --queues       names of the queues it is good for, * standing for anything; every queue by default
  --permissions  read, write or both, which is the default; pulling and acknowledging need both
  --existing     a file with the present value of API_TOKENS, or one like .dev.vars, which is the default`;

/** A Worker's secret holds so many bytes (Cloudflare's limits). */
const maxSecretBytes = 5_000;

/** The token of `npm start` is known to everybody, so it never goes into a secret. */
const devHash = hashOf(devToken);

await main(async () => {
  const options = read(process.argv.slice(2));
  const token = newToken();
  const entry = tokenEntry(token, options);
  const { tokens, from } = existing(options.existing);
  if (tokens.some(({ name }) => name === entry.name)) {
    throw new Explained(`${from} has a token called ${entry.name} already: choose another name.`);
  }
  const kept = tokens.filter(({ sha256 }) => sha256 !== devHash);
  const secret = JSON.stringify([...kept, entry]);
  const bytes = Buffer.byteLength(secret);
  console.log(`The token, shown only this once:

${token}

The new value of API_TOKENS (${describe(kept, tokens, from)}):

${secret}

Set it with

  npx wrangler secret put API_TOKENS

and paste the value. For \`npm start\`, put API_TOKENS='…' into .dev.vars instead, and for a server of your own
into the file that its option --env names.`);
  if (bytes > maxSecretBytes) {
    console.log(`
It is ${bytes} bytes, and a Worker's secret holds ${maxSecretBytes}: put some of the tokens, as a list of their own,
into a secret API_TOKENS_2, and so on.`);
  }
});

function describe(kept, tokens, from) {
  const others = kept.length === 1 ? '1 token' : `${kept.length} tokens`;
  const dev = tokens.length > kept.length ? ', without the development token, which everybody knows' : '';
  return from === undefined ? 'this token alone' : `this token and ${others} of ${from}${dev}`;
}

function read(args) {
  const string = { type: 'string' };
  const values = readOptions(args, { name: string, account: string, queues: string, permissions: string, existing: string }, usage);
  const { name, account, queues = '*', permissions = 'read,write' } = values;
  if (!name?.trim()) throw new Explained(`--name is missing.\n\n${usage}`);
  if (!account) throw new Explained(`--account is missing.\n\n${usage}`);
  const accountId = readAccount(account);
  const names = list(queues);
  if (names.length === 0) throw new Explained('--queues names no queue.');
  const rights = list(permissions).map((right) => right.replace(/^queues:/, ''));
  const unknown = rights.find((right) => !['read', 'write'].includes(right));
  if (unknown !== undefined || rights.length === 0) {
    throw new Explained(`--permissions must be read, write or read,write, not ${permissions}.`);
  }
  return {
    name: name.trim(),
    account: accountId,
    queues: names,
    permissions: ['read', 'write'].filter((right) => rights.includes(right)).map((right) => `queues:${right}`),
    existing: values.existing,
  };
}

function list(text) {
  return text.split(',').map((part) => part.trim()).filter((part) => part !== '');
}

/** The tokens there are: of a file with the value itself, or with lines like those of .dev.vars. */
function existing(path) {
  const devVars = join(root, '.dev.vars');
  const from = path ?? '.dev.vars';
  if (path === undefined && !existsSync(devVars)) return { tokens: [] };
  if (path !== undefined && !existsSync(path)) throw new Explained(`There is no file ${path}.`);
  const text = readFileSync(path ?? devVars, 'utf8').trim();
  const value = text.startsWith('[') || text === '' ? text : parseEnv(text).API_TOKENS;
  if (!value) return { tokens: [], from };
  let tokens;
  try {
    tokens = JSON.parse(value);
  } catch {
    // What it says may be secret.
  }
  if (!Array.isArray(tokens) || tokens.some((token) => typeof token?.name !== 'string' || typeof token.sha256 !== 'string')) {
    throw new Explained(`API_TOKENS of ${from} is not a JSON list of tokens.`);
  }
  return { tokens, from };
}
