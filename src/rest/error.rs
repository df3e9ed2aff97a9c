//! Every error that the REST API answers, with its status and code; nobody else maps errors to
//! HTTP.
//!
//! Policy: a peer's fault names the field and says what to do. What went wrong inside is said in
//! the log and not to the peer. An answer to somebody without the right to know says nothing about
//! what exists.
//!
//! Codes are Cloudflare's where Cloudflare publishes one (its error code page for Queues: 101xx,
//! 102xx and 15000 of the messages' endpoints) or has been seen to answer one (70xx of the whole
//! API, 10000, 10026, 110xx and 1001xx of the control plane). Codes from 19000 on are pullq's own,
//! for errors whose code Cloudflare publishes nowhere.

use super::json::Wrong;
use crate::access::AccessError;
use crate::directory::{AddConsumerError, ConsumerError, CreateError, UpdateError};
use crate::queue::limits;
use crate::queue::{PullError, RedriveError, SendError, SqlError};
use thiserror::Error;

/// Which half of the API is asked: both know queues, and answer other codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plane {
    /// The endpoints below `/messages`.
    Messages,
    /// Everything else.
    Control,
}

/// An error as a client sees it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ApiError {
    // What the request asks for.
    #[error(
        "No route for that URI. Queues are found under /client/v4/accounts/{{account_id}}/queues."
    )]
    UnknownRoute,
    #[error("This method is not available for that URI. Allowed: {allow}.")]
    MethodNotAllowed {
        /// The methods that are, as the header `allow` lists them.
        allow: String,
    },
    #[error("The account id in the path is malformed: it must be 32 hexadecimal digits.")]
    MalformedAccountId,
    #[error("The queue id in the path is malformed: it must be the 32 hexadecimal digits that GET /queues lists as queue_id, not the queue's name.")]
    MalformedQueueId,
    #[error("The {what} in the path is malformed: it must be 32 hexadecimal digits.")]
    MalformedId { what: &'static str },
    #[error("The parameter {name} in the query must be {expected}.")]
    InvalidQuery {
        name: &'static str,
        expected: &'static str,
    },

    // Who asks.
    #[error(transparent)]
    Access(#[from] AccessError),

    // What the body says.
    #[error("The body is larger than {} bytes.", super::json::MAX_BODY_BYTES)]
    BodyTooLarge,
    #[error("The body can't be read as JSON: {why}.")]
    MalformedBody { why: String },
    #[error("{0}")]
    InvalidField(Wrong),
    #[error("{0}")]
    InvalidDelay(Wrong),
    #[error("{0}")]
    InvalidMetadata(Wrong),
    #[error("{}", sentence_message_too_large(.index, .size))]
    MessageTooLarge {
        /// Its place in the batch, from 0; `None` for a message sent alone.
        index: Option<usize>,
        /// Bytes of its body.
        size: u64,
    },
    #[error("The bodies of the batch are {size} bytes together; at most {} bytes can be sent at once. Send smaller batches.", limits::MAX_BATCH_BYTES)]
    BatchTooLarge {
        /// Bytes of all bodies.
        size: u64,
    },
    #[error(
        "A batch holds 1 to {} messages, not {count}.",
        limits::MAX_BATCH_MESSAGES
    )]
    BatchCount { count: usize },
    #[error(
        "The header Idempotency-Key must be at most {} printable characters of ASCII.",
        limits::MAX_IDEMPOTENCY_KEY_BYTES
    )]
    InvalidIdempotencyKey,
    #[error("{0}")]
    InvalidRequest(Wrong),
    #[error("{0}")]
    InvalidQueueName(Wrong),
    #[error("{0}")]
    InvalidQueueSettings(Wrong),
    #[error("{0}")]
    InvalidConsumerSettings(Wrong),
    #[error("pullq serves pull consumers only: create the consumer with \"type\": \"http_pull\" and let the Worker pull, or send it the messages over HTTP.")]
    UnsupportedConsumerType,
    #[error("Events of Cloudflare's services don't reach a self-hosted queue, so there is nothing to subscribe to. Let the producer send to POST /queues/{{queue_id}}/messages.")]
    SubscriptionsUnsupported,

    // What there is.
    #[error("There is no queue with this id in this account. GET /queues lists those there are.")]
    QueueNotFound(Plane),
    #[error("There is no consumer with this id on this queue. GET /queues/{{queue_id}}/consumers lists those there are.")]
    ConsumerNotFound,
    #[error("There is no event subscription with this id.")]
    SubscriptionNotFound,
    #[error(
        "A queue of this name already exists in this account. Use it, or choose another name."
    )]
    QueueExists,
    #[error("This queue already has a consumer, and a queue has at most one. Replace it with PUT /queues/{{queue_id}}/consumers/{{consumer_id}}, or delete it first.")]
    ConsumerExists,
    #[error("This queue's consumer has a dead-letter queue of this name, and a queue can't be its own. Choose another name, or change the consumer first.")]
    OwnDeadLetterQueue,
    #[error("A redrive of this queue is running already. Stop it with DELETE /queues/{{queue_id}}/redrive, or wait until GET says that it has completed.")]
    RedriveRunning,
    #[error("There is no queue of the name in destination_queue_name in this account. Create it first, or leave the field out: then each message goes back to the queue in which it died.")]
    DestinationNotFound,
    #[error("A queue's messages can't be moved to the queue itself. Name another one in destination_queue_name.")]
    OwnDestination,
    #[error(
        "This account has {} queues, which is the most an account can have. Delete one first.",
        crate::directory::MAX_QUEUES
    )]
    TooManyQueues,

    // What a queue can do now.
    #[error("This queue has no http_pull consumer, so nothing can be pulled from it. Add one: POST /accounts/{{account_id}}/queues/{{queue_id}}/consumers with {{\"type\": \"http_pull\"}}, or: wrangler queues consumer http add <queue-name>.")]
    NoConsumer,
    /// Cloudflare's page on pausing gives exactly this message.
    #[error("queue_delivery_paused")]
    DeliveryPaused,
    #[error("More messages are out than a queue can keep track of ({}). Acknowledge some of what was pulled, or wait until leases end.", limits::MAX_MESSAGES_OUT)]
    TooManyOut,
    #[error("The queue's storage is full, and nothing of this request was carried out. Acknowledge messages or purge the queue; on a machine of your own, make room on its disk.")]
    StorageFull,

    // What went wrong inside.
    #[error("Something went wrong inside. Nothing of this request was carried out; the server's log says more.")]
    Internal,
    #[error("The queue can't be reached at the moment. Whether this request was carried out is not known.")]
    Unreachable,
    #[error(
        "The queue did not answer in time. Whether this request was carried out is not known."
    )]
    TimedOut,
}

