//! The CloudEvents face: who asks, for which channel, and then its queue's object.

use super::signature;
use super::{header, method, read_away, setting, LONGEST_READ_AWAY_BYTES};
use crate::access::jwt::{
    Client, EventAccess, EventAccessError, EventAccessSettings, Presented, Right,
};
use crate::cloudevents::error::MAX_BODY_BYTES;
use crate::cloudevents::receive::{encode_drained, encode_received};
use crate::cloudevents::{answer, query as parameters, route, send, Endpoint, EventsError};
use crate::objects::internal::{self, Channel, EventSend, Resolved};
use crate::objects::{
    answer_response, failed, fetch_in_time, internal_request, json_bodies, now_ms,
    query as request_query, queue_object_name, random_bytes, read_json, stub, Deadline, DIRECTORY,
    QUEUE,
};
use crate::queue::SendReceipt;
use crate::rest::Id;
use crate::wire::form::JsonBodies;
use crate::wire::Answer;
use futures_util::StreamExt;
use serde::Serialize;
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;
use worker::{Env, Request, Response, Result};

/// The setting with the account whose queues are the channels.
const ACCOUNT: &str = "CLOUDEVENTS_ACCOUNT";
/// The header with which a send can be repeated safely; pullq's own.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Channels whose queues an isolate remembers.
const MAX_KNOWN: usize = 1_000;

/// Why there is nothing to go on with.
enum Stop {
    Error(EventsError),
    /// An object refused, in final form.
    Refused(Response),
}

impl<E: Into<EventsError>> From<E> for Stop {
    fn from(error: E) -> Stop {
        Stop::Error(error.into())
    }
}

/// Answers a request of this face.
pub async fn respond(request: Request, env: &Env) -> Result<Response> {
    match serve(request, env).await {
        Ok(response) => Ok(response),
        Err(Stop::Refused(response)) => Ok(response),
        Err(Stop::Error(error)) => answer_response(error.into()),
    }
}

async fn serve(request: Request, env: &Env) -> std::result::Result<Response, Stop> {
    let endpoint = route::route(&method(&request), &request.path())?;
    let query = request_query(&request);
    let settings = settings(env);
    let (access, account) = settings.open.as_ref().map_err(Clone::clone)?;
    let caller = authenticate(&request, access).await?;
    let channels = Channels {
        env,
        account,
        json_bodies: settings.json_bodies,
    };
    match endpoint {
        Endpoint::Send => send(request, &query, &caller, &channels).await,
        Endpoint::Receive => {
            let take = parameters::parse_receive(&query, caller.is_known())?;
            caller.allow(&take.channel, Right::Read)?;
            // Nothing can be waited for in a channel that isn't there.
            let make = take.wait_ms > 0;
            let deadline = Deadline(Duration::from_millis(take.wait_ms) + Deadline::PROMPT.0);
            let body = json(&take)?;
            let channel = &take.channel;
            let response = channels
                .ask(channel, make, internal::TAKE, &body, deadline)
                .await?;
            respond_with(response, || encode_received(&[], channel))
        }
        Endpoint::AckAll => {
            let drain = parameters::parse_ack_all(&query, caller.is_known())?;
            caller.allow(&drain.channel, Right::Write)?;
            let body = json(&drain)?;
            let response = channels
                .ask(
                    &drain.channel,
                    false,
                    internal::DRAIN,
                    &body,
                    Deadline::PROMPT,
                )
                .await?;
            respond_with(response, || encode_drained(0))
        }
    }
}

/// The answer of a channel's queue, or the one of a channel that isn't there.
fn respond_with(
    response: Option<Response>,
    of_nothing: impl FnOnce() -> Vec<u8>,
) -> std::result::Result<Response, Stop> {
    match response {
        Some(response) => Ok(response),
        None => respond_now(answer::answer(answer::DONE, of_nothing())),
    }
}

fn respond_now(answer: Answer) -> std::result::Result<Response, Stop> {
    Ok(answer_response(answer).map_err(failed)?)
}

