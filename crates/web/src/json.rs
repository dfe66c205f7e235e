//! JSON with line breaks and indentation. Names and numbers stay unchanged.

use serde::de::IgnoredAny;

/// Maximum length of a layout: bytes per byte of input, and additional bytes.
const GROWTH: (usize, usize) = (4, 64 * 1024);

/// Returns JSON with one value per line, and `text` unchanged if it is not JSON or already has lines.
pub(crate) fn laid_out(text: String) -> String {
    let is_json = serde_json::from_str::<IgnoredAny>(&text).is_ok();
    if !is_json || text.trim().contains('\n') {
        return text;
    }
    indent(&text).unwrap_or(text)
}

/// `None` if deep nesting would make the layout much larger than the text.
fn indent(text: &str) -> Option<String> {
    let most = text.len() * GROWTH.0 + GROWTH.1;
    let mut out = String::with_capacity(text.len() * 2);
    let mut depth: usize = 0;
    let (mut in_string, mut escaped, mut opened) = (false, false, false);
    for c in text.chars() {
        if in_string {
            out.push(c);
            in_string = escaped || c != '"';
            escaped = c == '\\' && !escaped;
            continue;
        }
        if c.is_ascii_whitespace() {
            continue;
        }
        let closes = matches!(c, '}' | ']');
        if closes {
            depth = depth.saturating_sub(1);
        }
        // An empty object or array stays on one line.
        if opened != closes {
            new_line(&mut out, depth);
        }
        out.push(c);
        opened = matches!(c, '{' | '[');
        match c {
            '{' | '[' => depth += 1,
            ',' => new_line(&mut out, depth),
            ':' => out.push(' '),
            '"' => in_string = true,
            _ => {}
        }
        if out.len() > most {
            return None;
        }
    }
    Some(out)
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', depth));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn layout(text: &str) -> String {
        laid_out(text.to_owned())
    }

    #[test]
    fn values_stand_on_lines_and_stay_as_they_were_sent() {
        assert_eq!(
            layout(r#"{"b":[1, 12345678901234567890123,{}],"a":"x \" ,{","c":[ ]}"#),
            "{\n \"b\": [\n  1,\n  12345678901234567890123,\n  {}\n ],\n \"a\": \"x \\\" ,{\",\n \"c\": []\n}"
        );
        for text in ["3", "\"a\"", "[]", "{\n}", "[1,\n2]", "not json", "{\"a\":1} x"] {
            assert_eq!(layout(text), text);
        }
    }

    #[test]
    fn nesting_does_not_blow_it_up() {
        let deep = "[".repeat(100) + &"1,".repeat(100_000) + "1" + &"]".repeat(100);
        assert_eq!(layout(&deep), deep);
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 30, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_layout_means_the_same(value in json()) {
            let shown = layout(&value.to_string());
            prop_assert_eq!(serde_json::from_str::<Value>(&shown).ok(), Some(value));
        }
    }
}
