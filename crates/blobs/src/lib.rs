//! The content of files and artifacts, in a local folder or in an S3-compatible store.
//!
//! The address of content consists of its organization, its SHA-256 and the id of its row in the table `blob`. The id makes the
//! address unique: if content is deleted and later written again, a late deletion cannot hit the new copy. Content under an
//! address is always complete, because one rename or one request puts it there after it was staged in a private file. Memory use
//! is a few pieces of fixed size. This crate deletes content only on request: the table records which content is still needed.

mod bucket;
mod folder;
mod staging;

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    ops::Range,
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures_util::stream::BoxStream;
use sortie_api::{BlobId, Credential, OrgId, Sha256, plain};
use sortie_net::Outbound;

pub use self::staging::{Staged, Staging};
use self::{bucket::Bucket, folder::Folder, staging::Area};

/// Timeout of [`Blobs::keep`]. This is a third of the hour for which an unreferenced row is kept.
const KEEPING_TIME: Duration = Duration::from_mins(20);

/// Content that is being read, piece by piece.
pub type Content = BoxStream<'static, Result<Bytes>>;

/// Result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Failure to store or read content. The texts are for the operator: they name addresses and paths.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The settings are invalid. The text gives the reason.
    #[error("{0}")]
    Settings(String),
    /// There is no content under the address.
    #[error("no such content")]
    NotFound,
    /// The content that was read differs from what was written.
    #[error("the content of {0} is damaged")]
    Damaged(Address),
    /// The folder or the store is unavailable.
    #[error("file storage: {0}")]
    Unavailable(String),
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::NotFound {
            Self::NotFound
        } else {
            Self::Unavailable(plain::io(&error))
        }
    }
}

/// Location of the storage, and the access to it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `file:<folder>` or `s3://<bucket>[/<prefix>]`.
    pub url: String,
    /// Staging folder for content that is uploaded to a store. A local folder has its own staging area.
    pub staging: PathBuf,
    /// The `AWS_…` variables of the environment, for `s3:`.
    pub aws: BTreeMap<String, Credential>,
    /// Proxies and certificates of the connections to `s3:`.
    pub outbound: Outbound,
}

enum Kind {
    Folder(PathBuf),
    Bucket,
}

impl Settings {
    /// Checks the settings without accessing the storage.
    pub fn check(&self) -> Result<()> {
        match self.kind()? {
            Kind::Folder(_) => Ok(()),
            Kind::Bucket => Bucket::open(self).map(drop),
        }
    }

    fn kind(&self) -> Result<Kind> {
        let rule = match folder_of(&self.url) {
            Some(path) if path.as_os_str().is_empty() => "file: needs a folder",
            Some(path) => return Ok(Kind::Folder(path)),
            None if self.url.starts_with("s3://") => return Ok(Kind::Bucket),
            None => "must be file:<folder> or s3://<bucket>/<prefix>",
        };
        Err(Error::Settings(rule.to_owned()))
    }
}

/// Address of a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// Organization that owns the content.
    pub org: OrgId,
    /// SHA-256 of the content.
    pub sha256: Sha256,
    /// ID of the content's row.
    pub blob: BlobId,
}

/// `org/aa/sha256.blob`. The prefix folder keeps folders small, and no part of the path comes from a user.
impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sha256 = self.sha256.to_string();
        let folder = sha256.get(..2).unwrap_or_default();
        write!(f, "{}/{folder}/{sha256}.{}", self.org, self.blob)
    }
}

impl Address {
    /// Returns the path of the content in a folder of contents.
    pub fn file_in(&self, folder: &Path) -> PathBuf {
        folder.join(self.to_string())
    }
}

/// A text that is not an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the address of a content")]
pub struct InvalidAddress;

impl FromStr for Address {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let mut parts = text.split('/');
        let (org, name) = (parts.next(), parts.nth(1).and_then(|name| name.split_once('.')));
        let (org, (sha256, blob)) = org.zip(name).ok_or(InvalidAddress)?;
        let address = Self {
            org: org.parse().map_err(|_| InvalidAddress)?,
            sha256: sha256.parse().map_err(|_| InvalidAddress)?,
            blob: blob.parse().map_err(|_| InvalidAddress)?,
        };
        // Accept only the canonical form. This also rejects parts that were not parsed above.
        (address.to_string() == text)
            .then_some(address)
            .ok_or(InvalidAddress)
    }
}

/// The storage of content. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Blobs {
    area: Arc<Area>,
    place: Backend,
}

#[derive(Clone, Debug)]
enum Backend {
    Folder(Folder),
    Bucket(Bucket),
}

