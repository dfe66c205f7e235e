//! Layout of the pages: the document, and the headers that each answer has.

use axum::{body::Body, response::Response};
use http::{
    HeaderName, HeaderValue, StatusCode,
    header::{
        CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
        X_FRAME_OPTIONS,
    },
};
use maud::{DOCTYPE, Markup, html};

use super::assets;

/// Headers of every page. A browser sends `Origin: null` with a form if the page has the referrer policy `no-referrer`, so
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
    /// Body after the heading.
    pub(super) body: Markup,
    /// Source that a form of the page may redirect to, in addition to this origin.
    pub(super) leads_to: Option<String>,
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
                link rel="icon" type="image/svg+xml" href=(assets::path("icon.svg"));
                link rel="stylesheet" href=(assets::path("style.css"));
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

/// Content security policy of a page. Browsers also apply `form-action` to the redirect after a form, so a page with a form that
/// redirects elsewhere has to name the target.
fn policy(leads_to: Option<&str>) -> String {
    let action = leads_to.map(|source| format!(" {source}")).unwrap_or_default();
    format!(
        "default-src 'none'; style-src 'self'; font-src 'self'; img-src 'self'; form-action 'self'{action}; frame-ancestors 'none'; \
         base-uri 'none'"
    )
}

/// Mark of the product: an arrow that points up.
fn arrow() -> Markup {
    html! {
        svg viewBox="0 0 16 16" aria-hidden="true" { path d="M8 13V3.5M4 7.25 8 3.25l4 4"; }
    }
}
