//! Additions that models copy along with a piece of a file: line numbers, a fence, doubled escapes, character references of HTML.

use std::borrow::Cow;

/// The old and the new text, read in one way.
pub(super) struct Variant<'t> {
    pub(super) old: Cow<'t, str>,
    pub(super) new: Cow<'t, str>,
    /// The remark that reports it; empty for the original texts.
    pub(super) remark: &'static str,
}

/// Readings of the texts. The first is the original texts.
pub(super) fn variants<'t>(old: &'t str, new: &'t str) -> impl Iterator<Item = Variant<'t>> {
    let made = |(old, new): (String, String), remark| Variant {
        old: Cow::Owned(old),
        new: Cow::Owned(new),
        remark,
    };
    let given = Variant {
        old: Cow::Borrowed(old),
        new: Cow::Borrowed(new),
        remark: "",
    };
    std::iter::once(given)
        .chain(unnumbered(old, new).map(|texts| made(texts, "without its line numbers")))
        .chain(unfenced(old, new).map(|texts| made(texts, "without its fence")))
        .chain(unescaped(old, new).map(|texts| made(texts, "with its escapes read once more")))
        .chain(dereferenced(old, new).map(|texts| made(texts, "with its HTML character references read")))
}

/// Without the numbers before the lines, as `read_file`, `search_files`, `cat -n` and `grep -n` show them.
fn unnumbered(old: &str, new: &str) -> Option<(String, String)> {
    let (old, numbers) = without_numbers(old)?;
    let rising = numbers
        .windows(2)
        .all(|pair| matches!(pair, [a, b] if *b == *a + 1));
    if !rising {
        return None;
    }
    let new = match without_numbers(new) {
        Some((new, _)) => new,
        // Numbers before only some of the lines are text, or a mistake that cannot be resolved.
        None if new
            .lines()
            .any(|line| number(line).is_some_and(|(_, form, _)| form != Form::Colon)) =>
        {
            return None;
        }
        None => new.to_owned(),
    };
    Some((old, new))
}

/// Separator between a number and its line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Tab,
    Bar,
    Arrow,
    Colon,
}

fn without_numbers(text: &str) -> Option<(String, Vec<u64>)> {
    let mut numbers = Vec::new();
    let mut lines = Vec::new();
    let mut form = None;
    for line in text.lines() {
        let (number, this, rest) = number(line)?;
        if *form.get_or_insert(this) != this {
            return None;
        }
        numbers.push(number);
        lines.push(rest);
    }
    // A blank that every line has belongs to the separator.
    let spaced = matches!(form?, Form::Bar | Form::Colon)
        && lines.iter().all(|line| line.is_empty() || line.starts_with(' '));
    if spaced {
        lines = lines
            .iter()
            .map(|line| line.strip_prefix(' ').unwrap_or(line))
            .collect();
    }
    let mut out = lines.join("\n");
    if text.ends_with('\n') {
        out.push('\n');
    }
    Some((out, numbers))
}

/// The number before a line, its separator, and the line. A path may precede it, as `grep` writes it.
fn number(line: &str) -> Option<(u64, Form, &str)> {
    let plain = |line: &str| {
        let line = line.trim_start_matches([' ', 'L']);
        let digits = line.bytes().take_while(u8::is_ascii_digit).count();
        (1..=7).contains(&digits).then_some(())?;
        let (digits, rest) = line.split_at_checked(digits)?;
        Some((digits.parse().ok()?, rest.len()))
    };
    let of = |line: &'_ str| -> Option<(u64, Form, usize)> {
        let (number, rest) = plain(line)?;
        let rest = line.get(line.len() - rest..)?;
        let form = match rest.chars().next()? {
            '\t' => Form::Tab,
            '|' | '│' => Form::Bar,
            '→' => Form::Arrow,
            ':' => Form::Colon,
            _ => return None,
        };
        Some((number, form, rest.len() - rest.chars().next()?.len_utf8()))
    };
    let found = of(line).or_else(|| {
        let (path, rest) = line.split_once(':')?;
        let is_path = !path.is_empty() && !path.contains([' ', '\t', '"', '\'', '(']);
        is_path
            .then(|| of(rest))
            .flatten()
            .filter(|(_, form, _)| *form == Form::Colon)
    });
    let (number, form, rest) = found?;
    Some((number, form, line.get(line.len() - rest..)?))
}

/// Without the lines of backticks around it.
fn unfenced(old: &str, new: &str) -> Option<(String, String)> {
    let inner = |text: &str| {
        let text = text.trim();
        let (opening, rest) = text.strip_prefix("```")?.split_once('\n')?;
        let inner = rest.strip_suffix("```")?;
        (!opening.contains('`') && inner.ends_with('\n')).then(|| inner.to_owned())
    };
    Some((inner(old)?, inner(new).unwrap_or_else(|| new.to_owned())))
}

