//! Reads requests. Every field is read by hand, so that a refusal names the field, what is allowed
//! there and what came; and nothing here recurses, so that no body overflows the stack.
//!
//! Rules for all requests: a body is read whatever its Content-Type, null counts as absent, unknown
//! keys are passed over, of repeated keys the last counts (as for JavaScript's JSON.parse), and a
//! whole number may be spelt `5.0` or `5e0`.

use super::error::ApiError;
use crate::wire::json::{first_too_deep, MAX_DEPTH};
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::Deserializer as _;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;

/// Bytes of a request's body. The largest honest one is a batch of 256,000 bytes of text in which
/// every byte is escaped as `\u0001`. pullq's own.
pub const MAX_BODY_BYTES: usize = 2_000_000;
/// Characters of a wrong value that a refusal repeats.
const SHOWN_CHARS: usize = 40;
/// Whole numbers up to this size survive every JSON implementation.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// What is wrong with a field of a request: the peer's fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// Where the field stands, as a JSON pointer (RFC 6901); `None` when it isn't in the body.
    pub pointer: Option<String>,
    /// Says what is allowed and what came.
    pub sentence: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

/// Reads a body that is a JSON object, and in it the fields called `names`, in that order.
///
/// `invalid` says which error it is when the body is JSON but no object.
pub fn read_body<'a, const N: usize>(
    body: &'a [u8],
    names: [&'static str; N],
    invalid: fn(Wrong) -> ApiError,
) -> Result<[Field<'a>; N], ApiError> {
    let text = read_text(body)?;
    match text.bytes().find(|byte| !byte.is_ascii_whitespace()) {
        None => Err(malformed("it is empty")),
        Some(b'{') => {
            let values = members(text, names).map_err(malformed)?;
            Ok(fields(values, names, Place::ROOT))
        }
        Some(_) => {
            let value: &RawValue = serde_json::from_str(text).map_err(malformed)?;
            Err(invalid(Wrong {
                pointer: Some(String::new()),
                sentence: format!("The body must be a JSON object, not {}.", shown(value)),
            }))
        }
    }
}

/// [`read_body`] for requests that may say nothing: an empty body counts as `{}`.
pub fn read_optional_body<'a, const N: usize>(
    body: &'a [u8],
    names: [&'static str; N],
    invalid: fn(Wrong) -> ApiError,
) -> Result<[Field<'a>; N], ApiError> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(fields([None; N], names, Place::ROOT));
    }
    read_body(body, names, invalid)
}

/// A field of a request, there or not.
#[derive(Debug, Clone, Copy)]
pub struct Field<'a> {
    place: Place,
    value: Option<&'a RawValue>,
}

impl<'a> Field<'a> {
    /// Whether the field is there and not null.
    pub fn is_present(&self) -> bool {
        self.present().is_some()
    }

