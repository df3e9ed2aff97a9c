//! The engine's promises one by one, over a native SQLite: small histories with expected values
//! written out. The simulation checks the same promises over long random ones.

use pullq::queue;
use pullq::queue::ledger::Counters;
use pullq::queue::{
    Config, Consumer, Extension, NewMessage, PullError, PullRequest, Queue, RedriveError,
    RedriveRequest, RedriveState, Retry, SendRequest, Settings, Settlement,
};

mod sqlite;
use sqlite::NativeSql;

const START_MS: u64 = 1_700_000_000_000;
const S: u64 = 1_000;

/// A queue on its database, with a clock in its hand.
struct Desk {
    sql: NativeSql,
    queue: Queue,
    now_ms: u64,
    sends: u8,
}

impl Desk {
    fn new() -> Desk {
        Desk::with(|_| ())
    }

    fn with(change: impl FnOnce(&mut Config)) -> Desk {
        let sql = NativeSql::in_memory(&[]);
        let mut config = Config {
            queue_name: "orders".into(),
            settings: Settings::default(),
            consumer: Some(Consumer::default()),
        };
        change(&mut config);
        let queue = Queue::create(&sql, START_MS, config, &[7; 32]).expect("a new database");
        Desk {
            sql,
            queue,
            now_ms: START_MS,
            sends: 0,
        }
    }

    fn configure(&mut self, change: impl FnOnce(&mut Config)) {
        let mut config = self.queue.config().clone();
        change(&mut config);
        self.queue.configure(&self.sql, config).expect("stored");
    }

    fn counters(&self) -> Counters {
        let metrics = self.queue.metrics(&self.sql).expect("readable");
        metrics.counters
    }

    fn wait(&mut self, ms: u64) {
        self.now_ms += ms;
    }

    /// Drops all memory and opens the queue from its tables.
    fn restart(&mut self) {
        self.queue = Queue::open(&self.sql, self.now_ms)
            .expect("readable tables")
            .expect("a queue");
    }

    fn send(&mut self, bodies: &[&str]) {
        self.send_delayed(bodies, None);
    }

    fn send_delayed(&mut self, bodies: &[&str], delay_s: Option<u32>) {
        self.send_request(SendRequest {
            messages: bodies.iter().map(|body| message(body, delay_s)).collect(),
            idempotency_key: None,
        });
    }

    fn send_request(&mut self, request: SendRequest) -> queue::SendReceipt {
        self.sends += 1;
        self.queue
            .send(&self.sql, self.now_ms, &[self.sends; 16], request)
            .expect("stored")
    }

    fn try_pull(
        &mut self,
        batch_size: u32,
        visibility_timeout_ms: u64,
    ) -> Result<Vec<Got>, PullError> {
        let request = PullRequest {
            batch_size: Some(batch_size),
            visibility_timeout_ms: Some(visibility_timeout_ms),
        };
        let pulled = self.queue.pull(&self.sql, self.now_ms, request)?;
        Ok(pulled.deliveries.into_iter().map(Got::from).collect())
    }

    /// Pulls with a visibility timeout of 30 s.
    fn pull(&mut self, batch_size: u32) -> Vec<Got> {
        self.try_pull(batch_size, 30 * S).expect("not refused")
    }

    /// Bodies and attempts of a pull.
    fn pulled(&mut self, batch_size: u32) -> Vec<(String, u32)> {
        let got = self.pull(batch_size);
        got.into_iter()
            .map(|got| (got.body, got.attempts))
            .collect()
    }

    fn ack(&mut self, messages: &[&Got]) -> Settlement {
        self.settle(messages, &[])
    }

    fn settle(&mut self, acks: &[&Got], retries: &[(&Got, Option<u32>)]) -> Settlement {
        let acks: Vec<String> = acks.iter().map(|got| got.lease_id.clone()).collect();
        let retries: Vec<Retry> = retries
            .iter()
            .map(|(got, delay_s)| Retry {
                lease_id: got.lease_id.clone(),
                delay_s: *delay_s,
            })
            .collect();
        self.queue
            .settle(&self.sql, self.now_ms, &acks, &retries)
            .expect("stored")
    }

