//! Artifacts of a run: the files under `outputs/`, stored after its processes ended and before its status is terminal.
//!
//! The files are untrusted. Links are not followed, only regular files of the run are opened, and a file is read only up to its
//! size when it was opened. Files, bytes, entries and events are limited. Content goes to the storage piece by piece. Files that
//! break a rule are reported as events, with the reason. A failure of the storage or of the database is not such a reason: all
//! files are then stored again, until all valid files are stored.

use std::{fs::File, sync::Arc, time::Duration};

use sortie_agent::StoppedWorkspace;
use sortie_api::{Artifact, ErrorCode, OrgId, Refusal, event::EventType, file::is_deceptive, limits};
use sortie_base::descriptors::{is_out_of_descriptors, names_full_table};
use sortie_sandbox::{Entry, EntryKind, FileError, RelPath, Workdir};
use sortie_store::runs::{KeptArtifact, NewArtifacts};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    sync::Semaphore,
    time::{sleep, timeout},
};

use super::Worker;
use crate::{files::saved::media_type, kit::retry::Pauses};

/// Folder for output files. They become artifacts.
const FOLDER: &str = "outputs";
/// Limits of the entries that are listed, and of their depth.
const ENTRIES: usize = 2_000;
const DEPTH: usize = 32;
/// Skipped files that are reported one by one.
const REPORTED: usize = 64;
/// Maximum length of a path in an event, in bytes.
const PATH_BYTES: usize = 1_024;
/// Time limit of one pass over the files: far shorter than [`GRACE`](crate::files::contents::GRACE), for which content without a
/// reference is kept.
const PASS: Duration = Duration::from_mins(20);
/// Longest pause between two passes. Each pass copies all outputs.
const LAST_PAUSE: Duration = Duration::from_mins(1);
/// Maximum concurrent runs of a node that store artifacts. Each takes about a MiB of memory.
const AT_ONCE: usize = 16;
/// Bytes of one read.
const PIECE: usize = 256 * 1024;

/// Permits of the runs of a node that store artifacts.
#[derive(Clone)]
pub(crate) struct Collecting(Arc<Semaphore>);

impl Default for Collecting {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }
}

/// Result of storing the artifacts of a run.
#[derive(Default)]
pub(crate) struct Outputs {
    /// Events about stored and skipped files, in the order of their paths.
    pub(crate) events: Vec<EventType>,
    /// Stored artifacts, if there are any.
    pub(crate) artifacts: Option<NewArtifacts>,
}

/// Stores the artifacts of a run. Retries until they are stored, even during a long outage of the storage. Cheap if the run has
/// no working directory or no such folder.
pub(crate) async fn collect(worker: &Worker, org: OrgId, workspace: &StoppedWorkspace) -> Outputs {
    let mut pauses = Pauses::up_to(LAST_PAUSE);
    let (entries, cut) = loop {
        match workspace.inspect(entries).await {
            None => return Outputs::default(),
            Some(Ok(Ok((entries, _)))) if entries.is_empty() => return Outputs::default(),
            Some(Ok(Ok(listed))) => break listed,
            // Retried without a limit, as storing a file is.
            Some(Ok(Err(reason))) if names_full_table(&reason) => sleep(pauses.longer()).await,
            Some(Ok(Err(reason)) | Err(reason)) => {
                let mut collection = Collection::new(worker, org, workspace);
                collection.report_skipped(".", reason);
                return collection.end();
            }
        }
    };
    loop {
        let mut collection = Collection::new(worker, org, workspace);
        let pass = async {
            let _permit = worker.collecting.0.acquire().await;
            collection.keep_all(&entries).await
        };
        if let Ok(Ok(())) = timeout(PASS, pass).await {
            if cut {
                let reason = format!("ignored after {ENTRIES} entries or below {DEPTH} levels of folders");
                collection.report_skipped(".", reason);
            }
            return collection.end();
        }
        sleep(pauses.longer()).await;
        worker.contents.standing().up().await;
    }
}

/// Lists the entries of the folder without subfolders, in the order of paths, and whether there may be more.
fn entries(workdir: &Workdir) -> Result<(Vec<Entry>, bool), String> {
    let folder = RelPath::new(FOLDER).map_err(|error| error.to_string())?;
    let (mut entries, cut) = match workdir.list(Some(&folder), DEPTH, ENTRIES) {
        Ok(found) => found,
        Err(FileError::NotFound) => {
            return match workdir.size(&folder) {
                Err(FileError::NotFound) => Ok((Vec::new(), false)),
                _ => Err("`outputs` is not a folder".to_owned()),
            };
        }
        Err(FileError::Escapes) => return Err("`outputs` is a link, which is not followed".to_owned()),
        Err(error) => return Err(format!("`outputs` cannot be read: {error}")),
    };
    entries.retain(|entry| entry.kind != EntryKind::Directory);
    entries.sort_by(|one, other| one.path.cmp(&other.path));
    Ok((entries, cut))
}

/// The collection of one run.
struct Collection<'a> {
    worker: &'a Worker,
    org: OrgId,
    workspace: &'a StoppedWorkspace,
    /// Bytes that may still be stored.
    room: u64,
    kept: Vec<KeptArtifact>,
    events: Vec<EventType>,
    /// Number of files that were not stored.
    skipped: usize,
}

/// Reason why a file was not stored.
enum NotKept {
    /// The file breaks a rule, or cannot be read: a sentence for people.
    Skipped(String),
    /// The storage or the database is unavailable, or there is no file descriptor.
    Away,
}

impl From<String> for NotKept {
    fn from(reason: String) -> Self {
        Self::Skipped(reason)
    }
}

