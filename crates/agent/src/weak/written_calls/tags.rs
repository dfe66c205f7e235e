//! Calls as tags: `<function=name><parameter=key>text</parameter></function>` and `<invoke name="name">…`, and the arguments of
//! GLM between `<arg_key>` and `<arg_value>`. Arguments are text, parsed by the type in the tool's schema. Between `<arguments>`
//! they are JSON, after the `<name>` of the tool.

use serde_json::Value;

use super::super::near_json::{self, Closing};
use super::{CUT_OFF, Scanner, WrittenCall};

/// Bytes of a tag at most.
const TAG_BYTES: usize = 512;
/// Prefixes of tags, which are ignored.
const PREFIXES: [&str; 4] = ["antml:", "minimax:", "seed:", "｜DSML｜"];

/// Tags around calls.
const WRAPPERS: [&str; 6] = [
    "tool_call",
    "tool_calls",
    "function_call",
    "function_calls",
    "functioncall",
    "TOOLCALL",
];

/// A tag of a call.
pub(super) struct Tag<'t> {
    pub(super) is_closing: bool,
    pub(super) name: &'t str,
    /// The text after `=`, or that of the attribute `name`.
    value: Option<&'t str>,
    /// Whether the text between the tags is a string, where the tag says so.
    is_string: Option<bool>,
    /// Whether the text between the tags has a line break at each end that is not meant.
    is_spaced: bool,
    /// End offset of the tag.
    pub(super) end: usize,
}

impl<'t> Tag<'t> {
    /// The tag that begins at this offset.
    pub(super) fn at(text: &'t str, at: usize) -> Option<Self> {
        let rest = text.get(at..)?.strip_prefix('<')?;
        let head = rest.get(..rest.floor_char_boundary(TAG_BYTES))?;
        let inner = head.get(..head.find('>')?)?;
        let end = at + inner.len() + 2;
        let (is_closing, inner) = match inner.strip_prefix('/') {
            Some(inner) => (true, inner),
            None => (false, inner),
        };
        let inner = PREFIXES
            .iter()
            .find_map(|prefix| inner.strip_prefix(prefix))
            .unwrap_or(inner);
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let attributes = inner.trim_start_matches(is_name);
        let name = inner.get(..inner.len() - attributes.len())?;
        let own = attributes.strip_prefix('=');
        let value = match own {
            Some(value) => Some(value.trim().trim_matches(['"', '\''])),
            None => attribute(attributes, "name"),
        };
        Some(Self {
            is_closing,
            name,
            value,
            is_string: attribute(attributes, "string").map(|said| said == "true"),
            is_spaced: own.is_some(),
            end,
        })
    }

    /// Whether it is around calls and says nothing about them.
    pub(super) fn is_wrapper(&self) -> bool {
        WRAPPERS.contains(&self.name) && self.value.is_none()
    }

    /// Whether it is around the arguments of one call.
    pub(super) fn is_call(&self) -> bool {
        match self.name {
            "function" | "invoke" => self.is_closing || self.value.is_some(),
            "tool_call" | "function_call" => self.value.is_some(),
            _ => false,
        }
    }

    /// Whether JSON of arguments ends before it.
    pub(super) fn is_end_of_arguments(&self) -> bool {
        self.is_closing && self.is_arguments()
    }

    fn is_arguments(&self) -> bool {
        matches!(self.name, "arguments" | "parameters") && self.value.is_none()
    }

    fn is_argument(&self) -> bool {
        matches!(self.name, "parameter" | "param")
    }
}

/// The value of an attribute, in quotation marks.
fn attribute<'t>(attributes: &'t str, name: &str) -> Option<&'t str> {
    let (before, rest) = attributes.split_once(&format!("{name}="))?;
    let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let value = rest.get(1..)?.split_once(quote)?.0;
    before.ends_with(char::is_whitespace).then_some(value)
}

impl<'t> Scanner<'t, '_, '_> {
    /// Reads a call that begins with its tag.
    pub(super) fn tagged_call(&mut self) -> Option<()> {
        let tag = Tag::at(self.text, self.at).filter(|tag| !tag.is_closing)?;
        if tag.name == "name" {
            return self.element_call(tag.end);
        }
        let (name, schema) = self.named(tag.value.filter(|_| tag.is_call())?)?;
        let schema = serde_json::from_str(schema).unwrap_or_default();
        self.at = tag.end;
        self.skip_white();
        let arguments = if self.rest().starts_with('{') {
            self.json().unwrap_or_else(str::to_owned)
        } else {
            self.tagged_arguments(&schema)?
        };
        self.calls.push(WrittenCall { name, arguments });
        self.skip_white();
        if let Some(tag) = Tag::at(self.text, self.at).filter(|tag| tag.is_call() && tag.is_closing) {
            self.at = tag.end;
        }
        Some(())
    }

