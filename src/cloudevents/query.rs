//! The parameters in the query. Of a parameter that is given twice the first counts; one without a
//! value counts as absent; unknown ones are passed over.

use super::error::EventsError;
use super::receive::{Drain, Take};
use crate::queue::limits::{MAX_DELAY_S, MAX_RECEIVE_MESSAGES, MAX_WAIT_MS};
use crate::wire::percent;
use std::ops::RangeInclusive;

/// Messages of a receive that doesn't say. KubeMQ: 1.
const DEFAULT_MAX_MESSAGES: u32 = 1;
/// How long a receive waits that doesn't say, in seconds. KubeMQ: 5.
const DEFAULT_WAIT_S: u32 = 5;
/// The longest a receive may wait, in seconds.
const MAX_WAIT_S: u32 = (MAX_WAIT_MS / 1_000) as u32;
/// Bytes of a channel's name. pullq's own; KubeMQ documents no limit.
pub const MAX_CHANNEL_BYTES: usize = 255;

/// What a send says in its query.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SendQuery {
    /// For events that have no subject.
    pub channel: Option<String>,
    /// How long the messages are held back, in seconds. pullq's own.
    pub delay_s: Option<u32>,
}

/// Reads the query of a send.
pub fn parse_send(query: &str) -> Result<SendQuery, EventsError> {
    let query = Query(query);
    Ok(SendQuery {
        channel: query.text("channel")?,
        delay_s: query.number(
            "delay_seconds",
            0..=MAX_DELAY_S,
            "a whole number from 0 to 86400",
        )?,
    })
}

/// Reads the query of a receive. A client whose id is known from its token need not say it.
pub fn parse_receive(query: &str, client_is_known: bool) -> Result<Take, EventsError> {
    let query = Query(query);
    let channel = query.channel()?;
    query.check_client_id(client_is_known)?;
    let max_messages = query.number(
        "max_messages",
        1..=MAX_RECEIVE_MESSAGES,
        "a whole number from 1 to 1000",
    )?;
    let wait_s = query.wait_s()?;
    Ok(Take {
        max_messages: max_messages.unwrap_or(DEFAULT_MAX_MESSAGES),
        wait_ms: u64::from(wait_s) * 1_000,
        is_peek: query.boolean("is_peek")?.unwrap_or(false),
        channel,
    })
}

/// Reads the query of an ack_all. It is carried out at once, so `wait_timeout` is only checked.
pub fn parse_ack_all(query: &str, client_is_known: bool) -> Result<Drain, EventsError> {
    let query = Query(query);
    let channel = query.channel()?;
    query.check_client_id(client_is_known)?;
    query.wait_s()?;
    Ok(Drain { channel })
}

/// A channel's name. KubeMQ: neither empty nor with wildcards, white space or a dot at its end.
pub fn check_channel(name: &str) -> Result<(), EventsError> {
    let wrong = |why: &str| Err(EventsError::InvalidChannel(why.into()));
    if name.is_empty() {
        return Err(EventsError::ChannelRequired);
    }
    if name.len() > MAX_CHANNEL_BYTES {
        return wrong("is longer than 255 bytes");
    }
    if name.contains(['*', '>']) {
        return wrong("has a wildcard, * or >");
    }
    if name.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return wrong("has white space or a control character");
    }
    if name.ends_with('.') {
        return wrong("ends with a dot");
    }
    Ok(())
}

struct Query<'a>(&'a str);

