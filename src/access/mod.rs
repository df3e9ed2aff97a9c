//! Who may do what: API tokens here, the CloudEvents face's tokens in [`jwt`].
//!
//! A deployment holds its tokens in the secret `API_TOKENS`, as hashes only:
//! ```json
//! [{"name": "orders", "sha256": "<64 hexadecimal digits>", "account": "*",
//!   "queues": ["orders-*"], "permissions": ["queues:read", "queues:write"]}]
//! ```
//! `account` is an account's id or `*` for all; `queues` are names in which `*` stands for anything.
//! What one secret can't hold goes on in `API_TOKENS_2`, `API_TOKENS_3` and so on.
//! Pure Rust: what a secret says and what headers bring are arguments. Nothing here knows HTTP, and
//! a refusal says nothing about what exists.

pub mod attempts;

pub mod jwt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};
use thiserror::Error;

/// Tokens a deployment may have: all of them are compared on every request. pullq's own.
pub const MAX_TOKENS: usize = 1_000;

/// Rights to queues, named as Cloudflare names its permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permissions {
    /// `queues:read`
    pub read: bool,
    /// `queues:write`
    pub write: bool,
}

const READ: &str = "queues:read";
const WRITE: &str = "queues:write";

impl Permissions {
    pub const NONE: Permissions = Permissions::new(false, false);
    pub const READ: Permissions = Permissions::new(true, false);
    pub const WRITE: Permissions = Permissions::new(false, true);
    pub const BOTH: Permissions = Permissions::new(true, true);

    const fn new(read: bool, write: bool) -> Permissions {
        Permissions { read, write }
    }

    /// The rights as a token in the secret names them.
    pub fn names(self) -> Vec<&'static str> {
        let rights = [(self.read, READ), (self.write, WRITE)];
        let held = rights.into_iter().filter(|(held, _)| *held);
        held.map(|(_, name)| name).collect()
    }

    /// Whether these rights are enough where `need` is needed.
    pub fn cover(self, need: Permissions) -> bool {
        (self.read || !need.read) && (self.write || !need.write)
    }
}

/// Why nobody gets in, or this one doesn't.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AccessError {
    #[error("No API token is configured, so nobody gets in. Set the secret API_TOKENS to a JSON list of tokens: [{{\"name\": \"…\", \"sha256\": \"<SHA-256 of the token, in hexadecimal>\", \"account\": \"*\", \"queues\": [\"*\"], \"permissions\": [\"queues:read\", \"queues:write\"]}}].")]
    NotConfigured,
    #[error("The secret API_TOKENS can't be used, so nobody gets in: {0}.")]
    Unreadable(String),
    #[error("Authentication error: send an API token in the header \"Authorization: Bearer <token>\", or in X-Auth-Key together with X-Auth-Email.")]
    Missing,
    #[error("Authentication error: this API token is not known here.")]
    Wrong,
    #[error("Unauthorized: this API token does not allow this.")]
    Insufficient,
    /// See [`attempts`].
    #[error("Authentication error: too many wrong API tokens came from this address, so for {retry_after_s} seconds more none is looked at.")]
    TooManyWrong { retry_after_s: u32 },
}

/// What a request's headers bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Credentials<'a> {
    /// The token of `Authorization: Bearer <token>`.
    pub bearer: Option<&'a str>,
    /// `X-Auth-Email`. Cloudflare's older form of credentials: it must be there, and says nothing
    /// here.
    pub email: Option<&'a str>,
    /// `X-Auth-Key`: the token.
    pub key: Option<&'a str>,
}

impl<'a> Credentials<'a> {
    /// Takes the values of the headers `Authorization`, `X-Auth-Email` and `X-Auth-Key`.
    pub fn from_headers(
        authorization: Option<&'a str>,
        email: Option<&'a str>,
        key: Option<&'a str>,
    ) -> Credentials<'a> {
        let bearer = authorization.and_then(|value| {
            let (scheme, token) = value.trim().split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        Credentials { bearer, email, key }
    }

    /// The token, in whichever form it came; the bearer's first.
    pub fn token(self) -> Option<&'a str> {
        let by_key = self
            .key
            .filter(|_| self.email.is_some_and(|email| !email.is_empty()));
        self.bearer.or(by_key).filter(|token| !token.is_empty())
    }
}

/// The tokens of a deployment; at least one.
#[derive(Clone)]
pub struct Tokens {
    tokens: Vec<Token>,
}

#[derive(Clone)]
struct Token {
    sha256: [u8; 32],
    grant: Grant,
}

/// What a token allows, told to whoever carries the request out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The token's name, for logs.
    pub token_name: String,
    /// The one account it is good for, in lower case; `None` for all.
    pub account: Option<String>,
    pub permissions: Permissions,
    pub queues: QueueNames,
}

