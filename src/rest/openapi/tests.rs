//! The description is the committed file, and it says what the API does: its routes are there, its
//! requests are taken within the ranges it names and refused beyond, its answers are what it shows.

use super::check::check;
use super::describe::{document_of, endpoints, Endpoint, Outcome};
use crate::access::{Grant, Permissions, QueueNames};
use crate::directory::{ConsumerEntry, Entry, List};
use crate::overview::{encode_overview, Known, QueueState};
use crate::queue::ledger::Counters;
use crate::queue::{
    Consumer, Death, Delivery, Metrics, Minute, Peeked, Pulled, RedriveState, RedriveStatus,
    RefPurge, SendReceipt, Settings, Settlement, States,
};
use crate::rest::error::every::errors;
use crate::rest::form::JsonBodies;
use crate::rest::messages::{peek, pull, send, settle};
use crate::rest::page::Page;
use crate::rest::{accounts, consumers, queues, redrive, route, Answer, ApiError, Id, Route};
use serde_json::{json, Value};
use std::collections::BTreeSet;

const ID: &str = "eb868d636bc0dc7b448f8192410573c7";

fn document() -> Value {
    document_of(&endpoints())
}

#[test]
fn openapi_json_is_up_to_date() {
    let mut fresh = serde_json::to_string_pretty(&document()).expect("JSON");
    fresh.push('\n');
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &fresh).expect("written");
    }
    let committed = std::fs::read_to_string(path).expect("openapi.json");
    assert!(
        committed == fresh,
        "openapi.json is out of date: run UPDATE=1 cargo test openapi"
    );
}

#[test]
fn every_endpoint_has_a_name_of_its_own() {
    let all = endpoints();
    let names: BTreeSet<&str> = all.iter().map(|endpoint| endpoint.id).collect();
    assert_eq!(names.len(), all.len());
}

#[test]
fn the_description_has_the_routes_and_methods_that_there_are() {
    let all = endpoints();
    let paths: BTreeSet<&str> = all.iter().map(|endpoint| endpoint.path.as_str()).collect();
    for template in paths {
        let path: Vec<&str> = template
            .split('/')
            .map(|segment| {
                if segment.starts_with('{') {
                    ID
                } else {
                    segment
                }
            })
            .collect();
        let path = path.join("/");
        let refusal = route::route("BREW", &path);
        let Err(ApiError::MethodNotAllowed { allow }) = refusal else {
            panic!("{template}: {refusal:?}");
        };
        let described: BTreeSet<String> = all
            .iter()
            .filter(|endpoint| endpoint.path == template)
            .map(|endpoint| endpoint.method.to_uppercase())
            .collect();
        let there: BTreeSet<String> = allow.split(", ").map(String::from).collect();
        assert_eq!(described, there, "{template}");
        for method in there {
            let found = route::route(&method, &path).expect("a route");
            let is_open = matches!(found, Route::Description);
            let endpoint = all
                .iter()
                .find(|one| one.path == template && one.method.to_uppercase() == method)
                .expect("described");
            assert_eq!(is_open, matches!(endpoint.result, Outcome::Document));
            if !template.contains("{subscription_id}") {
                assert_eq!(found.operation(), endpoint.id);
            }
        }
    }
}

/// What reads the requests of this schema.
fn reader(schema: &str) -> fn(&[u8]) -> Result<(), ApiError> {
    match schema {
        "SendRequest" => |body| send::parse_send(body, JsonBodies::Base64, None).map(drop),
        "SendBatchRequest" => |body| send::parse_batch(body, JsonBodies::Base64, None).map(drop),
        "PullRequest" => |body| pull::parse_pull(body).map(drop),
        "SettleRequest" => |body| settle::parse_settle(body).map(drop),
        "ExtendRequest" => |body| settle::parse_extend(body).map(drop),
        "PeekRequest" => |body| peek::parse_peek(body).map(drop),
        "PurgeRefsRequest" => |body| peek::parse_refs(body).map(drop),
        "PreviewAckRequest" => |body| peek::parse_preview_ack(body).map(drop),
        "RedriveRequest" => |body| redrive::parse_redrive(body).map(drop),
        "CreateQueueRequest" => |body| queues::parse_create(body).map(drop),
        "UpdateQueueRequest" => |body| queues::parse_update(body).map(drop),
        "PurgeRequest" => queues::parse_purge,
        "ConsumerRequest" => |body| consumers::parse_consumer(body, "orders").map(drop),
        // Nobody reads it: it is refused whatever it says.
        "SubscriptionRequest" => |_| Ok(()),
        other => panic!("a request that nobody reads: {other}"),
    }
}

