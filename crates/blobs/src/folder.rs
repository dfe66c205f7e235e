//! Content in a local folder: renamed into its place from the staging area of the same folder, and synced with it.

use std::{
    fs::File,
    io,
    ops::Range,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use futures_util::{StreamExt, stream};

use crate::{
    Address, Content, Error, Result, Staged, blocking,
    staging::{gone, make_folder},
};

/// What is read at once: the memory that one reader costs.
const PIECE: u64 = 256 * 1024;

#[derive(Clone, Debug)]
pub(crate) struct Folder {
    root: PathBuf,
}

impl Folder {
    pub(crate) async fn open(root: PathBuf) -> Result<Self> {
        blocking(move || {
            make_folder(&root)
                .map_err(|error| Error::Unavailable(format!("{} cannot be made: {error}", root.display())))?;
            Ok(Self { root })
        })
        .await?
    }

    pub(crate) fn staging(&self) -> PathBuf {
        self.root.join("staging")
    }

    fn path(&self, address: Address) -> PathBuf {
        address.file_in(&self.root)
    }

    pub(crate) async fn keep(&self, address: Address, staged: Staged) -> Result<()> {
        let (root, path) = (self.root.clone(), self.path(address));
        blocking(move || {
            // A rename onto what is there already puts the same bytes in its place, unless they were cut off by a crash
            // of the machine: then it mends them.
            staged.file().sync_all()?;
            make_folders(&root, &path)?;
            std::fs::rename(staged.path(), &path)?;
            sync_folder(path.parent().unwrap_or(&root))
        })
        .await?
        .map_err(|error| Error::Unavailable(error.to_string()))
    }

    pub(crate) async fn open_file(&self, address: Address) -> Result<File> {
        let path = self.path(address);
        Ok(blocking(move || File::open(path)).await??)
    }

    pub(crate) async fn read(&self, address: Address, range: Range<u64>) -> Result<Content> {
        let file = self.open_file(address).await?;
        let pieces = stream::try_unfold((file, range), move |(file, range)| async move {
            if range.is_empty() {
                return Ok(None);
            }
            let Range { start, end } = range;
            let (file, piece) =
                blocking(move || piece(&file, start..end).map(|piece| (file, piece))).await??;
            if piece.is_empty() {
                return Err(Error::Damaged(address));
            }
            let next = start.saturating_add(piece.len() as u64)..end;
            Ok(Some((piece, (file, next))))
        });
        Ok(pieces.boxed())
    }

    pub(crate) async fn delete(&self, address: Address) -> Result<()> {
        let path = self.path(address);
        blocking(move || gone(std::fs::remove_file(path))).await??;
        Ok(())
    }

    pub(crate) async fn check(&self) -> Result<()> {
        let root = self.root.clone();
        blocking(move || std::fs::metadata(root)).await??;
        Ok(())
    }
}

/// The first bytes of the range, fewer where the file ends before it.
fn piece(file: &File, range: Range<u64>) -> io::Result<Bytes> {
    let wanted = range.end.saturating_sub(range.start).min(PIECE);
    let mut piece = vec![0; usize::try_from(wanted).map_err(io::Error::other)?];
    let mut read = 0;
    while let Some(rest) = piece.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, range.start.saturating_add(read as u64))? {
            0 => break,
            more => read += more,
        }
    }
    piece.truncate(read);
    Ok(piece.into())
}

/// Makes the folders above `path`, each synced into the one above it.
fn make_folders(root: &Path, path: &Path) -> io::Result<()> {
    let Some(folder) = path.parent() else {
        return Ok(());
    };
    if folder.is_dir() {
        return Ok(());
    }
    make_folder(folder)?;
    for above in folder.ancestors().skip(1) {
        sync_folder(above)?;
        if above == root {
            break;
        }
    }
    Ok(())
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
