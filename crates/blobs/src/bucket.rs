//! Content in an S3-compatible store: one request for what is small, parts for what is large, each from the staged file.
//!
//! An upload in parts is a task of its own. Whoever waits for it may go away: the task then aborts the upload, so that its
//! parts do not stay in the store, where they are in no list of objects and cost money. A process that dies leaves parts
//! behind, and so can a part that is on its way at the abort: for these the bucket needs a rule (docs/FILES.md).

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

/// Size of a part, and of what goes in one request. Stores want equal parts of at least 5 MiB.
const PART: u64 = 8 * 1024 * 1024;
/// Time to abort an upload, after the time to send it.
const ABORTING_TIME: Duration = Duration::from_mins(1);
/// Time without an answer after which a store is asked whether it answers at all.
const SILENCE: Duration = Duration::from_secs(5);
/// Time for the answer to that question. With [`SILENCE`] it is the time after which a store that hangs is unavailable.
const PROBE: Duration = Duration::from_secs(3);
/// Contents that are sent to the store at once, each with one part in memory.
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
    /// Uploads in parts, until they are complete or aborted.
    uploads: TaskTracker,
}

/// An upload in parts.
struct Upload {
    store: Arc<AmazonS3>,
    path: Path,
    /// The staged file, which is removed with it.
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
                "s3:// needs a bucket and takes nothing but a prefix behind it; credentials, region and endpoint are \
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
                // Of requests that were never answered, too: each of them takes the silence of the timeouts.
                retry_timeout: 3 * TIMEOUTS.read,
                ..RetryConfig::default()
            });
        for (name, value) in &settings.aws {
            // What is not about a store is for others.
            if let Ok(key) = AmazonS3ConfigKey::from_str(&name.to_ascii_lowercase()) {
                builder = builder.with_config(key, value.expose());
            }
        }
        let prefix = Path::parse(prefix.trim_end_matches('/')).map_err(|_| {
            Error::Settings(
                "the prefix of the bucket must be names with / between them, none of them . or ..".to_owned(),
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

    /// Waits for an answer of the store for as long as the store answers small requests meanwhile: a slow upload goes on,
    /// and a store that hangs is an error.
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
        // Dropping this future gives the upload up.
        let _guard = given_up.drop_guard();
        sending
            .await
            .map_err(|error| Error::Unavailable(format!("an upload broke off: {error}")))?
    }

    /// Returns once no upload in parts is under way.
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

    /// Asks for something that is not there: whether it may, and whether there is a bucket.
    async fn probe(&self) -> Result<()> {
        match self.store.head(&self.prefix.clone().join("sortie")).await {
            Ok(_) | Err(StoreError::NotFound { .. }) => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }
}

impl Upload {
    /// Sends all parts; an upload that fails, takes too long or is given up is aborted.
    async fn send(self, given_up: CancellationToken) -> Result<()> {
        // Waited for also when it is given up: an upload whose id was not heard cannot be aborted.
        let begun = timeout_at(self.deadline, self.store.put_multipart(&self.path)).await;
        let mut upload = begun.map_err(|_| late())?.map_err(failed)?;
        let sending = timeout_at(self.deadline, send(&mut *upload, &self.file, self.staged.size()));
        let sent = tokio::select! {
            biased;
            () = given_up.cancelled() => Err(Error::Unavailable("the upload was given up".to_owned())),
            sent = sending => sent.unwrap_or_else(|_| Err(late())),
        };
        if sent.is_err() {
            // Nothing more is sent: the next content need not wait for the abort.
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

/// Sends the parts one after the other: a second one in memory would be worth little on the way to a store.
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

/// These bytes of the file.
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

/// Gives the library the clients that `net` makes.
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
