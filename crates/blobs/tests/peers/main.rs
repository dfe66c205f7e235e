//! Content in an S3-compatible store: the server of moto, which `scripts/peers` installs.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeMap,
    future::Future,
    io::Read,
    path::Path,
    pin::{Pin, pin},
    task::Poll,
    time::Duration,
};

use futures_util::TryStreamExt;
use sortie_api::{BlobId, Credential, OrgId, Timestamp};
use sortie_blobs::{Address, Blobs, Error, Settings, Staged};
use sortie_testkit::{
    gateway::{Gateway, GatewayFault},
    http::StatusCode,
    s3::{BUCKET, S3},
};

async fn open(store: &S3, folder: &Path, bucket: &str) -> Blobs {
    let settings = Settings {
        outbound: sortie_net::Outbound::default(),
        url: format!("s3://{bucket}/some/where"),
        staging: folder.join("staging"),
        aws: store
            .variables()
            .into_iter()
            .map(|(name, value)| (name.to_owned(), Credential::new(value)))
            .collect(),
    };
    Blobs::open(&settings).await.unwrap()
}

/// Connects the storage through a gateway that lets `before` requests pass and then injects `fault`.
async fn faulted(store: &S3, folder: &Path, before: usize, fault: GatewayFault) -> (Blobs, Gateway) {
    let gateway = Gateway::start(store.address()).await.unwrap();
    let mut variables: BTreeMap<_, _> = store.variables().into_iter().collect();
    variables.insert("AWS_ENDPOINT_URL", gateway.base_url());
    let settings = Settings {
        outbound: sortie_net::Outbound::default(),
        url: format!("s3://{BUCKET}/some/where"),
        staging: folder.join("staging"),
        aws: variables
            .into_iter()
            .map(|(name, value)| (name.to_owned(), Credential::new(value)))
            .collect(),
    };
    gateway.set(vec![GatewayFault::None; before].into_iter().chain([fault]));
    (Blobs::open(&settings).await.unwrap(), gateway)
}