    fn extend(&mut self, got: &Got, visibility_timeout_ms: u64) -> Settlement {
        let extension = Extension {
            lease_id: got.lease_id.clone(),
            visibility_timeout_ms,
        };
        self.queue
            .extend(&self.sql, self.now_ms, &[extension])
            .expect("stored")
    }

    fn rows(&self, table: &str) -> u64 {
        self.sql
            .connection()
            .query_row(&format!("SELECT count(*) FROM {table}"), [], |row| {
                row.get(0)
            })
            .expect("a table")
    }
}

#[derive(Debug, Clone)]
struct Got {
    body: String,
    attempts: u32,
    lease_id: String,
    death: Option<queue::Death>,
}

impl From<queue::Delivery> for Got {
    fn from(delivery: queue::Delivery) -> Got {
        Got {
            body: String::from_utf8(delivery.content).expect("UTF-8"),
            attempts: delivery.attempts,
            lease_id: delivery.lease_id,
            death: delivery.death,
        }
    }
}

fn message(body: &str, delay_s: Option<u32>) -> NewMessage {
    NewMessage {
        form: 0,
        content: body.as_bytes().to_vec(),
        size: body.len() as u64,
        delay_s,
    }
}

fn first(body: &str) -> (String, u32) {
    (body.into(), 1)
}

#[test]
fn first_deliveries_follow_the_order_of_the_sends() {
    let mut desk = Desk::new();
    desk.send(&["a", "b", "c"]);
    desk.send(&["d"]);
    assert_eq!(desk.pulled(2), [first("a"), first("b")]);
    desk.send(&["e"]);
    assert_eq!(desk.pulled(10), [first("c"), first("d"), first("e")]);
    assert_eq!(desk.pulled(10), []);
}

#[test]
fn nobody_else_gets_a_message_while_its_lease_runs_and_anybody_after_it() {
    let mut desk = Desk::new();
    desk.send(&["a"]);
    desk.pull(1);
    desk.wait(30 * S - 1);
    assert_eq!(desk.pulled(1), []);
    desk.wait(1);
    assert_eq!(desk.pulled(1), [("a".into(), 2)]);
}

#[test]
fn everything_survives_a_restart() {
    let mut desk = Desk::new();
    desk.send(&["a", "b", "c"]);
    desk.send_delayed(&["later"], Some(60));
    let got = desk.pull(2);
    desk.ack(&[&got[0]]);
    desk.restart();
    assert_eq!(desk.pulled(5), [first("c")]);
    let settled = desk.settle(&[], &[(&got[1], None)]);
    assert_eq!((settled.retried, settled.warnings.len()), (1, 0));
    desk.restart();
    assert_eq!(desk.pulled(5), [("b".into(), 2)]);
    desk.wait(60 * S);
    desk.restart();
    assert_eq!(
        desk.queue
            .metrics(&desk.sql)
            .expect("readable")
            .backlog_count,
        3
    );
    assert_eq!(
        desk.pulled(5),
        [("c".into(), 2), ("b".into(), 3), ("later".into(), 1)]
    );
}

#[test]
fn an_acknowledged_message_never_comes_back_and_leaves_no_row() {
    let mut desk = Desk::new();
    desk.send(&["a", "b"]);
    let got = desk.pull(2);
    assert_eq!(desk.ack(&[&got[0]]).acknowledged, 1);
    assert_eq!((desk.rows("block"), desk.rows("progress")), (1, 1));
    assert_eq!(desk.ack(&[&got[1]]).acknowledged, 1);
    assert_eq!((desk.rows("block"), desk.rows("progress")), (0, 0));
    desk.wait(3600 * S);
    assert_eq!(desk.pulled(5), []);
    desk.restart();
    assert_eq!(desk.pulled(5), []);
    assert_eq!(desk.queue.messages_out(), 0);
    desk.send(&["c"]);
    assert_eq!(desk.pulled(5), [first("c")]);
}

