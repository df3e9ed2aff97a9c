//! The outer form of every answer: `{"is_error", "message", "data"}` as JSON, whatever the outcome.
//! KubeMQ's documentation: the message of a success is "OK", the data of an error is null.

use super::error::EventsError;
use crate::wire::answer::json_content_type;
use crate::wire::json::put_json;
use crate::wire::Answer;

/// KubeMQ's status of a send: it is stored, its delivery is still to come.
pub const SENT: u16 = 202;
/// KubeMQ's status of everything else that succeeds.
pub const DONE: u16 = 200;

const SUCCESS: &[u8] = br#"{"is_error":false,"message":"OK","data":"#;

/// A success's body, with the data that `write` appends, in about `bytes`.
pub fn success(bytes: usize, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut body = Vec::with_capacity(bytes.saturating_add(64));
    body.extend_from_slice(SUCCESS);
    write(&mut body);
    body.push(b'}');
    body
}

/// A success whose body is `body`.
pub fn answer(status: u16, body: Vec<u8>) -> Answer {
    Answer {
        status,
        headers: vec![json_content_type()],
        body,
    }
}

impl From<&EventsError> for Answer {
    fn from(error: &EventsError) -> Answer {
        let mut headers = vec![json_content_type()];
        headers.extend(error.headers());
        let mut body = br#"{"is_error":true,"message":"#.to_vec();
        put_json(&mut body, &error.to_string());
        body.extend_from_slice(br#","data":null}"#);
        Answer {
            status: error.row().0,
            headers,
            body,
        }
    }
}

impl From<EventsError> for Answer {
    fn from(error: EventsError) -> Answer {
        Answer::from(&error)
    }
}
