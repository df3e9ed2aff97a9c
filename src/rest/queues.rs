//! The queues' endpoints: create, list, get, replace, patch, metrics, purge.

use super::consumers::ConsumerObject;
use super::envelope::Answer;
use super::error::ApiError;
use super::json::{read_body, Field, Wrong};
use super::messages::Backlog;
use super::page::Page;
use crate::directory::{Entry, List};
use crate::queue::ledger::Counters;
use crate::queue::limits::{MAX_DELAY_S, MAX_RETENTION_S, MIN_RETENTION_S};
use crate::queue::{Metrics, Minute, Settings, States};
use crate::wire::timestamp::timestamp;
use serde::Serialize;

/// Characters of a queue's name. Cloudflare's dashboard: 63.
pub const MAX_NAME_CHARS: usize = 63;

/// What `POST /queues` asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateQueue {
    pub name: String,
    pub settings: Settings,
}

/// What `PUT` or `PATCH /queues/{queue_id}` asks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UpdateQueue {
    /// The queue keeps its name when the request gives none, with `PUT` as well.
    pub name: Option<String>,
    delivery_delay_s: Option<u32>,
    delivery_paused: Option<bool>,
    retention_s: Option<u32>,
}

impl UpdateQueue {
    /// The settings after a `PATCH`: those that the request doesn't name stay.
    pub fn patch(&self, present: &Settings) -> Settings {
        Settings {
            delivery_delay_s: self.delivery_delay_s.unwrap_or(present.delivery_delay_s),
            delivery_paused: self.delivery_paused.unwrap_or(present.delivery_paused),
            retention_s: self.retention_s.unwrap_or(present.retention_s),
        }
    }

    /// The settings after a `PUT`, which Cloudflare's API reference says is no partial update: those
    /// that the request doesn't name are at their defaults.
    pub fn replace(&self) -> Settings {
        self.patch(&Settings::default())
    }
}

/// Reads the body of `POST /queues`.
pub fn parse_create(body: &[u8]) -> Result<CreateQueue, ApiError> {
    let (name, update) = parse(body)?;
    let name = name.required(update.name.clone(), NAME_RULE);
    Ok(CreateQueue {
        name: name.map_err(ApiError::InvalidQueueName)?,
        settings: update.replace(),
    })
}

/// Reads the body of `PUT` or `PATCH /queues/{queue_id}`.
pub fn parse_update(body: &[u8]) -> Result<UpdateQueue, ApiError> {
    parse(body).map(|(_, update)| update)
}

/// Reads the body of `POST /queues/{queue_id}/purge`, which must say that it means it.
pub fn parse_purge(body: &[u8]) -> Result<(), ApiError> {
    let [permanently] = read_body(
        body,
        ["delete_messages_permanently"],
        ApiError::InvalidRequest,
    )?;
    match permanently.boolean().map_err(ApiError::InvalidRequest)? {
        Some(true) => Ok(()),
        _ => Err(ApiError::InvalidRequest(
            permanently.wrong("must be true: a purge deletes every message for good"),
        )),
    }
}

const NAME_RULE: &str = "1 to 63 letters, digits, hyphens, underscores and dots";

/// A queue's name as this API takes it. Cloudflare publishes no rule; this one is pullq's own.
pub(super) fn read_name(field: &Field) -> Result<Option<String>, Wrong> {
    let Some(name) = field.text()? else {
        return Ok(None);
    };
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if (1..=MAX_NAME_CHARS).contains(&name.len()) && name.bytes().all(is_allowed) {
        return Ok(Some(name.into_owned()));
    }
    Err(field.refused(NAME_RULE))
}

fn parse(body: &[u8]) -> Result<(Field<'_>, UpdateQueue), ApiError> {
    let names = ["queue_name", "settings", "jurisdiction"];
    let [name, settings, jurisdiction] = read_body(body, names, ApiError::InvalidRequest)?;
    if jurisdiction.is_present() {
        return Err(ApiError::InvalidRequest(jurisdiction.wrong(
            "can't be promised: a queue lies wherever this deployment's Durable Objects do. Leave it out",
        )));
    }
    let mut update = UpdateQueue {
        name: read_name(&name).map_err(ApiError::InvalidQueueName)?,
        ..UpdateQueue::default()
    };
    read_settings(&settings, &mut update).map_err(ApiError::InvalidQueueSettings)?;
    Ok((name, update))
}

