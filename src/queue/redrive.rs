//! Redrive: messages of this queue move on to another one, for example dead letters back to the
//! queue in which they died.
//!
//! A redrive walks once over what was in the queue when it began, in the order of delivery, and
//! remembers how far it has come. What it passes and nobody has, moves as dead letters do
//! (see [`sweep`](super::sweep)): exactly once. What is out stays, and so does what has nowhere to
//! go. Messages that arrive meanwhile are not its: what dies again can't go round in a circle.

use super::engine::{Bitmap, Queue, FIRST_DELAYED};
use super::holds::{decode_entries, encode_entries, Entry, Kind, Why};
use super::ledger::Slot;
use super::limits;
use super::pull::{portion_length, read_entries};
use super::record::{Death, Records};
use super::sql::{Flow, Row, Sql, SqlError, Value};
use super::sweep::in_transfers;
use std::collections::BTreeMap;
use thiserror::Error;

/// What is to move, and where to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RedriveRequest {
    /// Name of the queue they go to; `None`: each back to the queue in which it died.
    pub destination: Option<String>,
    /// Messages a second, 1 to [`limits::MAX_REDRIVE_PER_SECOND`]; `None`: as fast as it goes.
    pub messages_per_second: Option<u32>,
    /// These messages only, by the refs that a peek showed, at most [`limits::MAX_SETTLE_LEASES`];
    /// `None`: all that are in the queue now and neither delayed nor out.
    pub refs: Option<Vec<String>>,
}

/// Why a redrive is not begun.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RedriveError {
    #[error("a redrive is running already")]
    Running,
    #[error("the queue can't be its own destination")]
    OwnDestination,
    #[error(transparent)]
    Storage(#[from] SqlError),
}

/// How far a redrive is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedriveState {
    Running,
    Completed,
    /// Somebody stopped it. What had begun to move still arrives.
    Stopped,
}

/// The latest redrive of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedriveStatus {
    pub state: RedriveState,
    /// `None`: each message goes back to the queue in which it died.
    pub destination: Option<String>,
    pub messages_per_second: Option<u32>,
    /// Messages that could move when it began.
    pub to_move: u64,
    /// Messages that have arrived at their destination.
    pub moved: u64,
    /// Messages that it passed and left where they are.
    pub skipped: u64,
    /// In milliseconds since the Unix epoch, as the next one.
    pub started_ms: u64,
    pub ended_ms: Option<u64>,
}

/// A redrive as its row has it.
#[derive(Debug, Clone)]
pub(super) struct Redrive {
    state: RedriveState,
    destination: Option<String>,
    messages_per_second: Option<u32>,
    to_move: u64,
    /// The queue's counter of redriven messages when it began.
    redriven_before: u64,
    skipped: u64,
    started_ms: u64,
    ended_ms: Option<u64>,
    /// The next portion is taken no sooner.
    next_ms: u64,
    /// What lies before this was looked at.
    at: Slot,
    /// The first block that was not there when it began.
    end_block: u64,
    /// The messages that were chosen, in the order of their places.
    chosen: Option<Vec<Entry>>,
}

/// What one step of a redrive found.
#[derive(Default)]
struct Portion {
    by_destination: BTreeMap<String, Vec<Entry>>,
    count: usize,
    skipped: u64,
    /// Where the next step goes on.
    at: Slot,
    is_last: bool,
}

impl Portion {
    /// Takes a message that nobody has, unless it has nowhere to go.
    fn take(&mut self, own: &str, redrive: &Redrive, death: Option<&Death>, entry: Entry) {
        let destination = redrive.destination.as_deref().or_else(|| {
            let death = death?;
            (death.queue_name != own).then_some(death.queue_name.as_str())
        });
        match destination {
            Some(destination) => {
                let entries = self.by_destination.entry(destination.to_owned());
                entries.or_default().push(entry);
                self.count = self.count.saturating_add(1);
            }
            None => self.skip(),
        }
    }

    fn skip(&mut self) {
        self.skipped = self.skipped.saturating_add(1);
    }
}

