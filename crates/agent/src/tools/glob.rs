//! File name patterns: `*` and `?` within a segment, `**` across segments, `{a,b}`, `[a-z]`, `[!a-z]`.

use regex::{Regex, RegexBuilder};

/// The longest pattern, in bytes.
const PATTERN_BYTES: usize = 1_000;

/// A compiled pattern. Without `/` it matches the last segment of a path, otherwise the whole path.
#[derive(Debug)]
pub(super) struct Glob {
    regex: Regex,
    whole_path: bool,
}

impl Glob {
    /// Compiles a pattern, or returns its mistake.
    pub(super) fn new(pattern: &str) -> Result<Self, String> {
        if pattern.is_empty() || pattern.len() > PATTERN_BYTES {
            return Err(format!("must be 1 to {PATTERN_BYTES} bytes long"));
        }
        let bare = pattern.strip_prefix("./").unwrap_or(pattern);
        let regex = RegexBuilder::new(&translate(bare, Dialect::Names)?)
            .size_limit(1 << 20)
            .dot_matches_new_line(true)
            .build()
            .map_err(|_| "not a file name pattern".to_owned())?;
        Ok(Self {
            regex,
            whole_path: bare.contains('/'),
        })
    }

    pub(super) fn matches(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        self.regex.is_match(if self.whole_path { path } else { name })
    }
}

/// Kind of patterns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Patterns of the tools: with `{a,b}`.
    Names,
    /// Patterns of `.gitignore`: with `\` before a literal character.
    GitIgnore,
}

/// Translates a pattern to a regular expression, or returns its mistake.
pub(super) fn translate(pattern: &str, dialect: Dialect) -> Result<String, String> {
    let mut regex = "^".to_owned();
    let mut braces = 0_u32;
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        let before = pattern.get(..pattern.len() - rest.len()).unwrap_or_default();
        let begins_segment = before.is_empty() || before.ends_with('/');
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
        match c {
            '*' => {
                // Git treats two stars as one unless they are a whole segment.
                let segment = dialect == Dialect::Names || begins_segment;
                if let Some(after) = rest.strip_prefix("*/").filter(|_| segment) {
                    rest = after;
                    regex.push_str("(?:[^/]*/)*");
                } else if let Some(after) = rest.strip_prefix('*') {
                    rest = after;
                    let across = segment && (dialect == Dialect::Names || after.is_empty());
                    regex.push_str(if across { ".*" } else { "[^/]*" });
                } else {
                    regex.push_str("[^/]*");
                }
            }
            '?' => regex.push_str("[^/]"),
            '\\' if dialect == Dialect::GitIgnore => {
                let mut escaped = rest.chars();
                let Some(c) = escaped.next() else {
                    return Err("a `\\` without a character".to_owned());
                };
                regex.push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
                rest = escaped.as_str();
            }
            '{' if dialect == Dialect::Names => {
                braces += 1;
                regex.push_str("(?:");
            }
            '}' if braces > 0 => {
                braces -= 1;
                regex.push(')');
            }
            ',' if braces > 0 => regex.push('|'),
            '[' => rest = class(rest, &mut regex)?,
            other => regex.push_str(&regex::escape(other.encode_utf8(&mut [0; 4]))),
        }
    }
    if braces > 0 {
        return Err("a `{` without its `}`".to_owned());
    }
    regex.push('$');
    Ok(regex)
}

/// Translates a class after its `[`; returns the text after its `]`.
fn class<'a>(rest: &'a str, regex: &mut String) -> Result<&'a str, String> {
    let (negated, inner) = match rest.strip_prefix(['!', '^']) {
        Some(inner) => (true, inner),
        None => (false, rest),
    };
    // A `]` right at the start is literal.
    let end = inner
        .char_indices()
        .skip(1)
        .find(|(_, c)| *c == ']')
        .map(|(at, _)| at);
    let (members, after) = end
        .and_then(|end| inner.split_at_checked(end))
        .ok_or("a `[` without its `]`")?;
    regex.push_str(if negated { "[^/" } else { "[" });
    for c in members.chars() {
        if matches!(c, '[' | ']' | '\\' | '^' | '&' | '~') {
            regex.push('\\');
        }
        regex.push(c);
    }
    regex.push(']');
    Ok(after.strip_prefix(']').unwrap_or(after))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_match_what_their_users_expect() {
        for (pattern, path, matches) in [
            ("*.rs", "src/deep/main.rs", true),
            ("*.rs", "main.rsx", false),
            ("src/*.rs", "src/main.rs", true),
            ("src/*.rs", "src/deep/main.rs", false),
            ("src/**/*.rs", "src/main.rs", true),
            ("src/**/*.rs", "src/a/b/main.rs", true),
            ("**/test_*", "a/test_x", true),
            ("**", "a/b/c", true),
            ("*.{js,ts}", "a/b.ts", true),
            ("*.{js,ts}", "a/b.tsx", false),
            ("data-[0-9]?.csv", "data-17.csv", true),
            ("[!a]*", "b", true),
            ("[!a]*", "a", false),
            ("a.b", "axb", false),
            ("./src/*", "src/x", true),
            ("(a|b)+", "(a|b)+", true),
        ] {
            assert_eq!(
                Glob::new(pattern).unwrap().matches(path),
                matches,
                "{pattern} {path}"
            );
        }
        assert_eq!(Glob::new("a{b").unwrap_err(), "a `{` without its `}`");
        assert_eq!(Glob::new("a[b").unwrap_err(), "a `[` without its `]`");
    }

    proptest! {
        #[test]
        fn no_pattern_panics(pattern in "[a*?{}\\[\\]!^,/\\\\-]{0,20}", path in "[a/]{0,8}") {
            if let Ok(glob) = Glob::new(&pattern) {
                glob.matches(&path);
            }
        }

        #[test]
        fn a_name_without_special_characters_matches_itself_only(name in "[a-z.+()^$|]{1,8}", other in "[a-z.+()]{1,8}") {
            let glob = Glob::new(&name).unwrap();
            prop_assert!(glob.matches(&name));
            prop_assert_eq!(glob.matches(&other), name == other);
        }
    }
}
