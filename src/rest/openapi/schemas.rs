//! What is sent and what is answered, as JSON Schemas (draft 2020-12, the one of OpenAPI 3.1).
//! Requests are open, since unknown keys are passed over; answers are closed.

use super::super::page::{DEFAULT_PER_PAGE, MAX_NAMES, MAX_PER_PAGE};
use super::super::queues::MAX_NAME_CHARS;
use crate::queue::limits::*;
use serde_json::{json, Map, Value};
use std::ops::RangeInclusive;

const ID: &str = "^[0-9a-f]{32}$";
const ID_IN_ANY_CASE: &str = "^[0-9a-fA-F]{32}$";
const BASE64: &str =
    "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$";

/// A reference to a schema of [`named`].
pub fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn name_pattern(least: usize) -> String {
    format!("^[A-Za-z0-9._-]{{{least},{MAX_NAME_CHARS}}}$")
}

/// A whole number of a request; null counts as absent.
fn optional(range: RangeInclusive<u64>, says: &str) -> Value {
    json!({ "type": ["integer", "null"], "minimum": range.start(), "maximum": range.end(), "description": says })
}

fn with_default(mut schema: Value, default: impl Into<Value>) -> Value {
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("default".into(), default.into());
    }
    schema
}

fn batch_size(default: &str) -> Value {
    let says = format!("Messages at most. {default}");
    optional(1..=u64::from(MAX_BATCH_MESSAGES), &says)
}

fn visibility_timeout() -> Value {
    optional(
        1..=MAX_VISIBILITY_TIMEOUT_MS,
        "How long the lease runs, in milliseconds. By default as the consumer says.",
    )
}

fn old_visibility_timeout() -> Value {
    let mut schema = optional(
        1..=MAX_VISIBILITY_TIMEOUT_MS,
        "The name of visibility_timeout_ms in older documentation, in milliseconds too.",
    );
    schema["deprecated"] = true.into();
    schema
}

fn delay(says: &str) -> Value {
    optional(0..=u64::from(MAX_DELAY_S), says)
}

fn count(says: &str) -> Value {
    json!({ "type": "integer", "minimum": 0, "description": says })
}

fn text(says: &str) -> Value {
    json!({ "type": "string", "description": says })
}

fn object(required: &[&str], properties: Value) -> Value {
    json!({ "type": "object", "required": required, "properties": properties })
}

/// An object of an answer: nothing else is in it.
fn closed(required: &[&str], properties: Value) -> Value {
    let mut schema = object(required, properties);
    schema["additionalProperties"] = false.into();
    schema
}

/// A closed object whose properties are all there.
fn whole(properties: Value) -> Value {
    let names: Vec<String> = properties
        .as_object()
        .map(|properties| properties.keys().cloned().collect())
        .unwrap_or_default();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    closed(&names, properties)
}

/// Parameters that more than one endpoint has.
pub fn parameters() -> Value {
    let id = |name: &str, says: &str| {
        json!({ "name": name, "in": "path", "required": true, "description": says,
            "schema": { "type": "string", "pattern": ID_IN_ANY_CASE } })
    };
    let query = |name: &str, says: &str, schema: Value| json!({ "name": name, "in": "query", "description": says, "schema": schema });
    json!({
        "account_id": id("account_id", "Any 32 hexadecimal digits: an account is there as soon as it is named."),
        "queue_id": id("queue_id", "The queue's id, as GET /queues lists it."),
        "consumer_id": id("consumer_id", "The consumer's id."),
        "subscription_id": { "name": "subscription_id", "in": "path", "required": true,
            "description": "Any id: there are no subscriptions.", "schema": { "type": "string", "pattern": ID_IN_ANY_CASE } },
        "page": query("page", "From 1; a page past the end is empty.",
            json!({ "type": "integer", "minimum": 1, "maximum": u32::MAX, "default": 1 })),
        "per_page": query("per_page", "Items of a page.",
            json!({ "type": "integer", "minimum": 1, "maximum": MAX_PER_PAGE, "default": DEFAULT_PER_PAGE })),
        "name": query("name", "Only queues that bear one of these names exactly.",
            json!({ "type": "array", "items": { "type": "string" }, "maxItems": MAX_NAMES })),
        "since": query("since", "The version of an overview that is known: only queues that changed since.",
            json!({ "type": "integer", "minimum": 0, "default": 0 })),
        "direction": query("direction", "Of an empty list, so without effect.", json!({ "type": "string", "enum": ["asc", "desc"] })),
        "order": query("order", "Of an empty list, so without effect.",
            json!({ "type": "string", "enum": ["created_at", "name", "enabled", "source"] })),
        "idempotency_key": { "name": "Idempotency-Key", "in": "header",
            "description": format!("pullq's own: a second send with the same key within {} minutes stores nothing and gets the first one's answer. Empty counts as absent.", IDEMPOTENCY_WINDOW_MS / 60_000),
            "schema": { "type": "string", "pattern": format!("^[ -~]{{0,{MAX_IDEMPOTENCY_KEY_BYTES}}}$") } },
    })
}

