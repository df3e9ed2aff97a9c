// A queue of pullq for other code: `send` and `sendBatch` as Cloudflare's producer binding has them, and what
// a consumer needs, `pull`, `ack`, `retry`, `extend`. In a Worker it speaks through a service binding, so
// nothing leaves Cloudflare's network; anywhere else, over HTTP. No dependency: the file can also be copied.

/** `v8` is Cloudflare's own form of JavaScript objects, which nobody but a Worker can read: it is refused here. */
export type QueueContentType = 'text' | 'bytes' | 'json' | 'v8';

export interface SendOptions {
  /** `json` unless it is said. */
  contentType?: QueueContentType;
  /** 0 to 86,400. Without it, the queue's own delivery delay. */
  delaySeconds?: number;
  /** pullq's own: a second send with the same key within 5 minutes stores nothing. */
  idempotencyKey?: string;
}

export interface SendBatchOptions {
  /** For messages that have none of their own. */
  delaySeconds?: number;
  /** For the whole batch. */
  idempotencyKey?: string;
}

export interface SendRequest<Body = unknown> {
  body: Body;
  contentType?: QueueContentType;
  delaySeconds?: number;
}

export interface Metrics {
  backlogCount: number;
  backlogBytes: number;
  oldestMessageTimestamp?: Date;
}

export interface SendResponse {
  metadata: { metrics: Metrics };
}

export interface PullOptions {
  /** 1 to 100; the consumer's own otherwise, which is 5 unless it was set. */
  batchSize?: number;
  /** How long nobody else gets the messages, up to 12 hours; the consumer's own otherwise. */
  visibilityTimeoutMs?: number;
  /** How long to wait for a first message, up to 60,000. */
  waitMs?: number;
}

export interface PulledMessage<Body = unknown> {
  id: string;
  timestamp: Date;
  attempts: number;
  /** As it was sent: a parsed value, a string, or for bytes and v8 a Uint8Array. */
  body: Body;
  contentType: QueueContentType;
  /** What acknowledges, retries or extends this delivery. */
  leaseId: string;
  metadata: Record<string, string>;
}

export interface PulledBatch<Body = unknown> {
  messages: PulledMessage<Body>[];
  backlogCount: number;
}

/** A delivery: a message that was pulled, or its lease id alone. */
export type Lease = string | { leaseId: string };

export interface Settled {
  ackCount: number;
  retryCount: number;
  /** By lease id, why it changed nothing. */
  warnings: Record<string, string>;
}

/** What the queue answered in place of a result. */
export class PullqError extends Error {
  override name = 'PullqError';
  /** The status of the answer. */
  status: number;
  /** The first of the errors' codes; 0 where the answer has none. */
  code: number;
  errors: { code: number; message: string }[];
  /** When to ask again, where the answer says so. */
  retryAfterSeconds: number | undefined;

