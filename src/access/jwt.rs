//! Who may use the CloudEvents face: nobody, everybody, or whoever bears a JSON Web Token
//! (RFC 7519), and which channels a token's client may read or write.
//!
//! Pure Rust, and no cryptography: a signature is verified by the platform, between
//! [`Presented::read`] and [`Presented::accept`]. Settings, headers and the time are arguments.
//!
//! The algorithm is the deployment's, never the token's choice: a token of any other is refused
//! before its signature is looked at.

use super::matches;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use base64::Engine;
use serde::Deserialize;
use serde_json::{Map, Value};
use thiserror::Error;

/// Bytes of a token. pullq's own.
const MAX_TOKEN_BYTES: usize = 16_384;
/// Rules a deployment may have: all of them may be looked at on every request. pullq's own.
const MAX_RULES: usize = 1_000;
/// How far the clock of whoever issues tokens may be ahead of ours, in seconds. pullq's own.
const NOT_BEFORE_LEEWAY_S: f64 = 5.0;

/// Why nobody gets in, or this one doesn't.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EventAccessError {
    #[error("Nobody gets in until the setting CLOUDEVENTS_AUTH says who may: \"jwt\" for whoever bears a token that CLOUDEVENTS_JWT_KEY verifies, \"off\" for everybody.")]
    NotConfigured,
    #[error("Nobody gets in: {0}.")]
    Unusable(String),
    #[error("Send a token in the header \"Authorization: Bearer <token>\".")]
    Missing,
    #[error("The token is refused: {0}.")]
    Token(String),
    /// No rule grants it.
    #[error("No rule lets this client {right} the channel.")]
    Denied {
        /// `read` or `write`.
        right: &'static str,
    },
}

/// The settings as the deployment has them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventAccessSettings {
    /// `CLOUDEVENTS_AUTH`: `off` or `jwt`.
    pub auth: Option<String>,
    /// `CLOUDEVENTS_JWT_ALGORITHM`: `HS256` to `ES512`.
    pub algorithm: Option<String>,
    /// `CLOUDEVENTS_JWT_KEY`: the shared secret, or the public key in PEM.
    pub key: Option<String>,
    /// `CLOUDEVENTS_JWT_AUDIENCE`: must be among a token's `aud`.
    pub audience: Option<String>,
    /// `CLOUDEVENTS_JWT_ISSUER`: must be a token's `iss`.
    pub issuer: Option<String>,
    /// `CLOUDEVENTS_JWT_CLIENT_ID_CLAIM`: the claim that is the client's id.
    pub client_id_claim: Option<String>,
    /// `CLOUDEVENTS_RULES`: which clients may read or write which channels, as a JSON list.
    pub rules: Option<String>,
}

/// Who gets in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventAccess {
    Everybody,
    Bearers(Box<Bearers>),
}

/// Whoever bears a token that keeps to this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bearers {
    pub algorithm: Algorithm,
    /// For `HS…` the secret, for the others the public key (SubjectPublicKeyInfo, DER).
    pub key: Vec<u8>,
    audience: Option<String>,
    issuer: Option<String>,
    client_id_claim: Option<String>,
    /// `None`: every token is good for every channel.
    rules: Option<Vec<Rule>>,
}

/// How a token is signed (RFC 7518, section 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Algorithm {
    pub family: Family,
    /// Bits of the hash: 256, 384 or 512.
    pub bits: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// HMAC with a shared secret.
    Hs,
    /// RSASSA-PKCS1-v1_5.
    Rs,
    /// ECDSA on P-256, P-384 or P-521.
    Es,
}

impl Algorithm {
    fn parse(name: &str) -> Option<Algorithm> {
        let (family, bits) = name.split_at_checked(2)?;
        let family = match family {
            "HS" => Family::Hs,
            "RS" => Family::Rs,
            "ES" => Family::Es,
            _ => return None,
        };
        let bits = match bits {
            "256" => 256,
            "384" => 384,
            "512" => 512,
            _ => return None,
        };
        Some(Algorithm { family, bits })
    }
}

/// What a client wants to do with a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Receive and peek.
    Read,
    /// Send and ack_all.
    Write,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    /// Client ids in which `*` stands for anything.
    clients: Vec<String>,
    /// Channels' names, likewise.
    channels: Vec<String>,
    permissions: Vec<Permission>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Permission {
    Read,
    Write,
}

