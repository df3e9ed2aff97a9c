//! A Durable Object's SQLite as the queue's [`Sql`], and the transaction around an operation.

use super::platform::says_full;
use crate::queue::{Flow, Row, Sql, SqlError, Value};
use js_sys::{Array, ArrayBuffer, IteratorNext, Uint8Array};
use std::cell::Cell;
use wasm_bindgen::prelude::*;
use worker::{SqlStorage, Storage};

// The `worker` crate finds a value's type by trial, a call to JavaScript each; these bindings are
// for calls that happen several times a request.
#[wasm_bindgen]
extern "C" {
    /// The part of a Durable Object's storage that the `worker` crate doesn't have.
    type TransactionalStorage;

    #[wasm_bindgen(method, catch, js_name = transactionSync)]
    fn transaction_sync(
        this: &TransactionalStorage,
        work: &mut dyn FnMut() -> Result<(), JsValue>,
    ) -> Result<(), JsValue>;

    type Statements;

    #[wasm_bindgen(method, catch, variadic)]
    fn exec(this: &Statements, statement: &str, bindings: &Array) -> Result<Cursor, JsValue>;

    type Cursor;

    #[wasm_bindgen(method)]
    fn raw(this: &Cursor) -> Rows;

    #[wasm_bindgen(method, getter, js_name = rowsRead)]
    fn rows_read(this: &Cursor) -> f64;

    #[wasm_bindgen(method, getter, js_name = rowsWritten)]
    fn rows_written(this: &Cursor) -> f64;

    type Rows;

    #[wasm_bindgen(method, catch)]
    fn next(this: &Rows) -> Result<IteratorNext, JsValue>;
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
        let bindings: Array = parameters.into_iter().map(bound).collect();
        let statements: &Statements = self.sql.as_ref().unchecked_ref();
        let cursor = statements
            .exec(wasm_bindgen::intern(statement), &bindings)
            .map_err(refused)?;
        let rows = cursor.raw();
        let mut outcome = Ok(Flow::More);
        // A cursor is read to its end: one left open would stand in the way of later statements.
        loop {
            let next = rows.next().map_err(refused)?;
            if next.done() {
                break;
            }
            if outcome == Ok(Flow::More) {
                outcome = value_row(&next.value().unchecked_into()).and_then(&mut *read);
            }
        }
        if self.usage.counts {
            self.usage
                .add(cursor.rows_written() as u64, cursor.rows_read() as u64);
        }
        outcome.map(|_| ())
    }
}

fn bound(value: Value) -> JsValue {
    match value {
        Value::Null => JsValue::NULL,
        Value::Integer(number) => JsValue::from_f64(number as f64),
        Value::Text(text) => JsValue::from_str(&text),
        Value::Blob(bytes) => Uint8Array::from(bytes.as_slice()).into(),
    }
}

fn value_row(columns: &Array) -> Result<Row, SqlError> {
    columns
        .iter()
        .map(|value| {
            if let Some(number) = value.as_f64() {
                // Integers beyond 2^53 are never stored.
                Ok(Value::Integer(number as i64))
            } else if value.is_null() {
                Ok(Value::Null)
            } else if let Some(buffer) = value.dyn_ref::<ArrayBuffer>() {
                Ok(Value::Blob(Uint8Array::new(buffer).to_vec()))
            } else if let Some(text) = value.as_string() {
                Ok(Value::Text(text))
            } else {
                Err(SqlError::Corrupt("a value of an unknown type"))
            }
        })
        .collect::<Result<Vec<Value>, SqlError>>()
        .map(Row)
}

fn refused(error: JsValue) -> SqlError {
    match says_full(&error) {
        true => SqlError::Full,
        false => SqlError::Refused(format!("{error:?}")),
    }
}
