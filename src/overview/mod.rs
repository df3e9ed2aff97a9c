//! All queues of an account at a glance: what the console and `/metrics` show.
//!
//! Pure Rust. A queue's object says how its queue stands when it is asked; the directory asks those
//! that have changed since, and remembers the answers, so that a look at ten thousand queues wakes
//! only those that did something.

pub mod prometheus;

use crate::directory::Entry;
use crate::queue::ledger::Counters;
use crate::queue::{Metrics, States};
use crate::rest::Answer;
use crate::wire::timestamp::timestamp;
use serde::{Deserialize, Serialize};

/// How a queue stood when it was asked.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct QueueState {
    pub waiting: u64,
    /// Leased, or on their way to another queue.
    pub out: u64,
    pub delayed: u64,
    pub backlog_bytes: u64,
    /// When the oldest message was sent, in milliseconds since the Unix epoch.
    pub oldest_message_ms: Option<u64>,
    pub counters: Counters,
}

impl QueueState {
    pub fn of(states: States, metrics: &Metrics) -> QueueState {
        QueueState {
            waiting: states.waiting,
            out: states.out,
            delayed: states.delayed,
            backlog_bytes: metrics.backlog_bytes,
            oldest_message_ms: metrics.oldest_message_ms,
            counters: metrics.counters,
        }
    }
}

/// A queue with what is known of its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    pub entry: Entry,
    pub state: QueueState,
    /// When it was asked, in milliseconds since the Unix epoch; 0 when it never was, or never did
    /// anything.
    pub at_ms: u64,
}

/// The answer to `GET /overview`: the queues in `known` that changed at `since_ms` or later.
pub fn encode_overview(known: &[Known], since_ms: u64, now_ms: u64) -> Answer {
    let changed = |known: &&Known| known.at_ms.max(known.entry.modified_ms) >= since_ms;
    Answer::of(&Overview {
        version: now_ms,
        as_of_ms: now_ms,
        queue_count: known.len(),
        queues: known.iter().filter(changed).map(QueueObject::of).collect(),
    })
}

#[derive(Serialize)]
struct Overview<'a> {
    version: u64,
    as_of_ms: u64,
    queue_count: usize,
    queues: Vec<QueueObject<'a>>,
}

#[derive(Serialize)]
struct QueueObject<'a> {
    queue_id: &'a str,
    queue_name: &'a str,
    created_on: String,
    delivery_paused: bool,
    has_consumer: bool,
    dead_letter_queue: Option<&'a str>,
    waiting_count: u64,
    out_count: u64,
    delayed_count: u64,
    backlog_bytes: u64,
    oldest_message_timestamp_ms: u64,
    counters: &'a Counters,
    state_as_of_ms: u64,
}

impl QueueObject<'_> {
    fn of(known: &Known) -> QueueObject<'_> {
        let Known {
            entry,
            state,
            at_ms,
        } = known;
        let consumer = entry.consumer.as_ref().map(|present| &present.consumer);
        QueueObject {
            queue_id: &entry.queue_id,
            queue_name: &entry.name,
            created_on: timestamp(entry.created_ms),
            delivery_paused: entry.settings.delivery_paused,
            has_consumer: consumer.is_some(),
            dead_letter_queue: consumer.and_then(|consumer| consumer.dead_letter_queue.as_deref()),
            waiting_count: state.waiting,
            out_count: state.out,
            delayed_count: state.delayed,
            backlog_bytes: state.backlog_bytes,
            oldest_message_timestamp_ms: state.oldest_message_ms.unwrap_or(0),
            counters: &state.counters,
            state_as_of_ms: *at_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Settings;

    pub fn known(name: &str, modified_ms: u64, at_ms: u64) -> Known {
        Known {
            entry: Entry {
                queue_id: "eb868d636bc0dc7b448f8192410573c7".into(),
                name: name.into(),
                version: 1,
                created_ms: 1_667_145_914_966,
                modified_ms,
                settings: Settings::default(),
                consumer: None,
            },
            state: QueueState {
                waiting: 3,
                out: 2,
                delayed: 1,
                backlog_bytes: 60,
                oldest_message_ms: Some(10_000),
                counters: Counters {
                    sent: 9,
                    acknowledged: 3,
                    ..Counters::default()
                },
            },
            at_ms,
        }
    }

    #[test]
    fn an_overview_has_what_changed_and_counts_all() {
        let all = [known("a", 5, 90), known("b", 120, 0), known("c", 7, 100)];
        let answer = encode_overview(&all, 100, 130);
        let text = String::from_utf8_lossy(&answer.body);
        assert!(
            text.contains(r#""version":130,"as_of_ms":130,"queue_count":3,"queues":[{"#),
            "{text}"
        );
        let named = |name: &str| text.contains(&format!(r#""queue_name":"{name}""#));
        assert_eq!((named("a"), named("b"), named("c")), (false, true, true));
        assert!(
            text.contains(r#""waiting_count":3,"out_count":2,"delayed_count":1,"backlog_bytes":60,"oldest_message_timestamp_ms":10000"#),
            "{text}"
        );
    }
}
