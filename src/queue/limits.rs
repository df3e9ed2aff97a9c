//! Every number that bounds the queue, in one place, each with its source.
//!
//! "Cloudflare" below means the limits that Cloudflare publishes for Queues.

/// Messages one pull may ask for, and messages one batch may bring. Cloudflare: 100.
pub const MAX_BATCH_MESSAGES: u32 = 100;
/// Messages one receive on the CloudEvents face may ask for. KubeMQ: 1,000.
pub const MAX_RECEIVE_MESSAGES: u32 = 1_000;
/// Messages a pull brings when neither it nor the consumer says how many. Cloudflare: 5.
pub const DEFAULT_BATCH_SIZE: u32 = 5;
/// How long a lease runs when neither the pull nor the consumer says. Cloudflare: 30 s.
pub const DEFAULT_VISIBILITY_TIMEOUT_MS: u64 = 30_000;
/// The longest a lease may run, extensions included. Cloudflare: 12 h.
pub const MAX_VISIBILITY_TIMEOUT_MS: u64 = 12 * 60 * 60 * 1_000;
/// Retries a consumer allows when it says nothing. Cloudflare: 3.
pub const DEFAULT_MAX_RETRIES: u32 = 3;
/// The most retries a consumer may allow. Cloudflare: 100.
pub const MAX_MAX_RETRIES: u32 = 100;
/// The longest delay of a send or a retry. Cloudflare: 24 h.
pub const MAX_DELAY_S: u32 = 24 * 60 * 60;
/// The shortest retention of messages. Cloudflare: 60 s.
pub const MIN_RETENTION_S: u32 = 60;
/// The longest retention of messages. Cloudflare: 14 days.
pub const MAX_RETENTION_S: u32 = 14 * 24 * 60 * 60;
/// Retention when the queue says nothing. Cloudflare: 4 days.
pub const DEFAULT_RETENTION_S: u32 = 4 * 24 * 60 * 60;
/// Bytes of one message's body, before any encoding. Cloudflare: 128 KB of 1,000 bytes.
pub const MAX_MESSAGE_BYTES: usize = 128_000;
/// Bytes of all bodies of one batch. Cloudflare: 256 KB of 1,000 bytes.
pub const MAX_BATCH_BYTES: usize = 256_000;
/// Lease ids in one settling call, acknowledgements and retries together. pullq's own.
pub const MAX_SETTLE_LEASES: usize = 1_000;

/// A new block is begun when a block's payload would grow past this. A row may have 2 MB
/// (Durable Objects); an escaped 128 KB body can take 768 KB.
pub const MAX_BLOCK_PAYLOAD_BYTES: usize = 1_000_000;
/// Messages of a block, also where several sends share one: reading a message reads its block.
/// pullq's own.
pub const MAX_BLOCK_MESSAGES: u64 = 100;
/// A pull ends early, with at least one message, once its messages' content reaches this: an
/// object has 128 MB for everything (Durable Objects). pullq's own.
pub const MAX_PULL_CONTENT_BYTES: usize = 8_000_000;
/// Messages that may be out at once (leased, retried with a delay, or given back and not yet
/// delivered again): they are what the object remembers, so they bound its memory. pullq's own;
/// SQS allows 120,000.
pub const MAX_MESSAGES_OUT: usize = 250_000;
/// Messages moved to another queue in one go. pullq's own.
pub const MAX_TRANSFER_MESSAGES: usize = 100;
/// Bytes of the bodies that one such go takes, but for a last message. pullq's own.
pub const MAX_TRANSFER_BYTES: u32 = 1_000_000;
/// Messages that a redrive takes at once. pullq's own.
pub const MAX_REDRIVE_PORTION: usize = 1_000;
/// The highest rate at which a redrive can be asked to go. pullq's own.
pub const MAX_REDRIVE_PER_SECOND: u32 = 10_000;
/// For how long an idempotency key is remembered. pullq's own.
pub const IDEMPOTENCY_WINDOW_MS: u64 = 5 * 60 * 1_000;
/// Bytes of an idempotency key. pullq's own.
pub const MAX_IDEMPOTENCY_KEY_BYTES: usize = 256;
/// The longest a pull may wait for a message. pullq's own; Cloudflare has no long polls.
pub const MAX_WAIT_MS: u64 = 60_000;
/// Hold rows without a message that are kept for reuse; the alarm deletes the others. pullq's own.
pub const MAX_SPARE_HOLD_ROWS: usize = 64;
/// Rows that one statement deletes by their ids, which are one parameter of text. pullq's own.
pub const MAX_ROWS_IN_A_DELETE: usize = 10_000;
