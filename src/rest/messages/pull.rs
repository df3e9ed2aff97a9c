//! `POST /messages/pull`: messages out of the queue, each under a lease.

use super::super::envelope::{put_json, Answer};
use super::super::error::ApiError;
use super::super::json::{read_optional_body, Field, Wrong};
use super::{put_list, Metadata, Shown, SHOWN_BYTES};
use crate::queue::limits::{MAX_BATCH_MESSAGES, MAX_VISIBILITY_TIMEOUT_MS, MAX_WAIT_MS};
use crate::queue::{Metrics, PullRequest, Pulled};

/// A pull, and for how long it may wait.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PullCall {
    pub request: PullRequest,
    /// How long the answer may wait for a message to come, in milliseconds, 0 to 60,000. pullq's
    /// own; 0, as at Cloudflare, when the request doesn't say.
    pub wait_ms: u64,
}

/// Reads the body of `POST /messages/pull`; an empty one counts as `{}`.
pub fn parse_pull(body: &[u8]) -> Result<PullCall, ApiError> {
    let names = [
        "batch_size",
        "visibility_timeout_ms",
        "visibility_timeout",
        "wait_ms",
    ];
    let [batch_size, timeout, old_timeout, wait] =
        read_optional_body(body, names, ApiError::InvalidField)?;
    let read = || {
        Ok(PullCall {
            request: PullRequest {
                batch_size: batch_size.small_integer(1..=MAX_BATCH_MESSAGES)?,
                visibility_timeout_ms: visibility_timeout_ms(&timeout, &old_timeout)?,
            },
            wait_ms: wait.integer(0..=MAX_WAIT_MS)?.unwrap_or(0),
        })
    };
    read().map_err(ApiError::InvalidField)
}

/// A visibility timeout, in milliseconds. Older pages of Cloudflare's documentation leave `_ms` out
/// of its name; the newer name wins.
pub(in super::super) fn visibility_timeout_ms(
    timeout: &Field,
    old_timeout: &Field,
) -> Result<Option<u64>, Wrong> {
    let range = 1..=MAX_VISIBILITY_TIMEOUT_MS;
    let old_timeout = old_timeout.integer(range.clone())?;
    Ok(timeout.integer(range)?.or(old_timeout))
}

