// wrangler against a running pullq: every `wrangler queues` command, in the order in which somebody
// would use them, and what it prints. A home of its own, so that nothing of the user's is read or written.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { ACCOUNT, Api, UNKNOWN_ID, bodies } from "../support/api.mjs";
import { DEV_TOKEN, startPullq } from "../support/pullq.mjs";

const BIN = resolve(import.meta.dirname, "../../node_modules/.bin");

let pullq, api, home;
before(async () => {
  home = await mkdtemp(join(tmpdir(), "pullq-wrangler-"));
  pullq = await startPullq({ bindings: { CLOUDEVENTS_ACCOUNT: ACCOUNT } });
  api = new Api(pullq);
});
after(async () => {
  await pullq?.stop();
  await rm(home, { recursive: true, force: true });
});

const WITH_TOKEN = { CLOUDFLARE_API_TOKEN: DEV_TOKEN, CLOUDFLARE_ACCOUNT_ID: ACCOUNT };

/** Runs `wrangler queues …` and gives back its exit code and all that it printed. */
function queues(command, credentials = WITH_TOKEN) {
  const env = {
    PATH: BIN + delimiter + process.env.PATH,
    HOME: home,
    XDG_CONFIG_HOME: join(home, "config"),
    CI: "1",
    NO_COLOR: "1",
    WRANGLER_SEND_METRICS: "false",
    WRANGLER_HIDE_BANNER: "true",
    CLOUDFLARE_API_BASE_URL: `${pullq.url}/client/v4`,
    ...credentials,
  };
  return new Promise((resolve) => {
    execFile(join(BIN, "wrangler"), ["queues", ...command.split(" ")], { env, cwd: home, timeout: 60_000 }, (error, stdout, stderr) =>
      resolve({ code: error ? error.code : 0, output: stdout + stderr }),
    );
  });
}

/** What a command that must succeed prints. */
async function printed(command, credentials) {
  const { code, output } = await queues(command, credentials);
  assert.equal(code, 0, `wrangler queues ${command}\n${output}`);
  return output;
}

/** What a command prints that must fail. */
async function complained(command, credentials) {
  const { code, output } = await queues(command, credentials);
  assert.equal(code, 1, `wrangler queues ${command}\n${output}`);
  return output;
}

/** The rows of a printed table, each a list of its cells; the first row is the head. */
function table(output) {
  const rows = output.split("\n").filter((line) => line.startsWith("│"));
  return rows.map((line) => line.split("│").slice(1, -1).map((cell) => cell.trim()));
}

test("a queue is made with settings, shown, changed, paused, resumed, purged and deleted", async () => {
  assert.match(await printed("create mail --delivery-delay-secs 7 --message-retention-period-secs 600"), /Created queue 'mail'/);
  const [made] = await api.ok("GET", "/queues?name=mail");
  assert.deepEqual(made.settings, { delivery_delay: 7, delivery_paused: false, message_retention_period: 600 });
  assert.match(await complained("create mail"), /A queue of this name already exists in this account\..*\[code: 11009\]/);
  // A name that begins like it must not be taken for it.
  assert.match(await printed("create mail-2"), /Created queue 'mail-2'/);

  const info = await printed("info mail");
  for (const line of ["Queue Name: mail", `Queue ID: ${made.queue_id}`, `Created On: ${made.created_on}`, "Number of Producers: 0", "Number of Consumers: 0"]) {
    assert.ok(info.split("\n").includes(line), `${line} in ${info}`);
  }
  const [head, ...rows] = table(await printed("list"));
  assert.deepEqual(head, ["id", "name", "created_on", "modified_on", "producers", "consumers"]);
  const [mail] = rows.filter(([, name]) => name === "mail");
  assert.deepEqual([mail, rows.length], [[made.queue_id, "mail", made.created_on, made.modified_on, "0", "0"], 2]);
  assert.deepEqual(table(await printed("list --page 2")), []);

  assert.match(await printed("update mail --delivery-delay-secs 0"), /Updated queue mail\./);
  assert.match(await printed("pause-delivery mail"), /Paused message delivery for queue mail\./);
  const settings = { delivery_delay: 0, delivery_paused: true, message_retention_period: 600 };
  assert.deepEqual((await api.ok("GET", `/queues/${made.queue_id}`)).settings, settings);
  assert.match(await printed("resume-delivery mail"), /Resumed message delivery for queue mail\./);
  assert.deepEqual((await api.ok("GET", `/queues/${made.queue_id}`)).settings, { ...settings, delivery_paused: false });

  await api.ok("POST", `/queues/${made.queue_id}/messages`, { body: "1", content_type: "text" });
  assert.match(await printed("purge mail --force"), /Purged Queue 'mail'/);
  assert.equal((await api.ok("GET", `/queues/${made.queue_id}/metrics`)).backlog_count, 0);

  assert.match(await printed("delete mail"), /Deleted queue mail\./);
  assert.match(await complained("info mail"), /Queue "mail" does not exist/);
  assert.match(await complained("delete mail"), /Queue "mail" does not exist/);
  assert.deepEqual((await api.ok("GET", "/queues")).map(({ queue_name }) => queue_name), ["mail-2"]);
});

