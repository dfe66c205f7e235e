//! A folder that one process fills, for this user alone: it becomes something else by a rename, or is gone again.

use std::{
    fs::{self, File, TryLockError},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use crate::failure::{Failure, Result};

/// A folder that is removed when this is dropped. What a process that was killed left under the same path goes when the
/// next one begins.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    /// Locked for as long as the folder is in use.
    _lock: File,
}

impl Scratch {
    /// Makes the folder at `path`.
    pub(crate) fn make(path: PathBuf) -> Result<Self> {
        let failed =
            |error: &io::Error| Failure::internal(format!("cannot make {}: {error}", path.display()));
        if path.symlink_metadata().is_ok() {
            drop(lock(&path)?);
            remove(&path).map_err(|error| failed(&error))?;
        }
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|error| failed(&error))?;
        let lock = lock(&path)?;
        Ok(Self { path, _lock: lock })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        match remove(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::error!(%error, "{} could not be removed", self.path.display());
            }
            // It has become something else.
            Ok(()) | Err(_) => {}
        }
    }
}

fn lock(path: &Path) -> Result<File> {
    let failed = |error: &io::Error| Failure::internal(format!("cannot lock {}: {error}", path.display()));
    let folder = File::open(path).map_err(|error| failed(&error))?;
    match folder.try_lock() {
        Ok(()) => Ok(folder),
        Err(TryLockError::WouldBlock) => Err(Failure::unavailable(format!(
            "{} is in use by another process that does the same",
            path.display()
        ))),
        Err(TryLockError::Error(error)) => Err(failed(&error)),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a folder that only this program has written to"
)]
fn remove(path: &Path) -> io::Result<()> {
    fs::remove_dir_all(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_and_what_a_killed_process_left_goes_too() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("x.partial");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("left"), "by a killed one").unwrap();
        let scratch = Scratch::make(path.clone()).unwrap();
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
        let refusal = Scratch::make(path.clone()).unwrap_err().to_string();
        assert!(refusal.contains("in use by another process"), "{refusal}");
        fs::write(path.join("mine"), "x").unwrap();
        drop(scratch);
        assert!(!path.exists());
    }
}
