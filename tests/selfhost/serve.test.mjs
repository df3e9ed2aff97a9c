// `pullq` on a machine of one's own: what it prints, what it takes, and how it ends.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync, readFileSync, readdirSync, statSync } from "node:fs";
import { mkdir, mkdtemp, rm, utimes, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Api, bodies, sleep } from "../support/api.mjs";
import { DEV_TOKEN, selfhostToItsEnd, startSelfhost } from "../support/selfhost.mjs";

let folder;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "pullq-selfhost-test-"));
});
after(() => rm(folder, { recursive: true, force: true }));

const apiOf = (server, token = DEV_TOKEN) => new Api(server, { token });

/** A value of API_TOKENS that lets `token` in. */
const tokens = (token) =>
  JSON.stringify([{ name: "test", sha256: createHash("sha256").update(token).digest("hex"), account: "*", queues: ["*"], permissions: ["queues:read", "queues:write"] }]);

/** Processes whose command line has `text` in it, by id. */
function processesWith(text) {
  return readdirSync("/proc").filter((name) => /^\d+$/.test(name)).filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(text);
    } catch {
      return false;
    }
  });
}

/** Writes the lock of a storage folder as another process would have. */
async function lockFor(storage, holder) {
  const path = join(storage, "pullq.lock");
  await writeFile(path, JSON.stringify({ ...holder, file: statSync(path).ino }), { flag: "r+" });
}

const isGone = async (text, within_ms = 5_000) => {
  const end_ms = Date.now() + within_ms;
  while (processesWith(text).length > 0) {
    assert.ok(Date.now() < end_ms, `still there: ${processesWith(text)}`);
    await sleep(20);
  }
};

test("one line on stdout says where it answers, and a signal ends it with 0", async () => {
  for (const signal of ["SIGTERM", "SIGINT"]) {
    const server = await startSelfhost(["--port", "0", "--temporary", "--dev"]);
    assert.match(server.stdout[0], /^pullq ready on http:\/\/127\.0\.0\.1:\d+$/);
    const queue = await apiOf(server).queue();
    await queue.text("hello");
    assert.deepEqual(bodies(await queue.take()), ["hello"]);
    assert.deepEqual(await server.stop(signal), { code: 0, signal: null });
    assert.equal(server.stdout.length, 1, server.stdout.join("\n"));
  }
});

test("the console is served", async () => {
  const server = await startSelfhost(["--port", "0", "--temporary", "--dev"]);
  const page = await fetch(`${server.url}/`);
  assert.deepEqual([page.status, new URL(page.url).pathname, page.headers.get("content-type")], [200, "/console/", "text/html; charset=utf-8"]);
  const [, script] = (await page.text()).match(/<script[^>]* src="([^"]+)"/);
  const answer = await fetch(new URL(script, page.url));
  assert.deepEqual([answer.status, answer.headers.get("content-type").split(";")[0]], [200, "text/javascript"]);
  await server.stop();
});

test("a pull that waits doesn't hold up the end", async () => {
  const server = await startSelfhost(["--port", "0", "--temporary", "--dev"]);
  const queue = await apiOf(server).queue();
  const waiting = queue.pull({ wait_ms: 60_000 }).catch(() => "cut off");
  await sleep(200);
  const from_ms = performance.now();
  assert.equal((await server.stop()).code, 0);
  assert.ok(performance.now() - from_ms < 4_000);
  assert.equal(await waiting, "cut off");
});

test("the folder keeps everything from one start to the next, and a temporary one is deleted", async () => {
  const storage = join(folder, "kept");
  const first = await startSelfhost(["--port", "0", "--storage", storage, "--dev"]);
  const queue = await apiOf(first).queue({ name: "kept" });
  await queue.texts(["1", "2"]);
  await first.stop();
  const second = await startSelfhost(["--port", "0", "--storage", storage, "--dev"]);
  const again = apiOf(second);
  const [{ queue_id }] = await again.ok("GET", "/queues?name=kept");
  assert.deepEqual(bodies((await again.ok("POST", `/queues/${queue_id}/messages/pull`, {})).messages), ["1", "2"]);
  await second.stop();

  const temporary = join(folder, "temporary");
  await mkdir(temporary);
  for (const signal of ["SIGTERM", "SIGKILL"]) {
    const third = await startSelfhost(["--port", "0", "--temporary", "--dev"], { env: { TMPDIR: temporary } });
    assert.deepEqual(readdirSync(temporary).map((name) => name.replace(/-\w+$/, "")).sort(), ["pullq-storage", "pullq-workerd"]);
    await third.stop(signal);
    await isGone(temporary);
    assert.deepEqual(readdirSync(temporary), [], signal);
  }
});

test("a second one on the same folder is refused, and the first goes on", async () => {
  const storage = join(folder, "shared");
  const first = await startSelfhost(["--port", "0", "--storage", storage, "--dev"]);
  const second = await selfhostToItsEnd(["--port", "0", "--storage", storage, "--dev"]);
  assert.deepEqual([second.code, second.stdout], [1, ""]);
  assert.match(second.stderr, new RegExp(`is in use by another pullq \\(process ${first.child.pid} on .*\\)`));
  await apiOf(first).queue();
  assert.equal((await first.stop()).code, 0);
});

test("killed, it takes workerd with it, and the next one finds the lock of nobody", async () => {
  const storage = join(folder, "killed");
  const first = await startSelfhost(["--port", "0", "--storage", storage, "--dev"]);
  const queue = await apiOf(first).queue({ name: "survivor" });
  await queue.text("kept");
  await first.stop("SIGKILL");
  await isGone(`--directory-path=disk=${storage}`);
  const second = await startSelfhost(["--port", "0", "--storage", storage, "--dev"]);
  assert.equal((await apiOf(second).ok("GET", "/queues?name=survivor")).length, 1);
  await second.stop();
});

