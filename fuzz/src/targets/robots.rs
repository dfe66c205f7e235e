//! robots.txt: the verdict on a path matches that of a slow reference implementation.
//!
//! The first line of the input is the path, the rest the file.

use rules::Rules;

use crate::{Bounds, Input, Line};

#[expect(dead_code, reason = "the memory of rules is counted here")]
#[path = "../../../crates/web/src/robots/rules.rs"]
mod rules;

const BOUNDS: Bounds = Bounds {
    memory: Line {
        base: 64 << 10,
        per_byte: 24,
    },
    // The base covers the maximum of 16 Mi steps for a verdict, each of which takes 100 ns in a fuzz build.
    time: Line {
        base: 1_600_000_000,
        per_byte: 400,
    },
};
/// Maximum size of a path and a file, in bytes.
const MOST: usize = 512 << 10;
/// Maximum size for the slow implementation, in bytes: too short for a pattern that exceeds the limit.
const SLOWLY: usize = 300;

/// Checks one input.
pub fn check(data: &[u8]) {
    let input = Input::repeated(data, MOST);
    let end = input.bytes.iter().position(|byte| *byte == b'\n');
    let (path, file) = input.bytes.split_at(end.unwrap_or(0));
    let path = format!("/{}", String::from_utf8_lossy(path));
    let allows = BOUNDS.hold(input.bytes.len(), || Rules::parse(file).allow(&path));
    if input.bytes.len() <= SLOWLY {
        assert_eq!(allows, slowly(file, &path), "another verdict on {path:?}");
    }
}

/// Names of a group, and its rules: whether they allow, and their pattern.
type Group = (Vec<String>, Vec<(bool, String)>);

/// Whether a file allows a path, by trying all possibilities.
fn slowly(file: &[u8], path: &str) -> bool {
    let file = String::from_utf8_lossy(file);
    let file = file.trim_start_matches('\u{feff}');
    let mut groups: Vec<Group> = Vec::new();
    for line in file.lines().flat_map(|line| line.split('\r')) {
        let line = line.split('#').next().unwrap_or_default();
        let Some((key, value)) = line.split_once(':') else {
            continue;
        };
        let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
        match (key.as_str(), groups.last_mut()) {
            ("user-agent", Some((names, rules))) if rules.is_empty() => names.push(value.to_owned()),
            ("user-agent", _) => groups.push((vec![value.to_owned()], Vec::new())),
            ("allow" | "disallow", Some((_, rules))) => rules.push((key == "allow", value.to_owned())),
            _ => {}
        }
    }
    let is_ours = |names: &[String]| {
        names.iter().any(|name| {
            let ends = |c: char| !(c.is_ascii_alphabetic() || c == '-' || c == '_');
            name.split(ends)
                .next()
                .is_some_and(|token| token.eq_ignore_ascii_case("sortie"))
        })
    };
    let named = groups.iter().any(|(names, _)| is_ours(names));
    let path = spelled(path);
    let mut verdict = (0, true);
    for (names, rules) in &groups {
        let counts = if named {
            is_ours(names)
        } else {
            names.iter().any(|name| name == "*")
        };
        for (allows, pattern) in rules.iter().filter(|(_, pattern)| counts && !pattern.is_empty()) {
            let (pattern, end) = match pattern.strip_suffix('$') {
                Some(pattern) => (spelled(pattern), true),
                None => (spelled(pattern), false),
            };
            if matches(&pattern, end, &path) {
                verdict = verdict.max((pattern.len() + usize::from(end) + 1, *allows));
            }
        }
    }
    path == b"/robots.txt" || verdict.1
}

/// Returns the canonical form of a path with a table of all characters and escapes.
fn spelled(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let digit = |at: usize| {
        let digit = char::from(*bytes.get(at)?).to_digit(16)?;
        u8::try_from(digit).ok()
    };
    let (mut out, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let escape = if bytes[at] == b'%' {
            digit(at + 1).zip(digit(at + 2))
        } else {
            None
        };
        let byte = escape.map_or(bytes[at], |(high, low)| high * 16 + low);
        let is_plain = match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => true,
            b'!'..=b'~' => escape.is_none(),
            _ => false,
        };
        if is_plain {
            out.push(byte);
        } else {
            out.extend(format!("%{byte:02X}").into_bytes());
        }
        at += if escape.is_some() { 3 } else { 1 };
    }
    out
}

/// Whether a pattern matches the path, or a prefix of it without an anchor. Uses a table of matching prefixes of the pattern and
/// the path.
fn matches(pattern: &[u8], end: bool, path: &[u8]) -> bool {
    let mut fits = vec![false; path.len() + 1];
    fits[0] = true;
    for byte in pattern {
        let mut next = vec![false; path.len() + 1];
        for at in 0..=path.len() {
            next[at] = if *byte == b'*' {
                fits[at] || (at > 0 && next[at - 1])
            } else {
                at > 0 && fits[at - 1] && path[at - 1] == *byte
            };
        }
        fits = next;
    }
    if end {
        fits[path.len()]
    } else {
        fits.contains(&true)
    }
}