/// A message of a send. Without a delay of its own it has the batch's, then the queue's.
fn message() -> Value {
    let delay = || {
        delay("Seconds until it can be delivered. By default the batch's, then delivery_delay of the queue.")
    };
    let size = format!("At most {MAX_MESSAGE_BYTES} bytes");
    json!({ "anyOf": [
        { "type": "object", "title": "JSON", "required": ["body"], "properties": {
            "body": { "description": format!("Any JSON. {size} as sent. A pull brings its text in base64.") },
            "content_type": { "enum": ["json", null], "default": "json" },
            "delay_seconds": delay(),
        } },
        { "type": "object", "title": "text", "required": ["body", "content_type"], "properties": {
            "body": text(&format!("{size} in UTF-8.")),
            "content_type": { "const": "text" },
            "delay_seconds": delay(),
        } },
        { "type": "object", "title": "bytes", "required": ["body", "content_type"], "properties": {
            "body": { "type": "string", "pattern": BASE64, "contentEncoding": "base64", "description": format!("{size}, without their base64.") },
            "content_type": { "enum": ["bytes", "v8"] },
            "delay_seconds": delay(),
        } },
    ] })
}

/// A list of lease ids or refs, alone or in objects.
fn tokens(name: &str, further: Value, nullable: bool, says: &str) -> Value {
    let mut properties = Map::from_iter([(name.to_string(), json!({ "type": "string" }))]);
    if let Some(further) = further.as_object() {
        properties.extend(further.clone());
    }
    let kind = match nullable {
        true => json!(["array", "null"]),
        false => json!("array"),
    };
    json!({
        "type": kind,
        "description": says,
        "items": { "anyOf": [
            { "type": "object", "required": [name], "properties": properties },
            { "type": "string" },
        ] },
    })
}

fn queue_settings() -> Value {
    json!({ "type": ["object", "null"], "properties": {
        "delivery_delay": with_default(delay("Seconds of delay of messages sent without one."), 0),
        "delivery_paused": { "type": ["boolean", "null"], "default": false, "description": "While true nothing is delivered: a pull answers 409." },
        "message_retention_period": with_default(
            optional(u64::from(MIN_RETENTION_S)..=u64::from(MAX_RETENTION_S), "Seconds from when a message can first be delivered until it is dropped."),
            DEFAULT_RETENTION_S,
        ),
    } })
}

fn update_queue() -> Value {
    json!({
        "queue_name": { "type": ["string", "null"], "pattern": name_pattern(1) },
        "settings": queue_settings(),
        "jurisdiction": { "type": "null", "description": "Can't be promised: a queue lies wherever this deployment's Durable Objects do." },
    })
}

fn consumer_request() -> Value {
    object(
        &["type"],
        json!({
            "type": { "const": "http_pull" },
            "dead_letter_queue": { "type": ["string", "null"], "pattern": name_pattern(0),
                "description": "The name of the queue that takes messages whose deliveries are used up, made where it is missing. \"\" is none." },
            "settings": { "type": ["object", "null"], "properties": {
                "batch_size": with_default(batch_size("Of pulls that don't say."), DEFAULT_BATCH_SIZE),
                "max_retries": with_default(optional(0..=u64::from(MAX_MAX_RETRIES), "A message is delivered at most once more than this."), DEFAULT_MAX_RETRIES),
                "retry_delay": with_default(delay("Seconds of delay of retries that don't say."), 0),
                "visibility_timeout_ms": with_default(visibility_timeout(), DEFAULT_VISIBILITY_TIMEOUT_MS),
                "visibility_timeout": old_visibility_timeout(),
            } },
        }),
    )
}

/// A message of an answer; `token` is how it can be named afterwards.
fn shown(token: &str, says: &str, least_attempts: u32) -> Value {
    let mut properties = json!({
        "id": { "type": "string", "pattern": ID },
        "timestamp_ms": count("When it was sent, in milliseconds since 1970."),
        "attempts": { "type": "integer", "minimum": least_attempts, "description": "Deliveries so far, this one included." },
        "body": text("A text as it is; json and bytes in base64."),
        "metadata": { "type": "object", "additionalProperties": { "type": "string" },
            "description": "CF-Content-Type, CF-sourceMessageSource, CF-msg-delay-secs; of dead letters also pullq-dead-letter-queue, -attempts and -first-sent-ms." },
    });
    properties[token] = text(says);
    whole(properties)
}

