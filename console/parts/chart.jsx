// A chart of the last hour, with a legend that shows the values under the pointer, and the same as a table.
import uPlot from 'uplot';
import { useEffect, useRef, useState } from 'preact/hooks';
import { clock, number } from '../format.js';
import { isDark } from './media.js';

const height_px = 190;

/**
 * `times_s` and each series' `values` have one length. A series is `{label, values, color, dash, step}`; its
 * colour is the name of a custom property. `summary` says in a sentence what the chart shows.
 */
export function Chart({ title, times_s, series, summary }) {
  const box = useRef();
  const plot = useRef();
  const [shown, setShown] = useState(null);
  const dark = isDark.value;

  useEffect(() => {
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    const axis = { stroke: color('--muted'), grid: { stroke: color('--line'), width: 1 }, ticks: { show: false }, font: `12px ${style.fontFamily}` };
    plot.current = new uPlot({
      width: box.current.clientWidth,
      height: height_px,
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 } },
      padding: [10, 8, 0, 0],
      scales: { y: { range: (_, _min, max) => [0, Math.max(4, Math.ceil(max * 1.1))] } },
      axes: [
        { ...axis, grid: { show: false }, space: 70, size: 30, values: (_, splits) => splits.map((at) => clock(at * 1_000)) },
        { ...axis, space: 28, gap: 6, size: (_, values) => 18 + 7 * Math.max(1, ...(values ?? []).map((value) => value?.length ?? 0)), incrs: wholeSteps, values: (_, splits) => splits.map(short) },
      ],
      series: [
        {},
        ...series.map((one) => ({
          label: one.label,
          stroke: color(one.color),
          width: 2,
          dash: one.dash,
          fill: one.fill ? `${color(one.color)}22` : undefined,
          paths: one.step ? uPlot.paths.stepped({ align: 1 }) : undefined,
          points: { show: false },
        })),
      ],
      hooks: { setCursor: [({ cursor }) => setShown(cursor.idx ?? null)] },
    }, data(times_s, series), box.current);
    const resized = new ResizeObserver(([entry]) => plot.current.setSize({ width: Math.floor(entry.contentRect.width), height: height_px }));
    resized.observe(box.current);
    return () => {
      resized.disconnect();
      plot.current.destroy();
    };
  }, [dark, series.length]);

  useEffect(() => plot.current.setData(data(times_s, series)), [times_s, series]);

  const at = shown === null || shown >= times_s.length ? times_s.length - 1 : shown;
  return (
    <section class="card chart">
      <h2>{title}</h2>
      <ul class="legend" aria-hidden="true">
        <li class="fine">{shown === null ? 'now' : clock(times_s[at] * 1_000)}</li>
        {series.map(({ label, values, color, dash }) => (
          <li key={label}>
            <svg width="20" height="8" viewBox="0 0 20 8"><line x1="0" y1="4" x2="20" y2="4" stroke={`var(${color})`} stroke-width="2.5" stroke-dasharray={dash?.join(' ')} /></svg>
            {label} <b>{number(values[at] ?? 0)}</b>
          </li>
        ))}
      </ul>
      <div class="plot" ref={box} role="img" aria-label={`${title}. ${summary}`} />
      <details>
        <summary>As a table</summary>
        <div class="scroll" tabindex="0" role="region" aria-label={`${title}, as a table`}>
          <table>
            <thead>
              <tr><th scope="col">Time</th>{series.map(({ label }) => <th scope="col" key={label}>{label}</th>)}</tr>
            </thead>
            <tbody>
              {times_s.map((time_s, index) => (
                <tr key={time_s}><th scope="row">{clock(time_s * 1_000)}</th>{series.map(({ label, values }) => <td key={label}>{number(values[index])}</td>)}</tr>
              )).reverse()}
            </tbody>
          </table>
        </div>
      </details>
    </section>
  );
}

const data = (times_s, series) => [times_s, ...series.map(({ values }) => values)];

/** Messages don't come in halves. */
const wholeSteps = Array.from({ length: 12 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();

const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });
const short = (value) => compact.format(value);
