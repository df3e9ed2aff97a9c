//! The CloudEvents face, natively: what `POST /ce/queue/send` takes and refuses, and that an event
//! comes back as it was sent. Cases by CloudEvents 1.0.2 (its JSON format and HTTP binding), by the
//! features of its conformance suite, and by KubeMQ's documentation.

#![allow(clippy::panic, clippy::expect_used)]

use pullq::cloudevents::query::SendQuery;
use pullq::cloudevents::receive::{encode_drained, encode_peeked, encode_received};
use pullq::cloudevents::send::{parse, Now, Request, Sent};
use pullq::cloudevents::EventsError;
use pullq::queue::{Death, Delivery, Peeked, SendReceipt};
use pullq::wire::form::{CLOUDEVENT, CLOUDFLARE, CLOUDFLARE_PLAIN_JSON};
use pullq::wire::Answer;

const JSON: &str = "application/cloudevents+json";
const BATCH: &str = "application/cloudevents-batch+json";
/// 2026-11-30T10:40:00Z.
const NOW: Now = Now {
    ms: 1_796_035_200_000,
    entropy: [0xab; 16],
};
/// What an event without an id gets from [`NOW`].
const GIVEN_ID: &str = "abababab-abab-4bab-abab-abababababab";

/// Headers as they are written.
type Pairs = &'static [(&'static str, &'static str)];

fn headers(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let pair = |(name, value): &(&str, &str)| (name.to_ascii_lowercase(), (*value).to_string());
    pairs.iter().map(pair).collect()
}

fn send(pairs: &[(&str, &str)], body: &[u8]) -> Result<Sent, EventsError> {
    let headers = headers(pairs);
    let content_type = headers.iter().find(|(name, _)| name == "content-type");
    let request = Request {
        content_type: content_type.map(|(_, value)| value.as_str()),
        headers: &headers,
        body,
    };
    parse(request, NOW)
}

fn only_content(sent: Sent) -> String {
    let [event] = sent.events.try_into().expect("one event");
    String::from_utf8(event.content).expect("UTF-8")
}

/// What is stored and served of an event in structured mode.
fn structured(body: &str) -> Result<String, String> {
    send(&[("Content-Type", JSON)], body.as_bytes())
        .map(only_content)
        .map_err(|error| {
            assert_eq!(error.row().0, 400, "{body}");
            error.to_string()
        })
}

