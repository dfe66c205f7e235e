//! `search_files`: a regular expression over the lines of files, bounded in time, in what is read and in what is shown.

use std::{
    fmt::Write as _,
    io::{self, BufRead, BufReader},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::value::RawValue;
use sortie_sandbox::{EntryKind, FileError, RelPath, Workdir};

use super::{
    Context, Effect, Order, Tool, ToolError, arguments,
    files::{about, folder_path, with_workdir},
    glob::Glob,
};
use crate::{content::ToolContent, model::ToolDefinition, text};

/// How long a search takes at most.
const TIME: Duration = Duration::from_secs(10);
/// Entries that are looked at.
const ENTRIES: usize = 50_000;
/// The deepest level that is looked at.
const DEPTH: usize = 64;
/// How much is read of all files together, in bytes.
const READ_BYTES: u64 = 512 * 1024 * 1024;
/// How much of a line is searched, in bytes.
const LINE_BYTES: usize = 64 * 1024;
/// How much of a matching line is shown, in bytes.
const SHOWN_BYTES: usize = 300;
/// Matching lines that are shown.
const MATCHES: usize = 200;

pub(super) struct SearchFiles;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    regex: String,
    path: Option<String>,
    pattern: Option<String>,
}

impl Tool for SearchFiles {
    fn definition(&self) -> ToolDefinition<'_> {
        ToolDefinition {
            name: "search_files",
            description: "Searches the lines of the text files in the working directory for a regular expression \
                          (no look-around, no back-references; begin with (?i) to ignore case) and returns them as \
                          path:line: text.",
            parameters: r#"{
                "type": "object",
                "properties": {
                    "regex": {"type": "string", "description": "The regular expression."},
                    "path": {"type": "string", "description": "A folder or a file. Default: the working directory."},
                    "pattern": {"type": "string", "description": "Only files that match this file name pattern, such as *.rs; one with a slash is matched with the path from the working directory."}
                },
                "required": ["regex"],
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
            let arguments: Arguments = arguments(&raw)?;
            let limit = context.output_bytes;
            let stop = StopOnDrop(Arc::default());
            let stopped = Arc::clone(&stop.0);
            with_workdir(context, move |workdir| {
                search(workdir, &arguments, limit, &stopped)
            })
            .await
        })
    }
}

/// Ends a search whose run is gone.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn search(
    workdir: &Workdir,
    arguments: &Arguments,
    limit: usize,
    stopped: &AtomicBool,
) -> Result<ToolContent, ToolError> {
    let told = |field: &str, why: String| ToolError::ToModel(format!("{field}: {why}"));
    let regex = RegexBuilder::new(&arguments.regex)
        .size_limit(1 << 20)
        .dfa_size_limit(1 << 20)
        .build();
    let regex = regex.map_err(|error| told("regex", error.to_string()))?;
    let glob = arguments
        .pattern
        .as_deref()
        .map(Glob::new)
        .transpose()
        .map_err(|why| told("pattern", why))?;
    let mut search = Search {
        regex,
        limit,
        stopped,
        until: Instant::now() + TIME,
        read: 0,
        matches: 0,
        out: String::new(),
        ended: None,
    };
    let path = arguments.path.as_deref();
    match folder_path(path)? {
        Some(file) if workdir.size(&file).is_ok() => search.file(workdir, &file),
        folder => search
            .folder(workdir, folder.as_ref(), glob.as_ref())
            .map_err(|error| about(path.unwrap_or("."), &error))?,
    }
    Ok(ToolContent::Text(search.text()))
}

struct Search<'a> {
    regex: Regex,
    limit: usize,
    stopped: &'a AtomicBool,
    until: Instant,
    read: u64,
    matches: usize,
    out: String,
    /// Why it ended early.
    ended: Option<&'static str>,
}

