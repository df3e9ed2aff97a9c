//! One line of JSON for each request: what was asked, of which queue, how it ended and how long it
//! took. Never a body, a token or a client's own text.

use super::metrics;
use crate::cloudevents;
use crate::rest::{self, AccountRoute, Route};
use serde::Serialize;

/// What a line says. Where a field doesn't apply it is left out.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    operation: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    account: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<String>,
    status: u16,
    /// Until the answer began, in milliseconds.
    duration_ms: u64,
}

impl Line {
    /// The line for a request of `method` to `path`.
    pub fn of(method: &str, path: &str, status: u16, duration_ms: u64) -> Line {
        let mut line = Line {
            operation: "unknown",
            account: None,
            queue: None,
            status,
            duration_ms,
        };
        if super::console::is_ours(path) {
            line.operation = "console";
        } else if path == metrics::PATH {
            line.operation = "metrics";
        } else if cloudevents::route::is_ours(path) {
            if let Ok(endpoint) = cloudevents::route::route(method, path) {
                line.operation = endpoint.operation();
            }
        } else if let Ok(route) = rest::route::route(method, path) {
            line.operation = route.operation();
            if let Route::Account { account, to } = route {
                line.account = Some(account.to_string());
                if let AccountRoute::Queue { queue, .. } = to {
                    line.queue = Some(queue.to_string());
                }
            }
        }
        line
    }

    pub fn write(&self) {
        if let Ok(text) = serde_json::to_string(self) {
            worker::console_log!("{text}");
        }
    }
}