fn sentence_message_too_large(index: &Option<usize>, size: &u64) -> String {
    let which = match index {
        Some(index) => format!("messages[{index}]"),
        None => "The message".into(),
    };
    let most = limits::MAX_MESSAGE_BYTES;
    format!("{which} is {size} bytes; at most {most} bytes can be sent. Send large data as a reference to where it is stored.")
}

/// What a client is told about asking again. Cloudflare's SDKs ask again by themselves on 408, 409,
/// 429 and from 500 on, unless `x-should-retry` says no.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// Nothing: the status says enough.
    ByStatus,
    /// Asking again can't help: `x-should-retry: false`.
    Never,
    /// After so many seconds: `retry-after`.
    After(u32),
}

impl ApiError {
    /// The table: HTTP status, code, and whether to ask again.
    pub fn row(&self) -> (u16, u32, Again) {
        use Again::{After, ByStatus, Never};
        match self {
            ApiError::UnknownRoute => (404, 7003, ByStatus),
            ApiError::MethodNotAllowed { .. } => (405, 7001, ByStatus),
            ApiError::MalformedAccountId => (400, 7003, ByStatus),
            ApiError::MalformedQueueId => (400, 10107, ByStatus),
            ApiError::MalformedId { .. } => (400, 7003, ByStatus),
            ApiError::InvalidQuery { .. } => (400, 10026, ByStatus),

            ApiError::Access(AccessError::Insufficient) => (403, 10106, ByStatus),
            ApiError::Access(AccessError::TooManyWrong { retry_after_s }) => {
                (429, 10000, After(*retry_after_s))
            }
            ApiError::Access(_) => (401, 10000, ByStatus),

            ApiError::BodyTooLarge => (413, 10205, ByStatus),
            ApiError::MalformedBody { .. } => (400, 10208, ByStatus),
            ApiError::InvalidField(_) => (400, 10207, ByStatus),
            ApiError::InvalidDelay(_) => (400, 10202, ByStatus),
            ApiError::InvalidMetadata(_) => (400, 10203, ByStatus),
            ApiError::MessageTooLarge { .. } => (413, 10204, ByStatus),
            ApiError::BatchTooLarge { .. } => (413, 10205, ByStatus),
            ApiError::BatchCount { .. } => (400, 10206, ByStatus),
            ApiError::InvalidIdempotencyKey => (400, 10203, ByStatus),
            ApiError::InvalidRequest(_) => (400, 10026, ByStatus),
            ApiError::InvalidQueueName(_) => (400, 11003, ByStatus),
            ApiError::InvalidQueueSettings(_) => (400, 100128, ByStatus),
            ApiError::InvalidConsumerSettings(_) => (400, 100127, ByStatus),
            ApiError::UnsupportedConsumerType => (400, 10026, ByStatus),
            // Understood and refused, whatever the body and whoever asks.
            ApiError::SubscriptionsUnsupported => (403, 19004, ByStatus),

            ApiError::QueueNotFound(Plane::Messages) => (404, 10104, ByStatus),
            ApiError::QueueNotFound(Plane::Control) => (404, 11000, ByStatus),
            ApiError::ConsumerNotFound => (404, 11006, ByStatus),
            ApiError::SubscriptionNotFound => (404, 19005, ByStatus),
            ApiError::QueueExists => (409, 11009, Never),
            ApiError::ConsumerExists => (409, 11004, Never),
            ApiError::OwnDeadLetterQueue => (409, 19008, Never),
            ApiError::RedriveRunning => (409, 19009, Never),
            ApiError::DestinationNotFound => (404, 19010, ByStatus),
            ApiError::OwnDestination => (409, 19011, Never),
            ApiError::TooManyQueues => (403, 19003, ByStatus),

            ApiError::NoConsumer => (405, 19001, ByStatus),
            ApiError::DeliveryPaused => (409, 19002, Never),
            ApiError::TooManyOut => (429, 10250, After(5)),
            ApiError::StorageFull => (429, 10251, Never),

            ApiError::Internal => (500, 15000, ByStatus),
            ApiError::Unreachable => (503, 19006, After(1)),
            ApiError::TimedOut => (504, 19007, ByStatus),
        }
    }