#[test]
fn acknowledging_is_permissive_and_idempotent() {
    let mut desk = Desk::new();
    desk.send(&["a"]);
    let early = desk.pull(1);
    desk.wait(31 * S);
    let late = desk.pull(1);
    // The first consumer comes late, while the second has the message.
    let settled = desk.ack(&[&early[0]]);
    assert_eq!((settled.acknowledged, settled.warnings), (1, vec![]));
    let settled = desk.ack(&[&late[0], &late[0]]);
    assert_eq!((settled.acknowledged, settled.warnings), (2, vec![]));
    assert_eq!(desk.counters().acknowledged, 1);
}

#[test]
fn a_late_retry_changes_nothing_and_says_so() {
    let mut desk = Desk::new();
    desk.send(&["a"]);
    let early = desk.pull(1);
    desk.wait(31 * S);
    desk.pull(1);
    let settled = desk.settle(&[], &[(&early[0], Some(0))]);
    assert_eq!((settled.retried, settled.warnings.len()), (0, 1));
    assert_eq!(desk.pulled(1), []);
    desk.wait(30 * S);
    assert_eq!(desk.pulled(1), [("a".into(), 3)]);
}

#[test]
fn a_retry_is_delivered_after_its_own_delay_then_the_consumers_and_0_overrides_it() {
    let mut desk = Desk::with(|config| {
        config.consumer = Some(Consumer {
            retry_delay_s: 10,
            ..Consumer::default()
        });
    });
    desk.send(&["default", "own", "none"]);
    let got = desk.pull(3);
    let settled = desk.settle(
        &[],
        &[(&got[0], None), (&got[1], Some(5)), (&got[2], Some(0))],
    );
    assert_eq!(settled.retried, 3);
    assert_eq!(desk.pulled(5), [("none".into(), 2)]);
    desk.wait(5 * S);
    assert_eq!(desk.pulled(5), [("own".into(), 2)]);
    desk.wait(5 * S);
    assert_eq!(desk.pulled(5), [("default".into(), 2)]);
}

#[test]
fn a_lease_id_of_another_queue_is_unknown_here() {
    let mut desk = Desk::new();
    let sql = NativeSql::in_memory(&[]);
    let mut other =
        Queue::create(&sql, START_MS, desk.queue.config().clone(), &[8; 32]).expect("new");
    desk.send(&["a"]);
    let got = desk.pull(1);
    let settled = other
        .settle(
            &sql,
            START_MS,
            &[got[0].lease_id.clone(), "made up".into()],
            &[],
        )
        .expect("no storage error");
    assert_eq!((settled.acknowledged, settled.warnings.len()), (0, 2));
}

#[test]
fn the_same_lease_in_acks_and_retries_is_acknowledged() {
    let mut desk = Desk::new();
    desk.send(&["a"]);
    let got = desk.pull(1);
    let settled = desk.settle(&[&got[0]], &[(&got[0], None)]);
    assert_eq!(
        (
            settled.acknowledged,
            settled.retried,
            settled.warnings.len()
        ),
        (1, 0, 1)
    );
    assert_eq!(desk.queue.backlog_count(), 0);
}

#[test]
fn nothing_is_delivered_before_its_delay_is_over() {
    let mut desk = Desk::with(|config| config.settings.delivery_delay_s = 5);
    desk.send_delayed(&["slow"], Some(20));
    desk.send_delayed(&["default"], None);
    desk.send_delayed(&["now"], Some(0));
    desk.send_delayed(&["slow too"], Some(20));
    assert_eq!(desk.pulled(5), [first("now")]);
    desk.wait(5 * S - 1);
    assert_eq!(desk.pulled(5), []);
    desk.wait(1);
    assert_eq!(desk.pulled(5), [first("default")]);
    desk.restart();
    desk.wait(15 * S);
    assert_eq!(desk.pulled(1), [first("slow")]);
    assert_eq!(desk.pulled(1), [first("slow too")]);
}

