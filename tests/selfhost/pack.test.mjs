// What `npm run package` packs, installed into an empty folder, serves without Rust and without the sources.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { Api, bodies } from "../support/api.mjs";
import { DEV_TOKEN, ROOT, startSelfhost } from "../support/selfhost.mjs";

const run = promisify(execFile);

/** A PATH with Node, npm and the system's programs, and no cargo. */
const PATH = [dirname(process.execPath), ...process.env.PATH.split(delimiter).filter((folder) => !/cargo|rustup/.test(folder))].join(delimiter);

let folder, packed;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "pullq-pack-"));
  const { stdout } = await run(process.execPath, [join(ROOT, "scripts/package.mjs"), "--to", folder], { env: npmEnv() });
  packed = stdout.trim();
  await writeFile(join(folder, "package.json"), '{"private": true, "type": "module"}');
  await run("npm", ["install", "--prefer-offline", "--no-audit", "--no-fund", packed], { cwd: folder, env: npmEnv(), timeout: 180_000 });
});
after(() => rm(folder, { recursive: true, force: true }));

/** Without what an npm above this one hands down. */
function npmEnv() {
  return { ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("npm_"))), PATH };
}

test("the package has the build, the server and the helper, and brings workerd alone", async () => {
  const { stdout } = await run("tar", ["-tzf", packed]);
  const paths = stdout.trim().split("\n").map((path) => path.replace("package/", ""));
  for (const needed of ["build/index.js", "build/index_bg.wasm", "build/worker/shim.mjs", "build/console/index.html", "scripts/selfhost.mjs", "wrangler.toml", "binding/pullq.ts", "binding/pullq.js", "selfhost/pullq.service", "LICENSE", "README.md"]) {
    assert.ok(paths.includes(needed), `${needed} is missing among\n${paths.join("\n")}`);
  }
  assert.deepEqual(paths.filter((path) => /^(src|tests|bench|target|node_modules|\.)/.test(path)), []);
  assert.ok((await stat(packed)).size < 2_000_000);
  const installed = (await readdir(join(folder, "node_modules"))).filter((name) => !name.startsWith("."));
  assert.deepEqual(installed, ["@cloudflare", "pullq", "workerd"]);
  assert.ok(!(await readdir(join(folder, "node_modules/.bin"))).includes("node"), "the user's Node stays the user's");
});

test("npx pullq serves, and is gone with all that it started when npx is ended", async () => {
  for (const [command, end] of [[["npx", "--no-install", "pullq"], { code: null, signal: "SIGTERM" }], [["node_modules/.bin/pullq"], { code: 0, signal: null }]]) {
    const server = await startSelfhost(["--port", "0", "--temporary", "--dev"], { command, cwd: folder, env: { PATH } });
    const queue = await new Api(server, { token: DEV_TOKEN }).queue();
    await queue.text("packed");
    assert.deepEqual(bodies(await queue.take()), ["packed"]);
    // Ends when nobody holds stdout any more; npx itself ends by the signal, and passes it on to nobody.
    assert.deepEqual(await server.stop(), end);
    await assert.rejects(fetch(server.url), TypeError);
  }
});

test("npx pullq token makes a token", async () => {
  const { stdout } = await run("npx", ["--no-install", "pullq", "token", "--name", "ci", "--account", "*"], { cwd: folder, env: npmEnv() });
  assert.match(stdout, /pullq_[\w-]{43}/);
});

test("other code finds the helper under pullq/binding", async () => {
  const program = `import { pullQueue, PullqError } from "pullq/binding"; console.log(typeof pullQueue, typeof PullqError);`;
  const { stdout } = await run(process.execPath, ["--input-type=module", "-e", program], { cwd: folder });
  assert.equal(stdout.trim(), "function function");
});