async fn send(
    mut request: Request,
    query: &str,
    caller: &Caller,
    channels: &Channels<'_>,
) -> std::result::Result<Response, Stop> {
    let query = parameters::parse_send(query)?;
    let key = header(&request, IDEMPOTENCY_KEY);
    let content_type = header(&request, "content-type");
    let headers: Vec<(String, String)> = match send::reads_headers(content_type.as_deref()) {
        true => request.headers().entries().collect(),
        false => Vec::new(),
    };
    let body = read_body(&mut request).await?;
    let request = send::Request {
        content_type: content_type.as_deref(),
        headers: &headers,
        body: &body,
    };
    let now = send::Now {
        ms: now_ms(),
        entropy: random_bytes()?,
    };
    let sent = send::parse(request, now)?;
    let Some(channel) = sent.channel(&query)? else {
        let nothing = SendReceipt {
            ids: Vec::new(),
            sent_ms: now.ms,
            repeated: false,
        };
        return respond_now(sent.sending(String::new()).answer(&nothing));
    };
    caller.allow(&channel, Right::Write)?;
    let message = EventSend {
        request: sent.to_request(&query, channels.json_bodies, key)?,
        sending: sent.sending(channel),
    };
    let body = message.encode().map_err(failed)?;
    let channel = &message.sending.channel;
    let response = channels
        .ask(channel, true, internal::SEND, &body, Deadline::PROMPT)
        .await?;
    Ok(response.ok_or(EventsError::Unreachable)?)
}

/// Reads a body; of one that is too large nothing is kept.
async fn read_body(request: &mut Request) -> std::result::Result<Vec<u8>, EventsError> {
    let length = header(request, "content-length").and_then(|length| length.parse().ok());
    match length {
        Some(0) => return Ok(Vec::new()),
        Some(1..=MAX_BODY_BYTES) => return request.bytes().await.map_err(cut_off),
        Some(_) => {
            read_away(request).await;
            return Err(EventsError::BodyTooLarge);
        }
        None => {}
    }
    // There is no stream where there is no body.
    let Ok(mut stream) = request.stream() else {
        return Ok(Vec::new());
    };
    let mut body = Vec::new();
    let mut length = 0usize;
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(cut_off)?;
        length = length.saturating_add(chunk.len());
        if length > LONGEST_READ_AWAY_BYTES {
            break;
        }
        // What is too long is read to its end all the same, so that the client reads the refusal.
        if length <= MAX_BODY_BYTES {
            body.extend_from_slice(&chunk);
        }
    }
    match length {
        0..=MAX_BODY_BYTES => Ok(body),
        _ => Err(EventsError::BodyTooLarge),
    }
}

/// A body that can't be read to its end: the client broke off, or sent what is no HTTP.
fn cut_off(error: worker::Error) -> EventsError {
    worker::console_error!("a body ended early: {error:?}");
    EventsError::InvalidEvent("the body ended early".into())
}

fn json(value: &impl Serialize) -> std::result::Result<Vec<u8>, EventsError> {
    Ok(serde_json::to_vec(value).map_err(failed)?)
}

/// Whoever asks, and what rules there are for it.
struct Caller {
    access: Rc<EventAccess>,
    client: Client,
}

impl Caller {
    /// Whether the token says who it is: then the request need not, and what it says doesn't count.
    fn is_known(&self) -> bool {
        self.client.id.is_some()
    }

    fn allow(&self, channel: &str, right: Right) -> std::result::Result<(), EventsError> {
        Ok(self.access.allow(&self.client, channel, right)?)
    }
}

async fn authenticate(
    request: &Request,
    access: &Rc<EventAccess>,
) -> std::result::Result<Caller, EventsError> {
    let client = match access.as_ref() {
        EventAccess::Everybody => Client::default(),
        EventAccess::Bearers(bearers) => {
            let authorization = header(request, "authorization");
            let presented = Presented::read(authorization.as_deref(), bearers.algorithm)?;
            let is_good = signature::is_good(bearers, &presented).await?;
            presented.accept(is_good, bearers, now_ms() / 1_000)?
        }
    };
    Ok(Caller {
        access: Rc::clone(access),
        client,
    })
}