fn read_settings(settings: &Field, update: &mut UpdateQueue) -> Result<(), Wrong> {
    let names = [
        "delivery_delay",
        "delivery_paused",
        "message_retention_period",
    ];
    if let Some([delay, paused, retention]) = settings.object(names)? {
        update.delivery_delay_s = delay.small_integer(0..=MAX_DELAY_S)?;
        update.delivery_paused = paused.boolean()?;
        update.retention_s = retention.small_integer(MIN_RETENTION_S..=MAX_RETENTION_S)?;
    }
    Ok(())
}

/// A queue as the API shows it. wrangler reads it from lists and needs the arrays and totals.
#[derive(Debug, Serialize)]
pub struct QueueObject<'a> {
    queue_id: &'a str,
    queue_name: &'a str,
    created_on: String,
    modified_on: String,
    settings: SettingsObject,
    /// Always empty: producers send over HTTP and are not registered.
    producers: [(); 0],
    producers_total_count: usize,
    consumers: Vec<ConsumerObject<'a>>,
    consumers_total_count: usize,
}

#[derive(Debug, Serialize)]
struct SettingsObject {
    delivery_delay: u32,
    delivery_paused: bool,
    message_retention_period: u32,
}

impl<'a> From<&'a Entry> for QueueObject<'a> {
    fn from(entry: &'a Entry) -> QueueObject<'a> {
        let consumers: Vec<_> = ConsumerObject::of(entry).into_iter().collect();
        QueueObject {
            queue_id: &entry.queue_id,
            queue_name: &entry.name,
            created_on: timestamp(entry.created_ms),
            modified_on: timestamp(entry.modified_ms),
            settings: SettingsObject {
                delivery_delay: entry.settings.delivery_delay_s,
                delivery_paused: entry.settings.delivery_paused,
                message_retention_period: entry.settings.retention_s,
            },
            producers: [],
            producers_total_count: 0,
            consumers_total_count: consumers.len(),
            consumers,
        }
    }
}

/// The answer that shows one queue.
pub fn encode_queue(entry: &Entry) -> Answer {
    Answer::of(&QueueObject::from(entry))
}

/// The answer to `GET /queues`.
pub fn encode_list(list: &List, page: Page) -> Answer {
    let queues: Vec<QueueObject> = list.entries.iter().map(QueueObject::from).collect();
    Answer::list(&queues, page, list.total_count)
}

/// The answer to `GET /queues/{queue_id}/metrics`: the backlog, as at Cloudflare; its states, and what
/// the queue has done since it was made, which is pullq's own.
pub fn encode_metrics(metrics: &Metrics, states: States) -> Answer {
    #[derive(Serialize)]
    struct QueueMetrics<'a> {
        #[serde(flatten)]
        backlog: Backlog,
        waiting_count: u64,
        out_count: u64,
        delayed_count: u64,
        counters: &'a Counters,
    }
    Answer::of(&QueueMetrics {
        backlog: metrics.into(),
        waiting_count: states.waiting,
        out_count: states.out,
        delayed_count: states.delayed,
        counters: &metrics.counters,
    })
}

/// The answer to `GET /queues/{queue_id}/history`.
pub fn encode_history(minutes: &[Minute]) -> Answer {
    #[derive(Serialize)]
    struct History<'a> {
        minutes: Vec<MinuteObject<'a>>,
    }
    #[derive(Serialize)]
    struct MinuteObject<'a> {
        minute_ms: u64,
        backlog_count: u64,
        backlog_bytes: u64,
        counters: &'a Counters,
    }
    let minutes = minutes.iter().map(|minute| MinuteObject {
        minute_ms: minute.began_ms,
        backlog_count: minute.backlog_count,
        backlog_bytes: minute.backlog_bytes,
        counters: &minute.counters,
    });
    Answer::of(&History {
        minutes: minutes.collect(),
    })
}

