// The CloudEvents SDK for Rust against a running pullq: compiles the checks in cloudevents-rust (kept
// for later runs) and runs them.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { homedir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { OPEN } from "../support/events.mjs";
import { startPullq } from "../support/pullq.mjs";

const run = promisify(execFile);
const MANIFEST = join(import.meta.dirname, "cloudevents-rust", "Cargo.toml");

test("the CloudEvents SDK for Rust", async (t) => {
  const target = join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "pullq", "cloudevents-rust");
  await run("cargo", ["build", "--quiet", "--locked", "--manifest-path", MANIFEST, "--target-dir", target], { maxBuffer: 10_000_000 });
  const pullq = await startPullq({ bindings: OPEN });
  try {
    const { stdout } = await run(join(target, "debug", "cloudevents-rust"), [pullq.url], { timeout: 60_000 });
    // One JSON object a line for each check: its name, and what went wrong or null.
    const checks = stdout.split("\n").filter(Boolean).map((line) => JSON.parse(line));
    for (const { name, failure } of checks) await t.test(name, () => assert.equal(failure, null, failure));
    assert.ok(checks.length > 0, "no check ran");
  } finally {
    await pullq.stop();
  }
});
