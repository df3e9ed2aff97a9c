//! Pulling: first what has come back, the longest ago first; then blocks whose delay is over, in
//! the order in which they became ready; then everything else in the order of the sends.

use super::engine::{Bitmap, Queue, FIRST_DELAYED, NO_BLOCK};
use super::holds::{Entry, Holds, Kind};
use super::lease::Lease;
use super::ledger::Slot;
use super::limits;
use super::record::{Death, MessageId, Record, Records};
use super::sql::{json_list, Flow, Row, Sql, SqlError};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// What a consumer asks for; what it leaves out, the consumer's settings say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PullRequest {
    /// Messages at most, 1 to 100 (1,000 on the CloudEvents face).
    pub batch_size: Option<u32>,
    /// How long the lease runs, in milliseconds, 1 to 43,200,000.
    pub visibility_timeout_ms: Option<u64>,
}

/// A message handed to a consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    pub id: MessageId,
    /// When it was sent, in milliseconds since the Unix epoch.
    pub sent_ms: u64,
    /// Deliveries so far, this one included.
    pub attempts: u32,
    /// How `content` is encoded: the protocol faces' own mark.
    pub form: u8,
    pub death: Option<Death>,
    /// The message in the form in which it is served.
    pub content: Vec<u8>,
    pub lease_id: String,
}

/// What a pull brings: no messages when there are none to deliver.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pulled {
    pub deliveries: Vec<Delivery>,
}

/// Why a pull is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PullError {
    #[error("the queue has no pull consumer")]
    NoConsumer,
    #[error("delivery is paused")]
    Paused,
    /// [`limits::MAX_MESSAGES_OUT`] messages are out, and nothing of them has come back.
    #[error("too many messages are out")]
    TooManyOut,
    #[error(transparent)]
    Storage(#[from] SqlError),
}

/// A message as it was found in its block.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub slot: Slot,
    /// Deliveries so far.
    pub attempts: u32,
    pub sent_ms: u64,
    pub id: MessageId,
    pub form: u8,
    pub size: u64,
    pub death: Option<Death>,
    pub content: Vec<u8>,
}

/// Messages found so far for one request, up to a number and to a size.
pub(super) struct Basket {
    pub found: Vec<Found>,
    wanted: usize,
    room_bytes: usize,
}

impl Basket {
    pub fn of(wanted: usize) -> Basket {
        Basket {
            found: Vec::new(),
            wanted,
            room_bytes: limits::MAX_PULL_CONTENT_BYTES,
        }
    }

    /// For messages whose number alone bounds them.
    pub fn of_any_size(wanted: usize) -> Basket {
        Basket {
            room_bytes: usize::MAX,
            ..Basket::of(wanted)
        }
    }

    fn is_full(&self) -> bool {
        self.found.len() >= self.wanted || self.room_bytes == 0
    }

    fn room(&self) -> usize {
        self.wanted.saturating_sub(self.found.len())
    }

    fn put(&mut self, found: Found) {
        self.room_bytes = self.room_bytes.saturating_sub(found.content.len());
        self.found.push(found);
    }
}

impl Found {
    fn new(slot: Slot, attempts: u32, sent_ms: u64, record: Record<'_>) -> Found {
        Found {
            slot,
            attempts,
            sent_ms,
            id: record.id,
            form: record.form,
            size: record.size,
            death: record.death,
            content: record.content.to_vec(),
        }
    }
}

/// Where first deliveries stand.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursors {
    pub head: Slot,
    pub matured: Slot,
}

impl Queue {
    /// Leases messages to a consumer. A queue with a deliverable message never answers an empty
    /// pull, though no alarm has fired (promise 10).
    ///
    /// Rows written: one, or none when there is nothing to deliver.
    pub fn pull(
        &mut self,
        sql: &impl Sql,
        wall_ms: u64,
        request: PullRequest,
    ) -> Result<Pulled, PullError> {
        let consumer = self.config.consumer.as_ref().ok_or(PullError::NoConsumer)?;
        let wanted = request.batch_size.unwrap_or(consumer.batch_size);
        let visibility_timeout_ms = request
            .visibility_timeout_ms
            .unwrap_or(consumer.visibility_timeout_ms);
        self.take(sql, wall_ms, wanted, visibility_timeout_ms)
    }

