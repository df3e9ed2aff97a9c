//! The forms in which a message's content is stored. A message is stored as it is served, so a
//! pull puts stored bytes together and encodes nothing.
//!
//! The content of both Cloudflare forms is a fragment of a JSON object:
//! `"body":"…","metadata":{"CF-Content-Type":"json","CF-sourceMessageSource":"api"}`, which ends
//! with the closing brace of `metadata`.

/// Sent over Cloudflare's API; a body of content type json is base64, as Cloudflare documents it.
pub const CLOUDFLARE: u8 = 0;
/// Sent over Cloudflare's API; a body of content type json is its JSON text.
pub const CLOUDFLARE_PLAIN_JSON: u8 = 1;
/// An event, sent over the CloudEvents face: the JSON object that it is served as there, its member
/// `data` or `data_base64` the last one. Over Cloudflare's API, data that is JSON is base64.
pub const CLOUDEVENT: u8 = 2;
/// The same; over Cloudflare's API, data that is JSON is its JSON text.
pub const CLOUDEVENT_PLAIN_JSON: u8 = 3;

/// How a deployment serves bodies of content type json. Cloudflare's documentation says base64;
/// plain text has been seen in the field too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JsonBodies {
    #[default]
    Base64,
    PlainText,
}

impl JsonBodies {
    /// The form of messages that are sent over Cloudflare's API now.
    pub fn form(self) -> u8 {
        match self {
            JsonBodies::Base64 => CLOUDFLARE,
            JsonBodies::PlainText => CLOUDFLARE_PLAIN_JSON,
        }
    }
    /// The form of events that are sent now.
    pub fn event_form(self) -> u8 {
        match self {
            JsonBodies::Base64 => CLOUDEVENT,
            JsonBodies::PlainText => CLOUDEVENT_PLAIN_JSON,
        }
    }
}
