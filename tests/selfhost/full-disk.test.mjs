// A small file system of its own, filled by sends until there is no room: what is refused and how, that
// nothing is lost that was taken, and that it goes on by itself when there is room again.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Api, Queue, sleep } from "../support/api.mjs";
import { DEV_TOKEN, startSelfhost } from "../support/selfhost.mjs";

/** What somebody could delete to make room, as selfhost/README.md advises. */
const RESERVE_BYTES = 5_000_000;
const MESSAGE_BYTES = 50_000;

/** Where each kind of file system lies; both have some 12 MB. */
const kinds = {
  tmpfs: (folder) => ["-t", "tmpfs", "-o", "size=12m", "tmpfs", folder],
  ext4: (folder) => {
    const image = `${folder}.img`;
    writeFileSync(image, "");
    truncateSync(image, 14_000_000);
    // Blocks as on a disk of usual size. With the 1 kB of a small one, the memory that SQLite shares between
    // processes can be mapped without having its place on the disk, and a workerd that starts may end with SIGBUS.
    const { status, stderr } = spawnSync("mkfs.ext4", ["-q", "-m", "0", "-b", "4096", image], { encoding: "utf8" });
    return status === 0 ? ["-o", "loop", image, folder] : `mkfs.ext4: ${stderr}`;
  },
};

/** Mounts a small file system with a reserve on it; undefined, and the test skipped, where that isn't allowed. */
function smallDisk(t, kind) {
  const folder = mkdtempSync(join(tmpdir(), "pullq-disk-"));
  const servers = [];
  let mounted = false;
  t.after(async () => {
    for (const server of servers) await server.stop();
    // A workerd whose pullq was killed may take a moment to be gone.
    for (let tries = 0; mounted && tries < 50 && spawnSync("umount", [folder]).status === 32; tries += 1) await sleep(100);
    rmSync(folder, { recursive: true, force: true });
    rmSync(`${folder}.img`, { force: true });
  });
  const args = kinds[kind](folder);
  const mount = typeof args === "string" ? { stderr: args } : spawnSync("mount", args, { encoding: "utf8" });
  mounted = mount.status === 0;
  if (!mounted) {
    t.skip(`No ${kind} can be mounted here (${(mount.stderr || mount.error?.message || "").trim()}), so a full disk was not tried on it.`);
    return undefined;
  }
  writeFileSync(join(folder, "reserve"), Buffer.alloc(RESERVE_BYTES, 1));
  return {
    async start() {
      const server = await startSelfhost(["--port", "0", "--storage", join(folder, "storage"), "--dev"]);
      servers.push(server);
      return { server, api: new Api(server, { token: DEV_TOKEN }) };
    },
    makeRoom: () => rmSync(join(folder, "reserve")),
  };
}

/** Sends numbered messages until some are refused one after the other: the numbers taken, and the refusals. */
async function fill(queue) {
  const taken = [];
  const refused = [];
  for (let number = 0, row = 0; row < 5; number += 1) {
    const body = `${number} `.padEnd(MESSAGE_BYTES, "x");
    const { status, json, headers } = await queue.api.call("POST", `${queue.path}/messages`, { body, content_type: "text" });
    row = status === 200 ? 0 : row + 1;
    if (status === 200) taken.push(number);
    else refused.push([status, json.errors[0].code, headers.get("x-should-retry")]);
  }
  return { taken, refused };
}

/** Takes and acknowledges everything that is waiting: the numbers, in order. */
async function drain(queue) {
  const numbers = [];
  for (let batch; (batch = await queue.take({ batch_size: 20, visibility_timeout_ms: 600_000 })).length > 0; ) {
    numbers.push(...batch.map(({ body }) => Number(body.split(" ")[0])));
    await queue.settle({ acks: batch });
  }
  return numbers;
}

for (const kind of Object.keys(kinds)) {
  test(`${kind}: a send that finds no room is refused with 429, code 10251, and isn't to be repeated`, async (t) => {
    const disk = smallDisk(t, kind);
    if (disk === undefined) return;
    const { api } = await disk.start();
    const { refused } = await fill(await api.queue());
    for (const refusal of refused) assert.deepEqual(refusal, [429, 10251, "false"]);
  });

  test(`${kind}: what was taken is delivered once there is room, what was refused isn't there, and sends go on`, async (t) => {
    const disk = smallDisk(t, kind);
    if (disk === undefined) return;
    const { server, api } = await disk.start();
    const queue = await api.queue();
    await queue.texts(["-1", "-2"]);
    const leased = await queue.take({ visibility_timeout_ms: 2_000 });
    const { taken } = await fill(queue);
    assert.ok(taken.length > 20, `${taken.length} were taken`);
    // The lease ends and the alarm fires while nothing can be written.
    await sleep(2_500);
    assert.equal(server.child.exitCode, null);
    disk.makeRoom();
    assert.deepEqual(await drain(queue), [-1, -2, ...taken]);
    assert.equal((await queue.settle({ acks: leased })).ackCount, 2);
    await queue.isQuiet(0);
    await queue.text("after");
    assert.equal((await queue.take()).length, 1);
    assert.equal((await server.stop()).code, 0);
  });

  test(`${kind}: killed and started again while it is full, everything that was answered with 2xx is there`, async (t) => {
    const disk = smallDisk(t, kind);
    if (disk === undefined) return;
    const first = await disk.start();
    const { id, name } = await first.api.queue();
    const { taken } = await fill(new Queue(first.api, id, name));
    await first.server.stop("SIGKILL");
    await sleep(300);
    const second = await disk.start();
    assert.equal((await second.api.call("GET", `/queues/${id}/metrics`)).json.result?.backlog_count, taken.length, "it can be asked");
    disk.makeRoom();
    assert.deepEqual(await drain(new Queue(second.api, id, name)), taken);
  });
}
