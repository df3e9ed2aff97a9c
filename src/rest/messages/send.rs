//! `POST /messages` and `/messages/batch`: messages into the queue.
//!
//! A message's content is encoded here once, as every pull will serve it. Its size, which the
//! limits and the backlog count, is that of the body as its sender means it: of a text in UTF-8, of
//! JSON text as sent, of bytes without their base64.

use super::super::envelope::{put_json, Answer};
use super::super::error::ApiError;
use super::super::json::{read_body, Field, Wrong};
use super::Metadata;
use crate::queue::limits::{
    MAX_BATCH_BYTES, MAX_BATCH_MESSAGES, MAX_DELAY_S, MAX_IDEMPOTENCY_KEY_BYTES, MAX_MESSAGE_BYTES,
};
use crate::queue::{Metrics, NewMessage, SendReceipt, SendRequest};
use crate::wire::form::JsonBodies;
use crate::wire::json::{put_hex, put_quoted};
use base64::engine::general_purpose::STANDARD;
use base64::Engine;

/// Says how a message's body is to be understood. Cloudflare: json unless the message says
/// otherwise; over HTTP its own clients send text and json only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ContentType {
    Text,
    Json,
    Bytes,
    V8,
}

const FIELDS: [&str; 3] = ["body", "content_type", "delay_seconds"];

/// Reads the body of `POST /messages`.
pub fn parse_send(
    body: &[u8],
    json_bodies: JsonBodies,
    idempotency_key: Option<String>,
) -> Result<SendRequest, ApiError> {
    let idempotency_key = checked_key(idempotency_key)?;
    let fields = read_body(body, FIELDS, ApiError::InvalidField).map_err(|error| match error {
        // A lone message is all there is in the body.
        ApiError::BodyTooLarge => ApiError::MessageTooLarge {
            index: None,
            size: body.len() as u64,
        },
        error => error,
    })?;
    let message = message(fields, None, json_bodies)?;
    if message.size > MAX_MESSAGE_BYTES as u64 {
        return Err(ApiError::MessageTooLarge {
            index: None,
            size: message.size,
        });
    }
    Ok(SendRequest {
        messages: vec![message],
        idempotency_key,
    })
}

/// Reads the body of `POST /messages/batch`. A message's own delay wins over the batch's.
pub fn parse_batch(
    body: &[u8],
    json_bodies: JsonBodies,
    idempotency_key: Option<String>,
) -> Result<SendRequest, ApiError> {
    let idempotency_key = checked_key(idempotency_key)?;
    let [messages, delay] = read_body(body, ["messages", "delay_seconds"], ApiError::InvalidField)?;
    let delay_s = delay_s(&delay)?;
    let items = messages
        .array(MAX_BATCH_MESSAGES as usize)
        .and_then(|items| messages.required(items, "an array of messages"))
        .map_err(ApiError::InvalidField)?;
    if items.count == 0 || items.count > MAX_BATCH_MESSAGES as usize {
        return Err(ApiError::BatchCount { count: items.count });
    }
    let mut messages = Vec::with_capacity(items.count);
    let mut batch_bytes = 0u64;
    for (index, item) in items.items.iter().enumerate() {
        let fields = item
            .object(FIELDS)
            .and_then(|fields| item.required(fields, "an object with a body"))
            .map_err(ApiError::InvalidField)?;
        let message = message(fields, delay_s, json_bodies)?;
        if message.size > MAX_MESSAGE_BYTES as u64 {
            return Err(ApiError::MessageTooLarge {
                index: Some(index),
                size: message.size,
            });
        }
        batch_bytes = batch_bytes.saturating_add(message.size);
        messages.push(message);
    }
    if batch_bytes > MAX_BATCH_BYTES as u64 {
        return Err(ApiError::BatchTooLarge { size: batch_bytes });
    }
    Ok(SendRequest {
        messages,
        idempotency_key,
    })
}