/// Polls `keeping` until the gateway has injected its fault, then lets all requests pass.
async fn until_troubled(mut keeping: Pin<&mut impl Future<Output = Result<(), Error>>>, gateway: &Gateway) {
    while gateway.faulted() == 0 {
        let ended = std::future::poll_fn(|context| Poll::Ready(keeping.as_mut().poll(context).is_ready()));
        assert!(!ended.await);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    gateway.set([]);
}

/// Content of three parts. An upload checks whether the content exists, starts, sends one request per part of 8 MiB, and
/// completes.
const PARTS: &[u8] = &[7; 20_000_000];

#[tokio::test]
async fn an_upload_that_nobody_waits_for_any_more_leaves_no_parts() {
    for (before, fault) in [
        (1, GatewayFault::Held),
        (2, GatewayFault::Hangs),
        (4, GatewayFault::Hangs),
        (5, GatewayFault::Hangs),
    ] {
        let (store, folder) = (S3::start().await.unwrap(), tempfile::tempdir().unwrap());
        let (blobs, gateway) = faulted(&store, folder.path(), before, fault).await;
        let staged = staged(&blobs, PARTS).await;
        {
            let mut keeping = pin!(blobs.keep(address(&staged), staged));
            until_troubled(keeping.as_mut(), &gateway).await;
            assert_eq!(
                store.uploads().await.unwrap().len(),
                usize::from(before > 1),
                "{before}"
            );
        }
        gateway.release();
        blobs.settled().await;
        assert!(store.uploads().await.unwrap().is_empty(), "{before}");
        assert!(store.keys().await.unwrap().is_empty(), "{before}");
    }
}

#[tokio::test]
async fn an_upload_that_fails_or_takes_too_long_leaves_no_parts() {
    let (store, folder) = (S3::start().await.unwrap(), tempfile::tempdir().unwrap());
    for before in [3, 5] {
        let refused = GatewayFault::Fails(StatusCode::FORBIDDEN);
        let (blobs, gateway) = faulted(&store, folder.path(), before, refused).await;
        let staged = staged(&blobs, PARTS).await;
        let mut keeping = pin!(blobs.keep(address(&staged), staged));
        let kept = keeping.as_mut().await;
        assert!(matches!(kept, Err(Error::Unavailable(_))), "{kept:?}");
        assert_eq!(gateway.faulted(), 1);
        assert!(store.uploads().await.unwrap().is_empty(), "{before}");
    }
    let (blobs, gateway) = faulted(&store, folder.path(), 3, GatewayFault::Hangs).await;
    let staged = staged(&blobs, PARTS).await;
    let mut keeping = pin!(blobs.keep(address(&staged), staged));
    until_troubled(keeping.as_mut(), &gateway).await;
    assert_eq!(store.uploads().await.unwrap().len(), 1);
    tokio::time::pause();
    tokio::time::advance(Duration::from_mins(20)).await;
    tokio::time::resume();
    let kept = keeping.await;
    assert!(
        matches!(&kept, Err(Error::Unavailable(why)) if why.contains("too long")),
        "{kept:?}"
    );
    assert!(store.uploads().await.unwrap().is_empty());
}

async fn staged(blobs: &Blobs, content: &[u8]) -> Staged {
    let mut staging = blobs.stage().await.unwrap();
    staging.write(content).await.unwrap();
    staging.finish().await.unwrap()
}

fn address(staged: &Staged) -> Address {
    let at = Timestamp::from_micros(1_700_000_000_000_000);
    Address {
        org: OrgId::new(at, [1; 10]),
        sha256: staged.sha256(),
        blob: BlobId::new(at, [2; 10]),
    }
}

#[tokio::test]
async fn content_of_every_size_goes_to_the_store_and_comes_back() {
    let (store, folder) = (S3::start().await.unwrap(), tempfile::tempdir().unwrap());
    let blobs = open(&store, folder.path(), BUCKET).await;
    blobs.check().await.unwrap();
    // The last two need a multipart upload.
    for length in [0, 5, 8 << 20, (8 << 20) + 1, 20_000_000] {
        let content: Vec<u8> = (0..length)
            .map(|at: usize| u8::try_from(at % 251).unwrap())
            .collect();
        let staged = staged(&blobs, &content).await;
        let (address, size) = (address(&staged), content.len() as u64);
        blobs.keep(address, staged).await.unwrap();
        let whole: Vec<_> = blobs
            .read(address, 0..size)
            .await
            .unwrap()
            .try_collect()
            .await
            .unwrap();
        assert!(whole.concat() == content, "{length}");
        if size > 3 {
            let part: Vec<_> = blobs
                .read(address, 2..size - 1)
                .await
                .unwrap()
                .try_collect()
                .await
                .unwrap();
            assert!(part.concat() == content[2..length - 1], "{length}");
        }
        let mut file = Vec::new();
        blobs
            .open_file(address)
            .await
            .unwrap()
            .read_to_end(&mut file)
            .unwrap();
        assert!(file == content, "{length}");
        assert_eq!(store.keys().await.unwrap(), [format!("some/where/{address}")]);
        blobs.delete(address).await.unwrap();
        blobs.delete(address).await.unwrap();
        assert!(matches!(blobs.open_file(address).await, Err(Error::NotFound)));
        assert!(store.keys().await.unwrap().is_empty());
    }
    let at = Timestamp::from_micros(1);
    blobs
        .prove(OrgId::new(at, [3; 10]), BlobId::new(at, [4; 10]))
        .await
        .unwrap();
    assert!(store.keys().await.unwrap().is_empty());
    assert_eq!(
        std::fs::read_dir(folder.path().join("staging")).unwrap().count(),
        0
    );
}

#[tokio::test]
async fn a_store_that_refuses_or_is_away_keeps_nothing_and_says_so() {
    let (store, folder) = (S3::start().await.unwrap(), tempfile::tempdir().unwrap());
    let nowhere = open(&store, folder.path(), "no-such-bucket").await;
    for content in [vec![1; 10], vec![1; 9 << 20]] {
        let staged = staged(&nowhere, &content).await;
        let address = address(&staged);
        let kept = nowhere.keep(address, staged).await;
        assert!(
            matches!(kept, Err(Error::Unavailable(_) | Error::NotFound)),
            "{kept:?}"
        );
    }
    let blobs = open(&store, folder.path(), BUCKET).await;
    let first = staged(&blobs, b"x").await;
    let address = address(&first);
    drop(store);
    for failed in [
        blobs.keep(address, first).await,
        blobs.read(address, 0..1).await.map(drop),
        blobs.check().await,
    ] {
        assert!(matches!(failed, Err(Error::Unavailable(_))), "{failed:?}");
    }
    assert_eq!(
        std::fs::read_dir(folder.path().join("staging")).unwrap().count(),
        0
    );
}

#[tokio::test]
async fn a_store_that_hangs_is_unavailable_within_ten_seconds() {
    let (store, folder) = (S3::start().await.unwrap(), tempfile::tempdir().unwrap());
    let (blobs, _gateway) = faulted(&store, folder.path(), 0, GatewayFault::Hangs).await;
    let (small, large) = (staged(&blobs, b"x").await, staged(&blobs, PARTS).await);
    let (first, second) = (address(&small), address(&large));
    tokio::time::pause();
    let begun = tokio::time::Instant::now();
    let (small, large, read, deleted, checked) = tokio::join!(
        blobs.keep(first, small),
        blobs.keep(second, large),
        blobs.read(first, 0..1),
        blobs.delete(first),
        blobs.check()
    );
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    tokio::time::resume();
    for failed in [small, large, read.map(drop), deleted, checked] {
        assert!(matches!(failed, Err(Error::Unavailable(_))), "{failed:?}");
    }
}

#[tokio::test]
async fn a_request_goes_on_for_as_long_as_the_store_answers_others() {
    let (store, folder) = (S3::start().await.unwrap(), tempfile::tempdir().unwrap());
    let (blobs, gateway) = faulted(&store, folder.path(), 0, GatewayFault::Held).await;
    let staged = staged(&blobs, b"x").await;
    let mut keeping = pin!(blobs.keep(address(&staged), staged));
    until_troubled(keeping.as_mut(), &gateway).await;
    // Counts the requests that probe the store.
    gateway.set([GatewayFault::Late(Duration::ZERO)]);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(6)).await;
    tokio::time::resume();
    while gateway.faulted() < 2 {
        let ended = std::future::poll_fn(|context| Poll::Ready(keeping.as_mut().poll(context).is_ready()));
        assert!(!ended.await);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    gateway.set([]);
    gateway.release();
    keeping.await.unwrap();
    assert_eq!(store.keys().await.unwrap().len(), 1);
}