/// What the deployment's settings say of this face. They can't change while a Worker runs, so they
/// are read once.
struct Settings {
    /// Who gets in, and the account whose queues are the channels.
    open: std::result::Result<(Rc<EventAccess>, String), EventAccessError>,
    json_bodies: JsonBodies,
}

impl Settings {
    fn read(env: &Env) -> Settings {
        Settings {
            open: access(env).and_then(|access| Ok((Rc::new(access), account(env)?))),
            json_bodies: json_bodies(env),
        }
    }
}

thread_local! {
    static SETTINGS: OnceCell<Rc<Settings>> = const { OnceCell::new() };
    /// Queue ids by channel. One that is no longer right is found out by asking it.
    static KNOWN: RefCell<HashMap<String, String>> = RefCell::new(HashMap::new());
}

fn settings(env: &Env) -> Rc<Settings> {
    SETTINGS.with(|settings| Rc::clone(settings.get_or_init(|| Rc::new(Settings::read(env)))))
}

fn access(env: &Env) -> std::result::Result<EventAccess, EventAccessError> {
    let setting = |name| setting(env, name);
    EventAccess::parse(&EventAccessSettings {
        auth: setting("CLOUDEVENTS_AUTH"),
        algorithm: setting("CLOUDEVENTS_JWT_ALGORITHM"),
        key: setting("CLOUDEVENTS_JWT_KEY"),
        audience: setting("CLOUDEVENTS_JWT_AUDIENCE"),
        issuer: setting("CLOUDEVENTS_JWT_ISSUER"),
        client_id_claim: setting("CLOUDEVENTS_JWT_CLIENT_ID_CLAIM"),
        rules: setting("CLOUDEVENTS_RULES"),
    })
}

fn account(env: &Env) -> std::result::Result<String, EventAccessError> {
    let account = setting(env, ACCOUNT).and_then(|text| Id::parse(text.trim()));
    account.map(|id| id.as_str().to_owned()).ok_or_else(|| {
        EventAccessError::Unusable(format!(
            "the setting {ACCOUNT} must be the id of the account whose queues are the channels, 32 hexadecimal digits"
        ))
    })
}

/// The channels: the queues of one account, by their names.
struct Channels<'a> {
    env: &'a Env,
    account: &'a str,
    json_bodies: JsonBodies,
}

impl Channels<'_> {
    /// Says something to a channel's queue; `None` when there is none and none is to be made. A
    /// queue that is no longer this channel is looked for once more.
    async fn ask(
        &self,
        channel: &str,
        make: bool,
        path: &str,
        body: &[u8],
        deadline: Deadline,
    ) -> std::result::Result<Option<Response>, Stop> {
        for _ in 0..2 {
            let Some(queue_id) = self.queue_id(channel, make).await? else {
                return Ok(None);
            };
            let name = queue_object_name(self.account, &queue_id);
            let object = stub(self.env, QUEUE, &name)?;
            let response = fetch_in_time(&object, internal_request(path, body)?, deadline).await?;
            if response.status_code() != 404 {
                return Ok(Some(response));
            }
            KNOWN.with_borrow_mut(|known| known.remove(channel));
        }
        Err(Stop::Error(EventsError::Unreachable))
    }

    async fn queue_id(
        &self,
        channel: &str,
        make: bool,
    ) -> std::result::Result<Option<String>, Stop> {
        if let Some(queue_id) = KNOWN.with_borrow(|known| known.get(channel).cloned()) {
            return Ok(Some(queue_id));
        }
        let directory = stub(self.env, DIRECTORY, self.account)?;
        let wanted = json(&Channel {
            name: channel.to_owned(),
            make,
        })?;
        let request = internal_request(internal::RESOLVE_CHANNEL, &wanted)?;
        let mut response = fetch_in_time(&directory, request, Deadline::PROMPT).await?;
        match response.status_code() {
            200 => {}
            404 => return Ok(None),
            _ => return Err(Stop::Refused(response)),
        }
        let Resolved { queue_id } = read_json(&mut response).await?;
        KNOWN.with_borrow_mut(|known| {
            if known.len() >= MAX_KNOWN {
                known.clear();
            }
            known.insert(channel.to_owned(), queue_id.clone());
        });
        Ok(Some(queue_id))
    }
}
