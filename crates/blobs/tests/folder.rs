//! Content in a local folder.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{collections::BTreeMap, io::Read, os::unix::fs::PermissionsExt, path::Path};

use futures_util::{StreamExt, TryStreamExt};
use sortie_api::{BlobId, OrgId, Timestamp};
use sortie_blobs::{Address, Blobs, Error, Settings, Staged};

async fn open(folder: &Path) -> Blobs {
    let settings = Settings {
        url: format!("file:{}", folder.display()),
        staging: folder.join("not used"),
        aws: BTreeMap::new(),
        outbound: sortie_net::Outbound::default(),
    };
    Blobs::open(&settings).await.unwrap()
}

async fn staged(blobs: &Blobs, content: &[u8]) -> Staged {
    let mut staging = blobs.stage().await.unwrap();
    for piece in content.chunks(100_000) {
        staging.write(piece).await.unwrap();
    }
    assert_eq!(staging.size(), content.len() as u64);
    staging.finish().await.unwrap()
}

fn address(staged: &Staged, random: u8) -> Address {
    let at = Timestamp::from_micros(1_700_000_000_000_000);
    Address {
        org: OrgId::new(at, [1; 10]),
        sha256: staged.sha256(),
        blob: BlobId::new(at, [random; 10]),
    }
}

fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

fn files_below(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![folder.to_owned()];
    while let Some(folder) = pending.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found
}

#[tokio::test]
async fn content_is_read_back_whole_and_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = open(folder.path()).await;
    let content = content(1_300_001);
    let staged = staged(&blobs, &content).await;
    assert_eq!(staged.size(), 1_300_001);
    let address = address(&staged, 2);
    blobs.keep(address, staged).await.unwrap();
    for range in [0..1_300_001, 0..0, 7..8, 262_143..262_145, 1_299_999..1_300_001] {
        let pieces: Vec<_> = blobs
            .read(address, range.clone())
            .await
            .unwrap()
            .try_collect()
            .await
            .unwrap();
        let bounds = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
        assert!(pieces.concat() == content[bounds], "{range:?}");
    }
    let mut whole = Vec::new();
    blobs
        .open_file(address)
        .await
        .unwrap()
        .read_to_end(&mut whole)
        .unwrap();
    assert!(whole == content);
}

#[tokio::test]
async fn content_is_for_the_owner_alone_and_addressed_by_its_hash() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = open(folder.path()).await;
    let staged = staged(&blobs, b"abc").await;
    assert_eq!(
        staged.sha256().to_string(),
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    );
    let address = address(&staged, 2);
    blobs.keep(address, staged).await.unwrap();
    let kept = folder.path().join(address.to_string());
    assert_eq!(files_below(folder.path()), std::slice::from_ref(&kept));
    assert_eq!(
        std::fs::metadata(&kept).unwrap().permissions().mode() & 0o777,
        0o600
    );
    for above in kept.ancestors().skip(1).take(3) {
        let mode = std::fs::metadata(above).unwrap().permissions().mode() & 0o077;
        assert!(mode == 0 || above == folder.path());
    }
}

#[tokio::test]
async fn what_is_dropped_before_it_is_kept_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = open(folder.path()).await;
    let mut broken = blobs.stage().await.unwrap();
    broken.write(&content(2_000_000)).await.unwrap();
    assert_eq!(files_below(folder.path()).len(), 1);
    drop(broken);
    drop(staged(&blobs, b"never kept").await);
    assert!(files_below(folder.path()).is_empty());
}

#[tokio::test]
async fn a_start_removes_what_a_dead_process_left_and_nothing_that_is_under_way() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = open(folder.path()).await;
    let under_way = staged(&blobs, b"under way").await;
    let left = folder.path().join("staging/0123");
    std::fs::write(&left, b"left behind").unwrap();
    let again = open(folder.path()).await;
    assert!(!left.exists());
    let address = address(&under_way, 2);
    blobs.keep(address, under_way).await.unwrap();
    assert!(again.open_file(address).await.is_ok());
}

