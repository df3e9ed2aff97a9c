// What a server's processes take: memory, from Linux's /proc.
import { readFileSync, readdirSync } from 'node:fs';

/** Bytes of memory of a process and its children, shared pages split between those that share them. */
export function memoryBytes(pid) {
  return [pid, ...childrenOf(pid)].reduce((sum, each) => sum + proportionalBytes(each), 0);
}

function proportionalBytes(pid) {
  const rollup = readOrNothing(`/proc/${pid}/smaps_rollup`);
  return 1_024 * Number(rollup.match(/^Pss:\s+(\d+) kB$/m)?.[1] ?? 0);
}

function childrenOf(parent) {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => Number(readOrNothing(`/proc/${pid}/stat`).split(') ').at(-1).split(' ')[1]) === parent);
}

/** A process may end between the listing and the reading. */
function readOrNothing(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
