//! The run's files for long outputs and the logs of jobs, below `.sortie/output`, all of them bounded.
//!
//! They are in the working directory, so that the file tools and commands can read them, and not below `outputs/`, so that they
//! are not kept as artifacts. A `.gitignore` next to them hides them from git and from searches. An output is named by its
//! content: the same output again is the same file, and the results that name it are equal.
//!
//! A file holds the raw output of a command, as if the command had written the file itself: when a tool shows it, it passes the
//! run's redactor as always.

use std::{
    fs::File,
    hash::{DefaultHasher, Hasher},
    io::{self, Read, Seek, SeekFrom},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use sortie_sandbox::{FileError, Limits, RelPath, Workdir};

use super::{Source, lacks_descriptor};

/// The folder of the files.
const FOLDER: &str = ".sortie/output";
/// The folder of the engine's own files.
pub(crate) const ENGINE_FOLDER: &str = ".sortie/";
/// Makes git, and programs that read its files, ignore the folder.
const IGNORE: (&str, &[u8]) = (".sortie/.gitignore", b"*\n");
/// Maximum size of all files together, in bytes.
const TOTAL_BYTES: u64 = 64 << 20;
/// The files may take one part in this many of the run's disk limit.
const SHARE_OF_DISK: u64 = 8;
/// Maximum number of entries that are searched for files of an earlier attempt.
const LISTED: usize = 10_000;

/// The next number of a job, and the room for more files.
#[derive(Debug)]
pub(super) struct Outputs {
    next: u32,
    /// Bytes that more files may take.
    left: Arc<AtomicU64>,
}

/// Room for a file that grows. Dropping it releases the part that the file does not use.
#[derive(Debug, Default)]
pub(super) struct Room {
    left: Arc<AtomicU64>,
    bytes: u64,
    /// Size of the file, in bytes.
    pub(super) used: u64,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.left
            .fetch_add(self.bytes.saturating_sub(self.used), Ordering::Relaxed);
    }
}

impl Outputs {
    /// Looks for files of an earlier attempt at the run. Fails if there is no descriptor left for that.
    pub(super) fn find(workdir: &Workdir, limits: &Limits) -> Result<Self, FileError> {
        let mut next = 1_u32;
        let mut left = TOTAL_BYTES.min(limits.disk_bytes / SHARE_OF_DISK);
        let folder = RelPath::new(FOLDER).ok();
        let entries = match workdir.list(folder.as_ref(), 1, LISTED) {
            Ok((entries, _)) => entries,
            Err(error) if lacks_descriptor(&error) => return Err(error),
            // A folder that is not there, or cannot be read, holds none.
            Err(_none) => Vec::new(),
        };
        for entry in entries {
            left = left.saturating_sub(entry.size);
            let name = entry.path.rsplit('/').next().unwrap_or_default();
            let number: Option<u32> = name.split('-').next().and_then(|number| number.parse().ok());
            if let Some(number) = number {
                next = next.max(number.saturating_add(1));
            }
        }
        Ok(Self {
            next,
            left: Arc::new(AtomicU64::new(left)),
        })
    }

    /// A number that no other job of the run has.
    pub(super) const fn number(&mut self) -> u32 {
        let number = self.next;
        self.next = number.saturating_add(1);
        number
    }

    /// Whether there is room for so many bytes.
    pub(super) fn have_room(&self, bytes: u64) -> bool {
        bytes <= self.left.load(Ordering::Relaxed)
    }

    /// Subtracts so many bytes from the remaining ones.
    pub(super) fn take(&mut self, bytes: u64) {
        self.left.update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            left.saturating_sub(bytes)
        });
    }

    /// Reserves so many bytes for a file that may grow to that size, if available.
    pub(super) fn reserve(&mut self, bytes: u64) -> Option<Room> {
        self.have_room(bytes).then(|| {
            self.take(bytes);
            Room {
                left: Arc::clone(&self.left),
                bytes,
                used: 0,
            }
        })
    }
}

/// The path of the log of a job.
pub(super) fn log_path(number: u32) -> String {
    format!("{FOLDER}/{number}-job.log")
}

/// Creates an empty file for a log of at most so many bytes, if the disk limit of the run has room for it.
pub(super) fn make(workdir: &Workdir, limits: &Limits, path: &str, bytes: u64) -> Result<File, FileError> {
    let path = prepare(workdir, limits, path, bytes)?;
    workdir.make_file(&path)
}