/// The members after `type` and `source` of an event whose other attributes are the shortest there
/// are; `rest` is what is sent beside those, each with a comma before it.
fn check_structured(rest: &str, expected: Result<&str, &str>) {
    let body = format!(
        r#"{{"specversion":"1.0","id":"1","type":"t","source":"s","time":"2020-01-01T00:00:00Z"{rest}}}"#
    );
    let expected = expected
        .map(|rest| format!(r#"{{"specversion":"1.0","type":"t","source":"s","id":"1","time":"2020-01-01T00:00:00Z"{rest}}}"#))
        .map_err(|why| format!("invalid CloudEvent: {why}."));
    assert_eq!(structured(&body), expected, "{rest}");
}

/// The same in binary mode: `pairs` are further headers.
fn check_binary(pairs: &[(&str, &str)], body: &[u8], expected: Result<&str, &str>) {
    let mut all = vec![
        ("ce-specversion", "1.0"),
        ("ce-id", "1"),
        ("ce-type", "t"),
        ("ce-source", "s"),
        ("ce-time", "2020-01-01T00:00:00Z"),
    ];
    all.extend_from_slice(pairs);
    let stored = send(&all, body).map(only_content).map_err(|error| {
        assert_eq!(error.row().0, 400, "{pairs:?}");
        error.to_string()
    });
    let expected = expected
        .map(|rest| format!(r#"{{"specversion":"1.0","type":"t","source":"s","id":"1","time":"2020-01-01T00:00:00Z"{rest}}}"#))
        .map_err(|why| format!("invalid CloudEvent: {why}."));
    assert_eq!(stored, expected, "{pairs:?}");
}

#[test]
fn a_minimal_event_gets_the_time_and_where_it_lacks_one_an_id() {
    let cases = [
        (
            r#"{"specversion":"1.0","id":"A1","source":"/s","type":"t"}"#,
            r#"{"specversion":"1.0","type":"t","source":"/s","id":"A1","time":"2026-11-30T10:40:00.000Z"}"#.to_string(),
        ),
        (
            r#"{"specversion":"1.0","source":"/s","type":"t"}"#,
            format!(r#"{{"specversion":"1.0","type":"t","source":"/s","id":"{GIVEN_ID}","time":"2026-11-30T10:40:00.000Z"}}"#),
        ),
        (
            r#"{"specversion":"1.0","id":"","source":"/s","type":"t"}"#,
            format!(r#"{{"specversion":"1.0","type":"t","source":"/s","id":"{GIVEN_ID}","time":"2026-11-30T10:40:00.000Z"}}"#),
        ),
        (
            r#"{"specversion":"1.0","id":null,"source":"/s","type":"t","time":null}"#,
            format!(r#"{{"specversion":"1.0","type":"t","source":"/s","id":"{GIVEN_ID}","time":"2026-11-30T10:40:00.000Z"}}"#),
        ),
    ];
    for (body, expected) in cases {
        assert_eq!(structured(body), Ok(expected), "{body}");
    }
}

#[test]
fn the_content_type_says_the_mode() {
    let event = br#"{"specversion":"1.0","id":"1","source":"s","type":"t"}"#;
    let batch = [b"[", event.as_slice(), b"]"].concat();
    let binary = ("ce-specversion", "1.0");
    let rest = [("ce-id", "1"), ("ce-source", "s"), ("ce-type", "t")];
    let status = |pairs: &[(&str, &str)], body: &[u8]| match send(pairs, body) {
        Ok(_) => 202,
        Err(error) => error.row().0,
    };
    for content_type in [
        JSON,
        "application/cloudevents+json; charset=utf-8",
        "Application/CloudEvents+JSON",
        " application/cloudevents+json ;charset=\"utf-8\"",
    ] {
        assert_eq!(
            status(&[("Content-Type", content_type)], event),
            202,
            "{content_type}"
        );
        // The media type wins over headers of binary mode.
        assert_eq!(
            status(&[("Content-Type", content_type), binary], event),
            202
        );
    }
    assert_eq!(
        status(
            &[(
                "content-type",
                "application/cloudevents-batch+json; charset=utf-8"
            )],
            &batch
        ),
        202
    );
    for content_type in [
        "application/json",
        "text/plain",
        "application/cloudevents",
        "application/cloudevents+avro",
        "application/cloudevents+xml",
        "application/cloudevents-batch",
        "application/cloudevents-batch+avro",
        "application/cloudevents+jsonx",
    ] {
        assert_eq!(
            status(&[("Content-Type", content_type)], event),
            415,
            "{content_type}"
        );
    }
    assert_eq!(status(&[], event), 415);
    assert_eq!(status(&[], b""), 415);
    // A format that isn't known is not taken for binary data.
    let mut avro = vec![("Content-Type", "application/cloudevents+avro"), binary];
    avro.extend(rest);
    assert_eq!(status(&avro, event), 415);
    let mut none = vec![binary];
    none.extend(rest);
    assert_eq!(status(&none, b""), 202);
    // A payload that is structured wins, though the headers name another event.
    let mut both = vec![("Content-Type", JSON), binary, ("ce-id", "2")];
    both.extend(&rest[1..]);
    let stored = send(&both, event).map(only_content).expect("an event");
    assert!(stored.contains(r#""id":"1""#), "{stored}");
}

#[test]
fn what_is_no_event_is_refused_with_the_reason() {
    let cases = [
        ("", "an event must be a JSON object: EOF while parsing a value at line 1 column 0"),
        ("not json", "an event must be a JSON object: expected ident at line 1 column 2"),
        ("[]", "an event must be a JSON object: invalid type: sequence, expected an object at line 1 column 0"),
        ("{} {}", "an event must be a JSON object: trailing characters at line 1 column 4"),
        ("{}", "specversion is missing: it must be \"1.0\""),
        (r#"{"specversion":"1.0"}"#, "source is missing"),
        (r#"{"specversion":"1.0","id":"1","source":"s"}"#, "type is missing"),
        (r#"{"specversion":"1.0","id":"1","type":"t"}"#, "source is missing"),
        (r#"{"specversion":"1.0","id":"1","type":"t","source":null}"#, "source is missing"),
        (r#"{"specversion":"1.0","id":"1","type":"","source":"s"}"#, "type is empty"),
        (r#"{"specversion":"1.0","id":"1","type":"t","source":""}"#, "source is empty"),
        (r#"{"id":"1","type":"t","source":"s"}"#, "specversion is missing: it must be \"1.0\""),
        (r#"{"specversion":"2.0","id":"1","type":"t","source":"s"}"#, "specversion must be \"1.0\""),
        (r#"{"specversion":"0.3","id":"1","type":"t","source":"s"}"#, "specversion must be \"1.0\""),
        (r#"{"specversion":"","id":"1","type":"t","source":"s"}"#, "specversion must be \"1.0\""),
        (r#"{"specversion":1,"id":"1","type":"t","source":"s"}"#, "specversion must be a string"),
        (r#"{"specversion":1.0,"id":"1","type":"t","source":"s"}"#, "specversion must be a string"),
        (r#"{"specversion":"1.0","id":1,"type":"t","source":"s"}"#, "id must be a string"),
        (r#"{"specversion":"1.0","id":"1","id":"2","type":"t","source":"s"}"#, "id is there twice"),
    ];
    for (body, expected) in cases {
        let expected = format!("invalid CloudEvent: {expected}.");
        assert_eq!(structured(body), Err(expected), "{body}");
    }
    let not_utf8 = send(&[("Content-Type", JSON)], b"{\"id\":\"\xff\"}");
    assert_eq!(
        not_utf8,
        Err(EventsError::InvalidEvent(
            "the body is not UTF-8 at byte 7".into()
        ))
    );
    let deep = format!(r#"{{"data":{}1{}}}"#, "[".repeat(1_000), "]".repeat(1_000));
    assert_eq!(
        structured(&deep),
        Err("invalid CloudEvent: the body is nested deeper than 1000 levels at byte 1007.".into())
    );
}

#[test]
fn attributes_keep_their_rules() {
    let name = "can't be an attribute's name: one has lower-case letters and digits only";
    let number = "must be an integer from -2147483648 to 2147483647 where it is a number";
    let time = "time must be a point in time as in RFC 3339, such as 2018-04-05T17:31:00Z";
    let good = [
        (r#","subject":null"#, ""),
        (r#","subject":"""#, ""),
        (
            r#","datacontenttype":"text/plain""#,
            r#","datacontenttype":"text/plain""#,
        ),
        (
            r#","dataschema":"https://example.com/schema""#,
            r#","dataschema":"https://example.com/schema""#,
        ),
        (r#","x":true,"y":false"#, r#","x":true,"y":false"#),
        (
            r#","b":5,"a":-2147483648,"c":2147483647"#,
            r#","b":5,"a":-2147483648,"c":2147483647"#,
        ),
        (
            r#","s":"5","t":"true","e":"","n":null"#,
            r#","s":"5","t":"true","e":"""#,
        ),
        (r#","x":"\u0041\ud83d\ude80 \"\\é""#, r#","x":"A🚀 \"\\é""#),
        (
            r#","x1":"binary AP8=","1x":"a""#,
            r#","x1":"binary AP8=","1x":"a""#,
        ),
        (
            r#","averylongnameofmorethantwentycharacters":1"#,
            r#","averylongnameofmorethantwentycharacters":1"#,
        ),
        (
            r#","traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01""#,
            r#","traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01""#,
        ),
    ];
    for (rest, expected) in good {
        check_structured(rest, Ok(expected));
    }
    let bad = [
        (r#","my_ext":1"#, format!("\"my_ext\" {name}")),
        (r#","my-ext":"a""#, format!("\"my-ext\" {name}")),
        (r#","MyExt":"a""#, format!("\"MyExt\" {name}")),
        (r#","Type":"a""#, format!("\"Type\" {name}")),
        (r#","é":"a""#, format!("\"é\" {name}")),
        (r#","":"a""#, format!("\"\" {name}")),
        (
            r#","_kubemq_request_id":"a""#,
            format!("\"_kubemq_request_id\" {name}"),
        ),
        (r#","x":2147483648"#, format!("x {number}")),
        (r#","x":-2147483649"#, format!("x {number}")),
        (r#","x":1.5"#, format!("x {number}")),
        (r#","x":5.0"#, format!("x {number}")),
        (r#","x":1e2"#, format!("x {number}")),
        (
            r#","x":{"a":1}"#,
            "x must be a string, a boolean or an integer".into(),
        ),
        (
            r#","x":[1]"#,
            "x must be a string, a boolean or an integer".into(),
        ),
        (r#","x":1,"x":2"#, "x is there twice".into()),
        (
            r#","x":"a\u0000""#,
            "x has a control character or a Unicode noncharacter".into(),
        ),
        (
            r#","x":"a\n""#,
            "x has a control character or a Unicode noncharacter".into(),
        ),
        (
            r#","x":"\u0085""#,
            "x has a control character or a Unicode noncharacter".into(),
        ),
        (
            r#","x":"\ufdd0""#,
            "x has a control character or a Unicode noncharacter".into(),
        ),
        (
            r#","x":"\ud83f\udffe""#,
            "x has a control character or a Unicode noncharacter".into(),
        ),
        (r#","x":"\ud800""#, "x has half of a surrogate pair".into()),
        (r#","subject":5"#, "subject must be a string".into()),
        (
            r#","datacontenttype":"json""#,
            "datacontenttype must be a media type, such as application/json".into(),
        ),
        (
            r#","datacontenttype":"""#,
            "datacontenttype must be a media type, such as application/json".into(),
        ),
        (
            r#","dataschema":"""#,
            "dataschema must be an absolute URI".into(),
        ),
        (
            r#","dataschema":"schema.json""#,
            "dataschema must be an absolute URI".into(),
        ),
    ];
    for (rest, expected) in bad {
        check_structured(rest, Err(&expected));
    }
    for text in [
        "yesterday",
        "2018-04-05",
        "2018-04-05T17:31:00",
        "2018-02-30T17:31:00Z",
        "",
    ] {
        let body =
            format!(r#"{{"specversion":"1.0","id":"1","type":"t","source":"s","time":"{text}"}}"#);
        assert_eq!(
            structured(&body),
            Err(format!("invalid CloudEvent: {time}.")),
            "{text}"
        );
    }
    for text in [
        "2018-04-05T17:31:00.123456789+02:00",
        "2018-04-05T17:31:00Z",
        "2026-11-30T10:40:00.123456+00:00",
    ] {
        let body =
            format!(r#"{{"specversion":"1.0","id":"1","type":"t","source":"s","time":"{text}"}}"#);
        let stored = structured(&body).expect(text);
        assert!(stored.contains(&format!(r#""time":"{text}""#)), "{stored}");
    }
}

#[test]
fn structured_data_comes_back_as_it_was_sent() {
    let exclusive = Err("data and data_base64 exclude each other");
    let base64 = Err("data_base64 must be a string with base64 (RFC 4648, padded)");
    let not_json = Err("data must be a string, as datacontenttype says that it isn't JSON");
    let cases = [
        // JSON, with a media type that says so or none.
        (
            r#","data":{"z":1,"a":[1.0,1e400,12345678901234567890]}"#,
            Ok(r#","data":{"z":1,"a":[1.0,1e400,12345678901234567890]}"#),
        ),
        (
            r#","datacontenttype":"application/json","data": {"b" : 1, "b":2} "#,
            Ok(r#","datacontenttype":"application/json","data":{"b" : 1, "b":2}"#),
        ),
        (
            r#","datacontenttype":"application/vnd.x+json","data":[]"#,
            Ok(r#","datacontenttype":"application/vnd.x+json","data":[]"#),
        ),
        (
            r#","data":"I'm just a string""#,
            Ok(r#","data":"I'm just a string""#),
        ),
        (
            r#","datacontenttype":"application/json","data":"{\"a\":1}""#,
            Ok(r#","datacontenttype":"application/json","data":"{\"a\":1}""#),
        ),
        (r#","data":"\ud800""#, Ok(r#","data":"\ud800""#)),
        (r#","data":null"#, Ok(r#","data":null"#)),
        (r#","data":false"#, Ok(r#","data":false"#)),
        (r#","data":0"#, Ok(r#","data":0"#)),
        ("", Ok("")),
        // Text.
        (
            r#","datacontenttype":"text/plain","data":"grüße\n""#,
            Ok(r#","datacontenttype":"text/plain","data":"grüße\n""#),
        ),
        (
            r#","datacontenttype":"text/plain","data":"123""#,
            Ok(r#","datacontenttype":"text/plain","data":"123""#),
        ),
        (
            r#","datacontenttype":"application/xml","data":"<x/>""#,
            Ok(r#","datacontenttype":"application/xml","data":"<x/>""#),
        ),
        (
            r#","datacontenttype":"application/octet-stream","data":"abc""#,
            Ok(r#","datacontenttype":"application/octet-stream","data":"abc""#),
        ),
        (
            r#","datacontenttype":"text/plain","data":null"#,
            Ok(r#","datacontenttype":"text/plain""#),
        ),
        (
            r#","datacontenttype":"text/plain","data":{"a":1}"#,
            not_json,
        ),
        (r#","datacontenttype":"application/xml","data":5"#, not_json),
        (
            r#","datacontenttype":"text/plain","data":"\ud800""#,
            Err("data has half of a surrogate pair"),
        ),
        // Bytes.
        (
            r#","datacontenttype":"application/octet-stream","data_base64":"AP8=""#,
            Ok(r#","datacontenttype":"application/octet-stream","data_base64":"AP8=""#),
        ),
        (r#","data_base64":"AP8=""#, Ok(r#","data_base64":"AP8=""#)),
        (r#","data_base64":"""#, Ok(r#","data_base64":"""#)),
        (
            r#","datacontenttype":"application/json","data_base64":"eyJhIjoxfQ==""#,
            Ok(r#","datacontenttype":"application/json","data":{"a":1}"#),
        ),
        (r#","data_base64":"eyJhIjoxfQ==""#, Ok(r#","data":{"a":1}"#)),
        (
            r#","datacontenttype":"application/json","data_base64":"ew==""#,
            Ok(r#","datacontenttype":"application/json","data_base64":"ew==""#),
        ),
        (
            r#","datacontenttype":"text/plain","data_base64":"aGVsbG8=""#,
            Ok(r#","datacontenttype":"text/plain","data":"hello""#),
        ),
        (
            r#","datacontenttype":"text/plain","data_base64":"/w==""#,
            Ok(r#","datacontenttype":"text/plain","data_base64":"/w==""#),
        ),
        (
            r#","datacontenttype":"text/plain; charset=iso-8859-1","data_base64":"w6k=""#,
            Ok(r#","datacontenttype":"text/plain; charset=iso-8859-1","data_base64":"w6k=""#),
        ),
        (r#","data_base64":"***""#, base64),
        (r#","data_base64":"AP8""#, base64),
        (r#","data_base64":5"#, base64),
        (r#","data_base64":null"#, base64),
        (r#","data":{},"data_base64":"e30=""#, exclusive),
        (r#","data":null,"data_base64":"e30=""#, exclusive),
        (r#","data":1,"data":2"#, Err("data is there twice")),
    ];
    for (rest, expected) in cases {
        check_structured(rest, expected);
    }
}

#[test]
fn binary_mode_carries_attributes_in_headers_and_data_in_the_body() {
    let good: [(Pairs, &[u8], &str); 19] = [
        (&[], b"", ""),
        (
            &[("Content-Type", "application/json")],
            b"{\"a\":1.0}",
            r#","datacontenttype":"application/json","data":{"a":1.0}"#,
        ),
        (
            &[("Content-Type", "application/json; charset=utf-8")],
            b" [1] ",
            r#","datacontenttype":"application/json; charset=utf-8","data":[1]"#,
        ),
        (
            &[("Content-Type", "application/json")],
            b"null",
            r#","datacontenttype":"application/json","data":null"#,
        ),
        (
            &[("Content-Type", "application/json")],
            b"",
            r#","datacontenttype":"application/json""#,
        ),
        (
            &[("Content-Type", "application/json")],
            b"str",
            r#","datacontenttype":"application/json","data_base64":"c3Ry""#,
        ),
        (
            &[("Content-Type", "application/json")],
            b"\xef\xbb\xbf{}",
            r#","datacontenttype":"application/json","data_base64":"77u/e30=""#,
        ),
        (
            &[("Content-Type", "text/plain; charset=us-ascii")],
            b"Hello, CloudEvents!",
            r#","datacontenttype":"text/plain; charset=us-ascii","data":"Hello, CloudEvents!""#,
        ),
        (
            &[("Content-Type", "text/plain")],
            b"123",
            r#","datacontenttype":"text/plain","data":"123""#,
        ),
        (
            &[("Content-Type", "text/plain")],
            b"\xff",
            r#","datacontenttype":"text/plain","data_base64":"/w==""#,
        ),
        (
            &[("Content-Type", "application/xml")],
            b"<much wow=\"xml\"/>",
            r#","datacontenttype":"application/xml","data":"<much wow=\"xml\"/>""#,
        ),
        (
            &[("Content-Type", "application/octet-stream")],
            b"\x00\xff",
            r#","datacontenttype":"application/octet-stream","data_base64":"AP8=""#,
        ),
        (&[], b"{\"a\":1}", r#","data":{"a":1}"#),
        (&[], b"hello", r#","data_base64":"aGVsbG8=""#),
        (
            &[
                ("CE-X", "1"),
                ("Ce-Y", "true"),
                ("Host", "h"),
                ("x-ce-z", "z"),
                ("ce", "c"),
            ],
            b"",
            r#","x":"1","y":"true""#,
        ),
        (
            &[
                ("ce-x", "Euro%20%E2%82%AC%20%F0%9F%98%80"),
                ("ce-y", "%41bc"),
                ("ce-z", "%e2%82%ac"),
            ],
            b"",
            r#","x":"Euro € 😀","y":"Abc","z":"€""#,
        ),
        (
            &[("ce-x", r#""a \"b\"""#), ("ce-y", "%2541")],
            b"",
            r#","x":"a \"b\"","y":"%41""#,
        ),
        (
            &[("ce-x", "100%"), ("ce-y", "é")],
            b"",
            r#","x":"100%","y":"é""#,
        ),
        (
            &[
                ("ce-dataschema", "https://example.com/s"),
                ("ce-subject", ""),
            ],
            b"",
            r#","dataschema":"https://example.com/s""#,
        ),
    ];
    for (pairs, body, expected) in good {
        check_binary(pairs, body, Ok(expected));
    }
    let name = "can't be an attribute's name: one has lower-case letters and digits only";
    let bad: [(Pairs, String); 10] = [
        (
            &[("ce-x", "%C0%A0")],
            "the header ce-x is not UTF-8: what is not ASCII must be percent-encoded".into(),
        ),
        (
            &[("ce-x", "a%0Ab")],
            "x has a control character or a Unicode noncharacter".into(),
        ),
        (&[("ce-my-ext", "a")], format!("\"my-ext\" {name}")),
        (&[("ce-my_ext", "a")], format!("\"my_ext\" {name}")),
        (&[("ce-", "a")], format!("\"\" {name}")),
        (&[("ce-data", "a")], format!("\"data\" {name}")),
        (
            &[("ce-datacontenttype", "text/plain")],
            "ce-datacontenttype is no header: the media type stands in Content-Type".into(),
        ),
        (
            &[("Content-Type", "json")],
            "datacontenttype must be a media type, such as application/json".into(),
        ),
        (&[("ce-id", "2")], "id is there twice".into()),
        (
            &[("ce-dataschema", "s")],
            "dataschema must be an absolute URI".into(),
        ),
    ];
    for (pairs, expected) in bad {
        check_binary(pairs, b"", Err(&expected));
    }
    let without = |missing: &str| {
        let mut pairs = vec![
            ("ce-specversion", "1.0"),
            ("ce-id", "1"),
            ("ce-type", "t"),
            ("ce-source", "s"),
        ];
        pairs.retain(|(name, _)| *name != missing);
        send(&pairs, b"")
            .map(only_content)
            .map_err(|error| (error.row().0, error.to_string()))
    };
    assert_eq!(
        without("ce-type"),
        Err((400, "invalid CloudEvent: type is missing.".into()))
    );
    assert_eq!(
        without("ce-source"),
        Err((400, "invalid CloudEvent: source is missing.".into()))
    );
    assert_eq!(without("ce-specversion").expect_err("no mode").0, 415);
    assert!(without("ce-id").expect("an id is given").contains(GIVEN_ID));
    let deep = [vec![b'['; 1_001], vec![b']'; 1_001]].concat();
    check_binary(
        &[],
        &deep,
        Err("the body is nested deeper than 1000 levels"),
    );
}

/// The events of the conformance suite's features, in our own wording: both modes must store one
/// event alike.
#[test]
fn both_modes_store_one_event_alike() {
    let cases: [(&str, &str, &[u8]); 6] = [
        (
            "application/json",
            r#"{"name":"Vitamin C","count":3}"#,
            br#"{"name":"Vitamin C","count":3}"#,
        ),
        (
            "application/json; charset=utf-8",
            r#"[1,"two",null]"#,
            br#"[1,"two",null]"#,
        ),
        ("application/json", r#""a string""#, br#""a string""#),
        (
            "text/plain; charset=utf-8",
            r#""Grüße 🚀""#,
            "Grüße 🚀".as_bytes(),
        ),
        (
            "application/xml",
            r#""<data key=\"value\"/>""#,
            br#"<data key="value"/>"#,
        ),
        ("text/xml", r#""<a>1</a>""#, b"<a>1</a>"),
    ];
    for (media_type, data, body) in cases {
        let structured = structured(&format!(
            r#"{{"specversion":"1.0","type":"com.example.someevent","time":"2018-04-05T03:56:24Z","id":"4321-4321-4321-a","source":"/mycontext/subcontext","datacontenttype":"{media_type}","comexampleextension1":"value","data":{data}}}"#
        ));
        let binary = send(
            &[
                ("ce-specversion", "1.0"),
                ("ce-type", "com.example.someevent"),
                ("ce-time", "2018-04-05T03:56:24Z"),
                ("ce-id", "4321-4321-4321-a"),
                ("ce-source", "/mycontext/subcontext"),
                ("ce-comexampleextension1", "value"),
                ("content-type", media_type),
            ],
            body,
        );
        let binary = binary.map(only_content).map_err(|error| error.to_string());
        assert!(binary.is_ok(), "{binary:?}");
        assert_eq!(structured, binary, "{media_type}");
    }
}

#[test]
fn a_batch_is_one_thing() {
    let batch = |body: &str| send(&[("Content-Type", BATCH)], body.as_bytes());
    let event = |id: &str, subject: &str| {
        format!(
            r#"{{"specversion":"1.0","type":"t","source":"s","id":"{id}","subject":"{subject}"}}"#
        )
    };
    let query = |channel: Option<&str>| SendQuery {
        channel: channel.map(String::from),
        delay_s: None,
    };
    let two = batch(&format!("[{},{}]", event("1", "q"), event("2", "q"))).expect("two events");
    assert_eq!(two.channel(&query(None)), Ok(Some("q".into())));
    assert_eq!(two.events.len(), 2);
    let mixed = batch(&format!("[{},{}]", event("1", "q"), event("2", "r"))).expect("two events");
    assert_eq!(
        mixed.channel(&query(Some("q"))),
        Err(EventsError::BatchChannels)
    );
    let halves = batch(&format!("[{},{}]", event("1", "q"), event("2", ""))).expect("two events");
    assert_eq!(halves.channel(&query(Some("q"))), Ok(Some("q".into())));
    assert_eq!(
        halves.channel(&query(None)),
        Err(EventsError::ChannelRequired)
    );
    let none = batch("[]").expect("no events");
    assert_eq!(none.channel(&query(None)), Ok(None));
    let hundred = vec![event("1", "q"); 100].join(",");
    assert_eq!(
        batch(&format!("[{hundred}]")).map(|sent| sent.events.len()),
        Ok(100)
    );
    assert_eq!(
        batch(&format!("[{hundred},{}]", event("1", "q"))).map(|_| ()),
        Err(EventsError::BatchCount { count: 101 })
    );
    let cases = [
        (format!("[{},{{}}]", event("1", "q")), "invalid CloudEvent: event 2 of the batch: specversion is missing: it must be \"1.0\"."),
        ("[1]".into(), "invalid CloudEvent: event 1 of the batch: an event must be a JSON object: invalid type: integer `1`, expected an object at line 1 column 1."),
        (event("1", "q"), "invalid CloudEvent: the body of a batch must be a JSON array of events: invalid type: map, expected a sequence at line 1 column 0."),
    ];
    for (body, expected) in cases {
        assert_eq!(
            batch(&body).map_err(|error| error.to_string()).map(|_| ()),
            Err(expected.into()),
            "{body}"
        );
    }
}

#[test]
fn the_subject_names_the_channel_and_the_query_is_its_stand_in() {
    let channel = |subject: &str, channel: Option<&str>| {
        let body = format!(r#"{{"specversion":"1.0","type":"t","source":"s"{subject}}}"#);
        let sent = send(&[("Content-Type", JSON)], body.as_bytes()).expect("an event");
        let query = SendQuery {
            channel: channel.map(String::from),
            delay_s: None,
        };
        sent.channel(&query)
            .map_err(|error| (error.row().0, error.to_string()))
    };
    assert_eq!(
        channel(r#","subject":"a""#, Some("b")),
        Ok(Some("a".into()))
    );
    assert_eq!(
        channel(r#","subject":"orders.eu/1 ""#, None),
        Err((
            400,
            "The channel's name has white space or a control character.".into()
        ))
    );
    assert_eq!(
        channel(r#","subject":"orders.eu/é""#, None),
        Ok(Some("orders.eu/é".into()))
    );
    assert_eq!(channel("", Some("b")), Ok(Some("b".into())));
    assert_eq!(
        channel(r#","subject":null"#, Some("b")),
        Ok(Some("b".into()))
    );
    assert_eq!(channel(r#","subject":"""#, Some("b")), Ok(Some("b".into())));
    for subject in ["", r#","subject":null"#, r#","subject":"""#] {
        assert_eq!(
            channel(subject, None),
            Err((400, "channel is required".into())),
            "{subject}"
        );
    }
    assert_eq!(
        channel(r#","subject":"a.*""#, None),
        Err((400, "The channel's name has a wildcard, * or >.".into()))
    );
}

#[test]
fn an_event_may_have_a_million_bytes() {
    let sized = |bytes: usize| {
        let body = format!(
            r#"{{"specversion":"1.0","id":"1","type":"t","source":"s","data":"{}"}}"#,
            "x".repeat(bytes)
        );
        send(&[("Content-Type", JSON)], body.as_bytes()).map_err(|error| error.row().0)
    };
    assert!(sized(65_536).is_ok());
    assert!(sized(999_800).is_ok());
    assert_eq!(sized(1_000_000).map(|_| ()), Err(413));
    assert_eq!(sized(2_000_000).map(|_| ()), Err(413));
    let bytes = send(
        &[
            ("ce-specversion", "1.0"),
            ("ce-type", "t"),
            ("ce-source", "s"),
            ("content-type", "a/b"),
        ],
        &[0; 800_000],
    );
    assert_eq!(bytes.map_err(|error| error.row().0).map(|_| ()), Err(413));
}

fn text(answer: &Answer) -> String {
    String::from_utf8(answer.body.clone()).expect("UTF-8")
}

#[test]
fn a_send_is_answered_with_what_was_stored() {
    let event = r#"{"specversion":"1.0","id":"e1","type":"t","source":"s","subject":"q"}"#;
    let nameless = r#"{"specversion":"1.0","type":"t","source":"s","subject":"q"}"#;
    let answer = |sent: Sent, count: usize, sent_ms: u64, repeated: bool| {
        let receipt = SendReceipt {
            ids: vec![[0xaa; 16], [0xbb; 16]]
                .into_iter()
                .take(count)
                .collect(),
            sent_ms,
            repeated,
        };
        sent.sending("q".into()).answer(&receipt)
    };
    let one = send(&[("Content-Type", JSON)], event.as_bytes()).expect("an event");
    let answered = answer(one, 1, 1_796_035_200_123, false);
    assert_eq!(answered.status, 202);
    assert_eq!(
        text(&answered),
        r#"{"is_error":false,"message":"OK","data":{"id":"e1","queue_message_id":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","channel":"q","time":"2026-11-30T10:40:00.123Z"}}"#
    );
    let two = send(
        &[("Content-Type", BATCH)],
        format!("[{event},{nameless}]").as_bytes(),
    )
    .expect("two events");
    assert_eq!(
        text(&answer(two.clone(), 2, 0, false)),
        r#"{"is_error":false,"message":"OK","data":{"messages_sent":2,"messages":[{"id":"e1","queue_message_id":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","channel":"q","time":"1970-01-01T00:00:00.000Z"},{"id":"abababab-abab-4bab-abab-abababababaa","queue_message_id":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","channel":"q","time":"1970-01-01T00:00:00.000Z"}]}}"#
    );
    // The same again, known by its idempotency key: the id that the server made up was another one.
    assert_eq!(
        text(&answer(two, 2, 0, true)),
        r#"{"is_error":false,"message":"OK","data":{"messages_sent":2,"messages":[{"id":"e1","queue_message_id":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","channel":"q","time":"1970-01-01T00:00:00.000Z","repeated":true},{"queue_message_id":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","channel":"q","time":"1970-01-01T00:00:00.000Z","repeated":true}]}}"#
    );
    let none = send(&[("Content-Type", BATCH)], b"[]").expect("no events");
    assert_eq!(
        text(&answer(none, 0, 0, false)),
        r#"{"is_error":false,"message":"OK","data":{"messages_sent":0,"messages":[]}}"#
    );
}

fn delivery(form: u8, content: &str) -> Delivery {
    Delivery {
        id: [0xeb; 16],
        sent_ms: 1_736_608_302_662,
        attempts: 1,
        form,
        death: None,
        content: content.as_bytes().to_vec(),
        lease_id: "unused".into(),
    }
}

fn received(deliveries: &[Delivery]) -> String {
    String::from_utf8(encode_received(deliveries, "q")).expect("UTF-8")
}

#[test]
fn a_receive_is_answered_with_events_as_they_are_stored() {
    assert_eq!(
        received(&[]),
        r#"{"is_error":false,"message":"OK","data":{"messages_received":0,"messages":[]}}"#
    );
    let event = r#"{"specversion":"1.0","type":"t","source":"s","id":"1","data":1.0}"#;
    assert_eq!(
        received(&[delivery(CLOUDEVENT, event), delivery(3, event)]),
        format!(
            r#"{{"is_error":false,"message":"OK","data":{{"messages_received":2,"messages":[{event},{event}]}}}}"#
        )
    );
    assert_eq!(
        String::from_utf8_lossy(&encode_drained(11)),
        r#"{"is_error":false,"message":"OK","data":{"affected_messages":11}}"#
    );
}

#[test]
fn what_came_over_the_other_face_is_in_kubemqs_plain_form() {
    let cases = [
        (
            CLOUDFLARE,
            r#""body":"eyJhIjoxfQ==","metadata":{"CF-Content-Type":"json","CF-sourceMessageSource":"api"}"#,
            "json",
            "eyJhIjoxfQ==",
        ),
        (
            CLOUDFLARE_PLAIN_JSON,
            r#""body":"{\"a\":1}","metadata":{"CF-Content-Type":"json","CF-sourceMessageSource":"api"}"#,
            "json",
            "eyJhIjoxfQ==",
        ),
        (
            CLOUDFLARE,
            r#""body":"\u0041é","metadata":{"CF-Content-Type":"text","CF-sourceMessageSource":"api"}"#,
            "text",
            "QcOp",
        ),
        (
            CLOUDFLARE,
            r#""body":"AP8=","metadata":{"CF-Content-Type":"bytes","CF-sourceMessageSource":"api"}"#,
            "bytes",
            "AP8=",
        ),
        (
            CLOUDFLARE_PLAIN_JSON,
            r#""body":"AP8=","metadata":{"CF-Content-Type":"v8","CF-sourceMessageSource":"api"}"#,
            "v8",
            "AP8=",
        ),
    ];
    for (form, content, metadata, body) in cases {
        let expected = format!(
            r#"{{"MessageID":"ebebebebebebebebebebebebebebebeb","Channel":"q","Metadata":"{metadata}","Body":"{body}","Tags":{{"CF-Content-Type":"{metadata}","CF-sourceMessageSource":"api"}},"Attributes":{{"Timestamp":1736608302662000000,"ReceiveCount":1}}}}"#
        );
        assert_eq!(
            received(&[delivery(form, content)]),
            format!(
                r#"{{"is_error":false,"message":"OK","data":{{"messages_received":1,"messages":[{expected}]}}}}"#
            )
        );
    }
    let peeked = Peeked {
        id: [0xeb; 16],
        sent_ms: 1,
        attempts: 0,
        form: CLOUDFLARE,
        death: Some(Death {
            queue_name: "orders".into(),
            first_sent_ms: 0,
            attempts: 4,
        }),
        content: br#""body":"hi","metadata":{"CF-Content-Type":"text"}"#.to_vec(),
        reference: "unused".into(),
    };
    assert_eq!(
        String::from_utf8_lossy(&encode_peeked(&[peeked], "q")),
        r#"{"is_error":false,"message":"OK","data":{"messages_received":1,"messages":[{"MessageID":"ebebebebebebebebebebebebebebebeb","Channel":"q","Metadata":"text","Body":"aGk=","Tags":{"CF-Content-Type":"text"},"Attributes":{"Timestamp":1000000,"ReRouted":true,"ReRoutedFromQueue":"orders"}}]}}"#
    );
}

/// Clients decide by the status: none may change unnoticed.
#[test]
fn every_error_has_its_status_and_the_envelope() {
    use pullq::access::jwt::EventAccessError as Access;
    use EventsError as E;
    let invalid_query = E::InvalidQuery {
        name: "wait_timeout",
        expected: "a number",
    };
    let denied = Access::Denied { right: "read" };
    let table = [
        (E::UnknownPath, 404),
        (E::MethodNotAllowed, 405),
        (E::ChannelRequired, 400),
        (E::ClientIdRequired, 400),
        (E::InvalidChannel("is long".into()), 400),
        (invalid_query, 400),
        (E::Access(Access::NotConfigured), 401),
        (E::Access(Access::Unusable("x".into())), 401),
        (E::Access(Access::Missing), 401),
        (E::Access(Access::Token("x".into())), 401),
        (E::Access(denied), 403),
        (E::UnsupportedMediaType, 415),
        (E::InvalidEvent("x".into()), 400),
        (E::BodyTooLarge, 413),
        (E::EventTooLarge { size: 1 }, 413),
        (E::BatchCount { count: 101 }, 400),
        (E::BatchChannels, 400),
        (E::InvalidIdempotencyKey, 400),
        (E::ChannelNotFound, 404),
        (E::TooManyChannels, 403),
        (E::NoConsumer, 409),
        (E::Paused, 503),
        (E::TooManyOut, 429),
        (E::StorageFull, 429),
        (E::Internal, 500),
        (E::Unreachable, 503),
        (E::TimedOut, 504),
    ];
    for (error, status) in table {
        let answer = Answer::from(&error);
        assert_eq!(answer.status, status, "{error:?}");
        let sentence = serde_json::to_string(&error.to_string()).expect("JSON");
        assert_eq!(
            text(&answer),
            format!(r#"{{"is_error":true,"message":{sentence},"data":null}}"#)
        );
        // RFC 9110: 405 says what is allowed, 401 how; CloudEvents' webhooks: 429 says when.
        let has = |name: &str| answer.headers.iter().any(|(other, _)| *other == name);
        assert_eq!(has("allow"), status == 405, "{error:?}");
        assert_eq!(has("www-authenticate"), status == 401, "{error:?}");
        assert!(has("retry-after") || status != 429, "{error:?}");
    }
}