/// Places in a value with what may stand there, by a schema.
fn places(
    document: &Value,
    schema: &Value,
    value: &Value,
    at: &str,
    found: &mut Vec<(String, Value)>,
) {
    if let Some(pointer) = schema["$ref"]
        .as_str()
        .and_then(|path| path.strip_prefix('#'))
    {
        let target = document
            .pointer(pointer)
            .expect("a reference leads somewhere");
        return places(document, target, value, at, found);
    }
    for choice in schema["anyOf"].as_array().into_iter().flatten() {
        if check(document, choice, value).is_ok() {
            return places(document, choice, value, at, found);
        }
    }
    found.push((at.to_string(), schema.clone()));
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(member) = value.get(name) {
            places(document, schema, member, &format!("{at}/{name}"), found);
        }
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        places(
            document,
            &schema["items"],
            item,
            &format!("{at}/{index}"),
            found,
        );
    }
}

/// Values for a place, each with whether it is taken there; `None` where the schemas around it decide.
fn variants(schema: &Value) -> Vec<(Value, Option<bool>)> {
    let kinds = match &schema["type"] {
        Value::Array(kinds) => kinds.clone(),
        kind => vec![kind.clone()],
    };
    let mut variants = Vec::new();
    if let (Some(low), Some(high)) = (schema["minimum"].as_i64(), schema["maximum"].as_i64()) {
        variants.extend([low, high].map(|limit| (json!(limit), Some(true))));
        variants.extend([low - 1, high + 1].map(|beyond| (json!(beyond), Some(false))));
        let wrong = [json!(low as f64 + 0.5), json!("5"), json!(true), json!([])];
        variants.extend(wrong.map(|wrong| (wrong, Some(false))));
    }
    if !schema["type"].is_null() {
        variants.push((Value::Null, kinds.contains(&json!("null")).then_some(true)));
        for (value, kind) in [
            (json!(true), "boolean"),
            (json!({}), "object"),
            (json!(5), "integer"),
            (json!("\u{20ac}\u{20ac}"), "string"),
        ] {
            if !kinds.contains(&json!(kind)) {
                variants.push((value, None));
            }
        }
    }
    let choices = schema["enum"].as_array().cloned().unwrap_or_default();
    let choices = choices.into_iter().chain(schema.get("const").cloned());
    let choices: Vec<Value> = choices.collect();
    if !choices.is_empty() {
        variants.extend(choices.iter().map(|choice| (choice.clone(), None)));
        let wrong = [json!("nothing of the kind"), json!(5), json!([])];
        variants.extend(wrong.map(|wrong| (wrong, Some(false))));
    }
    if let Some(most) = schema["maxItems"].as_u64() {
        let list = |count| json!(vec![json!({ "body": 1 }); count]);
        variants.push((list(most as usize), Some(true)));
        variants.push((list(most as usize + 1), Some(false)));
    }
    variants
}

#[test]
fn requests_are_taken_within_the_ranges_described_and_refused_beyond() {
    let document = document();
    let mut tried = 0;
    for Endpoint { id, body, .. } in endpoints() {
        let Some(body) = body else { continue };
        let read = reader(body.schema);
        let schema = &document["components"]["schemas"][body.schema];
        for example in &body.examples {
            assert_eq!(check(&document, schema, example), Ok(()), "{id}: {example}");
            assert_eq!(
                read(example.to_string().as_bytes()),
                Ok(()),
                "{id}: {example}"
            );
        }
        if body.is_optional {
            assert_eq!(read(b""), Ok(()), "{id}");
        }
        if body.schema == "SubscriptionRequest" {
            continue;
        }
        let example = &body.examples[0];
        let mut found = Vec::new();
        places(&document, schema, example, "", &mut found);
        for (place, schema_there) in found {
            for (variant, is_taken) in variants(&schema_there) {
                let mut request = example.clone();
                *request.pointer_mut(&place).expect("a place in the example") = variant;
                let described = check(&document, schema, &request);
                let read = read(request.to_string().as_bytes());
                let shown = format!("{id} {place}: {request} {described:?} {read:?}");
                assert_eq!(described.is_ok(), read.is_ok(), "{shown}");
                assert!(
                    is_taken.is_none_or(|is_taken| is_taken == read.is_ok()),
                    "{shown}"
                );
                tried += 1;
            }
            for name in schema_there["required"].as_array().into_iter().flatten() {
                let mut request = example.clone();
                let holder = request.pointer_mut(&place).and_then(Value::as_object_mut);
                holder
                    .expect("an object")
                    .remove(name.as_str().expect("a name"));
                let described = check(&document, schema, &request).is_ok();
                let read = read(request.to_string().as_bytes());
                assert_eq!(
                    read.is_ok(),
                    described,
                    "{id} without {place}/{name}: {read:?}"
                );
                tried += 1;
            }
        }
    }
    assert!(tried > 300, "only {tried}");
}

