//! From a method and a path to what is asked. Which right it needs is written here too, beside the
//! endpoint.

use super::error::{ApiError, Plane};
use super::page::percent_decode;
use crate::access::Permissions;
use std::borrow::Cow;
use std::fmt;

/// Where Cloudflare's API begins.
const PREFIX: [&str; 2] = ["client", "v4"];

/// The id of an account, a queue or a consumer: 32 hexadecimal digits, in lower case. Upper case is
/// accepted in a path and means the same id, as it would for anyone who copies one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Id(String);

impl Id {
    /// Characters of an id. Cloudflare: 32.
    pub const LENGTH: usize = 32;

    /// `None` when `text` is no id.
    pub fn parse(text: &str) -> Option<Id> {
        let is_id = text.len() == Id::LENGTH && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id.then(|| Id(text.to_ascii_lowercase()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A new id, made of 16 random bytes.
impl From<[u8; 16]> for Id {
    fn from(bytes: [u8; 16]) -> Id {
        let mut text = Vec::with_capacity(Id::LENGTH);
        crate::wire::json::put_hex(&mut text, &bytes);
        Id(text.into_iter().map(char::from).collect())
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a request asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// `GET /openapi.json`, which is outside Cloudflare's API and open to everybody.
    Description,
    /// `GET /accounts`: the accounts the token is good for.
    ListAccounts,
    /// `GET /memberships`: the same, as memberships of a user.
    ListMemberships,
    /// `GET /user/tokens/verify`
    VerifyToken,
    /// Everything below `/accounts/{account_id}`.
    Account { account: Id, to: AccountRoute },
}

/// What is asked of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccountRoute {
    /// `POST /queues`
    CreateQueue,
    /// `GET /queues`
    ListQueues,
    /// Everything below `/queues/{queue_id}`.
    Queue { queue: Id, to: QueueRoute },
    /// `POST /event_subscriptions/subscriptions`
    CreateSubscription,
    /// `GET /overview`, pullq's own: all queues with their states
    Overview,
    /// `GET /event_subscriptions/subscriptions`
    ListSubscriptions,
    /// `GET`, `PATCH` or `DELETE /event_subscriptions/subscriptions/{id}`
    Subscription,
}

/// What is asked of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueRoute {
    /// `GET`
    Get,
    /// `PUT`
    Replace,
    /// `PATCH`
    Patch,
    /// `DELETE`
    Delete,
    /// `GET /metrics`
    Metrics,
    /// `GET /history`, pullq's own: the last hour
    History,
    /// `POST /redrive`, pullq's own: have messages moved on
    StartRedrive,
    /// `GET /redrive`
    RedriveStatus,
    /// `DELETE /redrive`
    StopRedrive,
    /// `POST /purge`
    StartPurge,
    /// `GET /purge`
    PurgeStatus,
    /// `POST /consumers`
    CreateConsumer,
    /// `GET /consumers`
    ListConsumers,
    /// `GET /consumers/{consumer_id}`
    GetConsumer(Id),
    /// `PUT /consumers/{consumer_id}`
    PutConsumer(Id),
    /// `DELETE /consumers/{consumer_id}`
    DeleteConsumer(Id),
    /// `POST /messages` and below.
    Messages(MessageRoute),
}

/// What is asked about a queue's messages; all with `POST`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageRoute {
    /// `/messages`
    Send,
    /// `/messages/batch`
    SendBatch,
    /// `/messages/pull`
    Pull,
    /// `/messages/ack`
    Settle,
    /// `/messages/extend`, pullq's own
    Extend,
    /// `/messages/peek`
    Peek,
    /// `/messages/purge`
    PurgeRefs,
    /// `/messages/preview`, the older form of peek
    Preview,
    /// `/messages/preview/ack`, the older form of purge
    PreviewAck,
}

impl Route {
    /// The right that the request needs. Pulling and acknowledging need both, as at Cloudflare.
    pub fn needs(&self) -> Permissions {
        match self {
            Route::Description
            | Route::ListAccounts
            | Route::ListMemberships
            | Route::VerifyToken => Permissions::NONE,
            Route::Account { to, .. } => match to {
                AccountRoute::ListQueues
                | AccountRoute::Overview
                | AccountRoute::ListSubscriptions => Permissions::READ,
                AccountRoute::CreateQueue
                | AccountRoute::CreateSubscription
                | AccountRoute::Subscription => Permissions::WRITE,
                AccountRoute::Queue { to, .. } => to.needs(),
            },
        }
    }

    /// What is asked, for logs: the name that the endpoint has in the API's description.
    pub fn operation(&self) -> &'static str {
        match self {
            Route::Description => "getDescription",
            Route::ListAccounts => "listAccounts",
            Route::ListMemberships => "listMemberships",
            Route::VerifyToken => "verifyToken",
            Route::Account { to, .. } => match to {
                AccountRoute::CreateQueue => "createQueue",
                AccountRoute::ListQueues => "listQueues",
                AccountRoute::Overview => "getOverview",
                AccountRoute::CreateSubscription => "createSubscription",
                AccountRoute::ListSubscriptions => "listSubscriptions",
                AccountRoute::Subscription => "subscription",
                AccountRoute::Queue { to, .. } => to.operation(),
            },
        }
    }

    /// The half of the API that the request belongs to.
    pub fn plane(&self) -> Plane {
        match self {
            Route::Account {
                to:
                    AccountRoute::Queue {
                        to: QueueRoute::Messages(_),
                        ..
                    },
                ..
            } => Plane::Messages,
            _ => Plane::Control,
        }
    }
}

impl QueueRoute {
    fn operation(&self) -> &'static str {
        match self {
            QueueRoute::Get => "getQueue",
            QueueRoute::Replace => "replaceQueue",
            QueueRoute::Patch => "updateQueue",
            QueueRoute::Delete => "deleteQueue",
            QueueRoute::Metrics => "getMetrics",
            QueueRoute::History => "getHistory",
            QueueRoute::StartRedrive => "startRedrive",
            QueueRoute::RedriveStatus => "getRedrive",
            QueueRoute::StopRedrive => "stopRedrive",
            QueueRoute::StartPurge => "purgeQueue",
            QueueRoute::PurgeStatus => "getPurge",
            QueueRoute::CreateConsumer => "createConsumer",
            QueueRoute::ListConsumers => "listConsumers",
            QueueRoute::GetConsumer(_) => "getConsumer",
            QueueRoute::PutConsumer(_) => "putConsumer",
            QueueRoute::DeleteConsumer(_) => "deleteConsumer",
            QueueRoute::Messages(to) => match to {
                MessageRoute::Send => "sendMessage",
                MessageRoute::SendBatch => "sendBatch",
                MessageRoute::Pull => "pullMessages",
                MessageRoute::Settle => "settleMessages",
                MessageRoute::Extend => "extendLeases",
                MessageRoute::Peek => "peekMessages",
                MessageRoute::PurgeRefs => "purgeMessages",
                MessageRoute::Preview => "previewMessages",
                MessageRoute::PreviewAck => "ackPreviewed",
            },
        }
    }

