//! Sign-in with an identity provider: metadata, keys and ID tokens, from a provider or an attacker.
//!
//! Endpoints are URLs that a browser and a client may visit. An accepted token has a permitted algorithm, its parts are the
//! signed bytes, and its claims belong to this sign-in.

use keys::{Algorithm, Keys, PublicKey};
use metadata::Metadata;
use token::{Claims, Expected, SignedToken};

use crate::{Bounds, Input, Line};

#[path = "../../../crates/accounts/src/oidc/keys.rs"]
mod keys;
#[expect(dead_code, reason = "the sign-in reads more of the metadata")]
#[path = "../../../crates/accounts/src/oidc/metadata.rs"]
mod metadata;
#[expect(dead_code, reason = "the sign-in reads more of a token")]
#[path = "../../../crates/accounts/src/oidc/token.rs"]
mod token;

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
/// Maximum size of a document or a token, in bytes.
const MOST: usize = 8 << 10;

const ISSUER: &str = "https://idp.example";
const SUBJECT: &str = "s-1";

#[derive(Clone, Copy)]
enum Way {
    Metadata,
    Keys,
    Token,
    Claims,
}

/// Checks one input.
pub fn check(data: &[u8]) {
    let input = Input::repeated(data, MOST);
    match input.way([Way::Metadata, Way::Keys, Way::Token, Way::Claims]) {
        Some(Way::Metadata) => metadata_of(&input.bytes),
        Some(Way::Keys) => keys_of(&input.bytes),
        Some(Way::Token) => token_of(&input.bytes),
        Some(Way::Claims) => claims_of(&input.bytes),
        None => {}
    }
}

fn metadata_of(bytes: &[u8]) {
    let parsed = BOUNDS.hold(bytes.len(), || Metadata::parse(bytes, ISSUER));
    let Ok(parsed) = parsed else { return };
    let endpoints = [
        Some(&parsed.authorization_endpoint),
        Some(&parsed.token_endpoint),
        Some(&parsed.jwks_uri),
        parsed.userinfo_endpoint.as_ref(),
    ];
    for url in endpoints.into_iter().flatten() {
        assert!(url.scheme() == "https" && url.has_host(), "{url}");
        assert!(url.username().is_empty() && url.password().is_none() && url.fragment().is_none());
    }
}

fn keys_of(bytes: &[u8]) {
    let parsed = BOUNDS.hold(bytes.len(), || Keys::parse(bytes));
    let Ok(parsed) = parsed else { return };
    for algorithm in [Algorithm::Rs256, Algorithm::Es256] {
        let Some(key) = parsed.find(algorithm, None) else {
            continue;
        };
        assert_eq!(key.algorithm(), algorithm);
        match key {
            PublicKey::Rsa { n, e } => assert!(n.first() != Some(&0) && e.first() != Some(&0)),
            PublicKey::P256(point) => assert_eq!((point.len(), point.first()), (65, Some(&4))),
        }
    }
}

fn token_of(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let parsed = BOUNDS.hold(bytes.len(), || {
        let token = SignedToken::parse(&text)?;
        let claims = token.claims();
        Ok::<_, &str>((token, claims))
    });
    let Ok((token, _)) = parsed else { return };
    assert_eq!(text.matches('.').count(), 2);
    assert!(text.starts_with(token.signed) && text.len() > token.signed.len());
}

fn claims_of(bytes: &[u8]) {
    let expected = Expected {
        issuer: ISSUER,
        client_id: "sortie",
        nonce: "n-1",
        now: 1_763_674_200,
    };
    let checked = BOUNDS.hold(bytes.len(), || {
        let claims = Claims::of_userinfo(bytes, SUBJECT).ok()?;
        let subject = claims.check(&expected).ok()?.to_owned();
        Some((claims, subject))
    });
    let Some((claims, subject)) = checked else { return };
    assert_eq!(subject, SUBJECT);
    assert_eq!(
        (claims.text("iss"), claims.text("nonce")),
        (Some(ISSUER), Some("n-1"))
    );
    assert!(claims.has("exp") && claims.has("iat") && claims.has("aud"));
}
