//! The artifacts of a run: what lies under `outputs/` once nothing of the run is alive, kept before the run is final.
//!
//! Everything there is hostile. Links are not followed, only regular files of the run's own are opened, no more of one is
//! read than its size was when it was opened, and the files, their bytes, the entries looked at, the events and the time
//! are all bounded. Content goes to the storage piece by piece. What is not kept is told, with the reason.

use std::{fs::File, sync::Arc, time::Duration};

use sortie_agent::Remains;
use sortie_api::{Artifact, BlobId, OrgId, event::EventType, limits};
use sortie_blobs::Staged;
use sortie_sandbox::{Entry, EntryKind, FileError, RelPath, Workdir};
use sortie_store::{KeptArtifact, NewArtifacts};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    sync::Semaphore,
    time::Instant,
};

use super::Worker;
use crate::{
    error::Error,
    files::{contents::storage, saved::media_type},
};

/// Where the agent leaves what is to be kept.
const FOLDER: &str = "outputs";
/// Entries that are looked at, and how deep they may lie.
const ENTRIES: usize = 2_000;
const DEPTH: usize = 32;
/// Files whose skipping is told one by one.
const TOLD: usize = 64;
/// How much of a path an event shows, in bytes.
const SHOWN: usize = 1_024;
/// How long all of it may take.
const TIME: Duration = Duration::from_mins(2);
/// Runs of a node whose files are taken in at once, each with about a MiB in memory.
const AT_ONCE: usize = 16;
/// How long a database that is away is left alone.
const PAUSE: Duration = Duration::from_millis(500);
/// What is read at once.
const PIECE: usize = 256 * 1024;

/// The turns of the runs of a node that have files to keep.
#[derive(Clone)]
pub(crate) struct Collecting(Arc<Semaphore>);

impl Default for Collecting {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }
}

/// What became of the files of a run.
#[derive(Default)]
pub(crate) struct Outputs {
    /// What is told of them, in the order of their paths.
    pub(crate) events: Vec<EventType>,
    /// What is kept, if anything.
    pub(crate) artifacts: Option<NewArtifacts>,
}

/// Keeps what a run has left. Cheap where it has no working directory, or no such folder.
pub(crate) async fn collect(worker: &Worker, org: OrgId, remains: &Remains) -> Outputs {
    let mut collection = Collection {
        worker,
        org,
        remains,
        room: limits::ARTIFACT_BYTES,
        kept: Vec::new(),
        events: Vec::new(),
        skipped: 0,
    };
    match remains.look(entries).await {
        None => return Outputs::default(),
        Some(Ok(Ok((entries, _)))) if entries.is_empty() => {}
        Some(Ok(Ok((entries, cut)))) => {
            let _turn = worker.collecting.0.acquire().await;
            collection.keep_all(entries).await;
            if cut {
                let reason =
                    format!("not looked at beyond {ENTRIES} entries and below {DEPTH} levels of folders");
                collection.tell_skipped(".", reason);
            }
        }
        Some(Ok(Err(reason)) | Err(reason)) => collection.tell_skipped(".", reason),
    }
    collection.end()
}

/// What lies in the folder: all but folders, in the order of paths, and whether there may be more.
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
    remains: &'a Remains,
    /// What may still be kept, in bytes.
    room: u64,
    kept: Vec<KeptArtifact>,
    events: Vec<EventType>,
    /// How many files were not kept.
    skipped: usize,
}

