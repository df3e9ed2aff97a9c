//! What time does: messages outlive their retention, deliveries are used up, idempotency keys are
//! forgotten. And what follows from it: dead letters move to their queue, exactly once.
//!
//! A move has two halves in two objects. The sender first writes a hold that says which messages
//! move where; its `seq` is the move's number. The receiver stores the messages together with the
//! number of the latest move from that sender, so that a repeat stores nothing. Only then does the
//! sender settle them. A crash anywhere in between repeats a half and loses nothing (promise 6).

use super::engine::{Queue, FIRST_DELAYED};
use super::holds::{Entry, Kind, Why};
use super::ledger::Slot;
use super::limits;
use super::pull::Basket;
use super::record::{Death, MessageId, Record};
use super::sql::{json_list, Flow, Sql, SqlError, Value};
use std::collections::BTreeMap;

/// Messages to be handed to another queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// Rises from move to move of one sender.
    pub number: u64,
    /// Name of the queue they go to.
    pub destination: String,
    pub messages: Vec<TransferredMessage>,
}

/// A message on its way to another queue: its id, content and size stay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransferredMessage {
    pub id: MessageId,
    pub form: u8,
    pub size: u64,
    pub death: Option<Death>,
    pub content: Vec<u8>,
}

impl TransferredMessage {
    /// The message as it lies in a payload.
    pub fn record(&self) -> Record<'_> {
        Record {
            id: self.id,
            form: self.form,
            size: self.size,
            death: self.death.clone(),
            content: &self.content,
        }
    }

    pub fn of(record: Record<'_>) -> TransferredMessage {
        TransferredMessage {
            id: record.id,
            form: record.form,
            size: record.size,
            death: record.death,
            content: record.content.to_vec(),
        }
    }
}

impl Queue {
    /// Does what is due, as the alarm asks for it. A pull does it too, so nothing depends on when
    /// an alarm fires.
    pub fn tick(&mut self, sql: &impl Sql, wall_ms: u64) -> Result<(), SqlError> {
        let now_ms = self.clock.advance(wall_ms);
        self.sweep(sql, now_ms)?;
        self.forget_keys(sql, now_ms)?;
        self.go_on_redriving(sql, now_ms)?;
        let spare = self.holds.take_spare_beyond(limits::MAX_SPARE_HOLD_ROWS);
        if !spare.is_empty() {
            // The newest ledger may stand in one of them.
            self.write_tally(sql)?;
            sql.execute(
                "DELETE FROM hold WHERE id IN (SELECT value FROM json_each(?))",
                vec![json_list(spare)],
            )?;
        }
        Ok(())
    }

    /// The move to be done next: the same one until [`Queue::transferred`] is told of it.
    pub fn next_transfer(&self, sql: &impl Sql) -> Result<Option<Transfer>, SqlError> {
        let Some(next) = self.holds.first_move() else {
            return Ok(None);
        };
        let mut basket = Basket::of_any_size(next.entries.len());
        self.find_entries(sql, &next.entries, &mut basket)?;
        let messages = basket.found.into_iter().map(|found| TransferredMessage {
            id: found.id,
            form: found.form,
            size: found.size,
            death: match next.why {
                Why::Redrive => None,
                Why::DeadLetter => Some(Death {
                    queue_name: self.config.queue_name.clone(),
                    first_sent_ms: found
                        .death
                        .map_or(found.sent_ms, |earlier| earlier.first_sent_ms),
                    attempts: found.attempts,
                }),
            },
            content: found.content,
        });
        Ok(Some(Transfer {
            number: next.number,
            destination: next.destination.to_owned(),
            messages: messages.collect(),
        }))
    }

    /// The other queue has the messages of move `number`: they leave this one.
    pub fn transferred(
        &mut self,
        sql: &impl Sql,
        wall_ms: u64,
        number: u64,
    ) -> Result<(), SqlError> {
        self.clock.advance(wall_ms);
        let Some(done) = self.holds.first_move().filter(|next| next.number == number) else {
            return Ok(());
        };
        let (why, entries) = (done.why, done.entries);
        self.settle_slots(sql, &sizes(&entries))?;
        let counters = &mut self.ledger.counters;
        let counter = match why {
            Why::DeadLetter => &mut counters.dead_lettered,
            Why::Redrive => &mut counters.redriven,
        };
        *counter = counter.saturating_add(entries.len() as u64);
        self.due.expiry_ms = self.first_expiry_ms(sql)?;
        self.write_tally(sql)
    }