/// The answer to `GET /queues/{queue_id}/purge`. A purge is over when it is answered, so the latest
/// one has always completed; where there was none, both fields are missing.
pub fn encode_purge_status(started_ms: Option<u64>) -> Answer {
    #[derive(Serialize)]
    struct Status {
        #[serde(skip_serializing_if = "Option::is_none")]
        completed: Option<&'static str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        started_at: Option<String>,
    }
    Answer::of(&Status {
        completed: started_ms.map(|_| "true"),
        started_at: started_ms.map(timestamp),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::ConsumerEntry;
    use crate::queue::Consumer;

    fn settings(delivery_delay_s: u32, delivery_paused: bool, retention_s: u32) -> Settings {
        Settings {
            delivery_delay_s,
            delivery_paused,
            retention_s,
        }
    }

    #[test]
    fn a_new_queue_has_the_defaults_of_what_it_does_not_say() {
        let cases = [
            (r#"{"queue_name":"orders"}"#, settings(0, false, 345_600)),
            (
                r#"{"queue_name":"orders","jurisdiction":null,"settings":null}"#,
                settings(0, false, 345_600),
            ),
            (
                r#"{"queue_name":"orders","settings":{"delivery_delay":null,"message_retention_period":null}}"#,
                settings(0, false, 345_600),
            ),
            (
                r#"{"queue_name":"orders","settings":{"delivery_delay":86400,"delivery_paused":true,"message_retention_period":60}}"#,
                settings(86_400, true, 60),
            ),
        ];
        for (body, settings) in cases {
            let name = "orders".to_string();
            assert_eq!(
                parse_create(body.as_bytes()),
                Ok(CreateQueue { name, settings }),
                "{body}"
            );
        }
    }

    #[test]
    fn names_are_letters_digits_hyphens_underscores_and_dots() {
        let create = |name: &str| {
            let body = serde_json::json!({ "queue_name": name }).to_string();
            parse_create(body.as_bytes()).map(|queue| queue.name)
        };
        for name in ["a", "My-queue_1.v2", &"x".repeat(63)] {
            assert_eq!(create(name), Ok(name.to_string()));
        }
        for name in ["", " ", "a b", "a/b", "é", "a\0", "*", &"x".repeat(64)] {
            let refusal = create(name).expect_err(name);
            assert!(
                matches!(refusal, ApiError::InvalidQueueName(_)),
                "{name}: {refusal:?}"
            );
        }
    }

    #[test]
    fn a_queue_that_can_not_be_made_is_refused_with_the_reason() {
        let cases = [
            ("{}", 11003, "queue_name is missing: it must be 1 to 63 letters, digits, hyphens, underscores and dots."),
            (r#"{"queue_name":null}"#, 11003, "queue_name must be 1 to 63 letters, digits, hyphens, underscores and dots, not null."),
            (r#"{"queue_name":"a b"}"#, 11003, "queue_name must be 1 to 63 letters, digits, hyphens, underscores and dots, not the string \"a b\"."),
            (r#"{"queue_name":5}"#, 11003, "queue_name must be a string, not 5."),
            (r#"{"queue_name":"a","settings":[]}"#, 100128, "settings must be an object, not an array."),
            (r#"{"queue_name":"a","settings":{"delivery_delay":86401}}"#, 100128, "settings.delivery_delay must be a whole number from 0 to 86400, not 86401."),
            (r#"{"queue_name":"a","settings":{"message_retention_period":59}}"#, 100128, "settings.message_retention_period must be a whole number from 60 to 1209600, not 59."),
            (r#"{"queue_name":"a","settings":{"delivery_paused":1}}"#, 100128, "settings.delivery_paused must be true or false, not 1."),
            (
                r#"{"queue_name":"a","jurisdiction":"eu"}"#,
                10026,
                "jurisdiction can't be promised: a queue lies wherever this deployment's Durable Objects do. Leave it out.",
            ),
            ("[]", 10026, "The body must be a JSON object, not an array."),
        ];
        for (body, code, expected) in cases {
            let refusal = parse_create(body.as_bytes()).expect_err(body);
            assert_eq!(
                (refusal.row().1, refusal.to_string()),
                (code, expected.to_string()),
                "{body}"
            );
        }
    }

    #[test]
    fn a_patch_keeps_what_it_does_not_name_and_a_put_does_not() {
        let present = settings(7, true, 600);
        let update = parse_update(br#"{"settings":{"delivery_delay":9}}"#).expect("an update");
        assert_eq!(update.name, None);
        assert_eq!(update.patch(&present), settings(9, true, 600));
        assert_eq!(update.replace(), settings(9, false, 345_600));
        let rename = parse_update(br#"{"queue_name":"new"}"#).expect("an update");
        assert_eq!(rename.name, Some("new".into()));
        assert_eq!(rename.patch(&present), present);
    }

    #[test]
    fn a_purge_must_be_meant() {
        assert_eq!(
            parse_purge(br#"{"delete_messages_permanently":true}"#),
            Ok(())
        );
        for body in ["{}", r#"{"delete_messages_permanently":false}"#] {
            let refusal = parse_purge(body.as_bytes()).map_err(|error| error.to_string());
            let expected =
                "delete_messages_permanently must be true: a purge deletes every message for good.";
            assert_eq!(refusal, Err(expected.into()));
        }
    }

    fn entry() -> Entry {
        Entry {
            queue_id: "eb868d636bc0dc7b448f8192410573c7".into(),
            name: "orders".into(),
            version: 1,
            created_ms: 1_667_145_914_966,
            modified_ms: 1_667_145_915_000,
            settings: Settings::default(),
            consumer: None,
        }
    }

    const QUEUE: &str = r#"{"queue_id":"eb868d636bc0dc7b448f8192410573c7","queue_name":"orders","created_on":"2022-10-30T16:05:14.966000Z","modified_on":"2022-10-30T16:05:15.000000Z","settings":{"delivery_delay":0,"delivery_paused":false,"message_retention_period":345600},"producers":[],"producers_total_count":0,"consumers":[],"consumers_total_count":0}"#;

    fn check(answer: Answer, result: &str) {
        let expected = format!(r#"{{"success":true,"errors":[],"messages":[],"result":{result}}}"#);
        assert_eq!(String::from_utf8_lossy(&answer.body), expected);
    }

    #[test]
    fn a_queue_is_shown_with_all_that_wrangler_reads() {
        check(encode_queue(&entry()), QUEUE);
        let consumer = ConsumerEntry {
            consumer_id: "0f1e2d3c4b5a69788796a5b4c3d2e1f0".into(),
            created_ms: 1_667_145_914_966,
            consumer: Consumer::default(),
        };
        let with_consumer = QUEUE.replace(
            r#""consumers":[],"consumers_total_count":0"#,
            r#""consumers":[{"consumer_id":"0f1e2d3c4b5a69788796a5b4c3d2e1f0","created_on":"2022-10-30T16:05:14.966000Z","queue_id":"eb868d636bc0dc7b448f8192410573c7","queue_name":"orders","type":"http_pull","settings":{"batch_size":5,"max_retries":3,"retry_delay":0,"visibility_timeout_ms":30000},"dead_letter_queue":""}],"consumers_total_count":1"#,
        );
        check(
            encode_queue(&Entry {
                consumer: Some(consumer),
                ..entry()
            }),
            &with_consumer,
        );
    }

    #[test]
    fn a_list_says_which_page_it_is() {
        let list = List {
            entries: vec![entry()],
            total_count: 21,
        };
        let page = Page {
            page: 2,
            per_page: 20,
        };
        check(
            encode_list(&list, page),
            &format!(
                r#"[{QUEUE}],"result_info":{{"page":2,"per_page":20,"count":1,"total_count":21,"total_pages":2}}"#
            ),
        );
    }

    #[test]
    fn metrics_are_numbers_even_when_nothing_is_there() {
        let metrics = Metrics {
            backlog_count: 0,
            backlog_bytes: 0,
            oldest_message_ms: None,
            counters: Counters::default(),
        };
        check(
            encode_metrics(&metrics, States::default()),
            r#"{"backlog_count":0,"backlog_bytes":0,"oldest_message_timestamp_ms":0,"waiting_count":0,"out_count":0,"delayed_count":0,"counters":{"sent":0,"delivered":0,"acknowledged":0,"retried":0,"dead_lettered":0,"dropped":0,"expired":0,"purged":0,"redriven":0,"empty_pulls":0}}"#,
        );
    }

    #[test]
    fn a_purge_has_completed_once_it_is_answered() {
        check(encode_purge_status(None), "{}");
        check(
            encode_purge_status(Some(1_667_145_914_966)),
            r#"{"completed":"true","started_at":"2022-10-30T16:05:14.966000Z"}"#,
        );
    }
}
