//! `POST /ce/queue/receive` and `/ce/queue/ack_all`: what the Worker hands to the queue's object,
//! and the answers, put together from stored bytes.

use super::answer::success;
use super::plain::Plain;
use crate::queue::{Death, Delivery, MessageId, Peeked};
use crate::wire::form;
use crate::wire::json::put_json;
use serde::{Deserialize, Serialize};

/// A receive, as the queue's object takes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Take {
    /// Messages at most, 1 to 1,000.
    pub max_messages: u32,
    /// How long the answer may wait for a message, in milliseconds, 0 to 60,000.
    pub wait_ms: u64,
    /// Look only: everything stays as it is.
    pub is_peek: bool,
    /// The channel that is asked for. An object whose queue has another name (it was renamed) is
    /// not the right one and answers 404.
    pub channel: String,
}

/// A drain, as the queue's object takes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drain {
    /// As in [`Take`].
    pub channel: String,
}

/// The body of the answer to a receive that took messages, or took none.
pub fn encode_received(deliveries: &[Delivery], channel: &str) -> Vec<u8> {
    encode(
        channel,
        deliveries.iter().map(|delivery| Shown {
            id: &delivery.id,
            sent_ms: delivery.sent_ms,
            receive_count: delivery.attempts,
            form: delivery.form,
            death: delivery.death.as_ref(),
            content: &delivery.content,
        }),
    )
}

/// The body of the answer to a receive that only looked.
pub fn encode_peeked(peeked: &[Peeked], channel: &str) -> Vec<u8> {
    encode(
        channel,
        peeked.iter().map(|message| Shown {
            id: &message.id,
            sent_ms: message.sent_ms,
            receive_count: message.attempts,
            form: message.form,
            death: message.death.as_ref(),
            content: &message.content,
        }),
    )
}

/// The body of the answer to an ack_all that removed `count` messages.
pub fn encode_drained(count: u64) -> Vec<u8> {
    success(64, |out| {
        out.extend_from_slice(b"{\"affected_messages\":");
        put_json(out, &count);
        out.push(b'}');
    })
}

/// A stored message as an answer shows it.
struct Shown<'a> {
    id: &'a MessageId,
    sent_ms: u64,
    receive_count: u32,
    form: u8,
    death: Option<&'a Death>,
    content: &'a [u8],
}

fn encode<'a>(
    channel: &str,
    messages: impl ExactSizeIterator<Item = Shown<'a>> + Clone,
) -> Vec<u8> {
    let bytes = messages.clone().map(|message| message.content.len() + 320);
    success(bytes.sum(), |out| {
        out.extend_from_slice(b"{\"messages_received\":");
        put_json(out, &messages.len());
        out.extend_from_slice(b",\"messages\":[");
        for (index, message) in messages.enumerate() {
            if index > 0 {
                out.push(b',');
            }
            message.put(out, channel);
        }
        out.extend_from_slice(b"]}");
    })
}

impl Shown<'_> {
    fn put(&self, out: &mut Vec<u8>, channel: &str) {
        match self.form {
            // An event is stored as the JSON object that it is served as.
            form::CLOUDEVENT | form::CLOUDEVENT_PLAIN_JSON => out.extend_from_slice(self.content),
            _ => Plain {
                id: self.id,
                channel,
                sent_ms: self.sent_ms,
                receive_count: self.receive_count,
                death: self.death,
            }
            .put(out, self.form == form::CLOUDFLARE, self.content),
        }
    }
}
