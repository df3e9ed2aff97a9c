// The budgets: what is promised of pullq's speed and cost, what was measured, and whether it is met.
import { gzipSync } from 'node:zlib';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../../scripts/lib/project.mjs';
import { cellName, fullPlan } from './plan.mjs';

const peers = ['beanstalkd', 'NATS JetStream', 'pgmq'];

/** The budgets on counts: they hold on any machine. */
export function rowBudgets(rows) {
  return [
    atMost('rows written for a message\'s whole life, batches of 100', 0.05, rows.pullq[100].life.written),
    atMost('rows written for a message\'s whole life, one message a call, alarms included', 4.1, rows.pullq[1].life.written),
  ];
}

/** All budgets; `summary` is of the rounds. */
export function budgets({ rows, summary, waiting }) {
  const cell = (name, connections) => summary.find((each) => each.cell === cellName({
    workload: fullPlan.find(({ workload }) => workload.name === name).workload, connections, size: 200,
  }));
  const hundreds = ['send 100', 'drain 100', 'cycle 100'].map((name) => ({ name, cells: [1, 16, 64].map((connections) => cell(name, connections)) }));
  const ahead = ({ name, cells }, target, budget) => atLeast(
    `${name} at 1, 16, 64 connections: times ${target}'s messages/s`, budget, cells.map(({ ratios }) => ratios[target]),
  );
  return [
    ...rowBudgets(rows),
    atLeast('single sends, 64 connections: share of the floor\'s', 0.8, cell('send 1', 64).ratios.row),
    ...hundreds.map((workload) => ahead(workload, 'naive', 5)),
    ...hundreds.flatMap((workload) => peers.filter((peer) => peer in workload.cells[0].ratios).map((peer) => ahead(workload, peer, 1))),
    atMost('a pull with 1,000,000 waiting: times the one with 1,000', 1.2, waiting.pull_ratio),
    atMost('first answer of an object that wakes with 1,000,000 waiting, ms', 250, waiting.wake_ms.slowest),
    atMost('memory that such an object takes, MB', 64, waiting.memory_growth_bytes / 1e6),
    atMost('the Worker, compressed, kB', 500, workerKilobytes()),
  ];
}

/** What is uploaded: the script and the WebAssembly module. */
function workerKilobytes() {
  return ['index.js', 'index_bg.wasm'].reduce((sum, name) => sum + gzipSync(readFileSync(join(root, 'build', name)), { level: 9 }).length, 0) / 1_000;
}

function atMost(what, budget, measured) {
  return { what, budget: `≤ ${budget}`, measured: tidy(measured), met: measured <= budget };
}

/** Where several are measured, all have to meet it. */
function atLeast(what, budget, measured) {
  const all = [measured].flat();
  return { what, budget: `≥ ${budget}`, measured: all.map(tidy).join(', '), met: all.every((each) => each >= budget) };
}

function tidy(number) {
  return Number(number.toPrecision(4));
}
