// What a message costs: rows written for its whole life, as the platform counts
// and bills them, alarms included. A count, not a time.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Api } from "../support/api.mjs";
import { startPullq } from "../support/pullq.mjs";

let pullq, api;
before(async () => {
  pullq = await startPullq({ bindings: { COUNT_ROWS: "on" } });
  api = new Api(pullq);
});
after(() => pullq?.stop());

/** Calls an endpoint of the queue and gives back its result and the rows its object has written so far. */
async function counted(queue, path, body) {
  const { status, json, headers } = await api.call("POST", `${queue.path}${path}`, body);
  assert.equal(status, 200, JSON.stringify(json));
  return { result: json.result, rows: Number(headers.get("x-pullq-rows-written")) };
}

/** Rows written for the whole life of `cycles` × `batch` messages, for each message. */
async function rowsPerMessage({ cycles, batch, life }) {
  const queue = await api.queue();
  const { rows: before } = await counted(queue, "/messages/pull", {});
  let last = before;
  for (let cycle = 0; cycle < cycles; cycle++) last = await life(queue, batch);
  return (last - before) / (cycles * batch);
}

async function sendPullAck(queue, batch) {
  const message = { body: "x".repeat(200), content_type: "text" };
  await (batch === 1
    ? counted(queue, "/messages", message)
    : counted(queue, "/messages/batch", { messages: Array(batch).fill(message) }));
  const { result } = await counted(queue, "/messages/pull", { batch_size: batch });
  assert.equal(result.messages.length, batch);
  const acks = result.messages.map(({ lease_id }) => ({ lease_id }));
  return (await counted(queue, "/messages/ack", { acks })).rows;
}

test("a message in batches of 100 costs at most 0.05 rows", async (t) => {
  const rows = await rowsPerMessage({ cycles: 10, batch: 100, life: sendPullAck });
  t.diagnostic(`${rows} rows a message in batches of 100`);
  assert.ok(rows <= 0.05, `${rows} rows`);
});

test("a message that is sent, pulled and acknowledged alone costs at most 4.1 rows", async (t) => {
  const rows = await rowsPerMessage({ cycles: 100, batch: 1, life: sendPullAck });
  t.diagnostic(`${rows} rows a message one by one`);
  assert.ok(rows <= 4.1, `${rows} rows`);
});

test("a retry costs one row more, and another pull's", async (t) => {
  const life = async (queue, batch) => {
    await counted(queue, "/messages", { body: "x" });
    const { result } = await counted(queue, "/messages/pull", { batch_size: batch });
    await counted(queue, "/messages/ack", { retries: [{ lease_id: result.messages[0].lease_id }] });
    const again = await counted(queue, "/messages/pull", { batch_size: batch });
    return (await counted(queue, "/messages/ack", { acks: [{ lease_id: again.result.messages[0].lease_id }] })).rows;
  };
  const rows = await rowsPerMessage({ cycles: 100, batch: 1, life });
  t.diagnostic(`${rows} rows a message that is retried once`);
  assert.ok(rows <= 6.1, `${rows} rows`);
});

test("a pull that brings nothing writes nothing", async () => {
  const queue = await api.queue();
  const { rows: before } = await counted(queue, "/messages/pull", {});
  for (let nth = 0; nth < 20; nth++) await counted(queue, "/messages/pull", {});
  assert.equal((await counted(queue, "/messages/pull", {})).rows, before);
});
