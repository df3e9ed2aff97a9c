//! The Worker's entry: authenticate, route, hand the request on, its body unread. The CloudEvents face
//! has its own: a channel can stand in the body. So have the console and `/metrics`.

mod cloudevents;
mod console;
mod log;
mod metrics;
mod signature;

use crate::access::attempts::{Address, Attempts, DEFAULT_MAX_WRONG};
use crate::access::{AccessError, Credentials, Grant, Permissions, Tokens};
use crate::cloudevents::route;
use crate::objects::{
    answer_response, failed, fetch_in_time, now_ms, query, queue_object_name, stub, Deadline,
    DIRECTORY, QUEUE, QUEUE_NAMES,
};
use crate::rest::cors::Origins;
use crate::rest::json::MAX_BODY_BYTES;
use crate::rest::page::{parse_page, parse_subscriptions};
use crate::rest::{
    self, accounts, openapi, AccountRoute, Answer, ApiError, MessageRoute, QueueRoute, Route,
};
use futures_util::StreamExt;
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use worker::{event, Context, Env, Headers, Request, Response, Result};

/// The secret with the API tokens; what it can't hold goes on in `API_TOKENS_2` and so on.
const API_TOKENS: &str = "API_TOKENS";
/// The setting that names the deployment's own account, which tokens for every account are shown.
const HOME_ACCOUNT: &str = "CLOUDEVENTS_ACCOUNT";
/// The setting that says whose pages may ask, see [`Origins::parse`].
const CORS_ORIGINS: &str = "CORS_ORIGINS";
/// The setting that says how many wrong tokens in a minute slow an address down; 0 for none.
const WRONG_TOKENS_PER_MINUTE: &str = "WRONG_TOKENS_PER_MINUTE";

/// The setting that has a line logged for each request: `on`.
const LOG_REQUESTS: &str = "LOG_REQUESTS";

/// Bytes of a refused body that are read all the same.
const LONGEST_READ_AWAY_BYTES: usize = 16_000_000;

/// What the deployment's settings say. They can't change while a Worker runs, so they are read once.
struct Settings {
    tokens: std::result::Result<Tokens, AccessError>,
    home_account: Option<String>,
    origins: Origins,
    max_wrong: u32,
    log_requests: bool,
}

impl Settings {
    fn read(env: &Env) -> Settings {
        let further = (2..).map_while(|number| setting(env, &format!("{API_TOKENS}_{number}")));
        let secrets: Vec<String> = setting(env, API_TOKENS)
            .into_iter()
            .chain(further)
            .collect();
        Settings {
            tokens: Tokens::parse_all(&secrets),
            home_account: setting(env, HOME_ACCOUNT),
            origins: Origins::parse(setting(env, CORS_ORIGINS).as_deref()),
            max_wrong: setting(env, WRONG_TOKENS_PER_MINUTE)
                .and_then(|number| number.parse().ok())
                .unwrap_or(DEFAULT_MAX_WRONG),
            log_requests: setting(env, LOG_REQUESTS).as_deref() == Some("on"),
        }
    }
}

thread_local! {
    static SETTINGS: OnceCell<Rc<Settings>> = const { OnceCell::new() };
    /// Where wrong tokens came from lately.
    static ATTEMPTS: RefCell<Attempts> = const { RefCell::new(Attempts::new()) };
}

fn settings(env: &Env) -> Rc<Settings> {
    SETTINGS.with(|settings| Rc::clone(settings.get_or_init(|| Rc::new(Settings::read(env)))))
}

#[event(fetch)]
async fn fetch(request: Request, env: Env, _context: Context) -> Result<Response> {
    let settings = settings(&env);
    if !settings.log_requests {
        return fetch_across(request, &env, &settings).await;
    }
    let (method, path, began_ms) = (method(&request), request.path(), now_ms());
    let response = fetch_across(request, &env, &settings).await?;
    let duration_ms = now_ms().saturating_sub(began_ms);
    log::Line::of(&method, &path, response.status_code(), duration_ms).write();
    Ok(response)
}

