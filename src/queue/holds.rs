//! The messages that are out, in memory: leased, delayed by a retry, given back and not yet
//! delivered again, or on their way to another queue. Rebuilt from the `hold` table at any time.

use super::ledger::Slot;
use super::limits;
use super::sql::SqlError;
use super::varint;
use std::collections::{BTreeMap, BTreeSet};

/// Why messages are out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A consumer has them until the hold ends.
    Leased,
    /// A consumer gave them back to be delivered no sooner than the hold ends.
    Delayed,
    /// They move to the queue of this name; no end but the move's.
    Moving(String, Why),
}

/// Why messages move to another queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Their deliveries are used up.
    DeadLetter,
    /// Somebody has them moved on: a redrive.
    Redrive,
}

impl Kind {
    /// The kind as the `kind` and `destination` columns hold it.
    pub fn columns(&self) -> (u64, Option<&str>) {
        match self {
            Kind::Leased => (0, None),
            Kind::Delayed => (1, None),
            Kind::Moving(destination, Why::DeadLetter) => (2, Some(destination)),
            Kind::Moving(destination, Why::Redrive) => (3, Some(destination)),
        }
    }

    pub fn from_columns(kind: u64, destination: Option<String>) -> Result<Kind, SqlError> {
        match (kind, destination) {
            (0, None) => Ok(Kind::Leased),
            (1, None) => Ok(Kind::Delayed),
            (2, Some(destination)) => Ok(Kind::Moving(destination, Why::DeadLetter)),
            (3, Some(destination)) => Ok(Kind::Moving(destination, Why::Redrive)),
            _ => Err(SqlError::Corrupt("a hold of an unknown kind")),
        }
    }
}

/// A message in a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    pub slot: Slot,
    /// Deliveries so far.
    pub attempts: u32,
    /// The message's size in bytes.
    pub size: u32,
}

/// A hold as its row has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    pub seq: u64,
    pub kind: Kind,
    pub until_ms: u64,
    pub entries: Vec<Entry>,
}

/// Entries as the `entries` column holds them: runs of messages of one block.
pub fn encode_entries(entries: &[Entry]) -> Vec<u8> {
    let mut out = Vec::with_capacity(entries.len() * 4 + 12);
    for run in entries.chunk_by(|a, b| a.slot.block == b.slot.block) {
        let block = run.first().map_or(0, |entry| entry.slot.block);
        varint::put(&mut out, block);
        varint::put(&mut out, run.len() as u64);
        for entry in run {
            varint::put(&mut out, u64::from(entry.slot.index));
            varint::put(&mut out, u64::from(entry.attempts));
            varint::put(&mut out, u64::from(entry.size));
        }
    }
    out
}

/// Reads what [`encode_entries`] wrote.
pub fn decode_entries(mut input: &[u8]) -> Result<Vec<Entry>, SqlError> {
    let input = &mut input;
    let mut entries = Vec::new();
    while !input.is_empty() {
        let block = take(input)?;
        for _ in 0..take(input)? {
            entries.push(Entry {
                slot: Slot {
                    block,
                    index: take_u32(input)?,
                },
                attempts: take_u32(input)?,
                size: take_u32(input)?,
            });
        }
    }
    Ok(entries)
}

const CORRUPT: SqlError = SqlError::Corrupt("a hold's entries end early");

fn take(input: &mut &[u8]) -> Result<u64, SqlError> {
    varint::take(input).ok_or(CORRUPT)
}

fn take_u32(input: &mut &[u8]) -> Result<u32, SqlError> {
    u32::try_from(take(input)?).map_err(|_| CORRUPT)
}

/// A message that is out: the newest hold that names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Out {
    /// The hold's row.
    pub row: u32,
    /// Deliveries so far.
    pub attempts: u32,
    /// The message's size in bytes.
    pub size: u32,
}

/// Messages on their way to another queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move<'a> {
    /// Rises from move to move.
    pub number: u64,
    /// Name of the queue they go to.
    pub destination: &'a str,
    pub why: Why,
    pub entries: Vec<Entry>,
}

#[derive(Debug)]
struct Live {
    seq: u64,
    kind: Kind,
    until_ms: u64,
    slots: Vec<Slot>,
    /// How many of `slots` no later hold names.
    live: usize,
}

/// All messages that are out.
///
/// Invariant: `out` maps each message that was delivered and not settled to the newest hold that
/// names it; a hold with no such message is not in `rows`, and its row is spare.
#[derive(Debug, Default)]
pub struct Holds {
    rows: BTreeMap<u32, Live>,
    out: BTreeMap<Slot, Out>,
    /// Leased and delayed holds by their end. Moving ones have none.
    by_end: BTreeSet<(u64, u64, u32)>,
    moving: BTreeSet<(u64, u32)>,
    spare: BTreeSet<u32>,
    next_row: u32,
}

