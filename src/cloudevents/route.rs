//! A method and a path become an [`Endpoint`].

use super::error::EventsError;

/// Where this face's paths begin.
const PREFIX: &str = "/ce";

/// KubeMQ's endpoints for queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// `POST /ce/queue/send`
    Send,
    /// `POST /ce/queue/receive`
    Receive,
    /// `POST /ce/queue/ack_all`
    AckAll,
}

impl Endpoint {
    /// What is asked, for logs.
    pub fn operation(self) -> &'static str {
        match self {
            Endpoint::Send => "sendEvents",
            Endpoint::Receive => "receiveEvents",
            Endpoint::AckAll => "drainChannel",
        }
    }
}

/// Whether a path is this face's.
pub fn is_ours(path: &str) -> bool {
    path.strip_prefix(PREFIX)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The endpoint of a request.
pub fn route(method: &str, path: &str) -> Result<Endpoint, EventsError> {
    let endpoint = match path {
        "/ce/queue/send" => Endpoint::Send,
        "/ce/queue/receive" => Endpoint::Receive,
        "/ce/queue/ack_all" => Endpoint::AckAll,
        _ => return Err(EventsError::UnknownPath),
    };
    match method {
        "POST" => Ok(endpoint),
        _ => Err(EventsError::MethodNotAllowed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_paths_take_post_and_nothing_else() {
        let cases = [
            ("POST", "/ce/queue/send", Ok(Endpoint::Send)),
            ("POST", "/ce/queue/receive", Ok(Endpoint::Receive)),
            ("POST", "/ce/queue/ack_all", Ok(Endpoint::AckAll)),
            (
                "GET",
                "/ce/queue/receive",
                Err(EventsError::MethodNotAllowed),
            ),
            ("PUT", "/ce/queue/send", Err(EventsError::MethodNotAllowed)),
            ("POST", "/ce/queue/send/", Err(EventsError::UnknownPath)),
            ("POST", "/ce/queue/peek", Err(EventsError::UnknownPath)),
            ("GET", "/ce", Err(EventsError::UnknownPath)),
        ];
        for (method, path, expected) in cases {
            assert_eq!(route(method, path), expected, "{method} {path}");
            assert!(is_ours(path), "{path}");
        }
        assert!(!is_ours("/cellar"));
        assert!(!is_ours("/client/v4/accounts"));
    }
}
