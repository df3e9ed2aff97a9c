//! The messages' endpoints: what their requests ask, as the queue's own types, and their answers.
//!
//! - [`send`] knows `/messages` and `/messages/batch`
//! - [`pull`] knows `/messages/pull`
//! - [`settle`] knows `/messages/ack` and `/messages/extend`
//! - [`peek`] knows `/messages/peek`, `/messages/purge` and their older forms below
//!   `/messages/preview`
//! - [`event`] shows events that came over the other face

mod event;
pub mod peek;
pub mod pull;
pub mod send;
pub mod settle;

use super::envelope::put_json;
use crate::queue::{Death, MessageId, Metrics};
use crate::wire::form;
use crate::wire::json::put_hex;
use serde::Serialize;

/// A queue's backlog as messages' answers and the metrics endpoint show it. Cloudflare's API
/// reference: unacknowledged messages; 0 for the time when there is none.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Backlog {
    backlog_count: u64,
    backlog_bytes: u64,
    oldest_message_timestamp_ms: u64,
}

impl From<&Metrics> for Backlog {
    fn from(metrics: &Metrics) -> Backlog {
        Backlog {
            backlog_count: metrics.backlog_count,
            backlog_bytes: metrics.backlog_bytes,
            oldest_message_timestamp_ms: metrics.oldest_message_ms.unwrap_or(0),
        }
    }
}

/// The `metadata` of an answer.
#[derive(Serialize)]
struct Metadata {
    metrics: Backlog,
}

impl From<&Metrics> for Metadata {
    fn from(metrics: &Metrics) -> Metadata {
        Metadata {
            metrics: metrics.into(),
        }
    }
}

/// A stored message as an answer shows it.
struct Shown<'a> {
    id: &'a MessageId,
    sent_ms: u64,
    attempts: u32,
    form: u8,
    death: Option<&'a Death>,
    content: &'a [u8],
    /// How the message can be named afterwards: the key, and the lease id or ref.
    token: (&'static str, &'a str),
}

/// Bytes of a shown message beside its content, about.
const SHOWN_BYTES: usize = 256;

impl Shown<'_> {
    /// Appends the message's JSON object; `None` when its form can't be served here.
    ///
    /// The content is taken over as it is stored, and an event's put into that form. A dead letter's
    /// metadata gets three keys more, put in front of the brace that ends the content.
    fn put(&self, out: &mut Vec<u8>) -> Option<()> {
        out.extend_from_slice(b"{\"id\":\"");
        put_hex(out, self.id);
        out.extend_from_slice(b"\",\"timestamp_ms\":");
        put_json(out, &self.sent_ms);
        out.extend_from_slice(b",\"attempts\":");
        put_json(out, &self.attempts);
        out.push(b',');
        match self.form {
            form::CLOUDFLARE | form::CLOUDFLARE_PLAIN_JSON => out.extend_from_slice(self.content),
            form::CLOUDEVENT => event::put(out, self.content, true)?,
            form::CLOUDEVENT_PLAIN_JSON => event::put(out, self.content, false)?,
            _ => return None,
        }
        if let Some(death) = self.death {
            out.pop_if(|last| *last == b'}')?;
            out.extend_from_slice(b",\"pullq-dead-letter-queue\":");
            put_json(out, &death.queue_name);
            let (attempts, first_sent_ms) = (death.attempts, death.first_sent_ms);
            out.extend_from_slice(
                format!(",\"pullq-dead-letter-attempts\":\"{attempts}\",\"pullq-dead-letter-first-sent-ms\":\"{first_sent_ms}\"}}").as_bytes(),
            );
        }
        let (key, token) = self.token;
        out.extend_from_slice(b",\"");
        out.extend_from_slice(key.as_bytes());
        out.extend_from_slice(b"\":");
        put_json(out, token);
        out.push(b'}');
        Some(())
    }
}

/// Appends JSON objects, a comma between them; `None` when one can't be.
fn put_list<'a>(out: &mut Vec<u8>, messages: impl Iterator<Item = Shown<'a>>) -> Option<()> {
    out.push(b'[');
    for (index, message) in messages.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        message.put(out)?;
    }
    out.push(b']');
    Some(())
}

/// Appends `warnings` as an object, each token once.
fn put_warnings(out: &mut Vec<u8>, warnings: &[(String, String)]) {
    let by_token: std::collections::BTreeMap<&str, &str> = warnings
        .iter()
        .map(|(token, text)| (token.as_str(), text.as_str()))
        .collect();
    put_json(out, &by_token);
}
