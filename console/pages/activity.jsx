// What a queue did in the last hour, minute by minute, and since it was made.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { api } from '../api.js';
import { now_ms, repeat } from '../clock.js';
import { number } from '../format.js';
import { series } from '../history.js';
import { ErrorNote } from '../parts/action.jsx';
import { Chart } from '../parts/chart.jsx';

const every_ms = 10_000;

const counters = [
  ['sent', 'Sent'],
  ['delivered', 'Delivered'],
  ['acknowledged', 'Acknowledged'],
  ['retried', 'Retried'],
  ['dead_lettered', 'Dead-lettered'],
  ['redriven', 'Redriven'],
  ['dropped', 'Dropped'],
  ['expired', 'Expired'],
  ['purged', 'Purged'],
  ['empty_pulls', 'Empty pulls'],
];

export function ActivityTab({ id, queue, metrics }) {
  const [history, setHistory] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => {
    let gone = false;
    const stop = repeat(async () => {
      try {
        const { minutes } = await api.history(id);
        if (gone) return;
        setHistory({ minutes, read_ms: now_ms.peek() });
        setError(null);
      } catch (error) {
        if (!gone && error.kind !== 'lost') setError(error);
      }
    }, every_ms);
    return () => {
      gone = true;
      stop();
    };
  }, [id]);

  const charts = useMemo(() => history && series(history, Date.parse(queue.created_on)), [history, queue.created_on]);
  return (
    <>
      <ErrorNote error={error} />
      {!charts && !error && <p class="muted" role="status">Loading the last hour…</p>}
      {charts && (
        <div class="charts">
          <Chart title="Backlog, last hour" times_s={charts.times_s} series={charts.backlog} summary={charts.backlogSummary} />
          <Chart title="Messages a minute, last hour" times_s={charts.times_s} series={charts.flow} summary={charts.flowSummary} />
        </div>
      )}
      {metrics && (
        <section class="card">
          <h2>Since the queue was made</h2>
          <dl class="counters">
            {counters.filter(([key]) => metrics.counters[key] !== undefined).map(([key, label]) => (
              <div key={key}><dt>{label}</dt><dd>{number(metrics.counters[key])}</dd></div>
            ))}
          </dl>
        </section>
      )}
    </>
  );
}