impl Search<'_> {
    fn folder(
        &mut self,
        workdir: &Workdir,
        folder: Option<&RelPath>,
        glob: Option<&Glob>,
    ) -> Result<(), FileError> {
        let (entries, cut) = workdir.list(folder, DEPTH, ENTRIES)?;
        let files = entries.into_iter().filter(|entry| {
            entry.kind == EntryKind::File && glob.is_none_or(|glob| glob.matches(&entry.path))
        });
        for entry in files {
            // A name that is not UTF-8 cannot be opened by its path.
            let Ok(path) = RelPath::new(&entry.path) else {
                continue;
            };
            self.file(workdir, &path);
            if self.ended.is_some() {
                return Ok(());
            }
        }
        if cut {
            self.ended = Some("there are too many files or folders: name a folder");
        }
        Ok(())
    }

    /// Searches one file. One that cannot be read is left out, as a binary one is.
    fn file(&mut self, workdir: &Workdir, path: &RelPath) {
        let Ok(file) = workdir.open(path) else { return };
        if let Err(error) = self.lines(BufReader::with_capacity(64 * 1024, file), path.as_str()) {
            let _ = writeln!(self.out, "{path}: {error}");
        }
    }

    fn lines(&mut self, mut file: impl BufRead, path: &str) -> io::Result<()> {
        if file.fill_buf()?.contains(&0) {
            return Ok(());
        }
        let mut line = Vec::new();
        let mut number = 0_u64;
        while self.ended.is_none() {
            line.clear();
            let length = next_line(&mut file, &mut line)?;
            if length == 0 {
                break;
            }
            number += 1;
            self.read += length;
            if self.regex.is_match(&line) {
                self.show(path, number, &line);
            }
            self.ended = self.ended.or_else(|| self.over(number));
        }
        Ok(())
    }

    fn show(&mut self, path: &str, number: u64, line: &[u8]) {
        if self.matches == MATCHES || self.out.len() >= self.limit {
            self.ended = Some("there are more matches: search for something narrower");
            return;
        }
        self.matches += 1;
        let found = self.regex.find(line).map_or(0, |found| found.start());
        // Far into a long line, what is shown begins shortly before the match.
        let from = if found + 50 > SHOWN_BYTES {
            found.saturating_sub(50)
        } else {
            0
        };
        let shown = line.get(from..).unwrap_or_default();
        let (shown, more) = match shown.get(..SHOWN_BYTES) {
            Some(head) if head.len() < shown.len() => (head, "…"),
            _ => (shown, ""),
        };
        let shown = text::clean(String::from_utf8_lossy(shown).into_owned());
        let begun = if from > 0 { "…" } else { "" };
        let _ = writeln!(self.out, "{path}:{number}: {begun}{}{more}", shown.trim_end());
    }

    fn over(&self, number: u64) -> Option<&'static str> {
        if self.stopped.load(Ordering::Relaxed) {
            return Some("stopped");
        }
        if self.read > READ_BYTES {
            return Some("the files are too large to be searched whole: name a folder or a pattern");
        }
        // The clock is asked now and then only.
        if number.is_multiple_of(256) && Instant::now() > self.until {
            return Some("the time is up: name a folder or a pattern");
        }
        None
    }

    fn text(mut self) -> String {
        if self.matches == 0 {
            self.out.push_str("[no line matches]\n");
        }
        if let Some(why) = self.ended {
            let _ = writeln!(self.out, "[{why}]");
        }
        self.out
    }
}

/// Reads a line, of which at most [`LINE_BYTES`] are kept; returns its whole length.
fn next_line(file: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<u64> {
    let mut length = 0;
    loop {
        let buffer = file.fill_buf()?;
        let (piece, ended) = match buffer.iter().position(|byte| *byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (buffer.len(), buffer.is_empty()),
        };
        let kept = piece.min(LINE_BYTES.saturating_sub(line.len()));
        line.extend_from_slice(buffer.get(..kept).unwrap_or_default());
        file.consume(piece);
        length += piece as u64;
        if ended {
            while matches!(line.last(), Some(b'\n' | b'\r')) {
                line.pop();
            }
            return Ok(length);
        }
    }
}
