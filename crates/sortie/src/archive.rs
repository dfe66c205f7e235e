//! The archive of a backup: a tar file that any `tar` opens, written and read piece by piece.
//!
//! `manifest.json` comes first, then `sortie.db`, the keys if requested, the contents below `blobs/`, and last
//! `SHA256SUMS`, with a line for everything before it, as `sha256sum -c` takes it. An archive is refused as incomplete
//! unless it ends with the sums of exactly its entries.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufReader, BufWriter, Read, Seek as _, Write},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::Path,
};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256 as Hasher};
use sortie_api::{Sha256, Timestamp, plain};
use sortie_blobs::Address;
use tar::{Builder, EntryType, Header};

const MANIFEST: &str = "manifest.json";
/// The database, in the archive and in a data folder.
pub(crate) const DATABASE: &str = "sortie.db";
const CONTENTS: &str = "blobs";
const SUMS: &str = "SHA256SUMS";
/// Secret files of a data folder: the keys that seal, that of the first admin, and that of the operator.
pub(crate) const KEYS: [&str; 3] = ["master.key", "admin.key", "operator.key"];

/// Maximum length of a manifest; a longer one is refused.
const MANIFEST_BYTES: u64 = 64 * 1024;
/// Maximum length of a name. Names of a backup have a few hundred bytes at most.
const NAME_BYTES: u64 = 4 * 1024;
/// Bytes that are read and written at once.
const PIECE: usize = 256 * 1024;

/// Manifest of an archive: its content and origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// The form of the archive.
    pub(crate) format: u32,
    /// The version of the program that has written it.
    pub(crate) version: String,
    /// Time at which the database was copied.
    pub(crate) created_at: Timestamp,
    /// The newest migration of the database.
    pub(crate) migration: i64,
    /// The size of the database in bytes.
    pub(crate) database_bytes: u64,
    /// The runs in it.
    pub(crate) runs: u64,
    /// Place of the contents of files and artifacts.
    pub(crate) contents_in: ContentsIn,
    /// Contents that the database refers to.
    pub(crate) contents: u64,
    /// Their bytes.
    pub(crate) content_bytes: u64,
    /// The keys in the archive.
    pub(crate) keys: Vec<String>,
}

/// Place of the contents of files and artifacts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ContentsIn {
    /// In the archive.
    Archive,
    /// In a bucket, which has its own backup.
    Bucket,
}

impl Manifest {
    /// The form that this program writes and reads. A changed form gets another number.
    pub(crate) const FORMAT: u32 = 1;
}

/// Reason why an archive is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Reading or writing failed.
    #[error("{}", plain::io(.0))]
    Io(#[from] io::Error),
    /// The file is not a whole archive of a backup.
    #[error("{0}")]
    Refused(String),
}

fn refused(reason: impl Into<String>) -> Error {
    Error::Refused(reason.into())
}

/// Writes an archive.
pub(crate) struct Writer<W: Write> {
    tar: Builder<W>,
    /// The lines of `SHA256SUMS`, in a file: there may be very many.
    sums: BufWriter<File>,
    at: u64,
}

impl<W: Write> Writer<W> {
    /// Begins an archive in `to`. `sums` is an empty file to write to and read.
    pub(crate) fn begin(to: W, sums: File, manifest: &Manifest) -> Result<Self, Error> {
        let seconds = manifest.created_at.as_micros() / 1_000_000;
        let mut writer = Self {
            tar: Builder::new(to),
            sums: BufWriter::new(sums),
            at: u64::try_from(seconds).unwrap_or_default(),
        };
        let mut text = serde_json::to_vec_pretty(manifest).map_err(io::Error::from)?;
        text.push(b'\n');
        writer.add(MANIFEST, text.as_slice(), text.len() as u64)?;
        Ok(writer)
    }

    /// Adds the database or a key.
    pub(crate) fn add_file(&mut self, name: &str, path: &Path) -> Result<(), Error> {
        let opened = File::open(path).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (size, file) =
            opened.map_err(|error| refused(format!("{name} cannot be read: {}", plain::io(&error))))?;
        self.add(name, file, size).map(drop)
    }

    /// Adds a content. Its size must be `size`, and its hash must match the address.
    pub(crate) fn add_content(&mut self, address: Address, file: File, size: u64) -> Result<(), Error> {
        let found = self.add(&format!("{CONTENTS}/{address}"), file, size)?;
        is_content(address, found)
    }

