// The lines of a queue's charts, out of the minutes that the API gives.
import { number } from './format.js';

const step_ms = 60_000;
const shownMinutes = 60;

const nothing = { backlog_count: 0, counters: {} };

/**
 * The chart's lines out of the minutes in which something changed: what a minute left holds until the next
 * one, and what happened in a minute is what the counters grew by. What was before the first known minute
 * isn't known, unless the queue was made since.
 */
export function series({ minutes, read_ms }, created_ms) {
  const last = Math.floor(Math.max(read_ms, minutes.at(-1)?.minute_ms ?? 0) / step_ms) * step_ms;
  const known = new Map(minutes.map((minute) => [minute.minute_ms, minute]));
  const first = last - (shownMinutes - 1) * step_ms;
  let before = minutes.findLast(({ minute_ms }) => minute_ms < first);
  if (!before && !(created_ms < first)) before = nothing;
  const times_s = [], backlog = [], sent = [], delivered = [], acknowledged = [];
  for (let at_ms = first; at_ms <= last; at_ms += step_ms) {
    const minute = known.get(at_ms);
    const grown = (name) => (minute && before ? Math.max(0, minute.counters[name] - (before.counters[name] ?? 0)) : 0);
    times_s.push(at_ms / 1_000);
    sent.push(grown('sent'));
    delivered.push(grown('delivered'));
    acknowledged.push(grown('acknowledged'));
    backlog.push((minute ?? before ?? minutes[0] ?? nothing).backlog_count);
    before = minute ?? before;
  }
  const sum = (values) => number(values.reduce((total, value) => total + value, 0));
  return {
    times_s,
    backlog: [{ label: 'messages', values: backlog, color: '--series-1', step: true, fill: true }],
    backlogSummary: `Now ${number(backlog.at(-1))} messages, at most ${number(Math.max(...backlog))}.`,
    flow: [
      { label: 'sent', values: sent, color: '--series-1' },
      { label: 'delivered', values: delivered, color: '--series-2', dash: [6, 4] },
      { label: 'acknowledged', values: acknowledged, color: '--series-3', dash: [2, 3] },
    ],
    flowSummary: `In all ${sum(sent)} sent, ${sum(delivered)} delivered, ${sum(acknowledged)} acknowledged.`,
  };
}
