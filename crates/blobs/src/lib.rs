//! The content of files and artifacts, in a local folder or in an S3-compatible store.
//!
//! Content is addressed by its organization, its SHA-256 and the id of its row in the table `blob`; the id makes the
//! address of content that is written again another one than that of content that was given up, so that a late deletion
//! never hits what is new. What is under an address is whole: it gets there by one rename or one request, after it was
//! staged in a private file. Nothing is held in memory but a few pieces of fixed size, and nothing here is deleted
//! unasked: the table says what is still needed.

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

/// Maximum time to keep one content: a third of the hour for which a row stays that nothing refers to.
const KEEPING_TIME: Duration = Duration::from_mins(20);

/// Content on its way out, piece by piece.
pub type Content = BoxStream<'static, Result<Bytes>>;

/// Result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Failure to store or read content. The texts are for the operator: they name addresses and paths.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The settings are not usable, and why.
    #[error("{0}")]
    Settings(String),
    /// There is no content under the address.
    #[error("there is no such content")]
    NotFound,
    /// The content that was read differs from what was written.
    #[error("the content of {0} is damaged")]
    Damaged(Address),
    /// The folder or the store does not do its work now.
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

/// Backend of the content, and the access to it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `file:<folder>` or `s3://<bucket>[/<prefix>]`.
    pub url: String,
    /// Folder in which content is staged on its way to a store that is not a folder.
    pub staging: PathBuf,
    /// The `AWS_…` variables of the environment, for `s3:`.
    pub aws: BTreeMap<String, Credential>,
    /// Proxies and certificates of the connections to `s3:`.
    pub outbound: Outbound,
}

/// Kind of a storage.
enum Kind {
    Folder(PathBuf),
    Bucket,
}

impl Settings {
    /// Checks the settings without looking at the storage.
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

/// `org/aa/sha256.blob`: folders of a bearable size, and never a name from outside.
impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sha256 = self.sha256.to_string();
        let folder = sha256.get(..2).unwrap_or_default();
        write!(f, "{}/{folder}/{sha256}.{}", self.org, self.blob)
    }
}

impl Address {
    /// The file of the content in a folder that contents are kept in.
    pub fn file_in(&self, folder: &Path) -> PathBuf {
        folder.join(self.to_string())
    }
}

/// A text that is no address.
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
        // One spelling only: nothing of the text is left that was not looked at.
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
    /// Opens the storage that the settings name, and removes what a process that is gone has left in the staging area.
    /// A folder is made where it is missing; a store is not asked yet.
    ///
    /// # Errors
    /// `Settings` with a sentence for the operator; `Unavailable` when a folder cannot be made.
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

    /// Begins to take content in.
    pub async fn stage(&self) -> Result<Staging> {
        self.area.stage().await
    }

    /// Keeps staged content under its address, durably: one copy, however often it is kept. The content must have the
    /// address's SHA-256, and the row `blob` must be there before this is called.
    pub async fn keep(&self, address: Address, staged: Staged) -> Result<()> {
        if staged.sha256() != address.sha256 {
            return Err(Error::Damaged(address));
        }
        match &self.place {
            Backend::Folder(folder) => folder.keep(address, staged).await,
            Backend::Bucket(bucket) => bucket.keep(address, staged).await,
        }
    }

    /// Reads the bytes of `range`, which must lie within the content. A failure on the way is the last item.
    pub async fn read(&self, address: Address, range: Range<u64>) -> Result<Content> {
        match &self.place {
            Backend::Folder(folder) => folder.read(address, range).await,
            Backend::Bucket(bucket) => bucket.read(address, range).await,
        }
    }

    /// The whole content as a file to read from its beginning, which has no name or must not be touched under it. From
    /// a store it is fetched into the staging area first, and checked.
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

    /// Deletes content; it is no error where there is none.
    pub async fn delete(&self, address: Address) -> Result<()> {
        match &self.place {
            Backend::Folder(folder) => folder.delete(address).await,
            Backend::Bucket(bucket) => bucket.delete(address).await,
        }
    }

    /// Returns once no content is on its way any more, in order to end the process: whatever nobody waits for is
    /// aborted first.
    pub async fn settled(&self) {
        match &self.place {
            Backend::Folder(_) => {}
            Backend::Bucket(bucket) => bucket.settled().await,
        }
    }

    /// Checks that content can be stored and read now, for readiness.
    pub async fn check(&self) -> Result<()> {
        drop(self.stage().await?);
        match &self.place {
            Backend::Folder(folder) => folder.check().await,
            Backend::Bucket(bucket) => bucket.check().await,
        }
    }

    /// Shows that content can be written, read and deleted, by doing it: for an operator who asks. `blob` and `org` are
    /// an address that nothing else has.
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

/// The folder that a URL of a storage names, where it names one.
pub fn folder_of(url: &str) -> Option<PathBuf> {
    let path = url.strip_prefix("file:")?;
    // Two slashes and an empty host are another way to write an absolute path.
    Some(path.strip_prefix("//").unwrap_or(path).into())
}

/// Does work that blocks on a thread of its own. The work begins at once, and goes on if nobody waits for it.
fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> impl Future<Output = Result<T>> + Send {
    let work = tokio::task::spawn_blocking(work);
    async move {
        work.await
            .map_err(|error| Error::Unavailable(format!("work on a file broke off: {error}")))
    }
}
