//! [`Queue`]: opened from the tables, and what its operations share.
//!
//! Blocks are delivered in the order of their ids. A block that was not delayed takes the next
//! number; a delayed one takes an id from 2^52 on that says when it is ready:
//! `2^52 + (ready_ms − created_ms) · 512 + k`. So both kinds lie in order of delivery under the one
//! primary key, no index is needed, and "what has matured" is a range.

use super::clock::Clock;
use super::config::Config;
use super::holds::{self, Entry, Hold, Holds, Kind};
use super::lease::{SealKey, Sealer};
use super::ledger::{Counters, Ledger, Slot};
use super::limits;
use super::redrive::Redrive;
use super::sql::{
    json_list, tables_since, Flow, Row, Sql, SqlError, Value, SCHEMA, SCHEMA_VERSION,
};
use std::cell::Cell;
use std::collections::BTreeMap;

/// Ids of delayed blocks begin here.
pub(super) const FIRST_DELAYED: u64 = 1 << 52;
/// Ids that one millisecond of readiness offers.
const DELAYED_PER_MS: u64 = 512;
/// Past every id.
pub(super) const NO_BLOCK: u64 = 1 << 53;
/// Id and time of the first block of each kind.
const FIRST_BLOCKS: &str =
    "SELECT id, sent_ms FROM (SELECT id, sent_ms FROM block WHERE id < ?1 ORDER BY id LIMIT 1)
     UNION ALL
     SELECT id, sent_ms FROM (SELECT id, sent_ms FROM block WHERE id >= ?1 ORDER BY id LIMIT 1)";
/// Delayed blocks that are counted: some milliseconds' work.
const MAX_BLOCKS_COUNTED: u64 = 20_000;
/// Block ids in one look-up.
const IDS_PER_LOOKUP: usize = 5_000;

/// A queue. Its memory is a cache: it can be dropped at any time and opened again.
pub struct Queue {
    pub(super) config: Config,
    config_version: u64,
    pub(super) purged_ms: Option<u64>,
    pub(super) sealer: Sealer,
    pub(super) created_ms: u64,
    pub(super) clock: Clock,
    pub(super) ledger: Ledger,
    /// The ledger as it was last written.
    pub(super) written: Ledger,
    pub(super) holds: Holds,
    pub(super) redrive: Option<Redrive>,
    pub(super) due: Due,
    /// How many blocks the last full pull took from: a hint for the next one.
    pub(super) blocks_per_read: Cell<u64>,
    /// When the oldest message was sent, as far as it is known.
    pub(super) oldest_ms: Cell<Option<Option<u64>>>,
}

/// What the `self` table says.
struct Stored {
    schema_version: u64,
    created_ms: u64,
    seal_key: SealKey,
    config_version: u64,
    config: Config,
    purged_ms: Option<u64>,
}

impl Stored {
    fn read(mut row: Row) -> Result<Stored, SqlError> {
        let config = row.take_text(3)?.unwrap_or_default();
        Ok(Stored {
            schema_version: row.integer(5)?,
            created_ms: row.integer(0)?,
            seal_key: row
                .take_blob(1)?
                .try_into()
                .map_err(|_| SqlError::Corrupt("a key of the wrong length"))?,
            config_version: row.integer(2)?,
            config: serde_json::from_str(&config)
                .map_err(|_| SqlError::Corrupt("a configuration"))?,
            purged_ms: row.integer_or_null(4)?,
        })
    }
}

/// When something may happen by itself, in the queue's time: never later than it really does, so
/// that looking at it is enough most of the time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Due {
    /// No block outlives its retention before this.
    pub expiry_ms: u64,
    /// No delayed block matures before this, but for those that have.
    pub maturity_ms: u64,
    /// Blocks may have matured that were not delivered yet.
    pub matured_waiting: bool,
    /// No idempotency key is forgotten before this.
    pub keys_ms: u64,
    /// Holds that ended up to here have been looked at for messages whose deliveries are used up.
    pub swept_ms: u64,
}

