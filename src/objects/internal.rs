//! What objects and the Worker say to each other besides requests of clients, which are handed on
//! as they came. Clients can't say these things: the Worker hands on nothing but routes of the API.

use crate::cloudevents::send::Sending;
use crate::cloudevents::EventsError;
use crate::queue::record::{Record, Records};
use crate::queue::{Config, NewMessage, SendRequest, SqlError, TransferredMessage};
use crate::rest::ApiError;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The host of requests between objects; never resolved.
const ORIGIN: &str = "https://pullq.internal";

/// To a queue's object: be this queue. The body is a [`Configuration`] as JSON.
pub const CONFIGURE: &str = "/internal/configure";
/// To a queue's object: be no queue any more.
pub const DESTROY: &str = "/internal/destroy";
/// To a queue's object: delete every message.
pub const PURGE: &str = "/internal/purge";
/// To a queue's object: take these messages. The body is a [`Handover`].
pub const RECEIVE: &str = "/internal/receive";
/// To a queue's object: store these messages, which came over the CloudEvents face. The body is an
/// [`EventSend`], the answer that face's final one; 404 when the object's queue is another one.
pub const SEND: &str = "/internal/send";
/// To a queue's object: hand out messages to a client of the CloudEvents face. The body is a
/// [`Take`](crate::cloudevents::receive::Take) as JSON, the answer that face's final one.
pub const TAKE: &str = "/internal/take";
/// To a queue's object: remove what is pending. The body is a
/// [`Drain`](crate::cloudevents::receive::Drain) as JSON, the answer that face's final one.
pub const DRAIN: &str = "/internal/drain";
/// To a queue's object: how does the queue stand? The answer is a
/// [`QueueState`](crate::overview::QueueState) as JSON.
pub const STATE: &str = "/internal/state";
/// To a directory: this queue has done something since it was asked how it stands. The body is its
/// id.
pub const CHANGED: &str = "/internal/changed";
/// To a directory: how all queues stand, as Prometheus reads it.
pub const METRICS: &str = "/internal/metrics";
/// To a directory: the id of the queue of this name, made where there is none. The body is the
/// name, the answer [`Resolved`] as JSON.
pub const RESOLVE: &str = "/internal/resolve";
/// To a directory: the id of the queue that is this channel. The body is a [`Channel`] as JSON, the
/// answer [`Resolved`] as JSON; 404 when there is none and none is to be made.
pub const RESOLVE_CHANNEL: &str = "/internal/resolve-channel";

/// What a queue is to be. Of two the one with the higher version counts.
#[derive(Debug, Serialize, Deserialize)]
pub struct Configuration {
    pub version: u64,
    pub config: Config,
}

/// Messages that move from one queue to another.
#[derive(Debug, PartialEq, Eq)]
pub struct Handover {
    /// The id of the queue they come from.
    pub source: String,
    /// The move's number.
    pub number: u64,
    pub messages: Vec<TransferredMessage>,
}

/// What stands in the first line of a handover; the messages' records follow it.
#[derive(Serialize, Deserialize)]
struct Heading {
    source: String,
    number: u64,
    count: usize,
}

impl Handover {
    pub fn encode(self) -> Result<Vec<u8>, HandoverError> {
        let mut out = serde_json::to_vec(&Heading {
            source: self.source,
            number: self.number,
            count: self.messages.len(),
        })?;
        out.push(b'\n');
        for message in &self.messages {
            message.record().put(&mut out);
        }
        Ok(out)
    }

    pub fn decode(body: &[u8]) -> Result<Handover, HandoverError> {
        let (heading, mut records) = heading_and_records::<Heading>(body)?;
        let messages = (0..heading.count)
            .map(|_| Ok(TransferredMessage::of(records.next_record()?)))
            .collect::<Result<_, HandoverError>>()?;
        Ok(Handover {
            source: heading.source,
            number: heading.number,
            messages,
        })
    }
}

/// Messages that the CloudEvents face hands to a queue's object.
#[derive(Debug, PartialEq, Eq)]
pub struct EventSend {
    pub sending: Sending,
    pub request: SendRequest,
}

/// What stands in the first line of an [`EventSend`]; the messages' records follow it.
#[derive(Serialize, Deserialize)]
struct EventHeading {
    sending: Sending,
    delays_s: Vec<Option<u32>>,
    idempotency_key: Option<String>,
}

