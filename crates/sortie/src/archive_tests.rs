use std::path::PathBuf;

use proptest::prelude::*;
use sortie_api::{BlobId, OrgId};
use tempfile::TempDir;

use super::*;

/// A data folder with two contents, and its archive.
struct Rig {
    root: TempDir,
    manifest: Manifest,
    contents: Vec<(Address, Vec<u8>)>,
}

fn address_of(bytes: &[u8], number: u8) -> Address {
    let at = Timestamp::from_micros(1_700_000_000_000_000);
    Address {
        org: OrgId::new(at, [1; 10]),
        sha256: Sha256::new(Hasher::digest(bytes).into()),
        blob: BlobId::new(at, [number; 10]),
    }
}

impl Rig {
    fn new() -> Self {
        let contents = [Vec::new(), vec![7; 70_000]]
            .into_iter()
            .zip(1..)
            .map(|(bytes, number)| (address_of(&bytes, number), bytes))
            .collect();
        Self {
            root: tempfile::tempdir().unwrap(),
            manifest: Manifest {
                format: Manifest::FORMAT,
                version: "0.0.0".to_owned(),
                created_at: Timestamp::from_micros(1_700_000_000_000_000),
                migration: 16,
                database_bytes: 9_000,
                runs: 3,
                contents_in: ContentsIn::Archive,
                contents: 2,
                content_bytes: 70_000,
                keys: Vec::new(),
            },
            contents,
        }
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.root.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    fn sums(&self) -> File {
        let path = self.file("sums", b"");
        OpenOptions::new().read(true).write(true).open(path).unwrap()
    }

    fn begun(&self) -> Writer<Vec<u8>> {
        let mut writer = Writer::begin(Vec::new(), self.sums(), &self.manifest).unwrap();
        writer.add_file(DATABASE, &self.file("db", &[3; 9_000])).unwrap();
        for (address, bytes) in &self.contents {
            let file = File::open(self.file("content", bytes)).unwrap();
            writer.add_content(*address, file, bytes.len() as u64).unwrap();
        }
        writer
    }

    fn archive(&self) -> Vec<u8> {
        self.begun().finish().unwrap()
    }

    fn unpacked(&self, archive: &[u8]) -> (TempDir, Result<Manifest, Error>) {
        let into = TempDir::new_in(self.root.path()).unwrap();
        let outcome = unpack(archive, into.path(), |_| Ok(()));
        (into, outcome)
    }

    fn refusal(&self, archive: &[u8]) -> String {
        match self.unpacked(archive).1.unwrap_err() {
            Error::Refused(reason) => reason,
            Error::Io(error) => panic!("{error}"),
        }
    }
}

#[test]
fn what_was_put_in_comes_out_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;

    let rig = Rig::new();
    let (into, manifest) = rig.unpacked(&rig.archive());
    assert_eq!(manifest.unwrap(), rig.manifest);
    assert_eq!(fs::read(into.path().join(DATABASE)).unwrap(), [3; 9_000]);
    for (address, bytes) in &rig.contents {
        let path = address.file_in(&into.path().join("blobs"));
        assert_eq!(&fs::read(&path).unwrap(), bytes);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(fs::read_dir(into.path()).unwrap().count(), 2);
}

#[test]
fn an_archive_that_was_not_finished_is_refused() {
    let rig = Rig::new();
    let mut unfinished = rig.begun().tar.into_inner().unwrap();
    let reason = rig.refusal(&unfinished);
    assert!(reason.contains("ends too early"), "{reason}");
    // Without the blocks at the end of a tar file, as after a full disk.
    unfinished.truncate(unfinished.len() - 1_024);
    assert!(rig.refusal(&unfinished).contains("ends too early"));
    assert!(rig.refusal(b"").contains("ends too early"));
    assert!(rig.refusal(&[b'x'; 2_000]).contains("not a whole archive"));
}

#[test]
fn names_that_no_backup_has_are_refused_and_nothing_is_written_elsewhere() {
    let rig = Rig::new();
    let address = rig.contents[0].0;
    for name in [
        "blobs/x",
        "node_name",
        "blobs",
        &format!("blobs/{address}/x"),
        &format!("./blobs/{address}"),
        "sortie.db-wal",
    ] {
        let mut writer = Writer::begin(Vec::new(), rig.sums(), &rig.manifest).unwrap();
        writer.add(name, &b"x"[..], 1).unwrap();
        let reason = rig.refusal(&writer.finish().unwrap());
        assert!(reason.contains("which no backup has"), "{name}: {reason}");
    }
    // A path with `..`, which the tar writer itself refuses to write.
    let mut writer = Writer::begin(Vec::new(), rig.sums(), &rig.manifest).unwrap();
    writer.add("blobs/xx", &b"x"[..], 1).unwrap();
    let mut archive = writer.finish().unwrap();
    let at = archive.windows(8).position(|part| part == b"blobs/xx").unwrap();
    archive[at..at + 8].copy_from_slice(b"../../xx");
    assert!(!rig.refusal(&archive).is_empty());
}

/// An archive with one more entry in front, of this type and with this claimed length.
fn with_entry_in_front(kind: u8, size: u64, archive: Vec<u8>) -> impl Read {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::new(kind));
    header.set_size(size);
    header.set_cksum();
    let blocks = size.div_ceil(512) * 512;
    io::Cursor::new(header.as_bytes().to_vec())
        .chain(io::repeat(b'a').take(blocks))
        .chain(io::Cursor::new(archive))
}

