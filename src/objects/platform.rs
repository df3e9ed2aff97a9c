//! Small bridges to the `worker` crate: time, randomness, requests between objects, answers.

use crate::access::QueueNames;
use crate::rest::form::JsonBodies;
use crate::rest::{Answer, ApiError};
use futures_util::future::{select, Either};
use serde::de::DeserializeOwned;
use serde::Serialize;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;
use worker::{
    Date, Delay, Env, Headers, Method, Request, RequestInit, Response, ResponseBuilder, Stub,
};

/// How long a request to an object may take. An object that panicked never answers.
#[derive(Debug, Clone, Copy)]
pub struct Deadline(pub Duration);

impl Deadline {
    /// For what an object does at once.
    pub const PROMPT: Deadline = Deadline(Duration::from_secs(30));
    /// For what may wait for a message.
    pub const LONG_POLL: Deadline = Deadline(Duration::from_secs(90));
}

/// Whether the platform means by this error that a database has no room.
pub fn says_full(error: &impl std::fmt::Debug) -> bool {
    format!("{error:?}").contains("SQLITE_FULL")
}

/// The wall clock, in milliseconds since the Unix epoch.
pub fn now_ms() -> u64 {
    Date::now().as_millis()
}

pub fn random_bytes<const N: usize>() -> Result<[u8; N], ApiError> {
    let mut bytes = [0; N];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(error) => Err(failed(error)),
    }
}

/// Hands a request to an object and waits for its answer, not forever.
pub async fn fetch_in_time(
    stub: &Stub,
    request: Request,
    deadline: Deadline,
) -> Result<Response, ApiError> {
    let answer = pin!(stub.fetch_with_request(request));
    let too_late = pin!(Delay::from(deadline.0));
    match select(answer, too_late).await {
        Either::Left((Ok(response), _)) => Ok(response),
        Either::Left((Err(error), _)) => {
            // A commit that finds no room fails when the object's code is long done.
            let told = match says_full(&error) {
                true => ApiError::StorageFull,
                false => ApiError::Unreachable,
            };
            Err(log(told, "an object failed", &error))
        }
        Either::Right(_) => Err(log(
            ApiError::TimedOut,
            "an object did not answer",
            &deadline.0.as_secs(),
        )),
    }
}

/// A request from one object to another.
pub fn internal_request(path: &str, body: &[u8]) -> Result<Request, ApiError> {
    let mut init = RequestInit::new();
    init.with_method(Method::Post)
        .with_body(Some(js_sys::Uint8Array::from(body).into()));
    Request::new_with_init(&super::internal::url(path), &init).map_err(failed)
}

/// Sends an answer.
pub fn answer_response(answer: Answer) -> worker::Result<Response> {
    let headers = Headers::new();
    for (name, value) in &answer.headers {
        headers.set(name, value)?;
    }
    let response = ResponseBuilder::new()
        .with_status(answer.status)
        .with_headers(headers);
    // A status such as 204 goes without a body altogether.
    Ok(match answer.body.is_empty() {
        true => response.empty(),
        false => response.fixed(answer.body),
    })
}

/// Names of the bindings in `wrangler.toml`.
pub const QUEUE: &str = "QUEUE";
pub const DIRECTORY: &str = "DIRECTORY";
/// The header in which the Worker tells an object which queues a token is good for; JSON.
pub const QUEUE_NAMES: &str = "x-pullq-queues";
/// The setting that says how bodies of content type json are served: `base64` or `text`.
const JSON_BODIES: &str = "JSON_BODIES";
/// The setting that has rows counted: `on`.
const COUNT_ROWS: &str = "COUNT_ROWS";

/// The object of this name.
pub fn stub(env: &Env, binding: &str, name: &str) -> Result<Stub, ApiError> {
    env.durable_object(binding)
        .and_then(|namespace| namespace.id_from_name(name)?.get_stub())
        .map_err(failed)
}

pub fn json_bodies(env: &Env) -> JsonBodies {
    match env.var(JSON_BODIES) {
        Ok(value) if value.to_string() == "text" => JsonBodies::PlainText,
        _ => JsonBodies::Base64,
    }
}

/// Whether answers say how many rows were written and read.
pub fn counts_rows(env: &Env) -> bool {
    env.var(COUNT_ROWS)
        .is_ok_and(|value| value.to_string() == "on")
}

/// The queues that the request's token is good for.
pub fn queue_names(request: &Request) -> Result<QueueNames, ApiError> {
    match request.headers().get(QUEUE_NAMES).map_err(failed)? {
        Some(names) => serde_json::from_str(&names).map_err(failed),
        None => Ok(QueueNames::every()),
    }
}

/// What stands in a request's URL after the question mark, percent-encoded. The URL comes from the
/// runtime, so it is a valid one.
pub fn query(request: &Request) -> String {
    let url = request.inner().url();
    let url = url.split_once('#').map_or(url.as_str(), |(url, _)| url);
    let query = url.split_once('?').map(|(_, query)| query);
    query.unwrap_or_default().to_owned()
}

/// An answer to another object, which reads it with [`read_json`].
pub fn internal_answer(value: &impl Serialize) -> Result<Answer, ApiError> {
    Ok(Answer {
        status: 200,
        headers: Vec::new(),
        body: serde_json::to_vec(value).map_err(failed)?,
    })
}

/// Reads another object's answer.
pub async fn read_json<T: DeserializeOwned>(response: &mut Response) -> Result<T, ApiError> {
    match response.status_code() {
        200 => response.json().await.map_err(failed),
        status => Err(log(ApiError::Internal, "an object refused", &status)),
    }
}

/// An error of the platform or of our own, which no client can do anything about.
pub fn failed(error: impl std::fmt::Debug) -> ApiError {
    log(ApiError::Internal, "failed", &error)
}

/// A body that can't be read to its end: the client broke off, or sent what is no HTTP.
pub fn body_cut_off(error: worker::Error) -> ApiError {
    let why = "it ended early".to_owned();
    log(ApiError::MalformedBody { why }, "a body", &error)
}

/// The error that a client is told; what it isn't told goes to the log.
pub fn told<E: Into<ApiError> + std::fmt::Debug>(error: E) -> ApiError {
    let why = format!("{error:?}");
    match error.into() {
        ApiError::Internal => log(ApiError::Internal, "failed", &why),
        error => error,
    }
}

/// Says in the log what the client isn't told.
pub fn log(error: ApiError, what: &str, why: &impl std::fmt::Debug) -> ApiError {
    worker::console_error!("{what}: {why:?}");
    error
}

/// Lets everything run that is ready to, and then goes on.
pub async fn ready_again() {
    let mut was_polled = false;
    poll_fn(|context| {
        if was_polled {
            return Poll::Ready(());
        }
        was_polled = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