    fn needs(&self) -> Permissions {
        match self {
            QueueRoute::Get
            | QueueRoute::Metrics
            | QueueRoute::History
            | QueueRoute::RedriveStatus
            | QueueRoute::PurgeStatus
            | QueueRoute::ListConsumers
            | QueueRoute::GetConsumer(_) => Permissions::READ,
            QueueRoute::Replace
            | QueueRoute::Patch
            | QueueRoute::Delete
            | QueueRoute::StartPurge
            | QueueRoute::StartRedrive
            | QueueRoute::StopRedrive
            | QueueRoute::CreateConsumer
            | QueueRoute::PutConsumer(_)
            | QueueRoute::DeleteConsumer(_) => Permissions::WRITE,
            QueueRoute::Messages(to) => match to {
                MessageRoute::Send
                | MessageRoute::SendBatch
                | MessageRoute::PurgeRefs
                | MessageRoute::PreviewAck => Permissions::WRITE,
                MessageRoute::Peek | MessageRoute::Preview => Permissions::READ,
                MessageRoute::Pull | MessageRoute::Settle | MessageRoute::Extend => {
                    Permissions::BOTH
                }
            },
        }
    }
}

/// Reads `method` (in upper case) and `path` (percent-encoded, without the query).
///
/// A path that leads nowhere is told first, then a malformed id in it, then a method that isn't
/// there. One slash at the end is passed over.
pub fn route(method: &str, path: &str) -> Result<Route, ApiError> {
    let path = path.strip_prefix('/').ok_or(ApiError::UnknownRoute)?;
    let path = path.strip_suffix('/').unwrap_or(path);
    let segments: Vec<Cow<str>> = path.split('/').map(percent_decode).collect();
    let segments: Vec<&str> = segments.iter().map(Cow::as_ref).collect();
    if segments == ["openapi.json"] {
        return choose(method, [("GET", Route::Description)]);
    }
    let rest = segments
        .strip_prefix(&PREFIX)
        .ok_or(ApiError::UnknownRoute)?;
    match rest {
        ["accounts"] => choose(method, [("GET", Route::ListAccounts)]),
        ["memberships"] => choose(method, [("GET", Route::ListMemberships)]),
        ["user", "tokens", "verify"] => choose(method, [("GET", Route::VerifyToken)]),
        ["accounts", account, rest @ ..] => {
            let to = Below::of(rest)?;
            let account = Id::parse(account).ok_or(ApiError::MalformedAccountId)?;
            Ok(Route::Account {
                account,
                to: to.choose(method)?,
            })
        }
        _ => Err(ApiError::UnknownRoute),
    }
}

