//! The files of a run for its file tools: paths as models write them, errors as models read them.
//!
//! The tools reach the working directory and nothing else. They accept its absolute path, which commands print, and the forms
//! `~/` and `file://`. The segments `.` and `..` and empty ones are resolved textually: no link is followed.

use std::{cell::Cell, path::Path};

use sortie_api::file::is_deceptive;
use sortie_sandbox::{CommandPaths, Entry, EntryKind, FileError, Level, RelPath, Workdir};

use super::{Context, ToolError, ignored::Ignored};
use crate::{
    text,
    tool::names::distance,
    workspace::{WorkspaceError, lacks_descriptor},
};

/// Maximum number of entries that are searched for a name similar to a missing one.
const LOOKED_AT: usize = 10_000;
/// Maximum number of suggestions for a missing name.
const SUGGESTED: usize = 3;

/// The working directory of a run, and the absolute paths that refer to it.
pub(super) struct RunFiles<'w> {
    pub(super) workdir: &'w Workdir,
    paths: CommandPaths,
    /// Whether an operation failed for lack of a file descriptor.
    lacks_descriptor: Cell<bool>,
}

impl<'w> RunFiles<'w> {
    /// The files below `workdir`, for commands that run at `level`.
    pub(super) fn new(workdir: &'w Workdir, level: Level) -> Self {
        Self {
            workdir,
            paths: workdir.command_paths(level),
            lacks_descriptor: Cell::new(false),
        }
    }

    /// Records a failure for lack of a file descriptor. [`with_files`] then repeats the whole work.
    pub(super) fn note(&self, error: &FileError) {
        if lacks_descriptor(error) {
            self.lacks_descriptor.set(true);
        }
    }

    /// The path of a file.
    pub(super) fn file(&self, text: &str) -> Result<RelPath, ToolError> {
        match self.folder(Some(text))? {
            Some(path) => Ok(path),
            None => Err(refused("must name a file, not the working directory")),
        }
    }

    /// The path of a folder, `None` for the working directory itself.
    pub(super) fn folder(&self, text: Option<&str>) -> Result<Option<RelPath>, ToolError> {
        let text = text.unwrap_or_default().trim_end_matches(['\n', '\r']);
        let text = text.strip_prefix("file://").unwrap_or(text);
        let text = match text.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => rest.trim_start_matches('/'),
            _ => text,
        };
        let Some(path) = resolved(&self.relative(text)?) else {
            return Err(self.outside(text));
        };
        if path.is_empty() {
            return Ok(None);
        }
        let path = RelPath::new(&path).map_err(|error| refused(&error.to_string()))?;
        Ok(Some(path))
    }

    /// A path from the working directory.
    fn relative(&self, text: &str) -> Result<String, ToolError> {
        if !text.starts_with('/') {
            return Ok(text.to_owned());
        }
        let Some(absolute) = resolved(text) else {
            return Err(self.outside(text));
        };
        let absolute = format!("/{absolute}");
        let within = |folder: &Path| {
            let rest = Path::new(&absolute).strip_prefix(folder).ok()?;
            rest.to_str().map(str::to_owned)
        };
        // Commands may print either path if a link leads to the directory.
        let real = || std::fs::canonicalize(&self.paths.work).ok();
        within(&self.paths.work)
            .or_else(|| within(&real()?))
            .ok_or_else(|| self.outside(text))
    }

    fn outside(&self, path: &str) -> ToolError {
        let temporary = Path::new(path).starts_with(&self.paths.temporary);
        let (place, hint) = if temporary {
            ("is in the temporary directory", ": copy the file with `cp`")
        } else {
            ("is outside of it", "")
        };
        refused(&format!(
            "must lie in the working directory: {:?} {place}, and only commands reach that{hint}",
            text::head(path, 200),
        ))
    }

    /// A failure with its path, and similar names for a missing one.
    pub(super) fn about(&self, path: &RelPath, error: &FileError) -> ToolError {
        self.note(error);
        let near = match error {
            FileError::NotFound => self.near(path),
            FileError::NotAFile | FileError::Escapes | FileError::TooLarge { .. } | FileError::Io(_) => {
                Vec::new()
            }
        };
        let told = if near.is_empty() {
            format!("{path}: {error}")
        } else {
            let word = if near.len() == 1 { "there is" } else { "there are" };
            format!("{path}: {error}; {word} {}", near.join(", "))
        };
        ToolError::ToModel(told)
    }

    /// A failure of a folder; `None` is the working directory.
    pub(super) fn about_folder(&self, folder: Option<&RelPath>, error: &FileError) -> ToolError {
        let Some(folder) = folder else {
            self.note(error);
            return ToolError::ToModel(format!(".: {error}"));
        };
        self.about(folder, error)
    }

    /// Files with the name of `path` in another folder or in another case, then those with a similar name.
    fn near(&self, path: &RelPath) -> Vec<String> {
        let wanted = path.as_str();
        let (folder, name) = wanted.rsplit_once('/').unwrap_or(("", wanted));
        let mut ignored = Ignored::new(self.workdir, None);
        let listed = self
            .workdir
            .list_kept(None, (64, LOOKED_AT), |entry| ignored.keeps(entry));
        let Ok((entries, _)) = listed else {
            return Vec::new();
        };
        let likeness = |entry: &Entry| {
            let (other_folder, other) = entry.path.rsplit_once('/').unwrap_or(("", &entry.path));
            let letters = distance(name, other);
            let elsewhere = usize::from(folder != other_folder);
            let longest = name.len().max(other.len());
            (letters * 3 <= longest || entry.path.eq_ignore_ascii_case(wanted))
                .then_some((letters, elsewhere))
        };
        let mut near: Vec<((usize, usize), &str)> = entries
            .iter()
            .filter(|entry| {
                entry.kind == EntryKind::File
                    && !entry.path.contains(|c: char| is_deceptive(c) || c == '\u{fffd}')
            })
            .filter_map(|entry| Some((likeness(entry)?, entry.path.as_str())))
            .collect();
        near.sort_unstable();
        near.truncate(SUGGESTED);
        near.into_iter().map(|(_, path)| path.to_owned()).collect()
    }
}

