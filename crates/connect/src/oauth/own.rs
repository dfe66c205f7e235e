//! Separate redirect URIs for each pair of connection and issuer.
//!
//! A server that does not identify itself in the callback could be confused with another one (mix-up, RFC 9700, section 4.4).
//! Therefore a client that the engine registers, or that uses its metadata document, has a separate redirect URI for each pair of
//! connection and issuer. A callback at a different address than its flow expects is refused. A client that an administrator
//! registered uses the registered redirect URI.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};
use url::Url;

use super::Home;

/// Number of bytes of a tag before encoding.
const TAG_BYTES: usize = 16;

/// Addresses of the engine for one flow.
pub(super) struct Addresses {
    /// Last segment of the redirect URI. `None` for the shared one.
    pub(super) tag: Option<String>,
    pub(super) redirect_uri: Url,
    pub(super) client_document: Option<Url>,
}

impl Addresses {
    /// Returns the redirect URI of clients that an administrator registered.
    pub(super) fn shared(home: &Home) -> Self {
        Self {
            tag: None,
            redirect_uri: home.redirect_uri.clone(),
            client_document: None,
        }
    }

    /// Returns the addresses of the connection `context` at `issuer`.
    pub(super) fn own(home: &Home, context: &str, issuer: &str) -> Self {
        let tag = tag(context, issuer);
        let document = home.client_document.as_ref();
        Self {
            redirect_uri: below(&home.redirect_uri, &tag),
            client_document: document.map(|document| below(document, &tag)),
            tag: Some(tag),
        }
    }
}

/// Appends `tag` as a segment to the path of `url`.
pub fn below(url: &Url, tag: &str) -> Url {
    let mut url = url.clone();
    url.set_path(&format!("{}/{tag}", url.path()));
    url
}

/// Whether `text` has the form of a tag: 32 hexadecimal digits.
pub fn is_tag(text: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == 2 * TAG_BYTES && text.bytes().all(is_digit)
}

fn tag(context: &str, issuer: &str) -> String {
    let hash = Sha256::new()
        .chain_update(b"sortie oauth redirect\0")
        .chain_update(context)
        .chain_update(b"\0")
        .chain_update(issuer)
        .finalize();
    hash.iter().take(TAG_BYTES).fold(String::new(), |mut text, byte| {
        // Writing to a `String` cannot fail.
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_differs_by_connection_and_by_issuer() {
        let tags = [("a", "b"), ("a", "c"), ("b", "b"), ("a\0b", ""), ("ab", "")]
            .map(|(context, issuer)| tag(context, issuer));
        assert!(tags.iter().all(|tag| is_tag(tag)));
        // An issuer is a URL and cannot contain the separator.
        let unique: std::collections::BTreeSet<_> = tags.iter().collect();
        assert_eq!(unique.len(), tags.len());
        assert_eq!(tag("a", "b"), tag("a", "b"));
    }

    #[test]
    fn nothing_but_a_tag_has_the_form_of_one() {
        let tag = tag("a", "b");
        for text in ["", "x", "../x", &tag.to_uppercase(), &format!("{tag}0"), "é"] {
            assert!(!is_tag(text), "{text}");
        }
    }

    #[test]
    fn a_tag_is_one_more_segment() {
        let url = "https://sortie.example/v1/oauth/callback".parse().unwrap();
        assert_eq!(
            below(&url, "x").as_str(),
            "https://sortie.example/v1/oauth/callback/x"
        );
    }
}
