//! Settling leases: acknowledge, retry, extend.
//!
//! Acknowledging is permissive, as Cloudflare's is: a lease id is accepted after its lease has
//! ended, and also when another consumer has the message by then, whose own lease id is accepted
//! too. A late retry or extension would take the message from its present holder or say when it is
//! delivered next although that is no longer the caller's to say: it changes nothing, and a
//! warning says so.

use super::engine::{Bitmap, Queue, NO_BLOCK};
use super::holds::{Entry, Kind};
use super::lease::Lease;
use super::ledger::Slot;
use super::limits;
use super::record::Records;
use super::sql::{Flow, Sql, SqlError};
use std::collections::{BTreeMap, BTreeSet};

/// A message to be delivered again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    pub lease_id: String,
    /// Seconds until then; without them the consumer's `retry_delay_s` counts. 0: at once.
    pub delay_s: Option<u32>,
}

/// A lease to be extended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extension {
    pub lease_id: String,
    /// The lease then ends this long after now, in milliseconds.
    pub visibility_timeout_ms: u64,
}

/// What became of the lease ids.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settlement {
    /// Lease ids accepted as acknowledgements, repeated and late ones included.
    pub acknowledged: u64,
    /// Lease ids accepted as retries.
    pub retried: u64,
    /// Leases extended.
    pub extended: u64,
    /// For each lease id that changed nothing, why.
    pub warnings: Vec<(String, String)>,
}

const UNKNOWN: &str = "This queue never gave out this lease id; check the queue and the id.";
const ACKNOWLEDGED_TOO: &str =
    "This lease id is also among the acks, so the message was acknowledged and not retried.";
const RETRY_TOO_LATE: &str = "The lease has ended, so nothing was changed: the message is waiting \
     again, or another consumer has it, or it is settled.";
const EXTENSION_TOO_LATE: &str =
    "The lease has ended, so it was not extended: pull the message again.";
const EXTENSION_TOO_LONG: &str =
    "Not extended: a lease may run for 12 hours from its delivery, extensions included.";

impl Queue {
    /// Acknowledges messages and gives others back.
    ///
    /// Rows written: one for each block that is finished or partly settled, one for each distinct
    /// end of a retry's delay, and one more when there is no retry.
    pub fn settle(
        &mut self,
        sql: &impl Sql,
        wall_ms: u64,
        acks: &[String],
        retries: &[Retry],
    ) -> Result<Settlement, SqlError> {
        let now_ms = self.clock.advance(wall_ms);
        let mut settlement = Settlement::default();
        let acked = self.acknowledge(sql, acks, &mut settlement)?;
        let delayed = self.give_back(now_ms, &acked, retries, &mut settlement);
        // Where a hold is written, its row carries the ledger.
        if acked.settled && delayed.by_end.is_empty() && delayed.used_up.is_empty() {
            self.write_tally(sql)?;
        }
        for (until_ms, entries) in delayed.by_end {
            self.write_hold(sql, Kind::Delayed, until_ms, entries)?;
        }
        if !delayed.used_up.is_empty() {
            self.give_up(sql, delayed.used_up)?;
        }
        Ok(settlement)
    }

    /// Lets leases run longer.
    ///
    /// Rows written: one for each distinct timeout.
    pub fn extend(
        &mut self,
        sql: &impl Sql,
        wall_ms: u64,
        extensions: &[Extension],
    ) -> Result<Settlement, SqlError> {
        let now_ms = self.clock.advance(wall_ms);
        let mut settlement = Settlement::default();
        let mut by_end: BTreeMap<u64, BTreeMap<_, Entry>> = BTreeMap::new();
        for extension in extensions {
            let until_ms = now_ms.saturating_add(extension.visibility_timeout_ms);
            let accepted = match self.sealer.open_lease(&extension.lease_id) {
                None => Err(UNKNOWN),
                Some(lease) => match self.running(&lease, now_ms) {
                    None => Err(EXTENSION_TOO_LATE),
                    Some(_)
                        if until_ms
                            > lease
                                .leased_ms
                                .saturating_add(limits::MAX_VISIBILITY_TIMEOUT_MS) =>
                    {
                        Err(EXTENSION_TOO_LONG)
                    }
                    Some(entry) => Ok(entry),
                },
            };
            match accepted {
                Ok(entry) => {
                    settlement.extended += 1;
                    for others in by_end.values_mut() {
                        others.remove(&entry.slot);
                    }
                    by_end
                        .entry(until_ms)
                        .or_default()
                        .insert(entry.slot, entry);
                }
                Err(why) => settlement.warn(&extension.lease_id, why),
            }
        }
        for (until_ms, entries) in by_end {
            if !entries.is_empty() {
                self.write_hold(sql, Kind::Leased, until_ms, entries.into_values().collect())?;
            }
        }
        Ok(settlement)
    }