/// What a queue says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Metrics {
    /// Messages not acknowledged: waiting, delayed and leased.
    pub backlog_count: u64,
    /// Their bytes.
    pub backlog_bytes: u64,
    /// When the oldest of them was sent, in milliseconds since the Unix epoch. Of those that were
    /// sent with a delay, only the block that is ready first is looked at.
    pub oldest_message_ms: Option<u64>,
    pub counters: Counters,
}

/// A queue's messages by what they wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct States {
    /// For a pull.
    pub waiting: u64,
    /// For their consumer, or for another queue to have them.
    pub out: u64,
    /// For a time. Of those that were sent with a delay, the first 20,000 blocks are counted; the
    /// others count as waiting.
    pub delayed: u64,
}

impl Queue {
    /// Makes a queue in an empty database. `seal_key` comes from a random source.
    pub fn create(
        sql: &impl Sql,
        wall_ms: u64,
        config: Config,
        seal_key: &SealKey,
    ) -> Result<Queue, SqlError> {
        for table in SCHEMA {
            sql.execute(table, Vec::new())?;
        }
        sql.execute(
            "INSERT INTO self (id, schema_version, created_ms, seal_key, config_version, config)
             VALUES (1, ?, ?, ?, 0, ?)",
            vec![
                SCHEMA_VERSION.into(),
                wall_ms.into(),
                Value::Blob(seal_key.to_vec()),
                Value::Text(config_json(&config)?),
            ],
        )?;
        let stored = Stored {
            schema_version: SCHEMA_VERSION,
            created_ms: wall_ms,
            seal_key: *seal_key,
            config_version: 0,
            config,
            purged_ms: None,
        };
        Ok(Queue::new(stored, Ledger::default(), wall_ms))
    }

    /// Opens the queue in a database; `None` where there is none. Reads no payload. Tables of an
    /// earlier version are brought up to date.
    pub fn open(sql: &impl Sql, wall_ms: u64) -> Result<Option<Queue>, SqlError> {
        let tables = sql.first(
            "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'self'",
            Vec::new(),
            |row| row.integer(0),
        )?;
        if tables.unwrap_or(0) == 0 {
            return Ok(None);
        }
        let stored = sql.first(
            "SELECT created_ms, seal_key, config_version, config, purged_ms, schema_version FROM self",
            Vec::new(),
            Stored::read,
        )?;
        let Some(stored) = stored else {
            return Ok(None);
        };
        bring_up_to_date(sql, stored.schema_version)?;
        let mut queue = Queue::new(stored, newest_ledger(sql)?, wall_ms);
        queue.read_holds(sql)?;
        queue.read_redrive(sql)?;
        queue.refresh_due(sql)?;
        Ok(Some(queue))
    }

    fn new(stored: Stored, ledger: Ledger, wall_ms: u64) -> Queue {
        let created_ms = stored.created_ms;
        Queue {
            config: stored.config,
            config_version: stored.config_version,
            purged_ms: stored.purged_ms,
            sealer: Sealer::new(&stored.seal_key),
            created_ms,
            clock: Clock::resume(ledger.clock_ms.max(created_ms), wall_ms),
            ledger,
            written: ledger,
            holds: Holds::default(),
            redrive: None,
            due: Due {
                expiry_ms: u64::MAX,
                maturity_ms: u64::MAX,
                matured_waiting: true,
                keys_ms: u64::MAX,
                swept_ms: 0,
            },
            blocks_per_read: Cell::new(1),
            oldest_ms: Cell::new(None),
        }
    }

    /// Takes a new configuration; it acts from the next operation on.
    pub fn configure(&mut self, sql: &impl Sql, config: Config) -> Result<(), SqlError> {
        self.configure_as(sql, self.config_version.saturating_add(1), config)
    }