    fn add(&mut self, name: &str, from: impl Read, size: u64) -> Result<Sha256, Error> {
        let mut hashed = Hashed::new(from.take(size));
        let mut header = self.header(size);
        let appended = self.tar.append_data(&mut header, name, &mut hashed);
        if let Some(error) = hashed.failure {
            return Err(refused(format!("{name} cannot be read: {error}")));
        }
        appended?;
        if hashed.bytes != size {
            return Err(refused(format!("{name} is shorter than it should be")));
        }
        let sum = hashed.sum();
        writeln!(self.sums, "{sum}  {name}")?;
        Ok(sum)
    }

    fn header(&self, size: u64) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o600);
        header.set_mtime(self.at);
        header.set_size(size);
        header
    }

    /// Ends the archive, which makes it complete.
    pub(crate) fn finish(mut self) -> Result<W, Error> {
        self.sums.flush()?;
        let mut header = self.header(self.sums.get_ref().metadata()?.len());
        let mut sums = self.sums.into_inner().map_err(io::IntoInnerError::into_error)?;
        sums.rewind()?;
        self.tar.append_data(&mut header, SUMS, sums)?;
        Ok(self.tar.into_inner()?)
    }
}

/// Checks that a content exists with the size `size` and the hash of its address, without adding it to an archive.
///
/// # Errors `Refused` as by [`Writer::add_content`].
pub(crate) fn check_content(address: Address, file: File, size: u64) -> Result<(), Error> {
    let mut hashed = Hashed::new(file.take(size));
    io::copy(&mut hashed, &mut io::sink()).map_err(|error| {
        refused(format!(
            "{CONTENTS}/{address} cannot be read: {}",
            plain::io(&error)
        ))
    })?;
    if hashed.bytes != size {
        return Err(refused(format!(
            "{CONTENTS}/{address} is shorter than it should be"
        )));
    }
    is_content(address, hashed.sum())
}

fn is_content(address: Address, found: Sha256) -> Result<(), Error> {
    if found == address.sha256 {
        Ok(())
    } else {
        Err(refused(format!("the content {address} is damaged")))
    }
}

/// A reader that hashes the bytes it reads.
struct Hashed<R> {
    inner: R,
    hasher: Hasher,
    bytes: u64,
    /// Failure to read. The copying function cannot tell it from a failure to write.
    failure: Option<String>,
}

impl<R: Read> Hashed<R> {
    fn new(inner: R) -> Self {
        Self {
            inner,
            hasher: Hasher::new(),
            bytes: 0,
            failure: None,
        }
    }

    fn sum(self) -> Sha256 {
        Sha256::new(self.hasher.finalize().into())
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer).inspect_err(|error| {
            if error.kind() != io::ErrorKind::Interrupted {
                self.failure = Some(plain::io(error));
            }
        })?;
        self.hasher.update(buffer.get(..read).unwrap_or_default());
        self.bytes += read as u64;
        Ok(read)
    }
}

/// Unpacks an archive into the new folder `into` as a data folder, and verifies every checksum. `accepts` checks the
/// manifest before anything else is read, and returns the reason if it refuses.
///
/// # Errors `Refused` if the archive is incomplete or damaged; the folder must not be used then.
pub(crate) fn unpack(
    from: impl Read,
    into: &Path,
    accepts: impl Fn(&Manifest) -> Result<(), String>,
) -> Result<Manifest, Error> {
    let mut tar = tar::Archive::new(BufReader::with_capacity(PIECE, from));
    let (mut sums, mut manifest) = (Hasher::new(), None);
    let (mut ends, mut long) = (false, None);
    // Reads raw entries: an interpreted entry may hold a name or a record that takes all memory.
    for entry in tar.entries().map_err(cut_off)?.raw(true) {
        let mut entry = entry.map_err(cut_off)?;
        if entry.header().entry_type() == EntryType::GNULongName && long.is_none() {
            long = Some(read_name(&mut entry)?);
            continue;
        }
        let name = long.take().unwrap_or_else(|| entry.path_bytes().into_owned());
        let name = String::from_utf8(name).map_err(|_| refused("it holds a name that is not UTF-8"))?;
        if ends || entry.header().entry_type() != EntryType::Regular {
            return Err(refused(format!("it holds {name:?}, which no backup has there")));
        }
        if name == SUMS {
            let mut found = Hashed::new(&mut entry);
            io::copy(&mut found, &mut io::sink()).map_err(cut_off)?;
            if found.sum().as_bytes().as_slice() != sums.finalize_reset().as_slice() {
                return Err(refused(
                    "its check sums are not those of what it holds: it was changed",
                ));
            }
            ends = true;
            continue;
        }
        let sum = match (&manifest, name.as_str()) {
            (None, MANIFEST) => {
                let (read, sum) = read_manifest(&mut entry)?;
                accepts(&read).map_err(Error::Refused)?;
                manifest = Some(read);
                sum
            }
            (Some(_), name) => unpack_one(&mut entry, name, into)?,
            (None, _) => return Err(refused("it does not begin with the manifest of a backup")),
        };
        sums.update(format!("{sum}  {name}\n"));
    }
    match manifest {
        Some(manifest) if ends => Ok(manifest),
        Some(_) | None => Err(refused(
            "it ends too early: it was cut off, or the backup broke off",
        )),
    }
}

