//! A queue's database that can fail at any statement of an operation.

use super::queue::{Flow, Row, Sql, SqlError, Value};
use super::sqlite::NativeSql;
use std::cell::Cell;

/// When a statement fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// Statements that still succeed.
    pub after: u32,
    /// The statement that fails does its work before.
    pub done_first: bool,
    /// Whether every later one fails too.
    pub lasts: bool,
}

pub struct Database<'a> {
    sql: &'a NativeSql,
    failure: Cell<Option<Failure>>,
    failed: Cell<bool>,
}

impl<'a> Database<'a> {
    pub fn new(sql: &'a NativeSql, failure: Option<Failure>) -> Database<'a> {
        Database {
            sql,
            failure: Cell::new(failure),
            failed: Cell::new(false),
        }
    }

    /// Whether a statement was made to fail.
    pub fn failed(&self) -> bool {
        self.failed.get()
    }
}

impl Sql for Database<'_> {
    fn run(
        &self,
        statement: &'static str,
        parameters: Vec<Value>,
        read: &mut dyn FnMut(Row) -> Result<Flow, SqlError>,
    ) -> Result<(), SqlError> {
        match self.failure.get() {
            Some(failure) if failure.after == 0 => {
                if failure.done_first {
                    self.sql.run(statement, parameters, read)?;
                }
                if !failure.lasts {
                    self.failure.set(None);
                }
                self.failed.set(true);
                Err(SqlError::Refused("planned by the simulation".to_owned()))
            }
            Some(failure) => {
                self.failure.set(Some(Failure {
                    after: failure.after - 1,
                    ..failure
                }));
                self.sql.run(statement, parameters, read)
            }
            None => self.sql.run(statement, parameters, read),
        }
    }
}