#[test]
fn deliveries_end_with_max_retries_and_the_message_is_dropped_and_counted() {
    let mut desk = Desk::with(|config| {
        config.consumer = Some(Consumer {
            max_retries: 2,
            ..Consumer::default()
        });
    });
    desk.send(&["a"]);
    for attempts in 1..=3 {
        assert_eq!(desk.pulled(1), [("a".into(), attempts)]);
        desk.wait(30 * S);
    }
    assert_eq!(desk.pulled(1), []);
    let metrics = desk.queue.metrics(&desk.sql).expect("readable");
    assert_eq!((metrics.backlog_count, metrics.counters.dropped), (0, 1));
    assert_eq!(desk.rows("block"), 0);
}

#[test]
fn a_dead_letter_moves_exactly_once_whatever_half_is_repeated() {
    let mut desk = Desk::with(|config| {
        config.consumer = Some(Consumer {
            max_retries: 0,
            dead_letter_queue: Some("graveyard".into()),
            ..Consumer::default()
        });
    });
    let mut graveyard = Desk::new();
    desk.send(&["a"]);
    let got = desk.pull(1);
    desk.settle(&[], &[(&got[0], None)]);
    desk.wait(60 * S);
    for _ in 0..2 {
        let transfer = desk
            .queue
            .next_transfer(&desk.sql)
            .expect("readable")
            .expect("a move");
        assert_eq!(transfer.destination, "graveyard");
        graveyard.now_ms = desk.now_ms;
        graveyard
            .queue
            .receive(
                &graveyard.sql,
                desk.now_ms,
                "source",
                transfer.number,
                &transfer.messages,
            )
            .expect("stored");
        // A crash before the sender hears of it.
        desk.restart();
    }
    let number = desk
        .queue
        .next_transfer(&desk.sql)
        .expect("readable")
        .expect("a move")
        .number;
    desk.queue
        .transferred(&desk.sql, desk.now_ms, number)
        .expect("stored");
    desk.queue
        .transferred(&desk.sql, desk.now_ms, number)
        .expect("stored");
    assert_eq!(desk.queue.next_transfer(&desk.sql), Ok(None));
    assert_eq!(desk.counters().dead_lettered, 1);
    let dead = graveyard.pull(5);
    assert_eq!(dead.len(), 1);
    assert_eq!((dead[0].body.as_str(), dead[0].attempts), ("a", 1));
    assert_eq!(
        dead[0].death,
        Some(queue::Death {
            queue_name: "orders".into(),
            first_sent_ms: START_MS,
            attempts: 1,
        })
    );
}

#[test]
fn messages_past_their_retention_are_gone_and_counted() {
    let mut desk = Desk::with(|config| config.settings.retention_s = 60);
    desk.send(&["a", "b"]);
    desk.send_delayed(&["delayed"], Some(30));
    let got = desk.pull(1);
    desk.ack(&[&got[0]]);
    desk.wait(59 * S);
    desk.send(&["c"]);
    desk.wait(S);
    assert_eq!(desk.pulled(5), [first("delayed"), first("c")]);
    let metrics = desk.queue.metrics(&desk.sql).expect("readable");
    assert_eq!((metrics.backlog_count, metrics.counters.expired), (2, 1));
}

#[test]
fn a_paused_queue_delivers_nothing_takes_sends_and_lets_leases_be_settled() {
    let mut desk = Desk::new();
    desk.send(&["a"]);
    let got = desk.pull(1);
    desk.configure(|config| config.settings.delivery_paused = true);
    desk.send(&["b"]);
    assert_eq!(desk.try_pull(1, 1).map(|_| ()), Err(PullError::Paused));
    assert_eq!(desk.ack(&[&got[0]]).acknowledged, 1);
    desk.configure(|config| config.settings.delivery_paused = false);
    assert_eq!(desk.pulled(5), [first("b")]);
}

#[test]
fn a_queue_without_a_consumer_refuses_pulls() {
    let mut desk = Desk::with(|config| config.consumer = None);
    desk.send(&["a"]);
    assert_eq!(desk.try_pull(1, 1).map(|_| ()), Err(PullError::NoConsumer));
}

