//! Content in a store that speaks S3: moto's server, which `scripts/peers` installs.

#![expect(clippy::panic, reason = "a test fails by panicking")]

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use futures_util::TryStreamExt;
use sortie_api::{BlobId, Credential, OrgId, Timestamp};
use sortie_blobs::{Address, Blobs, Error, Settings, Staged};
use sortie_net::{EngineClient, Timeouts};

/// The server; dropping it ends it.
struct Store {
    child: Child,
    url: String,
    http: EngineClient,
}

impl Drop for Store {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Store {
    async fn start() -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "where the peers are is no setting of the node"
        )]
        let peers = std::env::var("SORTIE_PEERS").map_or_else(
            |_| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers"),
            PathBuf::from,
        );
        let program = peers.join("venv/bin/moto_server");
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        #[expect(clippy::disallowed_methods, reason = "a peer is no process of the node")]
        let mut child = Command::new(&program)
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .env("PYTHONUNBUFFERED", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}: run scripts/peers", program.display()));
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        while !lines.next().unwrap().unwrap().contains("Running on") {}
        std::thread::spawn(move || lines.for_each(drop));
        let timeouts = Timeouts {
            connect: std::time::Duration::from_secs(5),
            read: std::time::Duration::from_secs(20),
            total: None,
        };
        let store = Self {
            child,
            url: format!("http://127.0.0.1:{port}"),
            http: EngineClient::new(timeouts).unwrap(),
        };
        let made = store.ask(reqwest::Method::PUT, "/bucket").await;
        assert!(made.0 < 300, "{made:?}");
        store
    }

    async fn ask(&self, method: reqwest::Method, path: &str) -> (u16, String) {
        let url = format!("{}{path}", self.url).parse().unwrap();
        let answer = self.http.request(method, &url).unwrap().send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// The keys in the bucket.
    async fn keys(&self) -> Vec<String> {
        let (_, list) = self.ask(reqwest::Method::GET, "/bucket?list-type=2").await;
        list.split("<Key>")
            .skip(1)
            .filter_map(|rest| rest.split("</Key>").next())
            .map(str::to_owned)
            .collect()
    }

    async fn open(&self, folder: &Path, bucket: &str) -> Blobs {
        let aws = [
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ENDPOINT_URL", self.url.as_str()),
        ];
        let settings = Settings {
            url: format!("s3://{bucket}/some/where"),
            staging: folder.join("staging"),
            aws: aws
                .into_iter()
                .map(|(name, value)| (name.to_owned(), Credential::new(value)))
                .collect::<BTreeMap<_, _>>(),
        };
        Blobs::open(&settings).await.unwrap()
    }
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
    let (store, folder) = (Store::start().await, tempfile::tempdir().unwrap());
    let blobs = store.open(folder.path(), "bucket").await;
    blobs.check().await.unwrap();
    // The last two go in parts.
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
        assert_eq!(store.keys().await, [format!("some/where/{address}")]);
        blobs.delete(address).await.unwrap();
        blobs.delete(address).await.unwrap();
        assert!(matches!(blobs.open_file(address).await, Err(Error::NotFound)));
        assert!(store.keys().await.is_empty());
    }
    let at = Timestamp::from_micros(1);
    blobs
        .prove(OrgId::new(at, [3; 10]), BlobId::new(at, [4; 10]))
        .await
        .unwrap();
    assert!(store.keys().await.is_empty());
    assert_eq!(
        std::fs::read_dir(folder.path().join("staging")).unwrap().count(),
        0
    );
}

#[tokio::test]
async fn a_store_that_refuses_or_is_away_keeps_nothing_and_says_so() {
    let (store, folder) = (Store::start().await, tempfile::tempdir().unwrap());
    let nowhere = store.open(folder.path(), "no-such-bucket").await;
    for content in [vec![1; 10], vec![1; 9 << 20]] {
        let staged = staged(&nowhere, &content).await;
        let address = address(&staged);
        let kept = nowhere.keep(address, staged).await;
        assert!(
            matches!(kept, Err(Error::Unavailable(_) | Error::NotFound)),
            "{kept:?}"
        );
    }
    let blobs = store.open(folder.path(), "bucket").await;
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
