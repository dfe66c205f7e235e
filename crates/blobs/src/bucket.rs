//! Content in an S3-compatible store. Small content goes in one request, large content as a multipart upload; both read from the
//! staged file.
//!
//! A multipart upload runs in a separate task. If its caller is dropped, the task aborts the upload. Otherwise the parts would
//! stay in the store, where no object listing shows them and they cost money. A crashed process leaves parts in the store, and so
//! can a part that is in flight during the abort. The bucket needs a lifecycle rule for these (docs/FILES.md).

use std::{
    fs::File, io, ops::Range, os::unix::fs::FileExt, pin::pin, str::FromStr, sync::Arc, time::Duration,
};

use futures_util::{StreamExt, TryStreamExt};
use object_store::{
    Error as StoreError, GetOptions, MultipartUpload, ObjectStore, ObjectStoreExt, RetryConfig,
    aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey},
    client::{ClientOptions, HttpClient, HttpConnector},
    path::Path,
};
use sortie_net::{Outbound, Timeouts};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout, timeout_at},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{Address, Content, Error, KEEPING_TIME, Result, Settings, Staged, blocking};

/// Size of a part, and maximum size of content that goes in one request. Stores require equal parts of at least 5 MiB.
const PART: u64 = 8 * 1024 * 1024;
/// Time to abort an upload. It does not count towards the time to send it.
const ABORTING_TIME: Duration = Duration::from_mins(1);
/// We probe the store if a request gets no response for this time.
const SILENCE: Duration = Duration::from_secs(5);
/// Timeout of the probe. A store that hangs is unavailable after [`SILENCE`] plus this time.
const PROBE: Duration = Duration::from_secs(3);
/// Maximum number of concurrent uploads. Each keeps one part in memory.
const SENDING: usize = 4;

const TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_secs(5),
    read: Duration::from_secs(30),
    total: None,
};

#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    store: Arc<AmazonS3>,
    prefix: Path,
    sending: Arc<Semaphore>,
    /// Multipart uploads that are neither complete nor aborted.
    uploads: TaskTracker,
}

/// A multipart upload.
struct Upload {
    store: Arc<AmazonS3>,
    path: Path,
    /// The staged file. Dropping it removes the file.
    staged: Staged,
    file: Arc<File>,
    deadline: Instant,
    turn: OwnedSemaphorePermit,
}

impl Bucket {
    pub(crate) fn open(settings: &Settings) -> Result<Self> {
        let rest = settings.url.strip_prefix("s3://").unwrap_or_default();
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() || rest.contains(['?', '#', '@']) {
            return Err(Error::Settings(
                "s3:// needs a bucket, optionally with a prefix after it; set credentials, region and endpoint with \
                 AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and AWS_ENDPOINT_URL"
                    .to_owned(),
            ));
        }
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(bucket)
            .with_http_connector(Connector {
                outbound: settings.outbound.clone(),
            })
            .with_retry(RetryConfig {
                max_retries: 3,
                // This also bounds the retries of requests without a response, each of which takes the full read timeout.
                retry_timeout: 3 * TIMEOUTS.read,
                ..RetryConfig::default()
            });
        for (name, value) in &settings.aws {
            // Variables that do not configure a store belong to other parts of the environment, so we skip them.
            if let Ok(key) = AmazonS3ConfigKey::from_str(&name.to_ascii_lowercase()) {
                builder = builder.with_config(key, value.expose());
            }
        }
        let prefix = Path::parse(prefix.trim_end_matches('/')).map_err(|_| {
            Error::Settings(
                "the prefix of the bucket must be names separated by /, without . and ..".to_owned(),
            )
        })?;
        let store = builder
            .build()
            .map_err(|error| Error::Settings(error.to_string()))?;
        Ok(Self {
            store: Arc::new(store),
            prefix,
            sending: Arc::new(Semaphore::new(SENDING)),
            uploads: TaskTracker::new(),
        })
    }

    fn path(&self, address: Address) -> Path {
        address
            .to_string()
            .split('/')
            .fold(self.prefix.clone(), Path::join)
    }

    /// Waits for a response as long as the store also responds to small requests. A slow upload can therefore continue, and a
    /// store that hangs is an error.
    async fn answered<T>(&self, answer: impl Future<Output = Result<T>>) -> Result<T> {
        let mut answer = pin!(answer);
        loop {
            if let Ok(answer) = timeout(SILENCE, &mut answer).await {
                return answer;
            }
            tokio::select! {
                biased;
                answer = &mut answer => return answer,
                probed = timeout(PROBE, self.probe()) => probed.map_err(|_| late())??,
            }
        }
    }

    pub(crate) async fn keep(&self, address: Address, staged: Staged) -> Result<()> {
        self.answered(self.send(address, staged)).await
    }

