//! JSON as models nearly write it, parsed only if it is unambiguous.
//!
//! Accepted are raw control characters in strings, trailing commas, single and typographic quotes, names without quotes, the
//! words of Python, half surrogate pairs (as U+FFFD), backslashes of regular expressions, and, unless the text can have been cut
//! off, an end without its closing brackets. Anything else is refused with the field and the rule: a string with a bare quotation
//! mark in it is ambiguous.

use std::fmt::{self, Write as _};

use crate::surrogates::unit_at;

/// Levels of nesting that are read.
const DEPTH: usize = 128;
/// Bytes of the text that an error quotes.
const QUOTED: usize = 24;
/// Bytes of a field's name in an error.
const NAME: usize = 60;

/// Treatment of a text that ends before its brackets are closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    /// Refuses it: the end of the text may be missing.
    Required,
    /// Adds the missing brackets after a complete value.
    Implied,
}

/// Reason why a text has no single meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable {
    /// The outermost field that it is in; empty outside of any.
    field: String,
    /// The rule, as a sentence without its end.
    rule: &'static str,
    /// The text at that place.
    near: String,
    /// Offset at which reading stopped.
    pub(crate) at: usize,
    /// Whether the text ended too early.
    pub(crate) is_cut: bool,
}

impl Unreadable {
    /// The field in which the text ended too early, or a word for all of it.
    pub(crate) fn field(&self) -> &str {
        if self.field.is_empty() {
            "the JSON object"
        } else {
            &self.field
        }
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field(), self.rule)?;
        if !self.near.is_empty() {
            write!(f, "; see {:?}", self.near)?;
        }
        Ok(())
    }
}

impl std::error::Error for Unreadable {}

/// Parses `text` as one JSON object, and returns it on one line. Ignores a fence around it, surplus closing brackets and a second
/// copy after it, and adjacent empty objects. An object within a JSON string is extracted.
pub(crate) fn object(text: &str, closing: Closing) -> Result<String, Unreadable> {
    let text = unfenced(text);
    let (first, mut at) = value(text, 0, closing)?;
    let first = match decoded(&first) {
        Some(inner) => whole(&inner, closing)?,
        None => first,
    };
    // No arguments at all.
    let first = if matches!(first.as_str(), "null" | "\"\"" | "[]") {
        "{}".to_owned()
    } else {
        first
    };
    let mut objects = vec![first];
    loop {
        at = skip_white(text, at);
        let rest = text.get(at..).unwrap_or_default();
        if rest
            .trim_start_matches(['}', ']', ' ', '\t', '\r', '\n'])
            .is_empty()
        {
            break;
        }
        if !rest.starts_with('{') {
            return Err(refused(text, at, "nothing may follow the JSON object"));
        }
        let (next, end) = value(text, at, closing)?;
        if !objects.contains(&next) {
            objects.push(next);
        }
        if objects.len() > 3 {
            break;
        }
        at = end;
    }
    if objects.iter().any(|object| !object.starts_with('{')) {
        return Err(refused(text, 0, "must be a JSON object"));
    }
    if objects.len() > 1 {
        objects.retain(|object| object != "{}");
    }
    match (objects.pop(), objects.is_empty()) {
        (Some(object), true) => Ok(object),
        _ => Err(refused(text, at, "there must be one JSON object, not several")),
    }
}

/// Parses `text` as one JSON value, or one within a JSON string, and returns it on one line.
pub(crate) fn whole(text: &str, closing: Closing) -> Result<String, Unreadable> {
    let (json, end) = value(text, 0, closing)?;
    let end = skip_white(text, end);
    if end < text.len() {
        return Err(refused(text, end, "nothing may follow the JSON value"));
    }
    Ok(json)
}

/// The text of a JSON string that holds an object or a list.
pub(crate) fn decoded(json: &str) -> Option<String> {
    let inner: String = serde_json::from_str(json).ok()?;
    inner.trim_start().starts_with(['{', '[']).then_some(inner)
}

