//! The rules of a robots.txt according to RFC 9309: the groups of our name, or otherwise those for all crawlers. The longest rule
//! that matches a path applies; of two with the same length, the one that allows.
//!
//! Matching a rule takes time linear in the path and its pattern. The number of rules and the length of patterns are limited.
//! Beyond the limits, we treat paths as forbidden.

use std::fmt::Write as _;

/// Our name in the groups.
const TOKEN: &str = "sortie";
/// Maximum number of bytes to read from a file: the minimum of the RFC.
pub(super) const MAX_BYTES: usize = 500 * 1024;
/// Maximum number of rules for us. We do not fetch from a site with more.
const RULES: usize = 5_000;
/// Maximum length of a normalized pattern, in bytes. A longer pattern is truncated if it forbids, and ignored if it allows.
const PATTERN_BYTES: usize = 8 * 1024;
/// Maximum number of steps for a path. A path that takes more is forbidden.
const STEPS: usize = 16 << 20;
/// Memory of a rule in addition to its pattern, in bytes.
const RULE_BYTES: usize = 64;

/// Rules of a site for this crawler.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Rules(Vec<Rule>);

#[derive(Debug, PartialEq, Eq)]
struct Rule {
    /// Normalized, without the `$` that anchors it to the end of the path.
    pattern: String,
    to_end: bool,
    verdict: Verdict,
}

/// Ordered such that allowing wins among rules with the same length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Disallow,
    Allow,
}

/// Crawlers that a group applies to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Audience {
    Us,
    Everybody,
    Others,
}

impl Rules {
    /// Parses a file and ignores lines that it does not understand.
    pub(super) fn parse(file: &[u8]) -> Self {
        let file = file.get(..MAX_BYTES).unwrap_or(file);
        let file = String::from_utf8_lossy(file);
        let (mut ours, mut for_all) = (Vec::new(), Vec::new());
        let mut named = false;
        // The audience of the current group, and whether more names can follow.
        let (mut audience, mut naming) = (Vec::new(), false);
        for line in file.trim_start_matches('\u{feff}').split(['\r', '\n']) {
            let line = line.split_once('#').map_or(line, |(before, _)| before);
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            let value = value.trim();
            let verdict = match key.trim().to_ascii_lowercase().as_str() {
                "user-agent" => {
                    if !naming {
                        audience.clear();
                    }
                    naming = true;
                    let who = audience_of(value);
                    named |= who == Audience::Us;
                    audience.push(who);
                    continue;
                }
                "allow" => Verdict::Allow,
                "disallow" => Verdict::Disallow,
                // Other lines do not end the list of names.
                _ => continue,
            };
            naming = false;
            // An empty pattern matches nothing.
            if value.is_empty() {
                continue;
            }
            let rules = if audience.contains(&Audience::Us) {
                &mut ours
            } else if audience.contains(&Audience::Everybody) {
                &mut for_all
            } else {
                continue;
            };
            // A single rule above the limit is enough to detect that there are too many.
            if rules.len() <= RULES {
                rules.extend(Rule::new(value, verdict));
            }
        }
        let rules = if named { ours } else { for_all };
        if rules.len() > RULES {
            return Self(Rule::new("/", Verdict::Disallow).into_iter().collect());
        }
        Self(rules)
    }

    /// Returns the memory of the rules, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let of = |rule: &Rule| RULE_BYTES + rule.pattern.len();
        RULE_BYTES + self.0.iter().map(of).sum::<usize>()
    }

    /// Whether a path with its query may be fetched.
    pub(super) fn allow(&self, path: &str) -> bool {
        let path = normalize(path);
        if path == "/robots.txt" {
            return true;
        }
        let mut steps = 0;
        let mut longest = None;
        for rule in &self.0 {
            if rule.matches(&path, &mut steps) {
                let length = rule.pattern.len() + usize::from(rule.to_end);
                longest = longest.max(Some((length, rule.verdict)));
            }
            if steps > STEPS {
                return false;
            }
        }
        longest.is_none_or(|(_, verdict)| verdict == Verdict::Allow)
    }
}

fn audience_of(value: &str) -> Audience {
    let end = value.find(|c: char| !c.is_ascii_alphabetic() && !matches!(c, '-' | '_'));
    let token = value.get(..end.unwrap_or(value.len())).unwrap_or_default();
    if token.eq_ignore_ascii_case(TOKEN) {
        Audience::Us
    } else if value == "*" {
        Audience::Everybody
    } else {
        Audience::Others
    }
}

