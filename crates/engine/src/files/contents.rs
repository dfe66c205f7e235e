//! Content of files and artifacts: writes and reads the storage together with the rows in `blob`.
//!
//! Content is written after its row in `blob` and before any reference to it. The reference must follow within [`GRACE`]. Every
//! node runs the sweep at its start and then regularly. The sweep deletes content that has had no reference for [`GRACE`]. The
//! storage aborts a write after a third of that time. If the row is deleted nevertheless, the writer deletes the content that it
//! wrote.

use std::{fs::File, ops::Range, path::PathBuf, time::Duration};

use sortie_api::{BlobId, ErrorCode, OrgId, Refusal, Sha256, Timestamp};
use sortie_blobs::{Address, Blobs, Content, Settings, Staged, Staging};
use sortie_store::{
    Store,
    files::{NewBlob, PendingDelete},
};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::{
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
/// Maximum number of blobs that one sweep skips because they cannot be marked. The blobs after them wait for the next sweep.
const MAX_FAILED: usize = 1_000;
/// Pause between two checks of the storage, and the pause while it is unavailable.
const WATCH: Duration = Duration::from_secs(5);
const WATCH_AWAY: Duration = Duration::from_secs(1);
/// Timeout of a check of the storage. Writing, reading and deleting a test object has twice the time.
const CHECK: Duration = Duration::from_secs(5);

/// The content of a node's files and artifacts. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Contents {
    store: Store,
    blobs: Blobs,
    clock: Clock,
    /// Maximum bytes that an organization may have stored.
    most_bytes: i64,
    standing: LatestStanding,
}

/// Opens the storage that the options name.
pub(crate) async fn open(options: &Options) -> Result<Blobs, Refusal> {
    Blobs::open(&options.blob_settings())
        .await
        .map_err(|error| broken(options, &error))
}

/// Checks the settings of the storage without connecting to it.
pub(crate) fn check(options: &Options) -> Result<(), Refusal> {
    let settings = options.blob_settings();
    settings.check().map_err(|error| broken(options, &error))
}