impl Collection<'_> {
    /// Keeps what may be kept of these entries, in their order.
    async fn keep_all(&mut self, entries: Vec<Entry>) {
        let deadline = Instant::now() + TIME;
        for entry in entries {
            let path = entry.path.strip_prefix("outputs/").unwrap_or(&entry.path);
            let late = |_| Err(format!("not kept within {} s", TIME.as_secs()));
            let keep = tokio::time::timeout_at(deadline, self.keep(&entry, path));
            let kept = keep.await.unwrap_or_else(late);
            match kept {
                Ok(kept) => {
                    self.events.push(EventType::Artifact(kept.artifact.clone()));
                    self.kept.push(kept);
                }
                Err(reason) => self.tell_skipped(path, reason),
            }
        }
    }

    /// Keeps one file, or says why not.
    async fn keep(&mut self, entry: &Entry, path: &str) -> Result<KeptArtifact, String> {
        match entry.kind {
            EntryKind::File => {}
            EntryKind::Symlink => return Err("a link, which is not followed".to_owned()),
            EntryKind::Directory | EntryKind::Other => return Err("not a regular file".to_owned()),
        }
        // What stands for bytes that are no text is no way back to the file.
        if path.contains(char::REPLACEMENT_CHARACTER) {
            return Err("its path is not UTF-8".to_owned());
        }
        let place = RelPath::new(&entry.path).map_err(|rule| format!("its path {rule}"))?;
        if self.kept.len() >= limits::ARTIFACTS {
            return Err(format!("more than {} files", limits::ARTIFACTS));
        }
        let (file, size) = self.open(place).await?;
        let kept = self.store(tokio::fs::File::from_std(file), size, path).await;
        let kept = kept.map_err(told)?;
        self.room = self
            .room
            .saturating_sub(u64::try_from(kept.artifact.size).unwrap_or(u64::MAX));
        Ok(kept)
    }

    /// A file that there is room for, with its size.
    async fn open(&self, place: RelPath) -> Result<(File, u64), String> {
        let opened = self.remains.look(move |workdir| workdir.open_own(&place)).await;
        let (file, size) = opened
            .ok_or("the working directory is gone")??
            .map_err(|error| format!("cannot be read: {error}"))?;
        if size > self.room {
            return Err(format!(
                "{size} bytes are more than is left of {} for all files",
                limits::ARTIFACT_BYTES
            ));
        }
        Ok((file, size))
    }

    /// Waits for a database that is away, or loses connections: the end of the run has to wait for it as well.
    async fn reserve(&self, staged: &Staged) -> Result<BlobId, Error> {
        loop {
            match self.worker.contents.reserve(self.org, staged).await {
                Err(Error::Unavailable(_)) => tokio::time::sleep(PAUSE).await,
                reserved => return reserved,
            }
        }
    }

    /// Takes in at most `size` bytes.
    async fn store(
        &self,
        file: impl AsyncRead + Unpin,
        size: u64,
        path: &str,
    ) -> Result<KeptArtifact, Error> {
        let contents = &self.worker.contents;
        let mut staging = contents.stage().await?;
        let mut file = file.take(size);
        let mut piece = vec![0; PIECE];
        loop {
            let read = file
                .read(&mut piece)
                .await
                .map_err(|error| Error::Unavailable(format!("cannot be read: {error}")))?;
            let Some(bytes) = piece.get(..read).filter(|bytes| !bytes.is_empty()) else {
                break;
            };
            staging.write(bytes).await.map_err(storage)?;
        }
        let staged = staging.finish().await.map_err(storage)?;
        let (size, sha256) = (staged.size(), staged.sha256());
        let blob = self.reserve(&staged).await?;
        contents.put((self.org, blob), staged).await?;
        Ok(KeptArtifact {
            artifact: Artifact {
                path: path.to_owned(),
                size: i64::try_from(size).map_err(|error| Error::Internal(error.to_string()))?,
                sha256,
                content_type: media_type(path),
            },
            blob,
        })
    }

    fn tell_skipped(&mut self, path: &str, reason: String) {
        self.skipped += 1;
        if self.skipped <= TOLD {
            self.events.push(EventType::ArtifactSkipped {
                path: shown(path),
                reason,
            });
        }
    }

    fn end(mut self) -> Outputs {
        let more = self.skipped.saturating_sub(TOLD);
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

/// What is told of content that could not be kept; the log is told the rest.
fn told(error: Error) -> String {
    if let Error::Unavailable(reason) = error {
        return reason;
    }
    tracing::error!(%error, "an artifact could not be kept");
    "the engine could not keep it".to_owned()
}

/// A path as an event shows it: without control characters, and not longer than a path may be.
fn shown(path: &str) -> String {
    let mut shown = String::new();
    for character in path.chars() {
        let before = shown.len();
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
        if shown.len() > SHOWN {
            shown.truncate(before);
            shown.push('…');
            break;
        }
    }
    shown
}