impl Queue {
    /// Begins a redrive. It goes on with the alarms; see [`Queue::redrive`].
    ///
    /// Rows written: one, and one for each portion. Each move costs what a dead letter's costs.
    pub fn start_redrive(
        &mut self,
        sql: &impl Sql,
        wall_ms: u64,
        request: RedriveRequest,
    ) -> Result<RedriveStatus, RedriveError> {
        let now_ms = self.clock.advance(wall_ms);
        if self.is_redriving() {
            return Err(RedriveError::Running);
        }
        if request.destination.as_deref() == Some(self.config.queue_name.as_str()) {
            return Err(RedriveError::OwnDestination);
        }
        let (chosen, to_move, skipped) = match &request.refs {
            Some(refs) => {
                let chosen = self.places_of(refs);
                // What was named twice counts as one that isn't there.
                let unknown = refs.len().saturating_sub(chosen.len()) as u64;
                let to_move = chosen.len() as u64;
                (Some(chosen), to_move, unknown)
            }
            None => (None, self.states(sql, wall_ms)?.waiting, 0),
        };
        let redrive = Redrive {
            state: RedriveState::Running,
            destination: request.destination,
            messages_per_second: request.messages_per_second,
            to_move,
            redriven_before: self.ledger.counters.redriven,
            skipped,
            started_ms: now_ms,
            ended_ms: None,
            next_ms: now_ms,
            at: Slot::default(),
            end_block: self.ledger.last_block.saturating_add(1),
            chosen,
        };
        let status = self.status_of(&redrive);
        self.write_redrive(sql, redrive)?;
        Ok(status)
    }

    /// The latest redrive; `None` where there was none.
    pub fn redrive(&self) -> Option<RedriveStatus> {
        self.redrive.as_ref().map(|redrive| self.status_of(redrive))
    }

    fn status_of(&self, redrive: &Redrive) -> RedriveStatus {
        RedriveStatus {
            state: redrive.state,
            destination: redrive.destination.clone(),
            messages_per_second: redrive.messages_per_second,
            to_move: redrive.to_move,
            moved: self
                .ledger
                .counters
                .redriven
                .saturating_sub(redrive.redriven_before),
            skipped: redrive.skipped,
            started_ms: redrive.started_ms,
            ended_ms: redrive.ended_ms,
        }
    }

    /// Ends a redrive early; one that has ended stays as it is.
    pub fn stop_redrive(
        &mut self,
        sql: &impl Sql,
        wall_ms: u64,
    ) -> Result<Option<RedriveStatus>, SqlError> {
        let now_ms = self.clock.advance(wall_ms);
        self.end_redrive(sql, now_ms, RedriveState::Stopped)?;
        Ok(self.redrive())
    }

    /// Takes the next portion of a running redrive, when it is time and the one before has arrived.
    pub(super) fn go_on_redriving(&mut self, sql: &impl Sql, now_ms: u64) -> Result<(), SqlError> {
        let due = self.next_portion_ms().is_some_and(|at_ms| at_ms <= now_ms);
        if !due || self.holds.is_redriving() {
            return Ok(());
        }
        let Some(redrive) = self.redrive.clone() else {
            return Ok(());
        };
        let portion = match &redrive.chosen {
            Some(chosen) => self.chosen_portion(sql, now_ms, &redrive, chosen)?,
            None => self.portion(sql, now_ms, &redrive)?,
        };
        if portion.is_last && portion.count == 0 {
            let skipped = redrive.skipped.saturating_add(portion.skipped);
            self.redrive = Some(Redrive { skipped, ..redrive });
            return self.end_redrive(sql, now_ms, RedriveState::Completed);
        }
        let pause_ms = match redrive.messages_per_second {
            Some(per_second) => (portion.count as u64 * 1_000).div_ceil(u64::from(per_second)),
            None => 0,
        };
        for (destination, mut entries) in portion.by_destination {
            entries.sort_by_key(|entry| entry.slot);
            for entries in in_transfers(entries) {
                let kind = Kind::Moving(destination.clone(), Why::Redrive);
                self.write_hold(sql, kind, 0, entries)?;
            }
        }
        self.write_redrive(
            sql,
            Redrive {
                skipped: redrive.skipped.saturating_add(portion.skipped),
                at: portion.at,
                next_ms: now_ms.saturating_add(pause_ms),
                ..redrive
            },
        )
    }

    /// When a running redrive takes its next portion.
    pub(super) fn next_portion_ms(&self) -> Option<u64> {
        let redrive = self.redrive.as_ref()?;
        (redrive.state == RedriveState::Running).then_some(redrive.next_ms)
    }

    fn is_redriving(&self) -> bool {
        self.next_portion_ms().is_some() || self.holds.is_redriving()
    }