    /// Leases up to `wanted` messages, whether or not the queue has a pull consumer.
    ///
    /// Rows written: one, or none when there is nothing to deliver.
    pub fn take(
        &mut self,
        sql: &impl Sql,
        wall_ms: u64,
        wanted: u32,
        visibility_timeout_ms: u64,
    ) -> Result<Pulled, PullError> {
        if self.config.settings.delivery_paused {
            return Err(PullError::Paused);
        }
        let now_ms = self.clock.advance(wall_ms);
        self.sweep(sql, now_ms)?;

        let mut basket = Basket::of(wanted as usize);
        self.find_returned(sql, now_ms, &mut basket)?;
        let returned = basket.found.len();
        basket.wanted = basket.wanted.min(returned.saturating_add(self.room_out()));
        let cursors = self.find_waiting(sql, now_ms, self.cursors(), &mut basket)?;
        if !basket.is_full() {
            self.due.matured_waiting = false;
        }
        if basket.found.is_empty() {
            if self.room_out() == 0 && self.backlog_count() > self.holds.len() as u64 {
                return Err(PullError::TooManyOut);
            }
            self.ledger.counters.empty_pulls = self.ledger.counters.empty_pulls.saturating_add(1);
            return Ok(Pulled::default());
        }
        self.ledger.head = cursors.head;
        self.ledger.matured = cursors.matured;
        self.lease(sql, now_ms, visibility_timeout_ms, basket.found)
            .map_err(PullError::from)
    }

    /// False when a pull now would surely bring nothing; looks at no table.
    pub fn may_deliver(&mut self, wall_ms: u64) -> bool {
        let now_ms = self.clock.advance(wall_ms);
        !self.config.settings.delivery_paused
            && (self.ledger.head.block <= self.ledger.last_block
                || self.due.matured_waiting
                || self.due.maturity_ms <= now_ms
                || self.holds.ended(now_ms).next().is_some())
    }

    pub(super) fn cursors(&self) -> Cursors {
        Cursors {
            head: self.ledger.head,
            matured: self.ledger.matured,
        }
    }

    fn lease(
        &mut self,
        sql: &impl Sql,
        now_ms: u64,
        visibility_timeout_ms: u64,
        found: Vec<Found>,
    ) -> Result<Pulled, SqlError> {
        let counters = &mut self.ledger.counters;
        counters.delivered = counters.delivered.saturating_add(found.len() as u64);
        let entries = found.iter().map(|message| Entry {
            slot: message.slot,
            attempts: message.attempts.saturating_add(1),
            size: u32::try_from(message.size).unwrap_or(u32::MAX),
        });
        let entries: Vec<Entry> = entries.collect();
        let until_ms = now_ms.saturating_add(visibility_timeout_ms);
        self.write_hold(sql, Kind::Leased, until_ms, entries)?;
        let deliveries = found.into_iter().map(|message| {
            let attempts = message.attempts.saturating_add(1);
            Delivery {
                id: message.id,
                sent_ms: message.sent_ms,
                attempts,
                form: message.form,
                death: message.death,
                content: message.content,
                lease_id: self.sealer.seal_lease(&Lease {
                    slot: message.slot,
                    attempts,
                    leased_ms: now_ms,
                }),
            }
        });
        Ok(Pulled {
            deliveries: deliveries.collect(),
        })
    }

    /// Messages that have come back: their hold has ended.
    pub(super) fn find_returned(
        &self,
        sql: &impl Sql,
        now_ms: u64,
        basket: &mut Basket,
    ) -> Result<(), SqlError> {
        let entries: Vec<Entry> = self.holds.ended(now_ms).take(basket.room()).collect();
        self.find_entries(sql, &entries, basket)
    }

    /// Reads messages whose places are known, in the given order.
    ///
    /// They are read in portions: blocks come in the order of their ids, and a basket that is full
    /// by size must not leave out those that stand first and lie last.
    pub(super) fn find_entries(
        &self,
        sql: &impl Sql,
        entries: &[Entry],
        basket: &mut Basket,
    ) -> Result<(), SqlError> {
        let mut rest = entries;
        while !rest.is_empty() && !basket.is_full() {
            let (portion, others) = rest.split_at(portion_length(rest));
            for found in read_entries(sql, portion)? {
                if !basket.is_full() {
                    basket.put(found);
                }
            }
            rest = others;
        }
        Ok(())
    }

    /// Messages that were never delivered and are ready: matured ones, then the others. Returns
    /// where the next ones stand.
    pub(super) fn find_waiting(
        &self,
        sql: &impl Sql,
        now_ms: u64,
        cursors: Cursors,
        basket: &mut Basket,
    ) -> Result<Cursors, SqlError> {
        let first_unready = self.first_ready_at(now_ms.saturating_add(1));
        let mut matured = cursors.matured;
        matured.block = matured.block.max(FIRST_DELAYED);
        if self.due.maturity_ms <= now_ms || self.due.matured_waiting {
            self.find_from(sql, &mut matured, first_unready.min(NO_BLOCK), basket)?;
        }
        let mut head = cursors.head;
        if head.block <= self.ledger.last_block {
            self.find_from(sql, &mut head, FIRST_DELAYED, basket)?;
        }
        Ok(Cursors { head, matured })
    }