/// Reads the JSON value at the offset `from`, after white space. Returns it on one line, and the offset of its end.
pub(crate) fn value(text: &str, from: usize, closing: Closing) -> Result<(String, usize), Unreadable> {
    let mut reader = Reader {
        text,
        at: from,
        out: String::new(),
        levels: Vec::new(),
        field: None,
        comma: false,
    };
    let mut next = Next::Value;
    loop {
        reader.at = skip_white(text, reader.at);
        next = match reader.step(next, closing)? {
            Some(next) => next,
            None => return Ok((reader.out, reader.at)),
        };
    }
}

fn skip_white(text: &str, at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.len()
        - rest
            .trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}')
            .len()
}

/// The text within a fence that is around all of it.
fn unfenced(text: &str) -> &str {
    let trimmed = text.trim();
    let inner = trimmed
        .strip_prefix("```")
        .and_then(|rest| rest.strip_suffix("```"))
        .and_then(|rest| rest.split_once('\n'));
    match inner {
        Some((info, inner)) if !info.contains(['{', '`']) => inner,
        Some(_) | None => trimmed,
    }
}

fn refused(text: &str, at: usize, rule: &'static str) -> Unreadable {
    Unreadable {
        field: String::new(),
        rule,
        near: quoted(text, at),
        at,
        is_cut: false,
    }
}

fn quoted(text: &str, at: usize) -> String {
    let from = text.floor_char_boundary(at.saturating_sub(QUOTED / 2));
    let rest = text.get(from..).unwrap_or_default();
    rest.get(..rest.floor_char_boundary(QUOTED))
        .unwrap_or(rest)
        .to_owned()
}

/// Whether a string can begin with this character.
fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\'' | '\u{201c}' | '\u{2018}')
}

/// The quotation mark that ends a string which begins with `open`.
fn closing_quote(open: char) -> char {
    match open {
        '\u{201c}' => '\u{201d}',
        '\u{2018}' => '\u{2019}',
        straight => straight,
    }
}

