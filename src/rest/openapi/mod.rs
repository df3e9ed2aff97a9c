//! The description of the API (OpenAPI 3.1), which the Worker serves to everybody.
//!
//! It stands in `openapi.json` at the top of the repository. That file is generated, from the same
//! limits and the same table of errors that the API itself goes by, and a test compares the two;
//! `UPDATE=1 cargo test openapi` writes it anew.
//!
//! - `describe`: the endpoints, and how they become a document
//! - `schemas`: what is sent and answered
//! - `check`: whether a JSON value is what a schema says

#[cfg(test)]
mod check;
#[cfg(test)]
mod describe;
#[cfg(test)]
mod schemas;
#[cfg(test)]
mod tests;

use super::envelope::Answer;
use crate::wire::answer::json_content_type;

const DESCRIPTION: &str = include_str!("../../../openapi.json");

/// The answer to `GET /openapi.json`: the description alone, without the envelope.
pub fn answer() -> Answer {
    Answer {
        status: 200,
        headers: vec![json_content_type()],
        body: DESCRIPTION.as_bytes().to_vec(),
    }
}
