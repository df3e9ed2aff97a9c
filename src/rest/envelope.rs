//! The outer form of every answer: `{"success", "errors", "messages", "result"}` as JSON, whatever
//! the outcome. Cloudflare's SDKs judge an answer by its status, wrangler by `success`.

use super::error::ApiError;
use super::page::{Page, PageInfo};
use crate::wire::answer::json_content_type;
pub use crate::wire::json::put_json;
pub use crate::wire::Answer;
use serde::Serialize;

const SUCCESS: &[u8] = br#"{"success":true,"errors":[],"messages":[],"result":"#;

impl Answer {
    /// A success with `result`.
    pub fn of(result: &impl Serialize) -> Answer {
        Answer::built(0, |out| put_json(out, result))
    }

    /// A success that has nothing to say.
    pub fn empty() -> Answer {
        Answer::of(&())
    }

    /// A page of a list, of `total_count` items in all.
    pub fn list<T: Serialize>(items: &[T], page: Page, total_count: u64) -> Answer {
        Answer::built(0, |out| {
            put_json(out, &items);
            out.extend_from_slice(b",\"result_info\":");
            put_json(out, &PageInfo::of(page, items.len(), total_count));
        })
    }

    /// A success whose result `write` appends, in about `bytes`.
    pub(super) fn built(bytes: usize, write: impl FnOnce(&mut Vec<u8>)) -> Answer {
        let mut body = Vec::with_capacity(bytes + 256);
        body.extend_from_slice(SUCCESS);
        write(&mut body);
        body.push(b'}');
        Answer {
            status: 200,
            headers: vec![json_content_type()],
            body,
        }
    }
}

impl From<&ApiError> for Answer {
    fn from(error: &ApiError) -> Answer {
        let (status, code, _) = error.row();
        let failure = Failure {
            success: false,
            errors: [ErrorItem {
                code,
                message: error.to_string(),
                source: error.pointer().map(|pointer| Source { pointer }),
            }],
            messages: [],
            result: (),
        };
        let mut headers = vec![json_content_type()];
        headers.extend(error.headers());
        let mut body = Vec::with_capacity(256);
        put_json(&mut body, &failure);
        Answer {
            status,
            headers,
            body,
        }
    }
}

impl From<ApiError> for Answer {
    fn from(error: ApiError) -> Answer {
        Answer::from(&error)
    }
}

impl<E: Into<ApiError>> From<Result<Answer, E>> for Answer {
    fn from(result: Result<Answer, E>) -> Answer {
        result.unwrap_or_else(|error| Answer::from(error.into()))
    }
}

#[derive(Serialize)]
struct Failure {
    success: bool,
    errors: [ErrorItem; 1],
    messages: [(); 0],
    result: (),
}

#[derive(Serialize)]
struct ErrorItem {
    code: u32,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<Source>,
}

#[derive(Serialize)]
struct Source {
    pointer: String,
}

#[cfg(test)]
mod tests {
    use super::super::json::Wrong;
    use super::*;

    fn check(answer: Answer, status: u16, body: &str) {
        assert_eq!(answer.status, status);
        assert_eq!(
            answer.headers.first(),
            Some(&("content-type", "application/json".to_string()))
        );
        assert_eq!(String::from_utf8(answer.body).expect("UTF-8"), body);
    }

    #[test]
    fn every_answer_is_the_envelope() {
        check(
            Answer::of(&["a"]),
            200,
            r#"{"success":true,"errors":[],"messages":[],"result":["a"]}"#,
        );
        check(
            Answer::empty(),
            200,
            r#"{"success":true,"errors":[],"messages":[],"result":null}"#,
        );
        check(
            ApiError::DeliveryPaused.into(),
            409,
            r#"{"success":false,"errors":[{"code":19002,"message":"queue_delivery_paused"}],"messages":[],"result":null}"#,
        );
        let wrong = Wrong {
            pointer: Some("/batch_size".into()),
            sentence: "No.".into(),
        };
        check(
            Err::<Answer, _>(ApiError::InvalidField(wrong)).into(),
            400,
            r#"{"success":false,"errors":[{"code":10207,"message":"No.","source":{"pointer":"/batch_size"}}],"messages":[],"result":null}"#,
        );
    }

    #[test]
    fn a_list_says_which_page_of_how_many_it_is() {
        let page = Page {
            page: 2,
            per_page: 2,
        };
        check(
            Answer::list(&[3], page, 3),
            200,
            r#"{"success":true,"errors":[],"messages":[],"result":[3],"result_info":{"page":2,"per_page":2,"count":1,"total_count":3,"total_pages":2}}"#,
        );
    }
}
