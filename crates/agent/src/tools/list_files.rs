//! `list_files`: the files and folders of the working directory, without following links.

use std::fmt::Write as _;

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::value::RawValue;
use sortie_api::file::is_deceptive;
use sortie_sandbox::{Entry, EntryKind};

use super::{
    Context, Effect, Order, Tool, ToolError, arguments_of,
    files::{RunFiles, with_files},
    glob::Glob,
    ignored::Ignored,
};
use crate::{content::ToolContent, model::ToolDefinition};

/// Entries that are listed at most.
const SHOWN: usize = 1_000;
/// Entries that are looked through for a pattern.
const LOOKED_AT: usize = 50_000;
/// The deepest level that is looked at.
const DEPTH: usize = 64;

pub(super) struct ListFiles;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    path: Option<String>,
    pattern: Option<String>,
    max_depth: Option<usize>,
    #[serde(default)]
    include_ignored: bool,
}

impl Tool for ListFiles {
    fn definition(&self) -> ToolDefinition<'_> {
        ToolDefinition {
            name: "list_files",
            description: "Lists files and folders of the working directory with their sizes; a folder ends with a \
                          slash. A pattern such as *.csv or src/**/*.rs lists only the files that match. Leaves out \
                          .git and what .gitignore names, unless include_ignored is set.",
            parameters: concat!(
                r#"{"type":"object","properties":{"#,
                r#""path":{"type":"string","description":"Folder. Default: the working directory."},"#,
                r#""pattern":{"type":"string","description":"File name pattern; one with a slash is matched with the whole path."},"#,
                r#""max_depth":{"type":"integer","minimum":1,"description":"Levels of folders. Default: all."},"#,
                r#""include_ignored":{"type":"boolean"}},"#,
                r#""additionalProperties":false}"#
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
            with_files(context, move |files| list(files, &arguments, limit)).await
        })
    }
}

fn list(files: &RunFiles<'_>, arguments: &Arguments, limit: usize) -> Result<ToolContent, ToolError> {
    let Arguments {
        path,
        pattern,
        max_depth,
        include_ignored,
    } = arguments;
    let glob = pattern.as_deref().map(Glob::new).transpose();
    let glob = glob.map_err(|why| ToolError::ToModel(format!("pattern: {why}")))?;
    let depth = max_depth.unwrap_or(DEPTH).clamp(1, DEPTH);
    let most = if glob.is_some() { LOOKED_AT } else { SHOWN };
    let folder = files.folder(path.as_deref())?;
    if let Some(file) = &folder
        && let Ok(size) = files.workdir.size(file)
    {
        let entry = Entry {
            path: file.as_str().to_owned(),
            kind: EntryKind::File,
            size,
        };
        return Ok(ToolContent::Text(line(&entry)));
    }
    let mut ignored = Ignored::new(files.workdir, folder.as_ref());
    let (entries, _) = files
        .workdir
        .list_kept(folder.as_ref(), (depth, most + 1), |entry| {
            *include_ignored || ignored.keeps(entry)
        })
        .map_err(|error| files.about_folder(folder.as_ref(), &error))?;
    let more_than_looked_at = entries.len() > most;
    let mut wanted = entries.iter().take(most).filter(|entry| {
        glob.as_ref()
            .is_none_or(|glob| entry.kind != EntryKind::Directory && glob.matches(&entry.path))
    });
    let mut out = String::new();
    let mut cut = more_than_looked_at;
    for (shown, entry) in wanted.by_ref().enumerate() {
        if shown == SHOWN || out.len() >= limit {
            cut = true;
            break;
        }
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{}", line(entry));
    }
    if out.is_empty() {
        out.push_str(if glob.is_some() {
            "[no file matches]\n"
        } else {
            "[empty]\n"
        });
    }
    if cut {
        out.push_str("[there are more: name a folder or a narrower pattern]\n");
    }
    out.extend(ignored.note());
    Ok(ToolContent::Text(out))
}

fn line(entry: &Entry) -> String {
    // A line break in a name would look like another entry.
    let mut path = String::with_capacity(entry.path.len());
    for character in entry.path.chars() {
        if is_deceptive(character) {
            path.extend(character.escape_default());
        } else {
            path.push(character);
        }
    }
    match entry.kind {
        EntryKind::File => format!("{path} ({} bytes)", entry.size),
        EntryKind::Directory => format!("{path}/"),
        EntryKind::Symlink => format!("{path} (link)"),
        EntryKind::Other => format!("{path} (not a file)"),
    }
}
