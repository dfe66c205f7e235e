//! Content of files and artifacts: writes and reads the storage together with the rows in `blob`.
//!
//! Content is written after its row in `blob` and before any reference to it. The reference must follow within
//! [`GRACE`]. Content without a reference for that long is deleted by the sweep, which every node runs at its start and
//! then regularly. The storage aborts a write after a third of that time. A writer whose row was deleted nevertheless
//! deletes the content that it wrote.

use std::{fs::File, ops::Range, path::PathBuf, time::Duration};

use sortie_api::{BlobId, OrgId, Sha256, Timestamp};
use sortie_blobs::{Address, Blobs, Content, Settings, Staged, Staging};
use sortie_store::{DoomedBlob, NewBlob, Store};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::{
    error::Error,
    files::{LatestStanding, Standing},
    kit::{options::Options, random::random},
};
use sortie_base::Clock;

/// Time that content without a reference is kept, for a reference that is about to be stored and for current readers.
pub(crate) const GRACE: Duration = Duration::from_hours(1);

/// Interval between two sweeps.
const SWEEP: Duration = Duration::from_mins(5);
/// Number of blobs in one step of the sweep.
const BATCH: u32 = 200;
/// Maximum number of blobs that one sweep steps over because they cannot be marked. Those behind them wait for the next
/// sweep.
const MAX_FAILED: usize = 1_000;
/// Pause between two checks of the storage, and the pause while it is away.
const WATCH: Duration = Duration::from_secs(5);
const WATCH_AWAY: Duration = Duration::from_secs(1);
/// Timeout of a check of the storage.
const CHECK: Duration = Duration::from_secs(5);

/// The content of a node's files and artifacts. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Contents {
    store: Store,
    blobs: Blobs,
    clock: Clock,
    /// Most bytes that an organization may have stored.
    most_bytes: i64,
    standing: LatestStanding,
}

/// Opens the storage that the options name.
pub(crate) async fn open(options: &Options) -> Result<Blobs, Error> {
    Blobs::open(&options.blob_settings())
        .await
        .map_err(|error| broken(&error))
}

/// Checks the settings of the storage without looking at it.
pub(crate) fn check(options: &Options) -> Result<(), Error> {
    let settings = options.blob_settings();
    settings.check().map_err(|error| broken(&error))
}

fn broken(error: &sortie_blobs::Error) -> Error {
    Error::Invalid(format!("blob_url: {error}"))
}

impl Contents {
    /// Creates the access to a storage and its rows.
    pub(crate) fn over(blobs: Blobs, store: Store, options: &Options) -> Self {
        let most_bytes = options.organization_storage_bytes;
        Self {
            store,
            blobs,
            clock: options.clock.clone(),
            most_bytes: most_bytes.map_or(i64::MAX, |most| i64::try_from(most).unwrap_or(i64::MAX)),
            standing: LatestStanding::default(),
        }
    }

    /// Begins to stage content.
    pub(crate) async fn stage(&self) -> Result<Staging, Error> {
        self.blobs.stage().await.map_err(|error| self.failed(error))
    }

    /// Stores content and returns the blob to refer to.
    pub(crate) async fn keep(&self, org: OrgId, staged: Staged) -> Result<BlobId, Error> {
        let blob = self.reserve(org, &staged).await?;
        self.put((org, blob), staged).await?;
        Ok(blob)
    }

    /// First half of [`Self::keep`], in the database: returns the blob for the content. May be repeated after a
    /// failure. `Conflict` where the organization has too little room.
    async fn reserve(&self, org: OrgId, staged: &Staged) -> Result<BlobId, Error> {
        let at = self.clock.now();
        let new = NewBlob {
            id: BlobId::new(at, random()?),
            org,
            sha256: staged.sha256(),
            size: i64::try_from(staged.size()).map_err(|error| Error::Internal(error.to_string()))?,
            at,
            check_at: at + GRACE,
            most_bytes: self.most_bytes,
        };
        Ok(self.store.reserve_blob(new).await?)
    }

    /// Second half of [`Self::keep`], in the storage. If the sweep has deleted the row meanwhile, it may have run
    /// before the content was written: the content is then deleted here and must be reserved again.
    async fn put(&self, (org, blob): (OrgId, BlobId), staged: Staged) -> Result<(), Error> {
        let sha256 = staged.sha256();
        let address = Address { org, sha256, blob };
        let kept = self.blobs.keep(address, staged).await;
        let kept = kept.map_err(|error| self.failed(error));
        if self.store.has_blob(blob).await? {
            return kept;
        }
        tracing::warn!(%address, "deleting content whose row expired before the upload was complete");
        let deleted = self.blobs.delete(address).await;
        deleted.map_err(|error| self.failed(error))?;
        Err(away())
    }

