// Checks that are Python programs: makes a virtual environment with their requirements (kept for
// later runs) and runs them in it.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { mkdir, rename, rm } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/**
 * Runs `program`, which prints a JSON object a line, {name, failure}, for each of its checks, as
 * subtests of `t`. `requirements`, `module` and `version` are those of `pythonFor`.
 */
export async function runPythonChecks(t, { program, args, ...needs }) {
  const python = await pythonFor(t, needs);
  if (python === undefined) return;
  const { stdout, stderr, error } = await run(python, [program, ...args], { timeout: 120_000 }).catch((error) => ({ ...error, error }));
  const checks = stdout.split("\n").filter(Boolean).map((line) => JSON.parse(line));
  for (const { name, failure } of checks) await t.test(name, () => assert.equal(failure, null, failure));
  assert.equal(error, undefined, `${error?.message}\n${stderr}`);
  assert.ok(checks.length > 0, "no check ran");
}

/**
 * The path of a Python that has what the file `requirements` names; `module` is what they bring.
 * Without a Python of at least `version`, [3, 9] say, `t` is skipped, in CI failed, and there is none.
 */
export async function pythonFor(t, { requirements, module, version }) {
  const missing = await missingPython(version);
  if (missing === undefined) return pythonWith(requirements, module);
  if (process.env.CI === "true") assert.fail(missing);
  t.skip(missing);
}

/** Why there is no Python to test with, or undefined. */
async function missingPython(version) {
  try {
    await run("python3", ["-c", `import sys; sys.exit(sys.version_info < (${version.join(", ")}))`]);
  } catch {
    return `python3 (${version.join(".")} or newer) is not installed, so this was not tested.`;
  }
  try {
    await run("python3", ["-c", "import ensurepip, venv"]);
  } catch {
    return "python3 has no venv module, so this was not tested; on Debian and Ubuntu, install python3-venv.";
  }
}

/** The Python of a virtual environment with the requirements, made if there is none yet. */
async function pythonWith(requirements, module) {
  const { stdout: version } = await run("python3", ["--version"]);
  const key = createHash("sha256").update(readFileSync(requirements)).update(version).digest("hex").slice(0, 16);
  const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "pullq");
  const venv = join(cache, `venv-${key}`);
  const python = join(venv, "bin", "python");
  if (existsSync(python)) {
    const works = await run(python, ["-c", `import ${module}`]).then(() => true, () => false);
    if (works) return python;
    await rm(venv, { recursive: true, force: true });
  }
  // Made aside and moved into place whole, so that a run cut short leaves no half of one.
  const making = `${venv}.${process.pid}`;
  await mkdir(cache, { recursive: true });
  try {
    await run("python3", ["-m", "venv", making]);
    await run(join(making, "bin", "python"), ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements]);
    await rename(making, venv).catch((error) => {
      // Another run was faster; its environment is as good.
      if (!existsSync(python)) throw error;
    });
  } finally {
    await rm(making, { recursive: true, force: true });
  }
  return python;
}