test("a pull consumer is added with its settings, listed, shown and removed", async () => {
  const queue = await api.queue({ name: "jobs", consumer: null });
  assert.match(await printed("consumer list jobs"), /No consumers found for queue "jobs"\./);
  const add = "consumer http add jobs --batch-size 50 --message-retries 2 --dead-letter-queue dead --visibility-timeout-secs 60 --retry-delay-secs 5";
  assert.match(await printed(add), /Added consumer to queue jobs\./);
  const [{ consumer_id }] = await api.ok("GET", `${queue.path}/consumers`);
  const expected = [
    ["consumer_id", "dead_letter_queue", "batch_size", "max_retries", "visibility_timeout_ms", "retry_delay"],
    [consumer_id, "dead", "50", "2", "60000", "5"],
  ];
  assert.deepEqual(table(await printed("consumer http list jobs")), expected);
  const all = await printed("consumer list jobs");
  assert.match(all, /HTTP pull consumers:/);
  assert.deepEqual(table(all), expected);
  assert.match(await printed("consumer worker list jobs"), /No worker consumers found for queue "jobs"\./);
  const info = await printed("info jobs");
  assert.match(info, /^Number of Consumers: 1$/m);
  assert.match(info, /^Consumers: HTTP Pull Consumer\.$/m);
  assert.match(info, new RegExp(`/accounts/${ACCOUNT}/queues/${queue.id}/messages/pull"`));
  await queue.text("1");
  assert.deepEqual(bodies(await queue.take()), ["1"]);

  assert.match(await complained("consumer http add jobs"), /already has a consumer.*\[code: 11004\]/);
  assert.match(await printed("consumer http remove jobs"), /Removed consumer from queue jobs\./);
  assert.match(await complained("consumer http remove jobs"), /No http_pull consumer exists for queue jobs/);
  assert.deepEqual(await api.ok("GET", `${queue.path}/consumers`), []);
});

test("a Worker as consumer is refused with the reason, in both spellings", async () => {
  await api.queue({ name: "workers", consumer: null });
  for (const command of ["consumer worker add workers my-worker", "consumer add workers my-worker"]) {
    assert.match(await complained(command), /pullq serves pull consumers only.*\[code: 10026\]/);
  }
  for (const command of ["consumer worker remove workers my-worker", "consumer remove workers my-worker"]) {
    assert.match(await complained(command), /No worker consumer 'my-worker' exists for queue workers/);
  }
});

test("event subscriptions are none, and making one is refused with the reason", async () => {
  await api.queue({ name: "events", consumer: null });
  assert.match(await printed("subscription list events"), /No event subscriptions found for queue 'events'\./);
  assert.deepEqual(JSON.parse(await printed("subscription list events --json")), []);
  const create = await complained("subscription create events --source r2 --events bucket.created");
  assert.match(create, /Events of Cloudflare's services don't reach a self-hosted queue.*\[code: 19004\]/);
  for (const command of [
    `subscription get events --id ${UNKNOWN_ID}`,
    `subscription update events --id ${UNKNOWN_ID} --enabled false`,
    `subscription delete events --id ${UNKNOWN_ID} --force`,
  ]) {
    assert.match(await complained(command), /There is no event subscription with this id\. \[code: 19005\]/);
  }
});

test("without an account id wrangler asks for the token's accounts, and finds the deployment's own", async () => {
  await api.queue({ name: "found", consumer: null });
  assert.ok(table(await printed("list", { CLOUDFLARE_API_TOKEN: DEV_TOKEN })).some(([, name]) => name === "found"));
});

test("an API key with an email does as well, and a wrong token is told so", async () => {
  await api.queue({ name: "keyed", consumer: null });
  const key = { CLOUDFLARE_API_KEY: DEV_TOKEN, CLOUDFLARE_EMAIL: "me@example.com", CLOUDFLARE_ACCOUNT_ID: ACCOUNT };
  assert.match(await printed("info keyed", key), /^Queue Name: keyed$/m);
  const wrong = await complained("list", { ...WITH_TOKEN, CLOUDFLARE_API_TOKEN: "wrong" });
  assert.match(wrong, /Authentication error: this API token is not known here\..*\[code: 10000\]/s);
});
