//! `POST /ce/queue/send`: events out of a request, as messages for the queue, and the answer.

use super::answer::{answer, success, SENT};
use super::error::{EventsError, MAX_BODY_BYTES};
use super::event::{Defaults, Event};
use super::query::{check_channel, SendQuery};
use super::{binary, structured};
use crate::queue::limits::MAX_IDEMPOTENCY_KEY_BYTES;
use crate::queue::{MessageId, NewMessage, SendReceipt, SendRequest};
use crate::wire::form::JsonBodies;
use crate::wire::json::{put_hex, put_json};
use crate::wire::media;
use crate::wire::timestamp::timestamp_ms;
use crate::wire::Answer;
use serde::{Deserialize, Serialize};

/// Events of a batch. pullq's own.
pub const MAX_BATCH_EVENTS: usize = 100;
/// Bytes of one event as the JSON object that is stored: a row has 2 MB (Durable Objects). pullq's
/// own; CloudEvents 1.0.2 demands 64 KiB.
pub const MAX_EVENT_BYTES: usize = 1_000_000;

/// A request as it came.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub content_type: Option<&'a str>,
    /// Names in lower case. They say nothing where [`reads_headers`] is false.
    pub headers: &'a [(String, String)],
    pub body: &'a [u8],
}

/// Whether a request of this media type is read from its headers, if it is read at all.
pub fn reads_headers(content_type: Option<&str>) -> bool {
    mode(content_type, true) == Ok(Mode::Binary)
}

/// The events of a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sent {
    pub events: Vec<Event>,
    /// Whether they came as a batch, which one alone can be, and none.
    pub is_batch: bool,
}

/// What the server gives events that lack an id or a time.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// In milliseconds since the Unix epoch.
    pub ms: u64,
    /// Random, and new for each request.
    pub entropy: [u8; 16],
}

impl Now {
    fn defaults(&self, index: usize) -> Defaults {
        Defaults {
            id: uuid(self.entropy, index),
            time: timestamp_ms(self.ms),
        }
    }
}

/// How a request carries events (CloudEvents 1.0.2, HTTP binding, section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Binary,
    Structured,
    Batched,
}

/// The media type decides, whatever other headers say. A format other than JSON is refused rather
/// than taken as binary data.
fn mode(content_type: Option<&str>, has_version: bool) -> Result<Mode, EventsError> {
    let essence = content_type.map(media::essence).unwrap_or_default();
    match essence.as_str() {
        "application/cloudevents+json" => Ok(Mode::Structured),
        "application/cloudevents-batch+json" => Ok(Mode::Batched),
        other if other.starts_with("application/cloudevents") => {
            Err(EventsError::UnsupportedMediaType)
        }
        _ if has_version => Ok(Mode::Binary),
        _ => Err(EventsError::UnsupportedMediaType),
    }
}

/// Reads a request.
pub fn parse(request: Request, now: Now) -> Result<Sent, EventsError> {
    if request.body.len() > MAX_BODY_BYTES {
        return Err(EventsError::BodyTooLarge);
    }
    let content_type = request.content_type.filter(|text| !text.is_empty());
    let mut names = request.headers.iter().map(|(name, _)| name);
    let has_version = names.any(|name| name == binary::SPEC_VERSION);
    let mode = mode(content_type, has_version)?;
    let one = |(draft, data): structured::Read| draft.finish(data, now.defaults(0));
    let events = match mode {
        Mode::Binary => {
            let read = binary::read_event(content_type, request.headers, request.body);
            vec![read.and_then(one)?]
        }
        Mode::Structured => vec![structured::read_event(request.body).and_then(one)?],
        Mode::Batched => parse_batch(request.body, now)?,
    };
    for event in &events {
        if event.content.len() > MAX_EVENT_BYTES {
            let size = event.content.len();
            return Err(EventsError::EventTooLarge { size });
        }
    }
    Ok(Sent {
        events,
        is_batch: mode == Mode::Batched,
    })
}

fn parse_batch(body: &[u8], now: Now) -> Result<Vec<Event>, EventsError> {
    let texts = structured::read_batch(body)?;
    if texts.len() > MAX_BATCH_EVENTS {
        return Err(EventsError::BatchCount { count: texts.len() });
    }
    let event = |(index, text): (usize, &&serde_json::value::RawValue)| {
        structured::read_object(text.get())
            .and_then(|(draft, data)| draft.finish(data, now.defaults(index)))
            .map_err(|error| match error {
                EventsError::InvalidEvent(why) => {
                    EventsError::InvalidEvent(format!("event {} of the batch: {why}", index + 1))
                }
                error => error,
            })
    };
    texts.iter().enumerate().map(event).collect()
}

