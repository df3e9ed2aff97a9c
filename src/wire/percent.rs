//! Percent-encoding (RFC 3986, section 2.1), undone.

use std::borrow::Cow;

/// The bytes that `text` stands for. A `%` that no two hexadecimal digits follow stays as it is.
pub fn decode(text: &str) -> Cow<'_, [u8]> {
    if !text.contains('%') {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match (byte, after) {
            (b'%', [high, low, after @ ..]) => match (hex_digit(*high), hex_digit(*low)) {
                (Some(high), Some(low)) => {
                    bytes.push(high << 4 | low);
                    rest = after;
                }
                _ => bytes.push(byte),
            },
            _ => bytes.push(byte),
        }
    }
    Cow::Owned(bytes)
}

/// The text that `text` stands for; `None` when that isn't UTF-8.
pub fn decode_text(text: &str) -> Option<Cow<'_, str>> {
    match decode(text) {
        Cow::Borrowed(_) => Some(Cow::Borrowed(text)),
        Cow::Owned(bytes) => String::from_utf8(bytes).ok().map(Cow::Owned),
    }
}

/// The text that a key or value of a query stands for (`application/x-www-form-urlencoded`);
/// `None` when that isn't UTF-8.
pub fn decode_query(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('+') {
        return decode_text(text);
    }
    decode_text(&text.replace('+', " ")).map(|text| Cow::Owned(text.into_owned()))
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte)
        .to_digit(16)
        .and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_undone_once_and_what_is_none_stays() {
        let cases = [
            ("", Some("")),
            ("a b", Some("a b")),
            ("a%20b", Some("a b")),
            ("%e2%82%AC", Some("€")),
            ("é%20%C3%A9", Some("é é")),
            ("%2541", Some("%41")),
            ("100%", Some("100%")),
            ("%4", Some("%4")),
            ("%zz%41", Some("%zzA")),
            ("%%41", Some("%A")),
            ("%C0%A0", None),
            ("%ff", None),
            ("%C3é", None),
        ];
        for (text, expected) in cases {
            assert_eq!(decode_text(text).as_deref(), expected, "{text}");
        }
        assert_eq!(decode_query("a+b%2B").as_deref(), Some("a b+"));
    }
}