/// The first example of every request names every field there is, so that the test above meets it.
#[test]
fn examples_name_every_field() {
    let document = document();
    for Endpoint { id, body, .. } in endpoints() {
        let Some(body) = body else { continue };
        let mut schema = &document["components"]["schemas"][body.schema];
        if let Some(choices) = schema["anyOf"].as_array() {
            schema = &choices[0];
        }
        let named: BTreeSet<&String> = schema["properties"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, _)| name)
            .collect();
        let shown: BTreeSet<&String> = body.examples[0]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, _)| name)
            .collect();
        assert!(named.is_subset(&shown), "{id}: {named:?} {shown:?}");
    }
}

fn entry(consumer: Option<Consumer>) -> Entry {
    Entry {
        queue_id: ID.into(),
        name: "orders".into(),
        version: 1,
        created_ms: 0,
        modified_ms: 1,
        settings: Settings::default(),
        consumer: consumer.map(|consumer| ConsumerEntry {
            consumer_id: ID.into(),
            created_ms: 2,
            consumer,
        }),
    }
}

/// Answers of each endpoint that has any.
fn answers() -> Vec<(&'static str, Vec<Answer>)> {
    let metrics = Metrics {
        backlog_count: 1,
        backlog_bytes: 2,
        oldest_message_ms: Some(3),
        counters: Counters::default(),
    };
    let content = br#""body":"hi","metadata":{"CF-Content-Type":"text"}"#.to_vec();
    let death = Death {
        queue_name: "orders".into(),
        attempts: 4,
        first_sent_ms: 5,
    };
    let delivery = |death| Delivery {
        id: [1; 16],
        sent_ms: 1,
        attempts: 1,
        form: 0,
        death,
        content: content.clone(),
        lease_id: "l".into(),
    };
    let peeked = [Peeked {
        id: [1; 16],
        sent_ms: 1,
        attempts: 0,
        form: 0,
        death: None,
        content: content.clone(),
        reference: "r".into(),
    }];
    let pulled =
        |deliveries| pull::encode_pulled(&Pulled { deliveries }, &metrics).expect("encoded");
    let sent = |repeated| {
        let receipt = SendReceipt {
            ids: vec![[1; 16]],
            sent_ms: 1,
            repeated,
        };
        send::encode_sent(&receipt, &metrics)
    };
    let settlement = Settlement {
        acknowledged: 1,
        retried: 1,
        extended: 1,
        warnings: vec![("l".into(), "Why.".into())],
    };
    let purge = RefPurge {
        purged: 1,
        warnings: vec![("r".into(), "Why.".into())],
    };
    let (bare, full) = (entry(None), entry(Some(Consumer::default())));
    let shown = || vec![queues::encode_queue(&bare), queues::encode_queue(&full)];
    let page = Page::default();
    let list = List {
        entries: vec![bare.clone(), full.clone()],
        total_count: 2,
    };
    let consumer = || vec![consumers::encode_only_consumer(&full).expect("encoded")];
    let account = Id::parse(ID);
    let grant = Grant {
        token_name: "billing".into(),
        account: None,
        permissions: Permissions::BOTH,
        queues: QueueNames::every(),
    };
    let minute = Minute {
        began_ms: 60_000,
        backlog_count: 1,
        backlog_bytes: 2,
        counters: Counters::default(),
    };
    let redriving = RedriveStatus {
        state: RedriveState::Stopped,
        destination: Some("orders".into()),
        messages_per_second: Some(5),
        to_move: 3,
        moved: 1,
        skipped: 1,
        started_ms: 1,
        ended_ms: Some(2),
    };
    let known = [bare.clone(), full.clone()].map(|entry| Known {
        entry,
        state: QueueState::of(States::default(), &metrics),
        at_ms: 5,
    });
    let peek = |form| vec![peek::encode_peeked(&peeked, form).expect("encoded")];
    vec![
        ("createQueue", shown()),
        ("listQueues", vec![queues::encode_list(&list, page)]),
        ("getQueue", shown()),
        ("replaceQueue", shown()),
        ("updateQueue", shown()),
        ("deleteQueue", vec![Answer::empty()]),
        (
            "getMetrics",
            vec![queues::encode_metrics(&metrics, States::default())],
        ),
        ("getHistory", vec![queues::encode_history(&[minute])]),
        (
            "startRedrive",
            vec![redrive::encode_redrive(Some(&redriving))],
        ),
        ("getRedrive", vec![redrive::encode_redrive(None)]),
        (
            "stopRedrive",
            vec![redrive::encode_redrive(Some(&redriving))],
        ),
        ("getOverview", vec![encode_overview(&known, 0, 9)]),
        ("purgeQueue", shown()),
        (
            "getPurge",
            vec![
                queues::encode_purge_status(None),
                queues::encode_purge_status(Some(1)),
            ],
        ),
        ("createConsumer", consumer()),
        (
            "listConsumers",
            vec![
                consumers::encode_consumers(&bare),
                consumers::encode_consumers(&full),
            ],
        ),
        ("getConsumer", consumer()),
        ("putConsumer", consumer()),
        ("deleteConsumer", vec![Answer::empty()]),
        ("sendMessage", vec![sent(false), sent(true)]),
        ("sendBatch", vec![sent(false), sent(true)]),
        (
            "pullMessages",
            vec![
                pulled(vec![]),
                pulled(vec![delivery(None), delivery(Some(death))]),
            ],
        ),
        ("settleMessages", vec![settle::encode_settled(&settlement)]),
        ("extendLeases", vec![settle::encode_extended(&settlement)]),
        ("peekMessages", peek(peek::PeekForm::Peek)),
        (
            "purgeMessages",
            vec![peek::encode_refs_purged(&purge, peek::PeekForm::Peek)],
        ),
        ("previewMessages", peek(peek::PeekForm::Preview)),
        (
            "ackPreviewed",
            vec![peek::encode_refs_purged(&purge, peek::PeekForm::Preview)],
        ),
        (
            "listAccounts",
            vec![
                accounts::encode_accounts(account.as_ref(), page),
                accounts::encode_accounts(None, page),
            ],
        ),
        (
            "listMemberships",
            vec![accounts::encode_memberships(account.as_ref(), page)],
        ),
        ("verifyToken", vec![accounts::encode_verified(&grant)]),
        ("listSubscriptions", vec![Answer::list::<()>(&[], page, 0)]),
        ("getDescription", vec![super::answer()]),
    ]
}

