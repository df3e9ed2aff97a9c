//! The Worker's entry: authenticate, route, hand the request on, its body unread.

use crate::access::{AccessError, Credentials, Grant, Tokens};
use crate::objects::{
    answer_response, failed, fetch_in_time, queue_object_name, stub, Deadline, DIRECTORY, QUEUE,
    QUEUE_NAMES,
};
use crate::rest::page::parse_list;
use crate::rest::{self, AccountRoute, Answer, ApiError, MessageRoute, QueueRoute, Route};
use std::cell::RefCell;
use worker::{event, Context, Env, Request, Response, Result};

/// The secret with the API tokens.
const API_TOKENS: &str = "API_TOKENS";

#[event(fetch)]
async fn fetch(request: Request, env: Env, _context: Context) -> Result<Response> {
    match serve(request, &env).await {
        Ok(response) => Ok(response),
        Err(error) => answer_response(error.into()),
    }
}

async fn serve(request: Request, env: &Env) -> std::result::Result<Response, ApiError> {
    let route = rest::route::route(request.method().as_ref(), &request.path())?;
    let account = match &route {
        Route::Account { account, .. } => Some(account.as_str()),
        _ => None,
    };
    let grant = authorize(&request, env, account, &route)?;
    let Route::Account { account, to } = &route else {
        return Err(ApiError::UnknownRoute);
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
            let page = parse_list(request.url().map_err(failed)?.query().unwrap_or_default())?.page;
            return answer_response(Answer::list::<()>(&[], page, 0)).map_err(failed);
        }
        _ => (DIRECTORY, account.to_string(), Deadline::PROMPT),
    };
    let object = stub(env, binding, &name)?;
    fetch_in_time(&object, with_grant(request, &grant)?, deadline).await
}

/// Whether the queue's own object serves this; what touches its settings, the directory does.
fn is_for_the_queue(to: &QueueRoute) -> bool {
    matches!(
        to,
        QueueRoute::Messages(_) | QueueRoute::Metrics | QueueRoute::PurgeStatus
    )
}

fn deadline(to: &QueueRoute) -> Deadline {
    match to {
        QueueRoute::Messages(MessageRoute::Pull) => Deadline::LONG_POLL,
        _ => Deadline::PROMPT,
    }
}

/// What the request's token allows, when that is enough.
fn authorize(
    request: &Request,
    env: &Env,
    account: Option<&str>,
    route: &Route,
) -> std::result::Result<Grant, ApiError> {
    let header = |name: &str| request.headers().get(name).ok().flatten();
    let (authorization, email, key) = (
        header("authorization"),
        header("x-auth-email"),
        header("x-auth-key"),
    );
    let credentials =
        Credentials::from_headers(authorization.as_deref(), email.as_deref(), key.as_deref());
    with_tokens(env, |tokens| {
        tokens.authorize(credentials, account, route.needs())
    })
    .map_err(ApiError::from)
}

thread_local! {
    /// The tokens as they were read last, and from what.
    static TOKENS: RefCell<Option<(String, Tokens)>> = const { RefCell::new(None) };
}

/// Reads the tokens, anew only when the secret has changed.
fn with_tokens<T>(
    env: &Env,
    use_them: impl FnOnce(&Tokens) -> std::result::Result<T, AccessError>,
) -> std::result::Result<T, AccessError> {
    let secret = env.var(API_TOKENS).ok().map(|value| value.to_string());
    TOKENS.with_borrow_mut(|known| match known {
        Some((text, tokens)) if Some(text.as_str()) == secret.as_deref() => use_them(tokens),
        _ => {
            let tokens = Tokens::parse(secret.as_deref())?;
            let (_, tokens) = known.insert((secret.unwrap_or_default(), tokens));
            use_them(tokens)
        }
    })
}

/// Tells the object which queues the token is good for, where that isn't every one.
fn with_grant(request: Request, grant: &Grant) -> std::result::Result<Request, ApiError> {
    if grant.queues.allow_all() && !request.headers().has(QUEUE_NAMES).map_err(failed)? {
        return Ok(request);
    }
    let names = serde_json::to_string(&grant.queues).map_err(failed)?;
    let mut request = request.clone_mut().map_err(failed)?;
    request
        .headers_mut()
        .and_then(|headers| headers.set(QUEUE_NAMES, &names))
        .map_err(failed)?;
    Ok(request)
}
