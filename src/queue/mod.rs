//! The queue itself: what is stored, who holds what, and what time does to it.
//!
//! Pure Rust. No clock, no randomness and no platform: the wall clock's time and random bytes are
//! arguments, the database is the [`Sql`] trait. Nothing here knows HTTP or any wire format: a
//! message's content is opaque bytes with a `form` that the protocol faces agree on.
//!
//! - [`limits`]: every number that bounds something, with its source
//! - [`config`]: a queue's settings and its consumer's
//! - [`sql`]: the database as the queue sees it, and the tables
//! - [`record`]: how messages lie in a block
//! - [`lease`]: sealed lease ids and refs
//! - [`clock`]: time that never runs backwards
//! - [`ledger`]: counters and cursors, carried by every row that is written
//! - [`holds`]: the messages that are out, in memory
//! - [`engine`]: [`Queue`], opened from the tables, and what it shares between operations
//! - [`send`], [`pull`], [`settle`], [`sweep`], [`inspect`], [`redrive`], [`history`]: the operations

pub mod clock;
pub mod config;
pub mod engine;
pub mod history;
pub mod holds;
pub mod inspect;
pub mod lease;
pub mod ledger;
pub mod limits;
pub mod pull;
pub mod record;
pub mod redrive;
pub mod send;
pub mod settle;
pub mod sql;
pub mod sweep;
mod varint;

pub use config::{Config, Consumer, Settings};
pub use engine::{Metrics, Queue, States};
pub use history::Minute;
pub use inspect::{Peeked, RefPurge};
pub use pull::{Delivery, PullError, PullRequest, Pulled};
pub use record::{Death, MessageId};
pub use redrive::{RedriveError, RedriveRequest, RedriveState, RedriveStatus};
pub use send::{NewMessage, SendError, SendReceipt, SendRequest};
pub use settle::{Extension, Retry, Settlement};
pub use sql::{Flow, Row, Sql, SqlError, Value};
pub use sweep::{Transfer, TransferredMessage};
