//! The states of an account's queues as Prometheus reads them (text format 0.0.4), names and units by
//! its conventions.

use super::Known;
use crate::wire::Answer;

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What one metric shows of a queue.
type Read = fn(&Known, u64) -> f64;

struct Metric {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    /// Each sample: what follows the queue's own labels, and its value.
    samples: &'static [(&'static str, Read)],
}

const GAUGE: &str = "gauge";
const COUNTER: &str = "counter";

/// A counter of messages.
macro_rules! counter {
    ($name:literal, $field:ident, $help:literal) => {
        Metric {
            name: concat!("pullq_queue_", $name, "_total"),
            kind: COUNTER,
            help: $help,
            samples: &[("", |known, _| number(known.state.counters.$field))],
        }
    };
}

const METRICS: [Metric; 16] = [
    Metric {
        name: "pullq_queue_messages",
        kind: GAUGE,
        help: "Messages in the queue, by what they wait for.",
        samples: &[
            (",state=\"waiting\"", |known, _| number(known.state.waiting)),
            (",state=\"out\"", |known, _| number(known.state.out)),
            (",state=\"delayed\"", |known, _| number(known.state.delayed)),
        ],
    },
    Metric {
        name: "pullq_queue_backlog_bytes",
        kind: GAUGE,
        help: "Bytes of the bodies of the messages in the queue.",
        samples: &[("", |known, _| number(known.state.backlog_bytes))],
    },
    Metric {
        name: "pullq_queue_oldest_message_age_seconds",
        kind: GAUGE,
        help: "How long ago the oldest message in the queue was sent; 0 when there is none.",
        samples: &[("", |known, now_ms| {
            seconds(known.state.oldest_message_ms, now_ms)
        })],
    },
    Metric {
        name: "pullq_queue_delivery_paused",
        kind: GAUGE,
        help: "1 while delivery is paused.",
        samples: &[("", |known, _| {
            f64::from(known.entry.settings.delivery_paused)
        })],
    },
    Metric {
        name: "pullq_queue_state_age_seconds",
        kind: GAUGE,
        help: "How long ago the queue was asked for what is shown here; idle queues are not asked.",
        samples: &[("", |known, now_ms| {
            seconds(Some(known.at_ms).filter(|&at_ms| at_ms > 0), now_ms)
        })],
    },
    counter!("messages_sent", sent, "Messages sent to the queue."),
    counter!(
        "messages_delivered",
        delivered,
        "Deliveries: a message that is delivered twice counts twice."
    ),
    counter!(
        "messages_acknowledged",
        acknowledged,
        "Messages acknowledged."
    ),
    counter!(
        "messages_retried",
        retried,
        "Retries that consumers asked for."
    ),
    counter!(
        "messages_dead_lettered",
        dead_lettered,
        "Messages moved to the dead-letter queue."
    ),
    counter!(
        "messages_dropped",
        dropped,
        "Messages given up where there is no dead-letter queue."
    ),
    counter!(
        "messages_expired",
        expired,
        "Messages past their retention."
    ),
    counter!("messages_purged", purged, "Messages purged."),
    counter!(
        "messages_redriven",
        redriven,
        "Messages moved to another queue by a redrive."
    ),
    counter!("empty_pulls", empty_pulls, "Pulls that brought nothing."),
    Metric {
        name: "pullq_queue_consumers",
        kind: GAUGE,
        help: "1 where the queue has a pull consumer.",
        samples: &[("", |known, _| f64::from(known.entry.consumer.is_some()))],
    },
];

/// The answer to `GET /metrics`.
pub fn answer(account: &str, known: &[Known], now_ms: u64) -> Answer {
    let mut text = String::with_capacity(known.len() * 2_000 + 2_000);
    let labels: Vec<String> = known
        .iter()
        .map(|known| {
            let name = escape(&known.entry.name);
            format!("account=\"{account}\",queue=\"{name}\"")
        })
        .collect();
    for Metric {
        name,
        kind,
        help,
        samples,
    } in &METRICS
    {
        text.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        for (known, labels) in known.iter().zip(&labels) {
            for (label, read) in *samples {
                let value = read(known, now_ms);
                text.push_str(&format!("{name}{{{labels}{label}}} {value}\n"));
            }
        }
    }
    Answer {
        status: 200,
        headers: vec![("content-type", CONTENT_TYPE.into())],
        body: text.into_bytes(),
    }
}

/// Prometheus' values are doubles; ours stay below 2^53.
fn number(value: u64) -> f64 {
    value as f64
}

fn seconds(since_ms: Option<u64>, now_ms: u64) -> f64 {
    since_ms.map_or(0.0, |since_ms| {
        now_ms.saturating_sub(since_ms) as f64 / 1_000.0
    })
}

/// A label's value as the format writes it.
fn escape(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::super::tests::known;
    use super::*;

    #[test]
    fn each_queue_is_shown_under_its_name() {
        let answer = answer("0123", &[known("a", 5, 90), known("b\"\\", 6, 0)], 12_500);
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        for line in [
            "# TYPE pullq_queue_messages gauge",
            r#"pullq_queue_messages{account="0123",queue="a",state="waiting"} 3"#,
            r#"pullq_queue_messages{account="0123",queue="b\"\\",state="delayed"} 1"#,
            r#"pullq_queue_oldest_message_age_seconds{account="0123",queue="a"} 2.5"#,
            "# TYPE pullq_queue_messages_sent_total counter",
            r#"pullq_queue_messages_sent_total{account="0123",queue="a"} 9"#,
            r#"pullq_queue_state_age_seconds{account="0123",queue="a"} 12.41"#,
            r#"pullq_queue_state_age_seconds{account="0123",queue="b\"\\"} 0"#,
        ] {
            assert!(text.lines().any(|there| there == line), "{line}\n{text}");
        }
    }

    #[test]
    fn every_line_is_a_comment_or_a_sample_and_counters_end_in_total() {
        let answer = answer("0123", &[known("a", 5, 90)], 100);
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let mut kind_of = ("", "");
        for line in text.lines() {
            if let Some(declared) = line.strip_prefix("# TYPE ") {
                kind_of = declared.split_once(' ').expect("a name and a kind");
                let is_total = kind_of.0.ends_with("_total");
                assert_eq!(is_total, kind_of.1 == COUNTER, "{line}");
            } else if !line.starts_with("# HELP ") {
                let (name, value) = line.split_once('{').expect("labels");
                assert_eq!(name, kind_of.0);
                let (_, value) = value.rsplit_once(' ').expect("a value");
                assert!(value.parse::<f64>().is_ok(), "{line}");
            }
        }
    }
}
