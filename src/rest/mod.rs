//! Cloudflare's contract: what its Queues REST API says on the wire, and nothing else.
//!
//! Pure Rust. Everything here reads bytes and writes bytes; nobody here touches a queue, a clock or
//! the platform. Wire types stay here: what leaves is the queue's own types or an [`ApiError`].
//!
//! - [`route`]: a method and a path become a [`Route`]
//! - [`json`]: reads requests field by field, so that every refusal names the field
//! - [`messages`]: send, pull, settle, peek
//! - [`queues`], [`consumers`]: the control plane
//! - [`redrive`]: messages moved on
//! - [`accounts`]: what a token asks about itself
//! - [`page`]: lists and their query
//! - [`error`]: every error with its status and code, and nowhere else
//! - [`envelope`]: the outer form of every answer
//! - [`cors`]: whose pages may ask
//! - [`openapi`]: the description of all this

pub mod accounts;
pub mod consumers;
pub mod cors;
pub mod envelope;
pub mod error;
pub mod json;
pub mod messages;
pub mod openapi;
pub mod page;
pub mod queues;
pub mod redrive;
pub mod route;

pub use crate::wire::form;
pub use envelope::Answer;
pub use error::{ApiError, Plane};
pub use route::{AccountRoute, Id, MessageRoute, QueueRoute, Route};
