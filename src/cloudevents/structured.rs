//! Structured mode: an event, or a batch of events, as JSON (CloudEvents 1.0.2, JSON format).

use super::error::EventsError;
use super::event::{invalid, is_core, Data, Draft, Value};
use crate::wire::json::{self, first_too_deep, MAX_DEPTH};
use crate::wire::media::Media;
use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use serde_json::value::RawValue;

/// An event as it was read.
pub type Read = (Draft, Option<Data>);

/// Reads a body that is one event.
pub fn read_event(body: &[u8]) -> Result<Read, EventsError> {
    read_object(read_text(body)?)
}

/// Splits a body that is a batch into its events' JSON texts.
pub fn read_batch(body: &[u8]) -> Result<Vec<&RawValue>, EventsError> {
    let text = read_text(body)?;
    serde_json::from_str(text).map_err(|error| {
        invalid(format!(
            "the body of a batch must be a JSON array of events: {error}"
        ))
    })
}

/// Reads one event's JSON text.
pub fn read_object(text: &str) -> Result<Read, EventsError> {
    let mut draft = Draft::default();
    let mut json = None;
    let mut base64 = None;
    for (name, value) in members(text)? {
        match name.as_str() {
            "data" => once(&mut json, "data", value)?,
            "data_base64" => once(&mut base64, "data_base64", value)?,
            // An attribute that is null is not set.
            _ if value.get() == "null" => {}
            _ => draft.set(&name, attribute(&name, value)?)?,
        }
    }
    let media = draft.media()?;
    let data = match (json, base64) {
        (Some(_), Some(_)) => return Err(invalid("data and data_base64 exclude each other")),
        (Some(value), None) => data_member(value, media)?,
        (None, Some(value)) => Some(Data::of_bytes(base64_member(value)?, media)),
        (None, None) => None,
    };
    Ok((draft, data))
}

fn read_text(body: &[u8]) -> Result<&str, EventsError> {
    let text = std::str::from_utf8(body).map_err(|error| {
        invalid(format!(
            "the body is not UTF-8 at byte {}",
            error.valid_up_to()
        ))
    })?;
    match first_too_deep(body) {
        Some(byte) => Err(invalid(format!(
            "the body is nested deeper than {MAX_DEPTH} levels at byte {byte}"
        ))),
        None => Ok(text),
    }
}

fn members(text: &str) -> Result<Vec<(String, &RawValue)>, EventsError> {
    json::members(text).map_err(|error| invalid(format!("an event must be a JSON object: {error}")))
}

fn once<'a>(
    place: &mut Option<&'a RawValue>,
    name: &str,
    value: &'a RawValue,
) -> Result<(), EventsError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(invalid(format!("{name} is there twice"))),
    }
}

fn attribute(name: &str, value: &RawValue) -> Result<Value, EventsError> {
    let text = value.get();
    if !text.starts_with('"') && is_core(name) {
        return Err(invalid(format!("{name} must be a string")));
    }
    match text.bytes().next() {
        Some(b'"') => string(value)
            .map(Value::Text)
            .ok_or_else(|| invalid(format!("{name} has half of a surrogate pair"))),
        Some(b't') => Ok(Value::Boolean(true)),
        Some(b'f') => Ok(Value::Boolean(false)),
        Some(b'{' | b'[') => Err(invalid(format!(
            "{name} must be a string, a boolean or an integer"
        ))),
        _ => text.parse().map(Value::Integer).map_err(|_| {
            invalid(format!(
                "{name} must be an integer from -2147483648 to 2147483647 where it is a number"
            ))
        }),
    }
}

fn string(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

/// The member `data`: any JSON value where the media type is JSON, and otherwise a string.
fn data_member(value: &RawValue, media: Media) -> Result<Option<Data>, EventsError> {
    match (media, value.get().bytes().next()) {
        (Media::Json, _) => Ok(Some(Data::Json(value.get().to_owned()))),
        // Null can't be anything but data that isn't there.
        (_, Some(b'n')) => Ok(None),
        (_, Some(b'"')) => match string(value) {
            Some(text) => Ok(Some(Data::Text(text))),
            None => Err(invalid("data has half of a surrogate pair")),
        },
        _ => Err(invalid(
            "data must be a string, as datacontenttype says that it isn't JSON",
        )),
    }
}

fn base64_member(value: &RawValue) -> Result<Vec<u8>, EventsError> {
    string(value)
        .and_then(|text| STANDARD.decode(text).ok())
        .ok_or_else(|| invalid("data_base64 must be a string with base64 (RFC 4648, padded)"))
}
