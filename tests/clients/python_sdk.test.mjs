// The official Python SDK against a running pullq: makes a virtual environment
// for it (kept for later runs) and runs the checks of python_sdk.py in it.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { mkdir, rename, rm } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { ACCOUNT } from "../support/api.mjs";
import { DEV_TOKEN, startPullq } from "../support/pullq.mjs";

const run = promisify(execFile);
const REQUIREMENTS = join(import.meta.dirname, "requirements.txt");
const CHECKS = join(import.meta.dirname, "python_sdk.py");

/** Why there is no Python to test with, or undefined. */
async function missingPython() {
  try {
    await run("python3", ["-c", "import sys; sys.exit(sys.version_info < (3, 9))"]);
  } catch {
    return "python3 (3.9 or newer) is not installed, so the Python SDK was not tested.";
  }
  try {
    await run("python3", ["-c", "import ensurepip, venv"]);
  } catch {
    return "python3 has no venv module, so the Python SDK was not tested; on Debian and Ubuntu, install python3-venv.";
  }
}

/** The Python of a virtual environment with the requirements, made if there is none yet. */
async function pythonWithSdk() {
  const { stdout: version } = await run("python3", ["--version"]);
  const key = createHash("sha256").update(readFileSync(REQUIREMENTS)).update(version).digest("hex").slice(0, 16);
  const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "pullq");
  const venv = join(cache, `venv-${key}`);
  const python = join(venv, "bin", "python");
  if (existsSync(python)) {
    const works = await run(python, ["-c", "import cloudflare"]).then(() => true, () => false);
    if (works) return python;
    await rm(venv, { recursive: true, force: true });
  }
  // Made aside and moved into place whole, so that a run cut short leaves no half of one.
  const making = `${venv}.${process.pid}`;
  await mkdir(cache, { recursive: true });
  try {
    await run("python3", ["-m", "venv", making]);
    await run(join(making, "bin", "python"), ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", REQUIREMENTS]);
    await rename(making, venv).catch((error) => {
      // Another run was faster; its environment is as good.
      if (!existsSync(python)) throw error;
    });
  } finally {
    await rm(making, { recursive: true, force: true });
  }
  return python;
}

test("the official Python SDK", async (t) => {
  const missing = await missingPython();
  if (missing !== undefined) {
    if (process.env.CI === "true") assert.fail(missing);
    return t.skip(missing);
  }
  const python = await pythonWithSdk();
  const pullq = await startPullq();
  try {
    const args = [CHECKS, `${pullq.url}/client/v4`, DEV_TOKEN, ACCOUNT];
    const { stdout, stderr, error } = await run(python, args, { timeout: 60_000 }).catch((error) => ({ ...error, error }));
    // One JSON object a line for each check: its name, and what went wrong or null.
    const checks = stdout.split("\n").filter(Boolean).map((line) => JSON.parse(line));
    for (const { name, failure } of checks) await t.test(name, () => assert.equal(failure, null, failure));
    assert.equal(error, undefined, `${error?.message}\n${stderr}`);
    assert.ok(checks.length > 0, "no check ran");
  } finally {
    await pullq.stop();
  }
});
