//! A queue with its database and its model: opened, run through operations, killed and opened again.

use super::broken::{ensure, Broken};
use super::database::{Database, Failure};
use super::model::{Leased, Model};
use super::queue::lease::SealKey;
use super::queue::sql::SCHEMA;
use super::queue::{Config, PullError, Queue, RedriveError, SendError, SqlError};
use super::rng::Rng;
use super::sqlite::NativeSql;

pub struct Host {
    pub sql: NativeSql,
    /// `None` after a crash, until somebody needs the queue.
    pub queue: Option<Queue>,
    pub model: Model,
    /// The queue's id; a queue that is made anew has another one.
    pub id: String,
    /// By how much this host's wall clock differs from the world's.
    pub skew_ms: i64,
    /// The queue's time and the wall clock when it was last looked at.
    pub now_ms: u64,
    wall_ms: u64,
    just_opened: bool,
    /// The queue's time and the empty pulls at the last write: they survive a crash.
    durable_ms: u64,
    durable_empty_pulls: u64,
    /// Lease ids that consumers have and did not use yet, and used ones.
    pub held: Vec<Lease>,
    pub stale: Vec<Lease>,
    pub refs: Vec<Ref>,
    pub keys: Vec<String>,
}

#[derive(Clone)]
pub struct Lease {
    /// The id of the queue that gave it out.
    pub home: String,
    pub text: String,
    pub leased: Leased,
}

#[derive(Clone)]
pub struct Ref {
    pub home: String,
    pub text: String,
    pub copy: u32,
}

/// How an operation ends that the queue itself would have done well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Well,
    StatementFails(Failure),
    CrashBeforeCommit,
    /// It lasts, and nobody hears of it.
    CrashBeforeAnswer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome<T, E> {
    Answered(T),
    /// It lasts, but the answer was lost.
    Unanswered(T),
    Refused(E),
    /// Nothing of it lasts.
    Undone,
}

/// An operation's error, as far as the host cares: is it the storage's?
pub trait Trouble {
    fn storage(&self) -> Option<&SqlError>;
}

impl Trouble for SqlError {
    fn storage(&self) -> Option<&SqlError> {
        Some(self)
    }
}

impl Trouble for PullError {
    fn storage(&self) -> Option<&SqlError> {
        match self {
            PullError::Storage(error) => Some(error),
            _ => None,
        }
    }
}

impl Trouble for SendError {
    fn storage(&self) -> Option<&SqlError> {
        match self {
            SendError::Storage(error) => Some(error),
            #[allow(unreachable_patterns)] // sends may be refused for other reasons one day
            _ => None,
        }
    }
}

impl Trouble for RedriveError {
    fn storage(&self) -> Option<&SqlError> {
        match self {
            RedriveError::Storage(error) => Some(error),
            _ => None,
        }
    }
}

impl Host {
    pub fn new(config: Config, id: String, world_ms: u64, rng: &mut Rng) -> Result<Host, Broken> {
        let sql = NativeSql::in_memory(&SCHEMA);
        let mut key: SealKey = [0; 32];
        for half in key.chunks_mut(16) {
            half.copy_from_slice(&rng.bytes16());
        }
        let queue = Queue::create(&sql, world_ms, config.clone(), &key).map_err(storage_failed)?;
        Ok(Host {
            sql,
            queue: Some(queue),
            model: Model::new(config),
            id,
            skew_ms: 0,
            now_ms: world_ms,
            wall_ms: world_ms,
            just_opened: true,
            durable_ms: world_ms,
            durable_empty_pulls: 0,
            held: Vec::new(),
            stale: Vec::new(),
            refs: Vec::new(),
            keys: Vec::new(),
        })
    }

    /// The wall clock when the queue last looked at it.
    pub fn last_wall_ms(&self) -> u64 {
        self.wall_ms
    }

    pub fn wall_ms(&self, world_ms: u64) -> u64 {
        world_ms.saturating_add_signed(self.skew_ms)
    }

    /// Opens the queue if it is not open, and looks at its clock. True when it was opened.
    pub fn wake(&mut self, world_ms: u64, failure: Option<Failure>) -> Result<bool, Broken> {
        let wall_ms = self.wall_ms(world_ms);
        let opened = self.queue.is_none();
        if opened {
            let failing = Database::new(&self.sql, failure);
            let queue = match Queue::open(&failing, wall_ms) {
                Err(_) if failing.failed() => Queue::open(&self.sql, wall_ms),
                result => result,
            };
            let queue = queue.map_err(storage_failed)?;
            self.queue = Some(queue.ok_or_else(|| {
                Broken::new("2: kill at any instant", "the queue is gone after a crash")
            })?);
            self.just_opened = true;
        }
        self.look_at_clock(wall_ms)?;
        if opened {
            self.recall_empty_pulls()?;
        }
        Ok(opened)
    }