#[test]
fn what_would_be_read_into_memory_whole_is_refused() {
    let rig = Rig::new();
    // A name, a link, and records of both kinds, each of 20 GB.
    for (kind, reason) in [
        (b'L', "a name of 20000000000 bytes"),
        (b'K', "which no backup has there"),
        (b'x', "which no backup has there"),
        (b'g', "which no backup has there"),
        (b'S', "which no backup has there"),
    ] {
        let into = TempDir::new_in(rig.root.path()).unwrap();
        let hostile = with_entry_in_front(kind, 20_000_000_000, rig.archive());
        let told = unpack(hostile, into.path(), |_| Ok(())).unwrap_err().to_string();
        assert!(told.contains(reason), "{}: {told}", char::from(kind));
    }
    // Two names for one entry.
    let twice = with_entry_in_front(b'L', 5, Vec::new()).chain(with_entry_in_front(b'L', 5, rig.archive()));
    let told = unpack(twice, rig.root.path(), |_| Ok(()))
        .unwrap_err()
        .to_string();
    assert!(told.contains("which no backup has there"), "{told}");
}

#[test]
fn a_manifest_that_is_not_accepted_ends_it_before_anything_else_is_read() {
    let rig = Rig::new();
    let into = TempDir::new_in(rig.root.path()).unwrap();
    let only_the_manifest = &rig.archive()[..2_048];
    let told = unpack(only_the_manifest, into.path(), |found| {
        Err(format!("{} runs", found.runs))
    });
    assert_eq!(told.unwrap_err().to_string(), "3 runs");
    assert_eq!(fs::read_dir(into.path()).unwrap().count(), 0);
}

/// After one content is missing, the command checks the others without an archive.
#[test]
fn a_content_is_checked_without_an_archive_as_with_one() {
    let rig = Rig::new();
    let (address, bytes) = &rig.contents[1];
    let told = |bytes: &[u8]| {
        let file = File::open(rig.file("content", bytes)).unwrap();
        check_content(*address, file, 70_000).map_err(|error| error.to_string())
    };
    assert_eq!(told(bytes), Ok(()));
    assert!(told(&bytes[1..]).unwrap_err().contains("shorter"));
    let mut changed = bytes.clone();
    changed[9] ^= 1;
    assert!(told(&changed).unwrap_err().contains("is damaged"));
}

#[test]
fn a_content_that_is_not_what_its_address_says_ends_the_backup() {
    let rig = Rig::new();
    let (address, bytes) = &rig.contents[1];
    let mut writer = Writer::begin(Vec::new(), rig.sums(), &rig.manifest).unwrap();
    let mut changed = bytes.clone();
    changed[9] ^= 1;
    let file = File::open(rig.file("content", &changed)).unwrap();
    let error = writer
        .add_content(*address, file, bytes.len() as u64)
        .unwrap_err();
    assert!(error.to_string().contains("is damaged"), "{error}");
    let mut writer = Writer::begin(Vec::new(), rig.sums(), &rig.manifest).unwrap();
    let file = File::open(rig.file("content", &bytes[1..])).unwrap();
    let error = writer
        .add_content(*address, file, bytes.len() as u64)
        .unwrap_err();
    assert!(error.to_string().contains("shorter"), "{error}");
}

#[test]
fn another_form_says_what_to_do() {
    let mut rig = Rig::new();
    rig.manifest.format = 2;
    let reason = rig.refusal(&rig.archive());
    assert!(reason.contains("restore it with the version"), "{reason}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn an_archive_that_is_cut_off_anywhere_is_refused(at: prop::sample::Index) {
        let rig = Rig::new();
        let archive = rig.archive();
        // The archive ends with two blocks of zeros, and the reader does not need them.
        let at = at.index(archive.len() - 1_024);
        prop_assert!(rig.unpacked(&archive[..at]).1.is_err());
    }

    #[test]
    fn one_changed_byte_of_what_it_holds_is_noticed(at: prop::sample::Index, change in 1_u8..=255) {
        let rig = Rig::new();
        let mut archive = rig.archive();
        // The bytes of the database. They are equal, so that the test finds them.
        let begin = archive.windows(9_000).position(|part| part == [3; 9_000]).unwrap();
        archive[begin + at.index(9_000)] ^= change;
        prop_assert!(rig.refusal(&archive).contains("it was changed"));
    }
}
