// A Worker that takes orders over HTTP, queues them in pullq through a service binding, and works them off
// once a minute. Some other consumer could as well be pulling from the same queue over HTTP.
import { PullqError, pullQueue, type Fetcher } from 'pullq/binding';

interface Env {
  PULLQ: Fetcher;
  PULLQ_ACCOUNT: string;
  PULLQ_QUEUE_ID: string;
  PULLQ_TOKEN: string;
}

interface Order {
  image: string;
  width: number;
}

function orders(env: Env) {
  return pullQueue<Order>(env.PULLQ, { account: env.PULLQ_ACCOUNT, queueId: env.PULLQ_QUEUE_ID, token: env.PULLQ_TOKEN });
}

export default {
  /** POST / takes one order or a list of them; POST /work does what the clock does; GET / says how many wait. */
  async fetch(request: Request, env: Env): Promise<Response> {
    const queue = orders(env);
    try {
      if (request.method === 'GET') return Response.json(await queue.metrics());
      if (new URL(request.url).pathname === '/work') return Response.json(await work(env));
      const body = (await request.json()) as Order | Order[];
      const sent = Array.isArray(body) ? await queue.sendBatch(body.map((order) => ({ body: order }))) : await queue.send(body);
      return Response.json({ waiting: sent.metadata.metrics.backlogCount }, { status: 202 });
    } catch (error) {
      if (!(error instanceof PullqError)) throw error;
      return Response.json({ code: error.code, message: error.message }, { status: error.status });
    }
  },

  async scheduled(_controller: unknown, env: Env): Promise<void> {
    await work(env);
  },
};

/** Works off what is there, a batch at a time. An order that fails is tried again a minute later. */
async function work(env: Env): Promise<{ done: number; failed: number }> {
  const queue = orders(env);
  const total = { done: 0, failed: 0 };
  for (;;) {
    const { messages } = await queue.pull({ batchSize: 10, visibilityTimeoutMs: 60_000 });
    if (messages.length === 0) return total;
    const results = await Promise.allSettled(messages.map(({ body }) => makeThumbnail(body)));
    const ended = (status: string) => messages.filter((_, index) => results[index]?.status === status);
    const [done, failed] = [ended('fulfilled'), ended('rejected')];
    if (done.length > 0) await queue.ack(done);
    if (failed.length > 0) await queue.retry(failed, { delaySeconds: 60 });
    total.done += done.length;
    total.failed += failed.length;
  }
}

/** Where the work would be done. */
async function makeThumbnail({ image, width }: Order): Promise<string> {
  if (!(width > 0)) throw new Error(`${image} can't be ${width} wide`);
  return `${image}@${width}`;
}
