// Where the benchmark keeps its data, and what this machine is like: a figure without both means little.
import { chmodSync, closeSync, fsyncSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, statfsSync, writeSync } from 'node:fs';
import { cpus, loadavg, release, tmpdir, totalmem } from 'node:os';
import { join } from 'node:path';
import { read } from '../../scripts/lib/run.mjs';
import { root } from '../../scripts/lib/project.mjs';

/** What Linux says of a file system that is memory: a disk sync on it means nothing. */
const TMPFS = 0x01021994;

/** A new folder for every server's data, all on one disk; the caller removes it. */
export function newDataFolder() {
  let base = tmpdir();
  if (statfsSync(base).type === TMPFS) {
    base = join(root, 'target', 'bench-data');
    mkdirSync(base, { recursive: true });
  }
  const folder = mkdtempSync(join(base, 'pullq-bench-'));
  // PostgreSQL runs as another user where this is root.
  chmodSync(folder, 0o711);
  return folder;
}

export function machine(folder) {
  return {
    date: new Date().toISOString().slice(0, 10),
    processor: cpus()[0]?.model.trim(),
    cores: cpus().length,
    memory_gb: Math.round(totalmem() / 2 ** 30),
    kernel: release(),
    load_before: Number(loadavg()[0].toFixed(2)),
    disk_sync_ms: diskSync(folder),
    commit: read('git', ['rev-parse', '--short', 'HEAD']) + (read('git', ['status', '--porcelain', 'src']) ? ' and changes' : ''),
    workerd: JSON.parse(readFileSync(join(root, 'node_modules', 'workerd', 'package.json'), 'utf8')).version,
  };
}

/** The median time of a write of 4 kB that is synced to the disk, in milliseconds. */
function diskSync(folder) {
  const path = join(folder, 'sync');
  const file = openSync(path, 'w');
  const page = Buffer.alloc(4_096, 1);
  const took = Array.from({ length: 101 }, (_, at) => {
    writeSync(file, page, 0, page.length, (at % 16) * page.length);
    const began = performance.now();
    fsyncSync(file);
    return performance.now() - began;
  });
  closeSync(file);
  rmSync(path);
  return Number(took.sort((a, b) => a - b)[50].toFixed(3));
}
