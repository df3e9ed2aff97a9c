//! The consumers' endpoints: create, list, get, put.

use super::envelope::Answer;
use super::error::ApiError;
use super::json::{read_body, Field, Wrong};
use super::messages::pull::visibility_timeout_ms;
use super::queues::read_name;
use crate::directory::Entry;
use crate::queue::limits::{MAX_BATCH_MESSAGES, MAX_DELAY_S, MAX_MAX_RETRIES};
use crate::queue::Consumer;
use crate::wire::timestamp::timestamp;
use serde::Serialize;

const HTTP_PULL: &str = "http_pull";

/// Reads the body of `POST …/consumers` or `PUT …/consumers/{consumer_id}` on the queue called
/// `queue_name`. What the request doesn't say is at its default; a dead-letter queue of "" is none.
pub fn parse_consumer(body: &[u8], queue_name: &str) -> Result<Consumer, ApiError> {
    let names = ["type", "settings", "dead_letter_queue"];
    let [kind, settings, dead_letter_queue] = read_body(body, names, ApiError::InvalidRequest)?;
    let text = kind.text().map_err(ApiError::InvalidRequest)?;
    match text.as_deref() {
        Some(HTTP_PULL) => {}
        Some("worker") => return Err(ApiError::UnsupportedConsumerType),
        _ => return Err(ApiError::InvalidRequest(kind.refused("\"http_pull\""))),
    }
    let dead_letter_queue = read_dead_letter_queue(&dead_letter_queue, queue_name)
        .map_err(ApiError::InvalidConsumerSettings)?;
    let consumer = read_settings(&settings).map_err(ApiError::InvalidConsumerSettings)?;
    Ok(Consumer {
        dead_letter_queue,
        ..consumer
    })
}

fn read_dead_letter_queue(field: &Field, queue_name: &str) -> Result<Option<String>, Wrong> {
    if field.text()?.is_some_and(|name| name.is_empty()) {
        return Ok(None);
    }
    match read_name(field)? {
        Some(name) if name == queue_name => {
            Err(field.wrong("must be another queue than the consumer's own"))
        }
        name => Ok(name),
    }
}

fn read_settings(settings: &Field) -> Result<Consumer, Wrong> {
    let names = [
        "batch_size",
        "max_retries",
        "retry_delay",
        "visibility_timeout_ms",
        "visibility_timeout",
    ];
    let default = Consumer::default();
    let Some([batch_size, max_retries, retry_delay, timeout, old_timeout]) =
        settings.object(names)?
    else {
        return Ok(default);
    };
    Ok(Consumer {
        batch_size: batch_size
            .small_integer(1..=MAX_BATCH_MESSAGES)?
            .unwrap_or(default.batch_size),
        visibility_timeout_ms: visibility_timeout_ms(&timeout, &old_timeout)?
            .unwrap_or(default.visibility_timeout_ms),
        max_retries: max_retries
            .small_integer(0..=MAX_MAX_RETRIES)?
            .unwrap_or(default.max_retries),
        retry_delay_s: retry_delay
            .small_integer(0..=MAX_DELAY_S)?
            .unwrap_or(default.retry_delay_s),
        dead_letter_queue: None,
    })
}

/// A consumer as the API shows it.
#[derive(Debug, Serialize)]
pub struct ConsumerObject<'a> {
    consumer_id: &'a str,
    created_on: String,
    queue_id: &'a str,
    queue_name: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    settings: SettingsObject,
    /// "" when there is none, as at Cloudflare.
    dead_letter_queue: &'a str,
}

#[derive(Debug, Serialize)]
struct SettingsObject {
    batch_size: u32,
    max_retries: u32,
    retry_delay: u32,
    visibility_timeout_ms: u64,
}