/// A failure of the storage or of the database. Only the limit of the organization is a reason to skip a file.
impl From<Refusal> for NotKept {
    fn from(error: Refusal) -> Self {
        if error.code == ErrorCode::Conflict {
            return Self::Skipped(error.text.into_owned());
        }
        if error.code != ErrorCode::Unavailable {
            tracing::error!(%error, "storing an artifact failed");
        }
        Self::Away
    }
}

impl<'a> Collection<'a> {
    fn new(worker: &'a Worker, org: OrgId, workspace: &'a StoppedWorkspace) -> Self {
        Self {
            worker,
            org,
            workspace,
            room: limits::ARTIFACT_BYTES,
            kept: Vec::new(),
            events: Vec::new(),
            skipped: 0,
        }
    }

    /// Stores these entries in their order, as far as the limits allow. Fails if the storage is unavailable.
    async fn keep_all(&mut self, entries: &[Entry]) -> Result<(), NotKept> {
        for entry in entries {
            let path = entry.path.strip_prefix("outputs/").unwrap_or(&entry.path);
            match self.keep(entry, path).await {
                Ok(kept) => {
                    self.events.push(EventType::Artifact(kept.artifact.clone()));
                    self.kept.push(kept);
                }
                Err(NotKept::Skipped(reason)) => self.report_skipped(path, reason),
                Err(NotKept::Away) => return Err(NotKept::Away),
            }
        }
        Ok(())
    }

    /// Stores one file, or returns the reason why it was not stored.
    async fn keep(&mut self, entry: &Entry, path: &str) -> Result<KeptArtifact, NotKept> {
        match entry.kind {
            EntryKind::File => {}
            EntryKind::Symlink => return Err("a link, which is not followed".to_owned().into()),
            EntryKind::Directory | EntryKind::Other => return Err("not a regular file".to_owned().into()),
        }
        // Bytes that are not UTF-8 were replaced in the path, so the path does not identify the file.
        if path.contains(char::REPLACEMENT_CHARACTER) {
            return Err("its path is not UTF-8".to_owned().into());
        }
        let file_path = RelPath::new(&entry.path).map_err(|rule| format!("its path {rule}"))?;
        if self.kept.len() >= limits::ARTIFACTS {
            return Err(format!("more than {} files", limits::ARTIFACTS).into());
        }
        let (file, size) = self.open(file_path).await?;
        let kept = self.store(tokio::fs::File::from_std(file), size, path).await?;
        self.room = self
            .room
            .saturating_sub(u64::try_from(kept.artifact.size).unwrap_or(u64::MAX));
        Ok(kept)
    }

    /// Opens a file that fits into the limit, and returns its size.
    async fn open(&self, path: RelPath) -> Result<(File, u64), NotKept> {
        let opened = self
            .workspace
            .inspect(move |workdir| workdir.open_own(&path))
            .await;
        let opened = opened.ok_or_else(|| "the working directory is gone".to_owned())??;
        let (file, size) = opened.map_err(|error| {
            if let FileError::Io(error) = &error
                && is_out_of_descriptors(error)
            {
                return NotKept::Away;
            }
            NotKept::Skipped(format!("cannot be read: {error}"))
        })?;
        if size > self.room {
            let reason = format!(
                "{size} bytes are more than is left of {} for all files",
                limits::ARTIFACT_BYTES
            );
            return Err(reason.into());
        }
        Ok((file, size))
    }

    /// Stores at most `size` bytes of a file.
    async fn store(
        &self,
        file: impl AsyncRead + Unpin,
        size: u64,
        path: &str,
    ) -> Result<KeptArtifact, NotKept> {
        let contents = &self.worker.contents;
        let mut staging = contents.stage(self.org).await?;
        let mut file = file.take(size);
        let mut piece = vec![0; PIECE];
        loop {
            let read = file
                .read(&mut piece)
                .await
                .map_err(|error| format!("cannot be read: {error}"))?;
            let Some(bytes) = piece.get(..read).filter(|bytes| !bytes.is_empty()) else {
                break;
            };
            staging
                .write(bytes)
                .await
                .map_err(|error| contents.failed(self.org, error))?;
        }
        let staged = staging.finish().await;
        let staged = staged.map_err(|error| contents.failed(self.org, error))?;
        let (size, sha256) = (staged.size(), staged.sha256());
        let blob = contents.keep(self.org, staged).await?;
        Ok(KeptArtifact {
            artifact: Artifact {
                path: path.to_owned(),
                size: i64::try_from(size).map_err(|error| error.to_string())?,
                sha256,
                content_type: media_type(path),
            },
            blob,
        })
    }

    fn report_skipped(&mut self, path: &str, reason: String) {
        self.skipped += 1;
        if self.skipped <= REPORTED {
            self.events.push(EventType::ArtifactSkipped {
                path: printable(path),
                reason,
            });
        }
    }

    fn end(mut self) -> Outputs {
        let more = self.skipped.saturating_sub(REPORTED);
        if more > 0 {
            self.events.push(EventType::ArtifactSkipped {
                path: ".".to_owned(),
                reason: format!("{more} more were not kept"),
            });
        }
        let check_at = self.worker.contents.check_at();
        let kept = self.kept;
        Outputs {
            events: self.events,
            artifacts: (!kept.is_empty()).then_some(NewArtifacts { kept, check_at }),
        }
    }
}

/// Returns a path for an event: characters that make it look like another are escaped, and it is cut at [`PATH_BYTES`].
fn printable(path: &str) -> String {
    let mut printable = String::new();
    for character in path.chars() {
        let before = printable.len();
        if is_deceptive(character) {
            printable.extend(character.escape_default());
        } else {
            printable.push(character);
        }
        if printable.len() > PATH_BYTES {
            printable.truncate(before);
            printable.push('…');
            break;
        }
    }
    printable
}