    /// The value's JSON text as it was sent, null included; `None` when the field isn't there.
    pub fn raw(&self) -> Option<&'a str> {
        self.value.map(RawValue::get)
    }

    /// A whole number within `range`.
    pub fn integer(&self, range: RangeInclusive<u64>) -> Result<Option<u64>, Wrong> {
        let Some(value) = self.present() else {
            return Ok(None);
        };
        match whole(value.get()) {
            Some(number) if range.contains(&number) => Ok(Some(number)),
            _ => {
                let (low, high) = (range.start(), range.end());
                Err(self.not(&format!("a whole number from {low} to {high}"), value))
            }
        }
    }

    /// [`Field::integer`] for ranges within a `u32`.
    pub fn small_integer(&self, range: RangeInclusive<u32>) -> Result<Option<u32>, Wrong> {
        let (low, high) = (u64::from(*range.start()), u64::from(*range.end()));
        let number = self.integer(low..=high)?;
        Ok(number.and_then(|number| u32::try_from(number).ok()))
    }

    pub fn boolean(&self) -> Result<Option<bool>, Wrong> {
        match self.present() {
            None => Ok(None),
            Some(value) => match value.get() {
                "true" => Ok(Some(true)),
                "false" => Ok(Some(false)),
                _ => Err(self.not("true or false", value)),
            },
        }
    }

    pub fn text(&self) -> Result<Option<Cow<'a, str>>, Wrong> {
        self.present().map(|value| self.text_of(value)).transpose()
    }

    /// An object's fields called `names`, in that order.
    pub fn object<const N: usize>(
        &self,
        names: [&'static str; N],
    ) -> Result<Option<[Field<'a>; N]>, Wrong> {
        let Some(value) = self.present() else {
            return Ok(None);
        };
        match members(value.get(), names) {
            Ok(values) => Ok(Some(fields(values, names, self.place))),
            Err(_) => Err(self.not("an object", value)),
        }
    }

    /// An array's items. At most `max` of them are read, the others only counted.
    pub fn array(&self, max: usize) -> Result<Option<Items<'a>>, Wrong> {
        let Some(value) = self.present() else {
            return Ok(None);
        };
        let mut deserializer = serde_json::Deserializer::from_str(value.get());
        match deserializer.deserialize_seq(ItemsVisitor { max }) {
            Ok((values, count)) => {
                let item = |(index, value)| Field {
                    place: self.place.then(Step::Index(index)),
                    value: Some(value),
                };
                let items = values.into_iter().enumerate().map(item).collect();
                Ok(Some(Items { items, count }))
            }
            Err(_) => Err(self.not("an array", value)),
        }
    }

    /// A field that must be there.
    pub fn required<T>(&self, read: Option<T>, expected: &str) -> Result<T, Wrong> {
        read.ok_or_else(|| self.refused(expected))
    }

    /// The refusal of a field that isn't what is expected, or isn't there.
    pub fn refused(&self, expected: &str) -> Wrong {
        match self.value {
            Some(value) => self.not(expected, value),
            None => self.wrong(&format!("is missing: it must be {expected}")),
        }
    }

    /// The refusal of this field: `what` follows its name.
    pub fn wrong(&self, what: &str) -> Wrong {
        Wrong {
            pointer: Some(self.place.pointer()),
            sentence: format!("{} {what}.", self.place),
        }
    }

    fn present(&self) -> Option<&'a RawValue> {
        self.value.filter(|value| value.get() != "null")
    }

    fn text_of(&self, value: &'a RawValue) -> Result<Cow<'a, str>, Wrong> {
        if !value.get().starts_with('"') {
            return Err(self.not("a string", value));
        }
        // The value has been found to be JSON; what JSON allows and Unicode doesn't is half a
        // surrogate pair.
        serde_json::Deserializer::from_str(value.get())
            .deserialize_str(TextVisitor)
            .map_err(|_| {
                self.wrong("must be a string of Unicode characters, not half of a surrogate pair")
            })
    }

    fn not(&self, expected: &str, value: &RawValue) -> Wrong {
        self.wrong(&format!("must be {expected}, not {}", shown(value)))
    }
}

/// The items of an array.
#[derive(Debug)]
pub struct Items<'a> {
    /// The first items, up to the number that was asked for.
    pub items: Vec<Field<'a>>,
    /// How many there are.
    pub count: usize,
}

/// Where a field stands. Requests go no deeper than this.
#[derive(Debug, Clone, Copy)]
struct Place([Step; 3]);

#[derive(Debug, Clone, Copy)]
enum Step {
    End,
    Name(&'static str),
    Index(usize),
}

impl Place {
    const ROOT: Place = Place([Step::End; 3]);

    fn then(self, step: Step) -> Place {
        let Place([first, second, third]) = self;
        match (first, second) {
            (Step::End, _) => Place([step, second, third]),
            (_, Step::End) => Place([first, step, third]),
            _ => Place([first, second, step]),
        }
    }

