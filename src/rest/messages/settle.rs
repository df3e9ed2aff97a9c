//! `POST /messages/ack` and `/messages/extend`: what becomes of leases.

use super::super::envelope::{put_json, Answer};
use super::super::error::ApiError;
use super::super::json::{read_body, Field, Wrong};
use super::put_warnings;
use crate::queue::limits::{MAX_DELAY_S, MAX_SETTLE_LEASES, MAX_VISIBILITY_TIMEOUT_MS};
use crate::queue::{Extension, Retry, Settlement};

/// What `POST /messages/ack` asks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SettleCall {
    /// Lease ids of messages that are done.
    pub acks: Vec<String>,
    /// Messages to be delivered again.
    pub retries: Vec<Retry>,
}

/// Reads the body of `POST /messages/ack`. Plain strings count as objects with that lease id: early
/// clients send them.
pub fn parse_settle(body: &[u8]) -> Result<SettleCall, ApiError> {
    let [acks, retries] = read_body(body, ["acks", "retries"], ApiError::InvalidField)?;
    let read = || {
        let ack_items = items(&acks, 0)?;
        let retry_items = items(&retries, ack_items.len())?;
        let acks = ack_items.iter().map(token).collect::<Result<_, Wrong>>()?;
        let retries = retry_items
            .iter()
            .map(retry)
            .collect::<Result<_, Wrong>>()?;
        Ok(SettleCall { acks, retries })
    };
    read().map_err(ApiError::InvalidField)
}

/// Reads the body of `POST /messages/extend`, which is pullq's own:
/// `{"extensions": [{"lease_id", "visibility_timeout_ms"?}], "visibility_timeout_ms"?}`. The outer
/// timeout counts for leases that name none.
pub fn parse_extend(body: &[u8]) -> Result<Vec<Extension>, ApiError> {
    let names = ["extensions", "visibility_timeout_ms"];
    let [extensions, timeout] = read_body(body, names, ApiError::InvalidField)?;
    let read = || {
        let timeout_ms = timeout.integer(1..=MAX_VISIBILITY_TIMEOUT_MS)?;
        extensions.required(extensions.is_present().then_some(()), "an array of leases")?;
        items(&extensions, 0)?
            .iter()
            .map(|item| extension(item, timeout_ms))
            .collect::<Result<_, Wrong>>()
    };
    read().map_err(ApiError::InvalidField)
}

/// The answer to [`parse_settle`]'s request.
pub fn encode_settled(settlement: &Settlement) -> Answer {
    Answer::built(settlement.warnings.len() * 256, |out| {
        out.extend_from_slice(b"{\"ackCount\":");
        put_json(out, &settlement.acknowledged);
        out.extend_from_slice(b",\"retryCount\":");
        put_json(out, &settlement.retried);
        out.extend_from_slice(b",\"warnings\":");
        put_warnings(out, &settlement.warnings);
        out.push(b'}');
    })
}

/// The answer to [`parse_extend`]'s request.
pub fn encode_extended(settlement: &Settlement) -> Answer {
    Answer::built(settlement.warnings.len() * 256, |out| {
        out.extend_from_slice(b"{\"extendedCount\":");
        put_json(out, &settlement.extended);
        out.extend_from_slice(b",\"warnings\":");
        put_warnings(out, &settlement.warnings);
        out.push(b'}');
    })
}

/// An array's items, of which `before` have come in other arrays already.
pub(in crate::rest) fn items<'a>(
    field: &Field<'a>,
    before: usize,
) -> Result<Vec<Field<'a>>, Wrong> {
    let Some(items) = field.array(MAX_SETTLE_LEASES)? else {
        return Ok(Vec::new());
    };
    let count = items.count.saturating_add(before);
    if count > MAX_SETTLE_LEASES {
        return Err(field.wrong(&format!(
            "brings the call to {count} messages; at most {MAX_SETTLE_LEASES} can be named at once"
        )));
    }
    Ok(items.items)
}