impl<'a> ConsumerObject<'a> {
    /// The consumer of the queue `entry`, if it has one.
    pub fn of(entry: &'a Entry) -> Option<ConsumerObject<'a>> {
        let present = entry.consumer.as_ref()?;
        let consumer = &present.consumer;
        Some(ConsumerObject {
            consumer_id: &present.consumer_id,
            created_on: timestamp(present.created_ms),
            queue_id: &entry.queue_id,
            queue_name: &entry.name,
            kind: HTTP_PULL,
            settings: SettingsObject {
                batch_size: consumer.batch_size,
                max_retries: consumer.max_retries,
                retry_delay: consumer.retry_delay_s,
                visibility_timeout_ms: consumer.visibility_timeout_ms,
            },
            dead_letter_queue: consumer.dead_letter_queue.as_deref().unwrap_or(""),
        })
    }
}

/// The answer that shows a queue's consumer of this id.
pub fn encode_consumer(entry: &Entry, consumer_id: &str) -> Result<Answer, ApiError> {
    ConsumerObject::of(entry)
        .filter(|consumer| consumer.consumer_id == consumer_id)
        .map(|consumer| Answer::of(&consumer))
        .ok_or(ApiError::ConsumerNotFound)
}

/// The answer to a creation: the queue's one consumer.
pub fn encode_only_consumer(entry: &Entry) -> Result<Answer, ApiError> {
    ConsumerObject::of(entry)
        .map(|consumer| Answer::of(&consumer))
        .ok_or(ApiError::ConsumerNotFound)
}

/// The answer to `GET …/consumers`: an array with the queue's consumer, or an empty one.
pub fn encode_consumers(entry: &Entry) -> Answer {
    let consumers: Vec<ConsumerObject> = ConsumerObject::of(entry).into_iter().collect();
    Answer::of(&consumers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::ConsumerEntry;
    use crate::queue::Settings;

    #[test]
    fn a_consumer_has_the_defaults_of_what_it_does_not_say() {
        let all = Consumer {
            batch_size: 100,
            visibility_timeout_ms: 43_200_000,
            max_retries: 0,
            retry_delay_s: 86_400,
            dead_letter_queue: Some("dead".into()),
        };
        let with_timeout = |visibility_timeout_ms| Consumer {
            visibility_timeout_ms,
            ..Consumer::default()
        };
        let cases = [
            (r#"{"type":"http_pull"}"#, Consumer::default()),
            (
                r#"{"type":"http_pull","settings":null,"dead_letter_queue":null}"#,
                Consumer::default(),
            ),
            (
                r#"{"type":"http_pull","settings":{"retry_delay":null},"dead_letter_queue":""}"#,
                Consumer::default(),
            ),
            (
                r#"{"type":"http_pull","settings":{"batch_size":100,"max_retries":0,"retry_delay":86400,"visibility_timeout_ms":43200000},"dead_letter_queue":"dead"}"#,
                all,
            ),
            (
                r#"{"type":"http_pull","settings":{"visibility_timeout":6000}}"#,
                with_timeout(6_000),
            ),
        ];
        for (body, expected) in cases {
            assert_eq!(
                parse_consumer(body.as_bytes(), "orders"),
                Ok(expected),
                "{body}"
            );
        }
    }

    #[test]
    fn a_consumer_that_can_not_be_is_refused_with_the_reason() {
        let cases = [
            ("{}", 10026, "type is missing: it must be \"http_pull\"."),
            (r#"{"type":"push"}"#, 10026, "type must be \"http_pull\", not the string \"push\"."),
            (
                r#"{"type":"worker","script_name":"s"}"#,
                10026,
                "pullq serves pull consumers only: create the consumer with \"type\": \"http_pull\" and let the Worker pull, or send it the messages over HTTP.",
            ),
            (r#"{"type":"http_pull","settings":{"batch_size":0}}"#, 100127, "settings.batch_size must be a whole number from 1 to 100, not 0."),
            (r#"{"type":"http_pull","settings":{"max_retries":101}}"#, 100127, "settings.max_retries must be a whole number from 0 to 100, not 101."),
            (r#"{"type":"http_pull","settings":{"retry_delay":86401}}"#, 100127, "settings.retry_delay must be a whole number from 0 to 86400, not 86401."),
            (r#"{"type":"http_pull","settings":{"visibility_timeout_ms":0}}"#, 100127, "settings.visibility_timeout_ms must be a whole number from 1 to 43200000, not 0."),
            (r#"{"type":"http_pull","settings":[]}"#, 100127, "settings must be an object, not an array."),
            (r#"{"type":"http_pull","dead_letter_queue":"orders"}"#, 100127, "dead_letter_queue must be another queue than the consumer's own."),
            (r#"{"type":"http_pull","dead_letter_queue":"a b"}"#, 100127, "dead_letter_queue must be 1 to 63 letters, digits, hyphens, underscores and dots, not the string \"a b\"."),
        ];
        for (body, code, expected) in cases {
            let refusal = parse_consumer(body.as_bytes(), "orders").expect_err(body);
            assert_eq!(
                (refusal.row().1, refusal.to_string()),
                (code, expected.to_string()),
                "{body}"
            );
        }
    }

    #[test]
    fn a_consumer_is_found_by_its_id() {
        let entry = Entry {
            queue_id: "q1".into(),
            name: "orders".into(),
            version: 2,
            created_ms: 0,
            modified_ms: 0,
            settings: Settings::default(),
            consumer: Some(ConsumerEntry {
                consumer_id: "c1".into(),
                created_ms: 0,
                consumer: Consumer {
                    dead_letter_queue: Some("dead".into()),
                    ..Consumer::default()
                },
            }),
        };
        let object = r#"{"consumer_id":"c1","created_on":"1970-01-01T00:00:00.000000Z","queue_id":"q1","queue_name":"orders","type":"http_pull","settings":{"batch_size":5,"max_retries":3,"retry_delay":0,"visibility_timeout_ms":30000},"dead_letter_queue":"dead"}"#;
        let envelope = |result: &str| {
            format!(r#"{{"success":true,"errors":[],"messages":[],"result":{result}}}"#)
                .into_bytes()
        };
        let body = |answer: Answer| answer.body;
        assert_eq!(
            encode_consumer(&entry, "c1").map(body),
            Ok(envelope(object))
        );
        assert_eq!(encode_only_consumer(&entry).map(body), Ok(envelope(object)));
        assert_eq!(
            encode_consumer(&entry, "c2"),
            Err(ApiError::ConsumerNotFound)
        );
        assert_eq!(
            body(encode_consumers(&entry)),
            envelope(&format!("[{object}]"))
        );
        let without = Entry {
            consumer: None,
            ..entry
        };
        assert_eq!(body(encode_consumers(&without)), envelope("[]"));
    }
}
