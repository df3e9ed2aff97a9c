//! `/queues/{queue_id}/redrive`, pullq's own: messages of a queue move on, for example dead letters
//! back to where they died.

use super::envelope::Answer;
use super::error::ApiError;
use super::json::{read_optional_body, Wrong};
use super::messages::settle::{items, named_token};
use crate::queue::limits::MAX_REDRIVE_PER_SECOND;
use crate::queue::{RedriveRequest, RedriveState, RedriveStatus};
use crate::wire::timestamp::timestamp;
use serde::Serialize;

/// Reads the body of `POST /redrive`. An empty body counts as `{}`: everything goes back to where it
/// died, as fast as it goes.
pub fn parse_redrive(body: &[u8]) -> Result<RedriveRequest, ApiError> {
    let [destination, rate, refs] = read_optional_body(
        body,
        ["destination_queue_name", "messages_per_second", "refs"],
        ApiError::InvalidField,
    )?;
    let read = || {
        let named = match refs.is_present() {
            false => None,
            true => Some(
                items(&refs, 0)?
                    .iter()
                    .map(|item| named_token(item, "ref"))
                    .collect::<Result<Vec<_>, Wrong>>()?,
            ),
        };
        Ok(RedriveRequest {
            destination: destination.text()?.map(|name| name.into_owned()),
            messages_per_second: rate.small_integer(1..=MAX_REDRIVE_PER_SECOND)?,
            refs: named,
        })
    };
    read().map_err(ApiError::InvalidField)
}

/// The answer to all three methods: how far the latest redrive is.
pub fn encode_redrive(status: Option<&RedriveStatus>) -> Answer {
    let Some(status) = status else {
        return Answer::of(&RedriveObject::default());
    };
    Answer::of(&RedriveObject {
        state: match status.state {
            RedriveState::Running => "running",
            RedriveState::Completed => "completed",
            RedriveState::Stopped => "stopped",
        },
        destination_queue_name: status.destination.as_deref(),
        messages_per_second: status.messages_per_second,
        messages_to_move: status.to_move,
        moved: status.moved,
        skipped: status.skipped,
        started_on: Some(timestamp(status.started_ms)),
        ended_on: status.ended_ms.map(timestamp),
    })
}

#[derive(Serialize)]
struct RedriveObject<'a> {
    state: &'static str,
    destination_queue_name: Option<&'a str>,
    messages_per_second: Option<u32>,
    messages_to_move: u64,
    moved: u64,
    skipped: u64,
    started_on: Option<String>,
    ended_on: Option<String>,
}

impl Default for RedriveObject<'_> {
    fn default() -> Self {
        RedriveObject {
            state: "none",
            destination_queue_name: None,
            messages_per_second: None,
            messages_to_move: 0,
            moved: 0,
            skipped: 0,
            started_on: None,
            ended_on: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redrive_says_what_moves_where_and_how_fast() {
        let all = RedriveRequest::default();
        for body in ["", "{}", r#"{"destination_queue_name":null,"refs":null}"#] {
            assert_eq!(parse_redrive(body.as_bytes()), Ok(all.clone()), "{body}");
        }
        let body =
            br#"{"destination_queue_name":"orders","messages_per_second":5,"refs":[{"ref":"a"},"b"]}"#;
        let some = RedriveRequest {
            destination: Some("orders".into()),
            messages_per_second: Some(5),
            refs: Some(vec!["a".into(), "b".into()]),
        };
        assert_eq!(parse_redrive(body), Ok(some));
    }

    #[test]
    fn what_is_wrong_with_a_redrive_is_named() {
        let cases = [
            (
                r#"{"messages_per_second":0}"#,
                "messages_per_second must be a whole number from 1 to 10000, not 0.",
            ),
            (
                r#"{"destination_queue_name":5}"#,
                "destination_queue_name must be a string, not 5.",
            ),
            (r#"{"refs":5}"#, "refs must be an array, not 5."),
            (
                r#"{"refs":[{}]}"#,
                "refs[0].ref is missing: it must be a string.",
            ),
        ];
        for (body, expected) in cases {
            let refusal = parse_redrive(body.as_bytes()).map_err(|error| error.to_string());
            assert_eq!(refusal, Err(expected.to_string()), "{body}");
        }
    }

    #[test]
    fn a_queue_that_was_never_redriven_says_so() {
        let answer = encode_redrive(None);
        let expected = r#"{"success":true,"errors":[],"messages":[],"result":{"state":"none","destination_queue_name":null,"messages_per_second":null,"messages_to_move":0,"moved":0,"skipped":0,"started_on":null,"ended_on":null}}"#;
        assert_eq!(String::from_utf8_lossy(&answer.body), expected);
    }
}
