// Getting in: the command that makes tokens, secrets that go on in others, what
// slows down whoever guesses, and pages of other origins.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { ACCOUNT, Api, OTHER_ACCOUNT } from "../support/api.mjs";
import { DEV, DEV_TOKEN, apiTokens, startPullq } from "../support/pullq.mjs";

const ROOT = resolve(fileURLToPath(import.meta.url), "../../..");

async function withPullq(options, body) {
  const pullq = await startPullq(options);
  try {
    await body(pullq);
  } finally {
    await pullq.stop();
  }
}

/** Runs the command; `existing` becomes the file it reads the present tokens from. */
function makeToken(args, existing = "") {
  const folder = mkdtempSync(join(tmpdir(), "pullq-token-"));
  try {
    const file = join(folder, "existing");
    writeFileSync(file, existing);
    const { status, stdout, stderr } = spawnSync(process.execPath, ["scripts/token.mjs", ...args, "--existing", file], { cwd: ROOT, encoding: "utf8" });
    const line = (pattern) => stdout.split("\n").find((line) => pattern.test(line));
    return { status, stdout, stderr, token: line(/^pullq_/), secret: line(/^\[/) };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test("a token that the command makes gets in with what was asked for, and no further", async () => {
  const args = ["--name", "billing", "--account", ACCOUNT, "--queues", "invoices, mail-*", "--permissions", "write,read"];
  const { status, stdout, token, secret } = makeToken(args, apiTokens([DEV]));
  assert.equal(status, 0);
  assert.match(token, /^pullq_[A-Za-z0-9_-]{43}$/);
  assert.ok(!secret.includes(token));
  assert.match(stdout, /wrangler secret put API_TOKENS/);
  await withPullq({ bindings: { API_TOKENS: secret } }, async (pullq) => {
    const billing = new Api(pullq, { token });
    await (await billing.queue({ name: "invoices" })).text("1");
    assert.equal((await billing.call("POST", "/queues", { queue_name: "orders" })).status, 403);
    assert.equal((await new Api(pullq, { token, account: OTHER_ACCOUNT }).call("GET", "/queues")).status, 403);
    // The token that was there before is there still.
    assert.equal((await new Api(pullq).call("GET", "/queues")).status, 200);
  });
});

test("the command makes another token each time, and takes the present ones in both forms", () => {
  const args = ["--name", "new", "--account", "*"];
  const [one, other] = [makeToken(args), makeToken(args)];
  assert.notEqual(one.token, other.token);
  assert.deepEqual(JSON.parse(one.secret)[0], {
    name: "new",
    sha256: JSON.parse(one.secret)[0].sha256,
    account: "*",
    queues: ["*"],
    permissions: ["queues:read", "queues:write"],
  });
  const names = ({ secret }) => JSON.parse(secret).map(({ name }) => name);
  assert.deepEqual(names(makeToken(args, apiTokens([DEV]))), ["dev", "new"]);
  assert.deepEqual(names(makeToken(args, `# a comment\nAPI_TOKENS='${apiTokens([DEV])}'\nOTHER=1\n`)), ["dev", "new"]);
});

test("the development token, which everybody knows, never gets into a new secret", () => {
  const known = apiTokens([{ ...DEV, token: "dev-token" }]);
  const { secret, stdout } = makeToken(["--name", "new", "--account", "*"], known);
  assert.deepEqual(JSON.parse(secret).map(({ name }) => name), ["new"]);
  assert.match(stdout, /without the development token/);
});

test("the command says when a secret is too small for its tokens", () => {
  const many = Array.from({ length: 30 }, (_, number) => ({ ...DEV, name: `token-${number}`, token: `${number}` }));
  assert.match(makeToken(["--name", "new", "--account", "*"], apiTokens(many)).stdout, /API_TOKENS_2/);
});

test("the command refuses what makes no token, with a sentence and without a stack", () => {
  const good = ["--name", "a", "--account", "*"];
  for (const [args, says] of [
    [[], /--name is missing/],
    [["--name", "a"], /--account is missing/],
    [["--name", " ", "--account", "*"], /--name is missing/],
    [["--name", "a", "--account", "mine"], /32 hexadecimal digits/],
    [[...good, "--permissions", "admin"], /--permissions must be/],
    [[...good, "--permissions", ","], /--permissions must be/],
    [[...good, "--queues", ","], /--queues names no queue/],
    [[...good, "--colour", "red"], /--colour/],
  ]) {
    const { status, stdout, stderr } = makeToken(args);
    assert.equal(status, 1, args.join(" "));
    assert.equal(stdout, "");
    assert.match(stderr, says);
    assert.doesNotMatch(stderr, /at .*token\.mjs/);
  }
  assert.match(makeToken(["--name", "dev", "--account", "*"], apiTokens([DEV])).stderr, /has a token called dev already/);
  for (const existing of ["[1]", "[", "API_TOKENS='{}'"]) assert.equal(makeToken(good, existing).status, 1, existing);
});

test("tokens that one secret can't hold go on in API_TOKENS_2 and API_TOKENS_3", async () => {
  const token = (name) => ({ ...DEV, name, token: `token-${name}` });
  const bindings = { API_TOKENS_2: apiTokens([token("second")]), API_TOKENS_3: apiTokens([token("third")]), API_TOKENS_5: apiTokens([token("fifth")]) };
  await withPullq({ bindings }, async (pullq) => {
    const get = async (token) => (await new Api(pullq, { token }).call("GET", "/queues")).status;
    assert.equal(await get(DEV_TOKEN), 200);
    assert.equal(await get("token-second"), 200);
    assert.equal(await get("token-third"), 200);
    assert.equal(await get("token-fifth"), 401, "there is no fourth");
  });
  await withPullq({ bindings: { API_TOKENS_2: "[{}]" } }, async (pullq) => {
    const { status, json } = await new Api(pullq).call("GET", "/queues");
    assert.equal(status, 401);
    assert.match(json.errors[0].message, /API_TOKENS_2/);
  });
});

test("ten wrong tokens in a minute slow an address down, and nobody else", async () => {
  await withPullq({ bindings: { WRONG_TOKENS_PER_MINUTE: "10" } }, async (pullq) => {
    const get = (token, address) => new Api(pullq, { token }).call("GET", "/queues", undefined, { "cf-connecting-ip": address });
    const [guesser, neighbour] = ["192.0.2.1", "192.0.2.2"];
    for (let number = 0; number < 30; number++) assert.equal((await get(null, guesser)).status, 401, "no guess");
    for (let number = 0; number < 10; number++) assert.equal((await get(`guess-${number}`, guesser)).status, 401, `${number}`);
    const { status, headers, json } = await get("guess", guesser);
    assert.deepEqual([status, json.errors[0].code], [429, 10000]);
    const after_s = Number(headers.get("retry-after"));
    assert.ok(after_s >= 1 && after_s <= 60, `${after_s}`);
    assert.equal((await get(DEV_TOKEN, guesser)).status, 429, "not looked at: it might be a guess");
    assert.equal((await get(DEV_TOKEN, neighbour)).status, 200);
  });
});

test("a token that was right from an address goes on while a neighbour guesses there", async () => {
  await withPullq({ bindings: { WRONG_TOKENS_PER_MINUTE: "3" } }, async (pullq) => {
    const get = async (token) => (await new Api(pullq, { token }).call("GET", "/queues")).status;
    assert.equal(await get(DEV_TOKEN), 200);
    for (let number = 0; number < 3; number++) assert.equal(await get("wrong"), 401);
    assert.equal(await get("wrong"), 429);
    assert.equal(await get(DEV_TOKEN), 200);
  });
});

const PAGE = "https://console.example.com";
const CORS = ["access-control-allow-origin", "access-control-allow-methods", "access-control-allow-headers", "access-control-expose-headers", "access-control-max-age"];

async function fromPage(pullq, method, headers = {}) {
  const response = await fetch(`${pullq.url}/client/v4/accounts/${ACCOUNT}/queues`, {
    method,
    headers: { origin: PAGE, authorization: `Bearer ${DEV_TOKEN}`, ...headers },
  });
  const cors = Object.fromEntries(CORS.map((name) => [name, response.headers.get(name)]).filter(([, value]) => value !== null));
  return { status: response.status, text: await response.text(), vary: response.headers.get("vary"), cors };
}

/** fetch forbids pages these headers; Node's doesn't know of pages. */
const PREFLIGHT = { "access-control-request-method": "POST", "access-control-request-headers": "authorization,content-type", authorization: "" };

test("pages of other origins may not ask unless the deployment says so", async () => {
  await withPullq({}, async (pullq) => {
    for (const [method, headers, expected] of [["GET", {}, 200], ["OPTIONS", PREFLIGHT, 405]]) {
      const { status, cors, vary } = await fromPage(pullq, method, headers);
      assert.deepEqual([status, cors, vary], [expected, {}, null], method);
    }
  });
});

test("pages that CORS_ORIGINS names may ask, and others may not", async () => {
  const exposed = { "access-control-expose-headers": "retry-after, x-should-retry, allow" };
  for (const [CORS_ORIGINS, allowed, vary] of [
    [`https://a.example, ${PAGE}`, PAGE, "origin"],
    ["*", "*", null],
    ["https://a.example", null, "origin"],
  ]) {
    await withPullq({ bindings: { CORS_ORIGINS } }, async (pullq) => {
      const answers = allowed === null ? {} : { "access-control-allow-origin": allowed, ...exposed };
      const got = await fromPage(pullq, "GET");
      assert.deepEqual([got.status, got.cors, got.vary], [200, answers, vary], CORS_ORIGINS);
      assert.equal(JSON.parse(got.text).success, true);
      const refused = await fromPage(pullq, "GET", { authorization: "Bearer wrong" });
      assert.deepEqual([refused.status, refused.cors], [401, answers], "a page may read why");

      const preflight = await fromPage(pullq, "OPTIONS", PREFLIGHT);
      if (allowed === null) {
        assert.deepEqual([preflight.status, preflight.cors], [405, {}]);
      } else {
        assert.deepEqual([preflight.status, preflight.text], [204, ""]);
        assert.deepEqual(preflight.cors, {
          ...answers,
          "access-control-allow-methods": "GET, POST, PUT, PATCH, DELETE",
          "access-control-allow-headers": "authorization,content-type",
          "access-control-max-age": "7200",
        });
      }
    });
  }
});
