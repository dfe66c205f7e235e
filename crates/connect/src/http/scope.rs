//! Scope of the requests of an HTTP connection: its origin, at or below the path of its URL.
//!
//! A path of the agent is refused if any server could interpret it as outside of the prefix: dot segments, empty segments,
//! backslashes, and encoded forms of these at any level of encoding. The resulting URL is checked again.

use percent_encoding::percent_decode_str;
use url::Url;

/// Maximum length of a URL, in bytes.
const URL_BYTES: usize = 8 * 1024;

/// The origin and path prefix of a connection.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    base: Url,
}

impl Scope {
    pub(super) fn new(mut base: Url) -> Self {
        base.set_fragment(None);
        Self { base }
    }

    /// Returns the URL of `path` below the base, with the base's query followed by `query`. The error is a sentence.
    pub(super) fn resolve(&self, path: &str, query: &[(String, String)]) -> Result<Url, String> {
        let mut url = self.base.clone();
        let below = path.strip_prefix('/').unwrap_or(path);
        check(below)?;
        if !path.is_empty() {
            url.set_path(&format!("{}/{below}", self.prefix()));
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        if url.as_str().len() > URL_BYTES {
            return Err(format!(
                "path and query: the URL is longer than {URL_BYTES} bytes"
            ));
        }
        if !self.contains(&url) {
            return Err("path: leads out of the connection's URL".to_owned());
        }
        Ok(url)
    }

    /// Whether a URL is on the origin, at or below the path.
    pub(super) fn contains(&self, url: &Url) -> bool {
        let is_home = url.scheme() == self.base.scheme()
            && url.host() == self.base.host()
            && url.port_or_known_default() == self.base.port_or_known_default()
            && url.username().is_empty()
            && url.password().is_none();
        is_home
            && match url.path().strip_prefix(self.prefix()) {
                Some("") => true,
                Some(rest) => rest.strip_prefix('/').is_some_and(|below| check(below).is_ok()),
                None => false,
            }
    }

    /// Returns the path below the base, with a leading `/`, without the query.
    pub(super) fn below<'u>(&self, url: &'u Url) -> &'u str {
        match url.path().strip_prefix(self.prefix()) {
            Some("") | None => "/",
            Some(below) => below,
        }
    }

    /// Whether the base URL contains this query parameter.
    pub(super) fn sets_query(&self, name: &str) -> bool {
        self.base.query_pairs().any(|(own, _)| own == name)
    }

    fn prefix(&self) -> &str {
        let path = self.base.path();
        path.strip_suffix('/').unwrap_or(path)
    }
}

/// Refuses a path, without its first `/`, that any server could interpret as more than plain segments.
fn check(below: &str) -> Result<(), String> {
    let refused = |why: &str| Err(format!("path: {why}"));
    if below.contains(['?', '#']) {
        return refused("must have no `?` and no `#`: parameters go into `query`");
    }
    if !has_whole_escapes(below) {
        return refused("has a `%` that begins no escape");
    }
    if is_structural(below) {
        return refused("must have no encoded `/`, `\\`, `.` or `%`");
    }
    let Ok(decoded) = percent_decode_str(below).decode_utf8() else {
        return refused("has an escape that is not UTF-8");
    };
    if decoded.contains('\\') || decoded.chars().any(char::is_control) {
        return refused("must have no backslash and no control character");
    }
    let segments: Vec<&str> = decoded.split('/').collect();
    let last = segments.len() - 1;
    for (index, segment) in segments.iter().enumerate() {
        if segment.is_empty() && index < last {
            return refused("must have no empty segment");
        }
        // Servers may remove the part after a `;` before they interpret dots.
        let name = segment.split(';').next().unwrap_or_default().trim();
        if matches!(name, "." | "..") {
            return refused("must have no `.` and no `..` segment");
        }
    }
    Ok(())
}

/// Whether every `%` is followed by two hexadecimal digits.
fn has_whole_escapes(text: &str) -> bool {
    text.split('%').skip(1).all(|rest| {
        rest.as_bytes()
            .get(..2)
            .is_some_and(|pair| pair.iter().all(u8::is_ascii_hexdigit))
    })
}