#[test]
fn answers_are_what_the_description_shows() {
    let document = document();
    let mut covered = BTreeSet::new();
    for (id, answers) in answers() {
        let all = endpoints();
        let endpoint = all.iter().find(|endpoint| endpoint.id == id).expect(id);
        let response = &document["paths"][&endpoint.path][endpoint.method]["responses"]["200"];
        for answer in answers {
            let value: Value = serde_json::from_slice(&answer.body).expect("JSON");
            let schema = &response["content"]["application/json"]["schema"];
            assert_eq!(check(&document, schema, &value), Ok(()), "{id}");
        }
        covered.insert(id);
    }
    for endpoint in endpoints() {
        let never = matches!(endpoint.result, Outcome::Never);
        assert_eq!(covered.contains(endpoint.id), !never, "{}", endpoint.id);
    }
}

#[test]
fn errors_are_what_the_description_shows() {
    let document = document();
    let mut described = BTreeSet::new();
    for endpoint in endpoints() {
        let responses = &document["paths"][&endpoint.path][endpoint.method]["responses"];
        for error in endpoint.all_errors() {
            let reference = responses[error.row().0.to_string()]["$ref"]
                .as_str()
                .and_then(|path| path.strip_prefix('#'));
            let response = document
                .pointer(reference.expect("described"))
                .expect("a response");
            let answer = Answer::from(&error);
            let value: Value = serde_json::from_slice(&answer.body).expect("JSON");
            let schema = &response["content"]["application/json"]["schema"];
            assert_eq!(
                check(&document, schema, &value),
                Ok(()),
                "{} {error:?}",
                endpoint.id
            );
            for (header, _) in error.headers() {
                assert!(
                    response["headers"].get(header).is_some(),
                    "{} {error:?} {header}",
                    endpoint.id
                );
            }
            described.insert((error.row().0, error.row().1));
        }
    }
    // What belongs to no endpoint, or is the same to a client as what does.
    let elsewhere = [(404, 7003), (405, 7001)];
    for error in errors() {
        let row = (error.row().0, error.row().1);
        assert!(
            described.contains(&row) || elsewhere.contains(&row),
            "{error:?} is described nowhere"
        );
    }
}
