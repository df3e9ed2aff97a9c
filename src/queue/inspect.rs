//! Looking without taking: peek, and purging: everything, or single messages that a peek showed.

use super::engine::{look_up_blocks, Queue, NO_BLOCK};
use super::holds::Kind;
use super::lease::Ref;
use super::ledger::Slot;
use super::pull::{Basket, Found};
use super::record::{Death, MessageId};
use super::sql::{Sql, SqlError};
use std::collections::{BTreeMap, BTreeSet};

/// A message as a peek shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peeked {
    pub id: MessageId,
    /// When it was sent, in milliseconds since the Unix epoch.
    pub sent_ms: u64,
    /// Deliveries so far; a peek is none.
    pub attempts: u32,
    /// How `content` is encoded: the protocol faces' own mark.
    pub form: u8,
    pub death: Option<Death>,
    /// The message in the form in which it is served.
    pub content: Vec<u8>,
    /// Names the message for [`Queue::purge_refs`].
    pub reference: String,
}

/// What became of refs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RefPurge {
    /// Messages that left the queue.
    pub purged: u64,
    /// For each ref that changed nothing, why.
    pub warnings: Vec<(String, String)>,
}

impl Queue {
    /// Shows the messages that the next pulls would bring, and changes nothing: no lease, no
    /// attempt counted. Messages that are out or delayed are not shown. Works while paused.
    pub fn peek(
        &mut self,
        sql: &impl Sql,
        wall_ms: u64,
        wanted: u32,
    ) -> Result<Vec<Peeked>, SqlError> {
        let now_ms = self.clock.advance(wall_ms);
        let mut basket = Basket::of(wanted as usize);
        self.find_returned(sql, now_ms, &mut basket)?;
        self.find_waiting(sql, now_ms, self.cursors(), &mut basket)?;
        Ok(basket
            .found
            .into_iter()
            .map(|found| self.peeked(found))
            .collect())
    }

    fn peeked(&self, found: Found) -> Peeked {
        Peeked {
            id: found.id,
            sent_ms: found.sent_ms,
            attempts: found.attempts,
            form: found.form,
            death: found.death,
            content: found.content,
            reference: self.sealer.seal_ref(&Ref {
                slot: found.slot,
                size: found.size,
            }),
        }
    }

    /// Deletes single messages, also those that are out by now. It is no delivery and no
    /// acknowledgement.
    pub fn purge_refs(
        &mut self,
        sql: &impl Sql,
        wall_ms: u64,
        refs: &[String],
    ) -> Result<RefPurge, SqlError> {
        self.clock.advance(wall_ms);
        let mut outcome = RefPurge::default();
        let mut wanted: BTreeMap<Slot, (u64, &String)> = BTreeMap::new();
        for token in refs {
            match self.sealer.open_ref(token) {
                None => outcome.warn(token, "This queue never gave out this ref; peek again."),
                Some(Ref { slot, size }) => {
                    wanted.insert(slot, (size, token));
                }
            }
        }
        let in_queue = self.still_there(sql, wanted.keys().copied())?;
        let mut messages = BTreeMap::new();
        for (slot, (size, token)) in wanted {
            if in_queue.contains(&slot) {
                messages.insert(slot, size);
            } else {
                outcome.warn(token, "The message is no longer in the queue.");
            }
        }
        if !messages.is_empty() {
            self.settle_slots(sql, &messages)?;
            outcome.purged = messages.len() as u64;
            let counters = &mut self.ledger.counters;
            counters.purged = counters.purged.saturating_add(outcome.purged);
            self.write_tally(sql)?;
        }
        Ok(outcome)
    }

    /// Those of `slots` whose messages are neither settled nor on their way to another queue.
    pub(super) fn still_there(
        &self,
        sql: &impl Sql,
        slots: impl Iterator<Item = Slot>,
    ) -> Result<BTreeSet<Slot>, SqlError> {
        let mut there: BTreeSet<Slot> = slots.collect();
        there.retain(|&slot| {
            let moving = self.holds.get(slot).and_then(|out| self.holds.hold_of(out));
            !matches!(moving, Some((Kind::Moving(..), _)))
        });
        let mut blocks: Vec<u64> = there.iter().map(|slot| slot.block).collect();
        blocks.dedup();
        let mut done = BTreeMap::new();
        look_up_blocks(sql, &blocks, &mut |facts| {
            done.insert(facts.id, facts.done);
        })?;
        there.retain(|slot| {
            done.get(&slot.block)
                .is_some_and(|done| !done.has(slot.index))
        });
        Ok(there)
    }

    /// Deletes every message that is in the queue now: waiting, delayed or out. Returns how many.
    /// A message whose move to the dead-letter queue has begun may still arrive there.
    pub fn purge(&mut self, sql: &impl Sql, wall_ms: u64) -> Result<u64, SqlError> {
        let now_ms = self.clock.advance(wall_ms);
        sql.execute("UPDATE self SET purged_ms = ?", vec![now_ms.into()])?;
        self.purged_ms = Some(now_ms);
        let purged = self.delete_blocks(sql, 0, NO_BLOCK)?;
        self.ledger.counters.purged = self.ledger.counters.purged.saturating_add(purged);
        self.write_tally(sql)?;
        self.refresh_due(sql)?;
        Ok(purged)
    }
}

impl RefPurge {
    fn warn(&mut self, token: &str, why: &str) {
        self.warnings.push((token.to_owned(), why.to_owned()));
    }
}
