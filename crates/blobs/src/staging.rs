//! Staging area: content is written to a private file, which is hashed and counted as it grows and removed on drop.
//!
//! The process that writes a staged file keeps it locked. Another process that opens the area removes only unlocked files: a
//! dead process left them.

use std::{
    fs::{DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Seek, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use sha2::Digest;
use sortie_api::{Sha256, plain};
use tokio::task::JoinHandle;

use crate::{Error, Result, blocking};

/// Number of bytes to buffer before another thread hashes and writes them.
const PIECE: usize = 512 * 1024;
/// Number of attempts to create a file. An attempt fails if another process takes the new file for an abandoned one and removes
/// it.
const TRIES: usize = 8;

/// Folder of the staged files.
#[derive(Debug)]
pub(crate) struct Area {
    folder: PathBuf,
}

impl Area {
    /// Opens the area. Creates the folder if it is missing and removes abandoned files.
    pub(crate) async fn open(folder: PathBuf) -> Result<Self> {
        blocking(move || {
            make_folder(&folder)
                .and_then(|()| sweep(&folder))
                .map_err(|error| {
                    Error::Unavailable(format!(
                        "{} cannot be used: {}",
                        folder.display(),
                        plain::io(&error)
                    ))
                })?;
            Ok(Self { folder })
        })
        .await?
    }

    /// Creates an empty staged file.
    pub(crate) async fn stage(&self) -> Result<Staging> {
        let folder = self.folder.clone();
        blocking(move || {
            for _ in 0..TRIES {
                if let Some((file, path)) = make(&folder)? {
                    let file = Growing {
                        file,
                        hasher: sha2::Sha256::new(),
                    };
                    return Ok(Staging {
                        path: Some(Removed(path)),
                        buffer: Vec::with_capacity(PIECE),
                        state: State::Idle(file),
                        size: 0,
                    });
                }
            }
            Err(Error::Unavailable(
                "another process removes the files of this one".to_owned(),
            ))
        })
        .await?
    }
}

/// Creates a folder that only this user can access.
pub(crate) fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn sweep(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let file = match File::open(&path) {
            // The process that created it has removed it again.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            opened => opened?,
        };
        match file.try_lock() {
            Ok(()) => gone(std::fs::remove_file(&path))?,
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(())
}

/// Creates a locked file. `None` if another process has removed it as abandoned before we could lock it.
fn make(folder: &Path) -> Result<Option<(File, PathBuf)>> {
    let mut name = [0; 16];
    getrandom::fill(&mut name).map_err(|error| Error::Unavailable(error.to_string()))?;
    let path = folder.join(format!("{:032x}", u128::from_be_bytes(name)));
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .map_err(|error| Error::Unavailable(format!("{}: {}", folder.display(), plain::io(&error))))?;
    match file.try_lock() {
        Ok(()) if file.metadata()?.nlink() > 0 => Ok(Some((file, path))),
        Ok(()) | Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

/// Treats a missing file as removed.
pub(crate) fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Path of a file that is removed on drop.
#[derive(Debug)]
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        if let Err(error) = gone(std::fs::remove_file(&self.0)) {
            tracing::warn!(%error, "cannot remove a staged file; the next start removes it");
        }
    }
}

struct Growing {
    file: File,
    hasher: sha2::Sha256,
}

impl Growing {
    fn add(mut self, piece: &[u8]) -> io::Result<Self> {
        self.hasher.update(piece);
        self.file.write_all(piece)?;
        Ok(self)
    }
}

/// The file, or the thread that writes to it.
enum State {
    Idle(Growing),
    Working(JoinHandle<(io::Result<Growing>, Vec<u8>)>),
    /// Writing a piece failed.
    Broken,
}

/// Content that is being staged. Dropping it removes the file.
pub struct Staging {
    path: Option<Removed>,
    buffer: Vec<u8>,
    state: State,
    size: u64,
}

impl Staging {
    /// Appends bytes. Returns before they are hashed and written, in order; the next call reports a failure.
    pub async fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let room = PIECE.saturating_sub(self.buffer.len()).min(bytes.len());
            let (now, later) = bytes.split_at(room);
            self.buffer.extend_from_slice(now);
            self.size = self.size.saturating_add(now.len() as u64);
            bytes = later;
            if self.buffer.len() >= PIECE {
                self.flush().await?;
            }
        }
        Ok(())
    }

    /// Returns the number of bytes written so far.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Completes the content.
    pub async fn finish(mut self) -> Result<Staged> {
        self.flush().await?;
        let (Growing { file, hasher }, _) = self.idle().await?;
        let path = self.path.take().ok_or_else(broken)?;
        Ok(Staged {
            path,
            file,
            size: self.size,
            sha256: Sha256::new(hasher.finalize().into()),
        })
    }

    /// Passes the buffer to another thread after the previous piece is written.
    async fn flush(&mut self) -> Result<()> {
        let (file, mut empty) = self.idle().await?;
        empty.clear();
        let piece = std::mem::replace(&mut self.buffer, empty);
        self.state = State::Working(tokio::task::spawn_blocking(move || (file.add(&piece), piece)));
        Ok(())
    }

    async fn idle(&mut self) -> Result<(Growing, Vec<u8>)> {
        if let State::Working(work) = &mut self.state {
            let done = work.await;
            self.state = State::Broken;
            let (file, piece) =
                done.map_err(|error| Error::Unavailable(format!("writing broke off: {error}")))?;
            return Ok((file?, piece));
        }
        match std::mem::replace(&mut self.state, State::Broken) {
            State::Idle(file) => Ok((file, Vec::with_capacity(PIECE))),
            State::Working(_) | State::Broken => Err(broken()),
        }
    }
}

fn broken() -> Error {
    Error::Unavailable("the content could not be written before".to_owned())
}

/// Complete content that is not stored yet. Dropping it removes the file.
#[derive(Debug)]
pub struct Staged {
    path: Removed,
    file: File,
    size: u64,
    sha256: Sha256,
}

impl Staged {
    /// Returns the size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the SHA-256 of the content.
    pub fn sha256(&self) -> Sha256 {
        self.sha256
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path.0
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Returns the content as an unlinked file, positioned at its start.
    pub(crate) fn open(self) -> io::Result<File> {
        let mut file = self.file;
        file.rewind()?;
        Ok(file)
    }
}
