// Runs `pullq` as people do on their own machines: scripts/selfhost.mjs in a process, its ready line read.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { resolve } from "node:path";
import { createInterface } from "node:readline";

export const ROOT = resolve(import.meta.dirname, "../..");
export const SCRIPT = resolve(ROOT, "scripts/selfhost.mjs");
export const DEV_TOKEN = "dev-token";

const READY_WITHIN_MS = 40_000;

/**
 * Starts pullq and resolves once it is ready. `command` runs something else than the script, an npx say;
 * `env` is added to the environment, in which none of its settings are otherwise.
 *
 * What comes back has `url`, `child`, `ready_ms`, `stdout` (its lines), `stderr` (its text), `ended` (a
 * promise of {code, signal}) and `stop(signal)`, which resolves to the same.
 */
export async function startSelfhost(args, options = {}) {
  const server = runSelfhost(args, options);
  const from_ms = performance.now();
  const line = await Promise.race([
    once(server.lines, "line").then(([text]) => text),
    server.ended.then(({ code }) => {
      throw new Error(`pullq ended with ${code} before it was ready:\n${server.stderr}`);
    }),
    new Promise((_, reject) => setTimeout(reject, READY_WITHIN_MS, new Error("pullq did not become ready")).unref()),
  ]);
  server.ready_ms = performance.now() - from_ms;
  server.url = line.replace("pullq ready on ", "");
  return server;
}

/** The same without waiting for anything. */
export function runSelfhost(args, { env = {}, cwd, command = [process.execPath, SCRIPT] } = {}) {
  const child = spawn(command[0], [...command.slice(1), ...args], {
    cwd, env: { ...withoutSettings(process.env), ...env }, stdio: ["ignore", "pipe", "pipe"],
  });
  const server = { child, stdout: [], stderr: "" };
  server.lines = createInterface({ input: child.stdout }).on("line", (line) => server.stdout.push(line));
  child.stderr.setEncoding("utf8").on("data", (text) => (server.stderr += text));
  server.ended = once(child, "close").then(([code, signal]) => ({ code, signal }));
  server.stop = (signal = "SIGTERM") => {
    child.kill(signal);
    return server.ended;
  };
  return server;
}

/** Runs pullq to its end: {code, stdout, stderr}. */
export async function selfhostToItsEnd(args, options) {
  const server = runSelfhost(args, options);
  const { code } = await server.ended;
  return { code, stdout: server.stdout.join("\n"), stderr: server.stderr };
}

function withoutSettings(env) {
  const foreign = /^(API_TOKENS|CLOUDEVENTS_|npm_)/;
  return Object.fromEntries(Object.entries(env).filter(([name]) => !foreign.test(name)));
}
