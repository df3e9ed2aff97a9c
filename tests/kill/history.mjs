// What the clients of a run asked and were told, in their own words and by their own clock. Nothing
// here is known from the server's inside. judge.mjs decides whether it can be right.

/** How a request ended: `answered` with 2xx, `refused` with 4xx, or `unanswered`, which leaves open whether it was done. */
export const ANSWERED = 'answered';
export const REFUSED = 'refused';
export const UNANSWERED = 'unanswered';

/** Requests in the order in which they ended; `start_ms` and `end_ms` enclose the moment at which the server did them. */
export class History {
  /** {queue, producer, number, messages: [{key, body_bytes, content_type, delay_ms}], start_ms, end_ms, outcome, ids} */
  sends = [];
  /** {queue, batch_size, visibility_timeout_ms, start_ms, end_ms, outcome, messages: the answer's, each with its body_bytes} */
  pulls = [];
  /** {queue, acks: [lease_id], retries: [{lease_id, delay_seconds}], start_ms, end_ms, outcome, warnings} */
  settles = [];
  /** {queue, lease_ids, visibility_timeout_ms, start_ms, end_ms, outcome, warnings} */
  extensions = [];
}