    /// Waits until no write to the storage is under way.
    pub(crate) async fn settled(&self) {
        self.blobs.settled().await;
    }

    /// Returns the time until which content is kept whose reference is added or removed now.
    pub(crate) fn check_at(&self) -> Timestamp {
        self.clock.now() + GRACE
    }

    /// Reads the bytes of `range`, piece by piece.
    pub(crate) async fn read(
        &self,
        org: OrgId,
        (sha256, blob): (Sha256, BlobId),
        range: Range<u64>,
    ) -> Result<Content, Error> {
        let address = Address { org, sha256, blob };
        let read = self.blobs.read(address, range).await;
        read.map_err(|error| self.failed(error))
    }

    /// Opens the whole content as a file.
    pub(crate) async fn open_file(
        &self,
        org: OrgId,
        (sha256, blob): (Sha256, BlobId),
    ) -> Result<File, Error> {
        let address = Address { org, sha256, blob };
        let opened = self.blobs.open_file(address).await;
        opened.map_err(|error| self.failed(error))
    }

    /// Returns the error for a failure of the storage, which is then asked at once whether it answers.
    fn failed(&self, error: sortie_blobs::Error) -> Error {
        if matches!(error, sortie_blobs::Error::Unavailable(_)) {
            self.standing.suspect();
        }
        storage(error)
    }

    /// Returns the latest state of the storage.
    pub(crate) fn standing(&self) -> &LatestStanding {
        &self.standing
    }

    /// Checks the storage at the start, regularly, and after a failure, until the node stops.
    pub(crate) async fn watch_until(self, stop: CancellationToken) {
        loop {
            let standing = tokio::select! {
                standing = self.check() => standing,
                () = stop.cancelled() => return,
            };
            let (pause, is_up) = match standing {
                Standing::Up => (WATCH, true),
                Standing::Away => (WATCH_AWAY, false),
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.standing.suspected(), if is_up => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// Checks whether content can be stored and read, and sets the state of the storage.
    async fn check(&self) -> Standing {
        let checked = tokio::time::timeout(CHECK, self.blobs.check()).await;
        let failure = match checked {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("no answer within {} s", CHECK.as_secs())),
        };
        let standing = if failure.is_some() {
            Standing::Away
        } else {
            Standing::Up
        };
        if self.standing.set(standing) {
            if let Some(cause) = failure {
                tracing::error!(cause, "the file storage is away");
            } else {
                tracing::info!("the file storage answers again");
            }
        }
        standing
    }

    /// Sweeps at the start and then every [`SWEEP`], until the node stops.
    pub(crate) async fn sweep_until(self, stop: CancellationToken) {
        let mut tick = tokio::time::interval(SWEEP);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                () = stop.cancelled() => return,
            }
            let swept = tokio::select! {
                swept = self.sweep() => swept,
                () = stop.cancelled() => return,
            };
            match swept {
                Ok(0) => {}
                Ok(removed) => tracing::info!(removed, "deleted unreferenced content"),
                Err(error) => tracing::error!(%error, "deleting unreferenced content failed"),
            }
        }
    }

    /// Deletes unreferenced content, and content that an earlier sweep could not delete. Returns the number deleted.
    pub(crate) async fn sweep(&self) -> Result<u64, Error> {
        let now = self.clock.now();
        let (mut failed, mut after) = (0, None);
        loop {
            let checked = self.store.doom_blobs(now, after, BATCH).await?;
            failed += checked.failed;
            after = checked.next;
            if after.is_none() || failed >= MAX_FAILED {
                break;
            }
        }
        let (mut removed, mut after) = (0, None);
        loop {
            let pending = self.store.doomed_blobs(after, BATCH).await?;
            removed += self.delete(&pending.items).await?;
            after = pending.stopped_at;
            if after.is_none() {
                return Ok(removed);
            }
        }
    }