impl Blobs {
    /// Opens the storage and removes files that a dead process has left in the staging area. Creates the folder if it is missing.
    /// Does not contact a store yet.
    ///
    /// # Errors
    /// `Settings` with a sentence for the operator; `Unavailable` if a folder cannot be created.
    pub async fn open(settings: &Settings) -> Result<Self> {
        let (place, staging) = match settings.kind()? {
            Kind::Folder(path) => {
                let folder = Folder::open(path).await?;
                let staging = folder.staging();
                (Backend::Folder(folder), staging)
            }
            Kind::Bucket => (Backend::Bucket(Bucket::open(settings)?), settings.staging.clone()),
        };
        Ok(Self {
            area: Arc::new(Area::open(staging).await?),
            place,
        })
    }

    /// Starts to stage content.
    pub async fn stage(&self) -> Result<Staging> {
        self.area.stage().await
    }

    /// Stores staged content durably under its address. Repeated calls for an address keep one copy. The content must have the
    /// SHA-256 of the address, and the row `blob` must exist before the call.
    pub async fn keep(&self, address: Address, staged: Staged) -> Result<()> {
        if staged.sha256() != address.sha256 {
            return Err(Error::Damaged(address));
        }
        match &self.place {
            Backend::Folder(folder) => folder.keep(address, staged).await,
            Backend::Bucket(bucket) => bucket.keep(address, staged).await,
        }
    }

    /// Reads the bytes of `range`, which must lie within the content. A failure during the read is the last item.
    pub async fn read(&self, address: Address, range: Range<u64>) -> Result<Content> {
        match &self.place {
            Backend::Folder(folder) => folder.read(address, range).await,
            Backend::Bucket(bucket) => bucket.read(address, range).await,
        }
    }

    /// Returns the whole content as a file, positioned at its start. The caller must not change a file of a local folder. From a
    /// store the content is first downloaded to the staging area and verified, and the file has no name.
    pub async fn open_file(&self, address: Address) -> Result<File> {
        match &self.place {
            Backend::Folder(folder) => folder.open_file(address).await,
            Backend::Bucket(bucket) => {
                let mut staging = self.stage().await?;
                let mut content = bucket.read_whole(address).await?;
                while let Some(piece) = futures_util::TryStreamExt::try_next(&mut content).await? {
                    staging.write(&piece).await?;
                }
                let staged = staging.finish().await?;
                if staged.sha256() != address.sha256 {
                    return Err(Error::Damaged(address));
                }
                Ok(staged.open()?)
            }
        }
    }

    /// Deletes content. Succeeds if there is none.
    pub async fn delete(&self, address: Address) -> Result<()> {
        match &self.place {
            Backend::Folder(folder) => folder.delete(address).await,
            Backend::Bucket(bucket) => bucket.delete(address).await,
        }
    }

    /// Waits until no content is being sent, so that the process can exit. Uploads without a caller are aborted first.
    pub async fn settled(&self) {
        match &self.place {
            Backend::Folder(_) => {}
            Backend::Bucket(bucket) => bucket.settled().await,
        }
    }

    /// Checks that content can be stored and read now. Used for readiness.
    pub async fn check(&self) -> Result<()> {
        drop(self.stage().await?);
        match &self.place {
            Backend::Folder(folder) => folder.check().await,
            Backend::Bucket(bucket) => bucket.check().await,
        }
    }

    /// Tests the storage on request of an operator: writes, reads and deletes a small content. No other content may have the
    /// address of `org` and `blob`.
    pub async fn prove(&self, org: OrgId, blob: BlobId) -> Result<()> {
        let mut staging = self.stage().await?;
        staging.write(blob.to_string().as_bytes()).await?;
        let staged = staging.finish().await?;
        let (sha256, size) = (staged.sha256(), staged.size());
        let address = Address { org, sha256, blob };
        self.keep(address, staged).await?;
        let read = async {
            let content = self.read(address, 0..size).await?;
            let pieces: Vec<Bytes> = futures_util::TryStreamExt::try_collect(content).await?;
            if pieces.concat() == blob.to_string().as_bytes() {
                Ok(())
            } else {
                Err(Error::Damaged(address))
            }
        };
        let read = read.await;
        self.delete(address).await?;
        read
    }
}

/// Returns the folder of a `file:` URL, and `None` for other URLs.
pub fn folder_of(url: &str) -> Option<PathBuf> {
    let path = url.strip_prefix("file:")?;
    // `file:///path` is another spelling of `file:/path`.
    Some(path.strip_prefix("//").unwrap_or(path).into())
}

/// Runs blocking work on the blocking thread pool. The work starts immediately and continues if the returned future is dropped.
fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> impl Future<Output = Result<T>> + Send {
    let work = tokio::task::spawn_blocking(work);
    async move {
        work.await
            .map_err(|error| Error::Unavailable(format!("work on a file broke off: {error}")))
    }
}
