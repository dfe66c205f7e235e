//! Folder of the working directories of runs without retention, on a file system in memory.
//!
//! A directory does not outlive its run. Directories that a killed node leaves are removed at its next start, and by a
//! restart of the host at the latest. The host may swap such a file system out.

use std::{
    fs::DirBuilder,
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::{Path, PathBuf},
};

use rustix::fs::statfs;
use sortie_sandbox::Workdir;

use crate::kit::options::Options;

/// Numbers by which `statfs` names the file systems in memory: tmpfs and ramfs.
const IN_MEMORY: [u32; 2] = [0x0102_1994, 0x8584_58f6];

/// The folder. It is created when the first run needs it.
#[derive(Clone, Debug)]
pub(crate) struct MemoryDir(PathBuf);

impl Options {
    /// Folder for the working directories of runs without retention.
    pub(crate) fn memory_dir(&self) -> PathBuf {
        match &self.memory_dir {
            Some(path) => path.clone(),
            None => MemoryDir::default_for(&self.node_name),
        }
    }
}

impl MemoryDir {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// Creates the folder if it is missing, and checks that it belongs to this user alone and is in memory. The error
    /// is a sentence for people.
    pub(crate) fn prepare(&self) -> Result<(), String> {
        let shown = self.0.display();
        let failed = |error: io::Error| format!("the folder {shown} cannot be made: {error}");
        // Only the last part of the path is created: a misspelled path must fail.
        match DirBuilder::new().mode(0o711).create(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
            Ok(()) | Err(_) => {}
        }
        self.check()
    }

    fn check(&self) -> Result<(), String> {
        let shown = self.0.display();
        let failed = |error: io::Error| format!("cannot read the folder {shown}: {error}");
        let found = std::fs::symlink_metadata(&self.0).map_err(failed)?;
        let own = rustix::process::geteuid().as_raw();
        if !found.is_dir() || found.uid() != own || found.mode() & 0o066 != 0 {
            return Err(format!("the folder {shown} must be accessible only to this user"));
        }
        let kind = statfs(&self.0).map_err(|error| failed(error.into()))?.f_type;
        // The type of the number differs between systems; its low 32 bits do not.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the magic number is 32 bits wide"
        )]
        let kind = kind as u32;
        if IN_MEMORY.contains(&kind) {
            Ok(())
        } else {
            Err(format!(
                "the folder {shown} is not in memory: it must be on a tmpfs"
            ))
        }
    }

    /// Returns the folder at `path`, without the directories of an earlier process of the node. If it cannot be used,
    /// runs that need it are refused, and all others are accepted.
    pub(crate) async fn cleared(path: PathBuf) -> Self {
        let dir = Self::new(path);
        match dir.clear().await {
            Ok(0) => {}
            Ok(removed) => tracing::info!(removed, "removed working directories in memory"),
            Err(error) => tracing::error!(%error, "removing working directories in memory failed"),
        }
        dir
    }

    /// Removes the directories of an earlier process of the node.
    async fn clear(&self) -> Result<u64, String> {
        let dir = self.clone();
        let cleared = tokio::task::spawn_blocking(move || {
            if !dir.0.exists() {
                return Ok(0);
            }
            dir.check()?;
            Workdir::sweep(&dir.0, |_| false).map_err(|error| error.to_string())
        });
        cleared.await.map_err(|error| error.to_string())?
    }

    /// Removes the folder itself, which is empty once every run has ended.
    pub(crate) async fn remove(&self) -> io::Result<()> {
        match tokio::fs::remove_dir(&self.0).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Returns the default folder of the node of this name.
    pub(crate) fn default_for(node_name: &str) -> PathBuf {
        Path::new("/dev/shm").join(format!("sortie-{node_name}"))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn in_memory() -> tempfile::TempDir {
        tempfile::Builder::new()
            .prefix("sortie-test-")
            .tempdir_in("/dev/shm")
            .unwrap()
    }

    #[test]
    fn only_a_folder_in_memory_that_is_ones_own_is_taken() {
        let base = in_memory();
        let dir = MemoryDir::new(base.path().join("a"));
        assert_eq!(dir.prepare(), Ok(()));
        assert_eq!(dir.prepare(), Ok(()));
        std::fs::set_permissions(&dir.0, PermissionsExt::from_mode(0o777)).unwrap();
        assert!(dir.prepare().unwrap_err().contains("only to this user"));
        std::fs::remove_dir(&dir.0).unwrap();
        std::os::unix::fs::symlink("/tmp", &dir.0).unwrap();
        assert!(dir.prepare().unwrap_err().contains("only to this user"));
        let missing = MemoryDir::new(base.path().join("b/c"));
        assert!(missing.prepare().unwrap_err().contains("cannot be made"));
        let elsewhere = MemoryDir::new(PathBuf::from("/proc/self"));
        assert!(elsewhere.prepare().is_err());
    }

    #[tokio::test]
    async fn what_an_earlier_life_left_is_removed() {
        let base = in_memory();
        let dir = MemoryDir::new(base.path().join("a"));
        assert_eq!(dir.clear().await, Ok(0));
        dir.prepare().unwrap();
        drop(Workdir::create(&dir.0, "run_x").unwrap());
        assert_eq!(dir.clear().await, Ok(1));
        assert_eq!(std::fs::read_dir(&dir.0).unwrap().count(), 0);
        dir.remove().await.unwrap();
        dir.remove().await.unwrap();
    }
}
