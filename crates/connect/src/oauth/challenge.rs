//! The `WWW-Authenticate` header of a 401: where the protected resource's metadata is, and which scope it wants.

/// The parameters of a Bearer challenge that matter.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Challenge {
    pub(super) resource_metadata: Option<String>,
    pub(super) scope: Option<String>,
}

/// Reads all challenges of all such headers; the Bearer one counts.
pub(super) fn parse<'h>(headers: impl IntoIterator<Item = &'h str>) -> Challenge {
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
                _ => continue,
            };
            slot.get_or_insert(value);
        }
    }
    found
}

/// The parts between commas that stand outside of quotes.
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
                "Bearer error=\"a\\\"b\", scope=\"c\\\"d\"".to_owned(),
                challenge(None, Some("c\"d")),
            ),
            ("Basic realm=\"Bearer scope=x\"".to_owned(), challenge(None, None)),
            (String::new(), challenge(None, None)),
        ] {
            assert_eq!(parse([header.as_str()]), expected, "{header}");
        }
    }

    proptest! {
        #[test]
        fn no_header_makes_it_panic(header in r#"[ -~]{0,80}|([Bb]earer|[a-z=",\\ ]{0,5}){0,20}"#) {
            parse([header.as_str()]);
        }

        #[test]
        fn any_quoted_scope_is_read_back(scope in "[ -~]{0,30}") {
            let header = format!("Bearer a=b, scope=\"{}\", c=d", scope.replace('\\', "\\\\").replace('"', "\\\""));
            prop_assert_eq!(parse([header.as_str()]).scope, Some(scope));
        }
    }
}
