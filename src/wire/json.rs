//! Small pieces of JSON: written values, and how deep a text goes.

use serde::Serialize;

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

/// Where a body first goes deeper than [`MAX_DEPTH`]. Whoever receives a message may read it with a
/// parser that recurses.
pub fn first_too_deep(body: &[u8]) -> Option<usize> {
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
