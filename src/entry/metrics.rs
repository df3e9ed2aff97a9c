//! `GET /metrics`: the queues of an account as Prometheus reads them. The token says which account; one
//! for every account names it in the query, or gets the deployment's own.

use super::{authorize, method, query, with_names, Settings};
use crate::access::Permissions;
use crate::objects::{fetch_in_time, internal, internal_request, stub, Deadline, DIRECTORY};
use crate::rest::page::parameter;
use crate::rest::{ApiError, Id};
use worker::{Env, Request, Response};

pub const PATH: &str = "/metrics";

pub async fn serve(request: Request, env: &Env, settings: &Settings) -> Result<Response, ApiError> {
    if method(&request) != "GET" {
        return Err(ApiError::MethodNotAllowed {
            allow: "GET".into(),
        });
    }
    let query = query(&request);
    let named = parameter(&query, "account").map(|account| Id::parse(&account));
    if named == Some(None) {
        return Err(ApiError::MalformedAccountId);
    }
    let named = named.flatten();
    let account = named.as_ref().map(Id::as_str);
    let grant = authorize(&request, settings, account, Permissions::READ)?;
    let own = grant
        .account
        .as_deref()
        .or(settings.home_account.as_deref());
    let account = account.or(own).ok_or(ApiError::InvalidQuery {
        name: "account",
        expected: "an account's id, since this token is for every account",
    })?;
    let directory = stub(env, DIRECTORY, account)?;
    let inner = with_names(internal_request(internal::METRICS, &[])?, &grant)?;
    fetch_in_time(&directory, inner, Deadline::PROMPT).await
}