impl Sent {
    /// The channel that the events are for: their subject, or the one in the query. `None` for a
    /// batch without events.
    pub fn channel(&self, query: &SendQuery) -> Result<Option<String>, EventsError> {
        let mut channels = self.events.iter().map(|event| {
            let named = event.subject.as_deref().or(query.channel.as_deref());
            named.ok_or(EventsError::ChannelRequired)
        });
        let Some(first) = channels.next().transpose()? else {
            return Ok(None);
        };
        for channel in channels {
            if channel? != first {
                return Err(EventsError::BatchChannels);
            }
        }
        check_channel(first)?;
        Ok(Some(first.to_owned()))
    }

    /// The events as the queue takes them, taken whole or refused whole. A message's size, which
    /// limits and the backlog count, is that of the event's JSON.
    pub fn to_request(
        &self,
        query: &SendQuery,
        json_bodies: JsonBodies,
        idempotency_key: Option<String>,
    ) -> Result<SendRequest, EventsError> {
        let idempotency_key = idempotency_key.filter(|key| !key.is_empty());
        let is_allowed = |key: &String| {
            key.len() <= MAX_IDEMPOTENCY_KEY_BYTES
                && key.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        };
        if !idempotency_key.as_ref().is_none_or(is_allowed) {
            return Err(EventsError::InvalidIdempotencyKey);
        }
        let message = |event: &Event| NewMessage {
            form: json_bodies.event_form(),
            content: event.content.clone(),
            size: event.content.len() as u64,
            delay_s: query.delay_s,
        };
        Ok(SendRequest {
            messages: self.events.iter().map(message).collect(),
            idempotency_key,
        })
    }

    /// What the queue's object needs to answer the send.
    pub fn sending(&self, channel: String) -> Sending {
        let named = |event: &Event| Named {
            id: event.id.clone(),
            was_given: event.id_was_given,
        };
        Sending {
            channel,
            is_batch: self.is_batch,
            events: self.events.iter().map(named).collect(),
        }
    }
}

/// A send on its way to the queue's object, which answers it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sending {
    /// The channel the events are for. An object whose queue has another name (it was renamed) is
    /// not the right one and answers 404.
    pub channel: String,
    is_batch: bool,
    events: Vec<Named>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Named {
    id: String,
    /// Whether the sender gave the id.
    was_given: bool,
}

impl Sending {
    /// The answer when the queue has stored the events.
    pub fn answer(&self, receipt: &SendReceipt) -> Answer {
        let time = timestamp_ms(receipt.sent_ms);
        let pairs = self.events.iter().zip(&receipt.ids);
        let mut stored = pairs.map(|(event, id)| Stored {
            // The first send's event has another id, where the server makes ids up.
            id: (event.was_given || !receipt.repeated).then_some(&event.id),
            queue_message_id: hex(id),
            channel: &self.channel,
            time: &time,
            repeated: receipt.repeated,
        });
        let bytes = receipt.ids.len().saturating_mul(192);
        let body = success(bytes, |out| match self.is_batch {
            false => put_json(out, &stored.next()),
            true => {
                out.extend_from_slice(b"{\"messages_sent\":");
                put_json(out, &receipt.ids.len());
                out.extend_from_slice(b",\"messages\":");
                put_json(out, &stored.collect::<Vec<_>>());
                out.push(b'}');
            }
        });
        answer(SENT, body)
    }
}

fn hex(id: &MessageId) -> String {
    let mut text = Vec::with_capacity(32);
    put_hex(&mut text, id);
    text.into_iter().map(char::from).collect()
}

/// What was stored of one event.
#[derive(Serialize)]
struct Stored<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    queue_message_id: String,
    channel: &'a str,
    time: &'a str,
    #[serde(skip_serializing_if = "is_false")]
    repeated: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// A UUID of version 4 (RFC 9562) for the event at `index` of a request.
fn uuid(mut bytes: [u8; 16], index: usize) -> String {
    let [_, _, _, _, _, _, version, _, variant, .., high, low] = &mut bytes;
    *version = *version & 0x0f | 0x40;
    *variant = *variant & 0x3f | 0x80;
    let [index_high, index_low] = (index as u16).to_be_bytes();
    *high ^= index_high;
    *low ^= index_low;
    let digits = format!("{:032x}", u128::from_be_bytes(bytes));
    let mut text = String::with_capacity(36);
    for (place, digit) in digits.chars().enumerate() {
        if matches!(place, 8 | 12 | 16 | 20) {
            text.push('-');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_a_request_are_different_uuids() {
        assert_eq!(uuid([0xff; 16], 0), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(uuid([0; 16], 258), "00000000-0000-4000-8000-000000000102");
    }
}