impl Rule {
    /// `None` for an allowing rule that is too long.
    fn new(pattern: &str, verdict: Verdict) -> Option<Self> {
        let (pattern, mut to_end) = match pattern.strip_suffix('$') {
            Some(pattern) => (pattern, true),
            None => (pattern, false),
        };
        let mut pattern = normalize(pattern);
        if pattern.len() > PATTERN_BYTES {
            if verdict == Verdict::Allow {
                return None;
            }
            // A truncated pattern without an anchor forbids more.
            pattern.truncate(PATTERN_BYTES);
            pattern.shrink_to_fit();
            to_end = false;
        }
        Some(Self {
            pattern,
            to_end,
            verdict,
        })
    }

    /// Matches in one pass over the path: each piece between asterisks is searched after the end of the previous one. `steps`
    /// counts the examined bytes of the path and the pieces of the pattern.
    fn matches(&self, path: &str, steps: &mut usize) -> bool {
        let mut pieces = self.pattern.split('*');
        let first = pieces.next().unwrap_or_default();
        *steps += 1 + first.len().min(path.len());
        let Some(mut rest) = path.strip_prefix(first) else {
            return false;
        };
        let mut pieces = pieces.peekable();
        if pieces.peek().is_none() {
            return !self.to_end || rest.is_empty();
        }
        while let Some(piece) = pieces.next() {
            if self.to_end && pieces.peek().is_none() {
                *steps += 1 + piece.len().min(rest.len());
                return rest.ends_with(piece);
            }
            let found = rest.split_once(piece);
            *steps += 1 + rest.len() - found.map_or(0, |(_, after)| after.len());
            match found {
                Some((_, after)) => rest = after,
                None => return false,
            }
        }
        true
    }
}

