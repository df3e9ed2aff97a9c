//! Cloudflare's face: every parser of a body, a path and a query. Whatever comes in, a refusal is 4xx
//! in the envelope, and what is taken keeps to the limits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pullq::queue::limits;
use pullq::rest::cors::Origins;
use pullq::rest::messages::{peek, pull, send, settle};
use pullq::rest::{consumers, page, queues, redrive, route, Answer, ApiError, Id};
use pullq::wire::form::JsonBodies;

fuzz_target!(|input: &[u8]| {
    bodies(input);
    if let Ok(text) = std::str::from_utf8(input) {
        paths(text);
    }
});

fn bodies(body: &[u8]) {
    for json_bodies in [JsonBodies::Base64, JsonBodies::PlainText] {
        if let Some(request) = taken(send::parse_send(body, json_bodies, None)) {
            assert_eq!(request.messages.len(), 1);
            hold(&request);
        }
        if let Some(request) = taken(send::parse_batch(body, json_bodies, None)) {
            assert!((1..=limits::MAX_BATCH_MESSAGES as usize).contains(&request.messages.len()));
            hold(&request);
        }
    }
    let key = String::from_utf8_lossy(body).into_owned();
    taken(send::parse_send(
        b"{\"body\":1}",
        JsonBodies::Base64,
        Some(key),
    ));

    if let Some(call) = taken(pull::parse_pull(body)) {
        assert!(call.wait_ms <= limits::MAX_WAIT_MS);
        let batch_size = call.request.batch_size.unwrap_or(1);
        assert!((1..=limits::MAX_BATCH_MESSAGES).contains(&batch_size));
        let timeout_ms = call.request.visibility_timeout_ms.unwrap_or(1);
        assert!((1..=limits::MAX_VISIBILITY_TIMEOUT_MS).contains(&timeout_ms));
    }
    let few = limits::MAX_SETTLE_LEASES as usize;
    if let Some(call) = taken(settle::parse_settle(body)) {
        assert!(call.acks.len() + call.retries.len() <= few);
    }
    if let Some(extensions) = taken(settle::parse_extend(body)) {
        assert!(extensions.len() <= few);
    }
    if let Some(refs) = taken(peek::parse_refs(body)) {
        assert!(refs.len() <= few);
    }
    taken(peek::parse_preview_ack(body));
    taken(peek::parse_peek(body));
    if let Some(request) = taken(redrive::parse_redrive(body)) {
        assert!(request.refs.is_none_or(|refs| refs.len() <= few));
        let rate = request.messages_per_second;
        assert!(rate.is_none_or(|rate| (1..=limits::MAX_REDRIVE_PER_SECOND).contains(&rate)));
    }
    taken(queues::parse_create(body));
    taken(queues::parse_update(body));
    taken(queues::parse_purge(body));
    taken(consumers::parse_consumer(body, "orders"));
}

fn paths(text: &str) {
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
        if let Some(route::Route::Account { account, .. }) = taken(route::route(method, path)) {
            assert_eq!(Id::parse(account.as_str()), Some(account));
        }
    }
    if let Some(list) = taken(page::parse_list(query)) {
        assert!(list.page.page >= 1 && (1..=page::MAX_PER_PAGE).contains(&list.page.per_page));
        assert!(list.names.len() <= page::MAX_NAMES);
        list.page.offset();
    }
    taken(page::parse_page(query));
    taken(page::parse_subscriptions(query));
    let origins = Origins::parse(Some(path));
    origins.headers(Some(query));
    origins.preflight("OPTIONS", Some(query), Some("GET"), Some(query));
}

/// A message is a piece of a JSON object, as every pull serves it.
fn hold(request: &pullq::queue::SendRequest) {
    let mut bytes = 0;
    for message in &request.messages {
        assert!(message.size <= limits::MAX_MESSAGE_BYTES as u64);
        assert!(message.delay_s.unwrap_or(0) <= limits::MAX_DELAY_S);
        let object = [b"{", message.content.as_slice(), b"}"].concat();
        serde_json::from_slice::<&serde_json::value::RawValue>(&object).expect("a JSON object");
        bytes += message.size;
    }
    assert!(bytes <= limits::MAX_BATCH_BYTES as u64);
}

/// What was read, or nothing after a look at the refusal.
fn taken<T>(read: Result<T, ApiError>) -> Option<T> {
    match read {
        Ok(value) => Some(value),
        Err(error) => {
            let answer = Answer::from(error);
            assert!((400..500).contains(&answer.status), "{}", answer.status);
            let json: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
            assert_eq!(json["success"], false);
            assert!(json["errors"][0]["code"].as_u64() >= Some(1_000));
            None
        }
    }
}
