//! The database as the queue sees it, and the tables.
//!
//! The same SQL runs on a Durable Object's SQLite and natively in tests. Whoever calls an operation
//! of the queue runs it inside one transaction: when it answers `Err`, the transaction is rolled
//! back and the [`Queue`](super::Queue) is dropped, to be opened afresh from the tables.

use thiserror::Error;

/// A value in a row or of a parameter. Integers stay within ±2^53: a Durable Object passes them
/// through JavaScript numbers.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Integer(i64),
    Text(String),
    Blob(Vec<u8>),
}

impl From<u64> for Value {
    fn from(value: u64) -> Value {
        Value::Integer(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

/// Our bug, or the platform's trouble: never the caller's fault. What the queue did so far in the
/// transaction is to be rolled back.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SqlError {
    #[error("the database refused a statement: {0}")]
    Refused(String),
    #[error("the database has no room left")]
    Full,
    #[error("a stored row is not as it should be: {0}")]
    Corrupt(&'static str),
}

/// A row of an answer.
pub struct Row(pub Vec<Value>);

impl Row {
    /// The integer in `column`, which must not be negative.
    pub fn integer(&self, column: usize) -> Result<u64, SqlError> {
        match self.0.get(column) {
            Some(Value::Integer(value)) => {
                u64::try_from(*value).map_err(|_| SqlError::Corrupt("a negative number"))
            }
            _ => Err(SqlError::Corrupt("not a number")),
        }
    }

    /// The integer in `column`; `None` for NULL.
    pub fn integer_or_null(&self, column: usize) -> Result<Option<u64>, SqlError> {
        match self.0.get(column) {
            Some(Value::Null) => Ok(None),
            _ => self.integer(column).map(Some),
        }
    }

    /// The integer in `column`, or 0 for NULL.
    pub fn integer_or_zero(&self, column: usize) -> Result<u64, SqlError> {
        Ok(self.integer_or_null(column)?.unwrap_or(0))
    }

    /// Takes the bytes out of `column`; NULL is no bytes.
    pub fn take_blob(&mut self, column: usize) -> Result<Vec<u8>, SqlError> {
        match self.0.get_mut(column) {
            Some(Value::Blob(bytes)) => Ok(std::mem::take(bytes)),
            Some(Value::Null) => Ok(Vec::new()),
            _ => Err(SqlError::Corrupt("not a blob")),
        }
    }

    /// Takes the text out of `column`; `None` for NULL.
    pub fn take_text(&mut self, column: usize) -> Result<Option<String>, SqlError> {
        match self.0.get_mut(column) {
            Some(Value::Text(text)) => Ok(Some(std::mem::take(text))),
            Some(Value::Null) => Ok(None),
            _ => Err(SqlError::Corrupt("not a text")),
        }
    }
}

/// Whether a reader of rows wants another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    More,
    Enough,
}

/// A SQLite database, inside a transaction that somebody else opened.
pub trait Sql {
    /// Runs one statement and hands its rows to `read`, one at a time, until it has enough. The
    /// statement may still be read to its end: one that could have many rows has a LIMIT.
    fn run(
        &self,
        statement: &'static str,
        parameters: Vec<Value>,
        read: &mut dyn FnMut(Row) -> Result<Flow, SqlError>,
    ) -> Result<(), SqlError>;

    /// Runs a statement whose rows nobody wants.
    fn execute(&self, statement: &'static str, parameters: Vec<Value>) -> Result<(), SqlError> {
        self.run(statement, parameters, &mut |_| Ok(Flow::More))
    }

    /// Runs a statement and reads its first row.
    fn first<T>(
        &self,
        statement: &'static str,
        parameters: Vec<Value>,
        read: impl FnOnce(Row) -> Result<T, SqlError>,
    ) -> Result<Option<T>, SqlError>
    where
        Self: Sized,
    {
        let mut read = Some(read);
        let mut found = None;
        self.run(statement, parameters, &mut |row| {
            if let Some(read) = read.take() {
                found = Some(read(row)?);
            }
            Ok(Flow::Enough)
        })?;
        Ok(found)
    }
}

/// Numbers as one parameter for `json_each(?)`.
pub fn json_list(numbers: impl IntoIterator<Item = u64>) -> Value {
    let mut text = String::from("[");
    for number in numbers {
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(&number.to_string());
    }
    text.push(']');
    Value::Text(text)
}

/// The version of the tables below, kept in `self`.
pub const SCHEMA_VERSION: u64 = 2;
/// How many of [`SCHEMA`]'s tables the first version had.
const FIRST_TABLES: usize = 7;

/// The tables. Big columns come last, so that reading the small ones touches no overflow page.
///
/// - `self`: one row, what the queue is: its tables' version, when it was made (ids of delayed
///   blocks count from it), the key that seals its lease ids, its configuration as JSON and that
///   one's version, and when it was last purged.
/// - `block`: the messages that one send brought, encoded once, never changed. `id` says where the
///   block stands in the order of delivery (see [`engine`](super::engine)).
/// - `hold`: messages that are out until a time: leased, delayed by a retry, or on their way to the
///   queue named in `destination` (`kind` 2: as dead letters, 3: redriven). Passing time ends a hold; no write does. When two holds name a
///   message the one with the higher `seq` counts. A hold whose messages are all settled or named
///   by later holds means nothing, and its row is taken by the next hold.
/// - `progress`: the settled messages of a block that is partly settled: a bitmap, how many they
///   are, and their bytes.
/// - `tally`: one row, the ledger after the latest operation that wrote neither block nor hold.
/// - `recent_key`: idempotency keys of the last minutes, with what was answered.
/// - `arrival`: for each queue that messages moved here from, its latest move: a repeat is
///   recognised.
/// - `redrive`: one row, the latest redrive and how far it has come. Since version 2.
/// - `minute`: the ledger after the last write of each minute of the last hour, in a ring. Since
///   version 2.
///
/// Each written block, hold and tally row carries the ledger as it was then: the newest one counts.
pub const SCHEMA: [&str; 9] = [
    "CREATE TABLE IF NOT EXISTS self (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        schema_version INTEGER NOT NULL,
        created_ms INTEGER NOT NULL,
        seal_key BLOB NOT NULL,
        config_version INTEGER NOT NULL,
        config TEXT NOT NULL,
        purged_ms INTEGER)",
    "CREATE TABLE IF NOT EXISTS block (
        id INTEGER PRIMARY KEY,
        sent_ms INTEGER NOT NULL,
        count INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        ledger BLOB NOT NULL,
        payload BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS hold (
        id INTEGER PRIMARY KEY,
        seq INTEGER NOT NULL,
        kind INTEGER NOT NULL,
        until_ms INTEGER NOT NULL,
        destination TEXT,
        ledger BLOB NOT NULL,
        entries BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS progress (
        id INTEGER PRIMARY KEY,
        settled INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        done BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS tally (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        ledger BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS recent_key (
        key TEXT PRIMARY KEY,
        at_ms INTEGER NOT NULL,
        answer BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS arrival (
        source TEXT PRIMARY KEY,
        number INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS redrive (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        state INTEGER NOT NULL,
        destination TEXT,
        messages_per_second INTEGER,
        to_move INTEGER NOT NULL,
        redriven_before INTEGER NOT NULL,
        skipped INTEGER NOT NULL,
        started_ms INTEGER NOT NULL,
        ended_ms INTEGER,
        next_ms INTEGER NOT NULL,
        at_block INTEGER NOT NULL,
        at_index INTEGER NOT NULL,
        end_block INTEGER NOT NULL,
        chosen BLOB)",
    "CREATE TABLE IF NOT EXISTS minute (
        id INTEGER PRIMARY KEY,
        ledger BLOB NOT NULL)",
];

/// The tables that a database of `version` lacks.
pub(super) fn tables_since(version: u64) -> Result<&'static [&'static str], SqlError> {
    match version {
        1 => Ok(SCHEMA.split_at(FIRST_TABLES).1),
        SCHEMA_VERSION => Ok(&[]),
        _ => Err(SqlError::Corrupt(
            "tables of a version that this release does not know: deploy a newer one",
        )),
    }
}
