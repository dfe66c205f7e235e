//! A request of Anthropic's protocol, as the model of a task reads it.

use sortie_testkit::prelude::*;

/// The request of one call, as the model sees it.
pub(crate) struct Seen<'a> {
    request: &'a Value,
    newest: Option<&'a Value>,
}

impl<'a> Seen<'a> {
    pub(crate) fn of(request: &'a Value) -> Self {
        let newest = request["messages"]
            .as_array()
            .and_then(|messages| messages.last());
        Self { request, newest }
    }

    /// The text of the newest message: results of tools, notes of the engine.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        if let Some(message) = self.newest {
            gather(&message["content"], &mut text);
        }
        text
    }

    pub(crate) fn has(&self, part: &str) -> bool {
        self.text().to_lowercase().contains(&part.to_lowercase())
    }

    /// Whether a result of the newest message failed.
    pub(crate) fn failed(&self) -> bool {
        self.blocks().any(|block| block["is_error"] == true)
    }

    /// Whether the engine asks for the final answer.
    pub(crate) fn must_answer(&self) -> bool {
        self.text().contains("Answer now with what you have")
    }

    /// Whether the engine asks for notes that replace the conversation.
    pub(crate) fn must_write_notes(&self) -> bool {
        self.text().contains("Write the notes that stand for it")
    }

    /// The working directory, if the newest message names it: the first one, or the output of `pwd`.
    pub(crate) fn directory(&self) -> Option<String> {
        let text = self.text();
        let named = text.lines().find_map(|line| {
            let (_, behind) = line.split_once("orking directory")?;
            behind.find('/').and_then(|at| behind.get(at..))
        });
        let printed = || {
            text.lines()
                .find(|line| line.starts_with('/') && !line.contains(' '))
        };
        let path = named.or_else(printed)?;
        let end = path
            .find(|c: char| c.is_whitespace() || "`,;\")".contains(c))
            .unwrap_or(path.len());
        Some(path.get(..end)?.trim_end_matches(['.', '/']).to_owned())
    }

    /// The file that the newest message names for an output that was too long.
    pub(crate) fn whole_output(&self) -> Option<String> {
        let text = self.text();
        let mut named = ["the whole output is in ", " bytes are in "].iter();
        let (_, behind) = named.find_map(|words| text.split_once(words))?;
        behind.split_whitespace().next().map(str::to_owned)
    }

    /// The name of the requested model, as the provider knows it.
    pub(crate) fn model(&self) -> &str {
        self.request["model"].as_str().unwrap_or_default()
    }

    fn blocks(&self) -> impl Iterator<Item = &'a Value> {
        self.newest
            .and_then(|message| message["content"].as_array())
            .into_iter()
            .flatten()
    }
}

/// Whether the newest message shows a picture.
pub(crate) fn shows_a_picture(seen: &Seen<'_>) -> bool {
    let inside = |block: &Value| {
        let mut content = block["content"].as_array().into_iter().flatten();
        block["type"] == "image" || content.any(|piece| piece["type"] == "image")
    };
    seen.blocks().any(inside)
}

fn gather(content: &Value, text: &mut String) {
    match content {
        Value::String(piece) => {
            text.push_str(piece);
            text.push('\n');
        }
        Value::Array(pieces) => pieces.iter().for_each(|piece| gather(piece, text)),
        Value::Object(block) => {
            for field in ["text", "content"] {
                if let Some(inner) = block.get(field) {
                    gather(inner, text);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