#[tokio::test]
async fn content_that_is_kept_again_is_there_once_and_mends_what_a_crash_cut() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = open(folder.path()).await;
    let first = staged(&blobs, b"the same").await;
    let address = address(&first, 2);
    blobs.keep(address, first).await.unwrap();
    std::fs::write(folder.path().join(address.to_string()), b"the").unwrap();
    blobs
        .keep(address, staged(&blobs, b"the same").await)
        .await
        .unwrap();
    let pieces: Vec<_> = blobs
        .read(address, 0..8)
        .await
        .unwrap()
        .try_collect()
        .await
        .unwrap();
    assert_eq!(pieces.concat(), b"the same");
    assert_eq!(files_below(folder.path()).len(), 1);
}

#[tokio::test]
async fn content_that_is_shorter_than_it_was_is_damaged_and_no_endless_stream() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = open(folder.path()).await;
    let staged = staged(&blobs, b"the whole").await;
    let address = address(&staged, 2);
    blobs.keep(address, staged).await.unwrap();
    std::fs::write(folder.path().join(address.to_string()), b"the").unwrap();
    let read: Result<Vec<_>, _> = blobs.read(address, 0..9).await.unwrap().try_collect().await;
    assert!(matches!(read, Err(Error::Damaged(_))));
}

#[test]
fn the_next_piece_is_read_before_it_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    // With one blocking thread, work runs in the order of submission.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(1)
        .build()
        .unwrap();
    runtime.block_on(async {
        let blobs = open(folder.path()).await;
        let content = content(1_300_001);
        let staged = staged(&blobs, &content).await;
        let address = address(&staged, 2);
        blobs.keep(address, staged).await.unwrap();
        let mut pieces = blobs.read(address, 0..1_300_001).await.unwrap();
        let first = pieces.next().await.unwrap().unwrap();
        let file = folder.path().join(address.to_string());
        let emptied = tokio::task::spawn_blocking(move || std::fs::write(file, b""));
        emptied.await.unwrap().unwrap();
        let second = pieces.next().await.unwrap().unwrap();
        let (end, next) = (first.len(), first.len() + second.len());
        assert!(first == content[..end] && second == content[end..next]);
        let third = pieces.next().await.unwrap();
        assert!(matches!(third, Err(Error::Damaged(_))), "{third:?}");
    });
}

#[tokio::test]
async fn content_is_kept_under_no_other_hash() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = open(folder.path()).await;
    let other = address(&staged(&blobs, b"other").await, 2);
    let kept = blobs.keep(other, staged(&blobs, b"this").await).await;
    assert!(matches!(kept, Err(Error::Damaged(_))));
    assert!(files_below(folder.path()).is_empty());
}

#[tokio::test]
async fn deleted_content_is_gone_and_deleting_it_again_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = open(folder.path()).await;
    let staged = staged(&blobs, b"gone").await;
    let (gone, stays) = (address(&staged, 2), address(&staged, 3));
    blobs.keep(gone, staged).await.unwrap();
    let again = self::staged(&blobs, b"gone").await;
    blobs.keep(stays, again).await.unwrap();
    blobs.delete(gone).await.unwrap();
    blobs.delete(gone).await.unwrap();
    assert!(matches!(blobs.open_file(gone).await, Err(Error::NotFound)));
    assert!(blobs.open_file(stays).await.is_ok());
}

#[tokio::test]
async fn a_folder_is_proven_by_use_and_one_that_cannot_be_used_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = open(folder.path()).await;
    blobs.check().await.unwrap();
    let at = Timestamp::from_micros(1);
    blobs
        .prove(OrgId::new(at, [1; 10]), BlobId::new(at, [1; 10]))
        .await
        .unwrap();
    assert!(files_below(folder.path()).is_empty());
    std::fs::remove_dir(folder.path().join("staging")).unwrap();
    assert!(matches!(blobs.check().await, Err(Error::Unavailable(_))));
}

#[tokio::test]
async fn settings_that_mean_nothing_are_refused_with_what_is_meant() {
    for (url, says) in [
        ("/var/blobs", "file:<folder> or s3://<bucket>/<prefix>"),
        ("file:", "needs a folder"),
        ("s3:///prefix", "needs a bucket"),
        ("s3://key:secret@bucket", "AWS_ACCESS_KEY_ID"),
    ] {
        let settings = Settings {
            url: url.to_owned(),
            staging: "unused".into(),
            aws: BTreeMap::new(),
            outbound: sortie_net::Outbound::default(),
        };
        match Blobs::open(&settings).await {
            Err(Error::Settings(text)) => assert!(text.contains(says), "{text}"),
            other => panic!("{url}: {other:?}"),
        }
    }
}
