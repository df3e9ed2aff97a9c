// `npm run deploy`, with the real wrangler: against a stand-in for Cloudflare's API on this machine, and as
// a dry run. And Rust's installation in Workers Builds, with a stand-in for rustup.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { parseEnv } from "node:util";

const ROOT = resolve(import.meta.dirname, "../..");
const ACCOUNT = "023e105f4ecef8ad9ca31a8372d0c353";

let home;
before(async () => {
  home = await mkdtemp(join(tmpdir(), "pullq-deploy-test-"));
});
after(() => rm(home, { recursive: true, force: true }));

/** An environment in which wrangler knows nobody and finds nothing of the user's. */
function env(more) {
  const { CLOUDFLARE_API_TOKEN, CLOUDFLARE_API_KEY, CLOUDFLARE_EMAIL, CLOUDFLARE_ACCOUNT_ID, WORKERS_CI, ...rest } = process.env;
  return {
    ...rest,
    // The build's tools are in the user's own cache and in Rust's folders.
    XDG_CACHE_HOME: rest.XDG_CACHE_HOME ?? join(rest.HOME, ".cache"),
    CARGO_HOME: rest.CARGO_HOME ?? join(rest.HOME, ".cargo"),
    RUSTUP_HOME: rest.RUSTUP_HOME ?? join(rest.HOME, ".rustup"),
    HOME: home,
    XDG_CONFIG_HOME: join(home, "config"),
    CI: "1",
    NO_COLOR: "1",
    WRANGLER_HIDE_BANNER: "true",
    ...more,
  };
}

/** Runs the deployment to its end: {code, output}. */
async function deploy(args, more = {}) {
  const child = spawn(process.execPath, [join(ROOT, "scripts/deploy.mjs"), ...args], { cwd: ROOT, env: env(more), stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text) => (output += text));
  const [code] = await once(child, "close");
  return { code, output };
}

/** The part of Cloudflare's API that a deployment needs; keeps the requests and the Worker's secrets. */
async function startCloudflare(t, { secrets = {} } = {}) {
  const cloudflare = { requests: [], secrets };
  const script = `/accounts/${ACCOUNT}/workers/scripts/pullq`;
  const answers = {
    [`GET /accounts/${ACCOUNT}/workers/services/pullq`]: () => undefined,
    [`GET /accounts/${ACCOUNT}/workers/scripts`]: () => [],
    [`POST ${script}/assets-upload-session`]: () => ({ jwt: "done", buckets: [] }),
    [`PUT ${script}`]: () => ({ id: "pullq", tag: "tag", etag: "etag", deployment_id: "1", startup_time_ms: 9, has_modules: true, has_assets: true }),
    [`GET /accounts/${ACCOUNT}/workers/subdomain`]: () => ({ subdomain: "example" }),
    [`GET ${script}/subdomain`]: () => ({ enabled: true, previews_enabled: true }),
    [`POST ${script}/subdomain`]: () => ({ enabled: true, previews_enabled: true }),
    [`GET ${script}/secrets`]: () => Object.keys(secrets).map((name) => ({ name, type: "secret_text" })),
    [`PUT ${script}/secrets`]: (body) => {
      const { name, text } = JSON.parse(body);
      secrets[name] = text;
      return { name, type: "secret_text" };
    },
  };
  const server = createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray());
    const what = `${request.method} ${request.url.split("?")[0].replace("/client/v4", "")}`;
    cloudflare.requests.push({ what, body: body.toString("latin1"), authorization: request.headers.authorization });
    const result = answers[what]?.(body.toString());
    const missing = result === undefined;
    response.writeHead(missing ? 404 : 200, { "content-type": "application/json" }).end(JSON.stringify({
      success: !missing, result: result ?? null, messages: [], errors: missing ? [{ code: 10090, message: `no ${what}` }] : [],
    }));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  cloudflare.env = {
    CLOUDFLARE_API_BASE_URL: `http://127.0.0.1:${server.address().port}/client/v4`,
    CLOUDFLARE_API_TOKEN: "cloudflare's own",
    CLOUDFLARE_ACCOUNT_ID: ACCOUNT,
  };
  return cloudflare;
}