    /// Where in the body the trouble is, as a JSON pointer (RFC 6901).
    pub fn pointer(&self) -> Option<String> {
        match self {
            ApiError::InvalidField(wrong)
            | ApiError::InvalidDelay(wrong)
            | ApiError::InvalidMetadata(wrong)
            | ApiError::InvalidRequest(wrong)
            | ApiError::InvalidQueueName(wrong)
            | ApiError::InvalidQueueSettings(wrong)
            | ApiError::InvalidConsumerSettings(wrong) => wrong.pointer.clone(),
            ApiError::MessageTooLarge { index: None, .. } => Some("/body".into()),
            ApiError::MessageTooLarge {
                index: Some(index), ..
            } => Some(format!("/messages/{index}/body")),
            ApiError::BatchTooLarge { .. } | ApiError::BatchCount { .. } => {
                Some("/messages".into())
            }
            ApiError::UnsupportedConsumerType => Some("/type".into()),
            _ => None,
        }
    }

    /// Headers of the answer beside its content type.
    pub fn headers(&self) -> Vec<(&'static str, String)> {
        let mut headers = Vec::new();
        let (status, _, again) = self.row();
        match again {
            Again::ByStatus => {}
            Again::Never => headers.push(("x-should-retry", "false".into())),
            Again::After(seconds) => headers.push(("retry-after", seconds.to_string())),
        }
        match self {
            ApiError::MethodNotAllowed { allow } => headers.push(("allow", allow.clone())),
            // RFC 9110: an empty list, because at the moment no method works here.
            ApiError::NoConsumer => headers.push(("allow", String::new())),
            _ if status == 401 => headers.push(("www-authenticate", "Bearer".into())),
            _ => {}
        }
        headers
    }
}

/// Whoever converts logs the error first: the peer is told nothing of it.
impl From<SqlError> for ApiError {
    fn from(error: SqlError) -> ApiError {
        match error {
            SqlError::Full => ApiError::StorageFull,
            SqlError::Refused(_) | SqlError::Corrupt(_) => ApiError::Internal,
        }
    }
}