/// Answers a request, for pages of other origins too where they may ask.
async fn fetch_across(request: Request, env: &Env, settings: &Settings) -> Result<Response> {
    let origins = &settings.origins;
    if *origins == Origins::Nobody {
        return respond(request, env, settings).await;
    }
    let origin = header(&request, "origin");
    let preflight = origins.preflight(
        &method(&request),
        origin.as_deref(),
        header(&request, "access-control-request-method").as_deref(),
        header(&request, "access-control-request-headers").as_deref(),
    );
    let response = match preflight {
        Some(answer) => answer_response(answer)?,
        None => respond(request, env, settings).await?,
    };
    // A new list: that of an object's answer can't be changed.
    let headers = Headers::new();
    for (name, value) in response.headers().entries() {
        headers.append(&name, &value)?;
    }
    for (name, value) in origins.headers(origin.as_deref()) {
        headers.append(name, &value)?;
    }
    Ok(response.with_headers(headers))
}

async fn respond(request: Request, env: &Env, settings: &Settings) -> Result<Response> {
    let path = request.path();
    if route::is_ours(&path) {
        return cloudevents::respond(request, env).await;
    }
    let served = match path.as_str() {
        metrics::PATH => metrics::serve(request, env, settings).await,
        path if console::is_ours(path) => console::serve(request, env).await,
        path => serve(request, path, env, settings).await,
    };
    match served {
        Ok(response) => Ok(response),
        Err(error) => answer_response(error.into()),
    }
}

async fn serve(
    request: Request,
    path: &str,
    env: &Env,
    settings: &Settings,
) -> std::result::Result<Response, ApiError> {
    let route = rest::route::route(&method(&request), path)?;
    if route == Route::Description {
        return answer_response(openapi::answer()).map_err(failed);
    }
    let account = match &route {
        Route::Account { account, .. } => Some(account.as_str()),
        _ => None,
    };
    let grant = authorize(&request, settings, account, route.needs())?;
    let Route::Account { account, to } = &route else {
        return answer_response(about_token(&request, settings, &route, &grant)?).map_err(failed);
    };
    let (binding, name, deadline) = match to {
        AccountRoute::Queue { queue, to } if is_for_the_queue(to) => (
            QUEUE,
            queue_object_name(account.as_str(), queue.as_str()),
            deadline(to),
        ),
        AccountRoute::CreateSubscription => return Err(ApiError::SubscriptionsUnsupported),
        AccountRoute::Subscription => return Err(ApiError::SubscriptionNotFound),
        AccountRoute::ListSubscriptions => {
            let page = parse_subscriptions(&query(&request))?;
            return answer_response(Answer::list::<()>(&[], page, 0)).map_err(failed);
        }
        _ => (DIRECTORY, account.to_string(), Deadline::PROMPT),
    };
    let mut request = request;
    if let Err(error) = refuse_oversized(&request, to) {
        read_away(&mut request).await;
        return Err(error);
    }
    let object = stub(env, binding, &name)?;
    fetch_in_time(&object, with_grant(request, &grant)?, deadline).await
}

/// What a token asks about itself.
fn about_token(
    request: &Request,
    settings: &Settings,
    route: &Route,
    grant: &Grant,
) -> std::result::Result<Answer, ApiError> {
    let home = settings.home_account.as_deref();
    let account = accounts::account_of(grant.account.as_deref(), home);
    match route {
        Route::ListAccounts => {
            let page = parse_page(&query(request))?;
            Ok(accounts::encode_accounts(account.as_ref(), page))
        }
        Route::ListMemberships => {
            let page = parse_page(&query(request))?;
            Ok(accounts::encode_memberships(account.as_ref(), page))
        }
        Route::VerifyToken => Ok(accounts::encode_verified(grant)),
        Route::Description | Route::Account { .. } => Err(ApiError::UnknownRoute),
    }
}