/// The answer to a send: the backlog after it, as at Cloudflare, and the new messages' ids, which
/// are pullq's own.
pub fn encode_sent(receipt: &SendReceipt, metrics: &Metrics) -> Answer {
    Answer::built(receipt.ids.len() * 40, |out| {
        out.extend_from_slice(b"{\"metadata\":");
        put_json(out, &Metadata::from(metrics));
        out.extend_from_slice(b",\"ids\":[");
        for (index, id) in receipt.ids.iter().enumerate() {
            out.extend_from_slice(if index > 0 { b",\"" } else { b"\"" });
            put_hex(out, id);
            out.push(b'"');
        }
        out.push(b']');
        if receipt.repeated {
            out.extend_from_slice(b",\"repeated\":true");
        }
        out.push(b'}');
    })
}

fn checked_key(key: Option<String>) -> Result<Option<String>, ApiError> {
    match key {
        Some(key)
            if key.len() > MAX_IDEMPOTENCY_KEY_BYTES
                || !key.bytes().all(|byte| matches!(byte, b' '..=b'~')) =>
        {
            Err(ApiError::InvalidIdempotencyKey)
        }
        key => Ok(key.filter(|key| !key.is_empty())),
    }
}

fn delay_s(field: &Field) -> Result<Option<u32>, ApiError> {
    field
        .small_integer(0..=MAX_DELAY_S)
        .map_err(ApiError::InvalidDelay)
}

fn message(
    [body, content_type, delay]: [Field; 3],
    batch_delay_s: Option<u32>,
    json_bodies: JsonBodies,
) -> Result<NewMessage, ApiError> {
    let content_type = read_content_type(&content_type)?;
    let delay_s = delay_s(&delay)?.or(batch_delay_s);
    let raw = body
        .raw()
        .ok_or_else(|| ApiError::InvalidField(body.wrong("is missing: a message must have one")))?;
    let mut content = Vec::with_capacity(raw.len() + raw.len() / 3 + 128);
    content.extend_from_slice(b"\"body\":");
    let size = match content_type {
        ContentType::Json => put_json_body(&mut content, raw, json_bodies),
        ContentType::Text => put_text(&mut content, raw, &body).map_err(ApiError::InvalidField)?,
        ContentType::Bytes | ContentType::V8 => {
            put_base64(&mut content, &body).map_err(ApiError::InvalidField)?
        }
    };
    content.extend_from_slice(b",\"metadata\":{\"CF-Content-Type\":\"");
    content.extend_from_slice(content_type.name().as_bytes());
    content.extend_from_slice(b"\",\"CF-sourceMessageSource\":\"api\"");
    if let Some(delay_s @ 1..) = delay_s {
        content.extend_from_slice(format!(",\"CF-msg-delay-secs\":\"{delay_s}\"").as_bytes());
    }
    content.push(b'}');
    Ok(NewMessage {
        form: json_bodies.form(),
        content,
        size: size as u64,
        delay_s,
    })
}

impl ContentType {
    fn name(self) -> &'static str {
        match self {
            ContentType::Text => "text",
            ContentType::Json => "json",
            ContentType::Bytes => "bytes",
            ContentType::V8 => "v8",
        }
    }
}

fn read_content_type(field: &Field) -> Result<ContentType, ApiError> {
    let text = field.text().map_err(ApiError::InvalidMetadata)?;
    match text.as_deref() {
        None | Some("json") => Ok(ContentType::Json),
        Some("text") => Ok(ContentType::Text),
        Some("bytes") => Ok(ContentType::Bytes),
        Some("v8") => Ok(ContentType::V8),
        Some(_) => {
            let wrong = field.refused("\"json\", \"text\", \"bytes\" or \"v8\"");
            Err(ApiError::InvalidMetadata(wrong))
        }
    }
}

/// Appends JSON text as sent: number spelling, key order and white space are the sender's.
fn put_json_body(out: &mut Vec<u8>, raw: &str, json_bodies: JsonBodies) -> usize {
    match json_bodies {
        JsonBodies::Base64 => put_quoted(out, &STANDARD.encode(raw)),
        JsonBodies::PlainText => put_json(out, raw),
    }
    raw.len()
}

/// Appends a text's JSON string as sent, its escapes included.
fn put_text(out: &mut Vec<u8>, raw: &str, body: &Field) -> Result<usize, Wrong> {
    let text = body.text()?;
    let text = body.required(text, "a string, as content_type is \"text\"")?;
    out.extend_from_slice(raw.as_bytes());
    Ok(text.len())
}

