//! What happened in the last hour, minute by minute, for whoever draws it.
//!
//! The first write of a minute keeps the ledger as the minutes before left it, in a ring of rows:
//! a busy queue writes one row a minute for it, an idle one none.

use super::engine::Queue;
use super::ledger::{Counters, Ledger};
use super::sql::{Flow, Sql, SqlError, Value};

const MINUTE_MS: u64 = 60_000;
/// Minutes that are shown.
const SHOWN_MINUTES: u64 = 60;
/// Rows in the ring: what is shown, and room for the minute in which it is asked.
const RING: u64 = 64;

/// How a queue stood when a minute's last write was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Minute {
    /// When the minute began, in milliseconds since the Unix epoch.
    pub began_ms: u64,
    pub backlog_count: u64,
    pub backlog_bytes: u64,
    pub counters: Counters,
}

impl Minute {
    fn of(ledger: &Ledger, at_ms: u64) -> Minute {
        Minute {
            began_ms: at_ms - at_ms % MINUTE_MS,
            backlog_count: ledger.backlog_count(),
            backlog_bytes: ledger.backlog_bytes(),
            counters: ledger.counters,
        }
    }
}

impl Queue {
    /// The last hour's minutes, oldest first. A minute that is missing changed nothing. Before them
    /// comes the latest one that is older, as what they are compared with, and after them how the
    /// queue stands now.
    pub fn history(&mut self, sql: &impl Sql, wall_ms: u64) -> Result<Vec<Minute>, SqlError> {
        let now_ms = self.clock.advance(wall_ms);
        let mut kept = Vec::new();
        sql.run("SELECT ledger FROM minute", Vec::new(), &mut |mut row| {
            kept.push(Ledger::decode(&row.take_blob(0)?)?);
            Ok(Flow::More)
        })?;
        // The last minute's row is written by the next write.
        kept.push(self.written);
        kept.sort_by_key(|ledger| ledger.clock_ms);
        let first_ms = (now_ms - now_ms % MINUTE_MS).saturating_sub(SHOWN_MINUTES * MINUTE_MS);
        let older = kept.partition_point(|ledger| ledger.clock_ms < first_ms);
        let begin = Ledger {
            clock_ms: self.created_ms,
            ..Ledger::default()
        };
        let baseline = older.checked_sub(1).and_then(|place| kept.get(place));
        let mut minutes = vec![baseline.unwrap_or(&begin)];
        minutes.extend(kept.iter().skip(older).filter(|ledger| ledger.seq > 0));
        let mut minutes: Vec<Minute> = minutes
            .into_iter()
            .map(|ledger| Minute::of(ledger, ledger.clock_ms))
            .collect();
        minutes.push(Minute::of(&self.ledger, now_ms));
        minutes.dedup_by(|later, earlier| {
            let same = later.began_ms == earlier.began_ms;
            if same {
                earlier.clone_from(later);
            }
            same
        });
        Ok(minutes)
    }

    /// Keeps the ledger of the latest write, where that was in a minute that is over.
    pub(super) fn keep_minute(&mut self, sql: &impl Sql) -> Result<(), SqlError> {
        let minute = self.written.clock_ms / MINUTE_MS;
        if self.written.seq == 0 || minute >= self.clock.now_ms() / MINUTE_MS {
            return Ok(());
        }
        sql.execute(
            "INSERT INTO minute (id, ledger) VALUES (?, ?)
             ON CONFLICT (id) DO UPDATE SET ledger = excluded.ledger",
            vec![(minute % RING).into(), Value::Blob(self.written.encode())],
        )
    }
}