/// The queues that a token is good for, by their names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct QueueNames(Vec<String>);

impl QueueNames {
    /// Every queue, whatever its name.
    pub fn every() -> QueueNames {
        QueueNames(vec!["*".into()])
    }

    /// Whether the queue called `name` is one of them.
    pub fn allow(&self, name: &str) -> bool {
        self.0.iter().any(|pattern| matches(pattern, name))
    }

    /// Whether every queue is. For other tokens a queue that isn't there is to be answered like one
    /// that is not theirs.
    pub fn allow_all(&self) -> bool {
        self.0.iter().any(|pattern| pattern == "*")
    }
}

impl Grant {
    fn allows_account(&self, account: &str) -> bool {
        self.account
            .as_deref()
            .is_none_or(|own| own.eq_ignore_ascii_case(account))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenText {
    name: String,
    sha256: String,
    account: String,
    queues: Vec<String>,
    permissions: Vec<String>,
}

impl Tokens {
    /// Reads the secret. Nothing is assumed: a token that doesn't say what it is good for makes the
    /// whole secret unreadable, and then nobody gets in.
    pub fn parse(secret: Option<&str>) -> Result<Tokens, AccessError> {
        Tokens::parse_all(secret.as_slice())
    }

    /// Reads the secrets `API_TOKENS`, `API_TOKENS_2` and so on as one list: a Worker's secret holds
    /// 5 KB at most (Cloudflare's limits).
    pub fn parse_all(secrets: &[impl AsRef<str>]) -> Result<Tokens, AccessError> {
        let mut texts: Vec<TokenText> = Vec::new();
        for (index, secret) in secrets.iter().map(AsRef::as_ref).enumerate() {
            if secret.trim().is_empty() {
                continue;
            }
            let list: Vec<TokenText> = serde_json::from_str(secret).map_err(|error| {
                // The error's own text may repeat what the secret says.
                let (line, column) = (error.line(), error.column());
                let part = match index {
                    0 => String::new(),
                    index => format!(" of API_TOKENS_{}", index + 1),
                };
                AccessError::Unreadable(format!(
                    "it is not a JSON list of tokens with exactly name, sha256, account, queues and permissions (line {line}, column {column}{part})"
                ))
            })?;
            texts.extend(list);
        }
        if texts.is_empty() {
            return Err(AccessError::NotConfigured);
        }
        if texts.len() > MAX_TOKENS {
            return Err(AccessError::Unreadable(format!(
                "it has more than {MAX_TOKENS} tokens"
            )));
        }
        let mut tokens: Vec<Token> = Vec::with_capacity(texts.len());
        for (index, text) in texts.into_iter().enumerate() {
            let token = token(text).and_then(|token| {
                match tokens.iter().any(|other| other.sha256 == token.sha256) {
                    true => Err("sha256 is that of an earlier token"),
                    false => Ok(token),
                }
            });
            let number = index + 1;
            tokens.push(
                token
                    .map_err(|why| AccessError::Unreadable(format!("in token {number}, {why}")))?,
            );
        }
        Ok(Tokens { tokens })
    }

    /// What the presented token allows, when it is known, good for `account` and for what is needed.
    /// Without an account only the token itself is looked at.
    ///
    /// Takes the same time whichever token it is, and whether it is one.
    pub fn authorize(
        &self,
        credentials: Credentials,
        account: Option<&str>,
        need: Permissions,
    ) -> Result<Grant, AccessError> {
        let presented = credentials.token().ok_or(AccessError::Missing)?;
        let hash = Sha256::digest(presented.as_bytes());
        let mut known = None;
        for token in &self.tokens {
            let same: Choice = token.sha256.as_slice().ct_eq(hash.as_slice());
            if bool::from(same) {
                known = Some(&token.grant);
            }
        }
        let grant = known.ok_or(AccessError::Wrong)?;
        if !account.is_none_or(|account| grant.allows_account(account)) {
            return Err(AccessError::Insufficient);
        }
        if !grant.permissions.cover(need) {
            return Err(AccessError::Insufficient);
        }
        Ok(grant.clone())
    }
}

fn token(text: TokenText) -> Result<Token, &'static str> {
    if text.name.is_empty() {
        return Err("name is empty");
    }
    let account = match text.account.as_str() {
        "*" => None,
        id if id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            Some(id.to_ascii_lowercase())
        }
        _ => return Err("account is neither \"*\" nor 32 hexadecimal digits"),
    };
    let mut permissions = Permissions::NONE;
    for name in &text.permissions {
        match name.as_str() {
            READ => permissions.read = true,
            WRITE => permissions.write = true,
            _ => return Err("permissions has something other than queues:read and queues:write"),
        }
    }
    Ok(Token {
        sha256: sha256(&text.sha256).ok_or("sha256 is not 64 hexadecimal digits")?,
        grant: Grant {
            token_name: text.name,
            account,
            permissions,
            queues: QueueNames(text.queues),
        },
    })
}

