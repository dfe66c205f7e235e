//! `read_file`: a text file or some of its lines, streamed, so that its size does not matter.

use std::io::{BufRead, BufReader, Read};

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::value::RawValue;
use sortie_sandbox::Workdir;

use super::{
    Context, Effect, Order, Tool, ToolError, arguments,
    files::{about, file_path, with_workdir},
};
use crate::{content::ToolContent, model::ToolDefinition, text};

pub(super) struct ReadFile;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    path: String,
    start_line: Option<u64>,
    end_line: Option<u64>,
}

impl Tool for ReadFile {
    fn definition(&self) -> ToolDefinition<'_> {
        ToolDefinition {
            name: "read_file",
            description: "Reads a text file of the working directory, whole or from start_line to end_line. A last \
                          line in brackets tells where to go on when there is more than fits into one result.",
            parameters: r#"{
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "Path from the working directory."},
                    "start_line": {"type": "integer", "minimum": 1, "description": "The first line. Default: 1."},
                    "end_line": {"type": "integer", "minimum": 1, "description": "The last line. Default: the last."}
                },
                "required": ["path"],
                "additionalProperties": false
            }"#,
        }
    }

    fn order(&self) -> Order {
        Order::SideBySide
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
            let Arguments {
                path,
                start_line,
                end_line,
            } = arguments(&raw)?;
            let (first, last) = (start_line.unwrap_or(1), end_line.unwrap_or(u64::MAX));
            if first == 0 || last < first {
                let told = "start_line: must be at least 1 and at most end_line";
                return Err(ToolError::ToModel(told.to_owned()));
            }
            let limit = context.output_bytes;
            with_workdir(context, move |workdir| read(workdir, &path, first..=last, limit)).await
        })
    }
}

type Lines = std::ops::RangeInclusive<u64>;

fn read(workdir: &Workdir, path: &str, lines: Lines, limit: usize) -> Result<ToolContent, ToolError> {
    let file = workdir
        .open(&file_path(path)?)
        .map_err(|error| about(path, &error))?;
    let excerpt = excerpt(BufReader::with_capacity(64 * 1024, file), &lines, limit)
        .map_err(|error| about(path, &error.into()))?;
    match excerpt {
        Excerpt::Binary => Err(ToolError::ToModel(format!("{path}: a binary file, not text"))),
        Excerpt::Beyond { lines: has } => Err(ToolError::ToModel(format!(
            "{path}: has only {has} lines, start_line is {}",
            lines.start()
        ))),
        Excerpt::Text(text) => Ok(ToolContent::Text(text)),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Excerpt {
    Text(String),
    Binary,
    /// The file ends before the first wanted line.
    Beyond {
        lines: u64,
    },
}

/// The wanted lines in at most `limit` bytes, and a line that tells where to go on if that is not all.
fn excerpt(mut file: impl BufRead, lines: &Lines, limit: usize) -> std::io::Result<Excerpt> {
    if file.fill_buf()?.contains(&0) {
        return Ok(Excerpt::Binary);
    }
    let mut kept = Vec::new();
    // The line that is being read, and where it begins in `kept`.
    let (mut line, mut begun) = (1_u64, 0);
    // Behind the last wanted line it makes no difference whether the file goes on: that was not asked for.
    while line <= *lines.end() && !file.fill_buf()?.is_empty() {
        if line < *lines.start() {
            skip_line(&mut file)?;
        } else {
            let room = (limit - kept.len()) as u64;
            if room == 0 {
                return Ok(Excerpt::Text(cut(kept, begun, line)));
            }
            (&mut file).take(room).read_until(b'\n', &mut kept)?;
            if kept.last() != Some(&b'\n') {
                continue;
            }
        }
        line += 1;
        begun = kept.len();
    }
    let has = if begun < kept.len() { line } else { line - 1 };
    if has < *lines.start() && !(has == 0 && *lines.start() == 1) {
        return Ok(Excerpt::Beyond { lines: has });
    }
    Ok(Excerpt::Text(text::clean_bytes(kept)))
}

/// What fitted, back to the last whole line.
fn cut(mut kept: Vec<u8>, begun: usize, line: u64) -> String {
    let fits = kept.len();
    let note = if begun == 0 {
        format!("\n[line {line} is longer than what fits: only its first {fits} bytes are shown]")
    } else {
        kept.truncate(begun);
        format!("[more follows: go on with start_line {line}]")
    };
    text::clean_bytes(kept) + &note
}

/// Passes over a line.
fn skip_line(file: &mut impl BufRead) -> std::io::Result<()> {
    loop {
        let buffer = file.fill_buf()?;
        let (length, ended) = match buffer.iter().position(|byte| *byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (buffer.len(), buffer.is_empty()),
        };
        file.consume(length);
        if ended {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(text: &str, lines: Lines, limit: usize) -> Excerpt {
        excerpt(BufReader::with_capacity(7, text.as_bytes()), &lines, limit).unwrap()
    }

    #[test]
    fn a_range_of_lines_is_read_and_the_rest_is_named() {
        let text = "one\ntwo\nthree\nfour";
        assert_eq!(lines(text, 1..=u64::MAX, 100), Excerpt::Text(text.to_owned()));
        assert_eq!(lines(text, 2..=3, 100), Excerpt::Text("two\nthree\n".to_owned()));
        assert_eq!(lines(text, 4..=9, 100), Excerpt::Text("four".to_owned()));
        assert_eq!(
            lines(text, 1..=4, 10),
            Excerpt::Text("one\ntwo\n[more follows: go on with start_line 3]".to_owned())
        );
        assert_eq!(lines(text, 5..=9, 100), Excerpt::Beyond { lines: 4 });
        assert_eq!(lines("", 1..=9, 100), Excerpt::Text(String::new()));
        assert_eq!(lines("a\n", 2..=9, 100), Excerpt::Beyond { lines: 1 });
    }

    #[test]
    fn one_endless_line_is_cut_and_said_to_be() {
        let long = "x".repeat(100);
        assert_eq!(
            lines(&long, 1..=1, 5),
            Excerpt::Text(
                "xxxxx\n[line 1 is longer than what fits: only its first 5 bytes are shown]".to_owned()
            )
        );
    }

    #[test]
    fn a_binary_file_is_not_shown() {
        assert_eq!(lines("\u{7f}ELF\0\0", 1..=1, 5), Excerpt::Binary);
    }

    proptest! {
        #[test]
        fn what_is_shown_is_what_the_file_has(
            text in "[ab\u{e9}\n]{0,40}", first in 1_usize..8, count in 0_usize..8, limit in 1_usize..40,
        ) {
            let all: Vec<&str> = text.split_inclusive('\n').collect();
            let wanted: String = all.iter().skip(first - 1).take(count + 1).copied().collect();
            match lines(&text, first as u64..=(first + count) as u64, limit) {
                Excerpt::Text(shown) => match shown.rfind('[') {
                    None => prop_assert_eq!(shown, wanted),
                    Some(note) => {
                        prop_assert!(wanted.len() > limit);
                        let shown = shown[..note].trim_end_matches(['\n', '\u{fffd}']);
                        prop_assert!(wanted.starts_with(shown) && shown.len() <= limit);
                    }
                },
                Excerpt::Beyond { lines } => {
                    prop_assert_eq!(lines, all.len() as u64);
                    prop_assert!(lines < first as u64);
                }
                Excerpt::Binary => prop_assert!(false),
            }
        }
    }
}
