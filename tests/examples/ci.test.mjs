// The examples for other people's test suites, run as they stand: `npx pullq` in them is this tree's.
import assert from "node:assert/strict";
import { execFile, spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { cp, mkdir, mkdtemp, readFile, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, delimiter, join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { ROOT } from "../support/selfhost.mjs";

const run = promisify(execFile);

/** A copy of an example in which pullq is installed, in the way of `npm install` with a folder's path. */
async function install(t, example) {
  const folder = await mkdtemp(join(tmpdir(), `pullq-${example}-`));
  t.after(() => rm(folder, { recursive: true, force: true }));
  await cp(join(ROOT, "examples", example), folder, { recursive: true, filter: (path) => !/__pycache__|node_modules/.test(path) });
  const { bin } = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8"));
  await mkdir(join(folder, "node_modules/.bin"), { recursive: true });
  await symlink(ROOT, join(folder, "node_modules/pullq"));
  await mkdir(temporaryOf(folder));
  await symlink(`../pullq/${bin.pullq}`, join(folder, "node_modules/.bin/pullq"));
  return folder;
}

/** Where a suite's pullq keeps what it deletes at the end. */
const temporaryOf = (folder) => join(folder, "temporary");

/** Runs a suite to its end, with the Node that runs this. */
function suite(folder, program, args) {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(npm_|NODE_TEST_CONTEXT)/.test(name)));
  env.TMPDIR = temporaryOf(folder);
  env.PATH = dirname(process.execPath) + delimiter + env.PATH;
  return run(program, args, { cwd: folder, env, timeout: 60_000 }).catch((error) => assert.fail(`${error.message}\n${error.stdout}\n${error.stderr}`));
}

test("the suite in TypeScript passes, and leaves nothing behind", async (t) => {
  const folder = await install(t, "ci-typescript");
  const { scripts } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
  assert.equal(scripts.test, "node --test");
  const { stdout } = await suite(folder, process.execPath, ["--test", "--test-reporter=tap"]);
  assert.match(stdout, /^# pass 3$/m, stdout);
  assert.match(stdout, /^# fail 0$/m, stdout);
  assert.deepEqual(readdirSync(temporaryOf(folder)).filter((name) => name.startsWith("pullq-")), []);
});

test("the suite in Python passes, and leaves nothing behind", async (t) => {
  const { status } = spawnSync("python3", ["-c", "import sys; sys.exit(sys.version_info < (3, 9))"]);
  if (status !== 0) {
    const missing = "python3 (3.9 or newer) is not installed, so this was not tested.";
    return process.env.CI === "true" ? assert.fail(missing) : t.skip(missing);
  }
  const folder = await install(t, "ci-python");
  const { stderr } = await suite(folder, "python3", ["-m", "unittest"]);
  assert.match(stderr, /^Ran 3 tests in/m, stderr);
  assert.match(stderr, /^OK$/m, stderr);
  assert.deepEqual(readdirSync(temporaryOf(folder)).filter((name) => name.startsWith("pullq-")), []);
});