/// The method as it was sent: the crate's own type takes every method it doesn't know for GET.
fn method(request: &Request) -> String {
    request.inner().method()
}

fn header(request: &Request, name: &str) -> Option<String> {
    request.headers().get(name).ok().flatten()
}

fn setting(env: &Env, name: &str) -> Option<String> {
    env.var(name).ok().map(|value| value.to_string())
}

/// Whether the queue's own object serves this; what touches its settings, the directory does.
fn is_for_the_queue(to: &QueueRoute) -> bool {
    matches!(
        to,
        QueueRoute::Messages(_)
            | QueueRoute::Metrics
            | QueueRoute::History
            | QueueRoute::StartRedrive
            | QueueRoute::RedriveStatus
            | QueueRoute::StopRedrive
            | QueueRoute::PurgeStatus
    )
}

fn deadline(to: &QueueRoute) -> Deadline {
    match to {
        QueueRoute::Messages(MessageRoute::Pull) => Deadline::LONG_POLL,
        _ => Deadline::PROMPT,
    }
}

/// Refuses a body that says it is too large, before anybody reads it.
fn refuse_oversized(request: &Request, to: &AccountRoute) -> std::result::Result<(), ApiError> {
    let length = header(request, "content-length").and_then(|length| length.parse::<u64>().ok());
    let Some(size) = length.filter(|length| *length > MAX_BODY_BYTES as u64) else {
        return Ok(());
    };
    match to {
        // A lone message is all there is in its body.
        AccountRoute::Queue {
            to: QueueRoute::Messages(MessageRoute::Send),
            ..
        } => Err(ApiError::MessageTooLarge { index: None, size }),
        _ => Err(ApiError::BodyTooLarge),
    }
}

/// Reads a body to its end without keeping it: a client that is still sending would take an answer
/// that comes too early for a broken connection. What is far too long is cut off all the same.
async fn read_away(request: &mut Request) {
    let Ok(mut body) = request.stream() else {
        return;
    };
    let mut left = LONGEST_READ_AWAY_BYTES;
    while let Some(Ok(chunk)) = body.next().await {
        left = left.saturating_sub(chunk.len());
        if left == 0 {
            break;
        }
    }
}

/// What the request's token allows, when that is enough.
fn authorize(
    request: &Request,
    settings: &Settings,
    account: Option<&str>,
    needs: Permissions,
) -> std::result::Result<Grant, ApiError> {
    let (authorization, email, key) = (
        header(request, "authorization"),
        header(request, "x-auth-email"),
        header(request, "x-auth-key"),
    );
    let credentials =
        Credentials::from_headers(authorization.as_deref(), email.as_deref(), key.as_deref());
    let address = Address::parse(header(request, "cf-connecting-ip").as_deref());
    let tokens = settings.tokens.as_ref();
    ATTEMPTS
        .with_borrow_mut(|attempts| {
            let presented = credentials.token();
            attempts.watch(settings.max_wrong, address, presented, now_ms(), || {
                tokens
                    .map_err(AccessError::clone)?
                    .authorize(credentials, account, needs)
            })
        })
        .map_err(ApiError::from)
}

/// Tells the object which queues the token is good for, where that isn't every one.
fn with_grant(request: Request, grant: &Grant) -> std::result::Result<Request, ApiError> {
    if grant.queues.allow_all() && !request.headers().has(QUEUE_NAMES).map_err(failed)? {
        return Ok(request);
    }
    with_names(request.clone_mut().map_err(failed)?, grant)
}

/// Writes into a request of our own which queues a token is good for.
fn with_names(mut request: Request, grant: &Grant) -> std::result::Result<Request, ApiError> {
    let names = serde_json::to_string(&grant.queues).map_err(failed)?;
    request
        .headers_mut()
        .and_then(|headers| headers.set(QUEUE_NAMES, &names))
        .map_err(failed)?;
    Ok(request)
}