  constructor(status: number, errors: { code: number; message: string }[], retryAfterSeconds?: number) {
    super(errors[0]?.message ?? `pullq answered ${status}`);
    this.status = status;
    this.code = errors[0]?.code ?? 0;
    this.errors = errors;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

/** A service binding, or anything else with its `fetch`. */
export interface Fetcher {
  fetch(input: string, init?: RequestInit): Promise<Response>;
}

export interface QueueAddress {
  /** 32 hexadecimal digits. */
  account: string;
  queueId: string;
  token: string;
}

export interface PullQueue<Body = unknown> {
  send(body: Body, options?: SendOptions): Promise<SendResponse>;
  sendBatch(messages: Iterable<SendRequest<Body>>, options?: SendBatchOptions): Promise<SendResponse>;
  metrics(): Promise<Metrics>;
  pull(options?: PullOptions): Promise<PulledBatch<Body>>;
  ack(leases: Lease | Iterable<Lease>): Promise<Settled>;
  /** Makes messages deliverable again, at once or after a delay. */
  retry(leases: Lease | Iterable<Lease>, options?: { delaySeconds?: number }): Promise<Settled>;
  /** Gives deliveries so much time from now on; `warnings` has what was too late, by lease id. */
  extend(leases: Lease | Iterable<Lease>, visibilityTimeoutMs: number): Promise<{ extendedCount: number; warnings: Record<string, string> }>;
}

/**
 * One queue of pullq, reached through `service`: a service binding (`env.PULLQ`), or the address of a server
 * (`http://127.0.0.1:8787`).
 *
 * Its methods throw a `PullqError` where the queue refuses, with its status, code and message, and a
 * `TypeError` where a body doesn't fit its content type, before anything is sent. They repeat nothing by
 * themselves.
 */
export function pullQueue<Body = unknown>(service: Fetcher | string, { account, queueId, token }: QueueAddress): PullQueue<Body> {
  // A service binding goes to its Worker whatever the host's name.
  const base = typeof service === 'string' ? service.replace(/\/+$/, '') : 'https://pullq';
  const fetcher: Fetcher = typeof service === 'string' ? { fetch: (input, init) => fetch(input, init) } : service;
  const url = `${base}/client/v4/accounts/${account}/queues/${queueId}`;

  async function call<Result>(method: string, path: string, body?: string, headers: Record<string, string> = {}): Promise<Result> {
    const response = await fetcher.fetch(`${url}${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...headers },
      ...(body !== undefined && { body }),
    });
    const text = await response.text();
    let answer: { success?: boolean; errors?: { code: number; message: string }[]; result?: unknown };
    try {
      answer = JSON.parse(text);
    } catch {
      answer = {};
    }
    if (response.ok && answer.success === true) return answer.result as Result;
    const retryAfter = Number(response.headers.get('retry-after') ?? NaN);
    throw new PullqError(response.status, answer.errors ?? [], Number.isNaN(retryAfter) ? undefined : retryAfter);
  }

  const post = <Result>(path: string, body: unknown) => call<Result>('POST', `/messages${path}`, JSON.stringify(body));

  return {
    async send(body, { contentType, delaySeconds, idempotencyKey } = {}) {
      const result = await call<RawSent>('POST', '/messages', encode({ body, contentType, delaySeconds }), keyHeader(idempotencyKey));
      return { metadata: { metrics: metricsOf(result.metadata.metrics) } };
    },

    async sendBatch(messages, { delaySeconds, idempotencyKey } = {}) {
      const list = [...messages].map(encode).join(',');
      const delay = delaySeconds === undefined ? '' : `,"delay_seconds":${JSON.stringify(delaySeconds)}`;
      const result = await call<RawSent>('POST', '/messages/batch', `{"messages":[${list}]${delay}}`, keyHeader(idempotencyKey));
      return { metadata: { metrics: metricsOf(result.metadata.metrics) } };
    },

    async metrics() {
      return metricsOf(await call<RawMetrics>('GET', '/metrics'));
    },

    async pull({ batchSize, visibilityTimeoutMs, waitMs } = {}) {
      const options = { batch_size: batchSize, visibility_timeout_ms: visibilityTimeoutMs, wait_ms: waitMs };
      const result = await post<RawPulled>('/pull', options);
      return {
        backlogCount: result.message_backlog_count,
        messages: result.messages.map((message) => ({
          id: message.id,
          timestamp: new Date(message.timestamp_ms),
          attempts: message.attempts,
          body: decode(message) as Body,
          contentType: message.metadata['CF-Content-Type'] as QueueContentType,
          leaseId: message.lease_id,
          metadata: message.metadata,
        })),
      };
    },

    ack: (leases) => post<Settled>('/ack', { acks: leaseIds(leases).map((lease_id) => ({ lease_id })) }),

    retry: (leases, { delaySeconds } = {}) =>
      post<Settled>('/ack', { retries: leaseIds(leases).map((lease_id) => ({ lease_id, delay_seconds: delaySeconds })) }),

    extend: (leases, visibilityTimeoutMs) =>
      post('/extend', { extensions: leaseIds(leases).map((lease_id) => ({ lease_id, visibility_timeout_ms: visibilityTimeoutMs })) }),
  };
}

interface RawMetrics {
  backlog_count: number;
  backlog_bytes: number;
  oldest_message_timestamp_ms: number;
}

interface RawSent {
  metadata: { metrics: RawMetrics };
}

interface RawMessage {
  id: string;
  timestamp_ms: number;
  attempts: number;
  body: string;
  lease_id: string;
  metadata: Record<string, string>;
}

interface RawPulled {
  message_backlog_count: number;
  messages: RawMessage[];
}

function metricsOf({ backlog_count, backlog_bytes, oldest_message_timestamp_ms: oldest }: RawMetrics): Metrics {
  return { backlogCount: backlog_count, backlogBytes: backlog_bytes, ...(oldest > 0 && { oldestMessageTimestamp: new Date(oldest) }) };
}

/** The message as JSON. A json body goes in as it is, so that its text is what JSON.stringify made. */
function encode({ body, contentType = 'json', delaySeconds }: { body: unknown; contentType?: QueueContentType | undefined; delaySeconds?: number | undefined }): string {
  const delay = delaySeconds === undefined ? '' : `,"delay_seconds":${JSON.stringify(delaySeconds)}`;
  return `{"content_type":"${contentType}"${delay},"body":${encodeBody(body, contentType)}}`;
}

function encodeBody(body: unknown, contentType: QueueContentType): string {
  switch (contentType) {
    case 'json': {
      const json = JSON.stringify(body);
      if (json === undefined) throw new TypeError('The body has no form in JSON: send text or bytes, or another value.');
      return json;
    }
    case 'text':
      if (typeof body !== 'string') throw new TypeError('A body of content type text must be a string.');
      return JSON.stringify(body);
    case 'bytes':
      if (body instanceof ArrayBuffer) return JSON.stringify(base64(new Uint8Array(body)));
      if (ArrayBuffer.isView(body)) return JSON.stringify(base64(new Uint8Array(body.buffer, body.byteOffset, body.byteLength)));
      throw new TypeError('A body of content type bytes must be an ArrayBuffer or a view of one.');
    case 'v8':
      throw new TypeError('Bodies of content type v8 can be read by Workers alone: send json, text or bytes.');
    default:
      throw new TypeError(`There is no content type ${JSON.stringify(contentType)}: it is json, text or bytes.`);
  }
}

function decode({ body, metadata }: RawMessage): unknown {
  switch (metadata['CF-Content-Type']) {
    case 'json':
      return decodeJson(body);
    case 'bytes':
    case 'v8':
      return bytesOf(body);
    default:
      return body;
  }
}

/** Base64 of JSON; or JSON as it is, from a pullq with the setting JSON_BODIES=text. */
function decodeJson(body: string): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: false }).decode(bytesOf(body)));
  } catch {
    return JSON.parse(body);
  }
}

function base64(bytes: Uint8Array): string {
  let text = '';
  // In pieces: a call takes only so many arguments.
  for (let from = 0; from < bytes.length; from += 8_192) text += String.fromCharCode(...bytes.subarray(from, from + 8_192));
  return btoa(text);
}

function bytesOf(base64: string): Uint8Array {
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
}

function leaseIds(leases: Lease | Iterable<Lease>): string[] {
  const list = typeof leases === 'string' || 'leaseId' in leases ? [leases] : [...leases];
  return list.map((lease) => (typeof lease === 'string' ? lease : lease.leaseId));
}

function keyHeader(key: string | undefined): Record<string, string> {
  return key === undefined ? {} : { 'idempotency-key': key };
}
