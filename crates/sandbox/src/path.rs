//! Paths inside a working directory.

use std::fmt;

use sortie_api::file::is_seen_whole;

/// A relative, `/`-separated path that cannot leave its directory and does not disguise itself: no `..`, no `.`, no empty
/// segment, no control or invisible character, not absolute, at most 1,024 bytes. Hostile paths are rejected here.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelPath(String);

/// Reason why a text is no [`RelPath`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPath {
    /// Nothing at all.
    #[error("must not be empty")]
    Empty,
    /// More than 1,024 bytes.
    #[error("must be at most 1024 bytes")]
    TooLong,
    /// Starts with `/`.
    #[error("must be relative, without a leading `/`")]
    Absolute,
    /// A `..` segment.
    #[error("must not contain `..`")]
    Parent,
    /// An empty or `.` segment.
    #[error("must not contain empty or `.` segments")]
    EmptySegment,
    /// NUL, newline, escape …
    #[error("must not contain control characters")]
    Control,
    /// A character without width, or one that changes the direction of text.
    #[error("must not contain invisible characters or such that change the direction of text")]
    Invisible,
    /// A segment longer than a file system takes.
    #[error("a segment must be at most 255 bytes")]
    SegmentTooLong,
}

impl RelPath {
    /// Parses a path, or returns the rule that it breaks.
    pub fn new(text: &str) -> Result<Self, InvalidPath> {
        if text.is_empty() {
            return Err(InvalidPath::Empty);
        }
        if text.len() > 1_024 {
            return Err(InvalidPath::TooLong);
        }
        if text.chars().any(char::is_control) {
            return Err(InvalidPath::Control);
        }
        if text.starts_with('/') {
            return Err(InvalidPath::Absolute);
        }
        for segment in text.split('/') {
            // As in the name of a saved file: each segment is one.
            if !is_seen_whole(segment) {
                return Err(InvalidPath::Invisible);
            }
            match segment {
                ".." => return Err(InvalidPath::Parent),
                "" | "." => return Err(InvalidPath::EmptySegment),
                _ if segment.len() > 255 => return Err(InvalidPath::SegmentTooLong),
                _ => {}
            }
        }
        Ok(Self(text.to_owned()))
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hostile_paths_are_refused_with_the_rule_they_break() {
        for (text, rule) in [
            ("", InvalidPath::Empty),
            ("/etc/shadow", InvalidPath::Absolute),
            ("..", InvalidPath::Parent),
            ("a/../b", InvalidPath::Parent),
            ("a//b", InvalidPath::EmptySegment),
            ("a/", InvalidPath::EmptySegment),
            ("./a", InvalidPath::EmptySegment),
            ("a\0b", InvalidPath::Control),
            ("a\nb", InvalidPath::Control),
            ("photo\u{202e}gpj.exe", InvalidPath::Invisible),
            ("\u{feff}a.txt", InvalidPath::Invisible),
            ("a\u{2028}b", InvalidPath::Invisible),
            ("a/\u{2066}b", InvalidPath::Invisible),
            ("a\u{200d}b", InvalidPath::Invisible),
            ("é\u{200d}/é", InvalidPath::Invisible),
        ] {
            assert_eq!(RelPath::new(text), Err(rule), "{text:?}");
        }
        assert_eq!(RelPath::new(&"a".repeat(1_025)), Err(InvalidPath::TooLong));
        assert_eq!(RelPath::new(&"a".repeat(256)), Err(InvalidPath::SegmentTooLong));
        assert!(RelPath::new("data/sales 2026.csv").is_ok());
        assert!(RelPath::new("..a/b..").is_ok());
        // Joiners are part of a picture and of a Persian word.
        assert!(RelPath::new("👩\u{200d}💻/می\u{200c}خواهم.txt").is_ok());
    }

    proptest! {
        #[test]
        fn an_accepted_path_never_leaves_its_directory(text in "[a./\\\\ ]{0,12}") {
            if let Ok(path) = RelPath::new(&text) {
                prop_assert!(!path.as_str().starts_with('/'));
                prop_assert!(path.as_str().split('/').all(|s| !s.is_empty() && s != "." && s != ".."));
            }
        }
    }
}
