//! Content in a local folder. A file is staged in the same folder, renamed to its final path and synced.

use std::{
    collections::HashSet,
    fs::File,
    io,
    ops::Range,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use parking_lot::{Mutex, MutexGuard};
use sortie_api::plain;

use crate::{
    Address, Content, Error, KEEPING_TIME, Result, Staged, blocking,
    staging::{gone, make_folder},
};

/// Number of bytes per read. A reader holds two such pieces, and its connection the rest of the previous one.
const PIECE: u64 = 96 * 1024;

/// Maximum number of folders that we remember as durable. An organization has at most 256.
const REMEMBERED: usize = 16 * 1024;

#[derive(Clone, Debug)]
pub(crate) struct Folder {
    root: PathBuf,
    durable: DurableFolders,
    /// Maximum time from the start of a write to its rename. If the disk hangs, the write can continue after its caller was
    /// dropped.
    limit: Duration,
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the system has words of its own for the other kinds"
)]
fn cannot_make(root: &Path, error: &io::Error) -> Error {
    let cause = match error.kind() {
        io::ErrorKind::AlreadyExists => "a file exists where a folder is needed".to_owned(),
        _ => plain::io(error),
    };
    Error::Unavailable(format!("cannot make {}: {cause}", root.display()))
}

impl Folder {
    pub(crate) async fn open(root: PathBuf) -> Result<Self> {
        blocking(move || {
            make_folder(&root).map_err(|error| cannot_make(&root, &error))?;
            Ok(Self {
                root,
                durable: DurableFolders::default(),
                limit: KEEPING_TIME,
            })
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
        let (durable, limit, began) = (self.durable.clone(), self.limit, Instant::now());
        blocking(move || {
            // A rename over an existing file replaces it with the same bytes. If a crash of the machine truncated that file, the
            // rename repairs it.
            staged.file().sync_all()?;
            let folder = path.parent().unwrap_or(&root);
            durable.make(&root, folder, sync_folder)?;
            if began.elapsed() > limit {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the disk takes too long"));
            }
            std::fs::rename(staged.path(), &path)?;
            sync_folder(folder)
        })
        .await?
        .map_err(|error| Error::Unavailable(plain::io(&error)))
    }

    pub(crate) async fn open_file(&self, address: Address) -> Result<File> {
        let path = self.path(address);
        Ok(blocking(move || File::open(path)).await??)
    }

    pub(crate) async fn read(&self, address: Address, range: Range<u64>) -> Result<Content> {
        let file = Arc::new(self.open_file(address).await?);
        let next = move |range: Range<u64>| {
            let piece = (!range.is_empty()).then(|| read_piece(&file, range.clone()));
            (piece, range)
        };
        let first = next(range);
        let pieces = stream::try_unfold((first, next), move |((piece, range), next)| async move {
            let Some(piece) = piece else {
                return Ok(None);
            };
            let piece = piece.await??;
            if piece.is_empty() {
                return Err(Error::Damaged(address));
            }
            // Start to read the next piece while the caller sends this one.
            let rest = next(range.start.saturating_add(piece.len() as u64)..range.end);
            Ok(Some((piece, (rest, next))))
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

/// Reads up to one piece from the start of the range, less if the file ends earlier. The read starts immediately.
fn read_piece(
    file: &Arc<File>,
    range: Range<u64>,
) -> impl Future<Output = Result<io::Result<Bytes>>> + use<> {
    let file = Arc::clone(file);
    blocking(move || {
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
    })
}

/// Folders that this process has synced, with their parents up to the root. Another upload may have created an existing folder
/// just now without syncing it yet, so only folders in this set count as durable.
#[derive(Clone, Debug, Default)]
struct DurableFolders(Arc<Mutex<HashSet<PathBuf>>>);

impl DurableFolders {
    /// Creates `folder` and its parents up to `root`, and returns after each one's entry is synced in its parent.
    fn make(&self, root: &Path, folder: &Path, sync: impl Fn(&Path) -> io::Result<()>) -> io::Result<()> {
        if self.known().contains(folder) && folder.is_dir() {
            return Ok(());
        }
        make_folder(folder)?;
        for above in folder
            .ancestors()
            .skip(1)
            .take_while(|above| above.starts_with(root))
        {
            sync(above)?;
        }
        let mut known = self.known();
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(folder.to_owned());
        Ok(())
    }

    fn known(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        self.0.lock()
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use sortie_api::{BlobId, OrgId, Timestamp};

    use super::*;
    use crate::staging::Area;

    #[test]
    fn an_upload_syncs_the_folders_that_another_one_has_made_and_not_synced_yet() {
        let dir = tempfile::tempdir().unwrap();
        let (root, folder) = (dir.path(), dir.path().join("org/aa"));
        let folders = DurableFolders::default();
        let (first, second) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
        let record = |synced: &RefCell<Vec<PathBuf>>, path: &Path| synced.borrow_mut().push(path.to_owned());
        let made = folders.make(root, &folder, |path| {
            record(&first, path);
            // At this point the folders exist, but they are not synced.
            if first.borrow().len() == 1 {
                folders.make(root, &folder, |path| {
                    record(&second, path);
                    Ok(())
                })?;
            }
            Ok(())
        });
        made.unwrap();
        let chain = vec![root.join("org"), root.to_owned()];
        assert_eq!(first.into_inner(), chain);
        assert_eq!(second.into_inner(), chain);
    }

    #[test]
    fn a_folder_is_synced_once_and_again_when_it_was_removed_or_its_sync_failed() {
        let dir = tempfile::tempdir().unwrap();
        let (root, folder) = (dir.path(), dir.path().join("org/aa"));
        let folders = DurableFolders::default();
        let synced = RefCell::new(0);
        let make = || {
            folders.make(root, &folder, |_| {
                *synced.borrow_mut() += 1;
                Ok(())
            })
        };
        let failed = folders.make(root, &folder, |_| Err(io::Error::other("disk")));
        assert!(failed.is_err() && folder.is_dir());
        make().unwrap();
        assert_eq!(*synced.borrow(), 2);
        make().unwrap();
        assert_eq!(*synced.borrow(), 2);
        std::fs::remove_dir(&folder).unwrap();
        make().unwrap();
        assert_eq!(*synced.borrow(), 4);
    }

    #[test]
    fn the_memory_of_synced_folders_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let folders = DurableFolders::default();
        let names = (0..REMEMBERED).map(|name| PathBuf::from(name.to_string()));
        folders.known().extend(names);
        folders
            .make(dir.path(), &dir.path().join("aa"), |_| Ok(()))
            .unwrap();
        assert_eq!(folders.known().len(), 1);
    }

    #[tokio::test]
    async fn a_write_that_has_taken_too_long_is_not_renamed_into_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = Folder::open(dir.path().to_owned()).await.unwrap();
        folder.limit = Duration::ZERO;
        let area = Area::open(folder.staging()).await.unwrap();
        let staged = Arc::new(area).stage().await.unwrap().finish().await.unwrap();
        let at = Timestamp::from_micros(1);
        let address = Address {
            org: OrgId::new(at, [1; 10]),
            sha256: staged.sha256(),
            blob: BlobId::new(at, [1; 10]),
        };
        let kept = folder.keep(address, staged).await;
        assert!(matches!(kept, Err(Error::Unavailable(_))), "{kept:?}");
        assert!(!address.file_in(dir.path()).exists());
    }
}
