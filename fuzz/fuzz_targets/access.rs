//! Who gets in: the secrets and settings that say so, and the tokens and addresses that are presented.
//! Nothing made up gets in.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pullq::access::attempts::Address;
use pullq::access::jwt::{Algorithm, EventAccess, EventAccessSettings, Presented};
use pullq::access::{Credentials, Permissions, Tokens};

const SECRET: &str = r#"[{"name": "one", "sha256": "0000000000000000000000000000000000000000000000000000000000000000",
    "account": "*", "queues": ["*"], "permissions": ["queues:read", "queues:write"]}]"#;

fuzz_target!(|text: &str| {
    let (one, other) = text.split_once('\n').unwrap_or((text, ""));
    let credentials = Credentials::from_headers(Some(one), Some(one), Some(other));
    Address::parse(Some(one));
    if let Ok(tokens) = Tokens::parse_all(&[one, other]) {
        // A token that the text itself holds would be its own hash's preimage.
        assert!(tokens
            .authorize(credentials, None, Permissions::NONE)
            .is_err());
    }
    let tokens = Tokens::parse(Some(SECRET)).expect("a list of tokens");
    assert!(tokens
        .authorize(credentials, Some(other), Permissions::READ)
        .is_err());

    let settings = |auth: &str, algorithm: &str| EventAccessSettings {
        auth: Some(auth.into()),
        algorithm: Some(algorithm.into()),
        key: Some(one.into()),
        rules: Some(other.into()),
        client_id_claim: Some("sub".into()),
        ..EventAccessSettings::default()
    };
    for algorithm in ["HS256", "RS256", one] {
        let Ok(EventAccess::Bearers(bearers)) = EventAccess::parse(&settings("jwt", algorithm))
        else {
            continue;
        };
        if let Ok(presented) = Presented::read(Some(other), bearers.algorithm) {
            assert!(presented.accept(false, &bearers, 1_790_000_000).is_err());
        }
    }
    let open = EventAccessSettings {
        auth: Some("jwt".into()),
        algorithm: Some("HS256".into()),
        key: Some("k".into()),
        ..EventAccessSettings::default()
    };
    let Ok(EventAccess::Bearers(bearers)) = EventAccess::parse(&open) else {
        panic!("settings that are complete");
    };
    let algorithm: Algorithm = bearers.algorithm;
    if let Ok(presented) = Presented::read(Some(text), algorithm) {
        let _ = presented.accept(true, &bearers, 1_790_000_000);
    }
});
