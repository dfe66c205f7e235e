//! `edit_file`: exact replacement in a text file. What is not there, or there more than once, changes nothing, and the
//! message says what would help.

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    Context, Effect, Order, Tool, ToolError, arguments_of,
    files::{RunFiles, with_files},
};
use crate::{content::ToolContent, model::ToolDefinition, text};

/// The largest file that is edited, in bytes.
const FILE_BYTES: u64 = 8 * 1024 * 1024;
/// Lines that are looked through for the closest one.
const LINES_COMPARED: usize = 50_000;
/// How much of a line is compared and quoted, in bytes.
const LINE_BYTES: usize = 200;

pub(super) struct EditFile;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    path: String,
    old_text: String,
    new_text: String,
    #[serde(default)]
    replace_all: bool,
}

impl Tool for EditFile {
    fn definition(&self) -> ToolDefinition<'_> {
        ToolDefinition {
            name: "edit_file",
            description: "Replaces a piece of text in a file of the working directory. old_text must occur in the \
                          file exactly as given, white space included, and only once unless replace_all is set: \
                          take whole lines, and as many as make it unique.",
            parameters: r#"{
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "Path from the working directory."},
                    "old_text": {"type": "string", "description": "The text to replace, exactly as in the file."},
                    "new_text": {"type": "string", "description": "What stands there afterwards."},
                    "replace_all": {"type": "boolean", "description": "Replace every occurrence. Default: false."}
                },
                "required": ["path", "old_text", "new_text"],
                "additionalProperties": false
            }"#,
        }
    }

    fn order(&self) -> Order {
        Order::OneByOne
    }

    fn effect(&self, _arguments: &RawValue) -> Effect {
        Effect::Directory
    }

    fn call<'a>(
        &'a self,
        raw: Box<RawValue>,
        context: Context<'a>,
    ) -> BoxFuture<'a, Result<ToolContent, ToolError>> {
        Box::pin(async move {
            let arguments: Arguments = arguments_of(&self.definition(), &raw)?;
            with_files(context, move |files| edit(files, &arguments)).await
        })
    }
}

fn edit(files: &RunFiles<'_>, arguments: &Arguments) -> Result<ToolContent, ToolError> {
    let path = files.file(&arguments.path)?;
    let content = files
        .workdir
        .read(&path, FILE_BYTES)
        .map_err(|error| files.about(&path, &error))?;
    let told = |what: String| ToolError::ToModel(format!("{path}: {what}; nothing was changed"));
    let content = String::from_utf8(content).map_err(|_| told("not UTF-8 text".to_owned()))?;
    let Replaced { content, lines } = replace(&content, arguments).map_err(told)?;
    files
        .workdir
        .write(&path, content.as_bytes())
        .map_err(|error| files.about(&path, &error))?;
    Ok(ToolContent::Text(format!("edited {path} at {}", named(&lines))))
}

#[derive(Debug, PartialEq, Eq)]
struct Replaced {
    content: String,
    /// The lines at which the replaced pieces began.
    lines: Vec<usize>,
}

fn replace(content: &str, arguments: &Arguments) -> Result<Replaced, String> {
    let Arguments {
        old_text,
        new_text,
        replace_all,
        ..
    } = arguments;
    if old_text.is_empty() {
        return Err("old_text must not be empty; write_file writes a whole file".to_owned());
    }
    if old_text == new_text {
        return Err("old_text and new_text are the same".to_owned());
    }
    // Models write line feeds where a file has the line breaks of Windows.
    let windows = |text: &str| text.replace("\r\n", "\n").replace('\n', "\r\n");
    let (old, new) = if !content.contains(old_text.as_str()) && content.contains("\r\n") {
        (windows(old_text), windows(new_text))
    } else {
        (old_text.clone(), new_text.clone())
    };
    let lines = occurrences(content, &old);
    match (lines.len(), replace_all) {
        (0, _) => Err(format!("old_text does not occur{}", closest(content, old_text))),
        (1, _) | (_, true) => Ok(Replaced {
            content: content.replace(&old, &new),
            lines,
        }),
        (count, false) => Err(format!(
            "old_text occurs {count} times, at {}; take in more lines around the one you mean, or set replace_all",
            named(&lines)
        )),
    }
}

/// The lines, from 1, at which `old` begins.
fn occurrences(content: &str, old: &str) -> Vec<usize> {
    let (mut line, mut at) = (1, 0);
    let begins = content.match_indices(old).map(|(begin, _)| {
        let passed = content.get(at..begin).unwrap_or_default();
        line += passed.bytes().filter(|byte| *byte == b'\n').count();
        at = begin;
        line
    });
    begins.collect()
}

fn named(lines: &[usize]) -> String {
    let shown: Vec<String> = lines.iter().take(20).map(usize::to_string).collect();
    let word = if lines.len() == 1 { "line" } else { "lines" };
    let more = if lines.len() > shown.len() { " …" } else { "" };
    format!("{word} {}{more}", shown.join(", "))
}

