//! Signatures of tokens, verified by the runtime's Web Crypto: its code is native, is maintained with
//! the runtime, and takes nothing of the Worker's size.

use crate::access::jwt::EventAccessError;
use crate::access::jwt::{Algorithm, Bearers, Family, Presented};
use crate::cloudevents::EventsError;
use crate::objects::failed;
use js_sys::{Array, Object, Promise, Reflect, Uint8Array};
use std::cell::RefCell;
use wasm_bindgen::prelude::*;
use worker::wasm_bindgen_futures::JsFuture;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(catch, js_namespace = ["crypto", "subtle"], js_name = importKey)]
    fn import_key(
        format: &str,
        key: &Uint8Array,
        algorithm: &Object,
        extractable: bool,
        usages: &Array,
    ) -> Result<Promise, JsValue>;

    #[wasm_bindgen(catch, js_namespace = ["crypto", "subtle"])]
    fn verify(
        algorithm: &Object,
        key: &JsValue,
        signature: &Uint8Array,
        signed: &Uint8Array,
    ) -> Result<Promise, JsValue>;
}

thread_local! {
    /// The key as it was imported last, and from what.
    static KEY: RefCell<Option<(Algorithm, Vec<u8>, JsValue)>> = const { RefCell::new(None) };
}

/// Whether a token's signature is good.
pub async fn is_good(bearers: &Bearers, presented: &Presented<'_>) -> Result<bool, EventsError> {
    let key = imported(bearers).await?;
    let verdict = verify(
        &parameters(bearers.algorithm).map_err(failed)?,
        &key,
        &Uint8Array::from(presented.signature.as_slice()),
        &Uint8Array::from(presented.signed.as_bytes()),
    );
    let verdict = JsFuture::from(verdict.map_err(failed)?).await;
    Ok(verdict.map_err(failed)?.as_bool() == Some(true))
}

async fn imported(bearers: &Bearers) -> Result<JsValue, EventsError> {
    let Bearers { algorithm, key, .. } = bearers;
    let known = KEY.with_borrow(|known| match known {
        Some((same, bytes, imported)) if same == algorithm && bytes == key => {
            Some(imported.clone())
        }
        _ => None,
    });
    if let Some(imported) = known {
        return Ok(imported);
    }
    let format = match algorithm.family {
        Family::Hs => "raw",
        Family::Rs | Family::Es => "spki",
    };
    let import = import_key(
        format,
        &Uint8Array::from(key.as_slice()),
        &parameters(*algorithm).map_err(failed)?,
        false,
        &Array::of1(&"verify".into()),
    );
    let imported = match import {
        Ok(promise) => JsFuture::from(promise).await,
        Err(error) => Err(error),
    };
    let imported = imported.map_err(|_| {
        EventAccessError::Unusable(
            "CLOUDEVENTS_JWT_KEY is no key for CLOUDEVENTS_JWT_ALGORITHM".into(),
        )
    })?;
    KEY.set(Some((*algorithm, key.clone(), imported.clone())));
    Ok(imported)
}

/// What Web Crypto needs to know, to import a key and to verify with it.
fn parameters(algorithm: Algorithm) -> Result<Object, JsValue> {
    let Algorithm { family, bits } = algorithm;
    let parameters = Object::new();
    let set = |name: &str, value: &str| {
        Reflect::set(&parameters, &name.into(), &value.into()).map(|_| ())
    };
    let name = match family {
        Family::Hs => "HMAC",
        Family::Rs => "RSASSA-PKCS1-v1_5",
        Family::Es => "ECDSA",
    };
    set("name", name)?;
    set("hash", &format!("SHA-{bits}"))?;
    if family == Family::Es {
        // RFC 7518, section 3.4: SHA-512 goes with P-521.
        set(
            "namedCurve",
            if bits == 512 {
                "P-521"
            } else if bits == 384 {
                "P-384"
            } else {
                "P-256"
            },
        )?;
    }
    Ok(parameters)
}