    /// Takes the configuration of this version, unless the queue has a newer one: what was said
    /// later may arrive sooner.
    pub fn configure_as(
        &mut self,
        sql: &impl Sql,
        version: u64,
        config: Config,
    ) -> Result<(), SqlError> {
        if version < self.config_version {
            return Ok(());
        }
        sql.execute(
            "UPDATE self SET config_version = ?, config = ?",
            vec![version.into(), Value::Text(config_json(&config)?)],
        )?;
        self.config_version = version;
        self.config = config;
        // A shorter retention or fewer retries can make more messages due.
        self.due.swept_ms = 0;
        self.refresh_due(sql)
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// When the queue was last purged, in milliseconds since the Unix epoch.
    pub fn purged_ms(&self) -> Option<u64> {
        self.purged_ms
    }

    /// The queue's time, after `wall_ms`.
    pub fn now_ms(&mut self, wall_ms: u64) -> u64 {
        self.clock.advance(wall_ms)
    }

    /// Messages in the queue: waiting, delayed or out.
    pub fn backlog_count(&self) -> u64 {
        self.ledger.backlog_count()
    }

    /// How often the queue has written since it was made: when it hasn't risen, nothing was done.
    pub fn writes(&self) -> u64 {
        self.ledger.seq
    }

    pub fn metrics(&self, sql: &impl Sql) -> Result<Metrics, SqlError> {
        Ok(Metrics {
            backlog_count: self.ledger.backlog_count(),
            backlog_bytes: self.ledger.backlog_bytes(),
            oldest_message_ms: self.oldest_message_ms(sql)?,
            counters: self.ledger.counters,
        })
    }

    /// In which state the queue's messages are.
    pub fn states(&mut self, sql: &impl Sql, wall_ms: u64) -> Result<States, SqlError> {
        let now_ms = self.clock.advance(wall_ms);
        let (out, given_back) = self.holds.taken_and_delayed(now_ms);
        let unready = match self.due.maturity_ms {
            u64::MAX => None,
            _ => sql.first(
                "SELECT sum(count) FROM (SELECT count FROM block WHERE id >= ? LIMIT ?)",
                vec![
                    self.first_ready_at(now_ms.saturating_add(1)).into(),
                    MAX_BLOCKS_COUNTED.into(),
                ],
                |row| row.integer_or_zero(0),
            )?,
        };
        let delayed = unready.unwrap_or(0).saturating_add(given_back);
        Ok(States {
            waiting: self
                .backlog_count()
                .saturating_sub(out)
                .saturating_sub(delayed),
            out,
            delayed,
        })
    }

    /// When the oldest message was sent. Looked up only after the front of the queue has changed.
    fn oldest_message_ms(&self, sql: &impl Sql) -> Result<Option<u64>, SqlError> {
        if let Some(oldest_ms) = self.oldest_ms.get() {
            return Ok(oldest_ms);
        }
        let mut oldest_ms: Option<u64> = None;
        sql.run(FIRST_BLOCKS, vec![FIRST_DELAYED.into()], &mut |row| {
            let sent_ms = row.integer(1)?;
            oldest_ms = Some(oldest_ms.map_or(sent_ms, |oldest| oldest.min(sent_ms)));
            Ok(Flow::More)
        })?;
        self.oldest_ms.set(Some(oldest_ms));
        Ok(oldest_ms)
    }

    /// In how many milliseconds something happens by itself: a hold ends, a delayed block matures,
    /// a message outlives its retention, a move waits to be done, a redrive goes on. `None`: nothing
    /// will.
    pub fn next_event_in_ms(&self) -> Option<u64> {
        let now_ms = self.clock.now_ms();
        if self.holds.has_moves() || self.used_up(now_ms).next().is_some() {
            return Some(0);
        }
        [
            self.holds.next_end_ms(now_ms).unwrap_or(u64::MAX),
            self.due.expiry_ms,
            self.due.maturity_ms,
            self.due.keys_ms,
            self.next_portion_ms().unwrap_or(u64::MAX),
        ]
        .into_iter()
        .filter(|&at_ms| at_ms != u64::MAX)
        .min()
        .map(|at_ms| at_ms.saturating_sub(now_ms))
    }

    /// When messages of a block can first be delivered; `None` for a block that was not delayed.
    pub(super) fn ready_ms(&self, block: u64) -> Option<u64> {
        let offset = block.checked_sub(FIRST_DELAYED)?;
        Some(self.created_ms.saturating_add(offset / DELAYED_PER_MS))
    }

    /// The first id of blocks that are ready at `ready_ms`.
    pub(super) fn first_ready_at(&self, ready_ms: u64) -> u64 {
        let offset_ms = ready_ms.saturating_sub(self.created_ms);
        FIRST_DELAYED.saturating_add(offset_ms.saturating_mul(DELAYED_PER_MS))
    }

    /// The ledger for the row that is written next.
    pub(super) fn next_ledger(&mut self, sql: &impl Sql) -> Result<Value, SqlError> {
        self.keep_minute(sql)?;
        self.ledger.seq = self.ledger.seq.saturating_add(1);
        self.ledger.clock_ms = self.clock.now_ms();
        self.written = self.ledger;
        Ok(Value::Blob(self.ledger.encode()))
    }

    /// Writes the ledger where no block or hold row carries it.
    pub(super) fn write_tally(&mut self, sql: &impl Sql) -> Result<(), SqlError> {
        let ledger = self.next_ledger(sql)?;
        sql.execute(
            "INSERT INTO tally (id, ledger) VALUES (1, ?)
             ON CONFLICT (id) DO UPDATE SET ledger = excluded.ledger",
            vec![ledger],
        )
    }

    /// Writes a hold over a spare row, or as a new one.
    pub(super) fn write_hold(
        &mut self,
        sql: &impl Sql,
        kind: Kind,
        until_ms: u64,
        entries: Vec<Entry>,
    ) -> Result<(), SqlError> {
        let row = self.holds.claim_row();
        let ledger = self.next_ledger(sql)?;
        let hold = Hold {
            seq: self.ledger.seq,
            kind,
            until_ms,
            entries,
        };
        let (kind, destination) = hold.kind.columns();
        sql.execute(
            "INSERT INTO hold (id, seq, kind, until_ms, destination, ledger, entries)
             VALUES (?, ?, ?, ?, ?, ?, ?)
             ON CONFLICT (id) DO UPDATE SET seq = excluded.seq, kind = excluded.kind,
                until_ms = excluded.until_ms, destination = excluded.destination,
                ledger = excluded.ledger, entries = excluded.entries",
            vec![
                u64::from(row).into(),
                hold.seq.into(),
                kind.into(),
                hold.until_ms.into(),
                destination.map_or(Value::Null, |name| Value::Text(name.to_owned())),
                ledger,
                Value::Blob(holds::encode_entries(&hold.entries)),
            ],
        )?;
        self.holds.insert(row, hold);
        Ok(())
    }

    /// Settles messages that are still in the queue: a block with nothing left is deleted, another
    /// one's progress is kept. The ledger is the caller's to write.
    pub(super) fn settle_slots(
        &mut self,
        sql: &impl Sql,
        messages: &BTreeMap<Slot, u64>,
    ) -> Result<(), SqlError> {
        let mut finished = Vec::new();
        let mut finished_progress = Vec::new();
        let mut unfinished = Vec::new();
        let mut blocks: Vec<u64> = messages.keys().map(|slot| slot.block).collect();
        blocks.dedup();
        look_up_blocks(sql, &blocks, &mut |mut facts| {
            let of_block = Slot {
                block: facts.id,
                index: 0,
            }..=Slot {
                block: facts.id,
                index: u32::MAX,
            };
            let had_progress = facts.settled > 0;
            for (slot, size) in messages.range(of_block) {
                if facts.done.set(slot.index) {
                    facts.settled += 1;
                    facts.settled_bytes += size;
                }
            }
            if facts.settled >= facts.count {
                finished.push(facts.id);
                if had_progress {
                    finished_progress.push(facts.id);
                }
            } else {
                unfinished.push(facts);
            }
        })?;
        if !finished.is_empty() {
            self.oldest_ms.set(None);
            sql.execute(
                "DELETE FROM block WHERE id IN (SELECT value FROM json_each(?))",
                vec![json_list(finished)],
            )?;
        }
        if !finished_progress.is_empty() {
            sql.execute(
                "DELETE FROM progress WHERE id IN (SELECT value FROM json_each(?))",
                vec![json_list(finished_progress)],
            )?;
        }
        for facts in unfinished {
            sql.execute(
                "INSERT INTO progress (id, settled, bytes, done) VALUES (?, ?, ?, ?)
                 ON CONFLICT (id) DO UPDATE SET settled = excluded.settled,
                    bytes = excluded.bytes, done = excluded.done",
                vec![
                    facts.id.into(),
                    facts.settled.into(),
                    facts.settled_bytes.into(),
                    Value::Blob(facts.done.0),
                ],
            )?;
        }
        for (&slot, &size) in messages {
            self.holds.remove(slot);
            self.ledger.settled_bytes = self.ledger.settled_bytes.saturating_add(size);
        }
        Ok(())
    }

    fn read_holds(&mut self, sql: &impl Sql) -> Result<(), SqlError> {
        let holds = &mut self.holds;
        sql.run(
            "SELECT id, seq, kind, until_ms, destination, entries FROM hold ORDER BY seq",
            Vec::new(),
            &mut |mut row| {
                let id =
                    u32::try_from(row.integer(0)?).map_err(|_| SqlError::Corrupt("a hold's id"))?;
                let destination = row.take_text(4)?;
                holds.insert(
                    id,
                    Hold {
                        seq: row.integer(1)?,
                        kind: Kind::from_columns(row.integer(2)?, destination)?,
                        until_ms: row.integer(3)?,
                        entries: holds::decode_entries(&row.take_blob(5)?)?,
                    },
                );
                Ok(Flow::More)
            },
        )?;
        self.forget_settled(sql)
    }

    /// Hold rows name messages that were settled since: those are dropped from memory. Only what
    /// was settled is asked for, which is little: settled messages are overwritten with their rows.
    fn forget_settled(&mut self, sql: &impl Sql) -> Result<(), SqlError> {
        let mut blocks: Vec<u64> = self.holds.slots().map(|slot| slot.block).collect();
        blocks.dedup();
        for ids in blocks.chunks(IDS_PER_LOOKUP) {
            let wanted = || vec![json_list(ids.iter().copied())];
            let mut gone = Vec::new();
            sql.run(
                "SELECT wanted.value FROM json_each(?) AS wanted
                 WHERE NOT EXISTS (SELECT 1 FROM block WHERE block.id = wanted.value)",
                wanted(),
                &mut |row| {
                    gone.push(row.integer(0)?);
                    Ok(Flow::More)
                },
            )?;
            for block in gone {
                self.holds.remove_blocks(block, block.saturating_add(1));
            }
            let mut settled = Vec::new();
            sql.run(
                "SELECT progress.id, progress.done
                 FROM json_each(?) AS wanted CROSS JOIN progress ON progress.id = wanted.value",
                wanted(),
                &mut |mut row| {
                    settled.push((row.integer(0)?, Bitmap(row.take_blob(1)?)));
                    Ok(Flow::More)
                },
            )?;
            for (block, done) in settled {
                self.holds.remove_in_block(block, |index| done.has(index));
            }
        }
        Ok(())
    }
}

/// What settling needs to know of a block.
pub(super) struct BlockFacts {
    pub id: u64,
    pub count: u64,
    pub settled: u64,
    pub settled_bytes: u64,
    pub done: Bitmap,
}

/// Reads the facts of those of `ids` that are still there, no payload.
pub(super) fn look_up_blocks(
    sql: &impl Sql,
    ids: &[u64],
    each: &mut dyn FnMut(BlockFacts),
) -> Result<(), SqlError> {
    for ids in ids.chunks(IDS_PER_LOOKUP) {
        sql.run(
            "SELECT block.id, block.count, progress.settled, progress.bytes, progress.done
             FROM json_each(?) AS wanted
             CROSS JOIN block ON block.id = wanted.value
             LEFT JOIN progress ON progress.id = block.id",
            vec![json_list(ids.iter().copied())],
            &mut |mut row| {
                each(BlockFacts {
                    id: row.integer(0)?,
                    count: row.integer(1)?,
                    settled: row.integer_or_zero(2)?,
                    settled_bytes: row.integer_or_zero(3)?,
                    done: Bitmap(row.take_blob(4)?),
                });
                Ok(Flow::More)
            },
        )?;
    }
    Ok(())
}

/// The settled messages of a block, a bit each.
pub(super) struct Bitmap(pub Vec<u8>);

impl Bitmap {
    pub fn has(&self, index: u32) -> bool {
        self.0
            .get(index as usize / 8)
            .is_some_and(|byte| byte & (1 << (index % 8)) != 0)
    }