    /// Reads on from `cursor` up to, not including, block `end`.
    ///
    /// A statement reads about as many blocks as the last one needed: a statement once begun is
    /// read to its end, and a block can be one message or a megabyte.
    fn find_from(
        &self,
        sql: &impl Sql,
        cursor: &mut Slot,
        end: u64,
        basket: &mut Basket,
    ) -> Result<(), SqlError> {
        let mut limit = self.blocks_per_read.get();
        let mut total = 0;
        while !basket.is_full() {
            let mut read: u64 = 0;
            sql.run(
                "SELECT block.id, block.sent_ms, block.count, progress.done, block.payload
                 FROM block LEFT JOIN progress ON progress.id = block.id
                 WHERE block.id >= ? AND block.id < ? ORDER BY block.id LIMIT ?",
                vec![cursor.block.into(), end.into(), limit.into()],
                &mut |row| {
                    read = read.saturating_add(1);
                    take_from_block(row, cursor, &self.holds, basket)
                },
            )?;
            total = read.saturating_add(total);
            if basket.is_full() {
                self.blocks_per_read.set(total.min(MAX_BLOCKS_PER_READ));
            }
            if read < limit {
                break;
            }
            limit = limit.saturating_mul(4).min(MAX_BLOCKS_PER_READ);
        }
        Ok(())
    }
}

/// How many of `entries` are read at once: at least one, about a megabyte.
pub(super) fn portion_length(entries: &[Entry]) -> usize {
    let mut bytes = 0u64;
    let fitting = entries.iter().take_while(|entry| {
        let fits = bytes < MAX_PORTION_BYTES;
        bytes = bytes.saturating_add(u64::from(entry.size));
        fits
    });
    fitting.count()
}

/// Bytes of bodies after which a portion ends.
const MAX_PORTION_BYTES: u64 = 1_000_000;

/// Reads messages whose places are known, in the given order, whatever their size.
pub(super) fn read_entries(sql: &impl Sql, entries: &[Entry]) -> Result<Vec<Found>, SqlError> {
    let mut order: BTreeMap<Slot, (usize, u32)> = BTreeMap::new();
    let mut blocks = BTreeSet::new();
    for (place, entry) in entries.iter().enumerate() {
        order.insert(entry.slot, (place, entry.attempts));
        blocks.insert(entry.slot.block);
    }
    let mut placed = Vec::with_capacity(entries.len());
    sql.run(
        "SELECT block.id, block.sent_ms, block.payload
         FROM json_each(?) AS wanted CROSS JOIN block ON block.id = wanted.value",
        vec![json_list(blocks)],
        &mut |mut row| {
            let block = row.integer(0)?;
            let sent_ms = row.integer(1)?;
            let payload = row.take_blob(2)?;
            let mut records = Records::of(&payload);
            let mut next_index = 0;
            let of_block = Slot { block, index: 0 }..=Slot {
                block,
                index: u32::MAX,
            };
            for (&slot, &(place, attempts)) in order.range(of_block) {
                while next_index < slot.index {
                    records.skip()?;
                    next_index = next_index.saturating_add(1);
                }
                let record = records.next_record()?;
                placed.push((place, Found::new(slot, attempts, sent_ms, record)));
                next_index = next_index.saturating_add(1);
            }
            Ok(Flow::More)
        },
    )?;
    placed.sort_by_key(|&(place, _)| place);
    Ok(placed.into_iter().map(|(_, found)| found).collect())
}

/// Blocks that one statement reads at most.
const MAX_BLOCKS_PER_READ: u64 = 100;

/// Takes what is wanted from a block and nobody has, and moves the cursor past it.
fn take_from_block(
    mut row: Row,
    cursor: &mut Slot,
    holds: &Holds,
    basket: &mut Basket,
) -> Result<Flow, SqlError> {
    let block = row.integer(0)?;
    let sent_ms = row.integer(1)?;
    let count = row.integer(2)?;
    let done = Bitmap(row.take_blob(3)?);
    let payload = row.take_blob(4)?;
    let mut records = Records::of(&payload);
    let mut index = if block == cursor.block {
        cursor.index
    } else {
        0
    };
    for _ in 0..index {
        records.skip()?;
    }
    // What was never delivered and is out all the same was taken by a redrive.
    let some_move = holds.any_from(block, index);
    while u64::from(index) < count && !basket.is_full() {
        let moves = some_move && holds.get(Slot { block, index }).is_some();
        if done.has(index) || moves {
            records.skip()?;
        } else {
            let record = records.next_record()?;
            basket.put(Found::new(Slot { block, index }, 0, sent_ms, record));
        }
        index = index.saturating_add(1);
    }
    let finished = u64::from(index) >= count;
    *cursor = if finished {
        Slot {
            block: block.saturating_add(1),
            index: 0,
        }
    } else {
        Slot { block, index }
    };
    Ok(if basket.is_full() {
        Flow::Enough
    } else {
        Flow::More
    })
}
