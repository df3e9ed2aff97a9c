//! A message that was sent over Cloudflare's API, in KubeMQ's plain form: the JSON of its queue
//! message, fields that are at their zero values left out.

use crate::queue::{Death, MessageId};
use crate::wire::json::{put_hex, put_json, put_quoted};
use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// What a message has beside its content.
pub(super) struct Plain<'a> {
    pub id: &'a MessageId,
    pub channel: &'a str,
    pub sent_ms: u64,
    /// Deliveries so far.
    pub receive_count: u32,
    pub death: Option<&'a Death>,
}

/// A content of the two Cloudflare forms, its braces put back.
#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow)]
    body: Cow<'a, str>,
    #[serde(borrow)]
    metadata: &'a RawValue,
}

/// The key in `metadata` that says how the body is encoded.
const CONTENT_TYPE: &str = "CF-Content-Type";

impl Plain<'_> {
    /// Appends the message's JSON object. `Body` is base64 of the body as its sender meant it, and
    /// `Tags` is Cloudflare's `metadata`.
    pub fn put(&self, out: &mut Vec<u8>, json_in_base64: bool, content: &[u8]) {
        out.extend_from_slice(b"{\"MessageID\":\"");
        put_hex(out, self.id);
        out.extend_from_slice(b"\",\"Channel\":");
        put_json(out, self.channel);
        put_content(out, json_in_base64, content);
        out.extend_from_slice(b",\"Attributes\":{\"Timestamp\":");
        put_json(out, &self.sent_ms.saturating_mul(1_000_000));
        if self.receive_count > 0 {
            out.extend_from_slice(b",\"ReceiveCount\":");
            put_json(out, &self.receive_count);
        }
        if let Some(death) = self.death {
            out.extend_from_slice(b",\"ReRouted\":true,\"ReRoutedFromQueue\":");
            put_json(out, &death.queue_name);
        }
        out.extend_from_slice(b"}}");
    }
}

/// Appends `Metadata`, `Body` and `Tags`. Content that can't be read, which would be our bug, is
/// handed out as it is: whoever waits for it must get it, and what follows it too.
fn put_content(out: &mut Vec<u8>, json_in_base64: bool, content: &[u8]) {
    let object = [b"{", content, b"}"].concat();
    let read = serde_json::from_slice::<Content>(&object).ok();
    let tags = read.as_ref().and_then(|content| {
        serde_json::from_str::<BTreeMap<Cow<str>, Cow<str>>>(content.metadata.get()).ok()
    });
    let (Some(content), Some(tags)) = (read, tags) else {
        out.extend_from_slice(b",\"Body\":");
        return put_quoted(out, &STANDARD.encode(content));
    };
    let content_type = tags
        .get(CONTENT_TYPE)
        .map_or("json", |value| value.as_ref());
    let is_text = match content_type {
        "text" => true,
        "json" => !json_in_base64,
        _ => false,
    };
    out.extend_from_slice(b",\"Metadata\":");
    put_json(out, content_type);
    out.extend_from_slice(b",\"Body\":");
    match is_text {
        true => put_quoted(out, &STANDARD.encode(content.body.as_bytes())),
        false => put_json(out, &content.body),
    }
    out.extend_from_slice(b",\"Tags\":");
    out.extend_from_slice(content.metadata.get().as_bytes());
}
