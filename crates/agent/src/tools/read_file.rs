//! `read_file`: a text file or some of its lines, streamed, so that its size does not matter; a picture or a document, for a
//! model that accepts it.
//!
//! The text of a document that the model does not accept comes from `pdftotext`, if the sandbox has it.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    time::Duration,
};

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::value::RawValue;
use sortie_sandbox::{AtTimeout, Command, ExitKind, RelPath};

use super::{
    Context, Effect, Order, Tool, ToolError, arguments_of,
    files::{RunFiles, with_files},
};
use crate::{
    content::{Media, ToolContent, stream_text},
    media::{self, Kind, MEDIA_BYTES},
    model::ToolDefinition,
    text,
    workspace::WorkspaceError,
};

/// Bytes of a file that are examined for its type.
const HEAD_BYTES: usize = 64 * 1024;
/// Longest time that reading the text of a document may take.
const DOCUMENT_TIME: Duration = Duration::from_secs(30);

pub(super) struct ReadFile;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    path: String,
    start_line: Option<u64>,
    end_line: Option<u64>,
    #[serde(default)]
    line_numbers: bool,
}

impl Tool for ReadFile {
    fn definition(&self) -> ToolDefinition<'_> {
        ToolDefinition {
            name: "read_file",
            description: "Reads a text file of the working directory, whole or from start_line to end_line. A last \
                          line in brackets tells where to go on when there is more than fits. Shows pictures (PNG, \
                          JPEG, GIF, WebP) and PDF documents to models that take them.",
            parameters: concat!(
                r#"{"type":"object","properties":{"path":{"type":"string"},"#,
                r#""start_line":{"type":"integer","minimum":1},"#,
                r#""end_line":{"type":"integer","minimum":1},"#,
                r#""line_numbers":{"type":"boolean","description":"Begin each line with its number and a tab."}},"#,
                r#""required":["path"],"additionalProperties":false}"#
            ),
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
            let arguments: Arguments = arguments_of(&self.definition(), &raw)?;
            let (first, last) = (
                arguments.start_line.unwrap_or(1),
                arguments.end_line.unwrap_or(u64::MAX),
            );
            if last < first {
                let told = format!("end_line: must be at least start_line, which is {first}");
                return Err(ToolError::ToModel(told));
            }
            let wanted = Wanted {
                lines: first..=last,
                numbered: arguments.line_numbers,
                limit: context.output_bytes,
            };
            match with_files(context, move |files| read(files, &arguments.path, &wanted)).await? {
                Found::Text(text) => Ok(ToolContent::Text(text)),
                Found::Picture(media) => Ok(match context.counted(media, "pictures") {
                    Ok(media) => ToolContent::Media(media),
                    Err(why) => ToolContent::Text(why),
                }),
                Found::Document(path, media) => {
                    let shown = media.and_then(|media| context.counted(media, "documents"));
                    match shown {
                        Ok(media) => Ok(ToolContent::Media(media)),
                        Err(why) => document(&path, &why, context).await,
                    }
                }
            }
        })
    }
}

/// The requested lines of a text file.
struct Wanted {
    lines: Lines,
    /// Whether each line begins with its number.
    numbered: bool,
    /// Maximum size of the result, in bytes.
    limit: usize,
}

type Lines = std::ops::RangeInclusive<u64>;

/// Content of a file.
enum Found {
    Text(String),
    Picture(Media),
    /// A document, or a description of one that is too large to be shown.
    Document(RelPath, Result<Media, String>),
}

fn read(files: &RunFiles<'_>, path: &str, wanted: &Wanted) -> Result<Found, ToolError> {
    let path = files.file(path)?;
    let file = files
        .workdir
        .open(&path)
        .map_err(|error| files.about(&path, &error))?;
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    let mut file = BufReader::with_capacity(HEAD_BYTES, file);
    let failed = |error: std::io::Error| files.about(&path, &error.into());
    let head = file.fill_buf().map_err(failed)?;
    if let Some(kind) = Kind::of(head) {
        return shown(kind, &path, size, file).map_err(failed)?;
    }
    let excerpt = excerpt(file, wanted).map_err(failed)?;
    match excerpt {
        Excerpt::Binary => Err(ToolError::ToModel(format!(
            "{path}: a binary file of {size} bytes, not text"
        ))),
        Excerpt::Beyond { lines: has } => Err(ToolError::ToModel(format!(
            "{path}: has only {has} lines, start_line is {}",
            wanted.lines.start()
        ))),
        Excerpt::Text(text) => Ok(Found::Text(text)),
    }
}

