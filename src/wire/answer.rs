//! An answer in final form.

/// What a client is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    /// JSON text in UTF-8. Bytes, because an answer may be put together from stored bytes.
    pub body: Vec<u8>,
}

/// The header that says that a body is JSON.
pub fn json_content_type() -> (&'static str, String) {
    ("content-type", "application/json".into())
}