    fn end_redrive(
        &mut self,
        sql: &impl Sql,
        now_ms: u64,
        state: RedriveState,
    ) -> Result<(), SqlError> {
        match self.redrive.clone() {
            Some(redrive) if redrive.state == RedriveState::Running => self.write_redrive(
                sql,
                Redrive {
                    state,
                    ended_ms: Some(now_ms),
                    chosen: redrive.chosen.map(|_| Vec::new()),
                    ..redrive
                },
            ),
            _ => Ok(()),
        }
    }

    /// The places that refs name, in order; those that this queue never gave out name none.
    fn places_of(&self, refs: &[String]) -> Vec<Entry> {
        let named = refs
            .iter()
            .filter_map(|token| self.sealer.open_ref(token))
            .map(|named| (named.slot, u32::try_from(named.size).unwrap_or(u32::MAX)));
        let sizes: BTreeMap<Slot, u32> = named.collect();
        let entry = |(slot, size)| Entry {
            slot,
            attempts: 0,
            size,
        };
        sizes.into_iter().map(entry).collect()
    }

    /// Deliveries so far of a message that nobody has; `None` for one that is out.
    fn free(&self, slot: Slot, now_ms: u64) -> Option<u32> {
        let Some(out) = self.holds.get(slot) else {
            return Some(0);
        };
        match self.holds.hold_of(out) {
            Some((Kind::Leased | Kind::Delayed, until_ms)) if until_ms <= now_ms => {
                Some(out.attempts)
            }
            _ => None,
        }
    }

    /// The next of all messages.
    fn portion(&self, sql: &impl Sql, now_ms: u64, redrive: &Redrive) -> Result<Portion, SqlError> {
        let wanted = redrive.portion_size();
        let mut portion = Portion {
            at: redrive.at,
            ..Portion::default()
        };
        for _ in 0..MAX_READS {
            let mut read = 0u64;
            sql.run(
                "SELECT block.id, block.count, progress.done, block.payload
                 FROM block LEFT JOIN progress ON progress.id = block.id
                 WHERE block.id >= ? AND block.id < ? ORDER BY block.id LIMIT ?",
                vec![
                    portion.at.block.into(),
                    redrive.end_block.min(FIRST_DELAYED).into(),
                    BLOCKS_PER_READ.into(),
                ],
                &mut |row| {
                    read = read.saturating_add(1);
                    if portion.count >= wanted {
                        return Ok(Flow::Enough);
                    }
                    self.take_from_block(row, now_ms, redrive, &mut portion)?;
                    Ok(Flow::More)
                },
            )?;
            portion.is_last = read < BLOCKS_PER_READ && portion.count < wanted;
            if portion.is_last || portion.count >= wanted {
                break;
            }
        }
        Ok(portion)
    }

    /// Takes what can move from a block, from where the portion stands, until it is full.
    fn take_from_block(
        &self,
        mut row: Row,
        now_ms: u64,
        redrive: &Redrive,
        portion: &mut Portion,
    ) -> Result<(), SqlError> {
        let block = row.integer(0)?;
        let count = row.integer(1)?;
        let done = Bitmap(row.take_blob(2)?);
        let payload = row.take_blob(3)?;
        let own = &self.config.queue_name;
        let mut records = Records::of(&payload);
        let first = if block == portion.at.block {
            portion.at.index
        } else {
            0
        };
        let mut index = 0;
        while u64::from(index) < count && portion.count < redrive.portion_size() {
            let record = records.next_record()?;
            let slot = Slot { block, index };
            index = index.saturating_add(1);
            if slot.index < first || done.has(slot.index) {
                continue;
            }
            match self.free(slot, now_ms) {
                Some(attempts) => {
                    let entry = Entry {
                        slot,
                        attempts,
                        size: u32::try_from(record.size).unwrap_or(u32::MAX),
                    };
                    portion.take(own, redrive, record.death.as_ref(), entry);
                }
                None => portion.skip(),
            }
        }
        portion.at = match u64::from(index) >= count {
            true => Slot {
                block: block.saturating_add(1),
                index: 0,
            },
            false => Slot { block, index },
        };
        Ok(())
    }