fn put_base64(out: &mut Vec<u8>, body: &Field) -> Result<usize, Wrong> {
    let text = body.text()?;
    let text = body.required(text, "a string with base64")?;
    let bytes = STANDARD.decode(text.as_bytes()).map_err(|error| {
        body.wrong(&format!(
            "must be base64 (RFC 4648, padded), as content_type says: {error}"
        ))
    })?;
    put_quoted(out, &text);
    Ok(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::ledger::Counters;

    fn check(body: &str, expected: Result<(&str, u64, Option<u32>), &str>) {
        let sent = parse_send(body.as_bytes(), JsonBodies::Base64, None);
        let sent = sent.map(|request| {
            let [message] = request.messages.try_into().expect("one message");
            let content = String::from_utf8(message.content).expect("UTF-8");
            (content, message.size, message.delay_s)
        });
        let expected = expected.map(|(content, size, delay)| (content.to_string(), size, delay));
        assert_eq!(
            sent.map_err(|error| error.to_string()),
            expected.map_err(String::from),
            "{body}"
        );
    }

    #[test]
    fn a_body_is_stored_as_it_will_be_served() {
        let json = r#","metadata":{"CF-Content-Type":"json","CF-sourceMessageSource":"api"}"#;
        let text = r#","metadata":{"CF-Content-Type":"text","CF-sourceMessageSource":"api"}"#;
        let cases = [
            (
                r#"{"body":{"greeting":"hello"}}"#,
                r#""body":"eyJncmVldGluZyI6ImhlbGxvIn0=""#,
                json,
                20,
            ),
            (
                r#"{"body": { "b" : 1.0,"a":1e2 } }"#,
                r#""body":"eyAiYiIgOiAxLjAsImEiOjFlMiB9""#,
                json,
                21,
            ),
            (
                r#"{"body":null,"content_type":null,"delay_seconds":null}"#,
                r#""body":"bnVsbA==""#,
                json,
                4,
            ),
            (
                r#"{"content_type":"json","body":"a"}"#,
                r#""body":"ImEi""#,
                json,
                3,
            ),
            (r#"{"body":"\ud800"}"#, r#""body":"Ilx1ZDgwMCI=""#, json, 8),
            (
                r#"{"body":"hello","content_type":"text"}"#,
                r#""body":"hello""#,
                text,
                5,
            ),
            (
                r#"{"body":"","content_type":"text"}"#,
                r#""body":"""#,
                text,
                0,
            ),
            (
                r#"{"body":"\u0041\ud83d\ude80é","content_type":"text"}"#,
                r#""body":"\u0041\ud83d\ude80é""#,
                text,
                7,
            ),
        ];
        for (body, content, metadata, size) in cases {
            check(body, Ok((&format!("{content}{metadata}"), size, None)));
        }
        check(
            r#"{"body":"AAECA\/\/+\/Q==","content_type":"bytes"}"#,
            Ok((
                r#""body":"AAECA//+/Q==","metadata":{"CF-Content-Type":"bytes","CF-sourceMessageSource":"api"}"#,
                7,
                None,
            )),
        );
        check(
            r#"{"body":"/w8iBWhlbGxv","content_type":"v8"}"#,
            Ok((
                r#""body":"/w8iBWhlbGxv","metadata":{"CF-Content-Type":"v8","CF-sourceMessageSource":"api"}"#,
                9,
                None,
            )),
        );
        check(
            r#"{"body":1,"delay_seconds":20}"#,
            Ok((
                r#""body":"MQ==","metadata":{"CF-Content-Type":"json","CF-sourceMessageSource":"api","CF-msg-delay-secs":"20"}"#,
                1,
                Some(20),
            )),
        );
        check(
            r#"{"body":1,"delay_seconds":0}"#,
            Ok((
                r#""body":"MQ==","metadata":{"CF-Content-Type":"json","CF-sourceMessageSource":"api"}"#,
                1,
                Some(0),
            )),
        );
    }

    #[test]
    fn a_deployment_can_serve_json_bodies_as_text() {
        let body = br#"{"body":{"a":"\n"}}"#;
        let request = parse_send(body, JsonBodies::PlainText, None).expect("a message");
        let message = &request.messages[0];
        assert_eq!(message.form, 1);
        assert_eq!(
            String::from_utf8_lossy(&message.content),
            r#""body":"{\"a\":\"\\n\"}","metadata":{"CF-Content-Type":"json","CF-sourceMessageSource":"api"}"#
        );
    }

    #[test]
    fn a_message_that_can_not_be_taken_is_refused_with_the_reason() {
        let cases = [
            ("{}", "body is missing: a message must have one."),
            (r#"{"content_type":"text"}"#, "body is missing: a message must have one."),
            (r#"{"body":null,"content_type":"text"}"#, "body must be a string, as content_type is \"text\", not null."),
            (r#"{"body":{},"content_type":"text"}"#, "body must be a string, not an object."),
            (r#"{"body":"\ud800","content_type":"text"}"#, "body must be a string of Unicode characters, not half of a surrogate pair."),
            (r#"{"body":7,"content_type":"bytes"}"#, "body must be a string, not 7."),
            (r#"{"body":"a","content_type":"bytes"}"#, "body must be base64 (RFC 4648, padded), as content_type says: Invalid input length: 1."),
            (r#"{"body":"aGVsbG8","content_type":"v8"}"#, "body must be base64 (RFC 4648, padded), as content_type says: Invalid padding."),
            (r#"{"body":1,"content_type":"xml"}"#, "content_type must be \"json\", \"text\", \"bytes\" or \"v8\", not the string \"xml\"."),
            (r#"{"body":1,"content_type":5}"#, "content_type must be a string, not 5."),
            (r#"{"body":1,"delay_seconds":86401}"#, "delay_seconds must be a whole number from 0 to 86400, not 86401."),
            (r#"{"body":1,"delay_seconds":-1}"#, "delay_seconds must be a whole number from 0 to 86400, not -1."),
            (r#"{"body":1,"delay_seconds":"5"}"#, "delay_seconds must be a whole number from 0 to 86400, not the string \"5\"."),
            (r#"{"body":1"#, "The body can't be read as JSON: EOF while parsing an object at line 1 column 9."),
        ];
        for (body, expected) in cases {
            check(body, Err(expected));
        }
    }

    #[test]
    fn sizes_count_the_body_and_not_its_spelling() {
        let send = |body: &str, content_type: &str| {
            let body = format!(r#"{{"body":{body},"content_type":"{content_type}"}}"#);
            parse_send(body.as_bytes(), JsonBodies::Base64, None)
                .map(|request| request.messages[0].size)
        };
        let quoted = |text: &str, count: usize| format!("\"{}\"", text.repeat(count));
        let too_large = |size| Err(ApiError::MessageTooLarge { index: None, size });
        assert_eq!(send(&quoted("a", 128_000), "text"), Ok(128_000));
        assert_eq!(send(&quoted("a", 128_001), "text"), too_large(128_001));
        assert_eq!(send(&quoted("\\u0001", 128_000), "text"), Ok(128_000));
        assert_eq!(send(&quoted("é", 64_001), "text"), too_large(128_002));
        assert_eq!(send(&quoted("a", 127_998), "json"), Ok(128_000));
        assert_eq!(send(&quoted("a", 127_999), "json"), too_large(128_001));
        assert_eq!(send(&quoted("AAAA", 42_666), "bytes"), Ok(127_998));
        assert_eq!(send(&quoted("AAAA", 42_667), "bytes"), too_large(128_001));
        assert_eq!(
            send(&quoted("\\u0001", 333_333), "text"),
            too_large(2_000_031)
        );
    }

    fn batch(body: &str) -> Result<Vec<NewMessage>, ApiError> {
        parse_batch(body.as_bytes(), JsonBodies::Base64, None).map(|request| request.messages)
    }

    fn batch_of(message: &str, count: usize) -> Result<Vec<NewMessage>, ApiError> {
        batch(&format!(
            r#"{{"messages":[{}]}}"#,
            vec![message; count].join(",")
        ))
    }

    #[test]
    fn a_batch_is_taken_whole_or_refused_whole() {
        let text = format!(
            r#"{{"body":"{}","content_type":"text"}}"#,
            "a".repeat(128_000)
        );
        let too_long = format!(
            r#"{{"messages":[{{"body":1}},{{"body":"{}"}}]}}"#,
            "a".repeat(128_000)
        );
        assert_eq!(
            batch_of(r#"{"body":1}"#, 100).map(|messages| messages.len()),
            Ok(100)
        );
        assert_eq!(
            batch_of(r#"{"body":1}"#, 101),
            Err(ApiError::BatchCount { count: 101 })
        );
        assert_eq!(batch_of("", 0), Err(ApiError::BatchCount { count: 0 }));
        assert_eq!(batch_of(&text, 2).map(|messages| messages.len()), Ok(2));
        assert_eq!(
            batch_of(&text, 3),
            Err(ApiError::BatchTooLarge { size: 384_000 })
        );
        assert_eq!(
            batch(&too_long),
            Err(ApiError::MessageTooLarge {
                index: Some(1),
                size: 128_002
            })
        );
    }

    #[test]
    fn a_refused_batch_names_the_message() {
        let cases = [
            (
                "{}",
                "messages is missing: it must be an array of messages.",
            ),
            (
                r#"{"messages":{}}"#,
                "messages must be an array, not an object.",
            ),
            (
                r#"{"messages":[{"body":1},{}]}"#,
                "messages[1].body is missing: a message must have one.",
            ),
            (
                r#"{"messages":["text"]}"#,
                "messages[0] must be an object, not the string \"text\".",
            ),
            (
                r#"{"messages":[null]}"#,
                "messages[0] must be an object with a body, not null.",
            ),
            (
                r#"{"messages":[{"body":1,"delay_seconds":1.5}]}"#,
                "messages[0].delay_seconds must be a whole number from 0 to 86400, not 1.5.",
            ),
            (
                r#"{"messages":[{"body":1}],"delay_seconds":true}"#,
                "delay_seconds must be a whole number from 0 to 86400, not true.",
            ),
        ];
        for (body, expected) in cases {
            assert_eq!(
                batch(body).map_err(|error| error.to_string()),
                Err(expected.to_string()),
                "{body}"
            );
        }
    }

    #[test]
    fn a_messages_own_delay_wins_over_the_batchs() {
        let messages = batch(
            r#"{"delay_seconds":60,"messages":[{"body":1},{"body":2,"delay_seconds":0},{"body":3,"delay_seconds":7}]}"#,
        );
        let delays: Vec<_> = messages
            .expect("a batch")
            .iter()
            .map(|message| message.delay_s)
            .collect();
        assert_eq!(delays, [Some(60), Some(0), Some(7)]);
    }

    #[test]
    fn an_idempotency_key_is_taken_up_to_its_limit() {
        let send = |key: &str| {
            parse_send(b"{\"body\":1}", JsonBodies::Base64, Some(key.into()))
                .map(|request| request.idempotency_key)
        };
        assert_eq!(send("order-7"), Ok(Some("order-7".into())));
        assert_eq!(send(""), Ok(None));
        for key in [&"k".repeat(257), "ké", "k\u{7f}", "k\n"] {
            assert_eq!(send(key), Err(ApiError::InvalidIdempotencyKey), "{key}");
        }
    }

    #[test]
    fn the_answer_tells_the_backlog_and_the_ids() {
        let receipt = SendReceipt {
            ids: vec![[0x01; 16], [0xfe; 16]],
            sent_ms: 5,
            repeated: true,
        };
        let metrics = Metrics {
            backlog_count: 2,
            backlog_bytes: 30,
            oldest_message_ms: Some(5),
            counters: Counters::default(),
        };
        let answer = encode_sent(&receipt, &metrics);
        assert_eq!(
            String::from_utf8_lossy(&answer.body),
            r#"{"success":true,"errors":[],"messages":[],"result":{"metadata":{"metrics":{"backlog_count":2,"backlog_bytes":30,"oldest_message_timestamp_ms":5}},"ids":["01010101010101010101010101010101","fefefefefefefefefefefefefefefefe"],"repeated":true}}"#
        );
    }
}
