//! Which content is stored, and when it may go. The content itself is elsewhere (crate `blobs`), under the id given here.
//!
//! A row is there before its content is written ([`Store::reserve_blob`]) and after it is deleted, so that no content is
//! ever without one. Others refer to a blob by its id. Whoever adds or takes away a reference executes [`touch`] in the
//! same transaction, first: it locks the row, fails where the blob is doomed, and sets `check_at`, when the sweep is to
//! look again. A sweep dooms what is due and has no reference, a condition that a touch in between defeats on both
//! databases, because it moves `check_at`. A doomed blob is never taken up again: the same content that comes later gets
//! a row, and so an address, of its own, and a late deletion hits nothing that is new.
//!
//! The tables that refer to blobs are listed in `unreferenced!`, with an index on their `blob_id`; nowhere else.

use std::fmt::Display;

use sortie_api::{BlobId, OrgId, Sha256, Timestamp};

use crate::{
    Store,
    db::{Row, Stmt, Tx, batch, vals},
    types::{Error, Result},
};

/// Content that is to be written.
#[derive(Clone, Copy, Debug)]
pub struct NewBlob {
    /// Its id, where there is no such content yet.
    pub id: BlobId,
    /// Whose it is.
    pub org: OrgId,
    /// Its SHA-256.
    pub sha256: Sha256,
    /// Its size in bytes.
    pub size: i64,
    /// When.
    pub at: Timestamp,
    /// When it may go if nothing refers to it by then: the time that its writing may take, and more.
    pub check_at: Timestamp,
}

/// A blob whose content is to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoomedBlob {
    /// Its id.
    pub id: BlobId,
    /// Whose it was.
    pub org: OrgId,
    /// Its SHA-256.
    pub sha256: Sha256,
    /// When it was doomed.
    pub doomed_at: Timestamp,
}

/// That nothing refers to the row of `blob` at hand.
macro_rules! unreferenced {
    () => {
        "(SELECT f.blob_id FROM file f WHERE f.blob_id = blob.id LIMIT 1) IS NULL \
         AND (SELECT a.blob_id FROM artifact_blob a WHERE a.blob_id = blob.id LIMIT 1) IS NULL"
    };
}
pub(crate) use unreferenced;

impl Store {
    /// Announces content: the id of its blob, which is that of the same content where the organization has it already.
    pub async fn reserve_blob(&self, new: NewBlob) -> Result<BlobId> {
        self.db
            .write(move |tx| {
                tx.query_one(
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
                )?
                .parse(0)
            })
            .await
    }

    /// Whether a blob is there and not doomed. Nobody ever refers to one that is not: its content may be deleted.
    pub async fn has_blob(&self, id: BlobId) -> Result<bool> {
        let found = self.db.read(move |tx| {
            tx.query_opt(
                "SELECT 1 FROM blob WHERE id = $1 AND doomed_at IS NULL",
                vals![id],
            )
        });
        Ok(found.await?.is_some())
    }

    /// System: looks at up to `limit` blobs that are due, and dooms those that nothing refers to. How many it has looked
    /// at: fewer than `limit` mean that none is left.
    pub async fn doom_blobs(&self, now: Timestamp, limit: u32) -> Result<u32> {
        self.db.write(move |tx| doom(tx, now, limit)).await
    }

    /// System: up to `limit` doomed blobs after that one, oldest first.
    pub async fn doomed_blobs(&self, after: Option<DoomedBlob>, limit: u32) -> Result<Vec<DoomedBlob>> {
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

    /// System: forgets doomed blobs whose content is deleted.
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

/// The statement that comes before a reference to the blob is added or taken away. `Unavailable` where it was given up
/// meanwhile, which a writer that keeps to the time it has never sees.
pub(crate) fn touch(org: OrgId, id: BlobId, check_at: Timestamp) -> Stmt<'static> {
    Stmt::new(
        "UPDATE blob SET check_at = $3 WHERE id = $2 AND org_id = $1 AND doomed_at IS NULL",
        vals![org, id, check_at],
    )
    .exactly(
        1,
        Error::Unavailable("the content was given up before it was referred to".to_owned()),
    )
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
    // A second look for each: on PostgreSQL a row may have been touched since, and is looked at again under its lock.
    let [_, _] = batch(
        tx,
        &[
            Stmt::new(
                concat!(
                    "UPDATE blob SET doomed_at = $1, check_at = NULL \
                     WHERE id {IN}SELECT value FROM {JSON_EACH}($2){END} AND check_at <= $1 AND ",
                    unreferenced!()
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
    u32::try_from(due.len()).map_err(|error| Error::Corrupt(error.to_string()))
}

fn doomed_from(row: &Row) -> Result<DoomedBlob> {
    Ok(DoomedBlob {
        id: row.parse(0)?,
        org: row.parse(1)?,
        sha256: sha256(row, 2)?,
        doomed_at: row.time(3)?,
    })
}

/// A column with a SHA-256.
pub(crate) fn sha256(row: &Row, column: usize) -> Result<Sha256> {
    row.blob(column)?
        .try_into()
        .map(Sha256::new)
        .map_err(|_| Error::Corrupt(format!("column {column} is not a SHA-256")))
}

/// The texts as a JSON array.
pub(crate) fn json<T: Display>(texts: &[T]) -> Result<String> {
    let texts: Vec<String> = texts.iter().map(ToString::to_string).collect();
    serde_json::to_string(&texts).map_err(|error| Error::Corrupt(error.to_string()))
}
