//! The `WWW-Authenticate` header of a 401 or 403: the URL of the protected resource's metadata, and the required scope.

use reqwest::{Response, header::WWW_AUTHENTICATE};
use serde::{Deserialize, Serialize};

/// Maximum length of a stored list of scopes, in bytes.
const SCOPE_BYTES: usize = 1024;
/// Maximum length of a stored metadata URL, in bytes.
const URL_BYTES: usize = 2048;
/// Error code of a 403 that another scope would resolve (RFC 6750, section 3.1).
const INSUFFICIENT_SCOPE: &str = "insufficient_scope";

/// The relevant parameters of a Bearer challenge.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Challenge {
    /// URL of the metadata of the protected resource.
    pub resource_metadata: Option<String>,
    /// Scopes that the resource requires, separated by spaces.
    pub scope: Option<String>,
    #[serde(skip)]
    error: Option<String>,
}

impl Challenge {
    /// Parses the challenge of a response.
    pub(crate) fn of(response: &Response) -> Self {
        let headers = response.headers().get_all(WWW_AUTHENTICATE);
        parse(headers.iter().filter_map(|value| value.to_str().ok()))
    }

    /// Whether it contains nothing that an authorization could use.
    pub fn is_empty(&self) -> bool {
        self.resource_metadata.is_none() && self.scope.is_none()
    }

    /// Whether the resource accepts the token but requires more scopes.
    pub fn wants_scope(&self) -> bool {
        self.error.as_deref() == Some(INSUFFICIENT_SCOPE)
    }

    /// Merges this challenge with an earlier one: the scopes of both, and the newer URL. If the scopes together are too long,
    /// only those of this challenge count.
    #[must_use]
    pub fn over(self, earlier: Self) -> Self {
        let both = union(&[earlier.scope.as_deref(), self.scope.as_deref()]);
        let scopes = [both, self.scope, earlier.scope];
        Self {
            resource_metadata: self.resource_metadata.or(earlier.resource_metadata),
            scope: scopes
                .into_iter()
                .flatten()
                .find(|scope| scope.len() <= SCOPE_BYTES),
            error: self.error,
        }
    }
}

/// Merges lists of scopes in their order, without duplicates. `None` if there are none.
pub(super) fn union(lists: &[Option<&str>]) -> Option<String> {
    let mut scopes: Vec<&str> = Vec::new();
    for scope in lists
        .iter()
        .flatten()
        .flat_map(|list| list.split_ascii_whitespace())
    {
        if !scopes.contains(&scope) {
            scopes.push(scope);
        }
    }
    (!scopes.is_empty()).then(|| scopes.join(" "))
}

/// Whether this is a valid list of scopes (RFC 6749, section 3.3) of acceptable length.
fn is_scope(text: &str) -> bool {
    let is_scope_byte = |byte: u8| matches!(byte, b' ' | b'!' | b'#'..=b'[' | b']'..=b'~');
    text.len() <= SCOPE_BYTES && text.bytes().all(is_scope_byte) && !text.trim().is_empty()
}

/// Parses all challenges of all headers, and returns the Bearer one.
fn parse<'h>(headers: impl IntoIterator<Item = &'h str>) -> Challenge {
    let mut found = Challenge::default();
    for header in headers {
        let mut is_bearer = false;
        for piece in pieces(header) {
            let (scheme, parameter) = scheme_and_parameter(piece);
            if let Some(scheme) = scheme {
                is_bearer = scheme.eq_ignore_ascii_case("bearer");
            }
            let Some((name, value)) = parameter.filter(|_| is_bearer) else {
                continue;
            };
            let slot = match name.to_ascii_lowercase().as_str() {
                "resource_metadata" => &mut found.resource_metadata,
                "scope" => &mut found.scope,
                "error" => &mut found.error,
                _ => continue,
            };
            slot.get_or_insert(value);
        }
    }
    found.scope.take_if(|scope| !is_scope(scope));
    found.resource_metadata.take_if(|url| url.len() > URL_BYTES);
    found
}

/// Splits at commas outside of quotes.
fn pieces(header: &str) -> Vec<&str> {
    let (mut pieces, mut start) = (Vec::new(), 0);
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in header.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' if !quoted => {
                pieces.push(header.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
    }
    pieces.push(header.get(start..).unwrap_or_default());
    pieces
}

/// `Bearer realm="x"` is a scheme and a parameter; `scope="a b"` a parameter; `Bearer` a scheme.
fn scheme_and_parameter(piece: &str) -> (Option<&str>, Option<(&str, String)>) {
    let piece = piece.trim();
    let before_value = piece.split('=').next().unwrap_or_default().trim_end();
    match before_value.split_once(char::is_whitespace) {
        Some((scheme, _)) => {
            let rest = piece.get(scheme.len()..).unwrap_or_default();
            (Some(scheme), parameter(rest))
        }
        None if piece.contains('=') => (None, parameter(piece)),
        None => (Some(piece), None),
    }
}