    /// Takes messages from another queue. `source` is that queue's id; a move that was taken before
    /// is recognised by its number and stores nothing. Returns whether it was new.
    ///
    /// Rows written: one for each megabyte, and one.
    pub fn receive(
        &mut self,
        sql: &impl Sql,
        wall_ms: u64,
        source: &str,
        number: u64,
        messages: &[TransferredMessage],
    ) -> Result<bool, SqlError> {
        let now_ms = self.clock.advance(wall_ms);
        let latest = sql.first(
            "SELECT number FROM arrival WHERE source = ?",
            vec![Value::Text(source.to_owned())],
            |row| row.integer(0),
        )?;
        if latest.is_some_and(|latest| number <= latest) {
            return Ok(false);
        }
        sql.execute(
            "INSERT INTO arrival (source, number) VALUES (?, ?)
             ON CONFLICT (source) DO UPDATE SET number = excluded.number",
            vec![Value::Text(source.to_owned()), number.into()],
        )?;
        let records = messages.iter().map(TransferredMessage::record);
        self.store_records(sql, now_ms, records)?;
        Ok(true)
    }

    /// Drops what has outlived its retention and gives up messages whose deliveries are used up.
    pub(super) fn sweep(&mut self, sql: &impl Sql, now_ms: u64) -> Result<(), SqlError> {
        if self.due.expiry_ms <= now_ms {
            self.expire(sql, now_ms)?;
        }
        if self.due.maturity_ms <= now_ms {
            self.due.matured_waiting = true;
            self.due.maturity_ms = self.first_maturity_ms(sql, now_ms)?;
        }
        let used_up: Vec<Entry> = self.used_up(now_ms).collect();
        if !used_up.is_empty() {
            self.give_up(sql, used_up)?;
        }
        self.due.swept_ms = now_ms;
        Ok(())
    }

