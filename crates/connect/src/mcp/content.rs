//! The result of a tool. Text is kept, and a picture or a document is shown if the model supports it. Other content is described
//! by its type and size.

use serde_json::Value;

use crate::text;

/// Maximum length of a URI or a type for the model, in bytes.
const LABEL_BYTES: usize = 300;

/// Maximum number of wrappers with a single member around structured content.
const WRAPPERS: usize = 4;

/// A result in the form for the model.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rendered {
    pub(super) text: String,
    pub(super) is_error: bool,
}

/// Receives a picture or a document in base64, and returns a text about it.
pub(super) type Show<'a> = dyn FnMut(&str) -> Option<String> + 'a;

/// Converts a `tools/call` result of any shape to a non-empty text.
pub(super) fn render(result: &Value, show: &mut Show<'_>) -> Rendered {
    let blocks = result.get("content").and_then(Value::as_array);
    let blocks = blocks.into_iter().flatten();
    let mut parts: Vec<String> = blocks.map(|one| block(one, show)).collect();
    if let Some(structured) = result.get("structuredContent").filter(|value| !value.is_null())
        && !repeats(&parts, structured)
    {
        parts.push(structured.to_string());
    }
    if parts.is_empty() {
        parts.push("[the tool returned nothing]".to_owned());
    }
    Rendered {
        text: parts.join("\n").replace('\0', "\u{fffd}"),
        is_error: result.get("isError").and_then(Value::as_bool) == Some(true),
    }
}

/// Whether the texts repeat the structured content, so that the model needs only one of them. Servers repeat it for older
/// clients, sometimes wrapped as in `{"result": …}`, or with one text per item of a list.
fn repeats(parts: &[String], structured: &Value) -> bool {
    let said: Vec<Option<Value>> = parts.iter().map(|part| serde_json::from_str(part).ok()).collect();
    let says = |(part, said): (&String, &Option<Value>), value: &Value| {
        value.as_str() == Some(part) || said.as_ref() == Some(value)
    };
    let is_said = |value: &Value| {
        let by_one = || parts.iter().zip(&said).any(|one| says(one, value));
        let one_by_one = |items: &Vec<Value>| {
            items.len() == parts.len()
                && parts
                    .iter()
                    .zip(&said)
                    .zip(items)
                    .all(|(one, item)| says(one, item))
        };
        by_one() || value.as_array().is_some_and(one_by_one)
    };
    let mut wrapped = Some(structured);
    for _wrapper in 0..WRAPPERS {
        match wrapped {
            Some(value) if is_said(value) => return true,
            Some(value) => wrapped = only_member(value),
            None => return false,
        }
    }
    false
}

fn only_member(value: &Value) -> Option<&Value> {
    let members = value.as_object().filter(|members| members.len() == 1)?;
    members.values().next()
}

fn block(block: &Value, show: &mut Show<'_>) -> String {
    let field = |name: &str| block.get(name).and_then(Value::as_str);
    match field("type") {
        Some("text") => field("text").unwrap_or_default().to_owned(),
        Some(kind @ ("image" | "audio")) => {
            let shown = field("data").filter(|_| kind == "image").and_then(show);
            shown.map_or_else(
                || {
                    format!(
                        "[{kind}, {}, {} bytes: not shown]",
                        label(field("mimeType")),
                        decoded_bytes(field("data"))
                    )
                },
                |told| format!("[{told}]"),
            )
        }
        Some("resource_link") => format!("[resource {}: {}]", label(field("name")), label(field("uri"))),
        Some("resource") => block
            .get("resource")
            .map_or_else(String::new, |one| resource(one, show)),
        Some(other) => format!("[{}: not shown]", text::line(other, LABEL_BYTES)),
        None => "[content without a type: not shown]".to_owned(),
    }
}

fn resource(resource: &Value, show: &mut Show<'_>) -> String {
    let field = |name: &str| resource.get(name).and_then(Value::as_str);
    let uri = label(field("uri"));
    if let Some(words) = field("text") {
        return format!("[resource {uri}]\n{words}");
    }
    let kind = field("mimeType");
    let is_shown = kind.is_some_and(|kind| kind.starts_with("image/") || kind == "application/pdf");
    let shown = field("blob").filter(|_| is_shown).and_then(show);
    shown.map_or_else(
        || {
            format!(
                "[resource {uri}, {}, {} bytes: not shown]",
                label(kind),
                decoded_bytes(field("blob"))
            )
        },
        |told| format!("[resource {uri}: {told}]"),
    )
}

