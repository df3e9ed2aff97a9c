//! The ledger: what the queue has done since it was made, and how far it has come.
//!
//! It is written with every block, hold and tally row, in the row itself, so that counters and
//! cursors cost no row of their own; the newest written ledger is the queue's.

use super::sql::SqlError;
use super::varint;
use serde::{Deserialize, Serialize};

/// A message's place: its block and its position in it, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Slot {
    pub block: u64,
    pub index: u32,
}

/// Counters of messages since the queue was made.
///
/// Invariant (promise 9): `sent` = messages in the queue + `acknowledged` + `dead_lettered` +
/// `dropped` + `expired` + `purged` + `redriven`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    pub sent: u64,
    /// Deliveries, so a message that is delivered twice counts twice.
    pub delivered: u64,
    pub acknowledged: u64,
    /// Retries that consumers asked for.
    pub retried: u64,
    /// Moved to the dead-letter queue.
    pub dead_lettered: u64,
    /// Given up where there is no dead-letter queue.
    pub dropped: u64,
    /// Past their retention.
    pub expired: u64,
    pub purged: u64,
    /// Moved to another queue by a redrive.
    pub redriven: u64,
    /// Pulls that brought nothing. Counted in memory and written with the next row: an idle queue
    /// that is asked again and again must not cost a row each time.
    pub empty_pulls: u64,
}

/// See the module's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ledger {
    /// Rises with every operation that writes; orders holds.
    pub seq: u64,
    /// The queue's time at the write.
    pub clock_ms: u64,
    /// The id of the latest block that was not delayed.
    pub last_block: u64,
    /// Where first deliveries go on, in blocks that were not delayed.
    pub head: Slot,
    /// Where first deliveries go on, in blocks that were.
    pub matured: Slot,
    pub counters: Counters,
    /// Bytes of all messages ever sent.
    pub sent_bytes: u64,
    /// Bytes of all messages that have left the queue.
    pub settled_bytes: u64,
}

impl Ledger {
    /// Messages in the queue: waiting, delayed or out.
    pub fn backlog_count(&self) -> u64 {
        let c = &self.counters;
        c.sent
            .saturating_sub(c.acknowledged)
            .saturating_sub(c.dead_lettered)
            .saturating_sub(c.dropped)
            .saturating_sub(c.expired)
            .saturating_sub(c.purged)
            .saturating_sub(c.redriven)
    }

    /// Bytes of the messages in the queue.
    pub fn backlog_bytes(&self) -> u64 {
        self.sent_bytes.saturating_sub(self.settled_bytes)
    }

    /// The ledger as a row carries it.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        for value in self.values() {
            varint::put(&mut out, value);
        }
        out
    }

    /// Reads what [`Ledger::encode`] wrote, now or under an earlier version of the tables, which
    /// knew fewer fields: what it didn't know is 0.
    pub fn decode(mut input: &[u8]) -> Result<Ledger, SqlError> {
        let mut values = [0u64; FIELDS];
        for (place, value) in values.iter_mut().enumerate() {
            if place >= FIRST_FIELDS && input.is_empty() {
                break;
            }
            *value = varint::take(&mut input).ok_or(CORRUPT)?;
        }
        Ledger::from_values(values).ok_or(CORRUPT)
    }

    fn values(&self) -> [u64; FIELDS] {
        let c = &self.counters;
        [
            self.seq,
            self.clock_ms,
            self.last_block,
            self.head.block,
            u64::from(self.head.index),
            self.matured.block,
            u64::from(self.matured.index),
            c.sent,
            c.delivered,
            c.acknowledged,
            c.retried,
            c.dead_lettered,
            c.dropped,
            c.expired,
            c.purged,
            c.empty_pulls,
            self.sent_bytes,
            self.settled_bytes,
            c.redriven,
        ]
    }

    fn from_values(values: [u64; FIELDS]) -> Option<Ledger> {
        let [seq, clock_ms, last_block, head_block, head_index, matured_block, matured_index, sent, delivered, acknowledged, retried, dead_lettered, dropped, expired, purged, empty_pulls, sent_bytes, settled_bytes, redriven] =
            values;
        Some(Ledger {
            seq,
            clock_ms,
            last_block,
            head: Slot {
                block: head_block,
                index: u32::try_from(head_index).ok()?,
            },
            matured: Slot {
                block: matured_block,
                index: u32::try_from(matured_index).ok()?,
            },
            counters: Counters {
                sent,
                delivered,
                acknowledged,
                retried,
                dead_lettered,
                dropped,
                expired,
                purged,
                redriven,
                empty_pulls,
            },
            sent_bytes,
            settled_bytes,
        })
    }
}

const FIELDS: usize = 19;
/// Fields of the first version of the tables.
const FIRST_FIELDS: usize = 18;
const CORRUPT: SqlError = SqlError::Corrupt("a ledger ends early");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_comes_back_as_it_was_written() {
        let values = std::array::from_fn(|i| 1u64 << (i + 3));
        let ledger = Ledger::from_values(values).expect("small indexes");
        assert_eq!(Ledger::decode(&ledger.encode()), Ok(ledger));
        assert_eq!(Ledger::decode(&[1, 2, 3]), Err(CORRUPT));
    }

    #[test]
    fn a_ledger_of_the_first_version_has_redriven_nothing() {
        let mut first = Vec::new();
        for value in 1..=FIRST_FIELDS as u64 {
            varint::put(&mut first, value);
        }
        let ledger = Ledger::decode(&first).expect("a ledger");
        assert_eq!((ledger.settled_bytes, ledger.counters.redriven), (18, 0));
    }
}