    /// Messages whose hold has ended since the last sweep and that may not be delivered again.
    pub(super) fn used_up(&self, now_ms: u64) -> impl Iterator<Item = Entry> + '_ {
        let max_retries = self
            .config
            .consumer
            .as_ref()
            .map_or(u32::MAX, |consumer| consumer.max_retries);
        self.holds
            .ended_since(self.due.swept_ms, now_ms)
            .filter(move |entry| entry.attempts > max_retries)
    }

    /// Messages that are not delivered again: on their way to the dead-letter queue, or dropped.
    pub(super) fn give_up(&mut self, sql: &impl Sql, entries: Vec<Entry>) -> Result<(), SqlError> {
        let destination = self
            .config
            .consumer
            .as_ref()
            .and_then(|consumer| consumer.dead_letter_queue.clone());
        match destination {
            Some(destination) => {
                for entries in in_transfers(entries) {
                    let kind = Kind::Moving(destination.clone(), Why::DeadLetter);
                    self.write_hold(sql, kind, 0, entries)?;
                }
                Ok(())
            }
            None => {
                self.settle_slots(sql, &sizes(&entries))?;
                let counters = &mut self.ledger.counters;
                counters.dropped = counters.dropped.saturating_add(entries.len() as u64);
                self.write_tally(sql)
            }
        }
    }

    /// When messages that are ready at `ready_ms` are dropped.
    pub(super) fn expiry_ms(&self, ready_ms: u64) -> u64 {
        ready_ms.saturating_add(u64::from(self.config.settings.retention_s) * 1_000)
    }

    /// Finds out anew when things are due.
    pub(super) fn refresh_due(&mut self, sql: &impl Sql) -> Result<(), SqlError> {
        let now_ms = self.clock.now_ms();
        self.due.expiry_ms = self.first_expiry_ms(sql)?;
        self.due.maturity_ms = self.first_maturity_ms(sql, now_ms)?;
        self.due.matured_waiting = true;
        self.due.keys_ms = first_key_ms(sql)?;
        Ok(())
    }

    /// Deletes the blocks at the front that have outlived the retention: ids rise with the time
    /// from which it counts. A block with messages that move stays until the move is done.
    fn expire(&mut self, sql: &impl Sql, now_ms: u64) -> Result<(), SqlError> {
        let retention_ms = u64::from(self.config.settings.retention_s) * 1_000;
        let oldest_kept_ms = now_ms.saturating_sub(retention_ms).saturating_add(1);
        let moving = self.holds.moving_blocks();
        let undelayed_end = sql
            .first(
                "SELECT id FROM block WHERE id < ? AND sent_ms >= ? ORDER BY id LIMIT 1",
                vec![FIRST_DELAYED.into(), oldest_kept_ms.into()],
                |row| row.integer(0),
            )?
            .unwrap_or(FIRST_DELAYED);
        let delayed_end = self.first_ready_at(oldest_kept_ms);
        let mut expired = 0;
        for (first, end) in [(0, undelayed_end), (FIRST_DELAYED, delayed_end)] {
            let mut first = first;
            let kept = moving.range(first..end.max(first)).copied().chain([end]);
            for kept in kept {
                if kept > first {
                    expired += self.delete_blocks(sql, first, kept)?;
                }
                first = kept.saturating_add(1);
            }
        }
        if expired > 0 {
            self.ledger.counters.expired = self.ledger.counters.expired.saturating_add(expired);
            self.write_tally(sql)?;
        }
        self.due.expiry_ms = self.first_expiry_ms(sql)?;
        Ok(())
    }

    /// Deletes blocks with all that is in them, and returns how many messages that were.
    pub(super) fn delete_blocks(
        &mut self,
        sql: &impl Sql,
        first: u64,
        end: u64,
    ) -> Result<u64, SqlError> {
        let range = || vec![first.into(), end.into()];
        let sums = |row: super::sql::Row| Ok((row.integer_or_zero(0)?, row.integer_or_zero(1)?));
        let (count, bytes) = sql
            .first(
                "SELECT sum(count), sum(bytes) FROM block WHERE id >= ? AND id < ?",
                range(),
                sums,
            )?
            .unwrap_or((0, 0));
        if count == 0 {
            return Ok(0);
        }
        let (settled, settled_bytes) = sql
            .first(
                "SELECT sum(settled), sum(bytes) FROM progress WHERE id >= ? AND id < ?",
                range(),
                sums,
            )?
            .unwrap_or((0, 0));
        sql.execute("DELETE FROM block WHERE id >= ? AND id < ?", range())?;
        if settled > 0 {
            sql.execute("DELETE FROM progress WHERE id >= ? AND id < ?", range())?;
        }
        self.oldest_ms.set(None);
        self.holds.remove_blocks(first, end);
        let bytes = bytes.saturating_sub(settled_bytes);
        self.ledger.settled_bytes = self.ledger.settled_bytes.saturating_add(bytes);
        Ok(count.saturating_sub(settled))
    }

    fn first_expiry_ms(&self, sql: &impl Sql) -> Result<u64, SqlError> {
        let mut first_ms = u64::MAX;
        sql.run(
            "SELECT id, sent_ms FROM (SELECT id, sent_ms FROM block
                WHERE id < ?1 AND id NOT IN (SELECT value FROM json_each(?2)) ORDER BY id LIMIT 1)
             UNION ALL
             SELECT id, sent_ms FROM (SELECT id, sent_ms FROM block
                WHERE id >= ?1 AND id NOT IN (SELECT value FROM json_each(?2)) ORDER BY id LIMIT 1)",
            vec![FIRST_DELAYED.into(), json_list(self.holds.moving_blocks())],
            &mut |row| {
                let sent_ms = row.integer(1)?;
                let ready_ms = self.ready_ms(row.integer(0)?).unwrap_or(sent_ms);
                first_ms = first_ms.min(self.expiry_ms(ready_ms));
                Ok(Flow::More)
            },
        )?;
        Ok(first_ms)
    }

    fn first_maturity_ms(&self, sql: &impl Sql, now_ms: u64) -> Result<u64, SqlError> {
        let first = sql.first(
            "SELECT id FROM block WHERE id >= ? ORDER BY id LIMIT 1",
            vec![self.first_ready_at(now_ms.saturating_add(1)).into()],
            |row| row.integer(0),
        )?;
        Ok(first.and_then(|id| self.ready_ms(id)).unwrap_or(u64::MAX))
    }

    fn forget_keys(&mut self, sql: &impl Sql, now_ms: u64) -> Result<(), SqlError> {
        if self.due.keys_ms > now_ms {
            return Ok(());
        }
        sql.execute(
            "DELETE FROM recent_key WHERE at_ms <= ?",
            vec![now_ms.saturating_sub(limits::IDEMPOTENCY_WINDOW_MS).into()],
        )?;
        self.due.keys_ms = first_key_ms(sql)?;
        Ok(())
    }
}

fn first_key_ms(sql: &impl Sql) -> Result<u64, SqlError> {
    let first = sql.first("SELECT min(at_ms) FROM recent_key", Vec::new(), |row| {
        row.integer_or_null(0)
    })?;
    Ok(first.flatten().map_or(u64::MAX, |at_ms| {
        at_ms.saturating_add(limits::IDEMPOTENCY_WINDOW_MS)
    }))
}

/// Messages in the portions in which they move.
pub(super) fn in_transfers(entries: Vec<Entry>) -> Vec<Vec<Entry>> {
    let mut transfers: Vec<Vec<Entry>> = Vec::new();
    let mut room_bytes = 0;
    for entry in entries {
        let fits = entry.size <= room_bytes;
        match transfers.last_mut() {
            Some(last) if fits && last.len() < limits::MAX_TRANSFER_MESSAGES => last.push(entry),
            _ => {
                room_bytes = limits::MAX_TRANSFER_BYTES;
                transfers.push(vec![entry]);
            }
        }
        room_bytes = room_bytes.saturating_sub(entry.size);
    }
    transfers
}

fn sizes(entries: &[Entry]) -> BTreeMap<Slot, u64> {
    entries
        .iter()
        .map(|entry| (entry.slot, u64::from(entry.size)))
        .collect()
}
