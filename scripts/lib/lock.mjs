// One server for each storage folder: a lock file in it says which process has it. Two of them would each
// remember leases that the other one gave out.
//
// The file is of one size and is never removed, only written over: that works on a full disk too.
import { closeSync, fstatSync, openSync, readFileSync, statSync, utimesSync, writeSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Explained } from './run.mjs';

const fileBytes = 512;
/** How often the holder touches the file, and when another machine takes it for gone. */
const touchMs = 5_000;
const goneMs = 20_000;

/**
 * Takes the storage folder for this process; fails with a sentence when another process has it.
 * Gives back how to let it go again.
 */
export async function lockStorage(folder) {
  const path = join(folder, 'pullq.lock');
  const me = { pid: process.pid, started: startOf(process.pid), host: hostname() };
  const holder = read(path);
  if (isHeld(path, holder)) {
    throw new Explained(`${folder} is in use by another pullq (process ${holder.pid} on ${holder.host}): stop that one first, or choose another folder with --storage.`);
  }
  write(path, me);
  // Whoever wrote last has it, should two have come at the same moment.
  await sleep(50);
  if (read(path)?.pid !== me.pid) throw new Explained(`${folder} was taken by another pullq at this moment.`);
  const timer = setInterval(() => touch(path), touchMs).unref();
  return () => {
    clearInterval(timer);
    write(path, {});
  };
}

/**
 * A process of this machine is asked for; of one elsewhere (another container) only the file's time is known.
 * A lock that was copied with its folder says nothing about the copy.
 */
function isHeld(path, holder) {
  if (holder?.pid === undefined) return false;
  const { ino, mtimeMs } = statSync(path);
  if (holder.file !== ino) return false;
  if (holder.host !== hostname()) return Date.now() - mtimeMs < goneMs;
  return holder.started !== undefined && startOf(holder.pid) === holder.started;
}

/** When a process was started, so that another one with its number isn't taken for it; undefined for none. */
function startOf(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    // The name of the program, in parentheses, may hold anything.
    const [state, ...fields] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return state === 'Z' ? undefined : `${boot} ${fields[18]}`;
  } catch {
    const { stdout } = spawnSync('ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8' });
    return stdout?.trim() || undefined;
  }
}

function read(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    // None yet, or one that a crash cut off.
    return undefined;
  }
}

function write(path, content) {
  let file;
  try {
    file = openSync(path, exists(path) ? 'r+' : 'w', 0o644);
    writeSync(file, JSON.stringify({ ...content, file: fstatSync(file).ino }).padEnd(fileBytes), 0);
  } catch (error) {
    if (error.code !== 'ENOSPC') throw new Explained(`${path} can't be written: ${error.message}`);
    console.error(`${path} can't be written, the disk is full: whether another pullq uses this folder is not looked after.`);
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

function touch(path) {
  try {
    const now = new Date();
    utimesSync(path, now, now);
  } catch {
    // The folder is gone, which the server will say itself.
  }
}

function exists(path) {
  return statSync(path, { throwIfNoEntry: false }) !== undefined;
}