impl Holds {
    /// How many messages are out.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    pub fn get(&self, slot: Slot) -> Option<Out> {
        self.out.get(&slot).copied()
    }

    /// What became of the hold that `out` names: its kind and end.
    pub fn hold_of(&self, out: Out) -> Option<(&Kind, u64)> {
        self.rows
            .get(&out.row)
            .map(|hold| (&hold.kind, hold.until_ms))
    }

    /// Every message that is out, in the order of their places.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.out.keys().copied()
    }

    /// A row for a new hold: a spare one, else a new one.
    pub fn claim_row(&mut self) -> u32 {
        self.spare.pop_first().unwrap_or_else(|| {
            self.next_row = self.next_row.saturating_add(1);
            self.next_row
        })
    }

    /// Puts a hold in, newer than every other.
    pub fn insert(&mut self, row: u32, hold: Hold) {
        self.next_row = self.next_row.max(row);
        self.spare.remove(&row);
        let mut live = Live {
            seq: hold.seq,
            kind: hold.kind,
            until_ms: hold.until_ms,
            slots: Vec::with_capacity(hold.entries.len()),
            live: 0,
        };
        for entry in &hold.entries {
            let out = Out {
                row,
                attempts: entry.attempts,
                size: entry.size,
            };
            live.slots.push(entry.slot);
            live.live += 1;
            if let Some(before) = self.out.insert(entry.slot, out) {
                self.let_go(before.row);
            }
        }
        match live.kind {
            Kind::Moving(..) => self.moving.insert((live.seq, row)),
            _ => self.by_end.insert((live.until_ms, live.seq, row)),
        };
        self.rows.insert(row, live);
        if hold.entries.is_empty() {
            self.drop_row(row);
        }
    }

    /// Forgets a message; it was settled.
    pub fn remove(&mut self, slot: Slot) -> Option<Out> {
        let out = self.out.remove(&slot)?;
        self.let_go(out.row);
        Some(out)
    }

    /// Forgets all messages of the blocks from `first` up to, not including, `end`.
    pub fn remove_blocks(&mut self, first: u64, end: u64) {
        let range = Slot {
            block: first,
            index: 0,
        }..Slot {
            block: end,
            index: 0,
        };
        let slots: Vec<Slot> = self.out.range(range).map(|(slot, _)| *slot).collect();
        for slot in slots {
            self.remove(slot);
        }
    }

    /// Forgets those messages of a block that `is_settled` names by their index.
    pub fn remove_in_block(&mut self, block: u64, is_settled: impl Fn(u32) -> bool) {
        let of_block = Slot { block, index: 0 }..=Slot {
            block,
            index: u32::MAX,
        };
        let settled: Vec<Slot> = self
            .out
            .range(of_block)
            .map(|(&slot, _)| slot)
            .filter(|slot| is_settled(slot.index))
            .collect();
        for slot in settled {
            self.remove(slot);
        }
    }

    /// Messages that are somebody's at `now_ms`: their lease runs, or they move to another queue.
    pub fn taken(&self, now_ms: u64) -> impl Iterator<Item = Slot> + '_ {
        self.out
            .iter()
            .filter(move |(_, &out)| match self.hold_of(out) {
                Some((Kind::Leased, until_ms)) => until_ms > now_ms,
                Some((Kind::Moving(..), _)) => true,
                _ => false,
            })
            .map(|(&slot, _)| slot)
    }

    /// Messages whose hold has ended by `now_ms`, the longest ended first.
    pub fn ended(&self, now_ms: u64) -> impl Iterator<Item = Entry> + '_ {
        self.ended_since(0, now_ms)
    }

    /// Messages whose hold ended later than `after_ms` (or at 0) and by `now_ms`.
    pub fn ended_since(&self, after_ms: u64, now_ms: u64) -> impl Iterator<Item = Entry> + '_ {
        self.by_end
            .range((after_ms, 0, 0)..(now_ms.saturating_add(1), 0, 0))
            .flat_map(|&(_, _, row)| self.entries_of(row))
    }

    /// When the first hold ends that has not ended by `now_ms`.
    pub fn next_end_ms(&self, now_ms: u64) -> Option<u64> {
        self.by_end
            .range((now_ms.saturating_add(1), 0, 0)..)
            .next()
            .map(|&(until_ms, _, _)| until_ms)
    }

    /// Whether any move is to be done.
    pub fn has_moves(&self) -> bool {
        !self.moving.is_empty()
    }

    /// The oldest move.
    pub fn first_move(&self) -> Option<Move<'_>> {
        let &(number, row) = self.moving.first()?;
        match &self.rows.get(&row)?.kind {
            Kind::Moving(destination, why) => Some(Move {
                number,
                destination,
                why: *why,
                entries: self.entries_of(row).collect(),
            }),
            _ => None,
        }
    }

    /// Whether a redrive has moves to be done.
    pub fn is_redriving(&self) -> bool {
        self.moving.iter().any(|(_, row)| {
            let hold = self.rows.get(row);
            hold.is_some_and(|hold| matches!(hold.kind, Kind::Moving(_, Why::Redrive)))
        })
    }

    /// Whether any message of `block` from `index` on is out.
    pub fn any_from(&self, block: u64, index: u32) -> bool {
        let rest = Slot { block, index }..=Slot {
            block,
            index: u32::MAX,
        };
        self.out.range(rest).next().is_some()
    }

    /// How many messages are somebody's at `now_ms`, leased or moving, and how many were given back
    /// to be delivered later.
    pub fn taken_and_delayed(&self, now_ms: u64) -> (u64, u64) {
        let (mut taken, mut delayed) = (0, 0);
        let running = self.by_end.range((now_ms.saturating_add(1), 0, 0)..);
        let rows = running.map(|&(_, _, row)| row);
        for row in rows.chain(self.moving.iter().map(|&(_, row)| row)) {
            if let Some(hold) = self.rows.get(&row) {
                match hold.kind {
                    Kind::Delayed => delayed += hold.live as u64,
                    _ => taken += hold.live as u64,
                }
            }
        }
        (taken, delayed)
    }

    /// Blocks with a message that moves.
    pub fn moving_blocks(&self) -> BTreeSet<u64> {
        self.moving
            .iter()
            .flat_map(|&(_, row)| self.entries_of(row))
            .map(|entry| entry.slot.block)
            .collect()
    }

    /// Takes spare rows beyond `keep`, to be deleted: nothing uses them any more.
    pub fn take_spare_beyond(&mut self, keep: usize) -> Vec<u64> {
        let mut rows = Vec::new();
        while self.spare.len() > keep && rows.len() < limits::MAX_ROWS_IN_A_DELETE {
            if let Some(row) = self.spare.pop_last() {
                rows.push(u64::from(row));
            }
        }
        rows
    }

    fn entries_of(&self, row: u32) -> impl Iterator<Item = Entry> + '_ {
        self.rows
            .get(&row)
            .into_iter()
            .flat_map(|hold| &hold.slots)
            .filter_map(move |slot| {
                let out = self.out.get(slot)?;
                (out.row == row).then_some(Entry {
                    slot: *slot,
                    attempts: out.attempts,
                    size: out.size,
                })
            })
    }

    fn let_go(&mut self, row: u32) {
        if let Some(hold) = self.rows.get_mut(&row) {
            hold.live = hold.live.saturating_sub(1);
            if hold.live == 0 {
                self.drop_row(row);
            }
        }
    }

    fn drop_row(&mut self, row: u32) {
        if let Some(hold) = self.rows.remove(&row) {
            self.by_end.remove(&(hold.until_ms, hold.seq, row));
            self.moving.remove(&(hold.seq, row));
        }
        self.spare.insert(row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(block: u64, index: u32, attempts: u32) -> Entry {
        Entry {
            slot: Slot { block, index },
            attempts,
            size: 10,
        }
    }

    fn leased(seq: u64, until_ms: u64, entries: &[Entry]) -> Hold {
        Hold {
            seq,
            kind: Kind::Leased,
            until_ms,
            entries: entries.to_vec(),
        }
    }

    #[test]
    fn entries_come_back_as_they_were_written() {
        let entries = [entry(1, 0, 1), entry(1, 7, 2), entry(1 << 52, 99, 101)];
        assert_eq!(
            decode_entries(&encode_entries(&entries)),
            Ok(entries.to_vec())
        );
        assert_eq!(decode_entries(&[1, 2, 0]), Err(CORRUPT));
    }

    #[test]
    fn the_newer_hold_counts_and_an_empty_one_leaves_a_spare_row() {
        let mut holds = Holds::default();
        let first = holds.claim_row();
        holds.insert(first, leased(1, 100, &[entry(1, 0, 1), entry(1, 1, 1)]));
        let second = holds.claim_row();
        holds.insert(second, leased(2, 50, &[entry(1, 0, 2)]));
        let ended: Vec<_> = holds.ended(100).collect();
        assert_eq!(ended, [entry(1, 0, 2), entry(1, 1, 1)]);
        holds.remove(Slot { block: 1, index: 1 });
        assert_eq!(holds.claim_row(), first);
        assert_eq!(holds.next_end_ms(49), Some(50));
        assert_eq!(holds.next_end_ms(50), None);
    }

    #[test]
    fn a_row_is_reused_by_the_hold_that_takes_its_last_message() {
        let mut holds = Holds::default();
        let row = holds.claim_row();
        holds.insert(row, leased(1, 10, &[entry(4, 0, 1)]));
        let other = holds.claim_row();
        holds.insert(other, leased(2, 20, &[entry(4, 0, 2)]));
        assert_eq!(holds.take_spare_beyond(0), [u64::from(row)]);
        assert_eq!(holds.ended(20).collect::<Vec<_>>(), [entry(4, 0, 2)]);
    }
}
