//! Binary mode: attributes in headers, data in the body (CloudEvents 1.0.2, HTTP binding).

use super::error::EventsError;
use super::event::{invalid, Data, Draft, Value};
use super::header;
use super::structured::Read;
use crate::wire::json::{first_too_deep, MAX_DEPTH};
use crate::wire::media::Media;

/// Where attributes' headers begin.
const PREFIX: &str = "ce-";
/// The header whose presence makes a request one in binary mode.
pub const SPEC_VERSION: &str = "ce-specversion";

/// Reads a request; `headers` are its headers, their names in lower case.
pub fn read_event(
    content_type: Option<&str>,
    headers: &[(String, String)],
    body: &[u8],
) -> Result<Read, EventsError> {
    let mut draft = Draft::default();
    for (header, value) in headers {
        let Some(name) = header.strip_prefix(PREFIX) else {
            continue;
        };
        if name == "datacontenttype" {
            return Err(invalid(
                "ce-datacontenttype is no header: the media type stands in Content-Type",
            ));
        }
        let value = header::decode(value).ok_or_else(|| {
            invalid(format!(
                "the header {header} is not UTF-8: what is not ASCII must be percent-encoded"
            ))
        })?;
        draft.set(name, Value::Text(value))?;
    }
    if let Some(content_type) = content_type {
        draft.set("datacontenttype", Value::Text(content_type.to_owned()))?;
    }
    let media = draft.media()?;
    // An empty body can't be told from data that isn't there.
    let data = match body {
        [] => None,
        _ => Some(Data::of_bytes(body.to_vec(), media)),
    };
    if media == Media::Json && first_too_deep(body).is_some() {
        return Err(invalid(format!(
            "the body is nested deeper than {MAX_DEPTH} levels"
        )));
    }
    Ok((draft, data))
}