/// With doubled escapes undone, such as `\n` for a line break.
fn unescaped(old: &str, new: &str) -> Option<(String, String)> {
    let read = |text: &str| {
        if is_escaped(text) {
            unescape(text)
        } else {
            text.to_owned()
        }
    };
    is_escaped(old).then(|| (unescape(old), read(new)))
}

/// Whether a text is escaped as a whole: it contains escapes, but not the characters that they encode.
fn is_escaped(text: &str) -> bool {
    let mut quotes = text.match_indices('"');
    let escapes = ["\\n", "\\t", "\\\""].iter().any(|escape| text.contains(escape));
    escapes
        && !text.contains(['\n', '\t'])
        && quotes.all(|(at, _)| text.get(..at).is_some_and(|before| before.ends_with('\\')))
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some(c @ ('"' | '\\' | '\'' | '/')) => out.push(c),
            Some(other) => out.extend(['\\', other]),
            None => out.push('\\'),
        }
    }
    out
}

/// With HTML character references decoded, such as `&amp;`. If the old text has a reference for a character that the new text
/// contains bare, the new text was not written in references.
fn dereferenced(old: &str, new: &str) -> Option<(String, String)> {
    let read = html_escape::decode_html_entities(old);
    if read == old {
        return None;
    }
    let is_referenced = |c: char| read.matches(c).count() > old.matches(c).count();
    let is_bare = read.contains('&') && has_bare_ampersand(new)
        || ['<', '>', '"', '\'']
            .iter()
            .any(|c| is_referenced(*c) && new.contains(*c));
    let new = if is_bare {
        new.into()
    } else {
        html_escape::decode_html_entities(new)
    };
    Some((read.into_owned(), new.into_owned()))
}

/// Whether an ampersand begins no reference.
fn has_bare_ampersand(text: &str) -> bool {
    text.match_indices('&').any(|(at, _)| {
        let rest = text.get(at + 1..).unwrap_or_default();
        let name = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '#');
        !name.starts_with(';') || name.len() == rest.len()
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn line_numbers_are_taken_off_where_all_lines_have_them() {
        for (text, plain) in [
            ("     2\ttwo\n     3\t  three", Some("two\n  three")),
            ("  1|line1\n  2|line2", Some("line1\nline2")),
            ("12: a\n13:   b\n14:", Some("a\n  b\n")),
            ("src/a.rs:7: fn a() {", Some("fn a() {")),
            ("7\u{2192}\tx\n", Some("\tx\n")),
            ("L3: a\nL4: b", Some("a\nb")),
            ("1: a\nb", None),
            ("1\ta\n2: b", None),
            ("a: 1", None),
            ("", None),
        ] {
            assert_eq!(
                without_numbers(text).map(|(text, _)| text).as_deref(),
                plain,
                "{text:?}"
            );
        }
        assert_eq!(unnumbered("1\ta\n3\tb", ""), None);
        assert_eq!(unnumbered("1\ta\n2\tb", "1\ta\nx\n2\tb"), None);
        assert_eq!(unnumbered("1\ta", "b"), Some(("a".to_owned(), "b".to_owned())));
    }

    #[test]
    fn escapes_are_read_once_more_where_the_whole_text_has_them() {
        let (old, new) = unescaped(r#"a(\"x\");\nb();"#, r#"a(\"y\");\nb();"#).unwrap();
        assert_eq!(
            (old.as_str(), new.as_str()),
            ("a(\"x\");\nb();", "a(\"y\");\nb();")
        );
        // The new text has correct line breaks: apparent escapes in it are text.
        let (_, new) = unescaped(r"a\nb", "print('\\n')\nc").unwrap();
        assert_eq!(new, "print('\\n')\nc");
        assert_eq!(unescaped("print(\"a\\n\")", "x"), None);
        assert_eq!(unescaped("a\\nb\nc", "x"), None);
    }

    #[test]
    fn character_references_are_read_where_the_whole_call_has_them() {
        let both = |old: &str, new: &str| dereferenced(old, new);
        let pair = |old: &str, new: &str| Some((old.to_owned(), new.to_owned()));
        assert_eq!(both("a &amp;&amp; b", "a &amp;&amp; c"), pair("a && b", "a && c"));
        assert_eq!(both("if (a &lt; 1)", "if (b)"), pair("if (a < 1)", "if (b)"));
        assert_eq!(
            both("&quot;a&#39;s&quot;", "&quot;b&quot;"),
            pair("\"a's\"", "\"b\"")
        );
        // A new text with bare characters is literal.
        assert_eq!(both("a &lt; b", "<p>&lt;</p>"), pair("a < b", "<p>&lt;</p>"));
        assert_eq!(both("a &amp; b", "a & &amp; b"), pair("a & b", "a & &amp; b"));
        assert_eq!(both("a && b", "a &amp; b"), None);
    }

    proptest! {
        #[test]
        fn no_text_panics(old in any::<String>(), new in "[0-9:\t|a\n\\\\\"`]{0,20}") {
            for variant in variants(&old, &new).chain(variants(&new, &old)) {
                prop_assert!(variant.old.len() <= old.len().max(new.len()) + 1);
            }
        }
    }
}