impl From<SendError> for ApiError {
    fn from(error: SendError) -> ApiError {
        match error {
            SendError::Storage(error) => error.into(),
        }
    }
}

impl From<PullError> for ApiError {
    fn from(error: PullError) -> ApiError {
        match error {
            PullError::NoConsumer => ApiError::NoConsumer,
            PullError::Paused => ApiError::DeliveryPaused,
            PullError::TooManyOut => ApiError::TooManyOut,
            PullError::Storage(error) => error.into(),
        }
    }
}

impl From<RedriveError> for ApiError {
    fn from(error: RedriveError) -> ApiError {
        match error {
            RedriveError::Running => ApiError::RedriveRunning,
            RedriveError::OwnDestination => ApiError::OwnDestination,
            RedriveError::Storage(error) => error.into(),
        }
    }
}

impl From<CreateError> for ApiError {
    fn from(error: CreateError) -> ApiError {
        match error {
            CreateError::NameTaken => ApiError::QueueExists,
            CreateError::Full => ApiError::TooManyQueues,
            CreateError::Storage(error) => error.into(),
        }
    }
}

impl From<UpdateError> for ApiError {
    fn from(error: UpdateError) -> ApiError {
        match error {
            UpdateError::QueueNotFound => ApiError::QueueNotFound(Plane::Control),
            UpdateError::NameTaken => ApiError::QueueExists,
            UpdateError::OwnDeadLetterQueue => ApiError::OwnDeadLetterQueue,
            UpdateError::Storage(error) => error.into(),
        }
    }
}

impl From<AddConsumerError> for ApiError {
    fn from(error: AddConsumerError) -> ApiError {
        match error {
            AddConsumerError::QueueNotFound => ApiError::QueueNotFound(Plane::Control),
            AddConsumerError::ConsumerExists => ApiError::ConsumerExists,
            AddConsumerError::Storage(error) => error.into(),
        }
    }
}

impl From<ConsumerError> for ApiError {
    fn from(error: ConsumerError) -> ApiError {
        match error {
            ConsumerError::QueueNotFound => ApiError::QueueNotFound(Plane::Control),
            ConsumerError::ConsumerNotFound => ApiError::ConsumerNotFound,
            ConsumerError::Storage(error) => error.into(),
        }
    }
}

/// Every error with an example of what it says, for the tests and what they keep up to date: the
/// README's table and the API description.
#[cfg(test)]
pub mod every {
    use super::*;

    fn wrong(pointer: &str, sentence: &str) -> Wrong {
        Wrong {
            pointer: Some(pointer.into()),
            sentence: sentence.into(),
        }
    }

    pub const UNKNOWN_ROUTE: ApiError = ApiError::UnknownRoute;

    pub fn method_not_allowed() -> ApiError {
        ApiError::MethodNotAllowed {
            allow: "GET, POST".into(),
        }
    }

    pub fn malformed_consumer_id() -> ApiError {
        ApiError::MalformedId {
            what: "consumer id",
        }
    }

    pub fn invalid_query() -> ApiError {
        ApiError::InvalidQuery {
            name: "per_page",
            expected: "a whole number from 1 to 100",
        }
    }

    pub fn too_many_wrong() -> ApiError {
        ApiError::Access(AccessError::TooManyWrong { retry_after_s: 60 })
    }

    pub fn malformed_body() -> ApiError {
        ApiError::MalformedBody {
            why: "trailing comma at line 1 column 12".into(),
        }
    }

    pub fn invalid_field() -> ApiError {
        ApiError::InvalidField(wrong(
            "/batch_size",
            "batch_size must be a whole number from 1 to 100, not 101.",
        ))
    }

    pub fn invalid_delay() -> ApiError {
        ApiError::InvalidDelay(wrong(
            "/delay_seconds",
            "delay_seconds must be a whole number from 0 to 86400, not -1.",
        ))
    }

    pub fn invalid_metadata() -> ApiError {
        ApiError::InvalidMetadata(wrong(
            "/content_type",
            "content_type must be \"json\", \"text\", \"bytes\" or \"v8\", not the string \"xml\".",
        ))
    }

    pub fn message_too_large() -> ApiError {
        ApiError::MessageTooLarge {
            index: None,
            size: 128_001,
        }
    }