/// The answer to a pull: stored bytes, put together.
pub fn encode_pulled(pulled: &Pulled, metrics: &Metrics) -> Result<Answer, ApiError> {
    let deliveries = &pulled.deliveries;
    let contents: usize = deliveries
        .iter()
        .map(|delivery| delivery.content.len())
        .sum();
    let mut served = Some(());
    let answer = Answer::built(contents + deliveries.len() * SHOWN_BYTES, |out| {
        out.extend_from_slice(b"{\"message_backlog_count\":");
        put_json(out, &metrics.backlog_count);
        out.extend_from_slice(b",\"messages\":");
        served = put_list(
            out,
            deliveries.iter().map(|delivery| Shown {
                id: &delivery.id,
                sent_ms: delivery.sent_ms,
                attempts: delivery.attempts,
                form: delivery.form,
                death: delivery.death.as_ref(),
                content: &delivery.content,
                token: ("lease_id", &delivery.lease_id),
            }),
        );
        out.extend_from_slice(b",\"metadata\":");
        put_json(out, &Metadata::from(metrics));
        out.push(b'}');
    });
    served.map(|()| answer).ok_or(ApiError::Internal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::ledger::Counters;
    use crate::queue::{Death, Delivery};

    #[test]
    fn a_pull_says_how_many_and_for_how_long() {
        let pull = |batch_size, visibility_timeout_ms, wait_ms| PullCall {
            request: PullRequest {
                batch_size,
                visibility_timeout_ms,
            },
            wait_ms,
        };
        let cases = [
            ("", pull(None, None, 0)),
            (" \n", pull(None, None, 0)),
            ("{}", pull(None, None, 0)),
            (r#"{"batch_size":null,"other":[1]}"#, pull(None, None, 0)),
            (
                r#"{"batch_size":100,"visibility_timeout_ms":43200000}"#,
                pull(Some(100), Some(43_200_000), 0),
            ),
            (
                r#"{"batch_size":1.0,"visibility_timeout":6000}"#,
                pull(Some(1), Some(6_000), 0),
            ),
            (
                r#"{"visibility_timeout":6000,"visibility_timeout_ms":7000}"#,
                pull(None, Some(7_000), 0),
            ),
            (r#"{"wait_ms":60000}"#, pull(None, None, 60_000)),
        ];
        for (body, expected) in cases {
            assert_eq!(parse_pull(body.as_bytes()), Ok(expected), "{body}");
        }
    }

    #[test]
    fn a_pull_out_of_range_is_refused() {
        let cases = [
            (
                r#"{"batch_size":0}"#,
                "batch_size must be a whole number from 1 to 100, not 0.",
            ),
            (
                r#"{"batch_size":101}"#,
                "batch_size must be a whole number from 1 to 100, not 101.",
            ),
            (
                r#"{"batch_size":"5"}"#,
                "batch_size must be a whole number from 1 to 100, not the string \"5\".",
            ),
            (
                r#"{"visibility_timeout_ms":0}"#,
                "visibility_timeout_ms must be a whole number from 1 to 43200000, not 0.",
            ),
            (
                r#"{"visibility_timeout_ms":43200001}"#,
                "visibility_timeout_ms must be a whole number from 1 to 43200000, not 43200001.",
            ),
            (
                r#"{"visibility_timeout":-1}"#,
                "visibility_timeout must be a whole number from 1 to 43200000, not -1.",
            ),
            (
                r#"{"wait_ms":60001}"#,
                "wait_ms must be a whole number from 0 to 60000, not 60001.",
            ),
            ("[]", "The body must be a JSON object, not an array."),
        ];
        for (body, expected) in cases {
            let refusal = parse_pull(body.as_bytes()).map_err(|error| error.to_string());
            assert_eq!(refusal, Err(expected.to_string()), "{body}");
        }
    }

    fn metrics() -> Metrics {
        Metrics {
            backlog_count: 3,
            backlog_bytes: 40,
            oldest_message_ms: None,
            counters: Counters::default(),
        }
    }

    fn delivery() -> Delivery {
        Delivery {
            id: [0xeb; 16],
            sent_ms: 1_736_608_302_662,
            attempts: 1,
            form: 0,
            death: None,
            content: br#""body":"hi","metadata":{"CF-Content-Type":"text"}"#.to_vec(),
            lease_id: "AQ_-".into(),
        }
    }

    fn check(deliveries: Vec<Delivery>, messages: &str) {
        let answer = encode_pulled(&Pulled { deliveries }, &metrics()).expect("known forms");
        let expected = format!(
            r#"{{"success":true,"errors":[],"messages":[],"result":{{"message_backlog_count":3,"messages":[{messages}],"metadata":{{"metrics":{{"backlog_count":3,"backlog_bytes":40,"oldest_message_timestamp_ms":0}}}}}}}}"#
        );
        assert_eq!(String::from_utf8_lossy(&answer.body), expected);
    }

    #[test]
    fn a_pulls_answer_is_the_stored_bytes_put_together() {
        let message = r#"{"id":"ebebebebebebebebebebebebebebebeb","timestamp_ms":1736608302662,"attempts":1,"body":"hi","metadata":{"CF-Content-Type":"text"},"lease_id":"AQ_-"}"#;
        check(vec![], "");
        check(vec![delivery()], message);
        check(
            vec![delivery(), delivery()],
            &format!("{message},{message}"),
        );
    }

    #[test]
    fn a_dead_letter_says_where_it_died() {
        let death = Death {
            queue_name: "or\"ders".into(),
            first_sent_ms: 1_700_000_000_000,
            attempts: 4,
        };
        check(
            vec![Delivery {
                death: Some(death),
                ..delivery()
            }],
            r#"{"id":"ebebebebebebebebebebebebebebebeb","timestamp_ms":1736608302662,"attempts":1,"body":"hi","metadata":{"CF-Content-Type":"text","pullq-dead-letter-queue":"or\"ders","pullq-dead-letter-attempts":"4","pullq-dead-letter-first-sent-ms":"1700000000000"},"lease_id":"AQ_-"}"#,
        );
    }

    #[test]
    fn an_event_that_died_says_so_behind_its_attributes() {
        let death = Death {
            queue_name: "orders".into(),
            first_sent_ms: 7,
            attempts: 4,
        };
        check(
            vec![Delivery {
                form: 2,
                death: Some(death),
                content: br#"{"id":"1","data":1}"#.to_vec(),
                ..delivery()
            }],
            r#"{"id":"ebebebebebebebebebebebebebebebeb","timestamp_ms":1736608302662,"attempts":1,"body":"MQ==","metadata":{"CF-Content-Type":"json","ce-id":"1","pullq-dead-letter-queue":"orders","pullq-dead-letter-attempts":"4","pullq-dead-letter-first-sent-ms":"7"},"lease_id":"AQ_-"}"#,
        );
    }

    #[test]
    fn a_form_that_is_not_served_here_is_our_error() {
        let deliveries = vec![Delivery {
            form: 9,
            ..delivery()
        }];
        assert_eq!(
            encode_pulled(&Pulled { deliveries }, &metrics()),
            Err(ApiError::Internal)
        );
    }
}
