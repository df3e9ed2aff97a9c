//! The directory of an account's queues: which there are, what they are called and how they are set
//! up. It is the authority on configuration; each queue's own object keeps a copy.
//!
//! Pure Rust over [`Sql`]: no clock, no randomness, no platform. Nothing here touches a message,
//! and nothing on the messages' way asks here.
//!
//! A change is made in two steps. An operation here writes the row and marks it pending; its caller
//! hands [`Entry::config`] with [`Entry::version`] to the queue's object, which passes over versions
//! older than the one it has, and then calls [`Directory::pushed`]. What fails in between stays
//! [`pending`](Directory::pending) and is done again later, so both sides agree in the end.
//!
//! ```text
//!            create            pushed             begin_delete            finish_delete
//!  (nothing) ------> creating ------> live ---------------------> deleting ------> (nothing)
//! ```
//! A queue that is creating or deleting is shown to nobody. Creating a name that is creating goes on
//! with the same queue; a name is free again as soon as its queue is deleting.

mod states;

use crate::queue::{Config, Consumer, Flow, Row, Settings, Sql, SqlError, Value};
use thiserror::Error;

/// Queues an account can have. Cloudflare's limits page: 10,000.
pub const MAX_QUEUES: u64 = 10_000;

/// The tables, and an index over what is pending.
///
/// - `queue`: `seq` is the order of creation, which is the order of lists; `name` is NULL while a
///   queue is deleting.
/// - `state`: how a queue stood when it was asked at `at_ms`, as JSON, and whether it has done
///   something since.
pub const SCHEMA: [&str; 3] = [
    "CREATE TABLE IF NOT EXISTS queue (
        seq INTEGER PRIMARY KEY,
        queue_id TEXT NOT NULL UNIQUE,
        name TEXT UNIQUE,
        state TEXT NOT NULL CHECK (state IN ('creating', 'live', 'deleting')),
        pending INTEGER NOT NULL,
        version INTEGER NOT NULL,
        created_ms INTEGER NOT NULL,
        modified_ms INTEGER NOT NULL,
        settings TEXT NOT NULL,
        consumer_id TEXT,
        consumer_created_ms INTEGER,
        consumer TEXT)",
    "CREATE INDEX IF NOT EXISTS queue_pending ON queue (seq) WHERE pending = 1",
    "CREATE TABLE IF NOT EXISTS state (
        queue_id TEXT PRIMARY KEY,
        changed INTEGER NOT NULL,
        at_ms INTEGER NOT NULL,
        state TEXT) WITHOUT ROWID",
];

/// A queue as the directory knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// 32 lower-case hexadecimal digits, the same for the queue's whole life.
    pub queue_id: String,
    /// Unique in the account.
    pub name: String,
    /// Rises with every change, from 1.
    pub version: u64,
    /// In milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// In milliseconds since the Unix epoch.
    pub modified_ms: u64,
    pub settings: Settings,
    pub consumer: Option<ConsumerEntry>,
}

/// A queue's consumer as the directory knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerEntry {
    /// 32 lower-case hexadecimal digits.
    pub consumer_id: String,
    /// In milliseconds since the Unix epoch.
    pub created_ms: u64,
    pub consumer: Consumer,
}

impl Entry {
    /// The configuration as the queue's own object takes it.
    pub fn config(&self) -> Config {
        Config {
            queue_name: self.name.clone(),
            settings: self.settings.clone(),
            consumer: self.consumer.as_ref().map(|entry| entry.consumer.clone()),
        }
    }
}

/// Some of the account's queues, and how many match in all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List {
    pub entries: Vec<Entry>,
    pub total_count: u64,
}

/// What is still to be done at a queue's object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    pub queue_id: String,
    /// For [`Directory::pushed`].
    pub version: u64,
    pub task: Task,
}

/// See [`Pending`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    /// Hand it this configuration, then call [`Directory::pushed`].
    Configure(Config),
    /// Delete all it has, then call [`Directory::finish_delete`].
    Delete,
}

/// Why a queue is not created.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CreateError {
    #[error("a queue of this name exists")]
    NameTaken,
    /// There are [`MAX_QUEUES`] queues.
    #[error("the account has as many queues as it can have")]
    Full,
    #[error(transparent)]
    Storage(#[from] SqlError),
}

/// Why a queue is not changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UpdateError {
    #[error("there is no such queue")]
    QueueNotFound,
    #[error("another queue has this name")]
    NameTaken,
    #[error("the queue's consumer has this name for its dead-letter queue")]
    OwnDeadLetterQueue,
    #[error(transparent)]
    Storage(#[from] SqlError),
}