impl EventAccess {
    /// Reads the settings. Nothing is assumed: what can't be understood lets nobody in.
    pub fn parse(settings: &EventAccessSettings) -> Result<EventAccess, EventAccessError> {
        let rules_are_set = set(&settings.rules).is_some();
        match set(&settings.auth) {
            None => Err(EventAccessError::NotConfigured),
            // Without tokens a client says itself who it is, so rules would keep nobody out.
            Some("off") if rules_are_set => Err(unusable(
                "CLOUDEVENTS_RULES needs CLOUDEVENTS_AUTH to be \"jwt\"",
            )),
            Some("off") => Ok(EventAccess::Everybody),
            Some("jwt") => Ok(EventAccess::Bearers(Box::new(Bearers::parse(settings)?))),
            Some(_) => Err(unusable("CLOUDEVENTS_AUTH is neither \"off\" nor \"jwt\"")),
        }
    }

    /// The client's id where the token says it, which then counts instead of what the request says.
    /// Refuses a client that no rule grants `right` on `channel`.
    pub fn allow(
        &self,
        client: &Client,
        channel: &str,
        right: Right,
    ) -> Result<(), EventAccessError> {
        let EventAccess::Bearers(bearers) = self else {
            return Ok(());
        };
        let Some(rules) = &bearers.rules else {
            return Ok(());
        };
        let client_id = client.id.as_deref().unwrap_or_default();
        match rules
            .iter()
            .any(|rule| rule.grants(client_id, channel, right))
        {
            true => Ok(()),
            false => Err(EventAccessError::Denied {
                right: match right {
                    Right::Read => "read",
                    Right::Write => "write to",
                },
            }),
        }
    }
}

impl Bearers {
    fn parse(settings: &EventAccessSettings) -> Result<Bearers, EventAccessError> {
        let algorithm = set(&settings.algorithm)
            .and_then(Algorithm::parse)
            .ok_or_else(|| {
                unusable("CLOUDEVENTS_JWT_ALGORITHM must be one of HS256, HS384, HS512, RS256, RS384, RS512, ES256, ES384 and ES512")
            })?;
        let key = set(&settings.key)
            .ok_or_else(|| unusable("the secret CLOUDEVENTS_JWT_KEY is not set"))?;
        let key = match algorithm.family {
            Family::Hs => key.as_bytes().to_vec(),
            Family::Rs | Family::Es => public_key(key).ok_or_else(|| {
                unusable(
                    "CLOUDEVENTS_JWT_KEY must be a public key in PEM (-----BEGIN PUBLIC KEY-----)",
                )
            })?,
        };
        let client_id_claim = set(&settings.client_id_claim).map(str::to_owned);
        let rules = set(&settings.rules).map(parse_rules).transpose()?;
        if client_id_claim.is_none() && rules.iter().flatten().any(Rule::tells_clients_apart) {
            return Err(unusable(
                "CLOUDEVENTS_RULES names clients, so CLOUDEVENTS_JWT_CLIENT_ID_CLAIM must say which claim is a client's id",
            ));
        }
        Ok(Bearers {
            algorithm,
            key,
            audience: set(&settings.audience).map(str::to_owned),
            issuer: set(&settings.issuer).map(str::to_owned),
            client_id_claim,
            rules,
        })
    }
}

impl Rule {
    fn grants(&self, client_id: &str, channel: &str, right: Right) -> bool {
        let wanted = match right {
            Right::Read => Permission::Read,
            Right::Write => Permission::Write,
        };
        self.permissions.contains(&wanted)
            && self
                .clients
                .iter()
                .any(|pattern| matches(pattern, client_id))
            && self
                .channels
                .iter()
                .any(|pattern| matches(pattern, channel))
    }

    fn tells_clients_apart(&self) -> bool {
        !self.clients.iter().any(|pattern| pattern == "*")
    }
}

/// Whoever was let in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Client {
    /// The id that the token says, where a claim is set for it.
    pub id: Option<String>,
}

