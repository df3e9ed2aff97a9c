use super::*;
use crate::queue;

#[path = "../../tests/sqlite/mod.rs"]
mod sqlite;
use sqlite::NativeSql;

fn empty() -> NativeSql {
    NativeSql::in_memory(&SCHEMA)
}

/// A live queue `name` with the id `id`, created at 100.
fn live(directory: &Directory<NativeSql>, id: &str, name: &str) -> Entry {
    let entry = directory
        .create(name, Settings::default(), id, 100)
        .expect("created");
    directory.pushed(id, entry.version).expect("pushed");
    entry
}

fn consumer(batch_size: u32) -> Consumer {
    Consumer {
        batch_size,
        ..Consumer::default()
    }
}

fn names(list: &List) -> Vec<&str> {
    list.entries
        .iter()
        .map(|entry| entry.name.as_str())
        .collect()
}

#[test]
fn a_queue_is_seen_once_its_object_knows_it() {
    let sql = empty();
    let directory = Directory::new(&sql);
    let expected = Entry {
        queue_id: "q1".into(),
        name: "orders".into(),
        version: 1,
        created_ms: 100,
        modified_ms: 100,
        settings: Settings::default(),
        consumer: None,
    };
    let created = directory.create("orders", Settings::default(), "q1", 100);
    assert_eq!(created, Ok(expected.clone()));
    assert_eq!(directory.get("q1"), Ok(None));
    assert_eq!(directory.find("orders"), Ok(None));
    assert_eq!(directory.list(0, 20, &[]).expect("a list").total_count, 0);
    assert_eq!(
        directory.pending(10),
        Ok(vec![Pending {
            queue_id: "q1".into(),
            version: 1,
            task: Task::Configure(expected.config()),
        }])
    );
    directory.pushed("q1", 1).expect("pushed");
    assert_eq!(directory.pending(10), Ok(vec![]));
    assert_eq!(directory.get("q1"), Ok(Some(expected.clone())));
    assert_eq!(directory.find("orders"), Ok(Some(expected)));
}

#[test]
fn a_channel_is_a_queue_with_a_consumer_from_its_first_version_that_is_handed_on() {
    let sql = empty();
    let directory = Directory::new(&sql);
    let made = directory
        .create_channel("orders.eu/1", "q1", "c1", 100)
        .expect("made");
    let consumer = ConsumerEntry {
        consumer_id: "c1".into(),
        created_ms: 100,
        consumer: Consumer::default(),
    };
    assert_eq!(made.consumer, Some(consumer));
    assert_eq!(made.settings, Settings::default());
    assert_eq!(
        directory.pending(10),
        Ok(vec![Pending {
            queue_id: "q1".into(),
            version: made.version,
            task: Task::Configure(made.config()),
        }])
    );
    directory.pushed("q1", made.version).expect("pushed");
    assert_eq!(directory.find("orders.eu/1"), Ok(Some(made)));
    assert_eq!(
        directory.create_channel("orders.eu/1", "q2", "c2", 200),
        Err(CreateError::NameTaken)
    );
}

#[test]
fn a_name_is_given_once() {
    let sql = empty();
    let directory = Directory::new(&sql);
    live(&directory, "q1", "orders");
    live(&directory, "q2", "invoices");
    assert_eq!(
        directory.create("orders", Settings::default(), "q3", 200),
        Err(CreateError::NameTaken)
    );
    assert_eq!(
        directory.update("q2", "orders", Settings::default(), 200),
        Err(UpdateError::NameTaken)
    );
}

#[test]
fn a_queue_does_not_become_its_own_dead_letter_queue_by_a_new_name() {
    let sql = empty();
    let directory = Directory::new(&sql);
    live(&directory, "q1", "orders");
    let consumer = Consumer {
        dead_letter_queue: Some("dead".into()),
        ..Consumer::default()
    };
    directory
        .add_consumer("q1", "c1", consumer, 150)
        .expect("added");
    assert_eq!(
        directory.update("q1", "dead", Settings::default(), 200),
        Err(UpdateError::OwnDeadLetterQueue)
    );
    let renamed = directory.update("q1", "alive", Settings::default(), 200);
    assert_eq!(renamed.map(|entry| entry.name), Ok("alive".into()));
}

#[test]
fn creating_goes_on_where_it_was_broken_off() {
    let sql = empty();
    let directory = Directory::new(&sql);
    directory
        .create("orders", Settings::default(), "q1", 100)
        .expect("created");
    let settings = Settings {
        delivery_delay_s: 7,
        ..Settings::default()
    };
    let again = directory
        .create("orders", settings.clone(), "q2", 200)
        .expect("resumed");
    assert_eq!((again.queue_id.as_str(), again.version), ("q1", 2));
    assert_eq!(again.settings, settings);
    // The first attempt's push arrives late: the queue exists, its configuration is still to come.
    directory.pushed("q1", 1).expect("pushed");
    assert_eq!(directory.pending(10).expect("a list").len(), 1);
    assert_eq!(directory.get("q1"), Ok(Some(again)));
}