/// Why a consumer is not added.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AddConsumerError {
    #[error("there is no such queue")]
    QueueNotFound,
    #[error("the queue has another consumer")]
    ConsumerExists,
    #[error(transparent)]
    Storage(#[from] SqlError),
}

/// Why a consumer is not removed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConsumerError {
    #[error("there is no such queue")]
    QueueNotFound,
    #[error("the queue has no such consumer")]
    ConsumerNotFound,
    #[error(transparent)]
    Storage(#[from] SqlError),
}

/// An account's directory, over its tables. It keeps nothing in memory.
///
/// Every operation runs inside a transaction of its caller's, and refuses before it writes.
pub struct Directory<'a, S: Sql> {
    sql: &'a S,
}

/// A query for entries, its columns in the order in which [`read_entry`] takes them.
macro_rules! select_entries {
    ($rest:literal) => {
        concat!(
            "SELECT queue_id, name, version, created_ms, modified_ms, settings,
                consumer_id, consumer_created_ms, consumer FROM queue ",
            $rest
        )
    };
}

impl<'a, S: Sql> Directory<'a, S> {
    /// The directory whose tables ([`SCHEMA`]) are in `sql`.
    pub fn new(sql: &'a S) -> Directory<'a, S> {
        Directory { sql }
    }

    /// Makes a queue called `name`, with the id `queue_id`, which must be new and random. Where the
    /// name is creating already, that queue goes on, with its own id and these settings.
    pub fn create(
        &self,
        name: &str,
        settings: Settings,
        queue_id: &str,
        now_ms: u64,
    ) -> Result<Entry, CreateError> {
        if let Some((resumed_id, state)) = self.holder(name)? {
            if state != CREATING {
                return Err(CreateError::NameTaken);
            }
            self.sql.execute(
                "UPDATE queue SET settings = ?, modified_ms = ?, version = version + 1, pending = 1
                 WHERE queue_id = ?",
                vec![json(&settings)?, now_ms.into(), text(&resumed_id)],
            )?;
            return self.written(&resumed_id).map_err(CreateError::Storage);
        }
        if self.count_named()? >= MAX_QUEUES {
            return Err(CreateError::Full);
        }
        self.sql.execute(
            "INSERT INTO queue
                (queue_id, name, state, pending, version, created_ms, modified_ms, settings)
             VALUES (?, ?, 'creating', 1, 1, ?, ?, ?)",
            vec![
                text(queue_id),
                text(name),
                now_ms.into(),
                now_ms.into(),
                json(&settings)?,
            ],
        )?;
        Ok(self.written(queue_id)?)
    }

    /// Makes a queue for a channel of the CloudEvents face: with its settings at their defaults and a
    /// consumer, so that it can be pulled from over Cloudflare's API as well. Both ids must be new
    /// and random.
    pub fn create_channel(
        &self,
        name: &str,
        queue_id: &str,
        consumer_id: &str,
        now_ms: u64,
    ) -> Result<Entry, CreateError> {
        let entry = self.create(name, Settings::default(), queue_id, now_ms)?;
        let consumer = (consumer_id, now_ms, Consumer::default());
        Ok(self.write_consumer(&entry.queue_id, Some(consumer), now_ms)?)
    }

    /// The live queue with this id.
    pub fn get(&self, queue_id: &str) -> Result<Option<Entry>, SqlError> {
        self.sql.first(
            select_entries!("WHERE queue_id = ? AND state = 'live'"),
            vec![text(queue_id)],
            read_entry,
        )
    }

    /// The live queue of this name.
    pub fn find(&self, name: &str) -> Result<Option<Entry>, SqlError> {
        self.sql.first(
            select_entries!("WHERE name = ? AND state = 'live'"),
            vec![text(name)],
            read_entry,
        )
    }

    /// Live queues in the order of their creation: at most `limit` of them after the first
    /// `offset`, only those that bear one of `names` unless that is empty.
    pub fn list(&self, offset: u64, limit: u64, names: &[String]) -> Result<List, SqlError> {
        let names = if names.is_empty() {
            Value::Null
        } else {
            json(names)?
        };
        let total_count = self.sql.first(
            "SELECT COUNT(*) FROM queue WHERE state = 'live'
             AND (? IS NULL OR name IN (SELECT value FROM json_each(?)))",
            vec![names.clone(), names.clone()],
            |row| row.integer(0),
        )?;
        let entries = self.entries(
            select_entries!(
                "WHERE state = 'live' AND (? IS NULL OR name IN (SELECT value FROM json_each(?)))
                 ORDER BY seq LIMIT ? OFFSET ?"
            ),
            vec![names.clone(), names, limit.into(), offset.into()],
        )?;
        Ok(List {
            entries,
            total_count: total_count.unwrap_or(0),
        })
    }

    /// Gives a live queue a name and settings; either may be the one it has.
    pub fn update(
        &self,
        queue_id: &str,
        name: &str,
        settings: Settings,
        now_ms: u64,
    ) -> Result<Entry, UpdateError> {
        let entry = self.get(queue_id)?.ok_or(UpdateError::QueueNotFound)?;
        let dead_letter_queue = entry
            .consumer
            .and_then(|entry| entry.consumer.dead_letter_queue);
        if dead_letter_queue.as_deref() == Some(name) {
            return Err(UpdateError::OwnDeadLetterQueue);
        }
        match self.holder(name)? {
            Some((holder_id, _)) if holder_id != queue_id => return Err(UpdateError::NameTaken),
            _ => {}
        }
        self.sql.execute(
            "UPDATE queue SET name = ?, settings = ?, modified_ms = ?, version = version + 1,
                pending = 1
             WHERE queue_id = ?",
            vec![text(name), json(&settings)?, now_ms.into(), text(queue_id)],
        )?;
        Ok(self.written(queue_id)?)
    }

    /// Gives a live queue without a consumer one, with the id `consumer_id`, which must be new and
    /// random.
    pub fn add_consumer(
        &self,
        queue_id: &str,
        consumer_id: &str,
        consumer: Consumer,
        now_ms: u64,
    ) -> Result<Entry, AddConsumerError> {
        let entry = self.get(queue_id)?.ok_or(AddConsumerError::QueueNotFound)?;
        if entry.consumer.is_some() {
            return Err(AddConsumerError::ConsumerExists);
        }
        Ok(self.write_consumer(queue_id, Some((consumer_id, now_ms, consumer)), now_ms)?)
    }

    /// Replaces a live queue's consumer of this id, or gives a queue without a consumer one of this
    /// id.
    pub fn put_consumer(
        &self,
        queue_id: &str,
        consumer_id: &str,
        consumer: Consumer,
        now_ms: u64,
    ) -> Result<Entry, AddConsumerError> {
        let entry = self.get(queue_id)?.ok_or(AddConsumerError::QueueNotFound)?;
        let created_ms = match entry.consumer {
            None => now_ms,
            Some(present) if present.consumer_id == consumer_id => present.created_ms,
            Some(_) => return Err(AddConsumerError::ConsumerExists),
        };
        Ok(self.write_consumer(queue_id, Some((consumer_id, created_ms, consumer)), now_ms)?)
    }

    /// Takes a live queue's consumer of this id away.
    pub fn remove_consumer(
        &self,
        queue_id: &str,
        consumer_id: &str,
        now_ms: u64,
    ) -> Result<Entry, ConsumerError> {
        let entry = self.get(queue_id)?.ok_or(ConsumerError::QueueNotFound)?;
        match entry.consumer {
            Some(present) if present.consumer_id == consumer_id => {}
            _ => return Err(ConsumerError::ConsumerNotFound),
        }
        Ok(self.write_consumer(queue_id, None, now_ms)?)
    }

    /// Begins to delete a live queue: nobody sees it any more, and its name is free. `false` when
    /// there is none with this id. What its object has is to be deleted next, and then
    /// [`Directory::finish_delete`] called.
    pub fn begin_delete(&self, queue_id: &str, now_ms: u64) -> Result<bool, SqlError> {
        if self.get(queue_id)?.is_none() {
            return Ok(false);
        }
        self.sql.execute(
            "UPDATE queue SET state = 'deleting', name = NULL, modified_ms = ?,
                version = version + 1, pending = 1
             WHERE queue_id = ?",
            vec![now_ms.into(), text(queue_id)],
        )?;
        Ok(true)
    }

    /// Forgets a queue that is deleting, after its object has deleted all it had.
    pub fn finish_delete(&self, queue_id: &str) -> Result<(), SqlError> {
        self.forget_state(queue_id)?;
        self.sql.execute(
            "DELETE FROM queue WHERE queue_id = ? AND state = 'deleting'",
            vec![text(queue_id)],
        )
    }

    /// What is still to be done at queues' objects, the oldest queues first, at most `limit` of it.
    pub fn pending(&self, limit: u64) -> Result<Vec<Pending>, SqlError> {
        let mut pending = Vec::new();
        let deleting = "SELECT queue_id, version FROM queue
             WHERE pending = 1 AND state = 'deleting' ORDER BY seq LIMIT ?";
        self.sql.run(deleting, vec![limit.into()], &mut |mut row| {
            pending.push(Pending {
                queue_id: take_text(&mut row, 0)?,
                version: row.integer(1)?,
                task: Task::Delete,
            });
            Ok(Flow::More)
        })?;
        let entries = self.entries(
            select_entries!("WHERE pending = 1 AND state <> 'deleting' ORDER BY seq LIMIT ?"),
            vec![limit.saturating_sub(pending.len() as u64).into()],
        )?;
        pending.extend(entries.into_iter().map(|entry| Pending {
            task: Task::Configure(entry.config()),
            version: entry.version,
            queue_id: entry.queue_id,
        }));
        Ok(pending)
    }

    /// A queue's object has taken the configuration of `version`: the queue is live, and nothing is
    /// pending unless it has changed since.
    pub fn pushed(&self, queue_id: &str, version: u64) -> Result<(), SqlError> {
        self.sql.execute(
            "UPDATE queue SET state = 'live', pending = (version <> ?)
             WHERE queue_id = ? AND state <> 'deleting'",
            vec![version.into(), text(queue_id)],
        )
    }

    fn write_consumer(
        &self,
        queue_id: &str,
        consumer: Option<(&str, u64, Consumer)>,
        now_ms: u64,
    ) -> Result<Entry, SqlError> {
        let (id, created_ms, consumer) = match consumer {
            Some((id, created_ms, consumer)) => (text(id), created_ms.into(), json(&consumer)?),
            None => (Value::Null, Value::Null, Value::Null),
        };
        self.sql.execute(
            "UPDATE queue SET consumer_id = ?, consumer_created_ms = ?, consumer = ?,
                modified_ms = ?, version = version + 1, pending = 1
             WHERE queue_id = ?",
            vec![id, created_ms, consumer, now_ms.into(), text(queue_id)],
        )?;
        self.written(queue_id)
    }

    /// The id and state of the queue that holds `name`.
    fn holder(&self, name: &str) -> Result<Option<(String, String)>, SqlError> {
        self.sql.first(
            "SELECT queue_id, state FROM queue WHERE name = ?",
            vec![text(name)],
            |mut row| Ok((take_text(&mut row, 0)?, take_text(&mut row, 1)?)),
        )
    }

    fn count_named(&self) -> Result<u64, SqlError> {
        let count = self.sql.first(
            "SELECT COUNT(*) FROM queue WHERE name IS NOT NULL",
            vec![],
            |row| row.integer(0),
        )?;
        Ok(count.unwrap_or(0))
    }

    /// The entry that was just written.
    fn written(&self, queue_id: &str) -> Result<Entry, SqlError> {
        let statement = select_entries!("WHERE queue_id = ?");
        self.sql
            .first(statement, vec![text(queue_id)], read_entry)?
            .ok_or(SqlError::Corrupt("a queue's row is gone"))
    }

    fn entries(
        &self,
        statement: &'static str,
        parameters: Vec<Value>,
    ) -> Result<Vec<Entry>, SqlError> {
        let mut entries = Vec::new();
        self.sql.run(statement, parameters, &mut |row| {
            entries.push(read_entry(row)?);
            Ok(Flow::More)
        })?;
        Ok(entries)
    }
}

const CREATING: &str = "creating";

fn read_entry(mut row: Row) -> Result<Entry, SqlError> {
    let consumer = match row.take_text(6)? {
        None => None,
        Some(consumer_id) => Some(ConsumerEntry {
            consumer_id,
            created_ms: row.integer(7)?,
            consumer: parse(&take_text(&mut row, 8)?)?,
        }),
    };
    Ok(Entry {
        queue_id: take_text(&mut row, 0)?,
        name: take_text(&mut row, 1)?,
        version: row.integer(2)?,
        created_ms: row.integer(3)?,
        modified_ms: row.integer(4)?,
        settings: parse(&take_text(&mut row, 5)?)?,
        consumer,
    })
}

fn take_text(row: &mut Row, column: usize) -> Result<String, SqlError> {
    row.take_text(column)?
        .ok_or(SqlError::Corrupt("a missing text"))
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn json(value: &(impl serde::Serialize + ?Sized)) -> Result<Value, SqlError> {
    serde_json::to_string(value)
        .map(Value::Text)
        .map_err(|_| SqlError::Corrupt("a configuration that is no JSON"))
}

fn parse<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, SqlError> {
    serde_json::from_str(text).map_err(|_| SqlError::Corrupt("a configuration"))
}

#[cfg(test)]
mod tests;