/// A token as it was presented: its form is right, its signature is not verified yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Presented<'a> {
    /// What the signature is over.
    pub signed: &'a str,
    pub signature: Vec<u8>,
    payload: Vec<u8>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    /// Extensions that whoever reads the token must understand (RFC 7515, section 4.1.11): none.
    crit: Option<Value>,
}

impl<'a> Presented<'a> {
    /// Reads the value of the header `Authorization`.
    pub fn read(
        authorization: Option<&'a str>,
        algorithm: Algorithm,
    ) -> Result<Presented<'a>, EventAccessError> {
        let token = authorization
            .and_then(|value| value.trim().split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| token.trim())
            .filter(|token| !token.is_empty())
            .ok_or(EventAccessError::Missing)?;
        if token.len() > MAX_TOKEN_BYTES {
            return Err(refused("it is too long"));
        }
        let parse = || {
            let (signed, signature) = token.rsplit_once('.')?;
            let (header, payload) = signed.split_once('.')?;
            let header: Header = serde_json::from_slice(&decode(header)?).ok()?;
            let presented = Presented {
                signed,
                signature: decode(signature)?,
                payload: decode(payload)?,
            };
            Some((header, presented))
        };
        let (header, presented) = parse().ok_or_else(|| refused("it is not a JSON Web Token"))?;
        if Algorithm::parse(&header.alg) != Some(algorithm) {
            return Err(refused("it is signed with another algorithm"));
        }
        if header.crit.is_some() {
            return Err(refused("it demands an extension that is not known here"));
        }
        Ok(presented)
    }

    /// Checks what the token claims, after its signature was found good or bad. `now_s` is the time
    /// in seconds since the Unix epoch.
    pub fn accept(
        self,
        signature_is_good: bool,
        bearers: &Bearers,
        now_s: u64,
    ) -> Result<Client, EventAccessError> {
        if !signature_is_good {
            return Err(refused("its signature is wrong"));
        }
        let claims: Map<String, Value> = serde_json::from_slice(&self.payload)
            .map_err(|_| refused("its claims are not a JSON object"))?;
        let now_s = now_s as f64;
        let time = |name: &str| match claims.get(name) {
            None => Ok(None),
            Some(value) => match value.as_f64() {
                Some(seconds) => Ok(Some(seconds)),
                None => Err(refused(&format!("its claim {name} is not a number"))),
            },
        };
        match time("exp")? {
            None => return Err(refused("it has no claim exp, so it would never end")),
            Some(end_s) if end_s <= now_s => return Err(refused("it has expired")),
            Some(_) => {}
        }
        match time("nbf")? {
            Some(start_s) if start_s > now_s + NOT_BEFORE_LEEWAY_S => {
                return Err(refused("it is not valid yet"));
            }
            _ => {}
        }
        if let Some(issuer) = &bearers.issuer {
            if claims.get("iss").and_then(Value::as_str) != Some(issuer) {
                return Err(refused("its claim iss names another issuer"));
            }
        }
        if let Some(audience) = &bearers.audience {
            let is_meant = match claims.get("aud") {
                Some(Value::String(one)) => one == audience,
                Some(Value::Array(several)) => {
                    several.iter().any(|one| one.as_str() == Some(audience))
                }
                _ => false,
            };
            if !is_meant {
                return Err(refused("its claim aud names another audience"));
            }
        }
        let id = bearers.client_id_claim.as_ref().map(|name| {
            let id = claims.get(name).and_then(Value::as_str);
            id.filter(|id| !id.is_empty())
                .map(str::to_owned)
                .ok_or_else(|| refused(&format!("it has no claim {name} with the client's id")))
        });
        Ok(Client {
            id: id.transpose()?,
        })
    }
}

fn parse_rules(text: &str) -> Result<Vec<Rule>, EventAccessError> {
    let rules: Vec<Rule> = serde_json::from_str(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        unusable(&format!(
            "CLOUDEVENTS_RULES is not a JSON list of rules with exactly clients, channels and permissions (\"read\", \"write\") (line {line}, column {column})"
        ))
    })?;
    match rules.len() {
        0..=MAX_RULES => Ok(rules),
        _ => Err(unusable(&format!(
            "CLOUDEVENTS_RULES has more than {MAX_RULES} rules"
        ))),
    }
}