#[test]
fn a_change_is_pending_until_its_own_version_is_pushed() {
    let sql = empty();
    let directory = Directory::new(&sql);
    live(&directory, "q1", "orders");
    let settings = Settings {
        delivery_paused: true,
        ..Settings::default()
    };
    let entry = directory
        .update("q1", "renamed", settings.clone(), 300)
        .expect("updated");
    assert_eq!(entry.version, 2);
    assert_eq!((entry.created_ms, entry.modified_ms), (100, 300));
    let entry = directory
        .add_consumer("q1", "c1", consumer(7), 400)
        .expect("added");
    directory.pushed("q1", 2).expect("pushed");
    let config = Config {
        queue_name: "renamed".into(),
        settings,
        consumer: Some(consumer(7)),
    };
    assert_eq!(
        directory.pending(10),
        Ok(vec![Pending {
            queue_id: "q1".into(),
            version: 3,
            task: Task::Configure(config),
        }])
    );
    directory.pushed("q1", entry.version).expect("pushed");
    assert_eq!(directory.pending(10), Ok(vec![]));
    assert_eq!(directory.find("orders"), Ok(None));
    assert_eq!(
        directory.update("q9", "x", Settings::default(), 1),
        Err(UpdateError::QueueNotFound)
    );
}

#[test]
fn a_queue_has_at_most_one_consumer() {
    let sql = empty();
    let directory = Directory::new(&sql);
    live(&directory, "q1", "orders");
    let consumer_of = |entry: Entry| entry.consumer.expect("a consumer");
    let entry = |consumer_id: &str, batch_size| ConsumerEntry {
        consumer_id: consumer_id.into(),
        created_ms: 400,
        consumer: consumer(batch_size),
    };
    let added = directory.add_consumer("q1", "c1", consumer(7), 400);
    assert_eq!(added.map(consumer_of), Ok(entry("c1", 7)));
    assert_eq!(
        directory.add_consumer("q1", "c2", consumer(7), 500),
        Err(AddConsumerError::ConsumerExists)
    );
    assert_eq!(
        directory.put_consumer("q1", "c2", consumer(7), 500),
        Err(AddConsumerError::ConsumerExists)
    );
    let replaced = directory.put_consumer("q1", "c1", consumer(8), 500);
    assert_eq!(replaced.map(consumer_of), Ok(entry("c1", 8)));
    assert_eq!(
        directory.remove_consumer("q1", "c2", 600),
        Err(ConsumerError::ConsumerNotFound)
    );
    let removed = directory.remove_consumer("q1", "c1", 600);
    assert_eq!(removed.map(|entry| entry.consumer), Ok(None));
    assert_eq!(
        directory.remove_consumer("q1", "c1", 600),
        Err(ConsumerError::ConsumerNotFound)
    );
    let put = directory.put_consumer("q1", "c3", consumer(9), 400);
    assert_eq!(put.map(consumer_of), Ok(entry("c3", 9)));
    assert_eq!(
        directory.add_consumer("q9", "c1", consumer(7), 1),
        Err(AddConsumerError::QueueNotFound)
    );
    assert_eq!(
        directory.remove_consumer("q9", "c1", 1),
        Err(ConsumerError::QueueNotFound)
    );
}

#[test]
fn a_deleted_queue_is_gone_at_once_and_forgotten_once_its_object_is_empty() {
    let sql = empty();
    let directory = Directory::new(&sql);
    live(&directory, "q1", "orders");
    assert_eq!(directory.begin_delete("q1", 200), Ok(true));
    assert_eq!(directory.begin_delete("q1", 200), Ok(false));
    assert_eq!(directory.get("q1"), Ok(None));
    assert_eq!(directory.list(0, 20, &[]).expect("a list").entries, []);
    // The name is free while the old queue's object still empties itself.
    live(&directory, "q2", "orders");
    directory
        .pushed("q1", 1)
        .expect("a late push changes nothing");
    assert_eq!(
        directory.pending(10),
        Ok(vec![Pending {
            queue_id: "q1".into(),
            version: 2,
            task: Task::Delete,
        }])
    );
    directory.finish_delete("q1").expect("finished");
    directory.finish_delete("q2").expect("nothing to finish");
    assert_eq!(directory.pending(10), Ok(vec![]));
    assert!(directory.get("q2").expect("a look").is_some());
}

#[test]
fn lists_come_in_the_order_of_creation_page_by_page_and_by_exact_name() {
    let sql = empty();
    let directory = Directory::new(&sql);
    for (id, name) in [("q1", "b"), ("q2", "a"), ("q3", "c"), ("q4", "a-b")] {
        live(&directory, id, name);
    }
    type Names = &'static [&'static str];
    let cases: [(u64, u64, Names, Names, u64); 6] = [
        (0, 20, &[], &["b", "a", "c", "a-b"], 4),
        (0, 2, &[], &["b", "a"], 4),
        (3, 3, &[], &["a-b"], 4),
        (4, 2, &[], &[], 4),
        (0, 20, &["a"], &["a"], 1),
        (0, 20, &["c", "none", "b"], &["b", "c"], 2),
    ];
    for (offset, limit, wanted, expected, total_count) in cases {
        let wanted: Vec<String> = wanted.iter().map(|name| name.to_string()).collect();
        let list = directory.list(offset, limit, &wanted).expect("a list");
        assert_eq!(names(&list), expected, "{offset} {limit} {wanted:?}");
        assert_eq!(list.total_count, total_count);
    }
}

#[test]
fn an_account_has_at_most_ten_thousand_queues() {
    let sql = empty();
    sql.execute(
        "INSERT INTO queue
            (queue_id, name, state, pending, version, created_ms, modified_ms, settings)
         WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 9999)
         SELECT 'q' || n, 'name-' || n, 'live', 0, 1, 1, 1, '{}' FROM number",
        vec![],
    )
    .expect("inserted");
    let directory = Directory::new(&sql);
    let create = |name: &str, id: &str| directory.create(name, Settings::default(), id, 1);
    assert!(create("last", "x1").is_ok());
    assert_eq!(create("one-more", "x2"), Err(CreateError::Full));
}
