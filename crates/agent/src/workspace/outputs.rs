//! The run's files for long outputs, below `.sortie/output`: each with a number of its own, all of them bounded.
//!
//! They lie in the working directory, so that the file tools and commands can read them, and not below `outputs/`, so
//! that they are not kept as artifacts. A `.gitignore` beside them hides them from git and from searches. A file holds
//! what a command has written, as one would that the command had written itself: what a tool shows of it passes the
//! run's redactor as always.

use std::fs::File;

use sortie_sandbox::{FileError, Limits, RelPath, Workdir};

use super::Source;

/// The folder of the files.
const FOLDER: &str = ".sortie/output";
/// Tells git, and what heeds its files, to pass over all of it.
const IGNORE: (&str, &[u8]) = (".sortie/.gitignore", b"*\n");
/// The most that all files hold together, in bytes, where the disk limit of the run is not smaller.
const TOTAL_BYTES: u64 = 64 << 20;
/// The part of the disk limit that they may hold.
const SHARE_OF_DISK: u64 = 8;
/// Entries that are looked through for files of an earlier attempt.
const LISTED: usize = 10_000;

/// Which files there are, and how much more they may hold.
#[derive(Debug)]
pub(super) struct Outputs {
    next: u32,
    left: u64,
}

impl Outputs {
    /// Looks for those of an earlier attempt at the run.
    pub(super) fn find(workdir: &Workdir, limits: &Limits) -> Self {
        let mut outputs = Self {
            next: 1,
            left: TOTAL_BYTES.min(limits.disk_bytes / SHARE_OF_DISK),
        };
        // A folder that is not there, or cannot be read, holds none.
        let folder = RelPath::new(FOLDER).ok();
        let found = workdir.list(folder.as_ref(), 1, LISTED);
        for entry in found.map(|(entries, _)| entries).unwrap_or_default() {
            outputs.left = outputs.left.saturating_sub(entry.size);
            let name = entry.path.rsplit('/').next().unwrap_or_default();
            let number: Option<u32> = name.split('-').next().and_then(|number| number.parse().ok());
            if let Some(number) = number {
                outputs.next = outputs.next.max(number.saturating_add(1));
            }
        }
        outputs
    }

    /// A number that no other has.
    pub(super) const fn number(&mut self) -> u32 {
        let number = self.next;
        self.next = number.saturating_add(1);
        number
    }

    /// Takes so many bytes of what is left, if there are so many.
    pub(super) fn take(&mut self, bytes: u64) -> Option<()> {
        self.left = self.left.checked_sub(bytes)?;
        Some(())
    }
}

/// The path of a file from the working directory.
pub(super) fn path_of(number: u32, what: &str) -> String {
    format!("{FOLDER}/{number}-{what}")
}

/// Puts content of so many bytes there, if the disk limit of the run has room for it.
pub(super) fn store(
    workdir: &Workdir,
    limits: &Limits,
    (path, bytes): (&str, u64),
    source: Source,
) -> Result<(), FileError> {
    let path = prepare(workdir, limits, path, bytes)?;
    match source {
        Source::Bytes(content) => workdir.write(&path, &content),
        Source::File(mut file) => workdir.copy(&path, &mut file),
    }
}

/// Makes an empty file for content of at most so many bytes, if the disk limit of the run has room for it.
pub(super) fn make(workdir: &Workdir, limits: &Limits, path: &str, bytes: u64) -> Result<File, FileError> {
    let path = prepare(workdir, limits, path, bytes)?;
    workdir.make_file(&path)
}

fn prepare(workdir: &Workdir, limits: &Limits, path: &str, bytes: u64) -> Result<RelPath, FileError> {
    let named = |path| RelPath::new(path).map_err(|error| FileError::Io(std::io::Error::other(error)));
    let (used, entries) = workdir.usage()?;
    // The folders, the two files, and some room for a command to go on in.
    if used.saturating_add(bytes) > limits.disk_bytes || entries + 8 > limits.disk_entries {
        return Err(FileError::TooLarge {
            limit: limits.disk_bytes,
        });
    }
    let (ignore, content) = IGNORE;
    let ignore = named(ignore)?;
    if matches!(workdir.size(&ignore), Err(FileError::NotFound)) {
        workdir.write(&ignore, content)?;
    }
    named(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workdir() -> (tempfile::TempDir, Workdir) {
        let root = tempfile::tempdir().unwrap();
        let workdir = Workdir::create(root.path(), "run").unwrap();
        (root, workdir)
    }

    #[test]
    fn numbers_go_on_behind_those_of_an_earlier_attempt() {
        let (_root, workdir) = workdir();
        let limits = Limits::default();
        assert_eq!(Outputs::find(&workdir, &limits).number(), 1);
        for path in [path_of(3, "stdout.txt"), path_of(12, "job.log")] {
            let source = Source::Bytes(vec![b'x'; 1_000]);
            store(&workdir, &limits, (&path, 1_000), source).unwrap();
        }
        let mut outputs = Outputs::find(&workdir, &limits);
        assert_eq!((outputs.number(), outputs.number()), (13, 14));
        assert_eq!(outputs.left, TOTAL_BYTES - 2_000);
        let ignored = RelPath::new(".sortie/.gitignore").unwrap();
        assert_eq!(workdir.read(&ignored, 10).unwrap(), b"*\n");
    }

    #[test]
    fn the_files_are_bounded_together_and_by_the_disk_limit() {
        let (_root, workdir) = workdir();
        let limits = Limits {
            disk_bytes: 80_000,
            ..Limits::default()
        };
        let mut outputs = Outputs::find(&workdir, &limits);
        assert_eq!(outputs.take(10_001), None);
        assert_eq!(outputs.take(9_999), Some(()));
        assert_eq!(outputs.take(2), None);
        let full = RelPath::new("full").unwrap();
        workdir.write(&full, &vec![1; 79_000]).unwrap();
        assert!(make(&workdir, &limits, &path_of(1, "job.log"), 5_000).is_err());
    }
}
