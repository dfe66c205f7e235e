//! OAuth: untrusted redirect URIs, authorization requests and client metadata.
//!
//! A redirect only goes to the host of a registered URI. An accepted request has each parameter once, with a permitted value.
//! Accepted metadata parse to the same values again.

use metadata::ClientMetadata;
use parameters::Parameters;
use redirect::RedirectUri;
use url::Url;

use crate::{Bounds, Input, Line};

#[expect(dead_code, reason = "names on the wire are read elsewhere")]
#[path = "../../../crates/accounts/src/oauth/error.rs"]
mod error;
#[path = "../../../crates/accounts/src/oauth/metadata.rs"]
mod metadata;
#[expect(dead_code, reason = "queries of other kinds are read elsewhere")]
#[path = "../../../crates/api/src/parameters.rs"]
mod parameters;
#[expect(dead_code, reason = "a page shows more of a URI")]
#[path = "../../../crates/accounts/src/oauth/redirect.rs"]
mod redirect;
#[expect(dead_code, reason = "names on the wire are read elsewhere")]
#[path = "../../../crates/accounts/src/oauth/request.rs"]
mod request;

const BOUNDS: Bounds = Bounds {
    memory: Line {
        base: 256 << 10,
        per_byte: 400,
    },
    time: Line {
        base: 20_000_000,
        per_byte: 5_000,
    },
};
/// Maximum size of a query, a document or two URIs, in bytes.
const MOST: usize = 8 << 10;

const RESOURCE: &str = "https://engine.example";

#[derive(Clone, Copy)]
enum Way {
    Redirect,
    Query,
    Metadata,
    Document,
}

/// Checks one input.
pub fn check(data: &[u8]) {
    let input = Input::repeated(data, MOST);
    match input.way([Way::Redirect, Way::Query, Way::Metadata, Way::Document]) {
        Some(Way::Redirect) => redirects(&input.bytes),
        Some(Way::Query) => query(&input.bytes),
        Some(Way::Metadata) => kept(&input.bytes, None),
        Some(Way::Document) => kept(&input.bytes, Some("https://app.example/client.json")),
        None => {}
    }
}

/// The first line is a registered URI, the second one the URI in a request.
fn redirects(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (registered, requested) = text.split_once('\n').unwrap_or((&text, &text));
    let allowed = BOUNDS.hold(bytes.len(), || {
        let registered = RedirectUri::parse(registered).ok()?;
        registered
            .allows(requested)
            .then(|| RedirectUri::parse(requested))
    });
    let Some(allowed) = allowed else { return };
    let Ok(allowed) = allowed else { return };
    let (there, here) = (url(registered), url(requested));
    assert_eq!(there.scheme(), here.scheme());
    assert_eq!(there.host(), here.host(), "{requested:?} for {registered:?}");
    assert_eq!((there.path(), there.query()), (here.path(), here.query()));
    assert!(here.username().is_empty() && here.password().is_none());
    assert!(
        registered == requested || matches!(here.host_str(), Some("127.0.0.1" | "[::1]")),
        "{requested:?} for {registered:?}"
    );
    let back = url(&allowed.with(&[("state", &text)]));
    assert_eq!(
        (back.scheme(), back.host(), back.port()),
        (here.scheme(), here.host(), here.port())
    );
    assert!(
        back.query_pairs()
            .any(|(name, value)| name == "state" && value == text)
    );
}

fn url(text: &str) -> Url {
    Url::parse(text).unwrap_or_else(|error| panic!("{text:?} is no URL: {error}"))
}

fn query(bytes: &[u8]) {
    let asked = BOUNDS.hold(bytes.len(), || {
        request::asked(Parameters::without_empty(bytes), &[RESOURCE.to_owned()])
    });
    let Ok(asked) = asked else { return };
    let all = |wanted: &str| -> Vec<String> {
        let pairs =
            url::form_urlencoded::parse(bytes).filter(|(name, value)| name == wanted && !value.is_empty());
        pairs.map(|(_, value)| value.into_owned()).collect()
    };
    assert_eq!(all("response_type"), ["code"]);
    assert_eq!(all("code_challenge_method"), ["S256"]);
    assert_eq!(all("code_challenge"), [asked.challenge.as_str()]);
    assert_eq!(asked.challenge.len(), 43);
    assert!(all("state").len() <= 1 && all("scope").len() <= 1);
    let is_admin = all("scope")
        .iter()
        .any(|list| list.split(' ').any(|name| name == "admin"));
    assert_eq!(is_admin, asked.scope == request::Scope::Admin);
    assert!(
        all("resource")
            .iter()
            .all(|of| of == RESOURCE || of.strip_suffix('/') == Some(RESOURCE))
    );
}

fn kept(bytes: &[u8], document: Option<&str>) {
    let kept = BOUNDS.hold(bytes.len(), || ClientMetadata::parse(bytes, document));
    let Ok(kept) = kept else { return };
    assert!((1..=10).contains(&kept.redirect_uris.len()));
    for uri in &kept.redirect_uris {
        assert!(RedirectUri::parse(uri).is_ok(), "{uri:?}");
    }
    let text = serde_json::to_vec(&kept).unwrap_or_else(|error| panic!("metadata is no JSON: {error}"));
    assert_eq!(
        serde_json::from_slice::<ClientMetadata>(&text).ok().as_ref(),
        Some(&kept)
    );
    if document.is_none() {
        assert_eq!(ClientMetadata::parse(&text, None).ok(), Some(kept));
    }
}
