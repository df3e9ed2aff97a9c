//! Attributes' values in HTTP headers (CloudEvents 1.0.2, HTTP binding, section 3.1.3.2).

use crate::wire::percent;
use std::borrow::Cow;

/// The text that a header's value stands for: a quoted string loses its quotes and backslashes,
/// then percent-encoding is undone once. `None` when that isn't UTF-8.
///
/// A `%` that begins no escape stays: half of the SDKs encode nothing. Characters that should have
/// been encoded are taken where they came as UTF-8; where they didn't, the runtime has put U+FFFD in
/// their place, and what they were is lost.
pub fn decode(value: &str) -> Option<String> {
    if value.contains(char::REPLACEMENT_CHARACTER) {
        return None;
    }
    let value = unquote(value).map_or(Cow::Borrowed(value), Cow::Owned);
    percent::decode_text(&value).map(Cow::into_owned)
}

/// What a quoted string (RFC 7230, section 3.2.6) quotes; `None` when `value` is none.
fn unquote(value: &str) -> Option<String> {
    let inner = value.strip_prefix('"')?.strip_suffix('"')?;
    let mut text = String::with_capacity(inner.len());
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => return None,
            '\\' => text.push(characters.next()?),
            _ => text.push(character),
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_loses_its_quotes_and_then_one_layer_of_escapes() {
        let cases = [
            ("plain", Some("plain")),
            ("", Some("")),
            ("Euro%20%E2%82%AC%20%F0%9F%98%80", Some("Euro € 😀")),
            ("%41bc", Some("Abc")),
            ("%e2%82%ac", Some("€")),
            ("%2541", Some("%41")),
            ("100%", Some("100%")),
            ("é", Some("é")),
            (r#""a \"b\"""#, Some(r#"a "b""#)),
            (r#""a\\b""#, Some(r"a\b")),
            (r#""a%20b""#, Some("a b")),
            (r#""""#, Some("")),
            (r#"""#, Some(r#"""#)),
            (r#""a" and "b""#, Some(r#""a" and "b""#)),
            (r#""a\""#, Some(r#""a\""#)),
            (r#"a"b"#, Some(r#"a"b"#)),
            ("%EF%BF%BD", Some("\u{fffd}")),
            ("\u{fffd}", None),
            ("%C0%A0", None),
            ("%ED%A0%80", None),
        ];
        for (value, expected) in cases {
            assert_eq!(decode(value).as_deref(), expected, "{value}");
        }
    }
}