/// The path without `.`, `..` and empty segments; `None` if it leaves its start.
fn resolved(text: &str) -> Option<String> {
    let mut segments = Vec::new();
    for segment in text.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()?),
            name => segments.push(name),
        }
    }
    Some(segments.join("/"))
}

fn refused(rule: &str) -> ToolError {
    ToolError::ToModel(format!("path: {rule}"))
}

/// Does blocking work on the files of the run, and repeats it if there was no file descriptor. Such work has not written a file
/// before, because it opens a file before it writes.
pub(super) async fn with_files<T: Send + 'static>(
    context: Context<'_>,
    work: impl Fn(&RunFiles<'_>) -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    // The workspace is released before the work begins, so that calls run concurrently.
    let files = context.files()?;
    let mut workspace = files.workspace.lock().await;
    let (level, directory) = (workspace.level(), workspace.directory(files.input_file).await?);
    drop(workspace);
    let work = move |workdir: &Workdir| {
        let files = RunFiles::new(workdir, level);
        (work(&files), files.lacks_descriptor.get())
    };
    let (done, _) = directory
        .run_with_descriptors(work, |(_, lacks_descriptor)| *lacks_descriptor)
        .await
        .map_err(WorkspaceError::from)?;
    done
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sortie_testkit::list;

    use super::*;

    fn told(error: ToolError) -> String {
        match error {
            ToolError::ToModel(told) => told,
            ToolError::NotSent(_) | ToolError::Fatal(_) => panic!("not for the model"),
        }
    }

    #[test]
    fn paths_as_models_write_them_are_understood() {
        let root = tempfile::tempdir().unwrap();
        let workdir = Workdir::create(root.path(), "run").unwrap();
        let files = RunFiles::new(&workdir, Level::Namespaces);
        for text in list! {
            "a/b", "././a/b", "a//b/", "/work/a/b", "/work/./x/../a/b", "~/a/b", "file:///work/a/b", "a/c/../b",
            "a/b\n", "//work//a/b",
        } {
            assert_eq!(files.file(text).unwrap().as_str(), "a/b", "{text}");
        }
        for here in list! {
            None, Some(""), Some("."), Some("./"), Some("./."), Some("/work"), Some("/work/"), Some("~"),
        } {
            assert_eq!(files.folder(here).unwrap(), None, "{here:?}");
        }
        for hostile in list! {
            "/", "/etc", "..", "a/../..", "./../x", "/work/../etc", "/workshop/a", "/../work", "a\0b", "~root/x\0",
        } {
            let told = told(files.folder(Some(hostile)).unwrap_err());
            assert!(told.starts_with("path: must "), "{hostile}: {told}");
        }
        assert_eq!(
            told(files.file("/tmp/x").unwrap_err()),
            "path: must lie in the working directory: \"/tmp/x\" is in the temporary directory, and only commands reach \
             that: copy the file with `cp`"
        );
    }

    #[test]
    fn the_path_that_commands_print_is_understood_at_every_level() {
        let root = tempfile::tempdir().unwrap();
        let link = root.path().join("link");
        std::fs::create_dir(root.path().join("runs")).unwrap();
        std::os::unix::fs::symlink(root.path().join("runs"), &link).unwrap();
        let workdir = Workdir::create(&link, "run").unwrap();
        let files = RunFiles::new(&workdir, Level::Landlock);
        for folder in [link.join("run"), root.path().join("runs/run")] {
            let path = folder.join("a.txt");
            assert_eq!(files.file(path.to_str().unwrap()).unwrap().as_str(), "a.txt");
        }
        for other in [link.join("run.tmp/a"), link.join("other/a"), link.join("runs")] {
            assert!(files.file(other.to_str().unwrap()).is_err());
        }
        assert!(files.file("/work/a.txt").is_err());
    }

    proptest! {
        #[test]
        fn no_path_leaves_the_directory(text in "[a./~]{0,12}|/work[a./]{0,8}|file://[a./]{0,8}") {
            let root = tempfile::tempdir()?;
            let workdir = Workdir::create(root.path(), "run")?;
            let files = RunFiles::new(&workdir, Level::Namespaces);
            if let Ok(Some(path)) = files.folder(Some(&text)) {
                let segments: Vec<&str> = path.as_str().split('/').collect();
                prop_assert!(segments.iter().all(|segment| !matches!(*segment, "" | "." | "..")));
            }
        }
    }
}
