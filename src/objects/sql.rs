//! A Durable Object's SQLite as the queue's [`Sql`], and the transaction around an operation.

use crate::queue::{Flow, Row, Sql, SqlError, Value};
use std::cell::Cell;
use wasm_bindgen::prelude::*;
use worker::{SqlStorage, SqlStorageValue, Storage};

#[wasm_bindgen]
extern "C" {
    /// The part of a Durable Object's storage that the `worker` crate doesn't have.
    type TransactionalStorage;

    #[wasm_bindgen(method, catch, js_name = transactionSync)]
    fn transaction_sync(
        this: &TransactionalStorage,
        work: &mut dyn FnMut() -> Result<(), JsValue>,
    ) -> Result<(), JsValue>;
}

/// Rows that this object has written and read since it woke, as the platform counts and bills them.
/// Counting costs calls of its own, so it is done only where somebody asked for it.
#[derive(Debug, Default)]
pub struct Usage {
    pub counts: bool,
    pub rows_written: Cell<u64>,
    pub rows_read: Cell<u64>,
}

impl Usage {
    pub fn add(&self, written: u64, read: u64) {
        self.rows_written
            .set(self.rows_written.get().saturating_add(written));
        self.rows_read
            .set(self.rows_read.get().saturating_add(read));
    }
}

/// The database of this object.
pub struct ObjectSql<'a> {
    sql: SqlStorage,
    usage: &'a Usage,
}

impl<'a> ObjectSql<'a> {
    /// Runs `work` in a transaction, which is kept when it answers `Ok` and undone when it answers
    /// `Err`.
    pub fn transaction<T, E: From<SqlError>>(
        storage: &Storage,
        usage: &'a Usage,
        work: impl FnOnce(&ObjectSql<'a>) -> Result<T, E>,
    ) -> Result<T, E> {
        let database = ObjectSql {
            sql: storage.sql(),
            usage,
        };
        let mut work = Some(work);
        let mut result = None;
        let transactional: &TransactionalStorage = storage.as_raw().unchecked_ref();
        let kept =
            transactional.transaction_sync(&mut || match work.take().map(|work| work(&database)) {
                Some(Ok(value)) => {
                    result = Some(Ok(value));
                    Ok(())
                }
                Some(Err(error)) => {
                    result = Some(Err(error));
                    // Thrown, so that the transaction is undone.
                    Err(JsValue::NULL)
                }
                None => Ok(()),
            });
        match (result, kept) {
            (Some(Err(error)), _) => Err(error),
            (Some(Ok(value)), Ok(())) => Ok(value),
            (_, Err(error)) => Err(SqlError::Refused(format!("{error:?}")).into()),
            (None, Ok(())) => Err(SqlError::Refused("no transaction was run".into()).into()),
        }
    }
}

impl Sql for ObjectSql<'_> {
    fn run(
        &self,
        statement: &'static str,
        parameters: Vec<Value>,
        read: &mut dyn FnMut(Row) -> Result<Flow, SqlError>,
    ) -> Result<(), SqlError> {
        let parameters: Vec<SqlStorageValue> = parameters.into_iter().map(bound).collect();
        let cursor = self.sql.exec(statement, parameters).map_err(refused)?;
        let mut rows = cursor.raw();
        let mut outcome = Ok(Flow::More);
        // A cursor is read to its end: one left open would stand in the way of later statements.
        for row in &mut rows {
            if outcome == Ok(Flow::More) {
                outcome = row
                    .map_err(refused)
                    .and_then(value_row)
                    .and_then(&mut *read);
            }
        }
        if self.usage.counts {
            self.usage
                .add(cursor.rows_written() as u64, cursor.rows_read() as u64);
        }
        outcome.map(|_| ())
    }
}

fn bound(value: Value) -> SqlStorageValue {
    match value {
        Value::Null => SqlStorageValue::Null,
        Value::Integer(number) => SqlStorageValue::Integer(number),
        Value::Text(text) => SqlStorageValue::String(text),
        Value::Blob(bytes) => SqlStorageValue::Blob(bytes),
    }
}

fn value_row(columns: Vec<SqlStorageValue>) -> Result<Row, SqlError> {
    columns
        .into_iter()
        .map(|value| match value {
            SqlStorageValue::Null => Ok(Value::Null),
            SqlStorageValue::Integer(number) => Ok(Value::Integer(number)),
            SqlStorageValue::String(text) => Ok(Value::Text(text)),
            SqlStorageValue::Blob(bytes) => Ok(Value::Blob(bytes)),
            SqlStorageValue::Boolean(_) | SqlStorageValue::Float(_) => {
                Err(SqlError::Corrupt("a value of an unknown type"))
            }
        })
        .collect::<Result<Vec<Value>, SqlError>>()
        .map(Row)
}

fn refused(error: worker::Error) -> SqlError {
    let why = error.to_string();
    match why.contains("SQLITE_FULL") {
        true => SqlError::Full,
        false => SqlError::Refused(why),
    }
}