    /// Reads a call with its name and its arguments each between tags. The name begins at the offset `from`.
    fn element_call(&mut self, from: usize) -> Option<()> {
        let (name, rest) = self.text.get(from..)?.split_once("</name>")?;
        let (name, _) = self.named(name.trim())?;
        self.at = self.text.len() - rest.len();
        self.skip_white();
        if let Some(tag) = self.arguments_tag().filter(|tag| !tag.is_closing) {
            self.at = tag.end;
            self.skip_white();
        }
        let rest = self.rest();
        let arguments = if rest.starts_with('{') {
            self.json().unwrap_or_else(str::to_owned)
        } else if rest.starts_with("</") {
            "{}".to_owned()
        } else if rest.is_empty() && self.closing == Closing::Required {
            CUT_OFF.to_owned()
        } else {
            return None;
        };
        self.calls.push(WrittenCall { name, arguments });
        self.skip_white();
        if let Some(tag) = self.arguments_tag().filter(|tag| tag.is_closing) {
            self.at = tag.end;
        }
        Some(())
    }

    /// The tag around JSON of arguments that begins here.
    fn arguments_tag(&self) -> Option<Tag<'t>> {
        Tag::at(self.text, self.at).filter(Tag::is_arguments)
    }

    /// Reads arguments, each between its tags, up to the closing tag of the call. Where one is not whole, the rest of the
    /// text belongs to it.
    fn tagged_arguments(&mut self, schema: &Value) -> Option<String> {
        let mut arguments = Arguments::default();
        loop {
            self.skip_white();
            let tag = Tag::at(self.text, self.at);
            let Some(tag) = tag.filter(|tag| tag.is_argument() && !tag.is_closing) else {
                let is_cut = self.rest().is_empty() && self.closing == Closing::Required;
                return Some(if is_cut {
                    CUT_OFF.to_owned()
                } else {
                    arguments.json()
                });
            };
            let field = tag.value?;
            let Some((to, end)) = self.closing_tag(tag.end) else {
                self.at = self.text.len();
                return Some(CUT_OFF.to_owned());
            };
            let text = self.text.get(tag.end..to).unwrap_or_default();
            let text = if tag.is_spaced { unspaced(text) } else { text };
            arguments.push(field, &typed(schema, field, text, tag.is_string));
            self.at = end;
        }
    }

    /// The start and the end of the closing tag of an argument: the first one that is followed by another tag or by the end of
    /// the text. Others are text.
    fn closing_tag(&self, from: usize) -> Option<(usize, usize)> {
        let rest = self.text.get(from..)?;
        rest.match_indices("</").find_map(|(at, _)| {
            let at = from + at;
            let tag = Tag::at(self.text, at).filter(|tag| tag.is_argument() && tag.is_closing)?;
            let behind = self.text.get(tag.end..)?.trim_start();
            (behind.is_empty() || behind.starts_with('<')).then_some((at, tag.end))
        })
    }

    /// Reads arguments as GLM writes them.
    pub(super) fn keyed_arguments(&mut self, schema: &str) -> String {
        let schema: Value = serde_json::from_str(schema).unwrap_or_default();
        let mut arguments = Arguments::default();
        loop {
            self.skip_white();
            if !self.rest().starts_with("<arg_key>") {
                return arguments.json();
            }
            let Some((field, text, end)) = self.keyed_argument() else {
                self.at = self.text.len();
                return CUT_OFF.to_owned();
            };
            arguments.push(field, &typed(&schema, field, text, None));
            self.at = end;
        }
    }

    /// A key, its value, and their end offset.
    fn keyed_argument(&self) -> Option<(&'t str, &'t str, usize)> {
        const END: &str = "</arg_value>";
        let (field, rest) = self.rest().strip_prefix("<arg_key>")?.split_once("</arg_key>")?;
        let value = rest.trim_start().strip_prefix("<arg_value>")?;
        let (at, _) = value.match_indices(END).find(|(at, _)| {
            let behind = value.get(at + END.len()..).unwrap_or_default().trim_start();
            behind.is_empty() || behind.starts_with("<arg_key>") || behind.starts_with("</tool_call>")
        })?;
        let end = self.text.len() - value.len() + at + END.len();
        Some((field.trim(), value.get(..at)?, end))
    }
}

/// The JSON object of the arguments so far.
#[derive(Default)]
pub(super) struct Arguments(String);

impl Arguments {
    pub(super) fn push(&mut self, field: &str, json: &str) {
        let separator = if self.0.is_empty() { "" } else { "," };
        self.0.extend([separator, &string(field), ":", json]);
    }

    pub(super) fn json(self) -> String {
        format!("{{{}}}", self.0)
    }
}

fn string(text: &str) -> String {
    Value::from(text).to_string()
}

/// The text without a line break at each end.
fn unspaced(text: &str) -> &str {
    let text = text
        .strip_prefix("\r\n")
        .or_else(|| text.strip_prefix('\n'))
        .unwrap_or(text);
    text.strip_suffix('\n')
        .map_or(text, |text| text.strip_suffix('\r').unwrap_or(text))
}

/// The JSON of an argument that was written as text. Where the schema does not ask for a string alone, what can be read as
/// JSON is that.
fn typed(schema: &Value, field: &str, text: &str, is_string: Option<bool>) -> String {
    let is_string =
        is_string.unwrap_or_else(
            || match schema.pointer("/properties").and_then(|all| all.get(field)) {
                Some(property) => match property.get("type") {
                    Some(Value::String(kind)) => kind == "string",
                    Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "string"),
                    Some(_) | None => false,
                },
                // Another agent's name of a field: its tool reads numbers from text too.
                None => true,
            },
        );
    if is_string {
        return string(text);
    }
    near_json::whole(text.trim(), Closing::Required).unwrap_or_else(|_| string(text))
}
