//! Small pieces of JSON: written values, an object's members, and how deep a text goes.

use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde::Serialize;
use serde_json::value::RawValue;
use std::fmt;

/// How deep a body may be nested. pullq's own.
pub const MAX_DEPTH: usize = 1_000;

/// Appends `value` as JSON.
pub fn put_json(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    // Neither a vector nor a type of ours refuses to be written; null keeps the body JSON anyway.
    let start = out.len();
    if serde_json::to_writer(&mut *out, value).is_err() {
        out.truncate(start);
        out.extend_from_slice(b"null");
    }
}

/// Appends a text that needs no escapes as a JSON string.
pub fn put_quoted(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

/// Appends bytes in lower-case hexadecimal digits.
pub fn put_hex(out: &mut Vec<u8>, bytes: &[u8; 16]) {
    let digit = |value: u8| match value {
        0..=9 => b'0' + value,
        _ => b'a' + (value - 10),
    };
    for byte in bytes {
        out.push(digit(byte >> 4));
        out.push(digit(byte & 0xf));
    }
}

/// The members of an object in their order, repeated names included, their values as they stand in
/// the text.
pub fn members(text: &str) -> serde_json::Result<Vec<(String, &RawValue)>> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let members = deserializer.deserialize_map(Members)?;
    deserializer.end().map(|()| members)
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(members)
    }
}

/// Where a body first goes deeper than [`MAX_DEPTH`]. Whoever receives a message may read it with a
/// parser that recurses.
pub fn first_too_deep(body: &[u8]) -> Option<usize> {
    // Few bodies have so many brackets at all, and counting them is quick.
    memchr::memchr2_iter(b'{', b'[', body).nth(MAX_DEPTH)?;
    let mut depth = 0usize;
    let mut in_text = false;
    let mut escaped = false;
    for (position, byte) in body.iter().enumerate() {
        if in_text {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_text = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_text = true,
            b'{' | b'[' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Some(position);
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}