    fn look_at_clock(&mut self, wall_ms: u64) -> Result<(), Broken> {
        const CLOCK: &str = "7: time never runs backwards, and follows the wall clock";
        let Some(queue) = &mut self.queue else {
            return Ok(());
        };
        let now_ms = queue.now_ms(wall_ms);
        if self.just_opened {
            ensure!(
                now_ms >= self.durable_ms.max(wall_ms),
                CLOCK,
                "{now_ms} after a start at {wall_ms}; it was {} at the last write",
                self.durable_ms
            );
        } else if wall_ms >= self.now_ms {
            ensure!(now_ms == wall_ms, CLOCK, "{now_ms} at {wall_ms}");
        } else {
            // Behind its own time the wall clock counts, at no more than its own pace.
            let passed_ms = wall_ms.saturating_sub(self.wall_ms);
            ensure!(
                now_ms >= self.now_ms + (passed_ms / 2).saturating_sub(1)
                    && now_ms <= self.now_ms + passed_ms,
                CLOCK,
                "{now_ms} after {}, while {passed_ms} ms passed",
                self.now_ms
            );
        }
        self.just_opened = false;
        self.now_ms = now_ms;
        self.wall_ms = wall_ms;
        Ok(())
    }

    /// Empty pulls since the last write may be forgotten in a crash, others not.
    fn recall_empty_pulls(&mut self) -> Result<(), Broken> {
        let Some(queue) = &self.queue else {
            return Ok(());
        };
        let metrics = queue.metrics(&self.sql).map_err(storage_failed)?;
        let empty_pulls = metrics.counters.empty_pulls;
        ensure!(
            empty_pulls >= self.durable_empty_pulls
                && empty_pulls <= self.model.counters.empty_pulls,
            "9: counters equal a recount",
            "{empty_pulls} empty pulls after a crash, between {} and {} were right",
            self.durable_empty_pulls,
            self.model.counters.empty_pulls
        );
        self.model.counters.empty_pulls = empty_pulls;
        Ok(())
    }

    /// A row was written: the queue's time now survives a crash.
    pub fn wrote(&mut self) {
        self.durable_ms = self.now_ms;
        self.durable_empty_pulls = self.model.counters.empty_pulls;
    }

    /// Runs an operation in a transaction, as the promises demand it: an error or a crash undoes
    /// all of it, and memory is dropped.
    pub fn operate<T, E: Trouble>(
        &mut self,
        fate: Fate,
        work: impl FnOnce(&mut Queue, &Database, u64) -> Result<T, E>,
    ) -> Result<Outcome<T, E>, Broken> {
        let failure = match fate {
            Fate::StatementFails(failure) => Some(failure),
            _ => None,
        };
        let database = Database::new(&self.sql, failure);
        let Some(queue) = &mut self.queue else {
            return Err(Broken::new("the simulation's own", "the queue is not open"));
        };
        self.sql.begin();
        let result = work(queue, &database, self.wall_ms);
        match result {
            Ok(_) if database.failed() => Err(Broken::new(
                "2: 2xx means durable",
                "an operation went well although a statement failed",
            )),
            Ok(_) if fate == Fate::CrashBeforeCommit => {
                self.sql.rollback();
                self.queue = None;
                Ok(Outcome::Undone)
            }
            Ok(value) => {
                self.sql.commit();
                if fate == Fate::CrashBeforeAnswer {
                    self.queue = None;
                    return Ok(Outcome::Unanswered(value));
                }
                Ok(Outcome::Answered(value))
            }
            Err(error) => {
                self.sql.rollback();
                match error.storage() {
                    None => Ok(Outcome::Refused(error)),
                    Some(_) if database.failed() => {
                        self.queue = None;
                        Ok(Outcome::Undone)
                    }
                    Some(error) => Err(storage_failed(error.clone())),
                }
            }
        }
    }
}

pub fn storage_failed(error: SqlError) -> Broken {
    Broken::new(
        "2: an operation that can be done is done",
        error.to_string(),
    )
}