test("a lock of another process that has got the same number since is nobody's", async () => {
  const storage = join(folder, "recycled");
  await (await startSelfhost(["--port", "0", "--storage", storage, "--dev"])).stop();
  await lockFor(storage, { pid: process.pid, started: "long ago", host: hostname() });
  assert.equal((await (await startSelfhost(["--port", "0", "--storage", storage, "--dev"])).stop()).code, 0);
});

test("another machine's lock holds while its time is fresh", async () => {
  const storage = join(folder, "elsewhere");
  await (await startSelfhost(["--port", "0", "--storage", storage, "--dev"])).stop();
  await lockFor(storage, { pid: 1, started: "x", host: "another-container" });
  const refused = await selfhostToItsEnd(["--port", "0", "--storage", storage, "--dev"]);
  assert.match(refused.stderr, /process 1 on another-container/);
  const old = new Date(Date.now() - 60_000);
  await utimes(join(storage, "pullq.lock"), old, old);
  assert.equal((await (await startSelfhost(["--port", "0", "--storage", storage, "--dev"])).stop()).code, 0);
});

test("when workerd ends by itself, so does pullq, with 1 and the reason", async () => {
  const storage = join(folder, "dying");
  const server = await startSelfhost(["--port", "0", "--storage", storage, "--dev"]);
  const [pid] = processesWith(`--directory-path=disk=${storage}`);
  process.kill(Number(pid), "SIGKILL");
  assert.equal((await server.ended).code, 1);
  assert.match(server.stderr, /workerd ended by itself \(SIGKILL\)\. The last it said:/);
});

test("without a token nobody gets in, and it says how to change that", async () => {
  const server = await startSelfhost(["--port", "0", "--temporary"]);
  const { status, json } = await apiOf(server).call("GET", "/queues");
  assert.deepEqual([status, json.errors[0].code], [401, 10000]);
  await server.stop();
  assert.match(server.stderr, /nobody gets in yet, since no token is set\. Make one with\s+npm run token -- --name/);
});

test("tokens and settings come from the environment, or from a file, which wins", async () => {
  const file = join(folder, "settings");
  await writeFile(file, `# a comment\nAPI_TOKENS='${tokens("of the file")}'\nJSON_BODIES=text\nNO_SETTING=1\n`);
  const env = { API_TOKENS: tokens("of the environment"), CORS_ORIGINS: "*" };

  const first = await startSelfhost(["--port", "0", "--temporary"], { env });
  assert.equal((await apiOf(first, "of the environment").call("GET", "/queues")).status, 200);
  assert.equal((await apiOf(first).call("GET", "/queues")).status, 401);
  await first.stop();
  assert.doesNotMatch(first.stderr, /nobody gets in/);

  const second = await startSelfhost(["--port", "0", "--temporary", "--env", file], { env });
  assert.equal((await apiOf(second, "of the environment").call("GET", "/queues")).status, 401);
  const api = apiOf(second, "of the file");
  const queue = await api.queue();
  await queue.send({ body: { a: 1 } });
  assert.deepEqual(bodies(await queue.take()), ['{"a":1}'], "JSON_BODIES of the file");
  const answer = await fetch(`${second.url}/openapi.json`, { headers: { origin: "https://example.com" } });
  assert.equal(answer.headers.get("access-control-allow-origin"), "*", "CORS_ORIGINS of the environment");
  await second.stop();
  assert.match(second.stderr, /pullq has no setting NO_SETTING/);
});

test("--dev opens both faces", async () => {
  const server = await startSelfhost(["--port", "0", "--temporary", "--dev"], { env: { API_TOKENS: tokens("another") } });
  const event = { specversion: "1.0", type: "t", source: "/s", subject: "orders", data: 1 };
  const answer = await fetch(`${server.url}/ce/queue/send`, {
    method: "POST", body: JSON.stringify(event), headers: { "content-type": "application/cloudevents+json" },
  });
  assert.equal(answer.status, 202, await answer.text());
  assert.equal((await apiOf(server).call("GET", "/queues")).status, 200);
  await server.stop();
});

test("a port that is taken, an option that isn't one, a folder that can't be: a sentence each, and 1", async () => {
  const other = createServer().listen(0, "127.0.0.1");
  await once(other, "listening");
  await writeFile(join(folder, "a file"), "");
  const cases = [
    [["--port", String(other.address().port), "--temporary"], /^Port \d+ of 127\.0\.0\.1 can't be used \(is pullq running already\?\): choose another with --port, or 0 for a free one\.$/m],
    [["--port", "70000"], /--port must be a number from 0 to 65535, not 70000/],
    [["--unknown"], /Unknown option '--unknown'/],
    [["--temporary", "--storage", "x"], /--temporary and --storage exclude each other/],
    [["--env", join(folder, "missing")], /There is no file/],
    [["--storage", join(folder, "a file")], /The storage folder can't be used/],
  ];
  for (const [args, expected] of cases) {
    const { code, stdout, stderr } = await selfhostToItsEnd(args, { cwd: folder });
    assert.deepEqual([code, stdout], [1, ""], `${args}\n${stderr}`);
    assert.match(stderr, expected);
  }
  other.close();
});

test("--help and token say their piece without starting anything", async () => {
  const help = await selfhostToItsEnd(["--help"]);
  assert.equal(help.code, 0);
  assert.match(help.stdout, /--temporary/);
  const token = await selfhostToItsEnd(["token", "--name", "ci", "--account", "*"], { cwd: folder });
  assert.equal(token.code, 0, token.stderr);
  assert.match(token.stdout, /pullq_[\w-]{43}/);
  assert.equal(existsSync(join(folder, "pullq-data")), false);
});