    pub fn batch_too_large() -> ApiError {
        ApiError::BatchTooLarge { size: 256_001 }
    }

    pub fn batch_count() -> ApiError {
        ApiError::BatchCount { count: 101 }
    }

    pub fn invalid_request() -> ApiError {
        ApiError::InvalidRequest(wrong("/type", "type is missing: it must be \"http_pull\"."))
    }

    pub fn invalid_queue_name() -> ApiError {
        ApiError::InvalidQueueName(wrong(
            "/queue_name",
            "queue_name must be 1 to 63 letters, digits, hyphens, underscores and dots, not the string \"a b\".",
        ))
    }

    pub fn invalid_queue_settings() -> ApiError {
        ApiError::InvalidQueueSettings(wrong(
            "/settings/delivery_paused",
            "settings.delivery_paused must be true or false, not 1.",
        ))
    }

    pub fn invalid_consumer_settings() -> ApiError {
        ApiError::InvalidConsumerSettings(wrong(
            "/settings/max_retries",
            "settings.max_retries must be a whole number from 0 to 100, not 101.",
        ))
    }

    /// A name for the tests. Whoever adds an error here adds it to [`errors`] as well.
    pub fn name(error: &ApiError) -> &'static str {
        match error {
            ApiError::UnknownRoute => "UnknownRoute",
            ApiError::MethodNotAllowed { .. } => "MethodNotAllowed",
            ApiError::MalformedAccountId => "MalformedAccountId",
            ApiError::MalformedQueueId => "MalformedQueueId",
            ApiError::MalformedId { .. } => "MalformedId",
            ApiError::InvalidQuery { .. } => "InvalidQuery",
            ApiError::BodyTooLarge => "BodyTooLarge",
            ApiError::MalformedBody { .. } => "MalformedBody",
            ApiError::InvalidField(_) => "InvalidField",
            ApiError::InvalidDelay(_) => "InvalidDelay",
            ApiError::InvalidMetadata(_) => "InvalidMetadata",
            ApiError::InvalidIdempotencyKey => "InvalidIdempotencyKey",
            ApiError::MessageTooLarge { .. } => "MessageTooLarge",
            ApiError::BatchTooLarge { .. } => "BatchTooLarge",
            ApiError::BatchCount { .. } => "BatchCount",
            ApiError::InvalidRequest(_) => "InvalidRequest",
            ApiError::InvalidQueueName(_) => "InvalidQueueName",
            ApiError::InvalidQueueSettings(_) => "InvalidQueueSettings",
            ApiError::InvalidConsumerSettings(_) => "InvalidConsumerSettings",
            ApiError::UnsupportedConsumerType => "UnsupportedConsumerType",
            ApiError::SubscriptionsUnsupported => "SubscriptionsUnsupported",
            ApiError::QueueNotFound(_) => "QueueNotFound",
            ApiError::ConsumerNotFound => "ConsumerNotFound",
            ApiError::SubscriptionNotFound => "SubscriptionNotFound",
            ApiError::QueueExists => "QueueExists",
            ApiError::ConsumerExists => "ConsumerExists",
            ApiError::OwnDeadLetterQueue => "OwnDeadLetterQueue",
            ApiError::RedriveRunning => "RedriveRunning",
            ApiError::DestinationNotFound => "DestinationNotFound",
            ApiError::OwnDestination => "OwnDestination",
            ApiError::TooManyQueues => "TooManyQueues",
            ApiError::NoConsumer => "NoConsumer",
            ApiError::DeliveryPaused => "DeliveryPaused",
            ApiError::TooManyOut => "TooManyOut",
            ApiError::StorageFull => "StorageFull",
            ApiError::Internal => "Internal",
            ApiError::Unreachable => "Unreachable",
            ApiError::TimedOut => "TimedOut",
            ApiError::Access(AccessError::NotConfigured) => "NotConfigured",
            ApiError::Access(AccessError::Unreadable(_)) => "Unreadable",
            ApiError::Access(AccessError::Missing) => "Missing",
            ApiError::Access(AccessError::Wrong) => "Wrong",
            ApiError::Access(AccessError::Insufficient) => "Insufficient",
            ApiError::Access(AccessError::TooManyWrong { .. }) => "TooManyWrong",
        }
    }

    /// All of them, in the order in which the README lists them.
    pub fn errors() -> Vec<ApiError> {
        vec![
            UNKNOWN_ROUTE,
            method_not_allowed(),
            ApiError::MalformedAccountId,
            ApiError::MalformedQueueId,
            malformed_consumer_id(),
            invalid_query(),
            ApiError::Access(AccessError::NotConfigured),
            ApiError::Access(AccessError::Unreadable("in token 1, name is empty".into())),
            ApiError::Access(AccessError::Missing),
            ApiError::Access(AccessError::Wrong),
            too_many_wrong(),
            ApiError::Access(AccessError::Insufficient),
            malformed_body(),
            ApiError::BodyTooLarge,
            invalid_field(),
            invalid_delay(),
            invalid_metadata(),
            ApiError::InvalidIdempotencyKey,
            message_too_large(),
            batch_too_large(),
            batch_count(),
            invalid_request(),
            invalid_queue_name(),
            invalid_queue_settings(),
            invalid_consumer_settings(),
            ApiError::UnsupportedConsumerType,
            ApiError::SubscriptionsUnsupported,
            ApiError::QueueNotFound(Plane::Messages),
            ApiError::QueueNotFound(Plane::Control),
            ApiError::ConsumerNotFound,
            ApiError::SubscriptionNotFound,
            ApiError::QueueExists,
            ApiError::ConsumerExists,
            ApiError::OwnDeadLetterQueue,
            ApiError::RedriveRunning,
            ApiError::DestinationNotFound,
            ApiError::OwnDestination,
            ApiError::TooManyQueues,
            ApiError::NoConsumer,
            ApiError::DeliveryPaused,
            ApiError::TooManyOut,
            ApiError::StorageFull,
            ApiError::Internal,
            ApiError::Unreachable,
            ApiError::TimedOut,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::every::{errors, name};
    use super::*;

    /// Clients decide by status and code: neither may change unnoticed.
    #[test]
    fn the_table_is_pinned() {
        let rows: Vec<String> = errors()
            .iter()
            .map(|error| {
                let (status, code, again) = error.row();
                format!("{} {status} {code} {again:?}", name(error))
            })
            .collect();
        let expected = [
            "UnknownRoute 404 7003 ByStatus",
            "MethodNotAllowed 405 7001 ByStatus",
            "MalformedAccountId 400 7003 ByStatus",
            "MalformedQueueId 400 10107 ByStatus",
            "MalformedId 400 7003 ByStatus",
            "InvalidQuery 400 10026 ByStatus",
            "NotConfigured 401 10000 ByStatus",
            "Unreadable 401 10000 ByStatus",
            "Missing 401 10000 ByStatus",
            "Wrong 401 10000 ByStatus",
            "TooManyWrong 429 10000 After(60)",
            "Insufficient 403 10106 ByStatus",
            "MalformedBody 400 10208 ByStatus",
            "BodyTooLarge 413 10205 ByStatus",
            "InvalidField 400 10207 ByStatus",
            "InvalidDelay 400 10202 ByStatus",
            "InvalidMetadata 400 10203 ByStatus",
            "InvalidIdempotencyKey 400 10203 ByStatus",
            "MessageTooLarge 413 10204 ByStatus",
            "BatchTooLarge 413 10205 ByStatus",
            "BatchCount 400 10206 ByStatus",
            "InvalidRequest 400 10026 ByStatus",
            "InvalidQueueName 400 11003 ByStatus",
            "InvalidQueueSettings 400 100128 ByStatus",
            "InvalidConsumerSettings 400 100127 ByStatus",
            "UnsupportedConsumerType 400 10026 ByStatus",
            "SubscriptionsUnsupported 403 19004 ByStatus",
            "QueueNotFound 404 10104 ByStatus",
            "QueueNotFound 404 11000 ByStatus",
            "ConsumerNotFound 404 11006 ByStatus",
            "SubscriptionNotFound 404 19005 ByStatus",
            "QueueExists 409 11009 Never",
            "ConsumerExists 409 11004 Never",
            "OwnDeadLetterQueue 409 19008 Never",
            "RedriveRunning 409 19009 Never",
            "DestinationNotFound 404 19010 ByStatus",
            "OwnDestination 409 19011 Never",
            "TooManyQueues 403 19003 ByStatus",
            "NoConsumer 405 19001 ByStatus",
            "DeliveryPaused 409 19002 Never",
            "TooManyOut 429 10250 After(5)",
            "StorageFull 429 10251 Never",
            "Internal 500 15000 ByStatus",
            "Unreachable 503 19006 After(1)",
            "TimedOut 504 19007 ByStatus",
        ];
        assert_eq!(rows, expected);
    }

    const BEGIN: &str = "<!-- errors, written by a test of src/rest/error.rs -->\n";
    const END: &str = "<!-- errors end -->\n";

    /// The README's table; `UPDATE=1 cargo test readme` writes it anew.
    #[test]
    fn the_readme_lists_every_error() {
        let mut table = String::from(
            "| status | code | message, for example | asking again |\n| --- | --- | --- | --- |\n",
        );
        for error in errors() {
            let (status, code, again) = error.row();
            let again = match again {
                Again::ByStatus => String::new(),
                Again::Never => "`x-should-retry: false`".into(),
                Again::After(seconds) => format!("`retry-after: {seconds}`"),
            };
            let message = error.to_string().replace('|', "\\|").replace('<', "&lt;");
            table.push_str(&format!("| {status} | {code} | {message} | {again} |\n"));
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
        let readme = std::fs::read_to_string(path).expect("README.md");
        let (before, rest) = readme.split_once(BEGIN).expect("the table's begin");
        let (committed, after) = rest.split_once(END).expect("the table's end");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(path, format!("{before}{BEGIN}{table}{END}{after}")).expect("written");
            return;
        }
        for (committed, fresh) in committed.lines().zip(table.lines()) {
            assert_eq!(committed, fresh, "run UPDATE=1 cargo test readme");
        }
        assert_eq!(committed, table, "run UPDATE=1 cargo test readme");
    }

    /// Cloudflare's SDKs ask again by themselves on these statuses: each must say when, or that it
    /// is of no use, or be one that another try can mend.
    #[test]
    fn no_client_repeats_what_can_not_succeed() {
        for error in errors() {
            let (status, code, again) = error.row();
            let is_repeated = matches!(status, 408 | 409 | 429 | 500..);
            let can_be_mended = matches!(error, ApiError::Internal | ApiError::TimedOut);
            assert_eq!(
                is_repeated && !can_be_mended,
                again != Again::ByStatus,
                "{error:?}"
            );
            assert!(code >= 1_000, "{error:?}: Cloudflare's codes begin at 1000");
        }
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let cases = [
            (
                ApiError::MessageTooLarge { index: Some(3), size: 128_001 },
                "messages[3] is 128001 bytes; at most 128000 bytes can be sent. Send large data as a reference to where it is stored.",
            ),
            (ApiError::BatchCount { count: 101 }, "A batch holds 1 to 100 messages, not 101."),
            (ApiError::DeliveryPaused, "queue_delivery_paused"),
            (
                ApiError::UnknownRoute,
                "No route for that URI. Queues are found under /client/v4/accounts/{account_id}/queues.",
            ),
            (
                ApiError::NoConsumer,
                "This queue has no http_pull consumer, so nothing can be pulled from it. Add one: POST /accounts/{account_id}/queues/{queue_id}/consumers with {\"type\": \"http_pull\"}, or: wrangler queues consumer http add <queue-name>.",
            ),
        ];
        for (error, expected) in cases {
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn headers_tell_clients_what_the_status_does_not() {
        let cases = [
            (ApiError::DeliveryPaused, vec![("x-should-retry", "false")]),
            (ApiError::TooManyOut, vec![("retry-after", "5")]),
            (
                ApiError::MethodNotAllowed {
                    allow: "GET, POST".into(),
                },
                vec![("allow", "GET, POST")],
            ),
            (ApiError::NoConsumer, vec![("allow", "")]),
            (
                ApiError::Access(AccessError::Missing),
                vec![("www-authenticate", "Bearer")],
            ),
            (ApiError::Access(AccessError::Insufficient), vec![]),
            (ApiError::BodyTooLarge, vec![]),
        ];
        for (error, expected) in cases {
            let headers = error.headers();
            let headers: Vec<_> = headers
                .iter()
                .map(|(name, value)| (*name, value.as_str()))
                .collect();
            assert_eq!(headers, expected, "{error:?}");
        }
    }
}
