// With LOG_REQUESTS=on each request is one line of JSON, and nothing of a client's own is in it.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { startWorkerd } from "../../scripts/lib/workerd.mjs";
import { ACCOUNT, Api, sleep } from "../support/api.mjs";
import { DEV, apiTokens } from "../support/pullq.mjs";

const SECRET_BODY = "a body that nobody logs";
let server, api, printed;
before(async () => {
  printed = "";
  server = await startWorkerd({
    bindings: { API_TOKENS: apiTokens([DEV]), CLOUDEVENTS_ACCOUNT: ACCOUNT, CLOUDEVENTS_AUTH: "off", LOG_REQUESTS: "on" },
    onOutput: (text) => (printed += text),
  });
  api = new Api(server);
});
after(() => server?.stop());

/** The lines that were logged, once there are so many. */
async function lines(count) {
  for (let tries = 0; tries < 100; tries++) {
    const found = printed.split("\n").filter((line) => line.includes('"operation"'));
    if (found.length >= count) return found.map((line) => JSON.parse(line.slice(line.indexOf("{"))));
    await sleep(20);
  }
  assert.fail(`not ${count} lines:\n${printed}`);
}

test("every request is logged with its operation, queue, status and duration, whatever it is", async () => {
  const queue = await api.queue();
  await queue.text(SECRET_BODY);
  await queue.settle({ acks: await queue.take() });
  await api.call("POST", `${queue.path}/messages/pull`, { batch_size: 0 });
  await new Api(server, { token: "a-wrong-token-nobody-logs" }).call("GET", "/queues");
  await fetch(`${server.url}/ce/queue/receive?channel=${queue.name}&client_id=somebody`, { method: "POST" });
  await fetch(`${server.url}/console/`);
  await fetch(`${server.url}/metrics?account=${ACCOUNT}`, { headers: { authorization: `Bearer ${DEV.token}` } });
  await fetch(`${server.url}/somewhere?token=${DEV.token}`);
  const logged = await lines(11);
  const of = { account: ACCOUNT, queue: queue.id };
  assert.deepEqual(logged.map(({ duration_ms, ...line }) => line), [
    { operation: "createQueue", account: ACCOUNT, status: 200 },
    { operation: "createConsumer", ...of, status: 200 },
    { operation: "sendMessage", ...of, status: 200 },
    { operation: "pullMessages", ...of, status: 200 },
    { operation: "settleMessages", ...of, status: 200 },
    { operation: "pullMessages", ...of, status: 400 },
    { operation: "listQueues", account: ACCOUNT, status: 401 },
    { operation: "receiveEvents", status: 200 },
    { operation: "console", status: 200 },
    { operation: "metrics", status: 200 },
    { operation: "unknown", status: 404 },
  ]);
  for (const { duration_ms } of logged) assert.ok(duration_ms >= 0 && duration_ms < 20_000);
  for (const secret of [SECRET_BODY, DEV.token, "a-wrong-token-nobody-logs", "somebody"]) assert.ok(!printed.includes(secret), secret);
});
