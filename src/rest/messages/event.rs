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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(event: &str, json_in_base64: bool, expected: Option<&str>) {
        let mut out = Vec::new();
        let put = put(&mut out, event.as_bytes(), json_in_base64);
        let shown = String::from_utf8(out).unwrap_or_default();
        assert_eq!(put.map(|()| shown.as_str()), expected, "{event}");
    }

    #[test]
    fn the_body_is_the_data_and_every_attribute_is_in_the_metadata() {
        let cases = [
            (
                r#"{"specversion":"1.0","x":true,"y":-5,"z":"\"é","data":{"a":1.0}}"#,
                r#""body":"eyJhIjoxLjB9","metadata":{"CF-Content-Type":"json","ce-specversion":"1.0","ce-x":"true","ce-y":"-5","ce-z":"\"é"}"#,
            ),
            (
                r#"{"datacontenttype":"application/cloudevent+json","data":"a"}"#,
                r#""body":"ImEi","metadata":{"CF-Content-Type":"json","ce-datacontenttype":"application/cloudevent+json"}"#,
            ),
            (
                r#"{"datacontenttype":"text/plain","data":"say \"hi\"\n"}"#,
                r#""body":"say \"hi\"\n","metadata":{"CF-Content-Type":"text","ce-datacontenttype":"text/plain"}"#,
            ),
            (
                r#"{"datacontenttype":"a/b","data_base64":"AP8="}"#,
                r#""body":"AP8=","metadata":{"CF-Content-Type":"bytes","ce-datacontenttype":"a/b"}"#,
            ),
            (
                r#"{"datacontenttype":"application/json","data_base64":"ew=="}"#,
                r#""body":"ew==","metadata":{"CF-Content-Type":"bytes","ce-datacontenttype":"application/json"}"#,
            ),
            (
                r#"{"id":"1"}"#,
                r#""body":"","metadata":{"CF-Content-Type":"bytes","ce-id":"1"}"#,
            ),
        ];
        for (event, expected) in cases {
            check(event, true, Some(expected));
        }
        check(
            r#"{"id":"1","data":{"a":"\n"}}"#,
            false,
            Some(r#""body":"{\"a\":\"\\n\"}","metadata":{"CF-Content-Type":"json","ce-id":"1"}"#),
        );
        check("[]", true, None);
    }
}
