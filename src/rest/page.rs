//! Lists: which page is asked for, and what an answer says about it.

use super::error::ApiError;
use serde::Serialize;
use std::borrow::Cow;

/// Items of a page when the request doesn't say. Cloudflare: 20.
pub const DEFAULT_PER_PAGE: u32 = 20;
/// Items a page may have. pullq's own.
pub const MAX_PER_PAGE: u32 = 100;
/// Names that a list may be asked for at once. pullq's own.
pub const MAX_NAMES: usize = 100;

/// A page of a list. Invariant: both are at least 1, `per_page` at most [`MAX_PER_PAGE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    pub page: u32,
    pub per_page: u32,
}

impl Default for Page {
    fn default() -> Self {
        Page {
            page: 1,
            per_page: DEFAULT_PER_PAGE,
        }
    }
}

impl Page {
    /// How many items lie before the page.
    pub fn offset(self) -> u64 {
        u64::from(self.page.saturating_sub(1)) * u64::from(self.per_page)
    }
}

/// What a list of queues is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListQuery {
    pub page: Page,
    /// Only queues that bear one of these names exactly; all when empty. wrangler looks a queue up
    /// this way and takes the first result.
    pub names: Vec<String>,
}

/// Reads a query (what follows `?`): `page`, `per_page` and any number of `name`. Other parameters
/// are passed over.
pub fn parse_list(query: &str) -> Result<ListQuery, ApiError> {
    let mut list = ListQuery::default();
    for pair in query.split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = || decode(value);
        match decode(key).as_ref() {
            "page" => {
                list.page.page = number(&value(), u32::MAX).ok_or(ApiError::InvalidQuery {
                    name: "page",
                    expected: "a whole number from 1",
                })?;
            }
            "per_page" => {
                let per_page = number(&value(), MAX_PER_PAGE).ok_or(ApiError::InvalidQuery {
                    name: "per_page",
                    expected: "a whole number from 1 to 100",
                })?;
                list.page.per_page = per_page;
            }
            "name" if list.names.len() == MAX_NAMES => {
                return Err(ApiError::InvalidQuery {
                    name: "name",
                    expected: "given at most 100 times",
                });
            }
            "name" => list.names.push(value().into_owned()),
            _ => {}
        }
    }
    Ok(list)
}

/// What an answer says about its page.
#[derive(Debug, Serialize)]
pub struct PageInfo {
    page: u32,
    per_page: u32,
    count: usize,
    total_count: u64,
    total_pages: u64,
}

impl PageInfo {
    /// `page` holds `count` items of `total_count`.
    pub fn of(page: Page, count: usize, total_count: u64) -> PageInfo {
        PageInfo {
            page: page.page,
            per_page: page.per_page,
            count,
            total_count,
            total_pages: total_count.div_ceil(u64::from(page.per_page.max(1))),
        }
    }
}

fn number(text: &str, max: u32) -> Option<u32> {
    text.parse()
        .ok()
        .filter(|number| (1..=max).contains(number))
}

/// Undoes the encoding of a query's key or value (`application/x-www-form-urlencoded`).
fn decode(text: &str) -> Cow<'_, str> {
    if text.contains('+') {
        Cow::Owned(percent_decode(&text.replace('+', " ")).into_owned())
    } else {
        percent_decode(text)
    }
}

/// Undoes percent-encoding. A `%` that no two hexadecimal digits follow stays as it is, and bytes
/// that are not UTF-8 become U+FFFD, which no name and no id contains.
pub(super) fn percent_decode(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match (byte, after) {
            (b'%', [high, low, after @ ..]) => match (hex_digit(*high), hex_digit(*low)) {
                (Some(high), Some(low)) => {
                    bytes.push(high << 4 | low);
                    rest = after;
                }
                _ => bytes.push(byte),
            },
            _ => bytes.push(byte),
        }
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte)
        .to_digit(16)
        .and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_says_page_and_names() {
        let list = |page, per_page, names: &[&str]| ListQuery {
            page: Page { page, per_page },
            names: names.iter().map(|name| name.to_string()).collect(),
        };
        let cases = [
            ("", list(1, 20, &[])),
            ("page=1", list(1, 20, &[])),
            ("page=3&per_page=100", list(3, 100, &[])),
            ("page=1&name=orders", list(1, 20, &["orders"])),
            (
                "name=a&name=b%2Dc&name=d+e&name=",
                list(1, 20, &["a", "b-c", "d e", ""]),
            ),
            ("direction=asc&order=name&x", list(1, 20, &[])),
            (
                "name=100%&name=%zz&name=%ff",
                list(1, 20, &["100%", "%zz", "\u{fffd}"]),
            ),
        ];
        for (query, expected) in cases {
            assert_eq!(parse_list(query), Ok(expected), "{query}");
        }
    }

    #[test]
    fn pages_out_of_range_are_refused() {
        for query in [
            "page=0",
            "page=-1",
            "page=x",
            "page=",
            "page=1.5",
            "page=99999999999",
        ] {
            let refusal = parse_list(query).expect_err(query);
            assert_eq!(
                refusal.to_string(),
                "The parameter page in the query must be a whole number from 1."
            );
        }
        for query in ["per_page=0", "per_page=101"] {
            let refusal = parse_list(query).expect_err(query);
            assert_eq!(
                refusal.to_string(),
                "The parameter per_page in the query must be a whole number from 1 to 100."
            );
        }
        assert!(parse_list(&"name=a&".repeat(101)).is_err());
    }

    #[test]
    fn pages_begin_where_the_one_before_ended() {
        assert_eq!(
            Page {
                page: 1,
                per_page: 20
            }
            .offset(),
            0
        );
        assert_eq!(
            Page {
                page: 3,
                per_page: 20
            }
            .offset(),
            40
        );
        assert_eq!(
            Page {
                page: u32::MAX,
                per_page: 100
            }
            .offset(),
            429_496_729_400
        );
    }
}