/// Only `Settings` errors are the fault of the configuration. The folder of files may be a default that the operator never set.
fn broken(options: &Options, error: &sortie_blobs::Error) -> Refusal {
    use sortie_blobs::Error as Blobs;
    match error {
        Blobs::Settings(rule) => ErrorCode::InvalidRequest.because(format!("blob_url: {rule}")),
        Blobs::NotFound | Blobs::Damaged(_) | Blobs::Unavailable(_) => {
            let url = options.blob_settings().url;
            ErrorCode::Unavailable.because(format!(
                "cannot use the storage {url}: {error}; repair it, or set blob_url to another one"
            ))
        }
    }
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

    /// Begins to stage content of an organization.
    pub(crate) async fn stage(&self, org: OrgId) -> Result<Staging, Refusal> {
        let staging = self.blobs.stage().await;
        staging.map_err(|error| self.failed(org, error))
    }

    /// Stores content and returns the blob to refer to.
    pub(crate) async fn keep(&self, org: OrgId, staged: Staged) -> Result<BlobId, Refusal> {
        let blob = self.reserve(org, &staged).await?;
        self.put((org, blob), staged).await?;
        Ok(blob)
    }

    /// First half of [`Self::keep`], in the database: returns the blob for the content. May be repeated after a failure.
    /// `Conflict` if the content would exceed the limit of the organization.
    async fn reserve(&self, org: OrgId, staged: &Staged) -> Result<BlobId, Refusal> {
        let at = self.clock.now();
        let new = NewBlob {
            id: BlobId::new(at, random()?),
            org,
            sha256: staged.sha256(),
            size: i64::try_from(staged.size()).map_err(Refusal::internal)?,
            at,
            check_at: at + GRACE,
            most_bytes: self.most_bytes,
        };
        Ok(self.store.reserve_blob(new).await?)
    }

    /// Second half of [`Self::keep`], in the storage. If the sweep deleted the row during the write, it may have run before the
    /// content was written. The content is then deleted here and must be reserved again.
    async fn put(&self, (org, blob): (OrgId, BlobId), staged: Staged) -> Result<(), Refusal> {
        let sha256 = staged.sha256();
        let address = Address { org, sha256, blob };
        let kept = self.blobs.keep(address, staged).await;
        let kept = kept.map_err(|error| self.failed(org, error));
        if self.store.has_blob(blob).await? {
            return kept;
        }
        tracing::warn!(%address, "deleting content: its row expired before the upload was complete");
        let deleted = self.blobs.delete(address).await;
        deleted.map_err(|error| self.failed(org, error))?;
        Err(away())
    }

    /// Waits until no write to the storage is under way.
    pub(crate) async fn settled(&self) {
        self.blobs.settled().await;
    }

    /// Returns the time until which content is kept if a reference to it is added or removed now.
    pub(crate) fn check_at(&self) -> Timestamp {
        self.clock.now() + GRACE
    }

    /// Reads the bytes of `range`, piece by piece.
    pub(crate) async fn read(
        &self,
        org: OrgId,
        (sha256, blob): (Sha256, BlobId),
        range: Range<u64>,
    ) -> Result<Content, Refusal> {
        let address = Address { org, sha256, blob };
        let read = self.blobs.read(address, range).await;
        read.map_err(|error| self.failed(org, error))
    }

    /// Opens the whole content as a file.
    pub(crate) async fn open_file(
        &self,
        org: OrgId,
        (sha256, blob): (Sha256, BlobId),
    ) -> Result<File, Refusal> {
        let address = Address { org, sha256, blob };
        let opened = self.blobs.open_file(address).await;
        opened.map_err(|error| self.failed(org, error))
    }

    /// Returns the error for a failure of the storage with content of this organization. Triggers a check of the storage. Until
    /// that check has passed, further failures are not logged as ERROR.
    pub(crate) fn failed(&self, org: OrgId, error: sortie_blobs::Error) -> Refusal {
        let is_unavailable = matches!(error, sortie_blobs::Error::Unavailable(_));
        if is_unavailable && !self.standing.suspect(org) {
            tracing::debug!(%error, "the storage failed again");
            return away();
        }
        storage(error)
    }

    /// Returns the latest state of the storage.
    pub(crate) fn standing(&self) -> &LatestStanding {
        &self.standing
    }

    /// Checks the storage at the start, regularly, and after a failure, until the node stops.
    pub(crate) async fn watch_until(self, stop: CancellationToken) {
        // All test objects have the same address, so test objects that cannot be deleted do not accumulate.
        let probe = random().map(|random| BlobId::new(self.clock.now(), random));
        let probe = probe.map_err(|error| error.to_string());
        loop {
            let standing = tokio::select! {
                standing = self.check(&probe) => standing,
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

    /// Checks whether content can be stored and read, and sets the state of the storage. After a failure, a test object is
    /// written, read and deleted: a storage may answer requests and still refuse every write.
    async fn check(&self, probe: &Result<BlobId, String>) -> Standing {
        let refused = self.standing.refused();
        let checked = async {
            in_time(CHECK, self.blobs.check()).await?;
            match refused {
                Some(org) => in_time(2 * CHECK, self.blobs.prove(org, probe.clone()?)).await,
                None => Ok(()),
            }
        };
        let failure = checked.await.err();
        let standing = if failure.is_some() {
            Standing::Away
        } else {
            Standing::Up
        };
        if self.standing.set(standing, refused) {
            if let Some(cause) = failure {
                tracing::error!(cause, "the file storage is unavailable");
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
            if self.clock.fault().is_some() {
                continue;
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
    pub(crate) async fn sweep(&self) -> Result<u64, Refusal> {
        let now = self.clock.now();
        let (mut failed, mut after) = (0, None);
        loop {
            let checked = self.store.mark_unreferenced_blobs(now, after, BATCH).await?;
            failed += checked.failed;
            after = checked.next;
            if after.is_none() || failed >= MAX_FAILED {
                break;
            }
        }
        let (mut removed, mut after) = (0, None);
        loop {
            let pending = self.store.pending_deletes(after, BATCH).await?;
            removed += self.delete(&pending.items).await?;
            after = pending.stopped_at;
            if after.is_none() {
                return Ok(removed);
            }
        }
    }

    /// Deletes contents and the rows of those that were deleted. The next sweep retries the others.
    async fn delete(&self, pending: &[PendingDelete]) -> Result<u64, Refusal> {
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

/// Waits for an answer of the storage. The error is a sentence for the operator.
async fn in_time(
    limit: Duration,
    asked: impl Future<Output = sortie_blobs::Result<()>>,
) -> Result<(), String> {
    match tokio::time::timeout(limit, asked).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {} s", limit.as_secs())),
    }
}

/// Converts a failure of the storage into the error for the client, and logs the cause.
#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` takes")]
pub(crate) fn storage(error: sortie_blobs::Error) -> Refusal {
    match error {
        sortie_blobs::Error::Unavailable(_) => {
            tracing::error!(%error, "the storage failed");
            away()
        }
        sortie_blobs::Error::Settings(_)
        | sortie_blobs::Error::NotFound
        | sortie_blobs::Error::Damaged(_) => Refusal::internal(error.to_string()),
    }
}

fn away() -> Refusal {
    ErrorCode::Unavailable.because("file storage is unavailable, retry later")
}

impl Options {
    /// Returns the settings of the storage: `blob_url`, or a folder below the data directory.
    fn blob_settings(&self) -> Settings {
        let default = || format!("file:{}", self.data_dir.join("blobs").display());
        Settings {
            url: self.blob_url.clone().unwrap_or_else(default),
            staging: self.data_dir.join("staging"),
            aws: self.aws.clone(),
            outbound: self.outbound.clone(),
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

    /// Contents in a folder, and some content that is staged but not stored.
    async fn staged(held: &Held) -> (Contents, Staged) {
        let options = Options {
            data_dir: held.dir.path().to_owned(),
            ..Options::default()
        };
        let contents = crate::testing::contents(&options, &held.store).await;
        let mut staging = contents.stage(held.claim.org).await.unwrap();
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
        assert_eq!(
            held.store
                .mark_unreferenced_blobs(over, None, BATCH)
                .await
                .unwrap()
                .blobs,
            1
        );
        assert_eq!(contents.sweep().await.unwrap(), 1);
        let put = contents.put((org, blob), late).await;
        assert!(
            matches!(&put, Err(refused) if refused.code == ErrorCode::Unavailable),
            "{put:?}"
        );
        assert!(contents.open_file(org, (sha256, blob)).await.is_err());
    }

    #[tokio::test]
    async fn content_whose_row_is_doomed_and_not_swept_yet_is_not_kept() {
        let held = held().await;
        let org = held.claim.org;
        let (contents, late) = staged(&held).await;
        let (sha256, blob) = (late.sha256(), contents.reserve(org, &late).await.unwrap());
        held.store
            .mark_unreferenced_blobs(contents.clock.now() + 2 * GRACE, None, BATCH)
            .await
            .unwrap();
        assert!(contents.put((org, blob), late).await.is_err());
        assert!(contents.open_file(org, (sha256, blob)).await.is_err());
        // The same content gets a new row when it is stored again.
        let again = staged(&held).await.1;
        let anew = contents.keep(org, again).await.unwrap();
        assert_ne!(anew, blob);
        assert!(contents.open_file(org, (sha256, anew)).await.is_ok());
    }

    #[tokio::test]
    async fn a_storage_that_answers_and_refuses_writes_is_away_until_it_takes_a_write() {
        let held = held().await;
        let org = held.claim.org;
        let (contents, refused) = staged(&held).await;
        let probe = Ok(BlobId::new(contents.clock.now(), [1; 10]));
        // A file blocks the path of the organization's folder. The check of the storage finds no fault.
        let folder = held.dir.path().join("blobs").join(org.to_string());
        std::fs::write(&folder, "").unwrap();
        assert_eq!(contents.check(&probe).await, Standing::Up);
        assert!(contents.keep(org, refused).await.is_err());
        // Waiting writers are not woken before the refusal has been checked.
        let up = contents.standing().up();
        tokio::pin!(up);
        assert!(futures_util::poll!(&mut up).is_pending());
        for _ in 0..2 {
            assert_eq!(contents.check(&probe).await, Standing::Away);
            assert!(futures_util::poll!(&mut up).is_pending());
        }
        std::fs::remove_file(&folder).unwrap();
        assert_eq!(contents.check(&probe).await, Standing::Up);
        up.await;
        let again = staged(&held).await.1;
        contents.keep(org, again).await.unwrap();
    }
}