/// Keeps an output of so many bytes, if the disk limit of the run has room for it. Returns its path, and the number of new bytes:
/// zero if the file existed.
pub(super) fn store(
    workdir: &Workdir,
    limits: &Limits,
    (what, bytes): (&str, u64),
    source: &mut Source,
) -> Result<(String, u64), FileError> {
    let digest = digest(source)?;
    let path = format!("{FOLDER}/{what}-{digest:08x}.txt");
    if workdir.size(&named(&path)?).is_ok_and(|size| size == bytes) {
        return Ok((path, 0));
    }
    let place = prepare(workdir, limits, &path, bytes)?;
    match source {
        Source::Bytes(content) => workdir.write(&place, content)?,
        Source::File(file) => workdir.copy(&place, file)?,
    }
    Ok((path, bytes))
}

/// A short digest of the content. It distinguishes outputs of one run, and nothing depends on it.
fn digest(source: &mut Source) -> io::Result<u32> {
    let mut hasher = DefaultHasher::new();
    match source {
        Source::Bytes(content) => hasher.write(content),
        Source::File(file) => {
            let mut piece = vec![0; 64 << 10];
            loop {
                match file.read(&mut piece)? {
                    0 => break,
                    length => hasher.write(piece.get(..length).unwrap_or_default()),
                }
            }
            file.seek(SeekFrom::Start(0))?;
        }
    }
    Ok(u32::try_from(hasher.finish() >> 32).unwrap_or_default())
}

fn named(path: &str) -> Result<RelPath, FileError> {
    RelPath::new(path).map_err(|error| FileError::Io(io::Error::other(error)))
}

fn prepare(workdir: &Workdir, limits: &Limits, path: &str, bytes: u64) -> Result<RelPath, FileError> {
    let (used, entries) = workdir.usage()?;
    // The folders, the two files, and some room for a command to continue in.
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
        assert_eq!(Outputs::find(&workdir, &limits).unwrap().number(), 1);
        for number in [3, 12] {
            make(&workdir, &limits, &log_path(number), 1_000).unwrap();
        }
        store(
            &workdir,
            &limits,
            ("stdout", 1_000),
            &mut Source::Bytes(vec![b'x'; 1_000]),
        )
        .unwrap();
        let mut outputs = Outputs::find(&workdir, &limits).unwrap();
        assert_eq!((outputs.number(), outputs.number()), (13, 14));
        assert!(outputs.have_room(TOTAL_BYTES - 1_000) && !outputs.have_room(TOTAL_BYTES - 999));
        let ignored = RelPath::new(".sortie/.gitignore").unwrap();
        assert_eq!(workdir.read(&ignored, 10).unwrap(), b"*\n");
    }

    #[test]
    fn the_same_output_again_is_the_same_file() {
        let (_root, workdir) = workdir();
        let limits = Limits::default();
        let bytes = |text: &str| Source::Bytes(text.as_bytes().to_vec());
        let (path, new) = store(&workdir, &limits, ("stdout", 3), &mut bytes("one")).unwrap();
        assert_eq!(new, 3);
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, b"one").unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        let again = store(&workdir, &limits, ("stdout", 3), &mut Source::File(file)).unwrap();
        assert_eq!(again, (path.clone(), 0));
        let (other, _) = store(&workdir, &limits, ("stdout", 3), &mut bytes("two")).unwrap();
        assert_ne!(other, path);
        // The run has changed it since.
        workdir.write(&named(&path).unwrap(), b"o").unwrap();
        assert_eq!(
            store(&workdir, &limits, ("stdout", 3), &mut bytes("one")).unwrap(),
            (path.clone(), 3)
        );
        assert_eq!(workdir.read(&named(&path).unwrap(), 9).unwrap(), b"one");
    }

    #[test]
    fn a_file_that_grew_less_than_it_might_gives_room_back() {
        let (_root, workdir) = workdir();
        let mut outputs = Outputs::find(&workdir, &Limits::default()).unwrap();
        for file in 0..100 {
            let mut room = outputs.reserve(4 << 20).unwrap();
            room.used = 1_000;
            assert!(!outputs.have_room(TOTAL_BYTES - (4 << 20) - file * 1_000 + 1));
        }
        assert!(outputs.have_room(TOTAL_BYTES - 100_000) && !outputs.have_room(TOTAL_BYTES - 99_999));
    }

    #[test]
    fn the_files_are_bounded_together_and_by_the_disk_limit() {
        let (_root, workdir) = workdir();
        let limits = Limits {
            disk_bytes: 80_000,
            ..Limits::default()
        };
        let mut outputs = Outputs::find(&workdir, &limits).unwrap();
        assert!(outputs.have_room(10_000) && !outputs.have_room(10_001));
        outputs.take(9_999);
        assert!(outputs.have_room(1) && !outputs.have_room(2));
        assert!(outputs.reserve(2).is_none());
        workdir.write(&named("full").unwrap(), &vec![1; 79_000]).unwrap();
        assert!(make(&workdir, &limits, &log_path(1), 5_000).is_err());
    }
}