/// Whether an escape hides a character with a structural meaning in paths.
fn is_structural(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["%2f", "%5c", "%2e", "%25"]
        .iter()
        .any(|escape| text.contains(escape))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scope(base: &str) -> Scope {
        Scope::new(base.parse().unwrap())
    }

    fn resolved(base: &str, path: &str) -> Result<String, String> {
        scope(base).resolve(path, &[]).map(String::from)
    }

    #[test]
    fn paths_go_below_the_base() {
        for (base, path, url) in [
            ("https://a.b/v1", "/items/7", "https://a.b/v1/items/7"),
            ("https://a.b/v1/", "items/7/", "https://a.b/v1/items/7/"),
            ("https://a.b/v1", "", "https://a.b/v1"),
            ("https://a.b/v1", "/", "https://a.b/v1/"),
            ("https://a.b", "/x y/ä", "https://a.b/x%20y/%C3%A4"),
            ("https://a.b", "/x%20y:z@w", "https://a.b/x%20y:z@w"),
            ("https://a.b/v1?key=k", "/x", "https://a.b/v1/x?key=k"),
            (
                "https://a.b/",
                "/.well-known/x..y/...",
                "https://a.b/.well-known/x..y/...",
            ),
        ] {
            assert_eq!(resolved(base, path).as_deref(), Ok(url), "{base} {path}");
        }
        let query = [("q".to_owned(), "a&b=c#d".to_owned())];
        let url = scope("https://a.b/v1?key=k").resolve("/x", &query).unwrap();
        assert_eq!(url.as_str(), "https://a.b/v1/x?key=k&q=a%26b%3Dc%23d");
    }

    #[test]
    fn every_way_out_is_refused() {
        for path in [
            "..",
            "/..",
            "/../admin",
            "/a/../../admin",
            "/./a",
            "//evil.com/",
            "/a//b",
            "///evil.com",
            "https://evil.com/",
            "/https://evil.com/",
            "\\\\evil.com",
            "/\\evil.com",
            "/a\\..\\b",
            "/%2e%2e/admin",
            "/%2E%2e/",
            "/.%2e/",
            "/a%2f..%2fb",
            "/a%2Fb",
            "/a%5cb",
            "/%252e%252e/",
            "/%25252e%25252e/",
            "/..;/admin",
            "/..;a=b/admin",
            "/.. /admin",
            "/a?b=c",
            "/a#b",
            "/a%",
            "/a%2",
            "/a%zz",
            "/a%00",
            "/a%0d%0ab",
            "/a\nb",
            "/a\u{0}b",
            "/%ff",
        ] {
            for base in ["https://a.b/v1", "https://a.b/v1/", "https://a.b"] {
                assert!(resolved(base, path).is_err(), "{base} {path}");
            }
        }
    }

    #[test]
    fn only_the_own_origin_and_prefix_are_contained() {
        let scope = scope("https://a.b/v1");
        for (url, inside) in [
            ("https://a.b/v1", true),
            ("https://a.b:443/v1/x", true),
            ("https://a.b/v1/x?y#z", true),
            ("https://a.b/v10", false),
            ("https://a.b/v1/../v2", false),
            ("https://a.b/v1/%2e%2e/v2", false),
            ("https://a.b/v1/x%2f..%2f..%2fv2", false),
            ("https://a.b/", false),
            ("http://a.b/v1", false),
            ("https://a.b:8443/v1", false),
            ("https://b.a/v1", false),
            ("https://a.b.evil.com/v1", false),
            ("https://u@a.b/v1", false),
            ("https://u:p@a.b/v1", false),
        ] {
            assert_eq!(scope.contains(&url.parse().unwrap()), inside, "{url}");
        }
    }

    fn tricky_path() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            prop::sample::select(vec![
                "..", ".", "/", "//", "\\", "%2e", "%2E", "%2f", "%5c", "%25", "%", ";", "?", "#", "@", ":",
                "evil.com", "https:", " ", "\t", "\r\n", "%00", "%c0%ae", "\u{ff0e}", "\u{2215}", "a", "v1",
            ])
            .prop_map(str::to_owned),
            any::<char>().prop_map(String::from),
        ];
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn no_path_leaves_the_origin_or_the_prefix(path in tricky_path(), query in any::<(String, String)>()) {
            let base: Url = "https://a.b:8443/v1/deep".parse().unwrap();
            if let Ok(url) = Scope::new(base.clone()).resolve(&path, &[query]) {
                prop_assert_eq!(url.origin(), base.origin());
                prop_assert!(url.username().is_empty() && url.password().is_none());
                prop_assert!(url.path() == "/v1/deep" || url.path().starts_with("/v1/deep/"), "{}", url);
                // The path must stay below the prefix, however often a server decodes and normalizes it.
                let mut path = url.path().to_owned();
                for _ in 0..6 {
                    let again: Url = format!("https://a.b:8443{}", path.replace(['?', '#'], "_")).parse().unwrap();
                    prop_assert!(again.path().starts_with("/v1/deep"), "{} of {}", again, url);
                    path = percent_decode_str(again.path()).decode_utf8_lossy().into_owned();
                }
            }
        }

        #[test]
        fn a_plain_path_is_kept_as_it_is(segments in prop::collection::vec("[a-zA-Z0-9_~-]{1,8}", 1..6)) {
            let path = format!("/{}", segments.join("/"));
            let url = resolved("https://a.b/v1", &path);
            prop_assert_eq!(url, Ok(format!("https://a.b/v1{path}")));
        }

        #[test]
        fn a_redirect_is_contained_only_where_its_path_is_below(target in tricky_path()) {
            let base: Url = "https://a.b/v1/".parse().unwrap();
            let scope = Scope::new(base.clone());
            if let Ok(url) = base.join(&target)
                && scope.contains(&url)
            {
                prop_assert_eq!(url.origin(), base.origin());
                prop_assert!(url.path() == "/v1" || url.path().starts_with("/v1/"));
            }
        }
    }
}