    async fn send(&self, address: Address, staged: Staged) -> Result<()> {
        let (path, deadline) = (self.path(address), Instant::now() + KEEPING_TIME);
        let begun = async {
            let turn = Arc::clone(&self.sending).acquire_owned();
            let turn = turn.await.map_err(|_| late())?;
            match self.store.head(&path).await {
                Ok(there) if there.size == staged.size() => return Ok(None),
                Ok(_) | Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(failed(error)),
            }
            let file = Arc::new(staged.file().try_clone()?);
            if staged.size() <= PART {
                let content = part(&file, 0..staged.size()).await?;
                self.store.put(&path, content.into()).await.map_err(failed)?;
                return Ok(None);
            }
            Ok(Some((turn, file)))
        };
        let begun = timeout_at(deadline, begun).await.map_err(|_| late())??;
        let Some((turn, file)) = begun else {
            return Ok(());
        };
        let upload = Upload {
            store: Arc::clone(&self.store),
            path,
            staged,
            file,
            deadline,
            turn,
        };
        let given_up = CancellationToken::new();
        #[expect(
            clippy::disallowed_methods,
            reason = "an upload ends, and its panic is an error below"
        )]
        let sending = self.uploads.spawn(upload.send(given_up.clone()));
        // Dropping this future aborts the upload.
        let _guard = given_up.drop_guard();
        sending
            .await
            .map_err(|error| Error::Unavailable(format!("an upload broke off: {error}")))?
    }

    /// Waits for all multipart uploads to complete or abort.
    pub(crate) async fn settled(&self) {
        self.uploads.close();
        self.uploads.wait().await;
    }

    pub(crate) async fn read(&self, address: Address, range: Range<u64>) -> Result<Content> {
        if range.is_empty() {
            return Ok(futures_util::stream::empty().boxed());
        }
        self.get(
            address,
            GetOptions {
                range: Some(range.into()),
                ..GetOptions::default()
            },
        )
        .await
    }

    pub(crate) async fn read_whole(&self, address: Address) -> Result<Content> {
        self.get(address, GetOptions::default()).await
    }

    async fn get(&self, address: Address, options: GetOptions) -> Result<Content> {
        let path = self.path(address);
        let asked = async { self.store.get_opts(&path, options).await.map_err(failed) };
        let answer = self.answered(asked).await?;
        Ok(answer.into_stream().map_err(failed).boxed())
    }

    pub(crate) async fn delete(&self, address: Address) -> Result<()> {
        let path = self.path(address);
        let deleted = async {
            match self.store.delete(&path).await {
                Ok(()) | Err(StoreError::NotFound { .. }) => Ok(()),
                Err(error) => Err(failed(error)),
            }
        };
        self.answered(deleted).await
    }

    pub(crate) async fn check(&self) -> Result<()> {
        self.answered(self.probe()).await
    }

    /// Requests an object that does not exist, to check the credentials and the bucket.
    async fn probe(&self) -> Result<()> {
        match self.store.head(&self.prefix.clone().join("sortie")).await {
            Ok(_) | Err(StoreError::NotFound { .. }) => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }
}

impl Upload {
    /// Sends all parts. Aborts the upload if it fails, times out or is cancelled.
    async fn send(self, given_up: CancellationToken) -> Result<()> {
        // We wait for this response even after a cancellation: without its id an upload cannot be aborted.
        let begun = timeout_at(self.deadline, self.store.put_multipart(&self.path)).await;
        let mut upload = begun.map_err(|_| late())?.map_err(failed)?;
        let sending = timeout_at(self.deadline, send(&mut *upload, &self.file, self.staged.size()));
        let sent = tokio::select! {
            biased;
            () = given_up.cancelled() => Err(Error::Unavailable("the upload was abandoned".to_owned())),
            sent = sending => sent.unwrap_or_else(|_| Err(late())),
        };
        if sent.is_err() {
            // Nothing more is sent, so the next upload does not have to wait for the abort.
            drop(self.turn);
            abort(&mut *upload, &self.path).await;
        }
        sent
    }
}

/// Aborts an upload, so that the store removes its parts.
async fn abort(upload: &mut dyn MultipartUpload, path: &Path) {
    let aborted = timeout(ABORTING_TIME, upload.abort()).await;
    let why = match aborted.map_err(|_| late()) {
        // Completed or aborted already.
        Ok(Ok(()) | Err(StoreError::NotFound { .. })) => return,
        Ok(Err(error)) => failed(error),
        Err(late) => late,
    };
    tracing::warn!(%path, error = %why, "cannot abort an upload: its parts stay in the store");
}

/// Sends the parts one at a time. A second one in memory would hardly speed up the upload.
async fn send(upload: &mut dyn MultipartUpload, file: &Arc<File>, size: u64) -> Result<()> {
    let mut at = 0;
    while at < size {
        let end = at.saturating_add(PART).min(size);
        let content = part(file, at..end).await?;
        upload.put_part(content.into()).await.map_err(failed)?;
        at = end;
    }
    upload.complete().await.map_err(failed)?;
    Ok(())
}

/// Reads a range of the file.
async fn part(file: &Arc<File>, range: Range<u64>) -> Result<Vec<u8>> {
    let file = Arc::clone(file);
    let read = move || -> io::Result<Vec<u8>> {
        let length = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
        let mut content = vec![0; length];
        file.read_exact_at(&mut content, range.start)?;
        Ok(content)
    };
    Ok(blocking(read).await??)
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` takes")]
fn failed(error: StoreError) -> Error {
    if matches!(error, StoreError::NotFound { .. }) {
        return Error::NotFound;
    }
    Error::Unavailable(error.to_string())
}

fn late() -> Error {
    Error::Unavailable("the store takes too long".to_owned())
}

/// Makes the library use the HTTP clients of `net`.
#[derive(Debug)]
struct Connector {
    outbound: Outbound,
}

impl HttpConnector for Connector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client =
            sortie_net::store_client(&self.outbound, TIMEOUTS).map_err(|error| StoreError::Generic {
                store: "S3",
                source: Box::new(error),
            })?;
        Ok(HttpClient::new(client))
    }
}