#[test]
fn a_lease_is_extended_while_it_runs_up_to_12_hours_in_all() {
    let mut desk = Desk::new();
    desk.send(&["a"]);
    let got = desk.pull(1);
    desk.wait(29 * S);
    assert_eq!(desk.extend(&got[0], 60 * S).extended, 1);
    desk.wait(59 * S);
    assert_eq!(desk.pulled(1), []);
    assert_eq!(desk.extend(&got[0], 12 * 3600 * S).warnings.len(), 1);
    desk.wait(S);
    assert_eq!(desk.extend(&got[0], S).warnings.len(), 1);
    assert_eq!(desk.pulled(1), [("a".into(), 2)]);
}

#[test]
fn an_idempotency_key_stores_once_within_5_minutes() {
    let mut desk = Desk::new();
    let request = SendRequest {
        messages: vec![message("a", None)],
        idempotency_key: Some("key".into()),
    };
    let sent = desk.send_request(request.clone());
    desk.wait(299 * S);
    let again = desk.send_request(request.clone());
    assert!(!sent.repeated && again.repeated);
    assert_eq!((sent.ids, sent.sent_ms), (again.ids, again.sent_ms));
    desk.wait(S);
    assert!(!desk.send_request(request).repeated);
    assert_eq!(desk.queue.backlog_count(), 2);
    desk.wait(600 * S);
    desk.queue.tick(&desk.sql, desk.now_ms).expect("stored");
    assert_eq!(desk.rows("recent_key"), 0);
}

#[test]
fn a_peek_changes_nothing_and_its_refs_purge_single_messages() {
    let mut desk = Desk::new();
    desk.send(&["a", "b", "c"]);
    desk.send_delayed(&["later"], Some(5));
    desk.pull(1);
    let peeked = desk
        .queue
        .peek(&desk.sql, desk.now_ms, 10)
        .expect("readable");
    let bodies: Vec<&[u8]> = peeked
        .iter()
        .map(|message| message.content.as_slice())
        .collect();
    assert_eq!(bodies, [b"b", b"c"]);
    let refs = vec![peeked[0].reference.clone(), "made up".into()];
    let outcome = desk
        .queue
        .purge_refs(&desk.sql, desk.now_ms, &refs)
        .expect("stored");
    assert_eq!((outcome.purged, outcome.warnings.len()), (1, 1));
    let outcome = desk
        .queue
        .purge_refs(&desk.sql, desk.now_ms, &refs)
        .expect("stored");
    assert_eq!((outcome.purged, outcome.warnings.len()), (0, 2));
    assert_eq!(desk.pulled(5), [first("c")]);
}

#[test]
fn a_purge_removes_what_is_there_and_nothing_later() {
    let mut desk = Desk::new();
    desk.send(&["a", "b"]);
    desk.send_delayed(&["later"], Some(5));
    let got = desk.pull(1);
    assert_eq!(desk.queue.purge(&desk.sql, desk.now_ms), Ok(3));
    assert_eq!(desk.ack(&[&got[0]]).acknowledged, 1);
    desk.send(&["c"]);
    desk.wait(60 * S);
    assert_eq!(desk.pulled(5), [first("c")]);
    desk.restart();
    assert_eq!(desk.queue.backlog_count(), 1);
    assert_eq!(
        desk.queue
            .metrics(&desk.sql)
            .expect("readable")
            .backlog_bytes,
        1
    );
}

#[test]
fn a_hold_row_is_reused_and_spare_ones_are_swept() {
    let mut desk = Desk::new();
    for _ in 0..10 {
        desk.send(&["a"]);
        let got = desk.pull(1);
        desk.ack(&[&got[0]]);
    }
    assert_eq!(desk.rows("hold"), 1);
    desk.send(&["a"; 100]);
    let mut all = Vec::new();
    for _ in 0..100 {
        all.extend(desk.pull(1));
    }
    assert_eq!(desk.rows("hold"), 100);
    desk.ack(&all.iter().collect::<Vec<_>>());
    desk.queue.tick(&desk.sql, desk.now_ms).expect("stored");
    assert_eq!(desk.rows("hold"), 64);
    desk.restart();
    assert_eq!(desk.counters().delivered, 110);
}

