//! What objects and the Worker say to each other besides requests of clients, which are handed on
//! as they came. Clients can't say these things: the Worker hands on nothing but routes of the API.

use crate::queue::record::Records;
use crate::queue::{Config, SqlError, TransferredMessage};
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
/// To a directory: the id of the queue of this name, made where there is none. The body is the
/// name, the answer [`Resolved`] as JSON.
pub const RESOLVE: &str = "/internal/resolve";

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
        let (heading, records) = body
            .iter()
            .position(|&byte| byte == b'\n')
            .and_then(|end| body.split_at_checked(end))
            .ok_or(HandoverError::NoHeading)?;
        let heading: Heading = serde_json::from_slice(heading)?;
        let mut records = Records::of(records.strip_prefix(b"\n").unwrap_or(records));
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
