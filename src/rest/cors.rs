//! Cross-origin requests (the Fetch standard's CORS protocol). Off unless a deployment says whose
//! pages may ask: a token in a page is a token its visitors can read.

use super::envelope::Answer;

/// The methods of the API, which a preflight is told whole.
const METHODS: &str = "GET, POST, PUT, PATCH, DELETE";
/// The headers of answers that pages may read besides those they always may.
const EXPOSED: &str = "retry-after, x-should-retry, allow";
/// For how long a browser may remember a preflight, in seconds. Chromium caps it at this.
const MAX_AGE_S: &str = "7200";

/// Whose pages may ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origins {
    Nobody,
    Anybody,
    These(Vec<String>),
}

impl Origins {
    /// Reads the setting: origins with commas between them, such as `https://console.example.com`,
    /// or `*`; unset or empty is nobody.
    pub fn parse(setting: Option<&str>) -> Origins {
        let origins: Vec<String> = setting
            .unwrap_or_default()
            .split(',')
            .map(|origin| origin.trim().trim_end_matches('/').to_owned())
            .filter(|origin| !origin.is_empty())
            .collect();
        match origins.iter().any(|origin| origin == "*") {
            true => Origins::Anybody,
            false if origins.is_empty() => Origins::Nobody,
            false => Origins::These(origins),
        }
    }

    /// What every answer to a page of `origin` carries; nothing when it may not ask. Credentials are
    /// never allowed: a token comes in a header, and cookies mean nothing here.
    pub fn headers(&self, origin: Option<&str>) -> Vec<(&'static str, String)> {
        let mut headers = Vec::new();
        let allowed = match self {
            Origins::Nobody => return headers,
            Origins::Anybody => Some("*"),
            Origins::These(_) => {
                // The answer differs by origin, also for those who may not ask.
                headers.push(("vary", "origin".into()));
                origin.filter(|origin| self.allow(origin))
            }
        };
        if let Some(allowed) = allowed {
            headers.push(("access-control-allow-origin", allowed.into()));
            headers.push(("access-control-expose-headers", EXPOSED.into()));
        }
        headers
    }

    /// The answer to a preflight: `OPTIONS` from a page that says which method and headers
    /// (`Access-Control-Request-Method`, `-Headers`) it is going to use. `None` when it is none, or
    /// the page may not ask; it is then a request like any other.
    pub fn preflight(
        &self,
        method: &str,
        origin: Option<&str>,
        requested_method: Option<&str>,
        requested_headers: Option<&str>,
    ) -> Option<Answer> {
        let is_preflight = method == "OPTIONS" && requested_method.is_some();
        if !is_preflight || !origin.is_some_and(|origin| self.allow(origin)) {
            return None;
        }
        let mut headers = vec![
            ("access-control-allow-methods", METHODS.into()),
            ("access-control-max-age", MAX_AGE_S.into()),
        ];
        // `*` would leave out Authorization; and the SDKs send headers of their own.
        if let Some(requested) = requested_headers.filter(|names| are_header_names(names)) {
            headers.push(("access-control-allow-headers", requested.into()));
        }
        Some(Answer {
            status: 204,
            headers,
            body: Vec::new(),
        })
    }

    fn allow(&self, origin: &str) -> bool {
        match self {
            Origins::Nobody => false,
            Origins::Anybody => true,
            Origins::These(origins) => origins.iter().any(|allowed| allowed == origin),
        }
    }
}

/// Whether a value that an answer is going to repeat is a list of header names and nothing else.
fn are_header_names(value: &str) -> bool {
    let is_allowed =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b',' | b' ');
    !value.is_empty() && value.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "https://console.example.com";

    fn shown(headers: &[(&'static str, String)]) -> Vec<String> {
        headers
            .iter()
            .map(|(name, value)| format!("{name}: {value}"))
            .collect()
    }

    #[test]
    fn only_pages_that_the_setting_names_may_read_answers() {
        let expose = "access-control-expose-headers: retry-after, x-should-retry, allow";
        let anybody = vec!["access-control-allow-origin: *", expose];
        let this = vec![
            "vary: origin",
            "access-control-allow-origin: https://console.example.com",
            expose,
        ];
        let cases = [
            (None, Some(PAGE), vec![]),
            (Some(""), Some(PAGE), vec![]),
            (Some(" , "), Some(PAGE), vec![]),
            (Some("*"), Some(PAGE), anybody.clone()),
            (Some("*"), None, anybody),
            (
                Some("https://console.example.com"),
                Some(PAGE),
                this.clone(),
            ),
            (
                Some("https://a.example, https://console.example.com/"),
                Some(PAGE),
                this,
            ),
            (Some("https://a.example"), Some(PAGE), vec!["vary: origin"]),
            (
                Some("https://console.example.com.evil.example"),
                Some(PAGE),
                vec!["vary: origin"],
            ),
            (Some("https://a.example"), None, vec!["vary: origin"]),
            (
                Some("https://a.example"),
                Some("null"),
                vec!["vary: origin"],
            ),
        ];
        for (setting, origin, expected) in cases {
            let headers = Origins::parse(setting).headers(origin);
            assert_eq!(shown(&headers), expected, "{setting:?} {origin:?}");
        }
    }

    #[test]
    fn a_preflight_of_a_page_that_may_ask_is_told_what_it_may_send() {
        let origins = Origins::parse(Some(PAGE));
        let preflight = |method, origin, requested_method, requested_headers| {
            origins
                .preflight(method, origin, requested_method, requested_headers)
                .map(|answer| (answer.status, shown(&answer.headers), answer.body.len()))
        };
        let methods = "access-control-allow-methods: GET, POST, PUT, PATCH, DELETE".to_string();
        let age = "access-control-max-age: 7200".to_string();
        let names = "authorization,content-type,x-stainless-os";
        let allowed = format!("access-control-allow-headers: {names}");
        assert_eq!(
            preflight("OPTIONS", Some(PAGE), Some("POST"), Some(names)),
            Some((204, vec![methods.clone(), age.clone(), allowed], 0))
        );
        assert_eq!(
            preflight("OPTIONS", Some(PAGE), Some("POST"), Some("a\r\nb: c")),
            Some((204, vec![methods, age], 0))
        );
        for (method, origin, requested_method) in [
            ("OPTIONS", Some("https://a.example"), Some("POST")),
            ("OPTIONS", None, Some("POST")),
            ("OPTIONS", Some(PAGE), None),
            ("POST", Some(PAGE), Some("POST")),
        ] {
            assert_eq!(preflight(method, origin, requested_method, None), None);
        }
        assert_eq!(
            Origins::Nobody.preflight("OPTIONS", Some(PAGE), Some("POST"), None),
            None
        );
    }
}