/// A picture or a document.
fn shown(
    kind: Kind,
    path: &RelPath,
    size: u64,
    mut file: BufReader<File>,
) -> std::io::Result<Result<Found, ToolError>> {
    let (name, large) = (path.as_str(), size > MEDIA_BYTES);
    let examined = if large {
        Some(Err(media::too_large_of(kind, file.fill_buf()?, name, size)))
    } else {
        let mut bytes = Vec::new();
        file.take(MEDIA_BYTES + 1).read_to_end(&mut bytes)?;
        media::examined(&bytes, name)
    };
    Ok(match examined {
        Some(document) if !kind.is_picture() => Ok(Found::Document(path.clone(), document)),
        Some(Ok(picture)) => Ok(Found::Picture(picture)),
        Some(Err(refused)) => Err(ToolError::ToModel(refused)),
        None => Err(ToolError::ToModel(format!(
            "{path}: a broken picture of {size} bytes: its header cannot be read"
        ))),
    })
}

/// Extracts the text of a document with a program of the sandbox.
async fn document(path: &RelPath, label: &str, context: Context<'_>) -> Result<ToolContent, ToolError> {
    let files = context.files()?;
    // A name that begins with a dash must not be read as an option.
    let name = format!("./{path}");
    let argv = ["pdftotext", "-layout", "-enc", "UTF-8", &name, "-"];
    let command = Command {
        argv: argv.map(str::to_owned).to_vec(),
        timeout: DOCUMENT_TIME.min(files.command_time.most()),
        at_timeout: AtTimeout::Kill,
        keep_bytes: context.output_bytes,
        store_bytes: 0,
        watch: None,
    };
    let ran = files.workspace.lock().await.exec(files.input_file, command).await;
    let finished = match ran {
        Ok(finished) => finished,
        Err(WorkspaceError::Sandbox(_)) => {
            return Err(ToolError::ToModel(format!(
                "{label}; there is no `pdftotext` to read its text with"
            )));
        }
        Err(error) => return Err(error.into()),
    };
    let text = stream_text(finished.stdout);
    if finished.exit != ExitKind::Code(0) {
        return Err(ToolError::ToModel(format!("{label}; its text cannot be read")));
    }
    if text.trim().is_empty() {
        return Err(ToolError::ToModel(format!(
            "{label}; it holds no text, perhaps because its pages are pictures"
        )));
    }
    Ok(ToolContent::Text(format!("[{label}: the text]\n{text}")))
}

#[derive(Debug, PartialEq, Eq)]
enum Excerpt {
    Text(String),
    Binary,
    /// The file ends before the first requested line.
    Beyond {
        lines: u64,
    },
}

/// The requested lines up to the limit, and a line that says where to continue if that is not all.
fn excerpt(mut file: impl BufRead, wanted: &Wanted) -> std::io::Result<Excerpt> {
    let Wanted {
        ref lines,
        numbered,
        limit,
    } = *wanted;
    if file.fill_buf()?.contains(&0) {
        return Ok(Excerpt::Binary);
    }
    let mut kept = Vec::new();
    // The current line, and its start in `kept`.
    let (mut line, mut begun) = (1_u64, 0);
    // After the last requested line it does not matter whether the file continues.
    while line <= *lines.end() && !file.fill_buf()?.is_empty() {
        if line < *lines.start() {
            skip_line(&mut file)?;
        } else {
            if numbered && begun == kept.len() {
                kept.extend(text::line_number(line).as_bytes());
            }
            let room = limit.saturating_sub(kept.len()) as u64;
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

/// The bytes that fit, up to the last whole line.
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

/// Skips a line.
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
        let wanted = Wanted {
            lines,
            numbered: false,
            limit,
        };
        excerpt(BufReader::with_capacity(7, text.as_bytes()), &wanted).unwrap()
    }

    #[test]
    fn lines_begin_with_their_numbers_where_that_is_asked_for() {
        let numbered = |text: &str, lines, limit| {
            let wanted = Wanted {
                lines,
                numbered: true,
                limit,
            };
            excerpt(BufReader::with_capacity(3, text.as_bytes()), &wanted).unwrap()
        };
        assert_eq!(
            numbered("one\ntwo\n\nfour", 2..=9, 100),
            Excerpt::Text("     2\ttwo\n     3\t\n     4\tfour".to_owned())
        );
        assert_eq!(
            numbered("one\ntwo\n", 1..=9, 15),
            Excerpt::Text("     1\tone\n[more follows: go on with start_line 2]".to_owned())
        );
        assert_eq!(numbered("one\n", 2..=9, 100), Excerpt::Beyond { lines: 1 });
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
