//! Records of stored content, and its deletion. The content itself is stored by the crate `blobs`, under the
//! id that is given here.
//!
//! A row exists before its content is written ([`Store::reserve_blob`]) and after the content is deleted, so
//! no content is ever without a row. Other tables refer to a blob by its id. A command that adds or removes a
//! reference executes [`defer_check`] first, in the same transaction. It locks the row, fails if the blob is
//! pending delete (`doomed_at` is set), and sets `check_at`, the time of the next check by the sweep. The
//! sweep marks due blobs without references as pending delete. Such a deferral in between defeats this condition on
//! both databases, because it moves `check_at`. A blob that is pending delete is never used again. If the
//! same content comes later, it gets a row of its own, and so another address: a late deletion cannot hit it.
//!
//! `organization_storage` has the sum of the sizes of the blobs of an organization that are not pending delete. Its row is
//! locked behind the blobs, so that the limit is exact.
//!
//! The tables that refer to blobs are listed in `unreferenced!` and nowhere else. Each has an index on its
//! `blob_id`.

use std::{collections::BTreeMap, fmt::Display};

use sortie_api::{BlobId, OrgId, Sha256, Timestamp};

use crate::{
    Store,
    db::{Row, Stmt, Tx, batch, vals},
    types::{Error, Result},
};

/// Content that is to be written.
#[derive(Clone, Copy, Debug)]
pub struct NewBlob {
    /// Id of the blob, if the organization does not have this content yet.
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
    /// Most bytes that the organization may have stored, with this content.
    pub most_bytes: i64,
}

/// Blob that is pending delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingDelete {
    /// Id of the blob.
    pub id: BlobId,
    /// Organization that owned the content.
    pub org: OrgId,
    /// SHA-256 of the content.
    pub sha256: Sha256,
    /// Time at which the blob became pending delete.
    pub doomed_at: Timestamp,
}

/// Error of content for which the organization has too little room.
const FULL: Error = Error::Conflict(
    "the organization has reached its limit of stored bytes: space is free again about an hour after files and runs are deleted",
);

/// Condition that nothing refers to the current row of `blob`.
macro_rules! unreferenced {
    () => {
        "(SELECT f.blob_id FROM file f WHERE f.blob_id = blob.id LIMIT 1) IS NULL \
         AND (SELECT a.blob_id FROM artifact_blob a WHERE a.blob_id = blob.id LIMIT 1) IS NULL"
    };
}
pub(crate) use unreferenced;

impl Store {
    /// Reserves a blob for content. Returns its id, which is that of the existing blob if the organization
    /// has the content already. `Conflict` where the organization has too little room for new content.
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

    /// System: checks up to `limit` due blobs, and marks those without references as pending delete. Returns
    /// the number of blobs checked. Fewer than `limit` mean that none is left.
    pub async fn mark_unreferenced_blobs(&self, now: Timestamp, limit: u32) -> Result<u32> {
        self.db.write(move |tx| doom(tx, now, limit)).await
    }

    /// System: returns up to `limit` blobs that are pending delete, behind a given one and oldest first.
    pub async fn pending_deletes(
        &self,
        after: Option<PendingDelete>,
        limit: u32,
    ) -> Result<Vec<PendingDelete>> {
        let (at, id) = after.map_or((Timestamp::from_micros(i64::MIN), String::new()), |blob| {
            (blob.doomed_at, blob.id.to_string())
        });
        self.db
            .read(move |tx| {
                tx.query_all(
                    "SELECT id, org_id, sha256, doomed_at FROM blob WHERE doomed_at IS NOT NULL \
                     AND (doomed_at, id) > ($1, $2) ORDER BY doomed_at, id LIMIT $3",
                    vals![at, id.as_str(), limit],
                )?
                .iter()
                .map(doomed_from)
                .collect()
            })
            .await
    }

    /// System: forgets blobs that were pending delete and whose content is deleted.
    pub async fn forget_blobs(&self, ids: &[BlobId]) -> Result<()> {
        let ids = json(ids)?;
        self.db
            .write(move |tx| {
                tx.exec(
                    "DELETE FROM blob WHERE id {IN}SELECT value FROM {JSON_EACH}($1){END} \
                     AND doomed_at IS NOT NULL",
                    vals![ids.as_str()],
                )
                .map(drop)
            })
            .await
    }
}

