// Starts pullq for a test suite: on a port of its own, its storage deleted at the end.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Queue } from './consumer.ts';

/** `npx pullq --dev` takes this token, and any 32 hexadecimal digits for an account. */
const token = 'dev-token';
const account = '0123456789abcdef0123456789abcdef';

export async function startPullq() {
  const server = spawn('npx', ['pullq', '--port', '0', '--temporary', '--dev'], { stdio: ['ignore', 'pipe', 'inherit'] });
  // npx passes no signal on; pullq notices that it is gone, and holds this end of stdout until it has ended itself.
  const ended = once(server, 'close');
  const [line] = await Promise.race([
    once(createInterface({ input: server.stdout }), 'line'),
    ended.then(([code]) => Promise.reject(new Error(`pullq ended with ${code} before it was ready`))),
  ]);
  const url = String(line).replace('pullq ready on ', '');

  return {
    /** A new queue with a pull consumer. */
    async queue(name: string): Promise<Queue> {
      const queues = `${url}/client/v4/accounts/${account}/queues`;
      const { queue_id } = await call<{ queue_id: string }>('POST', queues, { queue_name: name });
      await call('POST', `${queues}/${queue_id}/consumers`, { type: 'http_pull', settings: { max_retries: 3 } });
      return { url: `${queues}/${queue_id}`, token };
    },

    send: (queue: Queue, body: unknown) => call('POST', `${queue.url}/messages`, { body }),

    /** How many messages are not acknowledged yet. */
    async backlog(queue: Queue): Promise<number> {
      return (await call<{ backlog_count: number }>('GET', `${queue.url}/metrics`)).backlog_count;
    },

    /** Resolves when pullq has ended and its storage is deleted. */
    async stop(): Promise<void> {
      server.kill('SIGTERM');
      await ended;
    },
  };
}

async function call<Result>(method: string, url: string, body?: unknown): Promise<Result> {
  const response = await fetch(url, {
    method,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const { success, errors, result } = (await response.json()) as { success: boolean; errors: unknown; result: Result };
  if (!success) throw new Error(`${method} ${url}: ${JSON.stringify(errors)}`);
  return result;
}