/// The bytes of a public key in PEM. Line breaks may be missing or written as `\n`, as they come
/// out of an environment variable.
fn public_key(pem: &str) -> Option<Vec<u8>> {
    let (_, rest) = pem.split_once("-----BEGIN PUBLIC KEY-----")?;
    let (base64, _) = rest.split_once("-----END PUBLIC KEY-----")?;
    let base64: String = base64.replace("\\n", "").split_ascii_whitespace().collect();
    STANDARD.decode(base64).ok().filter(|key| !key.is_empty())
}

fn decode(part: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(part).ok()
}

fn set(setting: &Option<String>) -> Option<&str> {
    setting.as_deref().filter(|text| !text.trim().is_empty())
}

fn unusable(why: &str) -> EventAccessError {
    EventAccessError::Unusable(why.to_owned())
}

fn refused(why: &str) -> EventAccessError {
    EventAccessError::Token(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RS256: Algorithm = Algorithm {
        family: Family::Rs,
        bits: 256,
    };
    const HS512: Algorithm = Algorithm {
        family: Family::Hs,
        bits: 512,
    };

    /// `{"alg":"HS512"}`, `{"exp":100}` and a signature of three zero bytes.
    const TOKEN: &str = "eyJhbGciOiJIUzUxMiJ9.eyJleHAiOjEwMH0.AAAA";

    fn jwt() -> EventAccessSettings {
        EventAccessSettings {
            auth: Some("jwt".into()),
            algorithm: Some("HS512".into()),
            key: Some("secret".into()),
            ..EventAccessSettings::default()
        }
    }

    fn bearers(settings: EventAccessSettings) -> Bearers {
        match EventAccess::parse(&settings) {
            Ok(EventAccess::Bearers(bearers)) => *bearers,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_not_set_up_lets_nobody_in() {
        type Change = fn(&mut EventAccessSettings);
        let with = |change: Change| {
            let mut settings = jwt();
            change(&mut settings);
            EventAccess::parse(&settings).map_err(|error| error.to_string())
        };
        let cases: [(Change, &str); 13] = [
            (|s| s.auth = None, "Nobody gets in until the setting CLOUDEVENTS_AUTH says who may: \"jwt\" for whoever bears a token that CLOUDEVENTS_JWT_KEY verifies, \"off\" for everybody."),
            (|s| s.auth = Some(" ".into()), "Nobody gets in until the setting CLOUDEVENTS_AUTH says who may: \"jwt\" for whoever bears a token that CLOUDEVENTS_JWT_KEY verifies, \"off\" for everybody."),
            (|s| s.auth = Some("JWT".into()), "Nobody gets in: CLOUDEVENTS_AUTH is neither \"off\" nor \"jwt\"."),
            (|s| s.auth = Some("false".into()), "Nobody gets in: CLOUDEVENTS_AUTH is neither \"off\" nor \"jwt\"."),
            (|s| (s.auth, s.rules) = (Some("off".into()), Some("[]".into())), "Nobody gets in: CLOUDEVENTS_RULES needs CLOUDEVENTS_AUTH to be \"jwt\"."),
            (|s| s.key = None, "Nobody gets in: the secret CLOUDEVENTS_JWT_KEY is not set."),
            (|s| s.algorithm = None, "Nobody gets in: CLOUDEVENTS_JWT_ALGORITHM must be one of HS256, HS384, HS512, RS256, RS384, RS512, ES256, ES384 and ES512."),
            (|s| s.algorithm = Some("hs256".into()), "Nobody gets in: CLOUDEVENTS_JWT_ALGORITHM must be one of HS256, HS384, HS512, RS256, RS384, RS512, ES256, ES384 and ES512."),
            (|s| s.algorithm = Some("PS256".into()), "Nobody gets in: CLOUDEVENTS_JWT_ALGORITHM must be one of HS256, HS384, HS512, RS256, RS384, RS512, ES256, ES384 and ES512."),
            (|s| s.algorithm = Some("ES256".into()), "Nobody gets in: CLOUDEVENTS_JWT_KEY must be a public key in PEM (-----BEGIN PUBLIC KEY-----)."),
            (|s| s.rules = Some("{}".into()), "Nobody gets in: CLOUDEVENTS_RULES is not a JSON list of rules with exactly clients, channels and permissions (\"read\", \"write\") (line 1, column 0)."),
            (|s| s.rules = Some(r#"[{"clients":["*"],"channels":["*"],"permissions":["all"]}]"#.into()), "Nobody gets in: CLOUDEVENTS_RULES is not a JSON list of rules with exactly clients, channels and permissions (\"read\", \"write\") (line 1, column 55)."),
            (|s| s.rules = Some(r#"[{"clients":["a"],"channels":["*"],"permissions":[]}]"#.into()), "Nobody gets in: CLOUDEVENTS_RULES names clients, so CLOUDEVENTS_JWT_CLIENT_ID_CLAIM must say which claim is a client's id."),
        ];
        for (change, expected) in cases {
            assert_eq!(with(change), Err(expected.into()));
        }
        assert_eq!(
            with(|s| s.auth = Some("off".into())),
            Ok(EventAccess::Everybody)
        );
        assert!(with(|_| {}).is_ok());
    }

    #[test]
    fn a_public_key_is_read_however_its_lines_are_broken() {
        for pem in [
            "-----BEGIN PUBLIC KEY-----\nAAEC\nAwQF\n-----END PUBLIC KEY-----\n",
            "-----BEGIN PUBLIC KEY-----\\nAAEC\\nAwQF\\n-----END PUBLIC KEY-----\\n",
            "-----BEGIN PUBLIC KEY----- AAEC AwQF -----END PUBLIC KEY-----",
        ] {
            assert_eq!(public_key(pem), Some(vec![0, 1, 2, 3, 4, 5]), "{pem}");
        }
        for pem in [
            "AAEC",
            "-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----",
            "-----BEGIN PRIVATE KEY-----\nAAEC\n-----END PRIVATE KEY-----",
            "-----BEGIN RSA PUBLIC KEY-----\nAAEC\n-----END RSA PUBLIC KEY-----",
        ] {
            assert_eq!(public_key(pem), None, "{pem}");
        }
    }

    #[test]
    fn a_token_is_read_when_it_is_one_of_the_set_algorithm() {
        fn read(authorization: &str, algorithm: Algorithm) -> Result<Presented<'_>, String> {
            Presented::read(Some(authorization), algorithm).map_err(|error| error.to_string())
        }
        let expected = Presented {
            signed: "eyJhbGciOiJIUzUxMiJ9.eyJleHAiOjEwMH0",
            signature: vec![0; 3],
            payload: br#"{"exp":100}"#.to_vec(),
        };
        assert_eq!(
            read(&format!("Bearer {TOKEN}"), HS512),
            Ok(expected.clone())
        );
        assert_eq!(read(&format!("bearer  {TOKEN} "), HS512), Ok(expected));
        let other = "The token is refused: it is signed with another algorithm.";
        assert_eq!(read(&format!("Bearer {TOKEN}"), RS256), Err(other.into()));
        // {"alg":"none"}, {"alg":"HS512","crit":["b64"]}, {}
        let cases = [
            ("eyJhbGciOiJub25lIn0.e30.", other),
            (
                "eyJhbGciOiJIUzUxMiIsImNyaXQiOlsiYjY0Il19.e30.AAAA",
                "The token is refused: it demands an extension that is not known here.",
            ),
            (
                "e30.e30.AAAA",
                "The token is refused: it is not a JSON Web Token.",
            ),
            ("a", "The token is refused: it is not a JSON Web Token."),
            (
                "e30.AAAA",
                "The token is refused: it is not a JSON Web Token.",
            ),
            (
                "eyJhbGciOiJIUzUxMiJ9.e30=.AAAA",
                "The token is refused: it is not a JSON Web Token.",
            ),
            (
                "eyJhbGciOiJIUzUxMiJ9.e30.AA.AA",
                "The token is refused: it is not a JSON Web Token.",
            ),
        ];
        for (token, expected) in cases {
            let authorization = format!("Bearer {token}");
            let refusal = read(&authorization, HS512);
            assert_eq!(refusal, Err(expected.into()), "{token}");
        }
        let missing = "Send a token in the header \"Authorization: Bearer <token>\".";
        for authorization in ["", "Bearer", "Bearer ", TOKEN, "Basic YTpi"] {
            assert_eq!(read(authorization, HS512), Err(missing.into()));
        }
        assert_eq!(Presented::read(None, HS512), Err(EventAccessError::Missing));
        let long = format!("Bearer {}", "a".repeat(MAX_TOKEN_BYTES + 1));
        assert_eq!(
            read(&long, HS512),
            Err("The token is refused: it is too long.".into())
        );
    }

    #[test]
    fn claims_are_checked_against_the_settings_and_the_time() {
        let bearers = bearers(EventAccessSettings {
            audience: Some("queues".into()),
            issuer: Some("me".into()),
            client_id_claim: Some("ClientID".into()),
            ..jwt()
        });
        let accept = |claims: &str, is_good| {
            let presented = Presented {
                signed: "",
                signature: Vec::new(),
                payload: claims.as_bytes().to_vec(),
            };
            presented
                .accept(is_good, &bearers, 1_000)
                .map(|client| client.id.unwrap_or_default())
                .map_err(|error| error.to_string())
        };
        let good = r#"{"exp":1000.5,"nbf":1005,"aud":["x","queues"],"iss":"me","ClientID":"c"}"#;
        assert_eq!(accept(good, true), Ok("c".into()));
        let refused = |why: &str| Err(format!("The token is refused: {why}."));
        assert_eq!(accept(good, false), refused("its signature is wrong"));
        let change = |from: &str, to: &str| accept(&good.replace(from, to), true);
        let cases = [
            ("1000.5", "1000", "it has expired"),
            ("1000.5", "\"1000.5\"", "its claim exp is not a number"),
            (
                "\"exp\"",
                "\"end\"",
                "it has no claim exp, so it would never end",
            ),
            ("1005", "1005.1", "it is not valid yet"),
            ("1005", "null", "its claim nbf is not a number"),
            (
                "\"queues\"",
                "\"Queues\"",
                "its claim aud names another audience",
            ),
            (
                "[\"x\",\"queues\"]",
                "{\"queues\":1}",
                "its claim aud names another audience",
            ),
            ("\"me\"", "[\"me\"]", "its claim iss names another issuer"),
            (
                "\"c\"",
                "\"\"",
                "it has no claim ClientID with the client's id",
            ),
            (
                "\"c\"",
                "5",
                "it has no claim ClientID with the client's id",
            ),
            ("{", "[", "its claims are not a JSON object"),
        ];
        for (from, to, why) in cases {
            assert_eq!(change(from, to), refused(why), "{from} {to}");
        }
        assert_eq!(change("[\"x\",\"queues\"]", "\"queues\""), Ok("c".into()));
    }

    #[test]
    fn one_rule_that_grants_is_enough_and_without_rules_everything_is_granted() {
        let rules = r#"[{"clients":["worker-*","boss"],"channels":["orders.*"],"permissions":["read"]},
            {"clients":["boss"],"channels":["*"],"permissions":["write"]},
            {"clients":["*"],"channels":["public"],"permissions":["read","write"]}]"#;
        let access = EventAccess::parse(&EventAccessSettings {
            client_id_claim: Some("sub".into()),
            rules: Some(rules.into()),
            ..jwt()
        });
        let access = access.unwrap_or_else(|error| panic!("{error}"));
        let cases = [
            ("worker-1", "orders.eu", Right::Read, true),
            ("worker-1", "orders.eu", Right::Write, false),
            ("worker-1", "mail", Right::Read, false),
            ("boss", "orders.eu", Right::Read, true),
            ("boss", "mail", Right::Write, true),
            ("boss", "mail", Right::Read, false),
            ("", "mail", Right::Read, false),
            ("anybody", "public", Right::Write, true),
        ];
        for (id, channel, right, expected) in cases {
            let client = Client {
                id: Some(id.into()),
            };
            let allowed = access.allow(&client, channel, right).is_ok();
            assert_eq!(allowed, expected, "{id} {channel} {right:?}");
        }
        let denied = access.allow(&Client::default(), "mail", Right::Write);
        assert_eq!(
            denied.map_err(|error| error.to_string()),
            Err("No rule lets this client write to the channel.".into())
        );
        let all = EventAccess::parse(&jwt()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(all.allow(&Client::default(), "mail", Right::Write), Ok(()));
    }
}