#[test]
fn a_big_batch_goes_into_several_blocks_and_comes_back_whole() {
    let mut desk = Desk::new();
    let big = "x".repeat(128_000);
    let bodies: Vec<&str> = (0..20).map(|_| big.as_str()).collect();
    desk.send(&bodies);
    assert_eq!(desk.rows("block"), 3);
    assert_eq!(desk.pull(100).len(), 20);
}

#[test]
fn the_next_event_is_known() {
    let mut desk = Desk::with(|config| config.settings.retention_s = 60);
    assert_eq!(desk.queue.next_event_in_ms(), None);
    desk.send(&["a"]);
    assert_eq!(desk.queue.next_event_in_ms(), Some(60 * S));
    desk.pull(1);
    assert_eq!(desk.queue.next_event_in_ms(), Some(30 * S));
    desk.restart();
    assert_eq!(desk.queue.next_event_in_ms(), Some(30 * S));
    desk.wait(30 * S);
    desk.queue.tick(&desk.sql, desk.now_ms).expect("stored");
    assert_eq!(desk.queue.next_event_in_ms(), Some(30 * S));
    desk.wait(30 * S);
    desk.queue.tick(&desk.sql, desk.now_ms).expect("stored");
    assert_eq!(desk.queue.next_event_in_ms(), None);
}

#[test]
fn a_drain_acknowledges_all_that_nobody_has() {
    let mut desk = Desk::new();
    desk.send(&["leased", "retried later", "acknowledged", "waiting"]);
    desk.send(&["waiting too"]);
    desk.send_delayed(&["delayed"], Some(60));
    let got = desk.pull(3);
    desk.settle(&[&got[2]], &[(&got[1], Some(10))]);
    assert_eq!(desk.queue.drain(&desk.sql, desk.now_ms), Ok(4));
    assert_eq!(desk.queue.drain(&desk.sql, desk.now_ms), Ok(0));
    let metrics = desk.queue.metrics(&desk.sql).expect("readable");
    assert_eq!((metrics.backlog_count, metrics.backlog_bytes), (1, 6));
    desk.restart();
    desk.wait(60 * S);
    assert_eq!(desk.pulled(5), [("leased".into(), 2)]);
    let metrics = desk.queue.metrics(&desk.sql).expect("readable");
    assert_eq!(metrics.counters.acknowledged, 5);
}

#[test]
fn a_delivery_that_never_arrived_is_taken_back_and_does_not_count() {
    let mut desk = Desk::new();
    desk.send(&["a", "b"]);
    let got = desk.pull(2);
    let lease_ids = [got[0].lease_id.clone()];
    desk.queue
        .take_back(&desk.sql, desk.now_ms, &lease_ids)
        .expect("stored");
    desk.queue
        .take_back(&desk.sql, desk.now_ms, &lease_ids)
        .expect("stored");
    desk.restart();
    assert_eq!(desk.pulled(5), [first("a")]);
    assert_eq!(desk.counters().delivered, 2);
}

#[test]
fn of_big_messages_that_came_back_the_longest_ago_is_first() {
    let mut desk = Desk::with(|config| {
        config.consumer = Some(Consumer {
            max_retries: 100,
            ..Consumer::default()
        });
    });
    // 8 MB is what one pull brings: some 26 of these.
    let bodies: Vec<String> = (0..40)
        .map(|n| format!("{n:02}{}", "x".repeat(300_000)))
        .collect();
    for body in &bodies {
        desk.send(&[body]);
    }
    let mut all = desk.pull(100);
    while all.len() < 40 {
        all.extend(desk.pull(100));
    }
    for got in all.iter().rev() {
        desk.settle(&[], &[(got, Some(0))]);
        desk.wait(1);
    }
    let first: Vec<String> = desk
        .pull(100)
        .iter()
        .take(3)
        .map(|got| got.body[..2].into())
        .collect();
    assert_eq!(first, ["39", "38", "37"]);
}