test("a first deployment brings the Worker up, makes a token, stores its hash alone and shows it once", async (t) => {
  const cloudflare = await startCloudflare(t);
  const { code, output } = await deploy([], cloudflare.env);
  assert.equal(code, 0, output);

  const upload = cloudflare.requests.find(({ what }) => what === `PUT /accounts/${ACCOUNT}/workers/scripts/pullq`);
  assert.equal(upload.authorization, "Bearer cloudflare's own");
  for (const part of ['"QUEUE"', '"DIRECTORY"', '"ASSETS"', '"new_sqlite_classes":["QueueObject","DirectoryObject"]', "index_bg.wasm"]) {
    assert.ok(upload.body.includes(part), part);
  }
  const [token] = output.match(/pullq_[\w-]{43}/);
  assert.equal(output.split(token).length, 3, "alone, and in the line to try it with");
  assert.deepEqual(JSON.parse(cloudflare.secrets.API_TOKENS), [{
    name: "first",
    sha256: createHash("sha256").update(token).digest("hex"),
    account: "*",
    queues: ["*"],
    permissions: ["queues:read", "queues:write"],
  }]);
  assert.match(output, /pullq is deployed on https:\/\/pullq\.example\.workers\.dev$/m);
  assert.match(output, /curl https:\/\/pullq\.example\.workers\.dev\/client\/v4\/accounts\/[0-9a-f]{32}\/queues -H 'Authorization: Bearer pullq_/);
});

test("a token for one account, where that is asked for", async (t) => {
  const cloudflare = await startCloudflare(t);
  const { code, output } = await deploy(["--account", ACCOUNT.toUpperCase()], cloudflare.env);
  assert.equal(code, 0, output);
  assert.equal(JSON.parse(cloudflare.secrets.API_TOKENS)[0].account, ACCOUNT);
});

test("tokens that are there stay, and so does a Worker that is to have none", async (t) => {
  const there = await startCloudflare(t, { secrets: { API_TOKENS: "as it was" } });
  const second = await deploy([], there.env);
  assert.equal(second.code, 0, second.output);
  assert.equal(there.secrets.API_TOKENS, "as it was");
  assert.match(second.output, /API_TOKENS is as it was/);
  for (const [args, more] of [[["--no-token"], {}], [[], { WORKERS_CI: "1" }]]) {
    const without = await startCloudflare(t);
    const { code, output } = await deploy(args, { ...without.env, ...more });
    assert.equal(code, 0, output);
    assert.deepEqual(without.secrets, {});
    assert.doesNotMatch(output, /pullq_/);
  }
});

test("without a login it says how to get one, before it does anything", async () => {
  const { code, output } = await deploy([]);
  assert.equal(code, 1);
  assert.match(output, /wrangler is not logged in at Cloudflare/);
  assert.match(output, /npx wrangler login/);
  assert.match(output, /CLOUDFLARE_API_TOKEN/);
});

test("an option that isn't one, an account that isn't one", async () => {
  assert.match((await deploy(["--accounts", "x"])).output, /npm run deploy -- \[--account ID\]/);
  assert.match((await deploy(["--account", "me"])).output, /--account must be 32 hexadecimal digits or '\*', not me\./);
});

test("a dry run bundles the built Worker and asks nobody", async () => {
  const { code, output } = await deploy(["--dry-run"], { CLOUDFLARE_API_BASE_URL: "http://127.0.0.1:9/client/v4" });
  assert.equal(code, 0, output);
  assert.match(output, /env\.QUEUE \(QueueObject\)\s+Durable Object/);
  assert.match(output, /env\.ASSETS\s+Assets/);
  const bundle = readFileSync(join(ROOT, "target/deploy/shim.js"), "utf8");
  assert.ok(bundle.includes("QueueObject") && bundle.includes("DirectoryObject"));
});

test("the Deploy to Cloudflare button is asked for the secret, and its example lets nobody in", () => {
  const example = parseEnv(readFileSync(join(ROOT, ".dev.vars.example"), "utf8"));
  assert.deepEqual(example, { API_TOKENS: "[]" });
  const { scripts, cloudflare } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  assert.deepEqual(Object.keys(cloudflare.bindings), Object.keys(example));
  assert.ok(scripts.build && scripts.deploy, "the commands that Workers Builds runs by themselves");
});

/** A program on a PATH of its own. */
async function fake(folder, name, script) {
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, name), `#!/bin/sh\n${script}\n`);
  await chmod(join(folder, name), 0o755);
}

test("in Workers Builds, Rust is installed by rustup's script where there is none, and found by the next command", async (t) => {
  if (existsSync("/usr/bin/cargo") || existsSync("/bin/cargo")) return t.skip("cargo is among this machine's own programs, so its absence was not tried.");
  const [bin, cargoHome] = [join(home, "bin"), join(home, "cargo")];
  // Prints what sh.rustup.rs would: a script, here one that notes its arguments and makes a cargo.
  await fake(bin, "curl", `echo "$@" > '${home}/curl-arguments'
cat <<'SCRIPT'
echo "$@" > '${home}/rustup-arguments'
mkdir -p '${cargoHome}/bin'
printf '#!/bin/sh\\necho cargo 1.0.0\\n' > '${cargoHome}/bin/cargo'
chmod +x '${cargoHome}/bin/cargo'
SCRIPT`);
  const program = `
    import { findInstalledRust, installRust, inWorkersBuilds } from ${JSON.stringify(join(ROOT, "scripts/lib/rust.mjs"))};
    import { read } from ${JSON.stringify(join(ROOT, "scripts/lib/run.mjs"))};
    findInstalledRust();
    const before = read("cargo", ["--version"]);
    const code = before || !inWorkersBuilds ? undefined : await installRust();
    console.log(JSON.stringify([before, code, read("cargo", ["--version"])]));`;
  const run = async (more) => {
    const child = spawn(process.execPath, ["--input-type=module", "-e", program], {
      env: { PATH: [bin, "/usr/bin", "/bin"].join(delimiter), HOME: home, CARGO_HOME: cargoHome, ...more }, stdio: ["ignore", "pipe", "inherit"],
    });
    const [text] = await Promise.all([child.stdout.toArray(), once(child, "close")]);
    return JSON.parse(Buffer.concat(text).toString());
  };
  assert.deepEqual(await run({}), [null, null, null], "elsewhere nothing is installed");
  assert.deepEqual(await run({ WORKERS_CI: "1" }), [null, 0, "cargo 1.0.0"]);
  assert.equal(readFileSync(join(home, "curl-arguments"), "utf8").trim(), "--proto =https --tlsv1.2 -sSf https://sh.rustup.rs");
  assert.equal(readFileSync(join(home, "rustup-arguments"), "utf8").trim(), "-y --profile minimal --no-modify-path --target wasm32-unknown-unknown");
  assert.deepEqual(await run({ WORKERS_CI: "1" }), ["cargo 1.0.0", null, "cargo 1.0.0"], "the next command of the build");
});
