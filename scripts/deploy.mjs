// `npm run deploy`: set-up, build, `wrangler deploy`; and where nobody can get in yet, a first API token.
// `npm run deploy -- --account ID` makes that token for one account, `--no-token` makes none, and
// `--dry-run` bundles what would be deployed into target/deploy and needs no Cloudflare account.
//
// In Cloudflare's Workers Builds, which the Deploy to Cloudflare button uses, secrets are the dashboard's.
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readAccount, readOptions } from './lib/options.mjs';
import { root, runtimeNode, toolEnv } from './lib/project.mjs';
import { Explained, main, run, stopOnSignals } from './lib/run.mjs';
import { inWorkersBuilds } from './lib/rust.mjs';
import { setup } from './lib/setup.mjs';
import { newToken, tokenEntry } from './lib/tokens.mjs';
import { buildWorker } from './lib/worker.mjs';

const wranglerCli = join(root, 'node_modules', 'wrangler', 'bin', 'wrangler.js');

const howToLogIn = `wrangler is not logged in at Cloudflare. Either

  npx wrangler login

which opens a browser, or, where there is none, an API token of Cloudflare's (dash.cloudflare.com/profile/api-tokens,
template "Edit Cloudflare Workers") in the environment as CLOUDFLARE_API_TOKEN. Then run this again.`;

stopOnSignals();
await main(async () => {
  const options = parse(process.argv.slice(2));
  await setup({ skip: ['tests'] });
  if (!options['dry-run']) await assertLoggedIn();
  await buildWorker();
  if (options['dry-run']) return run(runtimeNode(), [wranglerCli, 'deploy', '--dry-run', '--outdir', 'target/deploy'], { env: toolEnv() });

  const url = await deploy();
  const hasToken = inWorkersBuilds || options['no-token'] || (await secretNames()).includes('API_TOKENS');
  const token = hasToken ? undefined : await setFirstToken(options.account);
  console.log(afterwards({ url, token, account: options.account }));
});

function parse(args) {
  const values = readOptions(args, {
    account: { type: 'string', default: '*' },
    'no-token': { type: 'boolean', default: false },
    'dry-run': { type: 'boolean', default: false },
  }, 'npm run deploy -- [--account ID] [--no-token] [--dry-run]');
  return { ...values, account: readAccount(values.account) };
}

/** Asks wrangler itself, but not with a token of Cloudflare's that may deploy and not ask who it is. */
async function assertLoggedIn() {
  if (process.env.CLOUDFLARE_API_TOKEN || process.env.CLOUDFLARE_API_KEY) return;
  const { code } = await wrangler(['whoami', '--json'], { quiet: true });
  if (code !== 0) throw new Explained(howToLogIn);
}

/** Deploys, and gives back where the Worker answers; undefined where it has no address. */
async function deploy() {
  const folder = mkdtempSync(join(tmpdir(), 'pullq-deploy-'));
  const report = join(folder, 'wrangler.ndjson');
  try {
    const { code } = await wrangler(['deploy'], { env: { WRANGLER_OUTPUT_FILE_PATH: report } });
    if (code !== 0) throw new Explained('wrangler could not deploy, see its message above.');
    const lines = existsSync(report) ? readFileSync(report, 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line)) : [];
    const target = lines.find(({ type }) => type === 'deploy')?.targets?.[0];
    // A route of a custom domain comes as "example.com (custom domain)".
    return target && (target.startsWith('http') ? target : `https://${target.split(' ')[0]}`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function secretNames() {
  const { code, output } = await wrangler(['secret', 'list', '--format', 'json'], { quiet: true });
  if (code !== 0) throw new Explained(`The Worker is deployed, but its secrets can't be listed:\n${output}`);
  return JSON.parse(output).map(({ name }) => name);
}

/** Makes a token and stores its hash as the Worker's secret. */
async function setFirstToken(account) {
  const token = newToken();
  const secret = JSON.stringify([tokenEntry(token, { name: 'first', account })]);
  const { code } = await wrangler(['secret', 'put', 'API_TOKENS'], { input: secret });
  if (code !== 0) throw new Explained('The Worker is deployed, but its secret API_TOKENS could not be set: see the message above, and run this again.');
  return token;
}

/** The exit code, and with `quiet` what was printed on stdout. */
function wrangler(args, { quiet = false, input, env = {} } = {}) {
  const child = spawn(runtimeNode(), [wranglerCli, ...args], {
    cwd: root,
    env: { ...toolEnv(), ...env },
    stdio: [input === undefined ? 'inherit' : 'pipe', quiet ? 'pipe' : 'inherit', quiet ? 'pipe' : 'inherit'],
  });
  child.stdin?.end(input);
  let output = '';
  child.stdout?.setEncoding('utf8').on('data', (text) => (output += text));
  child.stderr?.resume();
  return new Promise((done) => {
    child.on('error', (error) => done({ code: 1, output: error.message }));
    child.on('close', (code) => done({ code: code ?? 1, output }));
  });
}

function afterwards({ url, token, account }) {
  const where = url ?? 'https://…';
  const shown = token === undefined
    ? `API_TOKENS is ${inWorkersBuilds ? "the dashboard's" : 'as it was'}; npm run token makes another token.`
    : `Its first API token, shown only this once, for ${account === '*' ? 'every account' : `the account ${account}`}:\n\n${token}`;
  const id = account === '*' ? '0123456789abcdef0123456789abcdef' : account;
  return `
pullq is deployed${url === undefined ? '' : ` on ${url}`}

${shown}

The console: ${where}/console/

Try it, create a queue${account === '*' ? ' (any 32 hexadecimal digits are an account)' : ''}:

  curl ${where}/client/v4/accounts/${id}/queues -H 'Authorization: Bearer ${token ?? '…'}' -d '{"queue_name":"hello"}'
`;
}
