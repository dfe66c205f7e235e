//! Records of stored content, and its deletion. The content itself is stored by the crate `blobs`, under the
//! id that is given here.
//!
//! A row exists before its content is written ([`Store::reserve_blob`]) and after the content is deleted, so no content is
//! ever without a row. Other tables refer to a blob by its id. A command that adds or removes a reference executes
//! [`defer_check`] first, in the same transaction. It locks the row, fails if the blob is pending delete (`doomed_at` is
//! set), and sets `check_at`, the time of the next check by the sweep. The sweep marks due blobs without references as
//! pending delete. A deferral in between defeats this condition on both databases, because it moves `check_at`. A blob that
//! is pending delete is never used again. If the same content is stored later, it gets a new row and a new address, so a
//! late deletion cannot hit it.
//!
//! `organization_storage` has the sum of the sizes of the blobs of an organization that count (`counted`). A blob counts
//! from its reservation until its last reference is deleted ([`uncount`]), or until it is pending delete if nothing ever
//! referred to it. A reservation of the same content counts it again, and so does a reference ([`count_again`]): another
//! command may delete the last reference between the reservation and the next reference. A command locks the row of
//! `organization_storage` after the blobs, which makes the limit exact.
//!
//! The tables that refer to blobs are listed in [`UNREFERENCED`] and nowhere else. Each has an index on its
//! `blob_id`.

use std::{collections::BTreeMap, fmt::Display};

use sortie_api::{BlobId, OrgId, Sha256, Timestamp};

use crate::{
    Error, Found, Result, Store,
    db::{ReadRow, Row, Stmt, Tx, batch, filled, insert, readable, row, select, vals},
};

/// Content that is to be written.
#[derive(Clone, Copy, Debug)]
pub struct NewBlob {
    /// Id of the new blob. Used if the organization does not have this content yet.
    pub id: BlobId,
    /// Organization that owns the content.
    pub org: OrgId,
    /// SHA-256 of the content.
    pub sha256: Sha256,
    /// Size of the content in bytes.
    pub size: i64,
    /// Time of the reservation.
    pub at: Timestamp,
    /// Time from which the sweep may delete the content if nothing refers to it. It leaves more than enough
    /// time for writing.
    pub check_at: Timestamp,
    /// Maximum number of bytes that the organization may store, including this content.
    pub most_bytes: i64,
}

row! {
    /// Blob that is pending delete.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PendingDelete {
        /// Id of the blob.
        pub id: BlobId = "id",
        /// Organization that owned the content.
        pub org: OrgId = "org_id",
        /// SHA-256 of the content.
        pub sha256: Sha256 = "sha256",
    }
}

row! {
    /// Blob in a list. Its id is not parsed: one that is damaged has a position as well.
    struct ListedBlob {
        at: Timestamp = "@at",
        id: String = "id",
    }
}

row! {
    /// Blob with a new reference. Its id is not parsed, as that of [`ListedBlob`].
    struct ReferredRow {
        id: String = "id",
        is_counted: bool = "counted",
    }
}

row! {
    struct ReservedBlob {
        id: BlobId = "id",
        is_counted: bool = "counted",
    }
}

row! {
    /// Bytes that an organization has stored in addition. The id is not parsed: one that is damaged fits no organization.
    struct StoredBytes {
        org: String = "org_id",
        bytes: i64 = "@bytes",
    }
}

/// Position in a list of blobs: the time by which they are ordered, and the id.
pub type BlobPosition = (Timestamp, String);

/// Result of one check of due blobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Number of blobs that were checked.
    pub blobs: usize,
    /// Number of blobs that could not be marked.
    pub failed: usize,
    /// Position after which the next check continues. `None` if no blob is left.
    pub next: Option<BlobPosition>,
}

/// Error of content for which the organization has too little room.
const FULL: Error = Error::Conflict(
    "the organization has reached its limit of stored bytes: delete files, or wait until runs with artifacts are deleted",
);

/// Condition that nothing refers to the current row of `blob`.
pub(crate) const UNREFERENCED: &str = "(SELECT f.blob_id FROM file f WHERE f.blob_id = blob.id LIMIT 1) IS NULL \
    AND (SELECT a.blob_id FROM artifact_blob a WHERE a.blob_id = blob.id LIMIT 1) IS NULL";

