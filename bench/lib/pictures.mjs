// The growth curves as SVG pictures, each once for a light and once for a dark page.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as vega from 'vega';
import { compile } from 'vega-lite';

const themes = {
  light: { background: '#ffffff', text: '#1f2328', line: '#d1d9e0' },
  dark: { background: '#0d1117', text: '#e6edf3', line: '#30363d' },
};

/** Colours that stay apart for colour-blind readers, on both pages. */
const colours = {
  pullq: '#e8590c',
  'floor: one row': '#868e96',
  'floor: nothing': '#adb5bd',
  'naive JavaScript object': '#4c6ef5',
  beanstalkd: '#12b886',
  'NATS JetStream': '#ae3ec9',
  pgmq: '#1098ad',
};

const shownNames = { row: 'floor: one row', nothing: 'floor: nothing', naive: 'naive JavaScript object' };

/** Draws growth-connections, growth-size and growth-backlog into `folder`. */
export async function drawGrowth(folder, { connections, sizes, backlog }) {
  await draw(folder, 'growth-connections', {
    title: 'Single sends', x: 'connections', y: 'messages/s',
    points: connections.map(({ target, at, messages_per_s: speed }) => ({ target, x: at, y: speed })),
  });
  await draw(folder, 'growth-size', {
    title: 'Send, pull and acknowledge in the largest batches, 16 connections', x: 'bytes a message', y: 'messages/s',
    points: sizes.map(({ target, at, messages_per_s: speed }) => ({ target, x: at, y: speed })),
  });
  await draw(folder, 'growth-backlog', {
    title: 'A pull of 10 messages', x: 'messages waiting', y: 'milliseconds (p50)',
    points: backlog.map(({ target, waiting, pull_ms: ms }) => ({ target, x: waiting, y: ms })),
  });
}

async function draw(folder, name, chart) {
  for (const [theme, colour] of Object.entries(themes)) {
    const { spec } = compile(specification(chart, colour));
    const svg = await new vega.View(vega.parse(spec), { renderer: 'none' }).toSVG();
    writeFileSync(join(folder, `${name}-${theme}.svg`), `${svg}\n`);
  }
}

function specification({ title, x, y, points }, { background, text, line }) {
  const values = points.map((point) => ({ ...point, target: shownNames[point.target] ?? point.target }));
  const names = Object.keys(colours).filter((name) => values.some(({ target }) => target === name));
  const steps = [...new Set(values.map((point) => point.x))];
  const marks = marksAround(values.map((point) => point.y));
  return {
    $schema: 'https://vega.github.io/schema/vega-lite/v6.json',
    title: { text: title, anchor: 'start', fontSize: 15, fontWeight: 600 },
    width: 560,
    height: 300,
    padding: 16,
    data: { values },
    mark: { type: 'line', point: { size: 36, filled: true }, strokeWidth: 2 },
    encoding: {
      x: { field: 'x', type: 'quantitative', title: x, scale: { type: 'log', nice: false }, axis: { values: steps, format: '~s', grid: false } },
      y: { field: 'y', type: 'quantitative', title: y, scale: { type: 'log', domain: [marks[0], marks.at(-1)] }, axis: { values: marks, labelExpr: 'datum.value < 1 ? format(datum.value, "~g") : format(datum.value, "~s")' } },
      color: { field: 'target', type: 'nominal', title: null, scale: { domain: names, range: names.map((each) => colours[each]) } },
    },
    config: {
      background,
      font: 'system-ui, sans-serif',
      title: { color: text },
      axis: { labelColor: text, titleColor: text, gridColor: line, domainColor: line, tickColor: line, titleFontWeight: 'normal', labelFontSize: 12, titleFontSize: 12 },
      legend: { labelColor: text, labelFontSize: 12, labelLimit: 240, symbolType: 'stroke', symbolStrokeWidth: 3 },
      view: { stroke: null },
    },
  };
}

/** 1, 2, 5, 10, 20, … from below the smallest number to above the greatest. */
function marksAround(numbers) {
  const [least, most] = [Math.min(...numbers), Math.max(...numbers)];
  const all = [];
  for (let power = Math.floor(Math.log10(least)); power <= Math.ceil(Math.log10(most)); power += 1) {
    all.push(...[1, 2, 5].map((digit) => Number((digit * 10 ** power).toPrecision(1))));
  }
  const first = all.findLastIndex((mark) => mark <= least);
  const last = all.findIndex((mark) => mark >= most);
  return all.slice(first, last + 1);
}