/// Statement that goes before a reference to the blob is added or removed. `Unavailable` if the blob became
/// pending delete meanwhile, which never happens to a writer that keeps to its time limit.
pub(crate) fn defer_check(org: OrgId, id: BlobId, check_at: Timestamp) -> Stmt<'static> {
    Stmt::new(
        "UPDATE blob SET check_at = $3 WHERE id = $2 AND org_id = $1 AND doomed_at IS NULL",
        vals![org, id, check_at],
    )
    .exactly(
        1,
        Error::Unavailable("the content became pending deletion before it was referred to".to_owned()),
    )
}

fn reserve(tx: &mut dyn Tx, new: &NewBlob) -> Result<BlobId> {
    let [counted, reserved] = batch(
        tx,
        &[
            // Another try after a commit whose answer was lost.
            Stmt::new("SELECT 1 FROM blob WHERE id = $1", vals![new.id]),
            Stmt::new(
                "INSERT INTO blob (id, org_id, sha256, size, created_at, check_at) \
                 VALUES ($1, $2, $3, $4, $5, $6) \
                 ON CONFLICT (org_id, sha256) WHERE doomed_at IS NULL \
                 DO UPDATE SET check_at = excluded.check_at RETURNING id",
                vals![
                    new.id,
                    new.org,
                    new.sha256.as_bytes().as_slice(),
                    new.size,
                    new.at,
                    new.check_at
                ],
            ),
        ],
    )?;
    let id: BlobId = reserved.rows.first().ok_or(Error::NotFound)?.parse(0)?;
    if id != new.id || !counted.rows.is_empty() {
        return Ok(id);
    }
    tx.batch(&[
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

/// Subtracts the sizes of blobs that became pending delete from what their organizations have stored.
fn give_back(tx: &mut dyn Tx, doomed: &[Row]) -> Result<()> {
    let mut sizes: BTreeMap<OrgId, i64> = BTreeMap::new();
    for row in doomed {
        let size = sizes.entry(row.parse(0)?).or_default();
        *size = size.saturating_add(row.int(1)?);
    }
    // In the order of the ids, so that two sweeps take their locks in one order.
    let statements: Vec<_> = sizes
        .into_iter()
        .map(|(org, size)| {
            Stmt::new(
                "UPDATE organization_storage SET bytes = {GREATEST}(bytes - $2, 0) WHERE org_id = $1",
                vals![org, size],
            )
        })
        .collect();
    if statements.is_empty() {
        return Ok(());
    }
    tx.batch(&statements).map(drop)
}

fn doom(tx: &mut dyn Tx, now: Timestamp, limit: u32) -> Result<u32> {
    let due = tx.query_all(
        "SELECT id FROM blob WHERE check_at <= $1 ORDER BY check_at, id LIMIT $2",
        vals![now, limit],
    )?;
    if due.is_empty() {
        return Ok(0);
    }
    let ids: Vec<BlobId> = due.iter().map(|row| row.parse(0)).collect::<Result<_>>()?;
    let ids = json(&ids)?;
    // Each blob is checked a second time: on PostgreSQL its row may have been touched since, and is then
    // checked again under its lock.
    let [doomed, _] = batch(
        tx,
        &[
            Stmt::new(
                concat!(
                    "UPDATE blob SET doomed_at = $1, check_at = NULL \
                     WHERE id {IN}SELECT value FROM {JSON_EACH}($2){END} AND check_at <= $1 AND ",
                    unreferenced!(),
                    " RETURNING org_id, size"
                ),
                vals![now, ids.as_str()],
            ),
            Stmt::new(
                concat!(
                    "UPDATE blob SET check_at = NULL \
                     WHERE id {IN}SELECT value FROM {JSON_EACH}($2){END} AND check_at <= $1 AND NOT (",
                    unreferenced!(),
                    ")"
                ),
                vals![now, ids.as_str()],
            ),
        ],
    )?;
    give_back(tx, &doomed.rows)?;
    u32::try_from(due.len()).map_err(|error| Error::Corrupt(error.to_string()))
}

fn doomed_from(row: &Row) -> Result<PendingDelete> {
    Ok(PendingDelete {
        id: row.parse(0)?,
        org: row.parse(1)?,
        sha256: sha256(row, 2)?,
        doomed_at: row.time(3)?,
    })
}

/// Reads a SHA-256 from a column.
pub(crate) fn sha256(row: &Row, column: usize) -> Result<Sha256> {
    row.blob(column)?
        .try_into()
        .map(Sha256::new)
        .map_err(|_| Error::Corrupt(format!("column {column} is not a SHA-256")))
}

/// Formats the texts as a JSON array.
pub(crate) fn json<T: Display>(texts: &[T]) -> Result<String> {
    let texts: Vec<String> = texts.iter().map(ToString::to_string).collect();
    serde_json::to_string(&texts).map_err(|error| Error::Corrupt(error.to_string()))
}
