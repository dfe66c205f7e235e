//! `search_files`: a regular expression over the lines of files, with bounded time, input and output.

mod lines;

use std::{
    collections::VecDeque,
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
use sortie_sandbox::{EntryKind, FileError, RelPath};

use self::lines::{next_line, shown};
use super::{
    Context, Effect, Order, Tool, ToolError, arguments_of,
    files::{RunFiles, with_files},
    glob::Glob,
    ignored::Ignored,
};
use crate::{content::ToolContent, model::ToolDefinition};

/// Longest time of a search.
const TIME: Duration = Duration::from_secs(10);
/// Maximum number of entries that are examined.
const ENTRIES: usize = 50_000;
/// The deepest level that is looked at.
const DEPTH: usize = 64;
/// Maximum number of bytes that a search reads of all files together.
const READ_BYTES: u64 = 512 * 1024 * 1024;
/// Matching lines that are shown.
const MATCHES: usize = 200;
/// Lines that are shown around a match at most.
const CONTEXT: usize = 20;

pub(super) struct SearchFiles;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    regex: String,
    path: Option<String>,
    pattern: Option<String>,
    #[serde(default)]
    ignore_case: bool,
    #[serde(default)]
    context: usize,
    #[serde(default)]
    files_only: bool,
    #[serde(default)]
    include_ignored: bool,
}

impl Tool for SearchFiles {
    fn definition(&self) -> ToolDefinition<'_> {
        ToolDefinition {
            name: "search_files",
            description: "Searches the lines of the text files in the working directory for a regular expression (no \
                          look-around, no back-references). Returns path:line: text, or with files_only the number \
                          of matching lines of each file. Leaves out .git and what .gitignore names, unless \
                          include_ignored is set.",
            parameters: concat!(
                r#"{"type":"object","properties":{"#,
                r#""regex":{"type":"string"},"#,
                r#""path":{"type":"string","description":"Folder or file. Default: the working directory."},"#,
                r#""pattern":{"type":"string","description":"File name pattern, such as *.rs; one with a slash is matched with the whole path."},"#,
                r#""ignore_case":{"type":"boolean"},"#,
                r#""context":{"type":"integer","minimum":0,"description":"Lines shown before and after each match."},"#,
                r#""files_only":{"type":"boolean"},"#,
                r#""include_ignored":{"type":"boolean"}},"#,
                r#""required":["regex"],"additionalProperties":false}"#
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
            let limit = context.output_bytes;
            let stop = StopOnDrop(Arc::default());
            let stopped = Arc::clone(&stop.0);
            with_files(context, move |files| search(files, &arguments, limit, &stopped)).await
        })
    }
}

/// Ends a search when its run is dropped.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn search(
    files: &RunFiles<'_>,
    arguments: &Arguments,
    limit: usize,
    stopped: &AtomicBool,
) -> Result<ToolContent, ToolError> {
    let told = |field: &str, why: String| ToolError::ToModel(format!("{field}: {why}"));
    let regex = RegexBuilder::new(&arguments.regex)
        .case_insensitive(arguments.ignore_case)
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
        context: arguments.context.min(CONTEXT),
        files_only: arguments.files_only,
        read: 0,
        matches: 0,
        files: 0,
        out: String::new(),
        ended: None,
    };
    match files.folder(arguments.path.as_deref())? {
        Some(file)
            if files
                .workdir
                .size(&file)
                .inspect_err(|error| files.note(error))
                .is_ok() =>
        {
            search.file(files, &file);
            Ok(ToolContent::Text(search.text()))
        }
        folder => {
            let mut ignored = Ignored::new(files.workdir, folder.as_ref());
            let keep_all = arguments.include_ignored;
            let listed = files
                .workdir
                .list_kept(folder.as_ref(), (DEPTH, ENTRIES), |entry| {
                    keep_all || ignored.keeps(entry)
                });
            let (entries, cut) = listed.map_err(|error| files.about_folder(folder.as_ref(), &error))?;
            let wanted = entries.into_iter().filter(|entry| {
                entry.kind == EntryKind::File && glob.as_ref().is_none_or(|glob| glob.matches(&entry.path))
            });
            search.all(files, wanted.map(|entry| entry.path));
            if cut && search.ended.is_none() {
                search.ended = Some("there are too many files or folders: name a folder");
            }
            let mut text = search.text();
            text.extend(ignored.note());
            Ok(ToolContent::Text(text))
        }
    }
}

struct Search<'a> {
    regex: Regex,
    limit: usize,
    stopped: &'a AtomicBool,
    until: Instant,
    /// Lines that are shown before and after a match.
    context: usize,
    files_only: bool,
    /// Bytes that were read.
    read: u64,
    /// Matching lines.
    matches: u64,
    /// Files with a match.
    files: usize,
    out: String,
    /// Reason why the search ended early.
    ended: Option<&'static str>,
}