/// A lease id, alone or in an object.
pub(super) fn token(item: &Field) -> Result<String, Wrong> {
    named_token(item, "lease_id")
}

/// A lease id or ref, alone or in an object under `name`.
pub(in crate::rest) fn named_token(item: &Field, name: &'static str) -> Result<String, Wrong> {
    if is_string(item) {
        let token = item.text()?;
        return Ok(item.required(token, "a string")?.into_owned());
    }
    let fields = item.object([name])?;
    let [field] = item.required(fields, &format!("an object with a {name}"))?;
    read_token(&field)
}

fn is_string(item: &Field) -> bool {
    item.raw().is_some_and(|raw| raw.starts_with('"'))
}

fn read_token(field: &Field) -> Result<String, Wrong> {
    let token = field.text()?;
    Ok(field.required(token, "a string")?.into_owned())
}

fn retry(item: &Field) -> Result<Retry, Wrong> {
    let lease_id = token(item)?;
    let delay_s = if is_string(item) {
        None
    } else {
        match item.object(["delay_seconds"])? {
            Some([delay]) => delay.small_integer(0..=MAX_DELAY_S)?,
            None => None,
        }
    };
    Ok(Retry { lease_id, delay_s })
}

fn extension(item: &Field, timeout_ms: Option<u64>) -> Result<Extension, Wrong> {
    let fields = item.object(["lease_id", "visibility_timeout_ms"])?;
    let [lease_id, own_timeout] = item.required(fields, "an object with a lease_id")?;
    let range = 1..=MAX_VISIBILITY_TIMEOUT_MS;
    let timeout_ms = own_timeout.integer(range)?.or(timeout_ms);
    Ok(Extension {
        lease_id: read_token(&lease_id)?,
        visibility_timeout_ms: own_timeout.required(timeout_ms, "a number of milliseconds")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retry_of(lease_id: &str, delay_s: Option<u32>) -> Retry {
        Retry {
            lease_id: lease_id.into(),
            delay_s,
        }
    }

    #[test]
    fn acks_and_retries_are_read_in_every_shape_that_clients_send() {
        let call = |acks: &[&str], retries: Vec<Retry>| SettleCall {
            acks: acks.iter().map(|ack| ack.to_string()).collect(),
            retries,
        };
        let cases = [
            ("{}", call(&[], vec![])),
            (r#"{"acks":[],"retries":null}"#, call(&[], vec![])),
            (
                r#"{"acks":[{"lease_id":"a"},{"lease_id":"b"}]}"#,
                call(&["a", "b"], vec![]),
            ),
            (
                r#"{"acks":["a",{"lease_id":"b","id":"x","body":{"lease_id":"c"}}]}"#,
                call(&["a", "b"], vec![]),
            ),
            (
                r#"{"acks":[{"lease_id":"a"}],"retries":[{"lease_id":"b","delay_seconds":600},{"lease_id":"c"},"d"]}"#,
                call(
                    &["a"],
                    vec![
                        retry_of("b", Some(600)),
                        retry_of("c", None),
                        retry_of("d", None),
                    ],
                ),
            ),
            (
                r#"{"acks":["a","a"],"retries":[{"lease_id":"a","delay_seconds":0}]}"#,
                call(&["a", "a"], vec![retry_of("a", Some(0))]),
            ),
        ];
        for (body, expected) in cases {
            assert_eq!(parse_settle(body.as_bytes()), Ok(expected), "{body}");
        }
    }

    #[test]
    fn a_settling_call_that_can_not_be_read_is_refused() {
        let cases = [
            ("", "The body can't be read as JSON: it is empty."),
            (
                r#"{"acks":"a"}"#,
                "acks must be an array, not the string \"a\".",
            ),
            (
                r#"{"acks":[{}]}"#,
                "acks[0].lease_id is missing: it must be a string.",
            ),
            (
                r#"{"acks":[{"lease_id":null}]}"#,
                "acks[0].lease_id must be a string, not null.",
            ),
            (
                r#"{"acks":[null]}"#,
                "acks[0] must be an object with a lease_id, not null.",
            ),
            (r#"{"acks":["a",5]}"#, "acks[1] must be an object, not 5."),
            (
                r#"{"acks":["a",["b"]]}"#,
                "acks[1] must be an object, not an array.",
            ),
            (
                r#"{"retries":[{"lease_id":"a","delay_seconds":86401}]}"#,
                "retries[0].delay_seconds must be a whole number from 0 to 86400, not 86401.",
            ),
        ];
        for (body, expected) in cases {
            let refusal = parse_settle(body.as_bytes()).map_err(|error| error.to_string());
            assert_eq!(refusal, Err(expected.to_string()), "{body}");
        }
    }

    #[test]
    fn at_most_a_thousand_messages_are_settled_at_once() {
        let settle = |acks: usize, retries: usize| {
            let list = |count| vec!["\"a\""; count].join(",");
            let body = format!(
                r#"{{"acks":[{}],"retries":[{}]}}"#,
                list(acks),
                list(retries)
            );
            parse_settle(body.as_bytes())
                .map(|call| call.acks.len() + call.retries.len())
                .map_err(|error| error.to_string())
        };
        assert_eq!(settle(1_000, 0), Ok(1_000));
        assert_eq!(settle(400, 600), Ok(1_000));
        assert_eq!(
            settle(1_001, 0),
            Err("acks brings the call to 1001 messages; at most 1000 can be named at once.".into())
        );
        assert_eq!(
            settle(400, 601),
            Err(
                "retries brings the call to 1001 messages; at most 1000 can be named at once."
                    .into()
            )
        );
    }

    #[test]
    fn an_extension_names_its_timeout_or_takes_the_calls() {
        let extension = |lease_id: &str, visibility_timeout_ms| Extension {
            lease_id: lease_id.into(),
            visibility_timeout_ms,
        };
        let body = br#"{"extensions":[{"lease_id":"a"},{"lease_id":"b","visibility_timeout_ms":7}],"visibility_timeout_ms":5}"#;
        assert_eq!(
            parse_extend(body),
            Ok(vec![extension("a", 5), extension("b", 7)])
        );
        let cases = [
            ("{}", "extensions is missing: it must be an array of leases."),
            (r#"{"extensions":[{"lease_id":"a"}]}"#, "extensions[0].visibility_timeout_ms is missing: it must be a number of milliseconds."),
            (r#"{"extensions":[{"lease_id":"a","visibility_timeout_ms":0}]}"#, "extensions[0].visibility_timeout_ms must be a whole number from 1 to 43200000, not 0."),
            (r#"{"extensions":[{}],"visibility_timeout_ms":5}"#, "extensions[0].lease_id is missing: it must be a string."),
        ];
        for (body, expected) in cases {
            let refusal = parse_extend(body.as_bytes()).map_err(|error| error.to_string());
            assert_eq!(refusal, Err(expected.to_string()), "{body}");
        }
    }

    #[test]
    fn the_answer_counts_and_warns_once_for_each_lease_id() {
        let warning = |text: &str| ("le\"ase".to_string(), text.to_string());
        let settlement = Settlement {
            acknowledged: 2,
            retried: 1,
            extended: 4,
            warnings: vec![warning("first"), warning("last")],
        };
        assert_eq!(
            String::from_utf8_lossy(&encode_settled(&settlement).body),
            r#"{"success":true,"errors":[],"messages":[],"result":{"ackCount":2,"retryCount":1,"warnings":{"le\"ase":"last"}}}"#
        );
        assert_eq!(
            String::from_utf8_lossy(&encode_extended(&settlement).body),
            r#"{"success":true,"errors":[],"messages":[],"result":{"extendedCount":4,"warnings":{"le\"ase":"last"}}}"#
        );
    }
}