    /// The next of the messages that were chosen.
    fn chosen_portion(
        &self,
        sql: &impl Sql,
        now_ms: u64,
        redrive: &Redrive,
        chosen: &[Entry],
    ) -> Result<Portion, SqlError> {
        let mut portion = Portion {
            at: redrive.at,
            ..Portion::default()
        };
        let rest = chosen.get(chosen.partition_point(|entry| entry.slot < redrive.at)..);
        let rest = rest.unwrap_or_default();
        let length = portion_length(rest).min(redrive.portion_size());
        let looked_at = rest.get(..length).unwrap_or_default();
        let Some(last) = looked_at.last() else {
            portion.is_last = true;
            return Ok(portion);
        };
        portion.at = Slot {
            block: last.slot.block,
            index: last.slot.index.saturating_add(1),
        };
        let there = self.still_there(sql, looked_at.iter().map(|entry| entry.slot))?;
        let free: Vec<Entry> = looked_at
            .iter()
            .filter(|entry| there.contains(&entry.slot))
            .filter_map(|entry| {
                let attempts = self.free(entry.slot, now_ms)?;
                Some(Entry { attempts, ..*entry })
            })
            .collect();
        portion.skipped = (looked_at.len() as u64).saturating_sub(free.len() as u64);
        let own = &self.config.queue_name;
        for (found, entry) in read_entries(sql, &free)?.into_iter().zip(free) {
            portion.take(own, redrive, found.death.as_ref(), entry);
        }
        Ok(portion)
    }

    pub(super) fn read_redrive(&mut self, sql: &impl Sql) -> Result<(), SqlError> {
        self.redrive = sql.first(
            "SELECT state, destination, messages_per_second, to_move, redriven_before, skipped,
                started_ms, ended_ms, next_ms, at_block, at_index, end_block, chosen FROM redrive",
            Vec::new(),
            Redrive::read,
        )?;
        Ok(())
    }

    fn write_redrive(&mut self, sql: &impl Sql, redrive: Redrive) -> Result<(), SqlError> {
        let or_null = |number: Option<u64>| number.map_or(Value::Null, Value::from);
        let chosen = redrive.chosen.as_deref().map(encode_entries);
        sql.execute(
            "INSERT OR REPLACE INTO redrive (id, state, destination, messages_per_second, to_move,
                redriven_before, skipped, started_ms, ended_ms, next_ms, at_block, at_index,
                end_block, chosen)
             VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            vec![
                redrive.state.column().into(),
                redrive.destination.clone().map_or(Value::Null, Value::Text),
                or_null(redrive.messages_per_second.map(u64::from)),
                redrive.to_move.into(),
                redrive.redriven_before.into(),
                redrive.skipped.into(),
                redrive.started_ms.into(),
                or_null(redrive.ended_ms),
                redrive.next_ms.into(),
                redrive.at.block.into(),
                u64::from(redrive.at.index).into(),
                redrive.end_block.into(),
                chosen.map_or(Value::Null, Value::Blob),
            ],
        )?;
        self.redrive = Some(redrive);
        Ok(())
    }
}

/// Blocks that one statement reads: a block can have a megabyte.
const BLOCKS_PER_READ: u64 = 10;
/// Such statements in one portion, where there is little to take.
const MAX_READS: u32 = 20;

impl Redrive {
    /// Messages of one portion: at a chosen rate a fifth of a second's.
    fn portion_size(&self) -> usize {
        let most = limits::MAX_REDRIVE_PORTION;
        self.messages_per_second
            .map_or(most, |per_second| (per_second as usize / 5).clamp(1, most))
    }

    fn read(mut row: Row) -> Result<Redrive, SqlError> {
        const CORRUPT: SqlError = SqlError::Corrupt("a redrive");
        let small = |number: u64| u32::try_from(number).map_err(|_| CORRUPT);
        let chosen = match row.0.get(12) {
            Some(Value::Null) => None,
            _ => Some(decode_entries(&row.take_blob(12)?)?),
        };
        Ok(Redrive {
            state: RedriveState::from_column(row.integer(0)?).ok_or(CORRUPT)?,
            destination: row.take_text(1)?,
            messages_per_second: row.integer_or_null(2)?.map(small).transpose()?,
            to_move: row.integer(3)?,
            redriven_before: row.integer(4)?,
            skipped: row.integer(5)?,
            started_ms: row.integer(6)?,
            ended_ms: row.integer_or_null(7)?,
            next_ms: row.integer(8)?,
            at: Slot {
                block: row.integer(9)?,
                index: small(row.integer(10)?)?,
            },
            end_block: row.integer(11)?,
            chosen,
        })
    }
}

impl RedriveState {
    fn column(self) -> u64 {
        match self {
            RedriveState::Running => 0,
            RedriveState::Completed => 1,
            RedriveState::Stopped => 2,
        }
    }

    fn from_column(column: u64) -> Option<RedriveState> {
        let states = [
            RedriveState::Running,
            RedriveState::Completed,
            RedriveState::Stopped,
        ];
        states.into_iter().find(|state| state.column() == column)
    }
}
