// The queue that one would write first: a row for each message, one index, a lease in the row.
// It speaks the part of pullq's API that the benchmark uses, over the same paths.
import { DurableObject } from 'cloudflare:workers';

const leaseMs = 30_000;

export default {
  async fetch(request, env) {
    if (request.headers.get('authorization') !== `Bearer ${env.TOKEN}`) {
      return Response.json({ success: false, errors: [{ message: 'Unauthorized' }] }, { status: 401 });
    }
    const path = new URL(request.url).pathname.match(/^\/client\/v4\/accounts\/(\w+)\/queues\/([\w-]+)\/messages/);
    if (request.method !== 'POST' || !path) return new Response('Not found', { status: 404 });
    const [, account, queue] = path;
    return env.QUEUE.get(env.QUEUE.idFromName(`${account}/${queue}`)).fetch(request);
  },
};

export class NaiveQueue extends DurableObject {
  #sql;
  #written = 0;
  #read = 0;

  constructor(ctx, env) {
    super(ctx, env);
    this.#sql = ctx.storage.sql;
    this.#sql.exec(`
      CREATE TABLE IF NOT EXISTS message (
        id INTEGER PRIMARY KEY,
        body TEXT NOT NULL,
        content_type TEXT NOT NULL,
        sent_ms INTEGER NOT NULL,
        visible_ms INTEGER NOT NULL,
        attempts INTEGER NOT NULL DEFAULT 0,
        lease_id TEXT
      );
      CREATE INDEX IF NOT EXISTS message_by_visible ON message (visible_ms);
    `);
  }

  async fetch(request) {
    const call = new URL(request.url).pathname.split('/messages')[1];
    const body = await request.json();
    const serve = { '': this.#send, '/batch': this.#sendBatch, '/pull': this.#pull, '/ack': this.#ack }[call];
    if (!serve) return new Response('Not found', { status: 404 });
    const result = serve.call(this, body);
    const headers = this.env.COUNT_ROWS === 'on'
      ? { 'x-pullq-rows-written': String(this.#written), 'x-pullq-rows-read': String(this.#read) }
      : {};
    return Response.json({ success: true, errors: [], messages: [], result }, { headers });
  }

  #send(message) {
    return this.#sendBatch({ messages: [message] });
  }

  #sendBatch({ messages }) {
    const now = Date.now();
    for (const { body, content_type: contentType = 'json' } of messages) {
      this.#run(
        'INSERT INTO message (body, content_type, sent_ms, visible_ms) VALUES (?, ?, ?, ?)',
        contentType === 'text' ? body : JSON.stringify(body), contentType, now, now,
      );
    }
    return {};
  }

  #pull({ batch_size: count = 5, visibility_timeout_ms: visibilityMs = leaseMs }) {
    const now = Date.now();
    const rows = this.#run(
      `UPDATE message SET visible_ms = ?, attempts = attempts + 1, lease_id = lower(hex(randomblob(16)))
        WHERE id IN (SELECT id FROM message WHERE visible_ms <= ? ORDER BY visible_ms LIMIT ?)
        RETURNING id, body, content_type, sent_ms, attempts, lease_id`,
      now + visibilityMs, now, count,
    );
    return {
      messages: rows.map((row) => ({
        id: String(row.id),
        body: row.body,
        timestamp_ms: row.sent_ms,
        attempts: row.attempts,
        metadata: { 'CF-Content-Type': row.content_type },
        lease_id: `${row.id}.${row.lease_id}`,
      })),
    };
  }

  #ack({ acks = [], retries = [] }) {
    for (const { lease_id: leaseId } of acks) {
      const [id, lease] = leaseId.split('.');
      this.#run('DELETE FROM message WHERE id = ? AND lease_id = ?', Number(id), lease);
    }
    for (const { lease_id: leaseId, delay_seconds: delay = 0 } of retries) {
      const [id, lease] = leaseId.split('.');
      this.#run(
        'UPDATE message SET visible_ms = ?, lease_id = NULL WHERE id = ? AND lease_id = ?',
        Date.now() + delay * 1_000, Number(id), lease,
      );
    }
    return { ackCount: acks.length, retryCount: retries.length };
  }

  #run(statement, ...parameters) {
    const cursor = this.#sql.exec(statement, ...parameters);
    const rows = cursor.toArray();
    this.#written += cursor.rowsWritten;
    this.#read += cursor.rowsRead;
    return rows;
  }
}