    /// Deletes contents and the rows of those that were deleted. The next sweep retries the others.
    async fn delete(&self, pending: &[DoomedBlob]) -> Result<u64, Error> {
        let mut gone = Vec::new();
        for blob in pending {
            let address = Address {
                org: blob.org,
                sha256: blob.sha256,
                blob: blob.id,
            };
            match self.blobs.delete(address).await {
                Ok(()) => gone.push(blob.id),
                Err(error) => tracing::warn!(%address, %error, "deleting content failed"),
            }
        }
        if gone.is_empty() {
            return Ok(0);
        }
        Ok(self.store.forget_blobs(&gone).await?)
    }
}

/// Converts a failure of the storage into the error for the client, and logs the cause.
#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` takes")]
pub(crate) fn storage(error: sortie_blobs::Error) -> Error {
    match error {
        sortie_blobs::Error::Unavailable(_) => {
            tracing::error!(%error, "the storage failed");
            away()
        }
        sortie_blobs::Error::Settings(_)
        | sortie_blobs::Error::NotFound
        | sortie_blobs::Error::Damaged(_) => Error::Internal(error.to_string()),
    }
}

fn away() -> Error {
    Error::Unavailable("file storage is unavailable, retry later".to_owned())
}

impl Options {
    /// Returns the settings of the storage: `blob_url`, or a folder below the data directory.
    fn blob_settings(&self) -> Settings {
        let default = || format!("file:{}", self.data_dir.join("blobs").display());
        Settings {
            url: self.blob_url.clone().unwrap_or_else(default),
            staging: self.data_dir.join("staging"),
            aws: self.aws.clone(),
        }
    }

    /// Returns the local folder of the storage, or `None` if the content is in a bucket.
    pub fn content_folder(&self) -> Option<PathBuf> {
        sortie_blobs::folder_of(&self.blob_settings().url)
    }

    /// Writes, reads and deletes a test object in the storage, for a check by an operator.
    ///
    /// # Errors
    /// A sentence for people.
    pub async fn prove_storage(&self) -> Result<String, String> {
        let settings = self.blob_settings();
        let prove = async {
            let (at, random) = (
                self.clock.now(),
                random().map_err(|error| sortie_blobs::Error::Unavailable(error.to_string()))?,
            );
            let blobs = Blobs::open(&settings).await?;
            blobs.prove(OrgId::new(at, random), BlobId::new(at, random)).await
        };
        match tokio::time::timeout(2 * CHECK, prove).await {
            Ok(Ok(())) => Ok(settings.url),
            Ok(Err(error)) => Err(format!("{}: {error}", settings.url)),
            Err(_) => Err(format!("{}: no answer in time", settings.url)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Held, held};

    /// Contents in a folder, and some content that is on its way there.
    async fn staged(held: &Held) -> (Contents, Staged) {
        let options = Options {
            data_dir: held.dir.path().to_owned(),
            ..Options::default()
        };
        let contents = crate::testing::contents(&options, &held.store).await;
        let mut staging = contents.stage().await.unwrap();
        staging.write(b"some content").await.unwrap();
        (contents, staging.finish().await.unwrap())
    }

    #[tokio::test]
    async fn content_that_comes_after_its_row_was_swept_is_deleted_by_who_wrote_it() {
        let held = held().await;
        let org = held.claim.org;
        let (contents, late) = staged(&held).await;
        let (sha256, blob) = (late.sha256(), contents.reserve(org, &late).await.unwrap());
        let over = contents.clock.now() + 2 * GRACE;
        assert_eq!(held.store.doom_blobs(over, None, BATCH).await.unwrap().blobs, 1);
        assert_eq!(contents.sweep().await.unwrap(), 1);
        let put = contents.put((org, blob), late).await;
        assert!(matches!(put, Err(Error::Unavailable(_))), "{put:?}");
        assert!(contents.open_file(org, (sha256, blob)).await.is_err());
    }

    #[tokio::test]
    async fn content_whose_row_is_doomed_and_not_swept_yet_is_not_kept() {
        let held = held().await;
        let org = held.claim.org;
        let (contents, late) = staged(&held).await;
        let (sha256, blob) = (late.sha256(), contents.reserve(org, &late).await.unwrap());
        held.store
            .doom_blobs(contents.clock.now() + 2 * GRACE, None, BATCH)
            .await
            .unwrap();
        assert!(contents.put((org, blob), late).await.is_err());
        assert!(contents.open_file(org, (sha256, blob)).await.is_err());
        // The same content that comes later has a row of its own.
        let again = staged(&held).await.1;
        let anew = contents.keep(org, again).await.unwrap();
        assert_ne!(anew, blob);
        assert!(contents.open_file(org, (sha256, anew)).await.is_ok());
    }
}
