// The systemd unit and the Dockerfile, tried as far as this can be done without installing the one or
// having an engine for the other.
import assert from "node:assert/strict";
import { execFile, spawnSync } from "node:child_process";
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { Api, bodies } from "../support/api.mjs";
import { DEV_TOKEN, ROOT, startSelfhost } from "../support/selfhost.mjs";

const run = promisify(execFile);

test("systemd finds nothing wrong with the unit", async (t) => {
  if (spawnSync("systemd-analyze", ["--version"]).error) return t.skip("systemd-analyze is not installed, so the unit was not verified.");
  const folder = await mkdtemp(join(tmpdir(), "pullq-unit-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  // What the unit starts is not installed here, and it would be the only thing found wrong.
  const unit = readFileSync(join(ROOT, "selfhost/pullq.service"), "utf8")
    .replace(/^ExecStart=\S+ \S+/m, `ExecStart=${process.execPath} ${join(ROOT, "scripts/selfhost.mjs")}`);
  const path = join(folder, "pullq.service");
  writeFileSync(path, unit);
  const { stdout, stderr } = await run("systemd-analyze", ["verify", "--man=no", path]).catch((error) => error);
  const ours = (stdout + stderr).split("\n").filter((line) => line.includes("pullq.service"));
  assert.deepEqual(ours, []);
});

test("what the unit's command line asks for is taken", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "pullq-unit-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const [, args] = readFileSync(join(ROOT, "selfhost/pullq.service"), "utf8").match(/^ExecStart=\S+ \S+selfhost\.mjs (.*)$/m);
  const here = args.replace("--port 8787", "--port 0").replace("/var/lib/pullq", join(folder, "state"));
  assert.notEqual(here, args);
  const server = await startSelfhost(here.split(" "));
  assert.equal((await server.stop()).code, 0);
});

/** A Dockerfile's instructions, each [word, rest]. */
function instructions(path) {
  return readFileSync(path, "utf8")
    .replace(/\\\n/g, " ")
    .split("\n")
    .filter((line) => line.trim() !== "" && !line.startsWith("#"))
    .map((line) => line.match(/^(\w+)\s+(.*)$/).slice(1));
}

test("the files that the Dockerfile puts into its last stage are enough to start and answer", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "pullq-image-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const all = instructions(join(ROOT, "selfhost/Dockerfile"));
  const last = all.slice(all.findLastIndex(([word]) => word === "FROM"));
  const of = (wanted) => last.filter(([word]) => word === wanted).map(([, rest]) => rest);

  const [workdir] = of("WORKDIR");
  const image = join(folder, "image");
  for (const copy of of("COPY")) {
    const [from, ...paths] = copy.split(" ");
    assert.equal(from, "--from=build");
    const to = join(image, workdir, paths.pop());
    for (const path of paths) {
      const source = join(ROOT, path.replace(`${workdir}/`, ""));
      assert.ok(existsSync(source), `${path} is not there`);
      cpSync(source, copy.endsWith("/") ? join(to, path.split("/").at(-1)) : to, { recursive: true });
    }
  }

  // Another user than the files' own, as in the image.
  const root = process.getuid?.() === 0;
  const data = join(folder, "data");
  mkdirSync(data);
  chmodSync(folder, 0o755);
  if (root) spawnSync("chown", ["1000:1000", data]);
  const asNode = root ? ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups"] : [];

  const [program, script, ...args] = JSON.parse(of("ENTRYPOINT")[0]);
  assert.equal(program, "node");
  assert.deepEqual(args, ["--host", "0.0.0.0", "--storage", "/data"]);
  assert.deepEqual([of("USER"), of("VOLUME"), of("STOPSIGNAL")], [["node"], ["/data"], ["SIGTERM"]]);
  const server = await startSelfhost(["--host", "0.0.0.0", "--storage", data, "--port", "0", "--dev"], {
    command: [...asNode, process.execPath, join(image, workdir, script)], cwd: join(image, workdir), env: { HOME: data },
  });
  const port = new URL(server.url).port;
  const url = `http://127.0.0.1:${port}`;
  const queue = await new Api({ url }, { token: DEV_TOKEN }).queue();
  await queue.text("in a container");
  assert.deepEqual(bodies(await queue.take()), ["in a container"]);

  const [check] = of("HEALTHCHECK");
  const [, ...probe] = JSON.parse(check.slice(check.indexOf("[")));
  const healthy = () => run(process.execPath, probe.map((part) => part.replace(":8787", `:${port}`)));
  await healthy();
  assert.equal((await server.stop()).code, 0);
  await assert.rejects(healthy(), { code: 1 });
});

test("the Dockerfile's first stage gets what a build needs, and nothing of this machine's own", () => {
  const ignored = readFileSync(join(ROOT, ".dockerignore"), "utf8").split("\n");
  for (const secret of [".dev.vars", ".wrangler", "build", "**/node_modules", "**/target"]) assert.ok(ignored.includes(secret), secret);
  for (const needed of ["Cargo.toml", "Cargo.lock", ".cargo/config.toml", "package.json", "package-lock.json", "wrangler.toml", "openapi.json", "src", "scripts/build.mjs"]) {
    assert.ok(existsSync(join(ROOT, needed)), needed);
    assert.ok(!ignored.some((line) => line !== "" && !line.startsWith("#") && (needed === line || needed.startsWith(`${line}/`))), needed);
  }
});