    fn pointer(self) -> String {
        let mut out = String::new();
        for step in self.0 {
            match step {
                Step::End => break,
                Step::Name(name) => out.push_str(&format!("/{name}")),
                Step::Index(index) => out.push_str(&format!("/{index}")),
            }
        }
        out
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, step) in self.0.iter().enumerate() {
            match step {
                Step::End => break,
                Step::Name(name) if depth == 0 => f.write_str(name)?,
                Step::Name(name) => write!(f, ".{name}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

fn fields<'a, const N: usize>(
    values: [Option<&'a RawValue>; N],
    names: [&'static str; N],
    parent: Place,
) -> [Field<'a>; N] {
    let mut names = names.into_iter();
    values.map(|value| Field {
        place: names
            .next()
            .map_or(parent, |name| parent.then(Step::Name(name))),
        value,
    })
}

fn read_text(body: &[u8]) -> Result<&str, ApiError> {
    if body.len() > MAX_BODY_BYTES {
        return Err(ApiError::BodyTooLarge);
    }
    let text = std::str::from_utf8(body)
        .map_err(|error| malformed(format!("it is not UTF-8 at byte {}", error.valid_up_to())))?;
    match first_too_deep(body) {
        Some(byte) => Err(malformed(format!(
            "it is nested deeper than {MAX_DEPTH} levels at byte {byte}"
        ))),
        None => Ok(text),
    }
}

fn malformed(why: impl fmt::Display) -> ApiError {
    ApiError::MalformedBody {
        why: why.to_string(),
    }
}

/// The whole number that a JSON number stands for, unless it has a fraction, is negative, or is too
/// large to be exact.
fn whole(number: &str) -> Option<u64> {
    if let Ok(number) = number.parse::<u64>() {
        return Some(number);
    }
    if !number.starts_with(|first: char| first.is_ascii_digit() || first == '-') {
        return None;
    }
    let number = number.parse::<f64>().ok()?;
    let is_whole = number.fract() == 0.0 && (0.0..=MAX_EXACT).contains(&number);
    is_whole.then_some(number as u64)
}

/// A wrong value as a refusal repeats it.
fn shown(value: &RawValue) -> String {
    let text = value.get();
    match text.as_bytes().first() {
        Some(b'{') => "an object".into(),
        Some(b'[') => "an array".into(),
        Some(b'"') => format!("the string {}", cut(text)),
        _ => cut(text),
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        None => text.into(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}

/// The values of an object's members called `names`.
fn members<'a, const N: usize>(
    text: &'a str,
    names: [&'static str; N],
) -> Result<[Option<&'a RawValue>; N], serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let values = deserializer.deserialize_map(MembersVisitor { names: &names })?;
    deserializer.end()?;
    Ok(values)
}

struct MembersVisitor<'n, const N: usize> {
    names: &'n [&'static str; N],
}

impl<'de, const N: usize> Visitor<'de> for MembersVisitor<'_, N> {
    type Value = [Option<&'de RawValue>; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut values = [None; N];
        while let Some(index) = map.next_key_seed(NameSeed { names: self.names })? {
            match index.and_then(|index| values.get_mut(index)) {
                Some(value) => *value = Some(map.next_value()?),
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(values)
    }
}

/// Finds which of the names a key is, copying nothing.
struct NameSeed<'n> {
    names: &'n [&'static str],
}

impl<'de> DeserializeSeed<'de> for NameSeed<'_> {
    type Value = Option<usize>;

    fn deserialize<D: serde::Deserializer<'de>>(self, key: D) -> Result<Self::Value, D::Error> {
        key.deserialize_str(self)
    }
}

impl Visitor<'_> for NameSeed<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.names.iter().position(|name| *name == key))
    }
}

struct ItemsVisitor {
    max: usize,
}

impl<'de> Visitor<'de> for ItemsVisitor {
    type Value = (Vec<&'de RawValue>, usize);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut values = Vec::new();
        while values.len() < self.max {
            match items.next_element()? {
                Some(value) => values.push(value),
                None => break,
            }
        }
        let mut count = values.len();
        while items.next_element::<IgnoredAny>()?.is_some() {
            count += 1;
        }
        Ok((values, count))
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<[Field<'_>; 2], ApiError> {
        read_body(body.as_bytes(), ["a", "b"], ApiError::InvalidField)
    }

    #[test]
    fn whole_numbers_in_any_spelling_are_read_and_others_refused() {
        let refused = |came: &str| {
            Err(format!(
                "a must be a whole number from 1 to 100, not {came}."
            ))
        };
        let cases = [
            ("5", Ok(Some(5))),
            ("5.0", Ok(Some(5))),
            ("5e0", Ok(Some(5))),
            ("1E+2", Ok(Some(100))),
            ("null", Ok(None)),
            ("0", refused("0")),
            ("-0", refused("-0")),
            ("-1", refused("-1")),
            ("101", refused("101")),
            ("1.5", refused("1.5")),
            ("1e400", refused("1e400")),
            ("18446744073709551616", refused("18446744073709551616")),
            ("\"5\"", refused("the string \"5\"")),
            ("true", refused("true")),
            ("[5]", refused("an array")),
            ("{}", refused("an object")),
            (
                "1000000000000000000000000000000000000000000",
                refused("1000000000000000000000000000000000000000…"),
            ),
        ];
        for (value, expected) in cases {
            let body = format!("{{\"a\":{value}}}");
            let [field, _] = read(&body).expect("an object");
            let read = field.integer(1..=100).map_err(|wrong| wrong.sentence);
            assert_eq!(read, expected, "{value}");
        }
    }

    #[test]
    fn a_body_that_is_not_json_is_refused_with_the_position() {
        let cases = [
            (&b""[..], "it is empty"),
            (b" \n", "it is empty"),
            (b"{", "EOF while parsing an object at line 1 column 1"),
            (b"{\"a\":1,}", "trailing comma at line 1 column 8"),
            (b"{\"a\":1}\n x", "trailing characters at line 2 column 2"),
            (b"{\"b\":[1,{]}", "key must be a string at line 1 column 10"),
            (b"{'a':1}", "key must be a string at line 1 column 2"),
            (b"{\"a\":01}", "invalid number at line 1 column 7"),
            (b"nul", "EOF while parsing a value at line 1 column 3"),
            (b"{\"a\":\"\xff\"}", "it is not UTF-8 at byte 6"),
            (
                b"{\"\\ud800\":1}",
                "unexpected end of hex escape at line 1 column 9",
            ),
        ];
        for (body, expected) in cases {
            let refusal = read_body(body, ["a"], ApiError::InvalidField).map(|_| ());
            let why = expected.to_string();
            assert_eq!(refusal, Err(ApiError::MalformedBody { why }), "{body:?}");
        }
    }

    #[test]
    fn a_body_that_is_no_object_is_refused() {
        let cases = [
            ("[]", "The body must be a JSON object, not an array."),
            ("5", "The body must be a JSON object, not 5."),
            ("null", "The body must be a JSON object, not null."),
            (
                "\"{}\"",
                "The body must be a JSON object, not the string \"{}\".",
            ),
        ];
        for (body, expected) in cases {
            match read(body) {
                Err(ApiError::InvalidField(wrong)) => assert_eq!(wrong.sentence, expected),
                other => panic!("{body}: {other:?}"),
            }
        }
    }

    #[test]
    fn depth_is_bounded_and_costs_no_stack() {
        let nested =
            |levels: usize| format!("{{\"a\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
        assert!(read(&nested(MAX_DEPTH - 1)).is_ok());
        let why = "it is nested deeper than 1000 levels at byte 1004".to_string();
        for levels in [MAX_DEPTH, 100_000] {
            let refusal = read(&nested(levels)).map(|_| ());
            assert_eq!(refusal, Err(ApiError::MalformedBody { why: why.clone() }));
        }
        // Brackets in strings are no levels.
        let text = format!("{{\"a\":\"\\\"{}\"}}", "[".repeat(5_000));
        assert!(read(&text).is_ok());
    }

    #[test]
    fn of_repeated_keys_the_last_counts_and_unknown_ones_are_passed_over() {
        let [a, b] = read(r#"{"a":1,"x":{"a":7},"a":2,"\u0062":true}"#).expect("an object");
        assert_eq!(a.integer(0..=9), Ok(Some(2)));
        assert_eq!(b.boolean(), Ok(Some(true)));
    }

    #[test]
    fn a_refusal_names_the_place() {
        let [a, _] = read(r#"{"a":[{"b":1},{"b":"x"}]}"#).expect("an object");
        let items = a.array(100).expect("an array").expect("present").items;
        let [field] = items[1].object(["b"]).expect("an object").expect("present");
        assert_eq!(
            field.boolean(),
            Err(Wrong {
                pointer: Some("/a/1/b".into()),
                sentence: "a[1].b must be true or false, not the string \"x\".".into(),
            })
        );
    }

    #[test]
    fn an_array_is_read_up_to_the_limit_and_counted_beyond_it() {
        let [a, _] = read(r#"{"a":[1,2,3,4,5]}"#).expect("an object");
        let items = a.array(3).expect("an array").expect("present");
        assert_eq!((items.items.len(), items.count), (3, 5));
    }

    #[test]
    fn strings_are_read_with_their_escapes_and_must_be_unicode() {
        let cases = [
            (r#""""#, Ok("")),
            (r#""grüße""#, Ok("grüße")),
            (r#""\u0041\ud83d\ude80\n""#, Ok("A🚀\n")),
            (
                r#""\ud83d""#,
                Err("a must be a string of Unicode characters, not half of a surrogate pair."),
            ),
            ("5", Err("a must be a string, not 5.")),
        ];
        for (value, expected) in cases {
            let body = format!("{{\"a\":{value}}}");
            let [field, _] = read(&body).expect("an object");
            let text = field.text().map_err(|wrong| wrong.sentence);
            let expected = expected
                .map(|text| Some(Cow::Borrowed(text)))
                .map_err(String::from);
            assert_eq!(text, expected, "{value}");
        }
    }
}
