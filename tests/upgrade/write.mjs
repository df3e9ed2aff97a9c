// Writes what a queue's and a directory's storage looks like under the current version of the tables:
// `node tests/upgrade/write.mjs` makes v<version>.json beside this file, out of a real workerd's storage. To be
// run once for each version of the tables; later releases have to open what it wrote (tests/upgrade.rs).
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { devAccount, devSettings, devToken } from '../../scripts/lib/setup.mjs';
import { root } from '../../scripts/lib/project.mjs';
import { startWorkerd } from '../../scripts/lib/workerd.mjs';

const build = process.argv[2] ?? join(root, 'build');
const storage = mkdtempSync(join(tmpdir(), 'pullq-upgrade-'));
const server = await startWorkerd({ build, storage, bindings: devSettings() });

async function ask(path, body, headers = {}) {
  const response = await fetch(`${server.url}/client/v4/accounts/${devAccount}/queues${path}`, {
    method: body ? 'POST' : 'GET',
    headers: { authorization: `Bearer ${devToken}`, ...headers },
    body: body && JSON.stringify(body),
  });
  const answer = await response.json();
  if (!answer.success) throw new Error(`${path}: ${JSON.stringify(answer.errors)}`);
  return answer.result;
}

const { queue_id: queue } = await ask('', { queue_name: 'orders', settings: { message_retention_period: 1_209_600 } });
await ask(`/${queue}/consumers`, { type: 'http_pull', dead_letter_queue: 'orders-dead', settings: { max_retries: 0 } });
const send = (body, more = {}, headers) => ask(`/${queue}/messages`, { body, content_type: 'text', ...more }, headers);
const pull = (batch_size, visibility_timeout_ms) => ask(`/${queue}/messages/pull`, { batch_size, visibility_timeout_ms });
const ack = (...messages) => ask(`/${queue}/messages/ack`, { acks: messages.map(({ lease_id }) => ({ lease_id })) });

// A dead letter; a batch of which one is acknowledged, one leased for long, and one never delivered; a delayed
// message; one sent with a key; one of the CloudEvents face.
await send('dead');
await pull(1, 1);
await sleep(2_000);
await ask(`/${queue}/messages/batch`, { messages: ['acknowledged', 'leased', 'waiting'].map((body) => ({ body, content_type: 'text' })) });
const { messages: [first] } = await pull(1, 30_000);
await ack(first);
const { messages: [leased] } = await pull(1, 43_200_000);
await send('delayed', { delay_seconds: 3_600 });
const { ids: [keyed_id] } = await send('keyed', {}, { 'idempotency-key': 'once' });
await fetch(`${server.url}/ce/queue/send`, {
  method: 'POST',
  headers: { 'content-type': 'application/cloudevents+json' },
  body: JSON.stringify({ specversion: '1.0', id: '1', type: 'example', source: '/tests', subject: 'orders', data: { total: 1 } }),
});
const { messages } = await ask(`/${queue}/messages/peek`, { batch_size: 10 });
const { counters } = await ask(`/${queue}/metrics`);
const files = { queues: server.objectFiles('QueueObject'), directories: server.objectFiles('DirectoryObject') };
await server.stop();

/** A database as statements that make it anew. */
function dump(file) {
  const database = new DatabaseSync(file);
  const rows = (sql) => database.prepare(sql).all();
  const statements = [];
  for (const { name, sql } of rows("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE '\\_cf%' ESCAPE '\\' ORDER BY rowid")) {
    statements.push(sql.replace(/\s+/g, ' '));
    if (!sql.startsWith('CREATE TABLE')) continue;
    const columns = rows(`PRAGMA table_info(${name})`).map((column) => `quote(${column.name}) AS ${column.name}`);
    for (const row of rows(`SELECT ${columns.join(', ')} FROM ${name}`)) {
      statements.push(`INSERT INTO ${name} VALUES (${Object.values(row).join(', ')})`);
    }
  }
  database.close();
  return statements;
}

const dumps = files.queues.map(dump);
const isOrders = (statements) => statements.some((statement) => statement.includes('"queue_name":"orders"'));
const orders = dumps.find(isOrders);
const version = /INSERT INTO self VALUES \(1, (\d+)/.exec(orders.join('\n'))[1];
writeFileSync(join(import.meta.dirname, `v${version}.json`), `${JSON.stringify({
  written_ms: Date.now(),
  lease_id: leased.lease_id,
  keyed_id,
  waiting: messages.map(({ id }) => id),
  counters,
  orders,
  dead: dumps.find((statements) => !isOrders(statements)),
  directory: dump(files.directories[0]),
}, null, 1)}\n`);
rmSync(storage, { recursive: true });
console.log(`tests/upgrade/v${version}.json is written`);