/// A place below an account, its ids and the method not yet looked at.
enum Below<'a> {
    Queues,
    Queue(&'a str, BelowQueue<'a>),
    Overview,
    Subscriptions,
    Subscription,
}

enum BelowQueue<'a> {
    Itself,
    Metrics,
    History,
    Redrive,
    Purge,
    Consumers,
    Consumer(&'a str),
    Messages(MessageRoute),
}

impl<'a> Below<'a> {
    fn of(segments: &[&'a str]) -> Result<Below<'a>, ApiError> {
        Ok(match segments {
            ["queues"] => Below::Queues,
            ["queues", queue, rest @ ..] => Below::Queue(queue, BelowQueue::of(rest)?),
            ["overview"] => Below::Overview,
            ["event_subscriptions", "subscriptions"] => Below::Subscriptions,
            ["event_subscriptions", "subscriptions", _] => Below::Subscription,
            _ => return Err(ApiError::UnknownRoute),
        })
    }

    fn choose(self, method: &str) -> Result<AccountRoute, ApiError> {
        match self {
            Below::Queues => choose(
                method,
                [
                    ("GET", AccountRoute::ListQueues),
                    ("POST", AccountRoute::CreateQueue),
                ],
            ),
            Below::Queue(queue, below) => {
                let queue = Id::parse(queue).ok_or(ApiError::MalformedQueueId)?;
                Ok(AccountRoute::Queue {
                    queue,
                    to: below.choose(method)?,
                })
            }
            Below::Overview => choose(method, [("GET", AccountRoute::Overview)]),
            Below::Subscriptions => choose(
                method,
                [
                    ("GET", AccountRoute::ListSubscriptions),
                    ("POST", AccountRoute::CreateSubscription),
                ],
            ),
            Below::Subscription => choose(
                method,
                ["GET", "PATCH", "DELETE"].map(|method| (method, AccountRoute::Subscription)),
            ),
        }
    }
}

impl<'a> BelowQueue<'a> {
    fn of(segments: &[&'a str]) -> Result<BelowQueue<'a>, ApiError> {
        let message = |to| Ok(BelowQueue::Messages(to));
        match segments {
            [] => Ok(BelowQueue::Itself),
            ["metrics"] => Ok(BelowQueue::Metrics),
            ["history"] => Ok(BelowQueue::History),
            ["redrive"] => Ok(BelowQueue::Redrive),
            ["purge"] => Ok(BelowQueue::Purge),
            ["consumers"] => Ok(BelowQueue::Consumers),
            ["consumers", consumer] => Ok(BelowQueue::Consumer(consumer)),
            ["messages"] => message(MessageRoute::Send),
            ["messages", "batch"] => message(MessageRoute::SendBatch),
            ["messages", "pull"] => message(MessageRoute::Pull),
            ["messages", "ack"] => message(MessageRoute::Settle),
            ["messages", "extend"] => message(MessageRoute::Extend),
            ["messages", "peek"] => message(MessageRoute::Peek),
            ["messages", "purge"] => message(MessageRoute::PurgeRefs),
            ["messages", "preview"] => message(MessageRoute::Preview),
            ["messages", "preview", "ack"] => message(MessageRoute::PreviewAck),
            _ => Err(ApiError::UnknownRoute),
        }
    }

    fn choose(self, method: &str) -> Result<QueueRoute, ApiError> {
        match self {
            BelowQueue::Itself => choose(
                method,
                [
                    ("GET", QueueRoute::Get),
                    ("PUT", QueueRoute::Replace),
                    ("PATCH", QueueRoute::Patch),
                    ("DELETE", QueueRoute::Delete),
                ],
            ),
            BelowQueue::Metrics => choose(method, [("GET", QueueRoute::Metrics)]),
            BelowQueue::History => choose(method, [("GET", QueueRoute::History)]),
            BelowQueue::Redrive => choose(
                method,
                [
                    ("GET", QueueRoute::RedriveStatus),
                    ("POST", QueueRoute::StartRedrive),
                    ("DELETE", QueueRoute::StopRedrive),
                ],
            ),
            BelowQueue::Purge => choose(
                method,
                [
                    ("GET", QueueRoute::PurgeStatus),
                    ("POST", QueueRoute::StartPurge),
                ],
            ),
            BelowQueue::Consumers => choose(
                method,
                [
                    ("GET", QueueRoute::ListConsumers),
                    ("POST", QueueRoute::CreateConsumer),
                ],
            ),
            BelowQueue::Consumer(consumer) => {
                let consumer = Id::parse(consumer).ok_or(ApiError::MalformedId {
                    what: "consumer id",
                })?;
                choose(
                    method,
                    [
                        ("GET", QueueRoute::GetConsumer(consumer.clone())),
                        ("PUT", QueueRoute::PutConsumer(consumer.clone())),
                        ("DELETE", QueueRoute::DeleteConsumer(consumer)),
                    ],
                )
            }
            BelowQueue::Messages(to) => choose(method, [("POST", QueueRoute::Messages(to))]),
        }
    }
}

fn choose<T, const N: usize>(method: &str, choices: [(&'static str, T); N]) -> Result<T, ApiError> {
    let mut allowed = Vec::with_capacity(N);
    for (name, choice) in choices {
        if name == method {
            return Ok(choice);
        }
        allowed.push(name);
    }
    Err(ApiError::MethodNotAllowed {
        allow: allowed.join(", "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCOUNT: &str = "023e105f4ecef8ad9ca31a8372d0c353";
    const QUEUE: &str = "eb868d636bc0dc7b448f8192410573c7";
    const CONSUMER: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";

    fn id(text: &str) -> Id {
        Id::parse(text).expect("an id")
    }

    fn on_account(method: &str, below: &str) -> Result<AccountRoute, ApiError> {
        match route(method, &format!("/client/v4/accounts/{ACCOUNT}{below}"))? {
            Route::Account { account, to } => {
                assert_eq!(account, id(ACCOUNT));
                Ok(to)
            }
            other => panic!("{other:?}"),
        }
    }

    fn on_queue(method: &str, below: &str) -> Result<QueueRoute, ApiError> {
        match on_account(method, &format!("/queues/{QUEUE}{below}"))? {
            AccountRoute::Queue { queue, to } => {
                assert_eq!(queue, id(QUEUE));
                Ok(to)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_endpoint_of_a_queue_is_found_and_needs_its_right() {
        let (read, write, both) = (Permissions::READ, Permissions::WRITE, Permissions::BOTH);
        let one_consumer = format!("/consumers/{CONSUMER}");
        let messages = QueueRoute::Messages;
        let cases = [
            ("GET", "", QueueRoute::Get, read),
            ("PUT", "", QueueRoute::Replace, write),
            ("PATCH", "", QueueRoute::Patch, write),
            ("DELETE", "", QueueRoute::Delete, write),
            ("GET", "/metrics", QueueRoute::Metrics, read),
            ("GET", "/history", QueueRoute::History, read),
            ("GET", "/redrive", QueueRoute::RedriveStatus, read),
            ("POST", "/redrive", QueueRoute::StartRedrive, write),
            ("DELETE", "/redrive", QueueRoute::StopRedrive, write),
            ("POST", "/purge", QueueRoute::StartPurge, write),
            ("GET", "/purge", QueueRoute::PurgeStatus, read),
            ("POST", "/consumers", QueueRoute::CreateConsumer, write),
            ("GET", "/consumers", QueueRoute::ListConsumers, read),
            (
                "GET",
                &one_consumer,
                QueueRoute::GetConsumer(id(CONSUMER)),
                read,
            ),
            (
                "PUT",
                &one_consumer,
                QueueRoute::PutConsumer(id(CONSUMER)),
                write,
            ),
            (
                "DELETE",
                &one_consumer,
                QueueRoute::DeleteConsumer(id(CONSUMER)),
                write,
            ),
            ("POST", "/messages", messages(MessageRoute::Send), write),
            (
                "POST",
                "/messages/batch",
                messages(MessageRoute::SendBatch),
                write,
            ),
            ("POST", "/messages/pull", messages(MessageRoute::Pull), both),
            (
                "POST",
                "/messages/ack",
                messages(MessageRoute::Settle),
                both,
            ),
            (
                "POST",
                "/messages/extend",
                messages(MessageRoute::Extend),
                both,
            ),
            ("POST", "/messages/peek", messages(MessageRoute::Peek), read),
            (
                "POST",
                "/messages/purge",
                messages(MessageRoute::PurgeRefs),
                write,
            ),
            (
                "POST",
                "/messages/preview",
                messages(MessageRoute::Preview),
                read,
            ),
            (
                "POST",
                "/messages/preview/ack",
                messages(MessageRoute::PreviewAck),
                write,
            ),
        ];
        for (method, below, expected, needs) in cases {
            let found = on_queue(method, below);
            assert_eq!(found, Ok(expected), "{method} {below}");
            assert_eq!(found.map(|to| to.needs()), Ok(needs), "{method} {below}");
        }
    }

    #[test]
    fn every_other_endpoint_is_found() {
        let cases = [
            ("GET", "/queues", AccountRoute::ListQueues),
            ("GET", "/queues/", AccountRoute::ListQueues),
            ("POST", "/queues", AccountRoute::CreateQueue),
            (
                "GET",
                "/event_subscriptions/subscriptions",
                AccountRoute::ListSubscriptions,
            ),
            (
                "POST",
                "/event_subscriptions/subscriptions",
                AccountRoute::CreateSubscription,
            ),
            (
                "PATCH",
                "/event_subscriptions/subscriptions/1",
                AccountRoute::Subscription,
            ),
        ];
        for (method, below, expected) in cases {
            assert_eq!(on_account(method, below), Ok(expected), "{method} {below}");
        }
        assert_eq!(route("GET", "/client/v4/accounts"), Ok(Route::ListAccounts));
        assert_eq!(route("GET", "/openapi.json"), Ok(Route::Description));
        assert_eq!(
            route("GET", "/client/v4/memberships"),
            Ok(Route::ListMemberships)
        );
        assert_eq!(
            route("GET", "/client/v4/user/tokens/verify"),
            Ok(Route::VerifyToken)
        );
    }

    #[test]
    fn a_path_that_leads_nowhere_is_told_before_a_malformed_id_and_that_before_the_method() {
        let allow = |allow: &str| ApiError::MethodNotAllowed {
            allow: allow.into(),
        };
        let cases = [
            ("GET", "".to_string(), ApiError::UnknownRoute),
            ("GET", "/".to_string(), ApiError::UnknownRoute),
            ("GET", "/client/v4".to_string(), ApiError::UnknownRoute),
            (
                "GET",
                format!("/accounts/{ACCOUNT}/queues"),
                ApiError::UnknownRoute,
            ),
            (
                "GET",
                format!("/client/v4/accounts/{ACCOUNT}"),
                ApiError::UnknownRoute,
            ),
            (
                "GET",
                format!("/client/v4/accounts/{ACCOUNT}//queues"),
                ApiError::UnknownRoute,
            ),
            ("GET", "//openapi.json".to_string(), ApiError::UnknownRoute),
            (
                "GET",
                "/client/v4/openapi.json".to_string(),
                ApiError::UnknownRoute,
            ),
            ("POST", "/openapi.json".to_string(), allow("GET")),
            (
                "GET",
                "/client/v4/accounts/x/nowhere".to_string(),
                ApiError::UnknownRoute,
            ),
            (
                "POST",
                format!("/client/v4/accounts/{ACCOUNT}/queues/{QUEUE}/pull"),
                ApiError::UnknownRoute,
            ),
            (
                "POST",
                format!("/client/v4/accounts/{ACCOUNT}/queues/{QUEUE}%2Fmessages"),
                ApiError::MalformedQueueId,
            ),
            (
                "DELETE",
                "/client/v4/accounts/x/queues".to_string(),
                ApiError::MalformedAccountId,
            ),
            (
                "DELETE",
                "/client/v4/accounts//queues".to_string(),
                ApiError::MalformedAccountId,
            ),
            (
                "DELETE",
                "/client/v4/accounts/%ff%00/queues".to_string(),
                ApiError::MalformedAccountId,
            ),
            (
                "GET",
                format!("/client/v4/accounts/{ACCOUNT}/queues/orders"),
                ApiError::MalformedQueueId,
            ),
            (
                "GET",
                format!("/client/v4/accounts/{ACCOUNT}/queues/{QUEUE}0"),
                ApiError::MalformedQueueId,
            ),
            (
                "GET",
                format!("/client/v4/accounts/{ACCOUNT}/queues/{QUEUE}/consumers/x"),
                ApiError::MalformedId {
                    what: "consumer id",
                },
            ),
            (
                "PUT",
                format!("/client/v4/accounts/{ACCOUNT}/queues"),
                allow("GET, POST"),
            ),
            (
                "GET",
                format!("/client/v4/accounts/{ACCOUNT}/queues/{QUEUE}/messages/pull"),
                allow("POST"),
            ),
            ("get", "/client/v4/accounts".to_string(), allow("GET")),
        ];
        for (method, path, expected) in cases {
            assert_eq!(route(method, &path), Err(expected), "{method} {path}");
        }
    }

    #[test]
    fn ids_mean_the_same_in_upper_case_and_percent_encoded() {
        let upper = QUEUE.to_ascii_uppercase();
        let encoded = QUEUE.replace('e', "%65");
        for spelling in [upper, encoded] {
            assert_eq!(
                on_account("GET", &format!("/queues/{spelling}")),
                Ok(AccountRoute::Queue {
                    queue: id(QUEUE),
                    to: QueueRoute::Get
                })
            );
        }
        assert_eq!(
            Id::from([0xab; 16]).as_str(),
            "abababababababababababababababab"
        );
    }

    #[test]
    fn the_messages_are_a_plane_of_their_own() {
        let plane = |method: &str, below: &str| {
            route(
                method,
                &format!("/client/v4/accounts/{ACCOUNT}/queues/{QUEUE}{below}"),
            )
            .expect("a route")
            .plane()
        };
        assert_eq!(plane("POST", "/messages/pull"), Plane::Messages);
        assert_eq!(plane("GET", "/metrics"), Plane::Control);
    }
}