/// The name of the next entry, if it is too long for its header; a zero byte ends it.
fn read_name(from: &mut tar::Entry<'_, impl Read>) -> Result<Vec<u8>, Error> {
    if from.size() > NAME_BYTES {
        return Err(refused(format!("it holds a name of {} bytes", from.size())));
    }
    let mut name = Vec::new();
    from.read_to_end(&mut name).map_err(cut_off)?;
    if name.last() == Some(&0) {
        name.pop();
    }
    Ok(name)
}

/// The part of a manifest that is read first: the rest may have another form.
#[derive(Deserialize)]
struct Form {
    format: u32,
}

fn read_manifest(from: &mut impl Read) -> Result<(Manifest, Sha256), Error> {
    let mut hashed = Hashed::new(from);
    let mut text = Vec::new();
    hashed
        .by_ref()
        .take(MANIFEST_BYTES)
        .read_to_end(&mut text)
        .map_err(cut_off)?;
    let form: Form = serde_json::from_slice(&text).map_err(|_| refused("its manifest is not readable"))?;
    if form.format != Manifest::FORMAT {
        return Err(refused(format!(
            "it has the form {}, and this program reads {}: restore it with the version that has written it",
            form.format,
            Manifest::FORMAT
        )));
    }
    let manifest = serde_json::from_slice(&text).map_err(|_| refused("its manifest is not readable"))?;
    Ok((manifest, hashed.sum()))
}

/// Writes one file of a data folder, private to this user. Paths come from a fixed list, never from names of the
/// archive.
fn unpack_one(from: &mut impl Read, name: &str, into: &Path) -> Result<Sha256, Error> {
    let address: Option<Address> = name
        .strip_prefix(CONTENTS)
        .and_then(|rest| rest.strip_prefix('/')?.parse().ok());
    let path = match address {
        Some(address) => address.file_in(&into.join(CONTENTS)),
        None if name == DATABASE || KEYS.contains(&name) => into.join(name),
        None => return Err(refused(format!("it holds {name:?}, which no backup has"))),
    };
    if let Some(folder) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    let (mut from, mut to) = (Hashed::new(from), BufWriter::with_capacity(PIECE, file));
    let mut piece = vec![0; PIECE];
    loop {
        let read = from.read(&mut piece).map_err(cut_off)?;
        let Some(bytes) = piece.get(..read).filter(|bytes| !bytes.is_empty()) else {
            break;
        };
        to.write_all(bytes)?;
    }
    to.flush()?;
    let sum = from.sum();
    if address.is_some_and(|address| address.sha256 != sum) {
        return Err(refused(format!(
            "{name} is not what it was: the archive was changed"
        )));
    }
    Ok(sum)
}

/// Returns the error for a file that is truncated, or is not a tar file.
#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` takes")]
fn cut_off(error: io::Error) -> Error {
    // The tar library reports a truncated file with its own message.
    let is_its_own = matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::Other);
    let words = if is_its_own {
        "it ends too early, or is no tar file".to_owned()
    } else {
        plain::io(&error)
    };
    refused(format!("it is not a whole archive: {words}"))
}

#[cfg(test)]
#[path = "archive_tests.rs"]
mod tests;
