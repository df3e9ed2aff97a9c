// The tables that the benchmark prints.
import { workloads } from './plan.mjs';
import { cost } from './rows.mjs';

/** One line for each cell: pullq's speed, latency, cost in CPU and memory, and how many times each other target's speed it has. */
export function speedTable(summary, targets) {
  const others = targets.filter(({ name }) => name !== 'pullq').map(({ name }) => name);
  const rows = summary.map(({ cell, targets: found, ratios }) => {
    const own = found.pullq;
    const latency = own.latency.step ?? own.latency.hand_over;
    return [
      cell,
      thousands(own.messages_per_s),
      `${thousands(own.slowest_per_s)}–${thousands(own.fastest_per_s)}`,
      [latency.p50_ms, latency.p90_ms, latency.p99_ms].map((ms) => ms.toFixed(ms < 10 ? 2 : 0)).join(' / '),
      own.server_cpu_ms_per_call?.toFixed(2) ?? '–',
      `${Math.round(own.memory_bytes / 1e6)}`,
      ...others.map((name) => (name in ratios ? `${ratios[name].toFixed(2)}` : '–')),
    ];
  });
  return table([
    'pullq', 'messages/s', 'spread', 'ms p50 / p90 / p99', 'CPU ms/call', 'MB', ...others.map((name) => `× ${name}`),
  ], rows);
}

/** The speed of every target in each cell. */
export function targetsTable(summary, targets) {
  return table(['messages/s', ...targets.map(({ name }) => name)], summary.map(({ cell, targets: found }) => [
    cell,
    ...targets.map(({ name }) => {
      const one = found[name];
      if (!one) return '–';
      return one.latency.hand_over ? `${one.latency.hand_over.p50_ms.toFixed(2)} ms` : thousands(one.messages_per_s);
    }),
  ]));
}

/** The processor time that a call takes of each target's server: the steadier figure where the machine is busy. */
export function cpuTable(summary, targets) {
  return table(['CPU ms/call', ...targets.map(({ name }) => name)], summary.map(({ cell, targets: found }) => [
    cell, ...targets.map(({ name }) => found[name]?.server_cpu_ms_per_call?.toFixed(3) ?? '–'),
  ]));
}

/** What each workload's calls cost a message. */
export function costTable(rows) {
  const lines = Object.entries(rows).flatMap(([target, byBatch]) => Object.entries(byBatch).flatMap(([batch, counted]) => {
    const of = (calls) => calls.reduce((sum, call) => ({ written: sum.written + counted[call].written, read: sum.read + counted[call].read }), { written: 0, read: 0 });
    const own = workloads.filter((workload) => String(workload.batch) === batch && workload.does !== 'cycle')
      .map((workload) => ({ name: workload.name, calls: workload.calls.length, ...of(workload.calls) }));
    return [...own, { name: `whole life, ${batch} a call`, calls: 3, ...counted.life }]
      .map((line) => ({ target, ...line, ...cost({ ...line, batch: Number(batch) }) }));
  }));
  return table(['', 'calls', 'rows written', 'rows read', '$ a million', 'messages a day, free plan', 'bound by'], lines.map((line) => [
    line.target, line.name, line.written.toFixed(3), line.read.toFixed(3), line.dollars_a_million.toFixed(3),
    thousands(line.free_messages_a_day), line.bound,
  ]));
}

export function budgetTable(budgets) {
  return table(['', 'budget', 'measured', 'what'], budgets.map(({ what, budget, measured, met }) => [met ? 'met' : 'NOT MET', budget, String(measured), what]));
}

function table(head, rows) {
  const widths = head.map((_, at) => Math.max(...[head, ...rows].map((row) => row[at]?.length ?? 0)));
  const line = (row) => row.map((text, at) => (at === 0 || /[a-zA-Z]{3}/.test(text) ? text.padEnd(widths[at]) : text.padStart(widths[at]))).join('  ').trimEnd();
  return [line(head), widths.map((width) => '─'.repeat(width)).join('  '), ...rows.map(line)].join('\n');
}

function thousands(number) {
  return Math.round(number).toLocaleString('en');
}