fn warnings() -> Value {
    json!({ "type": "object", "additionalProperties": { "type": "string" }, "description": "What was passed over, and why, by lease id or ref." })
}

fn metrics() -> Value {
    whole(json!({ "metrics": reference("Metrics") }))
}

/// What an endpoint takes and gives, by name: requests first.
pub fn named() -> Vec<(&'static str, Value)> {
    let timestamp = || json!({ "type": "string", "format": "date-time" });
    let id = || json!({ "type": "string", "pattern": ID });
    let empty = || json!({ "type": "array", "maxItems": 0 });
    let extension = |required: &[&str]| {
        json!({ "type": "array", "items": object(required, json!({
            "lease_id": { "type": "string" },
            "visibility_timeout_ms": optional(1..=MAX_VISIBILITY_TIMEOUT_MS, "From now. By default the call's."),
        })) })
    };
    let extend_timeout = |kind: Value| {
        json!({ "type": kind, "minimum": 1, "maximum": MAX_VISIBILITY_TIMEOUT_MS,
            "description": "From now, of leases that say nothing themselves." })
    };
    let mut with_own_timeout = extension(&["lease_id", "visibility_timeout_ms"]);
    with_own_timeout["items"]["properties"]["visibility_timeout_ms"]["type"] = "integer".into();
    vec![
        ("SendRequest", message()),
        (
            "SendBatchRequest",
            object(
                &["messages"],
                json!({
                    "messages": { "type": "array", "minItems": 1, "maxItems": MAX_BATCH_MESSAGES, "items": reference("SendRequest"),
                        "description": format!("Bodies of at most {MAX_BATCH_BYTES} bytes together; taken whole or refused whole.") },
                    "delay_seconds": delay("Of messages that say nothing themselves."),
                }),
            ),
        ),
        (
            "PullRequest",
            object(
                &[],
                json!({
                    "batch_size": batch_size("By default as the consumer says."),
                    "visibility_timeout_ms": visibility_timeout(),
                    "visibility_timeout": old_visibility_timeout(),
                    "wait_ms": with_default(optional(0..=MAX_WAIT_MS, "pullq's own: how long the answer may wait for a message to come, in milliseconds."), 0),
                }),
            ),
        ),
        (
            "SettleRequest",
            object(
                &[],
                json!({
                    "acks": tokens("lease_id", json!({}), true, &format!("Messages that are done. With retries at most {MAX_SETTLE_LEASES}.")),
                    "retries": tokens(
                        "lease_id",
                        json!({ "delay_seconds": delay("Seconds until it can be delivered again. By default retry_delay of the consumer.") }),
                        true,
                        "Messages to be delivered again.",
                    ),
                }),
            ),
        ),
        (
            "ExtendRequest",
            json!({ "anyOf": [
            object(&["extensions", "visibility_timeout_ms"], json!({
                "extensions": extension(&["lease_id"]), "visibility_timeout_ms": extend_timeout(json!("integer")),
            })),
            object(&["extensions"], json!({
                "extensions": with_own_timeout, "visibility_timeout_ms": extend_timeout(json!(["integer", "null"])),
            })),
        ] }),
        ),
        (
            "PeekRequest",
            object(
                &[],
                json!({
                    "batch_size": with_default(batch_size("Nothing is taken."), DEFAULT_BATCH_SIZE),
                }),
            ),
        ),
        (
            "PurgeRefsRequest",
            object(
                &["refs"],
                json!({
                    "refs": tokens("ref", json!({}), false, &format!("Messages that a peek showed, at most {MAX_SETTLE_LEASES}.")),
                }),
            ),
        ),
        (
            "PreviewAckRequest",
            object(
                &[],
                json!({
                    "acks": tokens("lease_id", json!({}), true, &format!("Messages that a preview showed, at most {MAX_SETTLE_LEASES}.")),
                }),
            ),
        ),
        (
            "RedriveRequest",
            object(
                &[],
                json!({
                    "destination_queue_name": { "type": ["string", "null"], "description": "The queue that the messages go to. By default each goes back to the queue in which it died." },
                    "messages_per_second": optional(1..=u64::from(MAX_REDRIVE_PER_SECOND), "By default as fast as it goes."),
                    "refs": tokens("ref", json!({}), true, &format!("Messages that a peek showed, at most {MAX_SETTLE_LEASES}. By default all that are in the queue.")),
                }),
            ),
        ),
        ("CreateQueueRequest", {
            let mut properties = update_queue();
            properties["queue_name"]["type"] = "string".into();
            object(&["queue_name"], properties)
        }),
        ("UpdateQueueRequest", object(&[], update_queue())),
        (
            "PurgeRequest",
            object(
                &["delete_messages_permanently"],
                json!({
                    "delete_messages_permanently": { "const": true },
                }),
            ),
        ),
        ("ConsumerRequest", consumer_request()),
        (
            "SubscriptionRequest",
            json!({ "type": "object", "description": "Refused, whatever it says." }),
        ),
        (
            "Metrics",
            whole(json!({
                "backlog_count": count("Messages not acknowledged: waiting, delayed and leased."),
                "backlog_bytes": count("Bytes of their bodies."),
                "oldest_message_timestamp_ms": count("When the oldest was sent, in milliseconds since 1970; 0 when there is none."),
            })),
        ),
        (
            "QueueMetrics",
            whole(json!({
                "backlog_count": count("As in Metrics."),
                "backlog_bytes": count("As in Metrics."),
                "oldest_message_timestamp_ms": count("As in Metrics."),
                "waiting_count": count("Messages that a pull can have now."),
                "out_count": count("Messages that are leased, or on their way to another queue."),
                "delayed_count": count("Messages that are not to be delivered yet."),
                "counters": reference("Counters"),
            })),
        ),
        (
            "Counters",
            whole(json!({
                "sent": count("Messages sent since the queue was made."),
                "delivered": count("Deliveries: a message that is delivered twice counts twice."),
                "acknowledged": count("Messages acknowledged."),
                "retried": count("Retries that consumers asked for."),
                "dead_lettered": count("Messages moved to the dead-letter queue."),
                "dropped": count("Messages given up where there is no dead-letter queue."),
                "expired": count("Messages past their retention."),
                "purged": count("Messages purged."),
                "redriven": count("Messages moved to another queue by a redrive."),
                "empty_pulls": count("Pulls that brought nothing; those since the last write are lost when the object restarts."),
            })),
        ),
        (
            "History",
            whole(json!({ "minutes": { "type": "array", "items": whole(json!({
                "minute_ms": count("When the minute began, in milliseconds since 1970."),
                "backlog_count": count("At the minute's last write, as in Metrics."),
                "backlog_bytes": count("As in Metrics."),
                "counters": reference("Counters"),
            })), "description": "Oldest first: what was before the hour, minutes in which something was written, and now." } })),
        ),
        (
            "Overview",
            whole(json!({
                "version": count("To be given as since the next time."),
                "as_of_ms": count("In milliseconds since 1970."),
                "queue_count": count("Queues that the token is good for, changed or not."),
                "queues": { "type": "array", "items": whole(json!({
                    "queue_id": id(), "queue_name": text("Unique in the account."), "created_on": timestamp(),
                    "delivery_paused": { "type": "boolean" }, "has_consumer": { "type": "boolean" },
                    "dead_letter_queue": { "type": ["string", "null"] },
                    "waiting_count": count("As in QueueMetrics."), "out_count": count("As in QueueMetrics."),
                    "delayed_count": count("As in QueueMetrics."), "backlog_bytes": count("As in Metrics."),
                    "oldest_message_timestamp_ms": count("As in Metrics."), "counters": reference("Counters"),
                    "state_as_of_ms": count("When the queue was asked, in milliseconds since 1970; idle queues are not asked anew."),
                })) },
            })),
        ),
        (
            "Redrive",
            whole(json!({
                "state": { "enum": ["none", "running", "completed", "stopped"] },
                "destination_queue_name": { "type": ["string", "null"], "description": "null: each message goes back to the queue in which it died." },
                "messages_per_second": { "type": ["integer", "null"], "minimum": 1 },
                "messages_to_move": count("Messages that could move when it began."),
                "moved": count("Messages that have arrived."),
                "skipped": count("Messages that stayed: those that are out, and those that died in no other queue."),
                "started_on": { "type": ["string", "null"], "format": "date-time" },
                "ended_on": { "type": ["string", "null"], "format": "date-time" },
            })),
        ),
        (
            "Message",
            shown("lease_id", "Names this delivery in ack and extend.", 1),
        ),
        (
            "PeekedMessage",
            shown("ref", "Names the message in purge.", 0),
        ),
        (
            "PreviewedMessage",
            shown("lease_id", "Names the message in preview/ack; no lease.", 0),
        ),
        (
            "Sent",
            closed(
                &["metadata", "ids"],
                json!({
                    "metadata": metrics(),
                    "ids": { "type": "array", "items": id(), "description": "pullq's own: the new messages' ids, in the order sent." },
                    "repeated": { "const": true, "description": "pullq's own: stored before under the same Idempotency-Key." },
                }),
            ),
        ),
        (
            "Pulled",
            whole(json!({
                "message_backlog_count": count("As in metrics."),
                "messages": { "type": "array", "maxItems": MAX_BATCH_MESSAGES, "items": reference("Message") },
                "metadata": metrics(),
            })),
        ),
        (
            "Settled",
            whole(json!({
                "ackCount": count("Acknowledged, late ones included."), "retryCount": count("Given back."), "warnings": warnings(),
            })),
        ),
        (
            "Extended",
            whole(json!({ "extendedCount": count("Leases that run on."), "warnings": warnings() })),
        ),
        (
            "Peeked",
            whole(json!({ "messages": { "type": "array", "items": reference("PeekedMessage") } })),
        ),
        (
            "Previewed",
            whole(
                json!({ "messages": { "type": "array", "items": reference("PreviewedMessage") } }),
            ),
        ),
        (
            "RefsPurged",
            whole(
                json!({ "errors": empty(), "purgedCount": count("Deleted."), "warnings": warnings() }),
            ),
        ),
        (
            "PreviewAcked",
            whole(json!({ "purgedCount": count("Deleted."), "warnings": warnings() })),
        ),
        (
            "Consumer",
            whole(json!({
                "consumer_id": id(), "created_on": timestamp(), "queue_id": id(), "queue_name": text("Of its queue."),
                "type": { "const": "http_pull" },
                "dead_letter_queue": text("\"\" when there is none."),
                "settings": whole(json!({
                    "batch_size": count(""), "max_retries": count(""), "retry_delay": count("Seconds."), "visibility_timeout_ms": count(""),
                })),
            })),
        ),
        (
            "Queue",
            whole(json!({
                "queue_id": id(), "queue_name": text("Unique in the account."), "created_on": timestamp(), "modified_on": timestamp(),
                "settings": whole(json!({
                    "delivery_delay": count("Seconds."), "delivery_paused": { "type": "boolean" }, "message_retention_period": count("Seconds."),
                })),
                "producers": empty(), "producers_total_count": { "const": 0 },
                "consumers": { "type": "array", "maxItems": 1, "items": reference("Consumer") },
                "consumers_total_count": { "enum": [0, 1] },
            })),
        ),
        (
            "PurgeStatus",
            closed(
                &[],
                json!({
                    "completed": { "const": "true", "description": "A purge is over when it is answered; missing when there was none." },
                    "started_at": timestamp(),
                }),
            ),
        ),
        (
            "Account",
            whole(
                json!({ "id": id(), "name": text("pullq's accounts have none of their own."), "type": { "const": "standard" } }),
            ),
        ),
        (
            "Membership",
            whole(
                json!({ "id": id(), "status": { "const": "accepted" }, "account": reference("Account"), "roles": empty() }),
            ),
        ),
        (
            "VerifiedToken",
            whole(json!({
                "id": id(), "status": { "const": "active" },
                "permissions": { "type": "array", "items": { "enum": ["queues:read", "queues:write"] } },
                "queues": { "type": "array", "items": text("A name, in which * stands for anything.") },
            })),
        ),
        (
            "PageInfo",
            whole(json!({
                "page": count(""), "per_page": count(""), "count": count("Items of this page."),
                "total_count": count("Items of all pages."), "total_pages": count(""),
            })),
        ),
        (
            "Failure",
            whole(json!({
                "success": { "const": false },
                "errors": { "type": "array", "minItems": 1, "items": closed(&["code", "message"], json!({
                    "code": { "type": "integer", "minimum": 1_000 },
                    "message": text("What is wrong and what to do."),
                    "source": whole(json!({ "pointer": text("Where in the body, as a JSON pointer (RFC 6901).") })),
                })) },
                "messages": empty(),
                "result": { "type": "null" },
            })),
        ),
    ]
}

/// The envelope of a success with this result.
pub fn success(result: &Value, is_list: bool) -> Value {
    let mut properties = json!({
        "success": { "const": true }, "errors": { "type": "array", "maxItems": 0 },
        "messages": { "type": "array", "maxItems": 0 }, "result": result,
    });
    if is_list {
        properties["result_info"] = reference("PageInfo");
    }
    whole(properties)
}
