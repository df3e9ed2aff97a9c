//! Events that were sent over the CloudEvents face, as this API shows them: CloudEvents' binary
//! mode in spirit. The body is the event's data, `metadata` has every attribute as `ce-<name>`.

use super::super::envelope::put_json;
use crate::wire::json::{members, put_quoted};
use crate::wire::media::Media;
use base64::engine::general_purpose::STANDARD;
use base64::Engine;

/// Appends an event in the form of a message that was sent here: `"body":…,"metadata":{…}`. `None`
/// when it can't be read.
///
/// Data that is JSON is a body of content type json, and a string of another media type one of
/// content type text. Anything else is bytes, as is data that isn't there, of which there are none.
pub(super) fn put(out: &mut Vec<u8>, event: &[u8], json_in_base64: bool) -> Option<()> {
    let members = members(std::str::from_utf8(event).ok()?).ok()?;
    let find = |name: &str| {
        let member = members.iter().find(|(other, _)| other == name)?;
        Some(member.1.get())
    };
    let media_type: Option<String> = match find("datacontenttype") {
        Some(string) => Some(serde_json::from_str(string).ok()?),
        None => None,
    };
    let content_type = match find("data") {
        Some(_) if Media::of(media_type.as_deref()) == Some(Media::Json) => "json",
        Some(_) => "text",
        None => "bytes",
    };
    out.extend_from_slice(b"\"body\":");
    match (content_type, find("data"), find("data_base64")) {
        ("json", Some(json), _) if json_in_base64 => put_quoted(out, &STANDARD.encode(json)),
        ("json", Some(json), _) => put_json(out, json),
        (_, Some(string), _) => out.extend_from_slice(string.as_bytes()),
        (_, None, Some(base64)) => out.extend_from_slice(base64.as_bytes()),
        (_, None, None) => put_quoted(out, ""),
    }
    out.extend_from_slice(b",\"metadata\":{\"CF-Content-Type\":");
    put_json(out, content_type);
    for (name, value) in &members {
        if matches!(name.as_str(), "data" | "data_base64") {
            continue;
        }
        out.extend_from_slice(b",\"ce-");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":");
        match value.get() {
            string if string.starts_with('"') => out.extend_from_slice(string.as_bytes()),
            // Metadata are strings: an integer and a boolean in their canonical spelling.
            other => put_json(out, other),
        }
    }
    out.push(b'}');
    Some(())
}
