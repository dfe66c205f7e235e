//! Layout of the pages: the document, the style sheet, and the headers that each answer has.

use std::sync::LazyLock;

use axum::{body::Body, response::Response};
use http::{
    HeaderName, HeaderValue, StatusCode,
    header::{
        CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
        X_FRAME_OPTIONS,
    },
};
use maud::{DOCTYPE, Markup, html};
use sha2::{Digest as _, Sha256};

/// Style sheet of all pages.
const STYLE: &str = include_str!("style.css");

/// Path of the style sheet. It changes with the content, so that a browser may keep it.
static STYLE_PATH: LazyLock<String> = LazyLock::new(|| {
    let hash = Sha256::digest(STYLE.as_bytes());
    let short = u64::from_be_bytes(hash.first_chunk().copied().unwrap_or_default());
    format!("/pages/style-{short:016x}.css")
});

/// Headers of every page. A browser sends `Origin: null` with a form of a page whose referrer policy is `no-referrer`, so
/// the policy is the strictest one that keeps the origin: other sites get no referrer.
const HEADERS: [(HeaderName, &str); 5] = [
    (CONTENT_TYPE, "text/html; charset=utf-8"),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "same-origin"),
    (CACHE_CONTROL, "no-store"),
];

/// Content of a page.
pub(super) struct Content {
    /// Title, which is also the heading.
    pub(super) title: String,
    /// Body behind the heading.
    pub(super) body: Markup,
    /// Source that a form of the page may lead to beside this origin.
    pub(super) leads_to: Option<String>,
}

/// Path of the style sheet.
pub(super) fn style_path() -> &'static str {
    &STYLE_PATH
}

/// Answers the style sheet.
pub(super) async fn get_style() -> Response {
    let mut response = Response::new(Body::from(STYLE));
    for (name, value) in [
        (CONTENT_TYPE, "text/css; charset=utf-8"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CACHE_CONTROL, "public, max-age=31536000, immutable"),
    ] {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Renders a page.
pub(super) fn page(status: StatusCode, content: &Content) -> Response {
    let policy = policy(content.leads_to.as_deref());
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (content.title) " · Sortie" }
                link rel="stylesheet" href=(style_path());
            }
            body {
                main.gate {
                    div.card {
                        span.mark { (arrow()) }
                        h1 { (content.title) }
                        (content.body)
                    }
                }
            }
        }
    };
    let mut response = Response::new(Body::from(markup.into_string()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // A policy that is no header value would leave the page without one; the empty policy forbids more.
    let policy =
        HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static("default-src 'none'; sandbox"));
    headers.insert(CONTENT_SECURITY_POLICY, policy);
    response
}

/// Content security policy of a page. Browsers hold `form-action` against the redirect behind a form as well, so a form that
/// leads elsewhere names that place.
fn policy(leads_to: Option<&str>) -> String {
    let action = leads_to.map(|source| format!(" {source}")).unwrap_or_default();
    format!(
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'{action}; frame-ancestors 'none'; \
         base-uri 'none'"
    )
}

/// Mark of the product: an arrow that points up.
fn arrow() -> Markup {
    html! {
        svg viewBox="0 0 16 16" aria-hidden="true" { path d="M8 13V3.5M4 7.25 8 3.25l4 4"; }
    }
}
