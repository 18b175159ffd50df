//! A page to try queries: one file, nothing from elsewhere, and a policy under which the browser runs and fetches nothing else.

use axum::{
    http::header,
    response::{Html, IntoResponse, Response},
};

/// The page. What it runs is marked with a word that is new for each answer.
const PAGE: &str = include_str!("playground.html");

/// Where the word stands in the page.
const NONCE: &str = "{{nonce}}";

/// `/playground`
pub(super) async fn page() -> Response {
    let nonce = uuid::Uuid::new_v4().simple().to_string();
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'"
    );
    let headers = [
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (header::REFERRER_POLICY, "no-referrer".to_owned()),
        (header::CACHE_CONTROL, "no-store".to_owned()),
    ];
    (headers, Html(PAGE.replace(NONCE, &nonce))).into_response()
}
