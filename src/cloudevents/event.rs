//! An event: its attributes, the rules they keep (CloudEvents 1.0.2, sections 2.1 and 3), its data,
//! and the JSON object in which it is stored and served.

use super::error::EventsError;
use crate::wire::json::put_json;
use crate::wire::media::Media;
use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use serde_json::value::RawValue;

/// The version that is taken and served.
const SPEC_VERSION: &str = "1.0";

/// An attribute's value, in the type in which it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Text(String),
    Boolean(bool),
    Integer(i32),
}

/// An event's data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Data {
    /// A JSON value as it was sent: number spelling and key order are the sender's.
    Json(String),
    Text(String),
    Bytes(Vec<u8>),
}

impl Data {
    /// Data that came as bytes: a JSON value where the media type says so and it is one, text where
    /// the media type says so and it is UTF-8, and bytes otherwise.
    pub fn of_bytes(bytes: Vec<u8>, media: Media) -> Data {
        match media {
            Media::Json => match serde_json::from_slice::<&RawValue>(&bytes) {
                Ok(json) => Data::Json(json.get().to_owned()),
                Err(_) => Data::Bytes(bytes),
            },
            Media::Text => match String::from_utf8(bytes) {
                Ok(text) => Data::Text(text),
                Err(error) => Data::Bytes(error.into_bytes()),
            },
            Media::Other => Data::Bytes(bytes),
        }
    }
}

/// What a sender left out and the server gives (KubeMQ: a missing id and a missing time).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defaults {
    pub id: String,
    /// RFC 3339.
    pub time: String,
}

/// An event that keeps the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub id: String,
    /// Whether the sender left the id out.
    pub id_was_given: bool,
    pub source: String,
    pub subject: Option<String>,
    /// The event as the JSON object that it is served as.
    pub content: Vec<u8>,
}

/// An event as it is read, attribute by attribute.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Draft {
    specversion: Option<String>,
    id: Option<String>,
    source: Option<String>,
    kind: Option<String>,
    subject: Option<String>,
    time: Option<String>,
    datacontenttype: Option<String>,
    dataschema: Option<String>,
    /// In the order in which they came.
    extensions: Vec<(String, Value)>,
}

impl Draft {
    /// Takes an attribute; refuses one that breaks a rule or came before.
    pub fn set(&mut self, name: &str, value: Value) -> Result<(), EventsError> {
        check_name(name)?;
        if let Value::Text(text) = &value {
            check_text(name, text)?;
        }
        let place = match name {
            "specversion" => &mut self.specversion,
            "id" => &mut self.id,
            "source" => &mut self.source,
            "type" => &mut self.kind,
            "subject" => &mut self.subject,
            "time" => &mut self.time,
            "datacontenttype" => &mut self.datacontenttype,
            "dataschema" => &mut self.dataschema,
            _ => {
                if self.extensions.iter().any(|(other, _)| other == name) {
                    return Err(twice(name));
                }
                self.extensions.push((name.to_owned(), value));
                return Ok(());
            }
        };
        let Value::Text(text) = value else {
            return Err(invalid(format!("{name} must be a string")));
        };
        match place.replace(text) {
            None => Ok(()),
            Some(_) => Err(twice(name)),
        }
    }

    /// How the event's data is represented.
    pub fn media(&self) -> Result<Media, EventsError> {
        Media::of(self.datacontenttype.as_deref()).ok_or_else(|| {
            invalid("datacontenttype must be a media type, such as application/json")
        })
    }

