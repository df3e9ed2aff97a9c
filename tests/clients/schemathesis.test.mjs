// schemathesis against a running pullq: takes openapi.json at its word, sends what it allows and what
// it doesn't, and holds each answer against it.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { ACCOUNT, Api } from "../support/api.mjs";
import { DEV_TOKEN, startPullq } from "../support/pullq.mjs";
import { pythonFor } from "../support/python.mjs";

const run = promisify(execFile);
const beside = (name) => join(import.meta.dirname, name);

/** Cases that a run has at least: far fewer would mean that schemathesis stopped looking. */
const LEAST_CASES = 2_000;

/** A queue with a pull consumer, and the ids of both. */
async function furnished(api, name) {
  const queue = await api.queue({ name });
  const [{ consumer_id }] = await api.ok("GET", `${queue.path}/consumers`);
  return { queue, queue_id: queue.id, consumer_id };
}

test("every answer is one that openapi.json describes, whatever schemathesis sends", async (t) => {
  const needs = { requirements: beside("schemathesis_requirements.txt"), module: "schemathesis", version: [3, 10] };
  const python = await pythonFor(t, needs);
  if (python === undefined) return;
  const folder = await mkdtemp(join(tmpdir(), "pullq-schemathesis-"));
  const pullq = await startPullq();
  try {
    const api = new Api(pullq);
    const main = await furnished(api, "schemathesis");
    const spare = await furnished(api, "schemathesis-spare");
    const doomed = await furnished(api, "schemathesis-doomed");
    await main.queue.text("a message");
    // From a file: schemathesis leaves out the endpoint that it has the description from.
    const description = await (await fetch(`${pullq.url}/openapi.json`)).text();
    const file = join(folder, "openapi.json");
    await writeFile(file, description);
    const { stdout, stderr, error } = await run(
      join(dirname(python), "schemathesis"),
      ["--config-file", beside("schemathesis.toml"), "run", file, "--url", pullq.url, "--checks", "all", "--no-color"],
      {
        cwd: folder,
        timeout: 300_000,
        maxBuffer: 100_000_000,
        env: {
          ...process.env,
          TOKEN: DEV_TOKEN,
          ACCOUNT_ID: ACCOUNT,
          QUEUE_ID: main.queue_id,
          CONSUMER_ID: main.consumer_id,
          SPARE_QUEUE_ID: spare.queue_id,
          SPARE_CONSUMER_ID: spare.consumer_id,
          DOOMED_QUEUE_ID: doomed.queue_id,
        },
      },
    ).catch((error) => ({ ...error, error }));
    assert.equal(error, undefined, `${error?.message}\n${stdout}\n${stderr}`);
    const [, operations] = stdout.match(/^ {2}Tested: (\d+)$/m) ?? [];
    const [summary, cases, passed] = stdout.match(/^ {2}(\d+) generated, (\d+) passed.*$/m) ?? [];
    t.diagnostic(`${operations} operations, ${summary?.trim()}`);
    assert.equal(Number(operations), described(JSON.parse(description)), stdout);
    assert.equal(cases, passed, stdout);
    assert.ok(Number(cases) >= LEAST_CASES, stdout);
  } finally {
    await pullq.stop();
    await rm(folder, { recursive: true, force: true });
  }
});

/** How many operations a description has. */
function described({ paths }) {
  return Object.values(paths).reduce((count, methods) => count + Object.keys(methods).length, 0);
}
