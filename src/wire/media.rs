//! Media types (RFC 2046), as far as they say how data is represented.

/// What a media type says of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Media {
    /// `json` or `+json` (CloudEvents 1.0.2, JSON format, section 3.1).
    Json,
    /// Text or XML, in UTF-8 as far as it says.
    Text,
    Other,
}

impl Media {
    /// `None` when `text` is no media type.
    pub fn parse(text: &str) -> Option<Media> {
        let (essence, parameters) = text.split_once(';').unwrap_or((text, ""));
        let essence = essence.trim().to_ascii_lowercase();
        let (kind, subtype) = essence.split_once('/')?;
        if !is_token(kind) || !is_token(subtype) {
            return None;
        }
        let is_or_ends = |name: &str| {
            subtype == name
                || subtype
                    .strip_suffix(name)
                    .is_some_and(|rest| rest.ends_with('+'))
        };
        Some(if is_or_ends("json") {
            Media::Json
        } else if (kind == "text" || is_or_ends("xml")) && is_utf8(parameters) {
            Media::Text
        } else {
            Media::Other
        })
    }

    /// What data without a media type is: JSON (CloudEvents 1.0.2, JSON format, section 3.1).
    pub fn of(datacontenttype: Option<&str>) -> Option<Media> {
        match datacontenttype {
            None => Some(Media::Json),
            Some(text) => Media::parse(text),
        }
    }
}

/// A media type without its parameters, in lower case.
pub fn essence(content_type: &str) -> String {
    let essence = content_type.split(';').next().unwrap_or_default();
    essence.trim().to_ascii_lowercase()
}

fn is_utf8(parameters: &str) -> bool {
    parameters
        .split(';')
        .filter_map(|parameter| parameter.split_once('='))
        .filter(|(name, _)| name.trim().eq_ignore_ascii_case("charset"))
        .all(|(_, value)| {
            let value = value.trim().trim_matches('"').to_ascii_lowercase();
            matches!(value.as_str(), "utf-8" | "utf8" | "us-ascii" | "ascii")
        })
}

/// RFC 9110, section 5.6.2.
fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_media_type_says_how_data_is_represented() {
        let cases = [
            ("application/json", Some(Media::Json)),
            ("Application/JSON; charset=utf-8", Some(Media::Json)),
            ("application/vnd.api+json", Some(Media::Json)),
            ("text/json", Some(Media::Json)),
            ("text/plain", Some(Media::Text)),
            ("text/plain; charset=us-ascii", Some(Media::Text)),
            (
                "text/plain;format=flowed;Charset=\"UTF-8\"",
                Some(Media::Text),
            ),
            ("text/plain; charset=iso-8859-1", Some(Media::Other)),
            ("application/xml", Some(Media::Text)),
            ("image/svg+xml", Some(Media::Text)),
            ("application/octet-stream", Some(Media::Other)),
            ("application/notjson", Some(Media::Other)),
            ("application/jsonx", Some(Media::Other)),
            ("json", None),
            ("", None),
            ("a/", None),
            ("a b/c", None),
            ("a/b/c", None),
        ];
        for (text, expected) in cases {
            assert_eq!(Media::parse(text), expected, "{text}");
        }
        assert_eq!(Media::of(None), Some(Media::Json));
    }
}
