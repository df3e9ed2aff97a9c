//! `POST /messages/peek` and `/messages/purge`: messages looked at without a lease, and deleted by
//! the refs that a look gave. Below `/messages/preview` the same in its older form, whose messages
//! carry the ref as `lease_id`.

use super::super::envelope::{put_json, Answer};
use super::super::error::ApiError;
use super::super::json::{read_body, read_optional_body, Wrong};
use super::settle::{items, named_token, token};
use super::{put_list, put_warnings, Shown, SHOWN_BYTES};
use crate::queue::limits::{DEFAULT_BATCH_SIZE, MAX_BATCH_MESSAGES};
use crate::queue::{Peeked, RefPurge};

/// Which of the two forms an answer takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeekForm {
    /// `/messages/peek`
    Peek,
    /// `/messages/preview`
    Preview,
}

/// Reads the body of `POST /messages/peek` or `/messages/preview`: how many messages to look at,
/// 1 to 100. An empty body counts as `{}`.
pub fn parse_peek(body: &[u8]) -> Result<u32, ApiError> {
    let [batch_size] = read_optional_body(body, ["batch_size"], ApiError::InvalidField)?;
    let count = batch_size
        .small_integer(1..=MAX_BATCH_MESSAGES)
        .map_err(ApiError::InvalidField)?;
    Ok(count.unwrap_or(DEFAULT_BATCH_SIZE))
}

/// Reads the body of `POST /messages/purge`, `{"refs": [{"ref"}]}`: the refs.
pub fn parse_refs(body: &[u8]) -> Result<Vec<String>, ApiError> {
    let [refs] = read_body(body, ["refs"], ApiError::InvalidField)?;
    let read = || {
        refs.required(refs.is_present().then_some(()), "an array of refs")?;
        items(&refs, 0)?
            .iter()
            .map(|item| named_token(item, "ref"))
            .collect::<Result<_, Wrong>>()
    };
    read().map_err(ApiError::InvalidField)
}

/// Reads the body of `POST /messages/preview/ack`: the refs to delete. A preview takes no lease, so
/// retries have nothing to give back and are passed over.
pub fn parse_preview_ack(body: &[u8]) -> Result<Vec<String>, ApiError> {
    let [acks] = read_body(body, ["acks"], ApiError::InvalidField)?;
    let read = || {
        items(&acks, 0)?
            .iter()
            .map(token)
            .collect::<Result<_, Wrong>>()
    };
    read().map_err(ApiError::InvalidField)
}

/// The answer to a peek or preview.
pub fn encode_peeked(peeked: &[Peeked], form: PeekForm) -> Result<Answer, ApiError> {
    let contents: usize = peeked.iter().map(|message| message.content.len()).sum();
    let mut served = Some(());
    let key = match form {
        PeekForm::Peek => "ref",
        PeekForm::Preview => "lease_id",
    };
    let answer = Answer::built(contents + peeked.len() * SHOWN_BYTES, |out| {
        out.extend_from_slice(b"{\"messages\":");
        served = put_list(
            out,
            peeked.iter().map(|message| Shown {
                id: &message.id,
                sent_ms: message.sent_ms,
                attempts: message.attempts,
                form: message.form,
                death: message.death.as_ref(),
                content: &message.content,
                token: (key, &message.reference),
            }),
        );
        out.push(b'}');
    });
    served.map(|()| answer).ok_or(ApiError::Internal)
}

/// The answer to a purge by refs, in both forms: `errors` is empty, since a purge is carried out
/// whole or not at all.
pub fn encode_refs_purged(purge: &RefPurge, form: PeekForm) -> Answer {
    Answer::built(purge.warnings.len() * 256, |out| {
        out.extend_from_slice(match form {
            PeekForm::Peek => b"{\"errors\":[],\"purgedCount\":".as_slice(),
            PeekForm::Preview => b"{\"purgedCount\":",
        });
        put_json(out, &purge.purged);
        out.extend_from_slice(b",\"warnings\":");
        put_warnings(out, &purge.warnings);
        out.push(b'}');
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peek_says_how_many() {
        assert_eq!(parse_peek(b""), Ok(5));
        assert_eq!(parse_peek(b"{}"), Ok(5));
        assert_eq!(parse_peek(br#"{"batch_size":100}"#), Ok(100));
        let refusal = parse_peek(br#"{"batch_size":101}"#).map_err(|error| error.to_string());
        assert_eq!(
            refusal,
            Err("batch_size must be a whole number from 1 to 100, not 101.".into())
        );
    }

    #[test]
    fn refs_are_read_and_missing_ones_refused() {
        let refs = vec!["a".to_string(), "b".to_string()];
        assert_eq!(
            parse_refs(br#"{"refs":[{"ref":"a"},"b"]}"#),
            Ok(refs.clone())
        );
        assert_eq!(
            parse_preview_ack(br#"{"acks":[{"lease_id":"a"},"b"],"retries":[{"lease_id":"c"}]}"#),
            Ok(refs)
        );
        let cases = [
            ("{}", "refs is missing: it must be an array of refs."),
            (
                r#"{"refs":[{}]}"#,
                "refs[0].ref is missing: it must be a string.",
            ),
            (r#"{"refs":5}"#, "refs must be an array, not 5."),
        ];
        for (body, expected) in cases {
            let refusal = parse_refs(body.as_bytes()).map_err(|error| error.to_string());
            assert_eq!(refusal, Err(expected.to_string()), "{body}");
        }
    }

    #[test]
    fn a_peeked_message_carries_a_ref_and_a_previewed_one_a_lease_id() {
        let peeked = [Peeked {
            id: [0xab; 16],
            sent_ms: 9,
            attempts: 0,
            form: 0,
            death: None,
            content: br#""body":"hi","metadata":{}"#.to_vec(),
            reference: "r1".into(),
        }];
        for (form, key) in [(PeekForm::Peek, "ref"), (PeekForm::Preview, "lease_id")] {
            let answer = encode_peeked(&peeked, form).expect("a known form");
            let expected = format!(
                r#"{{"success":true,"errors":[],"messages":[],"result":{{"messages":[{{"id":"abababababababababababababababab","timestamp_ms":9,"attempts":0,"body":"hi","metadata":{{}},"{key}":"r1"}}]}}}}"#
            );
            assert_eq!(String::from_utf8_lossy(&answer.body), expected);
        }
    }

    #[test]
    fn a_purge_by_refs_answers_errors_and_warnings() {
        let purge = RefPurge {
            purged: 2,
            warnings: vec![("r1".into(), "Gone.".into())],
        };
        assert_eq!(
            String::from_utf8_lossy(&encode_refs_purged(&purge, PeekForm::Peek).body),
            r#"{"success":true,"errors":[],"messages":[],"result":{"errors":[],"purgedCount":2,"warnings":{"r1":"Gone."}}}"#
        );
        assert_eq!(
            String::from_utf8_lossy(&encode_refs_purged(&purge, PeekForm::Preview).body),
            r#"{"success":true,"errors":[],"messages":[],"result":{"purgedCount":2,"warnings":{"r1":"Gone."}}}"#
        );
    }
}