#[test]
fn dead_letters_go_back_to_where_they_died_and_what_never_died_stays() {
    let mut dead = Desk::new();
    dead.send(&["stays"]);
    dead.wait(S);
    let mut source = Desk::with(|config| {
        config.consumer = Some(Consumer {
            max_retries: 0,
            dead_letter_queue: Some("orders".into()),
            ..Consumer::default()
        });
        config.queue_name = "source".into();
    });
    source.send(&["a", "b"]);
    source.try_pull(2, 1).expect("messages");
    source.wait(S);
    source
        .queue
        .tick(&source.sql, source.now_ms)
        .expect("swept");
    move_all(&mut source, "source", &mut dead);
    dead.send(&["never died either"]);

    let begun = dead
        .queue
        .start_redrive(&dead.sql, dead.now_ms, RedriveRequest::default())
        .expect("begun");
    assert_eq!((begun.state, begun.to_move), (RedriveState::Running, 4));
    assert_eq!(
        dead.queue
            .start_redrive(&dead.sql, dead.now_ms, RedriveRequest::default()),
        Err(RedriveError::Running)
    );
    dead.queue.tick(&dead.sql, dead.now_ms).expect("taken");
    dead.restart();
    move_all(&mut dead, "orders", &mut source);
    dead.queue.tick(&dead.sql, dead.now_ms).expect("ended");
    let done = dead.queue.redrive().expect("a redrive");
    assert_eq!(
        (done.state, done.moved, done.skipped, done.ended_ms),
        (RedriveState::Completed, 2, 2, Some(dead.now_ms))
    );
    let again = source.pull(5);
    let bodies: Vec<&str> = again.iter().map(|got| got.body.as_str()).collect();
    assert_eq!(bodies, ["a", "b"]);
    // They begin anew.
    assert!(again
        .iter()
        .all(|got| got.attempts == 1 && got.death.is_none()));
    assert_eq!(dead.pulled(5), [first("stays"), first("never died either")]);
    let counters = dead.counters();
    assert_eq!((counters.redriven, counters.dead_lettered), (2, 0));
}

#[test]
fn a_redrive_keeps_its_rate_and_stops_when_it_is_told_to() {
    let mut desk = Desk::new();
    let mut other = Desk::with(|config| config.queue_name = "other".into());
    for _ in 0..30 {
        desk.send(&["x"]);
    }
    let request = RedriveRequest {
        destination: Some("other".into()),
        messages_per_second: Some(10),
        refs: None,
    };
    desk.queue
        .start_redrive(&desk.sql, desk.now_ms, request)
        .expect("begun");
    for _ in 0..5 {
        desk.queue.tick(&desk.sql, desk.now_ms).expect("taken");
        move_all(&mut desk, "orders", &mut other);
        // Not yet: two a fifth of a second.
        desk.wait(199);
        desk.queue.tick(&desk.sql, desk.now_ms).expect("waits");
        assert_eq!(desk.queue.next_transfer(&desk.sql), Ok(None));
        assert_eq!(desk.queue.next_event_in_ms(), Some(1));
        desk.wait(1);
    }
    let stopped = desk
        .queue
        .stop_redrive(&desk.sql, desk.now_ms)
        .expect("stored")
        .expect("a redrive");
    assert_eq!((stopped.state, stopped.moved), (RedriveState::Stopped, 10));
    desk.wait(S);
    desk.queue.tick(&desk.sql, desk.now_ms).expect("nothing");
    assert_eq!(desk.queue.next_transfer(&desk.sql), Ok(None));
    assert_eq!(
        (desk.queue.backlog_count(), other.queue.backlog_count()),
        (20, 10)
    );
}