impl Query<'_> {
    fn text(&self, name: &'static str) -> Result<Option<String>, EventsError> {
        let found = self.0.split('&').find_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (percent::decode_query(key).as_deref() == Some(name)).then_some(value)
        });
        match found.map(percent::decode_query) {
            None => Ok(None),
            Some(Some(value)) => Ok(Some(value.into_owned()).filter(|value| !value.is_empty())),
            Some(None) => Err(EventsError::InvalidQuery {
                name,
                expected: "UTF-8",
            }),
        }
    }

    fn number(
        &self,
        name: &'static str,
        range: RangeInclusive<u32>,
        expected: &'static str,
    ) -> Result<Option<u32>, EventsError> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse() {
            Ok(number) if is_number && range.contains(&number) => Ok(Some(number)),
            _ => Err(EventsError::InvalidQuery { name, expected }),
        }
    }

    /// A boolean in the spellings that Go's `strconv.ParseBool` takes, which KubeMQ is written in.
    fn boolean(&self, name: &'static str) -> Result<Option<bool>, EventsError> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        match text.as_str() {
            "true" | "True" | "TRUE" | "t" | "T" | "1" => Ok(Some(true)),
            "false" | "False" | "FALSE" | "f" | "F" | "0" => Ok(Some(false)),
            _ => Err(EventsError::InvalidQuery {
                name,
                expected: "true or false",
            }),
        }
    }

    fn wait_s(&self) -> Result<u32, EventsError> {
        let expected = "a whole number of seconds from 0 to 60";
        let wait_s = self.number("wait_timeout", 0..=MAX_WAIT_S, expected)?;
        Ok(wait_s.unwrap_or(DEFAULT_WAIT_S))
    }

    fn channel(&self) -> Result<String, EventsError> {
        let channel = self.text("channel")?.ok_or(EventsError::ChannelRequired)?;
        check_channel(&channel)?;
        Ok(channel)
    }

    fn check_client_id(&self, client_is_known: bool) -> Result<(), EventsError> {
        match self.text("client_id")? {
            None if !client_is_known => Err(EventsError::ClientIdRequired),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(max_messages: u32, wait_ms: u64, is_peek: bool) -> Take {
        Take {
            max_messages,
            wait_ms,
            is_peek,
            channel: "q".into(),
        }
    }

    #[test]
    fn a_receive_has_five_parameters() {
        let cases = [
            ("channel=q&client_id=c", take(1, 5_000, false)),
            (
                "client_id=c&channel=q&max_messages=1000&wait_timeout=60&is_peek=true",
                take(1_000, 60_000, true),
            ),
            (
                "channel=q&client_id=c&max_messages=&wait_timeout=0&is_peek=False",
                take(1, 0, false),
            ),
            (
                "channel=q&channel=r&client_id=c&other=1",
                take(1, 5_000, false),
            ),
            ("%63hannel=%71&client_id=%20", take(1, 5_000, false)),
            ("channel=q&client_id=c&is_peek=1", take(1, 5_000, true)),
            ("channel=q&client_id=c&IsPeek=true", take(1, 5_000, false)),
        ];
        for (query, expected) in cases {
            assert_eq!(parse_receive(query, false), Ok(expected), "{query}");
        }
    }

    #[test]
    fn what_is_missing_or_out_of_range_is_refused_by_name() {
        let cases = [
            ("", "channel is required"),
            ("client_id=c", "channel is required"),
            ("channel=&client_id=c", "channel is required"),
            ("channel=q", "client_id is required"),
            ("channel=q&client_id=", "client_id is required"),
            ("channel=q&client_id=c&max_messages=0", "The parameter max_messages in the query must be a whole number from 1 to 1000."),
            ("channel=q&client_id=c&max_messages=1001", "The parameter max_messages in the query must be a whole number from 1 to 1000."),
            ("channel=q&client_id=c&max_messages=ten", "The parameter max_messages in the query must be a whole number from 1 to 1000."),
            ("channel=q&client_id=c&max_messages=%2B1", "The parameter max_messages in the query must be a whole number from 1 to 1000."),
            ("channel=q&client_id=c&wait_timeout=61", "The parameter wait_timeout in the query must be a whole number of seconds from 0 to 60."),
            ("channel=q&client_id=c&wait_timeout=-1", "The parameter wait_timeout in the query must be a whole number of seconds from 0 to 60."),
            ("channel=q&client_id=c&wait_timeout=1.5", "The parameter wait_timeout in the query must be a whole number of seconds from 0 to 60."),
            ("channel=q&client_id=c&is_peek=yes", "The parameter is_peek in the query must be true or false."),
            ("channel=%ff&client_id=c", "The parameter channel in the query must be UTF-8."),
            ("channel=a+b&client_id=c", "The channel's name has white space or a control character."),
            ("channel=a*&client_id=c", "The channel's name has a wildcard, * or >."),
            ("channel=a.%3E&client_id=c", "The channel's name has a wildcard, * or >."),
            ("channel=a.&client_id=c", "The channel's name ends with a dot."),
        ];
        for (query, expected) in cases {
            let refusal = parse_receive(query, false).expect_err(query);
            assert_eq!(refusal.to_string(), expected, "{query}");
        }
        let long = format!("channel={}&client_id=c", "x".repeat(256));
        assert!(parse_receive(&long, false).is_err());
        assert!(parse_receive(&long.replacen('x', "", 1), false).is_ok());
    }

    #[test]
    fn an_ack_all_has_three() {
        let drain = Drain {
            channel: "q".into(),
        };
        assert_eq!(
            parse_ack_all("channel=q&client_id=c&wait_timeout=10", false),
            Ok(drain.clone())
        );
        assert_eq!(parse_ack_all("channel=q", true), Ok(drain));
        assert_eq!(
            parse_ack_all("channel=q", false),
            Err(EventsError::ClientIdRequired)
        );
        assert!(parse_ack_all("channel=q&client_id=c&wait_timeout=x", false).is_err());
    }

    #[test]
    fn a_send_may_name_a_channel_and_a_delay() {
        let sent = parse_send("channel=a%2Fb&delay_seconds=30");
        assert_eq!(
            sent,
            Ok(SendQuery {
                channel: Some("a/b".into()),
                delay_s: Some(30)
            })
        );
        assert_eq!(parse_send(""), Ok(SendQuery::default()));
        assert!(parse_send("delay_seconds=86401").is_err());
    }
}
