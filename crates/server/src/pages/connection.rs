//! Pages of a person who allowed Sortie to use an account at another service. They have no form, and no other site learns their
//! address.

use axum::response::Response;
use http::{HeaderValue, StatusCode, header::REFERRER_POLICY};
use maud::html;
use sortie_api::{file::is_deceptive, limits};
use sortie_engine::AwaitingConfirmation;

use super::forms::message;

/// Page with the confirmation code. The warning comes before the code, and every fact that an attacker may have chosen has a
/// label.
pub(crate) fn confirmation(awaiting: &AwaitingConfirmation) -> Response {
    let account = awaiting.account.as_deref();
    let rows = [
        ("Your account", account.or(Some("the server does not name it"))),
        ("At", Some(&*awaiting.server)),
        ("Permissions", awaiting.scope.as_deref()),
        (
            "Used by agents of the organization",
            Some(&*awaiting.organization),
        ),
        ("On the Sortie server", Some(&*awaiting.engine)),
        ("As the connection", Some(&*awaiting.connection)),
        ("To call", awaiting.service.as_deref()),
    ];
    let rows = rows
        .into_iter()
        .filter_map(|(name, value)| Some((name, seen(value?))))
        .filter(|(_, value)| !value.is_empty());
    let (code, connection) = (awaiting.code.expose(), seen(&awaiting.connection));
    let body = html! {
        p.sub { "You allowed Sortie to use an account of yours. Nothing uses it yet." }
        dl.facts {
            @for (name, value) in rows {
                dt { (name) }
                dd { (value) }
            }
        }
        h2 { "Did another person send you here?" }
        p.sub {
            "Then keep the code below to yourself and close this window. With the code, that person can let those agents act as you. \
             Without the code the access is never used, and it is deleted. You can also withdraw it in the settings of your account."
        }
        h2 { "Did you start this, or do you want this organization to act as you?" }
        p.sub { "Then enter this code where it was started, or give it to the administrator you know:" }
        p.code { strong { code { (code) } } }
        p.dim { "In a terminal: " code.mono { "sortie connections confirm " (connection) " " (code) } }
        p.dim { "The code works once, within " (limits::AUTHORIZATION_SECONDS / 60) " minutes." }
    };
    private(message(StatusCode::OK, "Confirm this access", &body))
}

/// Page for an authorization that has failed.
pub(crate) fn failure(status: StatusCode, reason: &str) -> Response {
    let body = html! {
        p.error { (seen(reason)) }
        p.sub { "Nothing was connected. You can close this window." }
    };
    private(message(status, "Not authorized", &body))
}

/// Text without the characters that hide or reorder the text around them.
fn seen(text: &str) -> String {
    text.replace(is_deceptive, "")
}

/// Keeps the address of a page, which has the single-use state, from the requests for its files.
fn private(mut response: Response) -> Response {
    let policy = HeaderValue::from_static("no-referrer");
    response.headers_mut().insert(REFERRER_POLICY, policy);
    response
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sortie_api::{Credential, Timestamp};

    use super::*;

    async fn text(page: Response) -> String {
        let body = axum::body::to_bytes(page.into_body(), 1 << 16).await.unwrap();
        String::from_utf8(body.to_vec()).unwrap()
    }

    proptest! {
        #[test]
        fn no_text_becomes_markup(text in "\\PC{0,40}") {
            let shown = html! { (seen(&text)) }.into_string();
            prop_assert!(!shown.contains(['<', '>', '"']));
            let back = shown.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&");
            prop_assert_eq!(back, text.replace(is_deceptive, ""));
        }
    }

    #[tokio::test]
    async fn the_page_names_who_asks_and_nothing_of_it_is_markup() {
        let awaiting = AwaitingConfirmation {
            connection: "crm".to_owned(),
            organization: "<b>Acme\u{202e}\u{e0041}\u{3164} & Co</b>".to_owned(),
            engine: "sortie.example.com".to_owned(),
            service: Some("https://api.example.com".to_owned()),
            server: "https://auth.example.com".to_owned(),
            account: Some("<ann@example.com>".to_owned()),
            scope: Some("read\" onload=\"x".to_owned()),
            code: Credential::new("BCDF-GHJK"),
            expires_at: Timestamp::from_micros(1_764_000_000_000_000),
        };
        let page = text(confirmation(&awaiting)).await;
        let facts = [
            ("Your account", "&lt;ann@example.com&gt;"),
            ("At", "https://auth.example.com"),
            ("Permissions", "read&quot; onload=&quot;x"),
            (
                "Used by agents of the organization",
                "&lt;b&gt;Acme &amp; Co&lt;/b&gt;",
            ),
            ("On the Sortie server", "sortie.example.com"),
            ("As the connection", "crm"),
            ("To call", "https://api.example.com"),
        ];
        for (name, value) in facts {
            assert!(
                page.contains(&format!("<dt>{name}</dt><dd>{value}</dd>")),
                "{name}: {page}"
            );
        }
        let warning = page.find("keep the code below to yourself").unwrap();
        assert!(warning < page.find("<strong><code>BCDF-GHJK</code></strong>").unwrap());
        assert!(
            page.contains("sortie connections confirm crm BCDF-GHJK"),
            "{page}"
        );
    }
}