    /// Acknowledges every message that nobody has: waiting, delayed or given back. Messages whose
    /// lease runs stay their holders'. Returns how many.
    ///
    /// Rows written: one for each block, and one.
    pub fn drain(&mut self, sql: &impl Sql, wall_ms: u64) -> Result<u64, SqlError> {
        let now_ms = self.clock.advance(wall_ms);
        self.sweep(sql, now_ms)?;
        let taken: BTreeSet<Slot> = self.holds.taken(now_ms).collect();
        let blocks: BTreeSet<u64> = taken.iter().map(|slot| slot.block).collect();
        let mut drained = 0;
        let mut first = 0;
        for block in blocks {
            drained += self.delete_blocks(sql, first, block)?;
            let others = self.others_in_block(sql, block, &taken)?;
            self.settle_slots(sql, &others)?;
            drained += others.len() as u64;
            first = block.saturating_add(1);
        }
        drained += self.delete_blocks(sql, first, NO_BLOCK)?;
        let counters = &mut self.ledger.counters;
        counters.acknowledged = counters.acknowledged.saturating_add(drained);
        self.write_tally(sql)?;
        self.refresh_due(sql)?;
        Ok(drained)
    }

    /// Sizes of the unsettled messages of a block but for those in `taken`.
    fn others_in_block(
        &self,
        sql: &impl Sql,
        block: u64,
        taken: &BTreeSet<Slot>,
    ) -> Result<BTreeMap<Slot, u64>, SqlError> {
        let mut others = BTreeMap::new();
        sql.run(
            "SELECT block.count, progress.done, block.payload
             FROM block LEFT JOIN progress ON progress.id = block.id WHERE block.id = ?",
            vec![block.into()],
            &mut |mut row| {
                let count = row.integer(0)?;
                let done = Bitmap(row.take_blob(1)?);
                let payload = row.take_blob(2)?;
                let mut records = Records::of(&payload);
                for index in 0..u32::try_from(count).unwrap_or(u32::MAX) {
                    let record = records.next_record()?;
                    let slot = Slot { block, index };
                    if !done.has(index) && !taken.contains(&slot) {
                        others.insert(slot, record.size);
                    }
                }
                Ok(Flow::Enough)
            },
        )?;
        Ok(others)
    }

    /// Takes a delivery back that never reached its consumer: the messages are deliverable at once,
    /// and the delivery doesn't count. Lease ids whose lease has ended are passed over.
    ///
    /// The next delivery has the same number, so nobody may have seen these lease ids: the caller
    /// has broken off the answer that they stood in.
    ///
    /// Rows written: one.
    pub fn take_back(
        &mut self,
        sql: &impl Sql,
        wall_ms: u64,
        lease_ids: &[String],
    ) -> Result<(), SqlError> {
        let now_ms = self.clock.advance(wall_ms);
        let mut entries = BTreeMap::new();
        for lease_id in lease_ids {
            let lease = self.sealer.open_lease(lease_id);
            if let Some(entry) = lease.and_then(|lease| self.running(&lease, now_ms)) {
                let attempts = entry.attempts.saturating_sub(1);
                entries.insert(entry.slot, Entry { attempts, ..entry });
            }
        }
        if entries.is_empty() {
            return Ok(());
        }
        let counters = &mut self.ledger.counters;
        counters.delivered = counters.delivered.saturating_sub(entries.len() as u64);
        self.write_hold(sql, Kind::Delayed, now_ms, entries.into_values().collect())
    }