#[test]
fn only_the_chosen_messages_are_redriven_wherever_they_stand() {
    let mut desk = Desk::new();
    let mut other = Desk::with(|config| config.queue_name = "other".into());
    desk.send(&["a", "b", "c", "d"]);
    let peeked = desk
        .queue
        .peek(&desk.sql, desk.now_ms, 4)
        .expect("readable");
    let leased = desk.pull(1);
    let refs = [&peeked[0], &peeked[2]].map(|message| message.reference.clone());
    let request = RedriveRequest {
        destination: Some("other".into()),
        messages_per_second: None,
        refs: Some(refs.into_iter().chain(["no ref".into()]).collect()),
    };
    desk.queue
        .start_redrive(&desk.sql, desk.now_ms, request)
        .expect("begun");
    desk.queue.tick(&desk.sql, desk.now_ms).expect("taken");
    // What moves is not delivered, and the one that is out stays its consumer's.
    assert_eq!(desk.pulled(5), [first("b"), first("d")]);
    move_all(&mut desk, "orders", &mut other);
    desk.queue.tick(&desk.sql, desk.now_ms).expect("ended");
    let done = desk.queue.redrive().expect("a redrive");
    assert_eq!(
        (done.state, done.to_move, done.moved, done.skipped),
        (RedriveState::Completed, 2, 1, 2)
    );
    assert_eq!(desk.ack(&[&leased[0]]).acknowledged, 1);
    assert_eq!(other.pulled(5), [first("c")]);
}

#[test]
fn a_queue_can_not_be_redriven_to_itself() {
    let mut desk = Desk::new();
    let request = RedriveRequest {
        destination: Some("orders".into()),
        ..RedriveRequest::default()
    };
    assert_eq!(
        desk.queue.start_redrive(&desk.sql, desk.now_ms, request),
        Err(RedriveError::OwnDestination)
    );
    assert_eq!(desk.queue.redrive(), None);
}

#[test]
fn the_last_hour_is_kept_minute_by_minute_across_restarts() {
    let mut desk = Desk::new();
    let minute = |at_ms: u64| at_ms - at_ms % 60_000;
    let mut expected = vec![];
    for count in 1..=3u64 {
        desk.send(&["a", "b"]);
        expected.push((minute(desk.now_ms), 2 * count));
        desk.restart();
        desk.wait(60 * S);
    }
    let shown = |desk: &mut Desk| -> Vec<(u64, u64)> {
        let history = desk.queue.history(&desk.sql, desk.now_ms);
        let minutes = history.expect("readable").into_iter();
        minutes
            .map(|minute| (minute.began_ms, minute.counters.sent))
            .collect()
    };
    // The first is what was before the first send, in the same minute.
    expected.push((minute(desk.now_ms), 6));
    assert_eq!(shown(&mut desk), expected);
    // Two hours later one older minute is left to compare with.
    desk.wait(2 * 60 * 60 * S);
    let last = expected[2];
    assert_eq!(shown(&mut desk), [last, (minute(desk.now_ms), 6)]);
    desk.send(&["c"]);
    assert_eq!(shown(&mut desk), [last, (minute(desk.now_ms), 7)]);
}

/// Carries out every move of `from`, which all go to `to`.
fn move_all(from: &mut Desk, source: &str, to: &mut Desk) {
    while let Some(transfer) = from.queue.next_transfer(&from.sql).expect("readable") {
        assert_eq!(transfer.destination, to.queue.config().queue_name);
        to.queue
            .receive(
                &to.sql,
                from.now_ms,
                source,
                transfer.number,
                &transfer.messages,
            )
            .expect("stored");
        from.queue
            .transferred(&from.sql, from.now_ms, transfer.number)
            .expect("stored");
    }
}

#[test]
fn states_follow_the_clock_though_nobody_did_anything() {
    let mut desk = Desk::new();
    desk.send(&["a", "b"]);
    desk.send_delayed(&["c"], Some(30));
    desk.pull(1);
    let states = |desk: &mut Desk| {
        let states = desk.queue.states(&desk.sql, desk.now_ms).expect("readable");
        (states.waiting, states.out, states.delayed)
    };
    assert_eq!(states(&mut desk), (1, 1, 1));
    desk.wait(30 * S);
    assert_eq!(states(&mut desk), (3, 0, 0));
}