    /// The event, with what its sender left out; refuses one that lacks something else.
    pub fn finish(self, data: Option<Data>, defaults: Defaults) -> Result<Event, EventsError> {
        match self.specversion.as_deref() {
            Some(SPEC_VERSION) => {}
            None => return Err(invalid("specversion is missing: it must be \"1.0\"")),
            Some(_) => return Err(invalid("specversion must be \"1.0\"")),
        }
        let required = |name: &str, value: Option<String>| match value {
            Some(value) if !value.is_empty() => Ok(value),
            Some(_) => Err(invalid(format!("{name} is empty"))),
            None => Err(invalid(format!("{name} is missing"))),
        };
        let source = required("source", self.source)?;
        let kind = required("type", self.kind)?;
        let given_id = self.id.filter(|id| !id.is_empty());
        let id_was_given = given_id.is_some();
        let id = given_id.unwrap_or(defaults.id);
        // An empty subject is one that its sender did not set.
        let subject = self.subject.filter(|subject| !subject.is_empty());
        let time = match self.time {
            Some(time) if !is_timestamp(&time) => {
                return Err(invalid(
                    "time must be a point in time as in RFC 3339, such as 2018-04-05T17:31:00Z",
                ));
            }
            Some(time) => time,
            None => defaults.time,
        };
        if self.dataschema.as_deref().is_some_and(|uri| !is_uri(uri)) {
            return Err(invalid("dataschema must be an absolute URI"));
        }

        let mut content = Vec::with_capacity(256);
        content.extend_from_slice(b"{\"specversion\":\"1.0\"");
        put_text(&mut content, "type", &kind);
        put_text(&mut content, "source", &source);
        let others = [
            ("subject", subject.as_ref()),
            ("id", Some(&id)),
            ("time", Some(&time)),
            ("datacontenttype", self.datacontenttype.as_ref()),
            ("dataschema", self.dataschema.as_ref()),
        ];
        for (name, value) in others {
            if let Some(value) = value {
                put_text(&mut content, name, value);
            }
        }
        for (name, value) in &self.extensions {
            put_name(&mut content, name);
            match value {
                Value::Text(text) => put_json(&mut content, text),
                Value::Boolean(boolean) => put_json(&mut content, boolean),
                Value::Integer(integer) => put_json(&mut content, integer),
            }
        }
        match &data {
            None => {}
            Some(Data::Json(json)) => {
                put_name(&mut content, "data");
                content.extend_from_slice(json.as_bytes());
            }
            Some(Data::Text(text)) => put_text(&mut content, "data", text),
            Some(Data::Bytes(bytes)) => {
                put_text(&mut content, "data_base64", &STANDARD.encode(bytes));
            }
        }
        content.push(b'}');
        Ok(Event {
            id,
            id_was_given,
            source,
            subject,
            content,
        })
    }
}

/// Whether an attribute is one that CloudEvents defines: all of them are strings.
pub(super) fn is_core(name: &str) -> bool {
    matches!(
        name,
        "specversion"
            | "id"
            | "source"
            | "type"
            | "subject"
            | "time"
            | "datacontenttype"
            | "dataschema"
    )
}

pub(super) fn invalid(why: impl Into<String>) -> EventsError {
    EventsError::InvalidEvent(why.into())
}

fn twice(name: &str) -> EventsError {
    invalid(format!("{name} is there twice"))
}

fn put_text(content: &mut Vec<u8>, name: &str, text: &str) {
    put_name(content, name);
    put_json(content, text);
}

/// Names need no escapes.
fn put_name(content: &mut Vec<u8>, name: &str) {
    content.extend_from_slice(b",\"");
    content.extend_from_slice(name.as_bytes());
    content.extend_from_slice(b"\":");
}

/// CloudEvents 1.0.2, section 3.1.1: lower-case letters and digits. `data` is a member of the JSON
/// format, so no attribute can have that name.
fn check_name(name: &str) -> Result<(), EventsError> {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if name.is_empty() || name == "data" || !name.bytes().all(is_allowed) {
        let shown: String = name.chars().take(40).collect();
        return Err(invalid(format!(
            "{shown:?} can't be an attribute's name: one has lower-case letters and digits only"
        )));
    }
    Ok(())
}

/// CloudEvents 1.0.2, section 3.1.1.1: no control characters and no noncharacters.
fn check_text(name: &str, text: &str) -> Result<(), EventsError> {
    let is_noncharacter = |c: char| {
        let code = u32::from(c);
        (0xfdd0..=0xfdef).contains(&code) || code & 0xfffe == 0xfffe
    };
    match text.chars().any(|c| c.is_control() || is_noncharacter(c)) {
        true => Err(invalid(format!(
            "{name} has a control character or a Unicode noncharacter"
        ))),
        false => Ok(()),
    }
}

/// Whether `text` begins with a scheme (RFC 3986, section 3.1) and has no space: a whole check is
/// left to whoever follows the reference.
fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else {
        return false;
    };
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
        && !rest.is_empty()
        && !rest.contains(' ')
}

