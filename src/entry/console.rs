//! The web console: static files, which a binding of the deployment holds and this serves with headers
//! that let a page do nothing but talk to its own origin.

use super::{header, method};
use crate::objects::failed;
use crate::rest::ApiError;
use worker::{Env, Headers, Request, RequestInit, Response, Result};

/// The binding with the files.
const ASSETS: &str = "ASSETS";
/// Where the console is found.
const HOME: &str = "/console/";
const FIRST_PAGE: &str = "index.html";

/// The page's own script and style, pictures from these too, and requests to its origin: nothing
/// inline, nothing from elsewhere, no frame around it, and no markup made of text.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'; require-trusted-types-for 'script'";

const HEADERS: [(&str, &str); 5] = [
    ("content-security-policy", CONTENT_SECURITY_POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    // Asked again each time, so that a new release is seen at once.
    ("cache-control", "no-cache"),
];

/// Whether a request is the console's.
pub fn is_ours(path: &str) -> bool {
    path == "/" || path == "/console" || path.starts_with(HOME)
}

/// Answers a request for the console.
pub async fn serve(request: Request, env: &Env) -> std::result::Result<Response, ApiError> {
    if !matches!(method(&request).as_str(), "GET" | "HEAD") {
        return Err(ApiError::MethodNotAllowed {
            allow: "GET, HEAD".into(),
        });
    }
    let path = request.path();
    let Some(file) = path.strip_prefix(HOME) else {
        return to_home().map_err(failed);
    };
    let file = if file.is_empty() { FIRST_PAGE } else { file };
    let content_type = content_type(file).ok_or(ApiError::UnknownRoute)?;
    let assets = env.assets(ASSETS).map_err(|_| ApiError::UnknownRoute)?;

    let mut init = RequestInit::new();
    if let Some(known) = header(&request, "if-none-match") {
        let headers = Headers::new();
        headers.set("if-none-match", &known).map_err(failed)?;
        init.with_headers(headers);
    }
    let url = format!("https://console.internal/{file}");
    let found = assets.fetch(url, Some(init)).await.map_err(failed)?;
    if !matches!(found.status_code(), 200 | 304) {
        return Err(ApiError::UnknownRoute);
    }
    let headers = Headers::new();
    let etag = found.headers().get("etag").ok().flatten();
    let fixed = HEADERS.map(|(name, value)| (name, value.to_owned()));
    let own = [("content-type", content_type.to_owned())];
    let tag = etag.map(|etag| ("etag", etag));
    for (name, value) in fixed.into_iter().chain(own).chain(tag) {
        headers.set(name, &value).map_err(failed)?;
    }
    Ok(found.with_headers(headers))
}

fn to_home() -> Result<Response> {
    let headers = Headers::new();
    headers.set("location", HOME)?;
    Ok(Response::empty()?.with_status(302).with_headers(headers))
}

/// The media type of a file; `None` for a name that none of the console's files has.
fn content_type(file: &str) -> Option<&'static str> {
    if file.contains("..") || file.contains('/') {
        return None;
    }
    match file.rsplit_once('.')?.1 {
        "html" => Some("text/html; charset=utf-8"),
        "js" => Some("text/javascript; charset=utf-8"),
        "css" => Some("text/css; charset=utf-8"),
        "svg" => Some("image/svg+xml"),
        _ => None,
    }
}