fn label(value: Option<&str>) -> String {
    value.map_or_else(
        || "of unknown type".to_owned(),
        |value| text::line(value, LABEL_BYTES),
    )
}

/// Returns the decoded size of base64 text, in bytes.
fn decoded_bytes(base64: Option<&str>) -> usize {
    let text = base64.unwrap_or_default().trim_end_matches('=');
    text.len() / 4 * 3 + [0, 0, 1, 2].get(text.len() % 4).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(result: &Value) -> String {
        render(result, &mut |_| None).text
    }

    #[test]
    fn pictures_and_documents_are_shown_in_their_place() {
        let result = json!({"content": [
            {"type": "image", "mimeType": "image/png", "data": "AAAA"},
            {"type": "audio", "mimeType": "audio/wav", "data": "AAA="},
            {"type": "text", "text": "two"},
            {"type": "resource", "resource": {"uri": "a:1", "mimeType": "application/pdf", "blob": "BB=="}},
            {"type": "resource", "resource": {"uri": "a:2", "mimeType": "x/y", "blob": "CC=="}},
            {"type": "image", "mimeType": "image/png"}
        ]});
        let rendered = render(&result, &mut |data| Some(format!("picture of {data}")));
        assert_eq!(
            rendered.text,
            "[picture of AAAA]\n[audio, audio/wav, 2 bytes: not shown]\ntwo\n[resource a:1: picture of BB==]\n\
             [resource a:2, x/y, 1 bytes: not shown]\n[image, image/png, 0 bytes: not shown]"
        );
    }

    #[test]
    fn texts_are_joined_and_everything_else_is_told_by_type_and_size() {
        let result = json!({"content": [
            {"type": "text", "text": "one"},
            {"type": "image", "mimeType": "image/png", "data": "AAAA"},
            {"type": "audio", "mimeType": "audio/wav", "data": "AAA="},
            {"type": "resource", "resource": {"uri": "a:1", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "a:2", "mimeType": "x/y", "blob": "AA=="}},
            {"type": "resource_link", "uri": "a:3", "name": "n"},
            {"type": "hologram", "data": "?"},
            {"type": "text", "text": "two"}
        ]});
        assert_eq!(
            text(&result),
            "one\n[image, image/png, 3 bytes: not shown]\n[audio, audio/wav, 2 bytes: not shown]\n[resource a:1]\n\
             inside\n[resource a:2, x/y, 1 bytes: not shown]\n[resource n: a:3]\n[hologram: not shown]\ntwo"
        );
    }

    #[test]
    fn structured_content_is_told_once() {
        let structured = json!({"a": 1});
        assert_eq!(text(&json!({"structuredContent": structured})), "{\"a\":1}");
        let repeated =
            json!({"content": [{"type": "text", "text": "{ \"a\": 1 }"}], "structuredContent": structured});
        assert_eq!(text(&repeated), "{ \"a\": 1 }");
        let wrapped =
            json!({"content": [{"type": "text", "text": "one"}], "structuredContent": {"result": "one"}});
        assert_eq!(text(&wrapped), "one");
        let named = json!({"content": [{"type": "text", "text": "one"}], "structuredContent": {"output": {"text": "one"}}});
        assert_eq!(text(&named), "one");
        let texts = json!([{"type": "text", "text": "one"}, {"type": "text", "text": "{\"b\": 2}"}]);
        let listed = json!({"content": texts, "structuredContent": {"result": ["one", {"b": 2}]}});
        assert_eq!(text(&listed), "one\n{\"b\": 2}");
        let longer = json!({"content": texts, "structuredContent": {"result": ["one", {"b": 2}, "three"]}});
        assert_eq!(
            text(&longer),
            "one\n{\"b\": 2}\n{\"result\":[\"one\",{\"b\":2},\"three\"]}"
        );
        let beside = json!({"content": [{"type": "text", "text": "one"}], "structuredContent": structured});
        assert_eq!(text(&beside), "one\n{\"a\":1}");
        let more =
            json!({"content": [{"type": "text", "text": "one"}], "structuredContent": {"a": "one", "b": 2}});
        assert_eq!(text(&more), "one\n{\"a\":\"one\",\"b\":2}");
    }

    #[test]
    fn an_empty_or_strange_result_is_told_and_an_error_is_one() {
        for result in [
            json!({}),
            json!(7),
            json!({"content": "x"}),
            json!({"content": []}),
        ] {
            assert_eq!(text(&result), "[the tool returned nothing]");
        }
        assert!(render(&json!({"content": [], "isError": true}), &mut |_| None).is_error);
    }
}