/// Whether `text` is a `date-time` (RFC 3339, section 5.6) that there is.
fn is_timestamp(text: &str) -> bool {
    parse_timestamp(text).is_some()
}

fn parse_timestamp(text: &str) -> Option<()> {
    let (year, rest) = digits(text, 4)?;
    let (month, rest) = digits(rest.strip_prefix('-')?, 2)?;
    let (day, rest) = digits(rest.strip_prefix('-')?, 2)?;
    let (hour, rest) = digits(rest.strip_prefix(['T', 't'])?, 2)?;
    let (minute, rest) = digits(rest.strip_prefix(':')?, 2)?;
    let (second, mut rest) = digits(rest.strip_prefix(':')?, 2)?;
    if let Some(fraction) = rest.strip_prefix('.') {
        let end = fraction
            .find(|c: char| !c.is_ascii_digit())
            .filter(|&end| end > 0)?;
        (_, rest) = fraction.split_at_checked(end)?;
    }
    if !matches!(rest, "Z" | "z") {
        let (offset_hour, rest) = digits(rest.strip_prefix(['+', '-'])?, 2)?;
        let (offset_minute, rest) = digits(rest.strip_prefix(':')?, 2)?;
        (offset_hour < 24 && offset_minute < 60 && rest.is_empty()).then_some(())?;
    }
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        _ => return None,
    };
    // A second 60 is a leap second.
    let is_one = (1..=days).contains(&day) && hour < 24 && minute < 60 && second <= 60;
    is_one.then_some(())
}

fn digits(text: &str, count: usize) -> Option<(u32, &str)> {
    let (number, rest) = text.split_at_checked(count)?;
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| number.parse().ok())?.map(|n| (n, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339() {
        let good = [
            "2018-04-05T17:31:00Z",
            "2018-04-05t17:31:00z",
            "2018-04-05T17:31:00.123456789+02:00",
            "2024-02-29T23:59:60-23:59",
            "0000-01-01T00:00:00.0Z",
        ];
        let bad = [
            "",
            "yesterday",
            "2018-04-05",
            "2018-04-05 17:31:00Z",
            "2018-04-05T17:31Z",
            "2018-04-05T17:31:00",
            "2018-04-05T17:31:00.Z",
            "2018-04-05T17:31:00.5",
            "2018-04-05T17:31:00+2:00",
            "2018-04-05T17:31:00+24:00",
            "2018-04-05T17:31:00Zz",
            "2018-02-29T00:00:00Z",
            "2018-13-01T00:00:00Z",
            "2018-00-01T00:00:00Z",
            "2018-04-31T00:00:00Z",
            "2018-04-05T24:00:00Z",
            "+018-04-05T17:31:00Z",
            "2018-04-05T17:31:0éZ",
        ];
        for text in good {
            assert!(is_timestamp(text), "{text}");
        }
        for text in bad {
            assert!(!is_timestamp(text), "{text}");
        }
    }

    #[test]
    fn a_schema_is_an_absolute_uri() {
        for text in ["https://example.com/s", "urn:x", "a+b-c.1:y"] {
            assert!(is_uri(text), "{text}");
        }
        for text in ["", "s.json", "/s", "1a:b", "a:", ":b", "a:b c"] {
            assert!(!is_uri(text), "{text}");
        }
    }

    #[test]
    fn bytes_become_what_their_media_type_says_if_they_are_that() {
        let of = |bytes: &[u8], media| Data::of_bytes(bytes.to_vec(), media);
        assert_eq!(
            of(b" {\"a\":1.0} ", Media::Json),
            Data::Json("{\"a\":1.0}".into())
        );
        assert_eq!(of(b"{", Media::Json), Data::Bytes(b"{".into()));
        assert_eq!(
            of(b"\"\xff\"", Media::Json),
            Data::Bytes(b"\"\xff\"".into())
        );
        assert_eq!(of(b"123", Media::Text), Data::Text("123".into()));
        assert_eq!(of(b"\xff", Media::Text), Data::Bytes(b"\xff".into()));
        assert_eq!(of(b"123", Media::Other), Data::Bytes(b"123".into()));
    }
}