impl Store {
    /// Reserves a blob for content. Returns its id, which is that of the existing blob if the organization has the content
    /// already. `Conflict` if new content exceeds the limit of the organization.
    pub async fn reserve_blob(&self, new: NewBlob) -> Result<BlobId> {
        self.db.write(move |tx| reserve(tx, &new)).await
    }

    /// Whether a blob exists and is not pending delete. Nothing may refer to any other blob: its content may
    /// be deleted.
    pub async fn has_blob(&self, id: BlobId) -> Result<bool> {
        let found = self.db.read(move |tx| {
            tx.query_opt(
                "SELECT 1 FROM blob WHERE id = $1 AND doomed_at IS NULL",
                vals![id],
            )
        });
        Ok(found.await?.is_some())
    }

    /// System: checks up to `limit` due blobs after a position, and marks those without references as pending delete. If one
    /// of them cannot be marked, the blobs are checked one by one, and that one stays due. The next page continues after it.
    pub async fn mark_unreferenced_blobs(
        &self,
        now: Timestamp,
        after: Option<BlobPosition>,
        limit: u32,
    ) -> Result<Checked> {
        let (at, id) = after.unwrap_or_else(front);
        let rows = self.db.read(move |tx| {
            tx.query_all(
                filled!(
                    select!(
                        ListedBlob,
                        " FROM blob WHERE check_at <= $1 AND (check_at, id) > ($2, $3) ORDER BY check_at, id LIMIT $4"
                    ),
                    "@at" = "check_at"
                ),
                vals![now, at, id.as_str(), limit],
            )
        });
        let rows = rows.await?;
        let next = position_behind(&rows, limit);
        let due = readable(&rows, "content that is due", |row| {
            ListedBlob::read(row).map(|blob| blob.id)
        });
        let mut checked = Checked {
            blobs: due.len(),
            failed: 0,
            next,
        };
        if due.is_empty() {
            return Ok(checked);
        }
        let ids = json(&due)?;
        match self.db.write(move |tx| doom(tx, now, &ids)).await {
            Err(error) if error.is_of_data() => {}
            done => return done.map(|()| checked),
        }
        for blob in due {
            let ids = json(&[&blob])?;
            match self.db.write(move |tx| doom(tx, now, &ids)).await {
                Ok(()) => {}
                Err(error) if error.is_of_data() => {
                    tracing::error!(blob, %error, "cannot mark unreferenced content; continuing with the others");
                    checked.failed += 1;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(checked)
    }

    /// System: returns up to `limit` blobs after a position that are pending delete, oldest first. Unreadable rows are left
    /// out, and the next page continues after them.
    pub async fn pending_deletes(
        &self,
        after: Option<BlobPosition>,
        limit: u32,
    ) -> Result<Found<PendingDelete, BlobPosition>> {
        let (at, id) = after.unwrap_or_else(front);
        let rows = self.db.read(move |tx| {
            tx.query_all(
                constcat::concat!(
                    "SELECT ",
                    filled!(ListedBlob::COLUMNS, "@at" = "doomed_at"),
                    ", ",
                    PendingDelete::COLUMNS,
                    " FROM blob WHERE doomed_at IS NOT NULL AND (doomed_at, id) > ($1, $2) \
                     ORDER BY doomed_at, id LIMIT $3"
                ),
                vals![at, id.as_str(), limit],
            )
        });
        let rows = rows.await?;
        let pending = |row: &Row| PendingDelete::read_from(row, ListedBlob::WIDTH);
        Ok(Found {
            items: readable(&rows, "content to delete", pending),
            stopped_at: position_behind(&rows, limit),
        })
    }

    /// System: deletes the rows of blobs that were pending delete, after their content was deleted. If one of the rows
    /// cannot be deleted, they are deleted one by one, and that one stays. Returns the number of deleted rows.
    pub async fn forget_blobs(&self, ids: &[BlobId]) -> Result<u64> {
        let all = json(ids)?;
        match self.db.write(move |tx| forget(tx, &all)).await {
            Err(error) if error.is_of_data() => {}
            forgotten => return forgotten,
        }
        let mut forgotten = 0;
        for blob in ids {
            let one = json(&[blob])?;
            match self.db.write(move |tx| forget(tx, &one)).await {
                Ok(rows) => forgotten += rows,
                Err(error) if error.is_of_data() => {
                    tracing::error!(%blob, %error, "cannot forget deleted content; continuing with the others");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(forgotten)
    }
}

/// Position before every blob.
fn front() -> BlobPosition {
    (Timestamp::from_micros(i64::MIN), String::new())
}

/// Position of the last row, if the page is full. The rows begin with a [`ListedBlob`]. An unreadable row is no position.
fn position_behind(rows: &[Row], limit: u32) -> Option<BlobPosition> {
    let is_full = rows.len() >= usize::try_from(limit).unwrap_or(usize::MAX);
    let last = rows.last().filter(|_| is_full)?;
    let last = ListedBlob::read(last).ok()?;
    Some((last.at, last.id))
}

fn forget(tx: &mut dyn Tx, ids: &str) -> Result<u64> {
    tx.exec(
        "DELETE FROM blob WHERE id {IN}SELECT value FROM {JSON_EACH}($1){END} AND doomed_at IS NOT NULL",
        vals![ids],
    )
}

/// Statement that a command runs before it adds a reference to the blob. Its row is for [`count_again`]. `Unavailable` if
/// the blob has become pending delete, which never happens to a writer that keeps to its time limit.
pub(crate) fn defer_check(org: OrgId, id: BlobId, check_at: Timestamp) -> Stmt<'static> {
    Stmt::new(
        "UPDATE blob SET check_at = $3 WHERE id = $2 AND org_id = $1 AND doomed_at IS NULL RETURNING id, counted",
        vals![org, id, check_at],
    )
    .exactly(
        1,
        Error::Unavailable("the content became pending deletion before it was referred to".to_owned()),
    )
}

fn reserve(tx: &mut dyn Tx, new: &NewBlob) -> Result<BlobId> {
    let [before, reserved] = batch(
        tx,
        &[
            // Finds the row if this is a retry after a commit that got no answer.
            Stmt::new("SELECT 1 FROM blob WHERE id = $1", vals![new.id]),
            insert!("blob", {
                "id": new.id,
                "org_id": new.org,
                "sha256": new.sha256.as_bytes().as_slice(),
                "size": new.size,
                "created_at": new.at,
                "check_at": new.check_at,
            }, " ON CONFLICT (org_id, sha256) WHERE doomed_at IS NULL DO UPDATE SET check_at = excluded.check_at RETURNING ",
            ReservedBlob::COLUMNS),
        ],
    )?;
    let reserved = reserved.one::<ReservedBlob>()?;
    let id = reserved.id;
    let is_new = id == new.id && before.rows.is_empty();
    if !is_new && reserved.is_counted {
        return Ok(id);
    }
    tx.batch(&[
        Stmt::new("UPDATE blob SET counted = 1 WHERE id = $1", vals![id]),
        Stmt::new(
            "INSERT INTO organization_storage (org_id, bytes) SELECT id, 0 FROM organization \
             WHERE id = $1 AND deleted_at IS NULL ON CONFLICT (org_id) DO NOTHING",
            vals![new.org],
        ),
        Stmt::new(
            "UPDATE organization_storage SET bytes = bytes + $2 WHERE org_id = $1 AND bytes + $2 <= $3",
            vals![new.org, new.size, new.most_bytes],
        )
        .exactly(1, FULL),
    ])?;
    Ok(id)
}

/// Counts blobs to which a reference is added and that do not count. The rows are those of
/// [`defer_check`]. The blobs are locked.
pub(crate) fn count_again(tx: &mut dyn Tx, referred: &[Row]) -> Result<()> {
    let mut uncounted = Vec::new();
    for row in referred {
        let blob = ReferredRow::read(row)?;
        if !blob.is_counted {
            uncounted.push(blob.id);
        }
    }
    if uncounted.is_empty() {
        return Ok(());
    }
    let counted = tx.read_all(
        constcat::concat!(
            "UPDATE blob SET counted = 1 WHERE id {IN}SELECT value FROM {JSON_EACH}($1){END} AND counted = 0 RETURNING ",
            filled!(StoredBytes::COLUMNS, "@bytes" = "size")
        ),
        vals![json(&uncounted)?.as_str()],
    )?;
    change_stored(tx, counted)
}

/// Stops counting those of the blobs `ids`, a JSON array, that have lost their last reference. The caller has locked their
/// rows.
pub(crate) fn uncount(tx: &mut dyn Tx, ids: &str) -> Result<()> {
    // The condition hides `doomed_at` from the planner: its partial index would be walked.
    let uncounted = tx.read_all(
        constcat::concat!(
            "UPDATE blob SET counted = 0 WHERE id {IN}SELECT value FROM {JSON_EACH}($1){END} \
             AND counted = 1 AND COALESCE(doomed_at, 0) = 0 AND ",
            UNREFERENCED,
            " RETURNING ",
            filled!(StoredBytes::COLUMNS, "@bytes" = "-size")
        ),
        vals![ids],
    )?;
    change_stored(tx, uncounted)
}

/// Changes what organizations have stored.
fn change_stored(tx: &mut dyn Tx, changes: Vec<StoredBytes>) -> Result<()> {
    let mut sums: BTreeMap<String, i64> = BTreeMap::new();
    for change in changes {
        let sum = sums.entry(change.org).or_default();
        *sum = sum.saturating_add(change.bytes);
    }
    // In the order of the ids, so that two sweeps lock in the same order.
    let statements: Vec<_> = sums
        .into_iter()
        .map(|(org, sum)| {
            Stmt::new(
                "UPDATE organization_storage SET bytes = {GREATEST}(bytes + $2, 0) WHERE org_id = $1",
                vals![org, sum],
            )
        })
        .collect();
    if statements.is_empty() {
        return Ok(());
    }
    tx.batch(&statements).map(drop)
}

/// Marks those of the blobs `ids`, a JSON array, as pending delete that are due and without references.
fn doom(tx: &mut dyn Tx, now: Timestamp, ids: &str) -> Result<()> {
    // Each blob is checked a second time, under its lock: another command may have deferred its check since the first one.
    // PostgreSQL takes the snapshot of a statement before it waits for a lock, so only the statements after the lock see all
    // references. The conditions hide `check_at` from the planner, which would otherwise walk its index once for each id.
    let [_, doomed, _] = batch(
        tx,
        &[
            Stmt::new(
                "UPDATE blob SET size = size WHERE id {IN}SELECT value FROM {JSON_EACH}($1){END}",
                vals![ids],
            ),
            Stmt::new(
                constcat::concat!(
                    "UPDATE blob SET doomed_at = $1, check_at = NULL \
                     WHERE id {IN}SELECT value FROM {JSON_EACH}($2){END} AND COALESCE(check_at, $3) <= $1 AND ",
                    UNREFERENCED,
                    " RETURNING ",
                    filled!(StoredBytes::COLUMNS, "@bytes" = "-size * counted")
                ),
                vals![now, ids, i64::MAX],
            ),
            Stmt::new(
                "UPDATE blob SET check_at = NULL \
                 WHERE id {IN}SELECT value FROM {JSON_EACH}($2){END} AND COALESCE(check_at, $3) <= $1",
                vals![now, ids, i64::MAX],
            ),
        ],
    )?;
    let changes = doomed.rows.iter().map(StoredBytes::read).collect::<Result<_>>()?;
    change_stored(tx, changes)
}

/// Formats the ids in the first column of the rows as a JSON array.
pub(crate) fn ids_of(rows: &[Row]) -> Result<String> {
    let ids = rows.iter().map(Row::only::<&str>).collect::<Result<Vec<_>>>()?;
    json(&ids)
}

/// Formats the texts as a JSON array.
pub(crate) fn json<T: Display>(texts: &[T]) -> Result<String> {
    let texts: Vec<String> = texts.iter().map(ToString::to_string).collect();
    serde_json::to_string(&texts).map_err(|error| Error::Corrupt(error.to_string()))
}