fn parameter(text: &str) -> Option<(&str, String)> {
    let (name, value) = text.split_once('=')?;
    let value = value.trim();
    let value = match value.strip_prefix('"') {
        Some(quoted) => unquoted(quoted),
        None => value.to_owned(),
    };
    Some((name.trim(), value))
}

/// Returns the text before the closing quote.
fn unquoted(text: &str) -> String {
    let mut out = String::new();
    let mut escaped = false;
    for c in text.chars() {
        match c {
            _ if escaped => {
                out.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => break,
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn challenge(resource_metadata: Option<&str>, scope: Option<&str>) -> Challenge {
        Challenge {
            resource_metadata: resource_metadata.map(str::to_owned),
            scope: scope.map(str::to_owned),
            error: None,
        }
    }

    #[test]
    fn the_bearer_challenge_is_found_among_others() {
        let url = "https://a.b/.well-known/oauth-protected-resource";
        for (header, expected) in [
            (
                format!("Bearer resource_metadata=\"{url}\""),
                challenge(Some(url), None),
            ),
            (
                format!("bearer realm=\"a, b=c\", Resource_Metadata = \"{url}\", scope=\"x y\""),
                challenge(Some(url), Some("x y")),
            ),
            (
                format!("Basic realm=\"x\", scope=\"no\", Bearer scope=one,resource_metadata={url}"),
                challenge(Some(url), Some("one")),
            ),
            ("Bearer".to_owned(), challenge(None, None)),
            (
                "Bearer x=\"a\\\"b\", scope=\"c\\d\"".to_owned(),
                challenge(None, Some("cd")),
            ),
            ("Bearer scope=\"c\\\"d\"".to_owned(), challenge(None, None)),
            ("Bearer scope=\" \"".to_owned(), challenge(None, None)),
            (
                format!("Bearer scope=\"{}\"", "s".repeat(2000)),
                challenge(None, None),
            ),
            ("Basic realm=\"Bearer scope=x\"".to_owned(), challenge(None, None)),
            (String::new(), challenge(None, None)),
        ] {
            assert_eq!(parse([header.as_str()]), expected, "{header}");
        }
    }

    #[test]
    fn a_missing_scope_is_told_from_other_refusals_and_scopes_add_up() {
        let wanting = parse(["Bearer error=\"insufficient_scope\", scope=\"b c\""]);
        assert!(wanting.wants_scope() && !wanting.is_empty());
        assert!(!parse(["Bearer error=\"invalid_token\", scope=\"b\""]).wants_scope());
        assert!(parse(["Bearer error=insufficient_scope"]).is_empty());
        let both = wanting.over(challenge(Some("https://a.b/m"), Some("a b")));
        assert_eq!(both.scope.as_deref(), Some("a b c"));
        assert_eq!(both.resource_metadata.as_deref(), Some("https://a.b/m"));
        assert_eq!(
            union(&[None, Some("a  b"), Some("b c a")]).as_deref(),
            Some("a b c")
        );
        assert_eq!(union(&[None, Some(" ")]), None);
    }

    #[test]
    fn of_scopes_that_are_too_long_together_the_new_ones_count_and_then_the_earlier_ones() {
        let long = |letter: &str, bytes: usize| letter.repeat(bytes);
        let over = |new: &str, earlier: &str| {
            challenge(None, Some(new))
                .over(challenge(None, Some(earlier)))
                .scope
        };
        let (new, earlier) = (long("n", 600), long("e", 600));
        assert_eq!(over(&new, &earlier), Some(new.clone()));
        assert_eq!(over("a", "b").as_deref(), Some("b a"));
        assert_eq!(over(&long("n", SCOPE_BYTES + 1), &earlier), Some(earlier));
    }

    proptest! {
        #[test]
        fn no_header_makes_it_panic(header in r#"[ -~]{0,80}|([Bb]earer|[a-z=",\\ ]{0,5}){0,20}"#) {
            parse([header.as_str()]);
        }

        #[test]
        fn any_quoted_scope_is_read_back(scope in "[!#-\\[\\]-~]{1,30}( [!#-\\[\\]-~]{1,9})?") {
            let header = format!("Bearer a=b, scope=\"{}\", c=d", scope.replace('\\', "\\\\").replace('"', "\\\""));
            prop_assert_eq!(parse([header.as_str()]).scope, Some(scope));
        }
    }
}
