//! KubeMQ's CloudEvents endpoints for queues, and CloudEvents 1.0.2 itself (its JSON format and HTTP
//! binding): what they say on the wire, and nothing else.
//!
//! Pure Rust. Everything here reads bytes and writes bytes; nobody here touches a queue, a clock,
//! randomness or the platform. What leaves is the queue's own types or an [`EventsError`].
//!
//! - [`route`]: a method and a path become an [`Endpoint`]
//! - [`query`]: the parameters in the query
//! - [`event`]: an event, its attributes and the rules they keep
//! - [`structured`], [`binary`]: an event out of a request, by its content mode
//! - [`header`]: attributes' values in HTTP headers
//! - [`send`]: `POST /ce/queue/send`
//! - [`receive`]: `POST /ce/queue/receive` and `/ce/queue/ack_all`
//! - [`plain`]: a message from the other face, in KubeMQ's plain form
//! - [`answer`]: the outer form of every answer
//! - [`error`]: every error with its status, and nowhere else

pub mod answer;
pub mod binary;
pub mod error;
pub mod event;
pub mod header;
pub mod plain;
pub mod query;
pub mod receive;
pub mod route;
pub mod send;
pub mod structured;

pub use error::EventsError;
pub use route::Endpoint;
