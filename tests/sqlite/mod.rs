//! The queue's database on a native SQLite, for tests: the same SQL as on a Durable Object, and the
//! same bounds on what a statement may carry, so that what passes here passes there.
//!
//! It is included with `#[path]` by unit tests and integration tests alike; the including module
//! has the crate's `queue` module in scope under that name.

#![allow(dead_code)] // each including test uses its own part of it

use super::queue::{Flow, Row, Sql, SqlError, Value};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, ToSql};
use std::path::Path;

/// Bound parameters a statement may have (Durable Objects' limits).
const MAX_PARAMETERS: usize = 100;
/// Bytes of a statement's text (Durable Objects' limits).
const MAX_STATEMENT_BYTES: usize = 100_000;
/// Bytes of a text or blob (Durable Objects' limits: 2 MB a row).
const MAX_VALUE_BYTES: usize = 2_000_000;
/// Integers pass through JavaScript numbers.
const MAX_INTEGER: u64 = 1 << 53;
/// More statements than the crate has.
const CACHED_STATEMENTS: usize = 256;

/// A SQLite database, in memory or in a file.
///
/// Operations run in [`NativeSql::transaction`]; a crash is [`NativeSql::begin`], some work, and
/// [`NativeSql::rollback`].
pub struct NativeSql {
    connection: Connection,
}

impl NativeSql {
    /// An empty database in memory with the tables of `schema`.
    pub fn in_memory(schema: &[&str]) -> NativeSql {
        NativeSql::with(
            Connection::open_in_memory().expect("SQLite opens in memory"),
            schema,
        )
    }

    /// The database in the file at `path`, made where there is none, with the tables of `schema`.
    /// Nothing is synced to the disk: a killed process is survived, a power cut isn't.
    pub fn in_file(path: &Path, schema: &[&str]) -> NativeSql {
        let connection = Connection::open(path).expect("SQLite opens the file");
        connection
            .execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF")
            .expect("SQLite takes the pragmas");
        NativeSql::with(connection, schema)
    }

    fn with(connection: Connection, schema: &[&str]) -> NativeSql {
        connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
        for statement in schema {
            connection
                .execute_batch(statement)
                .expect("the schema is SQL");
        }
        NativeSql { connection }
    }

    /// Opens a transaction; they nest.
    pub fn begin(&self) {
        self.control("SAVEPOINT operation");
    }

    /// Makes what was done since the last open [`NativeSql::begin`] last.
    pub fn commit(&self) {
        self.control("RELEASE operation");
    }

    /// Undoes what was done since the last open [`NativeSql::begin`].
    pub fn rollback(&self) {
        self.control("ROLLBACK TO operation");
        self.control("RELEASE operation");
    }

    /// Runs `work` in a transaction, which is kept when it answers `Ok` and undone when it answers
    /// `Err`.
    pub fn transaction<T, E>(&self, work: impl FnOnce(&NativeSql) -> Result<T, E>) -> Result<T, E> {
        self.begin();
        let result = work(self);
        match result {
            Ok(_) => self.commit(),
            Err(_) => self.rollback(),
        }
        result
    }

    /// The underlying connection, for tests that look behind the curtain.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    fn control(&self, statement: &'static str) {
        self.connection
            .prepare_cached(statement)
            .and_then(|mut statement| statement.execute([]))
            .expect("SQLite opens and closes savepoints");
    }
}

impl Sql for NativeSql {
    fn run(
        &self,
        statement: &'static str,
        parameters: Vec<Value>,
        read: &mut dyn FnMut(Row) -> Result<Flow, SqlError>,
    ) -> Result<(), SqlError> {
        check_bounds(statement, &parameters)?;
        let mut prepared = self.connection.prepare_cached(statement).map_err(refused)?;
        let columns = prepared.column_count();
        let mut rows = prepared
            .query(rusqlite::params_from_iter(parameters.iter().map(Bound)))
            .map_err(refused)?;
        while let Some(row) = rows.next().map_err(refused)? {
            let values = (0..columns)
                .map(|column| value(row.get_ref(column).map_err(refused)?))
                .collect::<Result<Vec<Value>, SqlError>>()?;
            if read(Row(values))? == Flow::Enough {
                break;
            }
        }
        Ok(())
    }
}

/// Refuses what a Durable Object would refuse and a native SQLite wouldn't.
fn check_bounds(statement: &str, parameters: &[Value]) -> Result<(), SqlError> {
    let refuse = |why: &str| Err(SqlError::Refused(format!("{why}: {statement:.80}")));
    if statement.len() > MAX_STATEMENT_BYTES {
        return refuse("a statement too long for a Durable Object");
    }
    if parameters.len() > MAX_PARAMETERS {
        return refuse("more parameters than a Durable Object takes");
    }
    for parameter in parameters {
        match parameter {
            Value::Integer(number) if number.unsigned_abs() > MAX_INTEGER => {
                return refuse("an integer beyond 2^53");
            }
            Value::Text(text) if text.len() > MAX_VALUE_BYTES => {
                return refuse("a text beyond 2 MB");
            }
            Value::Blob(bytes) if bytes.len() > MAX_VALUE_BYTES => {
                return refuse("a blob beyond 2 MB");
            }
            _ => {}
        }
    }
    Ok(())
}

fn refused(error: rusqlite::Error) -> SqlError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => SqlError::Full,
        _ => SqlError::Refused(error.to_string()),
    }
}

fn value(value: ValueRef<'_>) -> Result<Value, SqlError> {
    Ok(match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Text(bytes) => Value::Text(
            String::from_utf8(bytes.to_vec()).map_err(|_| SqlError::Corrupt("not UTF-8"))?,
        ),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
        ValueRef::Real(_) => return Err(SqlError::Corrupt("a real number")),
    })
}

struct Bound<'a>(&'a Value);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Value::Null => ValueRef::Null,
            Value::Integer(number) => ValueRef::Integer(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}
