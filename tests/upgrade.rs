//! Storage that earlier releases wrote is opened and goes on: nothing is lost, leases hold, and what
//! the new tables are for works. `tests/upgrade/v<version>.json` is what `write.mjs` beside it found in
//! a real workerd's storage under that version of the tables.

use pullq::directory::{self, Directory};
use pullq::queue;
use pullq::queue::sql::SCHEMA_VERSION;
use pullq::queue::{PullRequest, Queue, RedriveRequest, RedriveState, Sql, SqlError};
use serde_json::Value;

mod sqlite;
use sqlite::NativeSql;

const HOUR_MS: u64 = 3_600_000;

fn fixture(version: u64) -> Value {
    let path = format!(
        "{}/tests/upgrade/v{version}.json",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| {
        panic!("{path}: {error}; every version of the tables has one, see tests/upgrade/write.mjs")
    });
    serde_json::from_str(&text).expect("JSON")
}

fn database(statements: &Value) -> NativeSql {
    let sql = NativeSql::in_memory(&[]);
    for statement in statements.as_array().expect("statements") {
        let statement = statement.as_str().expect("a statement");
        sql.connection().execute_batch(statement).expect(statement);
    }
    sql
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn open(sql: &NativeSql, at_ms: u64) -> Queue {
    Queue::open(sql, at_ms).expect("readable").expect("a queue")
}

#[test]
fn a_queue_that_an_earlier_release_wrote_goes_on() {
    for version in 1..=SCHEMA_VERSION {
        let fixture = fixture(version);
        let sql = database(&fixture["orders"]);
        let written_ms = number(&fixture["written_ms"]);
        let mut queue = open(&sql, written_ms);
        let counters = queue.metrics(&sql).expect("readable").counters;
        for (name, count) in fixture["counters"].as_object().expect("counters") {
            let now = serde_json::to_value(counters).expect("JSON");
            assert_eq!(&now[name], count, "version {version}, {name}");
        }
        assert_eq!(queue.backlog_count(), 5, "version {version}");

        let everything = PullRequest {
            batch_size: Some(100),
            visibility_timeout_ms: Some(1_000),
        };
        let pulled = queue.pull(&sql, written_ms, everything).expect("messages");
        let ids = pulled.deliveries.iter().map(|message| hex(&message.id));
        let waiting = fixture["waiting"].as_array().expect("ids");
        assert!(ids.eq(waiting.iter().map(|id| text(id).to_owned())));

        // The consumer that had a message when the release came is done with it.
        let acks = [text(&fixture["lease_id"]).to_owned()];
        let settled = queue.settle(&sql, written_ms, &acks, &[]).expect("stored");
        assert_eq!(settled.acknowledged, 1, "version {version}");

        let delayed = queue
            .pull(&sql, written_ms + 2 * HOUR_MS, everything)
            .expect("a message");
        assert_eq!(delayed.deliveries.len(), 1, "version {version}");
        // Opened again, it needs no change any more, and says the same.
        assert_eq!(open(&sql, written_ms).metrics(&sql), queue.metrics(&sql));
    }
}

#[test]
fn dead_letters_that_an_earlier_release_wrote_can_be_redriven() {
    for version in 1..=SCHEMA_VERSION {
        let fixture = fixture(version);
        let sql = database(&fixture["dead"]);
        let written_ms = number(&fixture["written_ms"]);
        let mut dead = open(&sql, written_ms);
        let redrive = dead
            .start_redrive(&sql, written_ms, RedriveRequest::default())
            .expect("begun");
        assert_eq!(redrive.to_move, 1);
        dead.tick(&sql, written_ms).expect("done");
        let transfer = dead.next_transfer(&sql).expect("readable").expect("a move");
        assert_eq!(transfer.destination, "orders");

        let home = database(&fixture["orders"]);
        let mut orders = open(&home, written_ms);
        let is_new = orders
            .receive(
                &home,
                written_ms,
                "dead",
                transfer.number,
                &transfer.messages,
            )
            .expect("stored");
        assert!(is_new);
        dead.transferred(&sql, written_ms, transfer.number)
            .expect("stored");
        dead.tick(&sql, written_ms).expect("done");
        let done = dead.redrive().expect("a redrive");
        assert_eq!((done.state, done.moved), (RedriveState::Completed, 1));
        assert_eq!(orders.backlog_count(), 6);
        assert!(!orders
            .history(&home, written_ms)
            .expect("readable")
            .is_empty());
    }
}

#[test]
fn a_directory_that_an_earlier_release_wrote_goes_on() {
    for version in 1..=SCHEMA_VERSION {
        let sql = database(&fixture(version)["directory"]);
        for table in directory::SCHEMA {
            sql.execute(table, Vec::new()).expect("a table");
        }
        let directory = Directory::new(&sql);
        let known = directory.known().expect("readable");
        let names: Vec<&str> = known
            .iter()
            .map(|known| known.entry.name.as_str())
            .collect();
        assert_eq!(names, ["orders", "orders-dead"], "version {version}");
        directory
            .mark_changed(&known[0].entry.queue_id)
            .expect("stored");
        let changed = directory.take_changed(5).expect("readable");
        assert!(changed.contains(&known[0].entry.queue_id));
    }
}

#[test]
fn tables_of_a_later_release_are_left_alone() {
    let sql = database(&fixture(SCHEMA_VERSION)["orders"]);
    sql.connection()
        .execute_batch(&format!(
            "UPDATE self SET schema_version = {}",
            SCHEMA_VERSION + 1
        ))
        .expect("stored");
    let refusal = Queue::open(&sql, 0).map(|queue| queue.is_some());
    assert!(
        matches!(refusal, Err(SqlError::Corrupt(why)) if why.contains("newer")),
        "{refusal:?}"
    );
}