/// Parts of JSON that may come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Value,
    /// A value of a list, or its end.
    Item,
    /// A field's name, or the end of the object.
    Name,
    Colon,
    /// A comma, or the end of the object or list.
    Comma,
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    out: String,
    /// The closing brackets that are due, the innermost last.
    levels: Vec<char>,
    /// The name of the outermost field, as a range of `out`.
    field: Option<(usize, usize)>,
    /// Whether a comma is due before what comes next.
    comma: bool,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Reads one part. `None` at the end of the value.
    fn step(&mut self, next: Next, closing: Closing) -> Result<Option<Next>, Unreadable> {
        let Some(c) = self.rest().chars().next() else {
            if next == Next::Comma && closing == Closing::Implied {
                self.out
                    .extend(std::mem::take(&mut self.levels).into_iter().rev());
                return Ok(None);
            }
            return Err(self.cut());
        };
        match (next, c) {
            (Next::Value | Next::Item, '{') => self.open('}', Next::Name),
            (Next::Value | Next::Item, '[') => self.open(']', Next::Item),
            (Next::Value | Next::Item, c) if is_quote(c) => {
                self.separate();
                self.string(c)?;
                Ok(self.ended())
            }
            (Next::Value | Next::Item, c) if c.is_ascii_alphanumeric() || c == '-' => {
                self.separate();
                self.word()?;
                Ok(self.ended())
            }
            (Next::Item, ']') | (Next::Name, '}') => Ok(self.close(c)),
            (Next::Name, c) if is_quote(c) => self.name(c),
            (Next::Name, c) if c.is_ascii_alphabetic() || matches!(c, '_' | '$') => self.name(c),
            (Next::Colon, ':') => {
                self.at += 1;
                self.out.push(':');
                Ok(Some(Next::Value))
            }
            (Next::Comma, ',') => {
                self.at += 1;
                self.comma = true;
                let within = self.levels.last();
                Ok(Some(if within == Some(&'}') { Next::Name } else { Next::Item }))
            }
            (Next::Comma, c) if self.levels.last() == Some(&c) => Ok(self.close(c)),
            (Next::Comma, _) => Err(self.refused(if self.out.ends_with('"') {
                "a string ends at its first bare quotation mark, and then , or a closing bracket must follow; write one \
                 within the string as \\\""
            } else {
                "a comma or a closing bracket must follow the value"
            })),
            (Next::Colon, _) => Err(self.refused("a colon must follow the name of a field")),
            (Next::Name, _) => Err(self.refused("the name of a field must be a string in quotation marks")),
            (Next::Value | Next::Item, _) => {
                Err(self.refused("must be a JSON value; text goes in quotation marks"))
            }
        }
    }

    fn open(&mut self, close: char, next: Next) -> Result<Option<Next>, Unreadable> {
        if self.levels.len() == DEPTH {
            return Err(self.refused("must not be nested deeper than 128 levels"));
        }
        self.separate();
        self.at += 1;
        self.out.push(if close == '}' { '{' } else { '[' });
        self.levels.push(close);
        Ok(Some(next))
    }

    fn close(&mut self, close: char) -> Option<Next> {
        self.at += 1;
        self.comma = false;
        self.levels.pop();
        self.out.push(close);
        self.ended()
    }

    fn ended(&self) -> Option<Next> {
        (!self.levels.is_empty()).then_some(Next::Comma)
    }

    /// Writes the comma that is due.
    fn separate(&mut self) {
        if std::mem::take(&mut self.comma) {
            self.out.push(',');
        }
    }

    fn name(&mut self, first: char) -> Result<Option<Next>, Unreadable> {
        self.separate();
        let from = self.out.len();
        if is_quote(first) {
            self.string(first)?;
        } else {
            let rest = self.rest();
            let is_named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '-');
            let name = rest
                .get(..rest.len() - rest.trim_start_matches(is_named).len())
                .unwrap_or_default();
            self.at += name.len();
            self.out.extend(["\"", name, "\""]);
        }
        if self.levels.len() == 1 {
            self.field = Some((from, self.out.len()));
        }
        Ok(Some(Next::Colon))
    }

    /// Reads a number or a constant, also as Python writes it.
    fn word(&mut self) -> Result<(), Unreadable> {
        let rest = self.rest();
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '+' | '-' | '.');
        let word = rest
            .get(..rest.len() - rest.trim_start_matches(is_word).len())
            .unwrap_or_default();
        let json = match word {
            "True" => "true",
            "False" => "false",
            "None" => "null",
            word if serde_json::from_str::<serde::de::IgnoredAny>(word).is_ok() => word,
            _ => return Err(self.refused("must be a JSON value; text goes in quotation marks")),
        };
        self.at += word.len();
        self.out.push_str(json);
        Ok(())
    }

    /// Reads a string that begins with the quotation mark `open`.
    fn string(&mut self, open: char) -> Result<(), Unreadable> {
        let close = closing_quote(open);
        self.at += open.len_utf8();
        self.out.push('"');
        let (mut has_plain, mut has_odd) = (false, None);
        loop {
            let rest = self.rest();
            let special = |c: char| c == close || c == open || c == '\\' || c == '"' || c < ' ';
            let Some(plain) = rest.find(special) else {
                self.at = self.text.len();
                return Err(self.cut());
            };
            self.out.push_str(rest.get(..plain).unwrap_or_default());
            self.at += plain;
            let Some(c) = self.rest().chars().next() else {
                return Err(self.cut());
            };
            match c {
                '\\' => match self.escape()? {
                    Escape::Neutral => {}
                    Escape::Plain => has_plain = true,
                    Escape::Odd => has_odd = Some(self.at),
                },
                c if c == close => break,
                c if c == open => {
                    return Err(self.refused("write a quotation mark within a string as \\\""));
                }
                '"' => {
                    self.at += 1;
                    self.out.push_str("\\\"");
                }
                c => {
                    self.at += 1;
                    self.control(c);
                }
            }
        }
        // `\d\t` may be intended as a regular expression or contain a tab.
        if let (Some(at), true) = (has_odd, has_plain) {
            self.at = at;
            return Err(self.refused("write a backslash within a string as \\\\"));
        }
        self.at += close.len_utf8();
        self.out.push('"');
        Ok(())
    }

    fn control(&mut self, c: char) {
        match c {
            '\n' => self.out.push_str("\\n"),
            '\r' => self.out.push_str("\\r"),
            '\t' => self.out.push_str("\\t"),
            // Writing to a String cannot fail.
            c => drop(write!(self.out, "\\u{:04x}", u32::from(c))),
        }
    }

    /// Reads a backslash and what belongs to it.
    fn escape(&mut self) -> Result<Escape, Unreadable> {
        let mut chars = self.rest().chars();
        chars.next();
        let Some(c) = chars.next() else {
            self.at = self.text.len();
            return Err(self.cut());
        };
        let escape = match c {
            '"' | '\\' | '/' => {
                self.out.extend(['\\', c]);
                Escape::Neutral
            }
            'b' | 'f' | 'n' | 'r' | 't' => {
                self.out.extend(['\\', c]);
                Escape::Plain
            }
            'u' => return self.unicode(),
            '\'' => {
                self.out.push('\'');
                Escape::Neutral
            }
            c if "dDwWsS.()[]{}+*?^|-".contains(c) => {
                self.out.extend(['\\', '\\', c]);
                Escape::Odd
            }
            _ => return Err(self.refused("write a backslash within a string as \\\\")),
        };
        self.at += 1 + c.len_utf8();
        Ok(escape)
    }

    /// Reads `\u` with its digits. Half of a surrogate pair becomes U+FFFD.
    fn unicode(&mut self) -> Result<Escape, Unreadable> {
        let rest = self.rest();
        let Some(first) = unit_at(rest, 0) else {
            if rest.len() < 6 {
                self.at = self.text.len();
                return Err(self.cut());
            }
            return Err(self.refused("\\u needs four hexadecimal digits; write a backslash as \\\\"));
        };
        let is_high = (0xd800..0xdc00).contains(&first);
        let is_pair = is_high && matches!(unit_at(rest, 6), Some(0xdc00..=0xdfff));
        let (taken, written) = if is_pair {
            (12, rest.get(..12))
        } else if (0xd800..0xe000).contains(&first) {
            (6, Some("\\ufffd"))
        } else {
            (6, rest.get(..6))
        };
        self.out.push_str(written.unwrap_or_default());
        self.at += taken;
        Ok(Escape::Plain)
    }

    fn refused(&self, rule: &'static str) -> Unreadable {
        Unreadable {
            field: self.field_name(),
            ..refused(self.text, self.at, rule)
        }
    }

    fn cut(&self) -> Unreadable {
        Unreadable {
            is_cut: true,
            near: String::new(),
            ..self.refused("the text ends before its closing bracket")
        }
    }

    fn field_name(&self) -> String {
        let Some((from, to)) = self.field else {
            return String::new();
        };
        let json = self.out.get(from..to).unwrap_or_default();
        let name: String = serde_json::from_str(json).unwrap_or_default();
        name.get(..name.floor_char_boundary(NAME))
            .unwrap_or_default()
            .to_owned()
    }
}

/// Kind of an escape.
enum Escape {
    /// Means the same in JSON and in a regular expression.
    Neutral,
    /// Belongs to JSON, and has a different meaning in a regular expression.
    Plain,
    /// Does not belong to JSON: the backslash of a regular expression.
    Odd,
}

#[cfg(test)]
mod tests;