/// Returns the canonical form of a path: percent-encoding only if necessary, in upper case.
fn normalize(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut bytes = text.as_bytes();
    while let Some((byte, after)) = bytes.split_first() {
        let encoded = match (byte, after) {
            (b'%', [high, low, ..]) => hex(*high).zip(hex(*low)).map(|(high, low)| high << 4 | low),
            _ => None,
        };
        bytes = if encoded.is_some() {
            after.get(2..).unwrap_or_default()
        } else {
            after
        };
        let byte = encoded.unwrap_or(*byte);
        let unreserved = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        if unreserved || (encoded.is_none() && byte.is_ascii_graphic()) {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn allows(file: &str, path: &str) -> bool {
        Rules::parse(file.as_bytes()).allow(path)
    }

    #[test]
    fn the_longest_rule_decides_and_of_two_the_one_that_allows() {
        let file = "User-agent: *\nDisallow: /a\nAllow: /a/b\nDisallow: /a/b/c$\nAllow: /x\nDisallow: /x\n";
        for (path, allowed) in [
            ("/", true),
            ("/a", false),
            ("/ab", false),
            ("/a/b", true),
            ("/a/b/c", false),
            ("/a/b/cd", true),
            ("/x", true),
            ("/robots.txt", true),
        ] {
            assert_eq!(allows(file, path), allowed, "{path}");
        }
        assert!(allows("User-agent: *\nDisallow: /\n", "/robots.txt"));
        assert!(!allows("User-agent: *\nDisallow: /\n", "/"));
    }

    #[test]
    fn our_groups_replace_those_for_everybody_and_count_together() {
        let file = "user-agent: *\ndisallow: /all\n\nUser-Agent: other\nUser-agent: SORTIE/1.0\nDisallow: /one\n\
                    Crawl-delay: 5\nuser-agent: sortie\nDisallow: /two\nUser-agent: sortiebot\nDisallow: /three\n";
        for (path, allowed) in [("/all", true), ("/one", false), ("/two", false), ("/three", true)] {
            assert_eq!(allows(file, path), allowed, "{path}");
        }
        assert!(allows(
            "User-agent: sortie\nUser-agent: *\nAllow: /\nDisallow:\n",
            "/x"
        ));
        // A group for us without a rule allows everything.
        assert!(allows(
            "User-agent: *\nDisallow: /\nUser-agent: sortie\nDisallow:\n",
            "/x"
        ));
        // Rules before the first group do not apply.
        assert!(allows("Disallow: /\n", "/x"));
    }

    #[test]
    fn asterisks_and_ends_are_understood() {
        for (pattern, path, matches) in [
            ("/*.gif$", "/a/b.gif", true),
            ("/*.gif$", "/a/b.gif?x", false),
            ("/*.gif", "/a/b.gif?x", true),
            ("/a*b*c", "/a1b2c3", true),
            ("/a*b*c", "/acb", false),
            ("/a*a$", "/a", false),
            ("/a*$", "/ab", true),
            ("*/x", "/y/x", true),
            ("/*", "/", true),
            ("/$", "/", true),
            ("/$", "/a", false),
            ("/a%3Cb", "/a%3cb", true),
            ("/%7Ename", "/~name", true),
            ("/ä", "/%C3%A4", true),
            ("/a%2Fb", "/a/b", false),
        ] {
            let file = format!("\u{feff}User-agent: *\r\nDisallow: {pattern} # why\r\n");
            assert_eq!(!allows(&file, path), matches, "{pattern} {path}");
        }
    }

    #[test]
    fn a_path_that_takes_too_many_steps_is_forbidden() {
        let file = "User-agent: *\n".to_owned() + &"Disallow: /*ab\n".repeat(RULES);
        let rules = Rules::parse(file.as_bytes());
        assert_eq!(rules.0.len(), RULES);
        let path = |length: usize| "/".to_owned() + &"a".repeat(length);
        let mut steps = 0;
        for rule in &rules.0 {
            assert!(!rule.matches(&path(1_000), &mut steps));
        }
        assert!(steps <= RULES * (1_000 + 10), "{steps}");
        assert!(rules.allow(&path(1_000)));
        assert!(!rules.allow(&path(STEPS / RULES)));
    }

    #[test]
    fn a_site_with_too_many_rules_is_closed() {
        let file = |rules: usize| "User-agent: *\n".to_owned() + &"Disallow: /x\n".repeat(rules);
        assert!(allows(&file(RULES), "/y"));
        assert!(!allows(&file(RULES + 1), "/y"));
        assert!(allows(&file(RULES + 1), "/robots.txt"));
        // Rules for other crawlers do not count.
        let others = file(RULES + 1) + "User-agent: sortie\nDisallow: /x\n";
        assert!(allows(&others, "/y") && !allows(&others, "/x"));
    }

    #[test]
    fn a_pattern_that_is_too_long_forbids_more_and_allows_nothing() {
        let long = "/".to_owned() + &"a".repeat(PATTERN_BYTES);
        let file = format!("User-agent: *\nDisallow: {long}bc$\n");
        assert!(!allows(&file, &long) && !allows(&file, &(long.clone() + "x")));
        assert!(allows(&file, "/aaa"));
        let file = format!("User-agent: *\nDisallow: /\nAllow: {long}\n");
        assert!(!allows(&file, &(long + "x")));
    }

    /// Reference implementation that tries all possibilities.
    fn matches_slowly(pattern: &[u8], to_end: bool, path: &[u8]) -> bool {
        match (pattern.split_first(), path.split_first()) {
            (None, rest) => !to_end || rest.is_none(),
            (Some((b'*', after)), rest) => {
                matches_slowly(after, to_end, path)
                    || rest.is_some_and(|(_, path)| matches_slowly(pattern, to_end, path))
            }
            (Some((a, after)), Some((b, path))) => a == b && matches_slowly(after, to_end, path),
            (Some(_), None) => false,
        }
    }

    proptest! {
        #[test]
        fn no_file_and_no_path_make_it_panic(file in any::<Vec<u8>>(), path in any::<String>()) {
            let _allowed = Rules::parse(&file).allow(&path);
        }

        #[test]
        fn files_that_look_like_robots_make_no_panic(
            lines in prop::collection::vec("(User-agent|Allow|Disallow|Sitemap|):? ?(\\*|sortie|/[a-z*$%#]{0,6})?", 0..20),
            path in "/[a-z%*$]{0,8}",
        ) {
            let _allowed = Rules::parse(lines.join("\n").as_bytes()).allow(&path);
        }

        #[test]
        fn a_pattern_matches_what_trying_everything_finds(pattern in "/[ab*]{0,8}\\$?", path in "/[ab]{0,8}") {
            let rule = Rule::new(&pattern, Verdict::Allow).unwrap();
            let slowly = matches_slowly(rule.pattern.as_bytes(), rule.to_end, path.as_bytes());
            prop_assert_eq!(rule.matches(&path, &mut 0), slowly);
        }

        #[test]
        fn a_rule_looks_at_each_byte_once(pattern in "/[ab*]{0,60}\\$?", path in "/[ab]{0,200}") {
            let rule = Rule::new(&pattern, Verdict::Allow).unwrap();
            let mut steps = 0;
            let _matches = rule.matches(&path, &mut steps);
            prop_assert!(steps <= 1 + path.len() + pattern.len(), "{}", steps);
        }

        #[test]
        fn a_normal_path_stays_as_it_is(text in any::<String>()) {
            let once = normalize(&text);
            prop_assert_eq!(normalize(&once), once);
        }
    }
}
