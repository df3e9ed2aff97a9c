//! What is asked about the token itself: which accounts it is good for, and whether it is one.
//! wrangler asks all three when it isn't told an account's id; it uses the accounts that are both
//! in `GET /accounts` and in `GET /memberships`.

use super::envelope::Answer;
use super::page::Page;
use super::route::Id;
use crate::access::{Grant, QueueNames};
use serde::Serialize;
use sha2::{Digest, Sha256};

/// What every account is called: Cloudflare's accounts have names, pullq's have none.
const NAME: &str = "pullq";

/// The account that a token's holder is shown. A token for one account has that one; a token for
/// every account has the deployment's own, which `home` names, since there is no list of all.
pub fn account_of(own: Option<&str>, home: Option<&str>) -> Option<Id> {
    own.or(home).and_then(Id::parse)
}

#[derive(Serialize)]
struct AccountObject<'a> {
    id: &'a str,
    name: &'static str,
    #[serde(rename = "type")]
    kind: &'static str,
}

#[derive(Serialize)]
struct MembershipObject<'a> {
    id: &'a str,
    status: &'static str,
    account: AccountObject<'a>,
    roles: [(); 0],
}

fn object(account: &Id) -> AccountObject<'_> {
    AccountObject {
        id: account.as_str(),
        name: NAME,
        kind: "standard",
    }
}

/// The answer to `GET /accounts`.
pub fn encode_accounts(account: Option<&Id>, page: Page) -> Answer {
    let all: Vec<_> = account.map(object).into_iter().collect();
    Answer::list(page.of(&all), page, all.len() as u64)
}

/// The answer to `GET /memberships`. A membership has its account's id.
pub fn encode_memberships(account: Option<&Id>, page: Page) -> Answer {
    let membership = |account| MembershipObject {
        id: Id::as_str(account),
        status: "accepted",
        account: object(account),
        roles: [],
    };
    let all: Vec<_> = account.map(membership).into_iter().collect();
    Answer::list(page.of(&all), page, all.len() as u64)
}

/// The answer to `GET /user/tokens/verify`. The token's id is made of its name, so it stays when the
/// token is replaced and tells nothing of the secret. What the token may do is pullq's own.
pub fn encode_verified(grant: &Grant) -> Answer {
    #[derive(Serialize)]
    struct Verified<'a> {
        id: &'a str,
        status: &'static str,
        permissions: Vec<&'static str>,
        queues: &'a QueueNames,
    }
    let mut bytes = [0; 16];
    for (byte, hashed) in bytes
        .iter_mut()
        .zip(Sha256::digest(grant.token_name.as_bytes()))
    {
        *byte = hashed;
    }
    Answer::of(&Verified {
        id: Id::from(bytes).as_str(),
        status: "active",
        permissions: grant.permissions.names(),
        queues: &grant.queues,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Permissions;

    const OWN: &str = "023e105f4ecef8ad9ca31a8372d0c353";
    const HOME: &str = "0123456789abcdef0123456789abcdef";

    fn check(answer: Answer, result: &str) {
        let expected = format!(r#"{{"success":true,"errors":[],"messages":[],"result":{result}}}"#);
        assert_eq!(String::from_utf8_lossy(&answer.body), expected);
    }

    #[test]
    fn a_token_has_its_own_account_or_else_the_deployments() {
        let id = Id::parse;
        assert_eq!(account_of(Some(OWN), Some(HOME)), id(OWN));
        assert_eq!(account_of(Some(OWN), None), id(OWN));
        assert_eq!(account_of(None, Some(HOME)), id(HOME));
        assert_eq!(account_of(None, None), None);
        assert_eq!(account_of(None, Some("not an id")), None);
    }

    #[test]
    fn accounts_and_memberships_are_pages_and_past_their_end_empty() {
        let own = Id::parse(OWN);
        let page = |page| Page { page, per_page: 20 };
        let account = format!(r#"{{"id":"{OWN}","name":"pullq","type":"standard"}}"#);
        let info = |page, count, total, pages| {
            format!(
                r#""result_info":{{"page":{page},"per_page":20,"count":{count},"total_count":{total},"total_pages":{pages}}}"#
            )
        };
        check(
            encode_accounts(own.as_ref(), page(1)),
            &format!("[{account}],{}", info(1, 1, 1, 1)),
        );
        check(
            encode_accounts(own.as_ref(), page(2)),
            &format!("[],{}", info(2, 0, 1, 1)),
        );
        check(
            encode_accounts(None, page(1)),
            &format!("[],{}", info(1, 0, 0, 0)),
        );
        check(
            encode_memberships(own.as_ref(), page(1)),
            &format!(
                r#"[{{"id":"{OWN}","status":"accepted","account":{account},"roles":[]}}],{}"#,
                info(1, 1, 1, 1)
            ),
        );
    }

    #[test]
    fn a_tokens_id_is_made_of_its_name() {
        // The first half of SHA-256 of "billing", as sha256sum prints it.
        let grant = Grant {
            token_name: "billing".into(),
            account: None,
            permissions: Permissions::READ,
            queues: QueueNames::every(),
        };
        check(
            encode_verified(&grant),
            r#"{"id":"0c95c7ece1ce1a9750275ef1c6d7ad6b","status":"active","permissions":["queues:read"],"queues":["*"]}"#,
        );
    }
}