impl EventSend {
    pub fn encode(&self) -> Result<Vec<u8>, HandoverError> {
        let SendRequest {
            messages,
            idempotency_key,
        } = &self.request;
        let mut out = serde_json::to_vec(&EventHeading {
            sending: self.sending.clone(),
            delays_s: messages.iter().map(|message| message.delay_s).collect(),
            idempotency_key: idempotency_key.clone(),
        })?;
        out.push(b'\n');
        for message in messages {
            Record {
                // The queue gives the ids.
                id: [0; 16],
                form: message.form,
                size: message.size,
                death: None,
                content: &message.content,
            }
            .put(&mut out);
        }
        Ok(out)
    }

    pub fn decode(body: &[u8]) -> Result<EventSend, HandoverError> {
        let (heading, mut records) = heading_and_records::<EventHeading>(body)?;
        let message = |delay_s| {
            let record = records.next_record()?;
            Ok(NewMessage {
                form: record.form,
                content: record.content.to_vec(),
                size: record.size,
                delay_s,
            })
        };
        let messages = heading.delays_s.into_iter().map(message);
        Ok(EventSend {
            sending: heading.sending,
            request: SendRequest {
                messages: messages.collect::<Result<_, HandoverError>>()?,
                idempotency_key: heading.idempotency_key,
            },
        })
    }
}

/// Splits a body into its first line, which is JSON, and the records that follow it.
fn heading_and_records<T: for<'a> Deserialize<'a>>(
    body: &[u8],
) -> Result<(T, Records<'_>), HandoverError> {
    let (heading, records) = body
        .iter()
        .position(|&byte| byte == b'\n')
        .and_then(|end| body.split_at_checked(end))
        .ok_or(HandoverError::NoHeading)?;
    let records = records.strip_prefix(b"\n").unwrap_or(records);
    Ok((serde_json::from_slice(heading)?, Records::of(records)))
}

/// Our bug: objects of one deployment understand each other.
#[derive(Debug, Error)]
pub enum HandoverError {
    #[error("no heading")]
    NoHeading,
    #[error(transparent)]
    Heading(#[from] serde_json::Error),
    #[error(transparent)]
    Record(#[from] SqlError),
}

/// A channel that is looked for.
#[derive(Debug, Serialize, Deserialize)]
pub struct Channel {
    pub name: String,
    /// Make it where there is none, with a consumer, so that both faces can pull from it.
    pub make: bool,
}

/// A queue found by its name.
#[derive(Debug, Serialize, Deserialize)]
pub struct Resolved {
    pub queue_id: String,
}

pub fn url(path: &str) -> String {
    format!("{ORIGIN}{path}")
}

/// The name under which a queue's object is found.
pub fn queue_object_name(account_id: &str, queue_id: &str) -> String {
    format!("{account_id}/{queue_id}")
}

/// The account and the queue that an object's name names.
pub fn parse_queue_object_name(name: &str) -> Option<(&str, &str)> {
    name.split_once('/')
}

/// What the objects refuse, as the CloudEvents face says it.
impl From<ApiError> for EventsError {
    fn from(error: ApiError) -> EventsError {
        match error {
            ApiError::QueueNotFound(_) => EventsError::ChannelNotFound,
            ApiError::TooManyQueues => EventsError::TooManyChannels,
            ApiError::NoConsumer => EventsError::NoConsumer,
            ApiError::DeliveryPaused => EventsError::Paused,
            ApiError::TooManyOut => EventsError::TooManyOut,
            ApiError::StorageFull => EventsError::StorageFull,
            ApiError::Unreachable => EventsError::Unreachable,
            ApiError::TimedOut => EventsError::TimedOut,
            _ => EventsError::Internal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloudevents::send::Sent;

    #[test]
    fn what_the_worker_hands_to_a_queue_arrives_as_it_was() {
        let message = |content: &str, delay_s| NewMessage {
            form: 2,
            content: content.as_bytes().to_vec(),
            size: 7,
            delay_s,
        };
        for (messages, idempotency_key) in [
            (
                vec![message("{\n}", None), message("", Some(30))],
                Some("key\n".to_string()),
            ),
            (vec![], None),
        ] {
            let send = EventSend {
                sending: Sent::default().sending("a\nb".into()),
                request: SendRequest {
                    messages,
                    idempotency_key,
                },
            };
            let body = send.encode().unwrap_or_default();
            let decoded = EventSend::decode(&body).map_err(|error| error.to_string());
            assert_eq!(decoded, Ok(send));
        }
        assert!(EventSend::decode(b"{}").is_err());
    }
}
