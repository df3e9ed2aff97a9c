//! The CloudEvents face: paths, queries, and events in all three modes. Whatever comes in, a refusal is
//! 4xx in its envelope, and an event that was taken is taken again as it is served, without a change.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pullq::cloudevents::send::{self, Now, Request};
use pullq::cloudevents::{query, route, EventsError};
use pullq::wire::form::JsonBodies;
use pullq::wire::Answer;

const NOW: Now = Now {
    ms: 1_790_000_000_000,
    entropy: [7; 16],
};

const STRUCTURED: &str = "application/cloudevents+json";

fuzz_target!(|input: &[u8]| {
    if let Ok(text) = std::str::from_utf8(input) {
        taken(route::route("POST", text));
        taken(query::check_channel(text));
        taken(query::parse_send(text));
        if let Some(take) = taken(query::parse_receive(text, true)) {
            assert!((1..=1_000).contains(&take.max_messages) && take.wait_ms <= 60_000);
        }
        taken(query::parse_ack_all(text, false));
    }

    // Headers in lines, an empty line, the body.
    let end = input.windows(2).position(|pair| pair == b"\n\n");
    let (head, body) = end.map_or((input, &b""[..]), |end| (&input[..end], &input[end + 2..]));
    let headers: Vec<(String, String)> = String::from_utf8_lossy(head)
        .lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let content_type = headers.iter().find(|(name, _)| name == "content-type");
    read(
        content_type.map(|(_, value)| value.as_str()),
        &headers,
        body,
    );
    for content_type in [STRUCTURED, "application/cloudevents-batch+json"] {
        read(Some(content_type), &[], input);
    }
});

fn read(content_type: Option<&str>, headers: &[(String, String)], body: &[u8]) {
    let request = Request {
        content_type,
        headers,
        body,
    };
    let Some(sent) = taken(send::parse(request, NOW)) else {
        return;
    };
    assert!(sent.events.len() <= send::MAX_BATCH_EVENTS);
    for event in &sent.events {
        assert!(event.content.len() <= send::MAX_EVENT_BYTES);
        let served = Request {
            content_type: Some(STRUCTURED),
            headers: &[],
            body: &event.content,
        };
        let again = send::parse(served, NOW).expect("an event as it is served");
        assert_eq!(again.events[0].content, event.content);
    }
    let query = query::SendQuery {
        channel: Some("orders".into()),
        delay_s: None,
    };
    taken(sent.channel(&query));
    let key = headers.iter().find(|(name, _)| name == "idempotency-key");
    let key = key.map(|(_, value)| value.clone());
    taken(sent.to_request(&query, JsonBodies::Base64, key));
}

/// What was read, or nothing after a look at the refusal.
fn taken<T>(read: Result<T, EventsError>) -> Option<T> {
    match read {
        Ok(value) => Some(value),
        Err(error) => {
            let answer = Answer::from(error);
            assert!((400..500).contains(&answer.status), "{}", answer.status);
            let json: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
            assert_eq!(json["is_error"], true);
            None
        }
    }
}
