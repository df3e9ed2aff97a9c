// The targets that run in a workerd: pullq, the floor, the naive queue.
import { join } from 'node:path';
import { root } from '../../scripts/lib/project.mjs';
import { startWorkerd } from '../../scripts/lib/workerd.mjs';
import { devAccount, devToken } from '../../scripts/lib/setup.mjs';
import { apiTokens } from '../../tests/support/pullq.mjs';
import { floorFolder } from './build.mjs';

const queuesPath = `/client/v4/accounts/${devAccount}/queues`;
const token = { name: 'bench', token: devToken, account: '*', queues: ['*'], permissions: ['queues:read', 'queues:write'] };

/**
 * What a connection pauses between an answer and its next request where there are several: about a local
 * network's round trip. workerd looks at its other connections only when the one that it has answered has
 * nothing more to read, so a generator that answers within microseconds has a few connections served and
 * the others starve until workerd closes them.
 */
const pauseMs = 1;

let made = 0;
const running = new Set();

/** Stops what is still running. */
export async function stopWorkers() {
  await Promise.all([...running].map((server) => server.stop()));
  running.clear();
}

/** pullq as it was built. `settings` are further text bindings, `build` is another build's folder. */
export async function startPullq(folder, settings = {}, { build, name = 'pullq' } = {}) {
  const server = await startWorkerd({ bindings: { API_TOKENS: apiTokens([token]), ...settings }, storage: join(folder, 'pullq'), build });
  const call = (method, path, body) => callApi(server, method, path, body);
  return {
    ...workerTarget(name, server, 'queue'),
    async newQueue(consumer = {}) {
      const { queue_id: id } = await call('POST', '', { queue_name: `bench-${process.pid}-${++made}` });
      await call('POST', `/${id}/consumers`, { type: 'http_pull', ...consumer });
      return { path: `${queuesPath}/${id}`, remove: () => call('DELETE', `/${id}`) };
    },
  };
}

/** The naive queue: see bench/naive. */
export async function startNaive(folder, settings = {}) {
  const naive = join(root, 'bench', 'naive');
  const server = await startWorkerd({
    build: naive, wrangler: join(naive, 'wrangler.toml'), storage: join(folder, 'naive'), bindings: { TOKEN: devToken, ...settings },
  });
  return {
    ...workerTarget('naive', server, 'queue'),
    newQueue: async () => ({ path: `${queuesPath}/bench-${++made}` }),
    // It has no long poll.
    cannot: ['hand-over'],
  };
}

/** The floor's two objects, in one workerd: see bench/floor. */
export async function startFloors(folder) {
  const server = await startWorkerd({ build: join(floorFolder, 'build'), wrangler: join(floorFolder, 'wrangler.toml'), storage: join(folder, 'floor') });
  return ['row', 'nothing'].map((what) => ({
    ...workerTarget(what, server, 'bare'),
    newQueue: async () => ({ path: `/${what}/${++made}` }),
    cannot: ['drain', 'cycle', 'hand-over'],
  }));
}

function workerTarget(name, server, protocol) {
  running.add(server);
  return {
    name,
    server,
    pauseMs,
    cannot: [],
    get flags() {
      return { target: protocol, address: server.url.slice('http://'.length), token: devToken };
    },
    pid: () => server.pid,
    async stop() {
      running.delete(server);
      await server.stop();
    },
  };
}

/** A call of the API on its queues; its answer's `result`, or with `whole` the answer. */
export async function callApi(server, method, path, body, { whole = false } = {}) {
  const response = await fetch(`${server.url}${path.startsWith(queuesPath) ? '' : queuesPath}${path}`, {
    method,
    headers: { authorization: `Bearer ${devToken}`, 'content-type': 'application/json' },
    body: body && JSON.stringify(body),
    signal: AbortSignal.timeout(60_000),
  });
  const answer = await response.json();
  if (!answer.success) throw new Error(`${method} ${path}: ${response.status} ${JSON.stringify(answer.errors)}`);
  return whole ? { result: answer.result, headers: response.headers } : answer.result;
}
