//! Lists: which page is asked for, and what an answer says about it.

use super::error::ApiError;
use crate::wire::percent;
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

impl Page {
    /// The page's items out of a list that is there whole.
    pub fn of<T>(self, all: &[T]) -> &[T] {
        let start = usize::try_from(self.offset()).unwrap_or(usize::MAX);
        let rest = all.get(start..).unwrap_or_default();
        rest.get(..self.per_page as usize).unwrap_or(rest)
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

/// Reads the query (what follows `?`) of `GET /queues`: `page`, `per_page` and any number of `name`.
/// Other parameters are passed over, here and in other lists.
pub fn parse_list(query: &str) -> Result<ListQuery, ApiError> {
    let mut list = ListQuery::default();
    for (key, value) in parameters(query) {
        match key.as_ref() {
            "name" if list.names.len() == MAX_NAMES => {
                return Err(ApiError::InvalidQuery {
                    name: "name",
                    expected: "given at most 100 times",
                });
            }
            "name" => list.names.push(value.into_owned()),
            _ => list.page.read(&key, &value)?,
        }
    }
    Ok(list)
}

/// Reads the query of a list that knows pages only: `page` and `per_page`.
pub fn parse_page(query: &str) -> Result<Page, ApiError> {
    let mut page = Page::default();
    for (key, value) in parameters(query) {
        page.read(&key, &value)?;
    }
    Ok(page)
}

/// Reads the query of `GET /event_subscriptions/subscriptions`: `page`, `per_page`, `direction` and
/// `order`. The list is empty, whatever its order; wrangler's `queue_id` is passed over.
pub fn parse_subscriptions(query: &str) -> Result<Page, ApiError> {
    let mut page = Page::default();
    for (key, value) in parameters(query) {
        match (key.as_ref(), value.as_ref()) {
            ("direction", "asc" | "desc") => {}
            ("direction", _) => {
                return Err(ApiError::InvalidQuery {
                    name: "direction",
                    expected: "asc or desc",
                });
            }
            ("order", "created_at" | "name" | "enabled" | "source") => {}
            ("order", _) => {
                return Err(ApiError::InvalidQuery {
                    name: "order",
                    expected: "created_at, name, enabled or source",
                });
            }
            _ => page.read(&key, &value)?,
        }
    }
    Ok(page)
}

/// Reads the query of `GET /overview`: `since`, the `version` of the overview before, in
/// milliseconds since the Unix epoch; 0 when it isn't there.
pub fn parse_since(query: &str) -> Result<u64, ApiError> {
    match parameter(query, "since") {
        None => Ok(0),
        Some(since) => since.parse().map_err(|_| ApiError::InvalidQuery {
            name: "since",
            expected: "the version that an earlier overview has",
        }),
    }
}

/// The first parameter of this name in a query.
pub fn parameter<'a>(query: &'a str, name: &str) -> Option<Cow<'a, str>> {
    let mut named = parameters(query).filter(|(key, _)| key == name);
    named.next().map(|(_, value)| value)
}

impl Page {
    /// Takes a parameter of the query when it is `page` or `per_page`.
    fn read(&mut self, key: &str, value: &str) -> Result<(), ApiError> {
        match key {
            "page" => {
                self.page = number(value, u32::MAX).ok_or(ApiError::InvalidQuery {
                    name: "page",
                    expected: "a whole number from 1",
                })?;
            }
            "per_page" => {
                self.per_page = number(value, MAX_PER_PAGE).ok_or(ApiError::InvalidQuery {
                    name: "per_page",
                    expected: "a whole number from 1 to 100",
                })?;
            }
            _ => {}
        }
        Ok(())
    }
}

fn parameters(query: &str) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    query.split('&').map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(key), decode(value))
    })
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

/// Undoes percent-encoding. Bytes that are not UTF-8 become U+FFFD, which no name and no id
/// contains.
pub(super) fn percent_decode(text: &str) -> Cow<'_, str> {
    match percent::decode(text) {
        Cow::Borrowed(_) => Cow::Borrowed(text),
        Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
    }
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
    fn subscriptions_may_be_asked_for_in_every_order() {
        let page = |page, per_page| Ok(Page { page, per_page });
        assert_eq!(parse_subscriptions(""), page(1, 20));
        assert_eq!(
            parse_subscriptions("page=2&per_page=5&direction=desc&order=created_at&queue_id=x"),
            page(2, 5)
        );
        for (query, expected) in [
            (
                "direction=up",
                "The parameter direction in the query must be asc or desc.",
            ),
            (
                "order=",
                "The parameter order in the query must be created_at, name, enabled or source.",
            ),
            (
                "page=0",
                "The parameter page in the query must be a whole number from 1.",
            ),
        ] {
            let refusal = parse_subscriptions(query).expect_err(query);
            assert_eq!(refusal.to_string(), expected);
        }
        assert_eq!(parse_page("per_page=7&direction=up"), page(1, 7));
    }

    #[test]
    fn a_page_is_cut_out_of_a_whole_list() {
        let page = |page, per_page| Page { page, per_page }.of(&[1, 2, 3]).to_vec();
        assert_eq!(page(1, 2), [1, 2]);
        assert_eq!(page(2, 2), [3]);
        assert!(page(3, 2).is_empty());
        assert!(page(u32::MAX, 100).is_empty());
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