    /// Sets a bit; true when it was not set.
    fn set(&mut self, index: u32) -> bool {
        let place = index as usize / 8;
        if self.0.len() <= place {
            self.0.resize(place + 1, 0);
        }
        let bit = 1 << (index % 8);
        match self.0.get_mut(place) {
            Some(byte) if *byte & bit == 0 => {
                *byte |= bit;
                true
            }
            _ => false,
        }
    }
}

/// Makes the tables that a database of an earlier version lacks. What rows say is read as every
/// version wrote it.
fn bring_up_to_date(sql: &impl Sql, version: u64) -> Result<(), SqlError> {
    if version == SCHEMA_VERSION {
        return Ok(());
    }
    for table in tables_since(version)? {
        sql.execute(table, Vec::new())?;
    }
    sql.execute(
        "UPDATE self SET schema_version = ?",
        vec![SCHEMA_VERSION.into()],
    )
}

/// The ledger with the highest `seq`: of the newest block of either kind, the newest hold, and the
/// tally.
fn newest_ledger(sql: &impl Sql) -> Result<Ledger, SqlError> {
    let mut newest = Ledger::default();
    let mut consider = |ledger: Option<Ledger>| {
        if let Some(ledger) = ledger.filter(|ledger| ledger.seq > newest.seq) {
            newest = ledger;
        }
    };
    let decode = |mut row: Row| Ledger::decode(&row.take_blob(0)?);
    consider(sql.first("SELECT ledger FROM tally", Vec::new(), decode)?);
    consider(sql.first(
        "SELECT ledger FROM block WHERE id < ? ORDER BY id DESC LIMIT 1",
        vec![FIRST_DELAYED.into()],
        decode,
    )?);
    consider(sql.first(
        "SELECT ledger FROM hold ORDER BY seq DESC LIMIT 1",
        Vec::new(),
        decode,
    )?);
    Ok(newest)
}

fn config_json(config: &Config) -> Result<String, SqlError> {
    serde_json::to_string(config).map_err(|_| SqlError::Corrupt("a configuration"))
}

impl Queue {
    /// How many messages are out; for tests of the memory's bound.
    pub fn messages_out(&self) -> usize {
        self.holds.len()
    }

    pub(super) fn room_out(&self) -> usize {
        limits::MAX_MESSAGES_OUT.saturating_sub(self.holds.len())
    }
}