    fn acknowledge(
        &mut self,
        sql: &impl Sql,
        acks: &[String],
        settlement: &mut Settlement,
    ) -> Result<Acknowledged, SqlError> {
        let mut slots = BTreeSet::new();
        let mut messages = BTreeMap::new();
        for lease_id in acks {
            let Some(lease) = self.sealer.open_lease(lease_id) else {
                settlement.warn(lease_id, UNKNOWN);
                continue;
            };
            settlement.acknowledged += 1;
            slots.insert(lease.slot);
            if let Some(size) = self.unsettled(lease.slot) {
                messages.insert(lease.slot, size);
            }
        }
        if !messages.is_empty() {
            self.settle_slots(sql, &messages)?;
            let counters = &mut self.ledger.counters;
            counters.acknowledged = counters.acknowledged.saturating_add(messages.len() as u64);
        }
        Ok(Acknowledged {
            slots,
            settled: !messages.is_empty(),
        })
    }

    fn give_back(
        &mut self,
        now_ms: u64,
        acked: &Acknowledged,
        retries: &[Retry],
        settlement: &mut Settlement,
    ) -> GivenBack {
        let mut given_back = GivenBack::default();
        let mut seen = BTreeSet::new();
        let (default_delay_s, max_retries) = self
            .config
            .consumer
            .as_ref()
            .map_or((0, u32::MAX), |consumer| {
                (consumer.retry_delay_s, consumer.max_retries)
            });
        for retry in retries {
            let Some(lease) = self.sealer.open_lease(&retry.lease_id) else {
                settlement.warn(&retry.lease_id, UNKNOWN);
                continue;
            };
            if acked.slots.contains(&lease.slot) {
                settlement.warn(&retry.lease_id, ACKNOWLEDGED_TOO);
                continue;
            }
            let Some(entry) = self.running(&lease, now_ms) else {
                settlement.warn(&retry.lease_id, RETRY_TOO_LATE);
                continue;
            };
            settlement.retried += 1;
            // The same lease id twice in one call: the first one's delay counts.
            if !seen.insert(entry.slot) {
                continue;
            }
            let counters = &mut self.ledger.counters;
            counters.retried = counters.retried.saturating_add(1);
            if entry.attempts > max_retries {
                given_back.used_up.push(entry);
            } else {
                let delay_s = retry.delay_s.unwrap_or(default_delay_s);
                let until_ms = now_ms.saturating_add(u64::from(delay_s) * 1_000);
                given_back.by_end.entry(until_ms).or_default().push(entry);
            }
        }
        given_back
    }

    /// The size of a message that was delivered and can still be acknowledged: one that is not out
    /// any more is settled, and one that moves to the dead-letter queue is that queue's already.
    fn unsettled(&self, slot: Slot) -> Option<u64> {
        let out = self.holds.get(slot)?;
        match self.holds.hold_of(out)? {
            (Kind::Moving(..), _) => None,
            _ => Some(u64::from(out.size)),
        }
    }

    /// The message of a lease that still runs.
    fn running(&self, lease: &Lease, now_ms: u64) -> Option<Entry> {
        let out = self.holds.get(lease.slot)?;
        let (kind, until_ms) = self.holds.hold_of(out)?;
        let runs = *kind == Kind::Leased && until_ms > now_ms && out.attempts == lease.attempts;
        runs.then_some(Entry {
            slot: lease.slot,
            attempts: out.attempts,
            size: out.size,
        })
    }
}

struct Acknowledged {
    slots: BTreeSet<Slot>,
    settled: bool,
}

#[derive(Default)]
struct GivenBack {
    by_end: BTreeMap<u64, Vec<Entry>>,
    used_up: Vec<Entry>,
}

impl Settlement {
    fn warn(&mut self, lease_id: &str, why: &str) {
        self.warnings.push((lease_id.to_owned(), why.to_owned()));
    }
}
