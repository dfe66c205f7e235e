//! A private folder that one process fills. At the end it is renamed to its final name or removed.
//!
//! A mark file identifies the folder: a foreign folder of the same name is never removed. Version control ignores the
//! folder from the start, because it may hold keys.

use std::{
    fs::{self, File, TryLockError},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use sortie_api::plain;

use crate::{
    data_dir::hide_from_git,
    failure::{Failure, Result},
};

/// The file that marks these folders.
const MARK: &str = ".sortie-scratch";

/// A folder that is removed on drop. If a killed process has left one at this path, the next one removes it first.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    /// Locked for as long as the folder is in use.
    _lock: File,
}

impl Scratch {
    /// Makes the folder at `path`. Replaces one that a killed process has left.
    ///
    /// # Errors Fails if a file, a foreign folder or a folder in use is at `path`.
    pub(crate) fn make(path: PathBuf) -> Result<Self> {
        let failed = |error: &io::Error| {
            Failure::internal(format!("cannot make {}: {}", path.display(), plain::io(error)))
        };
        if let Ok(found) = path.symlink_metadata() {
            if !found.is_dir() {
                return Err(foreign(&path));
            }
            let lock = lock(&path)?;
            if !is_ours(&path).map_err(|error| failed(&error))? {
                return Err(foreign(&path));
            }
            drop(lock);
            remove(&path).map_err(|error| failed(&error))?;
        }
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|error| failed(&error))?;
        let lock = lock(&path)?;
        let made = Self { path, _lock: lock };
        let begun = File::create_new(made.path.join(MARK)).and_then(|_mark| hide_from_git(&made.path));
        begun.map_err(|error| {
            Failure::internal(format!(
                "cannot write to {}: {}",
                made.path.display(),
                plain::io(&error)
            ))
        })?;
        Ok(made)
    }

    /// Renames it to `target`, which must be missing or empty, in one step.
    pub(crate) fn become_folder(&self, target: &Path) -> io::Result<()> {
        fs::rename(&self.path, target)?;
        fs::remove_file(target.join(MARK))
    }

    /// Path of the folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        match remove(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::error!(%error, "cannot remove {}", self.path.display());
            }
            // It has become something else.
            Ok(()) | Err(_) => {}
        }
    }
}

/// Whether such a folder was left by a killed process: it has the mark, or is empty.
fn is_ours(path: &Path) -> io::Result<bool> {
    Ok(path.join(MARK).symlink_metadata().is_ok() || fs::read_dir(path)?.next().is_none())
}

fn foreign(path: &Path) -> Failure {
    Failure::usage(format!(
        "{} is in the way, and is not what an earlier command left: move it, or name another target",
        path.display()
    ))
}

fn lock(path: &Path) -> Result<File> {
    let failed = |error: &io::Error| {
        Failure::internal(format!("cannot lock {}: {}", path.display(), plain::io(error)))
    };
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
    use crate::failure::Exit;

    impl Scratch {
        /// Leaves the folder as a killed process does.
        fn leave(self) {
            let left = self.path.with_extension("left");
            fs::rename(&self.path, &left).unwrap();
            let path = self.path.clone();
            drop(self);
            fs::rename(left, path).unwrap();
        }
    }

    #[test]
    fn it_goes_and_what_a_killed_process_left_goes_too() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("x.partial");
        // Killed before it wrote anything.
        fs::create_dir(&path).unwrap();
        let left = Scratch::make(path.clone()).unwrap();
        fs::write(path.join("left"), "by a killed one").unwrap();
        left.leave();
        let scratch = Scratch::make(path.clone()).unwrap();
        assert!(!path.join("left").exists());
        let refusal = Scratch::make(path.clone()).unwrap_err().to_string();
        assert!(refusal.contains("in use by another process"), "{refusal}");
        fs::write(path.join("mine"), "x").unwrap();
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn a_folder_of_somebody_else_stays_as_it_is() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("photos.tar.partial");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("1.jpg"), "x").unwrap();
        let (file, link) = (root.path().join("x.partial"), root.path().join("y.partial"));
        fs::write(&file, "x").unwrap();
        let empty = root.path().join("empty");
        fs::create_dir(&empty).unwrap();
        std::os::unix::fs::symlink(&empty, &link).unwrap();
        for path in [&folder, &file, &link] {
            let refusal = Scratch::make(path.clone()).unwrap_err();
            assert_eq!(refusal.exit, Exit::Usage);
            assert!(refusal.to_string().contains("is in the way"), "{refusal}");
        }
        assert!(folder.join("1.jpg").exists() && file.exists() && link.exists());
    }

    #[test]
    fn what_it_becomes_has_no_mark_and_is_hidden_from_git() {
        let root = tempfile::tempdir().unwrap();
        let (path, target) = (root.path().join("x.restoring"), root.path().join("x"));
        let scratch = Scratch::make(path.clone()).unwrap();
        fs::write(path.join("mine"), "x").unwrap();
        scratch.become_folder(&target).unwrap();
        drop(scratch);
        let mut names: Vec<_> = fs::read_dir(&target)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort_unstable();
        assert_eq!(names, [".gitignore", "mine"]);
        assert_eq!(fs::read_to_string(target.join(".gitignore")).unwrap(), "*\n");
        assert!(!path.exists());
    }
}