/// Where something like the beginning of `old` stands.
fn closest(content: &str, old: &str) -> String {
    let Some(wanted) = old.lines().map(str::trim).find(|line| !line.is_empty()) else {
        return String::new();
    };
    let wanted = text::head(wanted, LINE_BYTES);
    let best = content
        .lines()
        .take(LINES_COMPARED)
        .enumerate()
        .map(|(index, line)| {
            (
                likeness(wanted, text::head(line.trim(), LINE_BYTES)),
                index + 1,
                line,
            )
        })
        .max_by_key(|(likeness, number, _)| (*likeness, std::cmp::Reverse(*number)));
    match best {
        Some((1_000, number, _)) => format!(
            "; its first line is line {number} of the file, but what follows or the white space differs: read the \
             file there and copy it exactly"
        ),
        Some((likeness, number, line)) if likeness >= 500 => {
            format!(
                "; the closest is line {number}: {:?}",
                text::head(line, LINE_BYTES)
            )
        }
        _ => "; nothing in the file is like it".to_owned(),
    }
}

/// How like two lines are, from 0 to 1,000: the share of neighbouring pairs of bytes that both have.
fn likeness(a: &str, b: &str) -> usize {
    if a == b {
        return 1_000;
    }
    let pairs = |text: &str| {
        let mut pairs: Vec<(u8, u8)> = text.bytes().zip(text.bytes().skip(1)).collect();
        pairs.sort_unstable();
        pairs
    };
    let (a, b) = (pairs(a), pairs(b));
    let total = a.len() + b.len();
    let (mut left, mut right, mut shared) = (a.into_iter().peekable(), b.into_iter().peekable(), 0_usize);
    while let (Some(one), Some(other)) = (left.peek(), right.peek()) {
        match one.cmp(other) {
            std::cmp::Ordering::Less => drop(left.next()),
            std::cmp::Ordering::Greater => drop(right.next()),
            std::cmp::Ordering::Equal => {
                shared += 1;
                left.next();
                right.next();
            }
        }
    }
    (2 * shared * 999).checked_div(total).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn arguments(old_text: &str, new_text: &str, replace_all: bool) -> Arguments {
        Arguments {
            path: "f".to_owned(),
            old_text: old_text.to_owned(),
            new_text: new_text.to_owned(),
            replace_all,
        }
    }

    fn replaced(content: &str, old: &str, new: &str) -> Result<(String, Vec<usize>), String> {
        replace(content, &arguments(old, new, false)).map(|done| (done.content, done.lines))
    }

    #[test]
    fn a_unique_text_is_replaced_exactly() {
        assert_eq!(
            replaced("a\nb\nc\n", "b\n", "x\ny\n"),
            Ok(("a\nx\ny\nc\n".to_owned(), vec![2]))
        );
        assert_eq!(
            replaced("a\r\nb\r\nc\r\n", "a\nb", "x\ny"),
            Ok(("x\r\ny\r\nc\r\n".to_owned(), vec![1]))
        );
    }

    #[test]
    fn a_text_that_is_not_unique_is_named_with_its_lines() {
        assert_eq!(
            replaced("x\nb\nx\nx", "x", "y").unwrap_err(),
            "old_text occurs 3 times, at lines 1, 3, 4; take in more lines around the one you mean, or set replace_all"
        );
        let all = replace("x\nb\nx\nx", &arguments("x", "y", true)).unwrap();
        assert_eq!((all.content.as_str(), all.lines), ("y\nb\ny\ny", vec![1, 3, 4]));
    }

    #[test]
    fn a_text_that_is_not_there_leads_to_what_is_like_it() {
        let file = "fn main() {\n    let total = sum(&values);\n    println!(\"{total}\");\n}\n";
        assert_eq!(
            replaced(file, "let totals = sum(&value);", "").unwrap_err(),
            "old_text does not occur; the closest is line 2: \"    let total = sum(&values);\""
        );
        assert!(
            replaced(file, "  let total = sum(&values);\n  print", "")
                .unwrap_err()
                .contains("line 2 of the file")
        );
        assert!(
            replaced(file, "struct Nothing;", "")
                .unwrap_err()
                .ends_with("nothing in the file is like it")
        );
        assert!(
            replaced(file, "", "x")
                .unwrap_err()
                .starts_with("old_text must not be empty")
        );
        assert!(replaced(file, "a", "a").unwrap_err().ends_with("are the same"));
    }

    proptest! {
        #[test]
        fn one_replacement_is_undone_by_its_opposite(
            before in "[ab\n]{0,20}", old in "[cd\n]{0,4}[cd]", new in "[ef]{1,4}", after in "[ab\n]{0,20}",
        ) {
            let content = format!("{before}{old}{after}");
            let (edited, lines) = replaced(&content, &old, &new).map_err(TestCaseError::fail)?;
            prop_assert_eq!(&edited, &format!("{before}{new}{after}"));
            prop_assert_eq!(lines, vec![1 + before.matches('\n').count()]);
            prop_assert_eq!(replaced(&edited, &new, &old).map(|(back, _)| back), Ok(content));
        }

        #[test]
        fn no_text_panics(content in any::<String>(), old in any::<String>(), new in any::<String>()) {
            let _ = replaced(&content, &old, &new);
        }
    }
}
