//! What both faces of the wire share: the forms of stored content, answers, times, small pieces of
//! JSON. Knows neither Cloudflare's contract nor KubeMQ's.
//!
//! - [`form`]: the forms in which a message's content is stored
//! - [`answer`]: an answer in final form
//! - [`json`]: small pieces of JSON
//! - [`media`]: media types, as far as they say how data is represented
//! - [`percent`]: percent-encoding, undone
//! - [`timestamp`]: points in time in RFC 3339

pub mod answer;
pub mod form;
pub mod json;
pub mod media;
pub mod percent;
pub mod timestamp;

pub use answer::Answer;