fn sha256(text: &str) -> Option<[u8; 32]> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|digit| {
            digit
                .to_digit(16)
                .and_then(|digit| u8::try_from(digit).ok())
        })
        .collect();
    let (pairs, rest) = digits.as_deref()?.as_chunks::<2>();
    let bytes: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
    bytes.try_into().ok().filter(|_| rest.is_empty())
}

/// Whether `name` fits `pattern`, in which `*` stands for any number of any characters.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut name) = name.strip_prefix(start) else {
        return false;
    };
    let mut parts = rest.split('*');
    let end = parts.next_back().unwrap_or("");
    for part in parts {
        match name.split_once(part) {
            Some((_, after)) => name = after,
            None => return false,
        }
    }
    name.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SHA-256 of "secret-a" and "secret-b", as sha256sum prints them.
    const HASH_A: &str = "8766b9cb08e6040b704f1e3ee1e186efccf2635b1d2634d6525333007e6aeae1";
    const HASH_B: &str = "ff492ef788c89b555e6f738b33d2422f57dbb6656af2402155672c5f123a90af";
    const ACCOUNT: &str = "023e105f4ecef8ad9ca31a8372d0c353";
    const OTHER: &str = "699d98642c564d2e855e9661899b7252";

    fn tokens() -> Tokens {
        let secret = format!(
            r#"[{{"name":"a","sha256":"{HASH_A}","account":"*","queues":["*"],"permissions":["queues:read","queues:write"]}},
                {{"name":"b","sha256":"{HASH_B}","account":"{ACCOUNT}","queues":["orders-*","mail"],"permissions":["queues:read"]}}]"#
        );
        Tokens::parse(Some(&secret)).unwrap_or_else(|error| panic!("{error}"))
    }

    fn bearer(token: &str) -> Credentials<'_> {
        Credentials {
            bearer: Some(token),
            ..Credentials::default()
        }
    }

    #[test]
    fn a_known_token_gets_what_it_is_good_for() {
        use AccessError::{Insufficient, Missing, Wrong};
        let (none, read, write, both) = (
            Permissions::NONE,
            Permissions::READ,
            Permissions::WRITE,
            Permissions::BOTH,
        );
        let cases = [
            (bearer("secret-a"), Some(ACCOUNT), both, Ok("a")),
            (bearer("secret-a"), Some(OTHER), write, Ok("a")),
            (bearer("secret-b"), Some(ACCOUNT), read, Ok("b")),
            (
                bearer("secret-b"),
                Some(&ACCOUNT.to_ascii_uppercase()),
                read,
                Ok("b"),
            ),
            (bearer("secret-b"), None, none, Ok("b")),
            (bearer("secret-b"), Some(ACCOUNT), both, Err(Insufficient)),
            (bearer("secret-b"), Some(ACCOUNT), write, Err(Insufficient)),
            (bearer("secret-b"), Some(OTHER), read, Err(Insufficient)),
            (bearer("secret-c"), Some(ACCOUNT), read, Err(Wrong)),
            (bearer(HASH_A), Some(ACCOUNT), read, Err(Wrong)),
            (bearer(""), Some(ACCOUNT), read, Err(Missing)),
            (Credentials::default(), Some(ACCOUNT), read, Err(Missing)),
        ];
        for (credentials, account, need, expected) in cases {
            let grant = tokens().authorize(credentials, account, need);
            let name = grant.map(|grant| grant.token_name);
            assert_eq!(
                name,
                expected.map(String::from),
                "{credentials:?} {account:?} {need:?}"
            );
        }
    }

    #[test]
    fn both_forms_of_credentials_are_read() {
        let cases = [
            (Some("Bearer secret-a"), None, None, Some("secret-a")),
            (Some("bearer  secret-a "), None, None, Some("secret-a")),
            (Some("Basic c2VjcmV0"), None, None, None),
            (Some("secret-a"), None, None, None),
            (
                None,
                Some("me@example.com"),
                Some("secret-a"),
                Some("secret-a"),
            ),
            (None, None, Some("secret-a"), None),
            (None, Some(""), Some("secret-a"), None),
            (
                Some("Bearer secret-b"),
                Some("me@example.com"),
                Some("secret-a"),
                Some("secret-b"),
            ),
        ];
        for (authorization, email, key, expected) in cases {
            let credentials = Credentials::from_headers(authorization, email, key);
            assert_eq!(
                credentials.token(),
                expected,
                "{authorization:?} {email:?} {key:?}"
            );
        }
    }

    #[test]
    fn without_readable_tokens_nobody_gets_in() {
        let one = format!(
            r#"{{"name":"a","sha256":"{HASH_A}","account":"*","queues":["*"],"permissions":[]}}"#
        );
        let token = |(from, to): (&str, &str)| format!("[{}]", one.replace(from, to));
        let unreadable = |why: &str| AccessError::Unreadable(why.into());
        let shape = |line, column| {
            unreadable(&format!(
                "it is not a JSON list of tokens with exactly name, sha256, account, queues and permissions (line {line}, column {column})"
            ))
        };
        let twice = format!("[{one},{one}]");
        let cases = [
            (None, AccessError::NotConfigured),
            (Some(String::new()), AccessError::NotConfigured),
            (Some(" ".into()), AccessError::NotConfigured),
            (Some("[]".into()), AccessError::NotConfigured),
            (Some("secret-a".into()), shape(1, 1)),
            (Some(r#"[{"name":"a"}]"#.into()), shape(1, 13)),
            (
                Some(token(("\"*\",", "\"*\",\"secret\":1,"))),
                shape(1, 111),
            ),
            (
                Some(token(("\"name\":\"a\"", "\"name\":\"\""))),
                unreadable("in token 1, name is empty"),
            ),
            (
                Some(token((HASH_A, "abc"))),
                unreadable("in token 1, sha256 is not 64 hexadecimal digits"),
            ),
            (
                Some(token((HASH_A, &"é".repeat(32)))),
                unreadable("in token 1, sha256 is not 64 hexadecimal digits"),
            ),
            (
                Some(token((":\"*\"", ":\"mine\""))),
                unreadable("in token 1, account is neither \"*\" nor 32 hexadecimal digits"),
            ),
            (
                Some(token(("permissions\":[", "permissions\":[\"admin\""))),
                unreadable(
                    "in token 1, permissions has something other than queues:read and queues:write",
                ),
            ),
            (
                Some(twice),
                unreadable("in token 2, sha256 is that of an earlier token"),
            ),
        ];
        for (secret, expected) in cases {
            let refusal = Tokens::parse(secret.as_deref()).map(|_| ());
            assert_eq!(refusal, Err(expected), "{secret:?}");
        }
    }

    #[test]
    fn what_one_secret_can_not_hold_goes_on_in_others() {
        let list = |name: &str, hash: &str| {
            format!(
                r#"[{{"name":"{name}","sha256":"{hash}","account":"*","queues":["*"],"permissions":[]}}]"#
            )
        };
        let tokens = Tokens::parse_all(&[list("a", HASH_A), String::new(), list("b", HASH_B)])
            .unwrap_or_else(|error| panic!("{error}"));
        for (token, name) in [("secret-a", "a"), ("secret-b", "b")] {
            let grant = tokens.authorize(bearer(token), None, Permissions::NONE);
            assert_eq!(grant.map(|grant| grant.token_name), Ok(name.into()));
        }
        let refusal = |parts: &[String]| Tokens::parse_all(parts).map(|_| ());
        assert_eq!(
            refusal(&[list("a", HASH_A), "x".into()]),
            Err(AccessError::Unreadable("it is not a JSON list of tokens with exactly name, sha256, account, queues and permissions (line 1, column 1 of API_TOKENS_2)".into()))
        );
        assert_eq!(
            refusal(&[list("a", HASH_A), list("b", HASH_A)]),
            Err(AccessError::Unreadable(
                "in token 2, sha256 is that of an earlier token".into()
            ))
        );
        assert_eq!(refusal(&[]), Err(AccessError::NotConfigured));
    }

    #[test]
    fn a_grant_says_which_queues_by_name() {
        let grant = |token| {
            tokens()
                .authorize(bearer(token), None, Permissions::NONE)
                .expect("known")
        };
        assert!(grant("secret-a").queues.allow_all());
        assert!(!grant("secret-b").queues.allow_all());
        for (name, expected) in [
            ("orders-1", true),
            ("mail", true),
            ("mail-2", false),
            ("orders", false),
        ] {
            assert_eq!(grant("secret-b").queues.allow(name), expected, "{name}");
        }
    }

    #[test]
    fn a_star_stands_for_anything() {
        let cases = [
            ("*", "", true),
            ("*", "a.b", true),
            ("a*", "a", true),
            ("a*", "b", false),
            ("*-eu", "orders-eu", true),
            ("*-eu", "orders-us", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("a*a", "a", false),
            ("a**b", "ab", true),
            ("", "", true),
            ("", "a", false),
            ("A*", "a", false),
            ("a.c", "abc", false),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn rights_cover_what_they_contain() {
        assert!(Permissions::BOTH.cover(Permissions::READ));
        assert!(Permissions::NONE.cover(Permissions::NONE));
        assert!(!Permissions::READ.cover(Permissions::BOTH));
        assert!(!Permissions::READ.cover(Permissions::WRITE));
    }
}
