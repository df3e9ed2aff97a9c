// Runs the built worker under Miniflare on a loopback port of its own, with
// storage that a restart keeps. Knows nothing of the API it serves: that is
// api.mjs.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { Log, LogLevel, Miniflare } from "miniflare";
import { hashOf } from "../../scripts/lib/tokens.mjs";

const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), "../..");

/** Where the worker's modules lie; PULLQ_BUILD points the tests at another build. */
const BUILD = resolve(ROOT, process.env.PULLQ_BUILD ?? "build");

/** The console's pages, where they are built; the Worker reads them through a binding. */
const CONSOLE = join(BUILD, "console");

/** PULLQ_TEST_LOG=1 shows what the worker and the runtime print. */
const LOUD = process.env.PULLQ_TEST_LOG === "1";

export const DEV_TOKEN = "a-token-for-tests-only";

/** A token that may do everything, as `API_TOKENS` describes one. */
export const DEV = {
  name: "dev",
  token: DEV_TOKEN,
  account: "*",
  queues: ["*"],
  permissions: ["queues:read", "queues:write"],
};

/** The value of the `API_TOKENS` secret: what a deployment stores is a hash, never a token. */
export function apiTokens(tokens) {
  return JSON.stringify(
    tokens.map(({ token, ...rest }) => ({ ...rest, sha256: hashOf(token) })),
  );
}

/**
 * Starts pullq.
 *
 * - `tokens`: who gets in, each like `DEV` with its own fields; null leaves `API_TOKENS` unset.
 * - `bindings`: further text bindings; they win over `tokens`.
 * - `persist`: a folder to keep the storage in; otherwise a temporary one that `stop` removes.
 */
export async function startPullq({ tokens = [DEV], bindings = {}, persist, port = 0 } = {}) {
  const storage = persist ?? (await mkdtemp(join(tmpdir(), "pullq-test-")));
  const options = {
    ...pullqWorker({ tokens, bindings }),
    host: "127.0.0.1",
    port,
    // Without this Miniflare asks the network for a sample of Request.cf.
    cf: false,
    log: new Log(LOUD ? LogLevel.DEBUG : LogLevel.NONE),
    handleRuntimeStdio: (stdout, stderr) => {
      for (const stream of [stdout, stderr]) {
        if (LOUD) stream.pipe(process.stderr);
        else stream.resume();
      }
    },
    durableObjectsPersist: storage,
  };
  let miniflare;
  const server = { url: "", storage };

  async function up() {
    miniflare = new Miniflare(options);
    server.url = (await miniflare.ready).origin;
  }
  // Miniflare ends its runtime with SIGKILL: what a restart finds is what had been made durable.
  async function down() {
    await miniflare?.dispose();
    miniflare = undefined;
  }

  /** Kills the runtime and starts it on the same storage; `meanwhile` runs while it is down. */
  server.restart = async (meanwhile = async () => {}) => {
    await down();
    await meanwhile();
    await up();
  };
  server.stop = async () => {
    await down();
    if (persist === undefined) await rm(storage, { recursive: true, force: true });
  };

  try {
    await up();
  } catch (error) {
    await server.stop();
    throw error;
  }
  return server;
}

/** What Miniflare has to know of pullq's Worker; `tokens` and `bindings` as `startPullq` takes them. */
export function pullqWorker({ tokens = [DEV], bindings = {} } = {}) {
  return {
    name: "pullq",
    modulesRoot: BUILD,
    modules: modulesOf(BUILD),
    ...compatibility(),
    durableObjects: {
      QUEUE: { className: "QueueObject", useSQLite: true },
      DIRECTORY: { className: "DirectoryObject", useSQLite: true },
    },
    ...(existsSync(CONSOLE) && { serviceBindings: { ASSETS: { disk: { path: CONSOLE, writable: false } } } }),
    bindings: {
      // Tests of wrong tokens come from one address: nothing slows them down unless that is the test.
      WRONG_TOKENS_PER_MINUTE: "0",
      ...(tokens === null ? {} : { API_TOKENS: apiTokens(tokens) }),
      ...bindings,
    },
  };
}

/** Every module of the build, the entry first. */
function modulesOf(build) {
  const entry = ["worker/shim.mjs", "index.js"].map((name) => join(build, name)).find(existsSync);
  if (entry === undefined) {
    throw new Error(`There is no worker in ${relative(process.cwd(), build) || "."}: run npm run build first.`);
  }
  const types = { js: "ESModule", mjs: "ESModule", wasm: "CompiledWasm" };
  const modules = filesUnder(build)
    .filter((path) => !path.startsWith(`${CONSOLE}/`))
    .map((path) => ({ path, type: types[path.split(".").at(-1)] }))
    .filter(({ type }) => type !== undefined);
  return modules.sort((a, b) => (b.path === entry) - (a.path === entry));
}

function filesUnder(folder) {
  return readdirSync(folder, { withFileTypes: true })
    // Names that begin with a dot are worker-build's staging area.
    .filter(({ name }) => !name.startsWith("."))
    .flatMap((entry) => {
      const path = join(folder, entry.name);
      return entry.isDirectory() ? filesUnder(path) : [path];
    });
}

/** The compatibility date and flags the worker is deployed with. */
function compatibility() {
  const config = existsSync(join(ROOT, "wrangler.toml")) ? readFileSync(join(ROOT, "wrangler.toml"), "utf8") : "";
  const date = config.match(/^compatibility_date\s*=\s*"([^"]+)"/m)?.[1] ?? "2026-07-01";
  const flags = config.match(/^compatibility_flags\s*=\s*(\[[^\]]*\])/m)?.[1] ?? "[]";
  return { compatibilityDate: date, compatibilityFlags: [...flags.matchAll(/"([^"]+)"/g)].map(([, flag]) => flag) };
}
