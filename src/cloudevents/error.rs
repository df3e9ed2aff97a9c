//! Every error that the CloudEvents face answers, with its status; nobody else maps errors to HTTP
//! here.
//!
//! Policy: a peer's fault names the attribute or parameter and says what to do. What went wrong
//! inside is said in the log and not to the peer. Statuses are those of KubeMQ's documentation where
//! it has them; 401, 403, 404, 405, 409, 413 and 429 are HTTP's own.

use super::send::{MAX_BATCH_EVENTS, MAX_EVENT_BYTES};
use crate::access::jwt::EventAccessError;
use crate::queue::limits;
use thiserror::Error;

/// Bytes of a request's body. pullq's own.
pub const MAX_BODY_BYTES: usize = 2_000_000;

/// An error as a client of this face sees it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EventsError {
    // What the request asks for.
    #[error("There is no such endpoint. Queues have POST /ce/queue/send, POST /ce/queue/receive and POST /ce/queue/ack_all.")]
    UnknownPath,
    #[error("This endpoint takes POST only.")]
    MethodNotAllowed,
    /// The sentence is KubeMQ's.
    #[error("channel is required")]
    ChannelRequired,
    #[error("client_id is required")]
    ClientIdRequired,
    #[error("The channel's name {0}.")]
    InvalidChannel(String),
    #[error("The parameter {name} in the query must be {expected}.")]
    InvalidQuery {
        name: &'static str,
        expected: &'static str,
    },

    // Who asks.
    #[error(transparent)]
    Access(#[from] EventAccessError),

    // What the body says.
    #[error("The body is neither a CloudEvent in structured mode (Content-Type: application/cloudevents+json), nor several (application/cloudevents-batch+json), nor one in binary mode (a header ce-specversion).")]
    UnsupportedMediaType,
    /// Begins with KubeMQ's words.
    #[error("invalid CloudEvent: {0}.")]
    InvalidEvent(String),
    #[error("The body is larger than {MAX_BODY_BYTES} bytes.")]
    BodyTooLarge,
    #[error("The event is {size} bytes as JSON; at most {MAX_EVENT_BYTES} bytes can be sent. Send large data as a reference to where it is stored.")]
    EventTooLarge { size: usize },
    #[error("A batch holds at most {MAX_BATCH_EVENTS} events, not {count}.")]
    BatchCount { count: usize },
    #[error("The events of a batch must all name the same channel, so that it can be taken whole: send one batch to each.")]
    BatchChannels,
    #[error(
        "The header Idempotency-Key must be at most {} printable characters of ASCII.",
        limits::MAX_IDEMPOTENCY_KEY_BYTES
    )]
    InvalidIdempotencyKey,

    // What a channel can do now.
    /// Said by an object whose queue has gone or has another name now; the Worker looks again.
    #[error("There is no such channel.")]
    ChannelNotFound,
    #[error("The account has as many queues as it can have, so no channel can be made. Delete a queue first.")]
    TooManyChannels,
    #[error("The queue of this name has no http_pull consumer, so nothing can be received from it. Add one over Cloudflare's API.")]
    NoConsumer,
    #[error("Delivery from this channel is paused. Resume it over Cloudflare's API.")]
    Paused,
    #[error("More messages are out than a queue can keep track of ({}). Wait until some are acknowledged or their leases end.", limits::MAX_MESSAGES_OUT)]
    TooManyOut,
    #[error("The channel's storage is full, and nothing of this request was carried out. Receive messages or drain the channel with ack_all; on a machine of your own, make room on its disk.")]
    StorageFull,

    // What went wrong inside.
    #[error("Something went wrong inside. Nothing of this request was carried out; the server's log says more.")]
    Internal,
    #[error("The channel can't be reached at the moment. Whether this request was carried out is not known.")]
    Unreachable,
    #[error(
        "The channel did not answer in time. Whether this request was carried out is not known."
    )]
    TimedOut,
}

impl EventsError {
    /// The table: HTTP status, and after how many seconds to ask again where that helps.
    pub fn row(&self) -> (u16, Option<u32>) {
        match self {
            EventsError::UnknownPath | EventsError::ChannelNotFound => (404, None),
            EventsError::MethodNotAllowed => (405, None),
            EventsError::ChannelRequired
            | EventsError::ClientIdRequired
            | EventsError::InvalidChannel(_)
            | EventsError::InvalidQuery { .. }
            | EventsError::InvalidEvent(_)
            | EventsError::BatchCount { .. }
            | EventsError::BatchChannels
            | EventsError::InvalidIdempotencyKey => (400, None),

            EventsError::Access(EventAccessError::Denied { .. }) => (403, None),
            EventsError::Access(_) => (401, None),

            EventsError::UnsupportedMediaType => (415, None),
            EventsError::BodyTooLarge | EventsError::EventTooLarge { .. } => (413, None),

            EventsError::TooManyChannels => (403, None),
            EventsError::NoConsumer => (409, None),
            EventsError::Paused => (503, Some(5)),
            EventsError::TooManyOut => (429, Some(5)),
            EventsError::StorageFull => (429, Some(60)),

            EventsError::Internal => (500, None),
            EventsError::Unreachable => (503, Some(1)),
            EventsError::TimedOut => (504, None),
        }
    }

    /// Headers of the answer beside its content type.
    pub fn headers(&self) -> Vec<(&'static str, String)> {
        let (status, retry_after_s) = self.row();
        let mut headers = Vec::new();
        if let Some(seconds) = retry_after_s {
            headers.push(("retry-after", seconds.to_string()));
        }
        match status {
            401 => headers.push(("www-authenticate", "Bearer".into())),
            405 => headers.push(("allow", "POST".into())),
            _ => {}
        }
        headers
    }
}
