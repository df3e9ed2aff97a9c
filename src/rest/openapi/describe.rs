//! The endpoints, and how they become a document. To add some, write a function like [`queues`] and
//! name it in [`endpoints`].

use super::super::error::every::*;
use super::schemas::{named, parameters, reference, success};
use crate::access::AccessError;
use crate::rest::{ApiError, Plane};
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;

/// One endpoint.
pub struct Endpoint {
    /// In lower case, as OpenAPI has it.
    pub method: &'static str,
    pub path: String,
    /// Its name for clients that are made from the description.
    pub id: &'static str,
    pub tag: &'static str,
    pub summary: &'static str,
    /// Names of parameters besides those in the path.
    pub parameters: Vec<&'static str>,
    pub body: Option<Body>,
    pub result: Outcome,
    /// What it answers besides what all of its kind do.
    pub errors: Vec<ApiError>,
}

/// What a request's body is.
pub struct Body {
    /// A schema's name.
    pub schema: &'static str,
    /// Whether it may be missing.
    pub is_optional: bool,
    /// Examples; the tests vary the first.
    pub examples: Vec<Value>,
}

/// What a success brings.
pub enum Outcome {
    Null,
    One(&'static str),
    Array(&'static str),
    /// A page of them.
    Page(&'static str),
    /// No success: it is always refused.
    Never,
    /// Not the envelope: this very document.
    Document,
}

/// Every endpoint there is.
pub fn endpoints() -> Vec<Endpoint> {
    [
        queues(),
        consumers(),
        messages(),
        about_tokens(),
        subscriptions(),
        document(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

const ACCOUNT: &str = "/client/v4/accounts/{account_id}";

fn endpoint(
    (method, path): (&'static str, String),
    (tag, id): (&'static str, &'static str),
    summary: &'static str,
    result: Outcome,
) -> Endpoint {
    Endpoint {
        method,
        path,
        id,
        tag,
        summary,
        parameters: Vec::new(),
        body: None,
        result,
        errors: Vec::new(),
    }
}

impl Endpoint {
    fn takes(self, schema: &'static str, examples: Value, errors: Vec<ApiError>) -> Endpoint {
        let examples = examples.as_array().cloned().unwrap_or_default();
        let body = Body {
            schema,
            is_optional: false,
            examples,
        };
        Endpoint {
            body: Some(body),
            ..self
        }
        .fails(errors)
    }

    /// Its body may be missing.
    fn optionally(mut self) -> Endpoint {
        if let Some(body) = &mut self.body {
            body.is_optional = true;
        }
        self
    }

    fn asks(self, parameters: &[&'static str], errors: Vec<ApiError>) -> Endpoint {
        Endpoint {
            parameters: parameters.to_vec(),
            ..self
        }
        .fails(errors)
    }

    fn fails(mut self, errors: Vec<ApiError>) -> Endpoint {
        self.errors.extend(errors);
        self
    }

    /// Everything it answers that is no success.
    pub fn all_errors(&self) -> Vec<ApiError> {
        if matches!(self.result, Outcome::Document) {
            return Vec::new();
        }
        let mut errors = vec![
            ApiError::Access(AccessError::Missing),
            ApiError::Access(AccessError::Insufficient),
            too_many_wrong(),
        ];
        let is_served_by_an_object =
            self.path.contains("/queues") || self.path.contains("/overview");
        if self.path.contains("{account_id}") {
            errors.push(ApiError::MalformedAccountId);
        }
        if self.path.contains("{queue_id}") {
            let plane = match self.path.contains("/messages") {
                true => Plane::Messages,
                false => Plane::Control,
            };
            errors.extend([ApiError::MalformedQueueId, ApiError::QueueNotFound(plane)]);
        }
        if self.path.contains("{consumer_id}") {
            errors.push(malformed_consumer_id());
        }
        if is_served_by_an_object {
            errors.extend([ApiError::Unreachable, ApiError::TimedOut]);
            if self.method != "get" {
                errors.extend([ApiError::BodyTooLarge, ApiError::StorageFull]);
            }
            if self.body.is_some() {
                errors.push(malformed_body());
            }
        }
        errors.push(ApiError::Internal);
        errors.extend(self.errors.iter().cloned());
        errors
    }
}

fn queues() -> Vec<Endpoint> {
    let all = || format!("{ACCOUNT}/queues");
    let one = || format!("{ACCOUNT}/queues/{{queue_id}}");
    let purge = || format!("{ACCOUNT}/queues/{{queue_id}}/purge");
    let redrive = || format!("{ACCOUNT}/queues/{{queue_id}}/redrive");
    let tag = |id| ("Queues", id);
    let refused = || {
        vec![
            invalid_request(),
            invalid_queue_name(),
            invalid_queue_settings(),
            ApiError::QueueExists,
        ]
    };
    let update = || {
        json!([
            { "queue_name": "orders-2", "jurisdiction": null, "settings": { "delivery_delay": 5, "delivery_paused": true, "message_retention_period": 86_400 } },
            {},
        ])
    };
    vec![
        endpoint(("post", all()), tag("createQueue"), "Make a queue", Outcome::One("Queue"))
            .takes("CreateQueueRequest", json!([
                { "queue_name": "orders", "jurisdiction": null,
                  "settings": { "delivery_delay": 0, "delivery_paused": false, "message_retention_period": 345_600 } },
                { "queue_name": "orders" },
            ]), refused())
            .fails(vec![ApiError::TooManyQueues]),
        endpoint(("get", all()), tag("listQueues"), "List queues, in the order of their creation", Outcome::Page("Queue"))
            .asks(&["page", "per_page", "name"], vec![invalid_query()]),
        endpoint(("get", one()), tag("getQueue"), "Show a queue", Outcome::One("Queue")),
        endpoint(("put", one()), tag("replaceQueue"), "Give a queue new settings; those not named are at their defaults", Outcome::One("Queue"))
            .takes("UpdateQueueRequest", update(), refused())
            .fails(vec![ApiError::OwnDeadLetterQueue]),
        endpoint(("patch", one()), tag("updateQueue"), "Change some of a queue's settings, or its name", Outcome::One("Queue"))
            .takes("UpdateQueueRequest", update(), refused())
            .fails(vec![ApiError::OwnDeadLetterQueue]),
        endpoint(("delete", one()), tag("deleteQueue"), "Delete a queue with its consumer and its messages", Outcome::Null),
        endpoint(("get", format!("{}/metrics", one())), tag("getMetrics"), "How much there is in a queue, and what it has done", Outcome::One("QueueMetrics")),
        endpoint(("get", format!("{}/history", one())), tag("getHistory"), "pullq's own: the last hour, minute by minute", Outcome::One("History")),
        endpoint(("post", redrive()), tag("startRedrive"), "pullq's own: have messages moved on, for example dead letters back to where they died", Outcome::One("Redrive"))
            .takes("RedriveRequest", json!([
                { "destination_queue_name": "orders", "messages_per_second": 50, "refs": [{ "ref": "a" }, "b"] },
                {},
            ]), vec![invalid_field()])
            .optionally()
            .fails(vec![ApiError::RedriveRunning, ApiError::DestinationNotFound, ApiError::OwnDestination]),
        endpoint(("get", redrive()), tag("getRedrive"), "pullq's own: how far the latest redrive is", Outcome::One("Redrive")),
        endpoint(("delete", redrive()), tag("stopRedrive"), "pullq's own: stop it; what had begun to move still arrives", Outcome::One("Redrive")),
        endpoint(("get", format!("{ACCOUNT}/overview")), tag("getOverview"), "pullq's own: all queues with how they stand", Outcome::One("Overview"))
            .asks(&["since"], vec![invalid_query()]),
        endpoint(("post", purge()), tag("purgeQueue"), "Delete every message of a queue", Outcome::One("Queue"))
            .takes("PurgeRequest", json!([{ "delete_messages_permanently": true }]), vec![invalid_request()]),
        endpoint(("get", purge()), tag("getPurge"), "The latest purge of a queue", Outcome::One("PurgeStatus")),
    ]
}

fn consumers() -> Vec<Endpoint> {
    let all = || format!("{ACCOUNT}/queues/{{queue_id}}/consumers");
    let one = || format!("{ACCOUNT}/queues/{{queue_id}}/consumers/{{consumer_id}}");
    let tag = |id| ("Consumers", id);
    let refused = || {
        vec![
            invalid_request(),
            ApiError::UnsupportedConsumerType,
            invalid_consumer_settings(),
            ApiError::ConsumerExists,
        ]
    };
    let examples = || {
        json!([
            { "type": "http_pull", "dead_letter_queue": "orders-dead", "settings":
              { "batch_size": 10, "max_retries": 5, "retry_delay": 30, "visibility_timeout_ms": 60_000, "visibility_timeout": 60_000 } },
            { "type": "http_pull" },
        ])
    };
    vec![
        endpoint(
            ("post", all()),
            tag("createConsumer"),
            "Give a queue its pull consumer",
            Outcome::One("Consumer"),
        )
        .takes("ConsumerRequest", examples(), refused()),
        endpoint(
            ("get", all()),
            tag("listConsumers"),
            "A queue's consumer, or none",
            Outcome::Array("Consumer"),
        ),
        endpoint(
            ("get", one()),
            tag("getConsumer"),
            "Show a consumer",
            Outcome::One("Consumer"),
        )
        .fails(vec![ApiError::ConsumerNotFound]),
        endpoint(
            ("put", one()),
            tag("putConsumer"),
            "Replace a consumer, or give a queue without one this",
            Outcome::One("Consumer"),
        )
        .takes("ConsumerRequest", examples(), refused()),
        endpoint(
            ("delete", one()),
            tag("deleteConsumer"),
            "Take a consumer away",
            Outcome::Null,
        )
        .fails(vec![ApiError::ConsumerNotFound]),
    ]
}

fn messages() -> Vec<Endpoint> {
    let below = |path: &str| {
        (
            "post",
            format!("{ACCOUNT}/queues/{{queue_id}}/messages{path}"),
        )
    };
    let tag = |id| ("Messages", id);
    let invalid = || vec![invalid_field()];
    let send_errors = || {
        vec![
            invalid_field(),
            invalid_delay(),
            invalid_metadata(),
            ApiError::InvalidIdempotencyKey,
            message_too_large(),
        ]
    };
    vec![
        endpoint(below(""), tag("sendMessage"), "Send a message", Outcome::One("Sent"))
            .takes("SendRequest", json!([
                { "body": { "greeting": "hello" }, "content_type": "json", "delay_seconds": 60 },
                { "body": "hello", "content_type": "text" },
                { "body": "aGVsbG8=", "content_type": "bytes" },
                { "body": null },
            ]), send_errors())
            .asks(&["idempotency_key"], vec![]),
        endpoint(below("/batch"), tag("sendBatch"), "Send messages, all or none", Outcome::One("Sent"))
            .takes("SendBatchRequest", json!([
                { "messages": [{ "body": 1, "delay_seconds": 0 }, { "body": "hello", "content_type": "text" }], "delay_seconds": 60 },
            ]), send_errors())
            .asks(&["idempotency_key"], vec![batch_too_large(), batch_count()]),
        endpoint(below("/pull"), tag("pullMessages"), "Take messages, each under a lease", Outcome::One("Pulled"))
            .takes("PullRequest", json!([
                { "batch_size": 10, "visibility_timeout_ms": 30_000, "visibility_timeout": 30_000, "wait_ms": 0 },
                {},
            ]), invalid())
            .optionally()
            .fails(vec![ApiError::NoConsumer, ApiError::DeliveryPaused, ApiError::TooManyOut]),
        endpoint(below("/ack"), tag("settleMessages"), "Acknowledge messages, or give them back", Outcome::One("Settled"))
            .takes("SettleRequest", json!([
                { "acks": [{ "lease_id": "a" }, "b"], "retries": [{ "lease_id": "c", "delay_seconds": 30 }] },
                {},
            ]), invalid()),
        endpoint(below("/extend"), tag("extendLeases"), "pullq's own: let leases run on", Outcome::One("Extended"))
            .takes("ExtendRequest", json!([
                { "extensions": [{ "lease_id": "a", "visibility_timeout_ms": 60_000 }, { "lease_id": "b" }], "visibility_timeout_ms": 30_000 },
                { "extensions": [{ "lease_id": "a", "visibility_timeout_ms": 60_000 }] },
            ]), invalid()),
        endpoint(below("/peek"), tag("peekMessages"), "Look at messages without taking them", Outcome::One("Peeked"))
            .takes("PeekRequest", json!([{ "batch_size": 10 }, {}]), invalid())
            .optionally(),
        endpoint(below("/purge"), tag("purgeMessages"), "Delete messages that a peek showed", Outcome::One("RefsPurged"))
            .takes("PurgeRefsRequest", json!([{ "refs": [{ "ref": "a" }, "b"] }]), invalid()),
        endpoint(below("/preview"), tag("previewMessages"), "The older form of peek", Outcome::One("Previewed"))
            .takes("PeekRequest", json!([{ "batch_size": 10 }, {}]), invalid())
            .optionally(),
        endpoint(below("/preview/ack"), tag("ackPreviewed"), "The older form of messages/purge", Outcome::One("PreviewAcked"))
            .takes("PreviewAckRequest", json!([{ "acks": [{ "lease_id": "a" }, "b"] }]), invalid()),
    ]
}

fn about_tokens() -> Vec<Endpoint> {
    let tag = |id| ("Token", id);
    let at = |path: &str| ("get", format!("/client/v4{path}"));
    vec![
        endpoint(
            at("/accounts"),
            tag("listAccounts"),
            "The account that the token is good for; of a token for all, the deployment's own",
            Outcome::Page("Account"),
        )
        .asks(&["page", "per_page"], vec![invalid_query()]),
        endpoint(
            at("/memberships"),
            tag("listMemberships"),
            "The same, as memberships of a user",
            Outcome::Page("Membership"),
        )
        .asks(&["page", "per_page"], vec![invalid_query()]),
        endpoint(
            at("/user/tokens/verify"),
            tag("verifyToken"),
            "Whether the token is one",
            Outcome::One("VerifiedToken"),
        ),
    ]
}

fn subscriptions() -> Vec<Endpoint> {
    let all = || format!("{ACCOUNT}/event_subscriptions/subscriptions");
    let one = || format!("{}/{{subscription_id}}", all());
    let tag = |id| ("Event subscriptions", id);
    let there_is_none = || vec![ApiError::SubscriptionNotFound];
    vec![
        endpoint(
            ("get", all()),
            tag("listSubscriptions"),
            "An empty list: events of Cloudflare's services don't reach a self-hosted queue",
            Outcome::Page("Subscription"),
        )
        .asks(
            &["page", "per_page", "direction", "order"],
            vec![invalid_query()],
        ),
        endpoint(
            ("post", all()),
            tag("createSubscription"),
            "Refused",
            Outcome::Never,
        )
        .takes(
            "SubscriptionRequest",
            json!([{ "name": "uploads" }]),
            vec![ApiError::SubscriptionsUnsupported],
        ),
        endpoint(
            ("get", one()),
            tag("getSubscription"),
            "There is none",
            Outcome::Never,
        )
        .fails(there_is_none()),
        endpoint(
            ("patch", one()),
            tag("updateSubscription"),
            "There is none",
            Outcome::Never,
        )
        .takes(
            "SubscriptionRequest",
            json!([{ "enabled": false }]),
            there_is_none(),
        ),
        endpoint(
            ("delete", one()),
            tag("deleteSubscription"),
            "There is none",
            Outcome::Never,
        )
        .fails(there_is_none()),
    ]
}

fn document() -> Vec<Endpoint> {
    vec![endpoint(
        ("get", "/openapi.json".into()),
        ("Description", "getDescription"),
        "This document; open to everybody",
        Outcome::Document,
    )]
}

/// The document.
pub fn document_of(endpoints: &[Endpoint]) -> Value {
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    let mut responses = BTreeMap::new();
    for endpoint in endpoints {
        let operation = operation(endpoint, &mut responses);
        let methods = paths.entry(&endpoint.path).or_default();
        methods.insert(endpoint.method.into(), operation);
    }
    let mut schemas: Map<String, Value> = named()
        .into_iter()
        .map(|(name, schema)| (name.to_string(), schema))
        .collect();
    schemas.insert(
        "Subscription".into(),
        json!({ "not": {}, "description": "There are none." }),
    );
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "pullq",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Cloudflare Queues' REST API on a queue of your own, and what pullq adds to it. Bodies are JSON whatever their Content-Type says; unknown keys are passed over, and null counts as absent.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "security": [{ "token": [] }, { "email": [], "key": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "parameters": parameters(),
            "responses": responses,
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer", "description": "An API token." },
                "key": { "type": "apiKey", "in": "header", "name": "X-Auth-Key", "description": "An API token, with any X-Auth-Email." },
                "email": { "type": "apiKey", "in": "header", "name": "X-Auth-Email" },
            },
        },
    })
}

fn operation(endpoint: &Endpoint, components: &mut BTreeMap<String, Value>) -> Value {
    let in_path = endpoint
        .path
        .split('/')
        .filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'));
    let parameters: Vec<Value> = in_path
        .chain(endpoint.parameters.iter().copied())
        .map(|name| json!({ "$ref": format!("#/components/parameters/{name}") }))
        .collect();
    let mut operation = json!({
        "operationId": endpoint.id,
        "tags": [endpoint.tag],
        "summary": endpoint.summary,
        "parameters": parameters,
        "responses": responses(endpoint, components),
    });
    if matches!(endpoint.result, Outcome::Document) {
        operation["security"] = json!([]);
    }
    if let Some(body) = &endpoint.body {
        let examples: Map<String, Value> = body
            .examples
            .iter()
            .enumerate()
            .map(|(index, example)| {
                (
                    format!("example {}", index + 1),
                    json!({ "value": example }),
                )
            })
            .collect();
        operation["requestBody"] = json!({
            "required": !body.is_optional,
            "content": { "application/json": { "schema": reference(body.schema), "examples": examples } },
        });
    }
    operation
}

fn responses(endpoint: &Endpoint, components: &mut BTreeMap<String, Value>) -> Value {
    let mut responses = Map::new();
    let answer = |description: &str, schema: Value| json!({ "description": description, "content": { "application/json": { "schema": schema } } });
    let success = match endpoint.result {
        Outcome::Never => None,
        Outcome::Document => Some(json!({ "type": "object" })),
        Outcome::Null => Some(success(&json!({ "type": "null" }), false)),
        Outcome::One(name) => Some(success(&reference(name), false)),
        Outcome::Array(name) => Some(success(
            &json!({ "type": "array", "items": reference(name) }),
            false,
        )),
        Outcome::Page(name) => Some(success(
            &json!({ "type": "array", "items": reference(name) }),
            true,
        )),
    };
    if let Some(schema) = success {
        responses.insert("200".into(), answer("Done.", schema));
    }
    let mut by_status: BTreeMap<u16, BTreeMap<u32, Vec<&'static str>>> = BTreeMap::new();
    let mut headers: BTreeMap<u16, Map<String, Value>> = BTreeMap::new();
    for error in endpoint.all_errors() {
        let (status, code, _) = error.row();
        let names = by_status
            .entry(status)
            .or_default()
            .entry(code)
            .or_default();
        if !names.contains(&name(&error)) {
            names.push(name(&error));
        }
        for (header, _) in error.headers() {
            let schema = json!({ "schema": { "type": if header == "retry-after" { "integer" } else { "string" } } });
            headers
                .entry(status)
                .or_default()
                .insert(header.into(), schema);
        }
    }
    for (status, codes) in by_status {
        let numbers: Vec<u32> = codes.keys().copied().collect();
        let said: Vec<String> = codes
            .iter()
            .map(|(code, names)| format!("{code} {}", names.join(", ")))
            .collect();
        let key = [
            vec![status.to_string()],
            numbers.iter().map(u32::to_string).collect(),
        ]
        .concat()
        .join("-");
        let mut response = answer(
            &said.join("; "),
            json!({ "allOf": [reference("Failure"), { "properties": { "errors": { "items": { "properties": { "code": { "enum": numbers } } } } } }] }),
        );
        if let Some(headers) = headers.remove(&status) {
            response["headers"] = headers.into();
        }
        let known = components.insert(key.clone(), response.clone());
        // Two sets of errors with the same codes: say what both mean.
        if let Some(known) = known.filter(|known| *known != response) {
            components.insert(key.clone(), merged(known, response));
        }
        responses.insert(
            status.to_string(),
            json!({ "$ref": format!("#/components/responses/{key}") }),
        );
    }
    responses.into()
}

/// Of two descriptions the longer, with the headers of both.
fn merged(one: Value, other: Value) -> Value {
    let length = |response: &Value| response["description"].as_str().map_or(0, str::len);
    let (mut longer, shorter) = match length(&one) >= length(&other) {
        true => (one, other),
        false => (other, one),
    };
    if let Some(headers) = shorter["headers"].as_object() {
        for (name, schema) in headers {
            longer["headers"][name] = schema.clone();
        }
    }
    longer
}