impl Search<'_> {
    fn all(&mut self, files: &RunFiles<'_>, paths: impl Iterator<Item = String>) {
        for path in paths {
            // A name that is not UTF-8 cannot be opened by its path.
            let Ok(path) = RelPath::new(&path) else {
                continue;
            };
            self.file(files, &path);
            if self.ended.is_some() {
                return;
            }
        }
    }

    /// Searches one file. An unreadable file is skipped, as a binary one is.
    fn file(&mut self, files: &RunFiles<'_>, path: &RelPath) {
        let file = match files.workdir.open(path) {
            Ok(file) => file,
            Err(error) => return files.note(&error),
        };
        let before = self.matches;
        if let Err(error) = self.lines(BufReader::with_capacity(64 * 1024, file), path.as_str()) {
            let _ = writeln!(self.out, "{path}: {}", FileError::from(error));
        }
        let found = self.matches - before;
        if found > 0 {
            self.files += 1;
            if self.files_only {
                let lines = if found == 1 { "line" } else { "lines" };
                let _ = writeln!(self.out, "{path} ({found} {lines})");
                if self.files >= MATCHES || self.out.len() >= self.limit {
                    self.ended = self
                        .ended
                        .or(Some("there are more files: search for something narrower"));
                }
            }
        }
    }

    fn lines(&mut self, mut file: impl BufRead, path: &str) -> io::Result<()> {
        if file.fill_buf()?.contains(&0) {
            return Ok(());
        }
        let mut line = Vec::new();
        let mut around = Around::default();
        let mut number = 0_u64;
        while self.ended.is_none() {
            line.clear();
            let length = next_line(&mut file, &mut line)?;
            if length == 0 {
                break;
            }
            number += 1;
            self.read += length;
            if let Some(found) = self.regex.find(&line) {
                self.found(path, number, (&line, found.start()), &mut around);
            } else if self.context > 0 && !self.files_only {
                self.beside(path, number, &line, &mut around);
            }
            self.ended = self.ended.or_else(|| self.over(number));
        }
        Ok(())
    }

    fn found(&mut self, path: &str, number: u64, (line, at): (&[u8], usize), around: &mut Around) {
        if self.files_only {
            self.matches += 1;
            return;
        }
        if self.matches >= MATCHES as u64 || self.out.len() >= self.limit {
            self.ended = Some("there are more matches: search for something narrower");
            return;
        }
        self.matches += 1;
        let first = number - around.before.len() as u64;
        // Lines that are not adjacent are separated as by grep.
        if self.context > 0 && !self.out.is_empty() && around.last.is_none_or(|last| last + 1 < first) {
            self.out.push_str("--\n");
        }
        for (number, before) in around.before.drain(..) {
            let _ = writeln!(self.out, "{path}-{number}- {before}");
        }
        let _ = writeln!(self.out, "{path}:{number}: {}", shown(line, at));
        around.last = Some(number);
        around.after = self.context;
    }

    /// A line without a match, which may be context of one.
    fn beside(&mut self, path: &str, number: u64, line: &[u8], around: &mut Around) {
        if around.after > 0 {
            around.after -= 1;
            around.last = Some(number);
            let _ = writeln!(self.out, "{path}-{number}- {}", shown(line, 0));
            return;
        }
        if around.before.len() == self.context {
            around.before.pop_front();
        }
        around.before.push_back((number, shown(line, 0)));
    }

    fn over(&self, number: u64) -> Option<&'static str> {
        if self.stopped.load(Ordering::Relaxed) {
            return Some("stopped");
        }
        if self.read > READ_BYTES {
            return Some("the files are too large to be searched whole: name a folder or a pattern");
        }
        // The clock is read only now and then.
        if number.is_multiple_of(256) && Instant::now() > self.until {
            return Some("the time is up: name a folder or a pattern");
        }
        None
    }

    fn text(mut self) -> String {
        if self.matches == 0 {
            self.out.push_str("[no line matches]\n");
        } else if self.files_only && self.files > 1 {
            let _ = writeln!(self.out, "[{} lines in {} files]", self.matches, self.files);
        }
        if let Some(why) = self.ended {
            let _ = writeln!(self.out, "[{why}]");
        }
        self.out
    }
}

/// The context lines of the matches of one file.
#[derive(Default)]
struct Around {
    /// Lines that were not shown, the newest last.
    before: VecDeque<(u64, String)>,
    /// Lines that remain to be shown after the last match.
    after: usize,
    /// The number of the last line that was shown.
    last: Option<u64>,
}
