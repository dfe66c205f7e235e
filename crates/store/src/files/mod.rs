//! Saved files: names of an organization for content. The content of a file never changes; its name may.

pub(crate) mod blobs;

pub use blobs::{BlobPosition, Checked, NewBlob, PendingDelete};

use sortie_api::{BlobId, File, FileId, OrgId, Sha256, Timestamp};

use crate::{
    Error, Result, Store,
    access::{Audit, audit},
    db::{Json, ReadRow, Stmt, Tx, batch, filled, insert, row, select, vals},
    files::blobs::{count_again, defer_check, ids_of, json, uncount},
    organizations::lock,
    workflows::{USERS, first_users},
};

row! {
    /// File as it is stored.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct FileRow {
        /// Id of the file.
        pub id: FileId = "id",
        /// Name of the file, unique in the organization.
        pub name: String = "name",
        /// Size of the content in bytes.
        pub size: i64 = "size",
        /// Media type.
        pub content_type: String = "content_type",
        /// SHA-256 of the content.
        pub sha256: Sha256 = "sha256",
        /// Creation time.
        pub created_at: Timestamp = "created_at",
        /// Blob with the content.
        pub blob: BlobId = "blob_id",
    }
}

/// Column for the workflows that name a file by `@name`.
const FILE_USERS: &str = filled!(USERS, "@org" = "file.org_id", "@kind" = "file");

row! {
    struct ListedFile {
        file: FileRow,
        users_of_id: Option<Json<Vec<String>>> = filled!(FILE_USERS, "@name" = "file.id"),
        users_of_name: Option<Json<Vec<String>>> = filled!(FILE_USERS, "@name" = "file.name"),
    }
}

impl From<ListedFile> for File {
    fn from(listed: ListedFile) -> Self {
        let row = listed.file;
        Self {
            id: row.id,
            name: row.name,
            size: row.size,
            content_type: row.content_type,
            sha256: row.sha256,
            created_at: row.created_at,
            used_by: first_users([listed.users_of_id, listed.users_of_name]),
        }
    }
}

/// Query for the file `$2` of the organization `$1`, as clients see it.
const SELECT_LISTED: &str = select!(ListedFile, " FROM file WHERE id = $2 AND org_id = $1");

/// File to save. Its content is written already.
#[derive(Clone, Debug)]
pub struct NewFile {
    /// Id of the file.
    pub id: FileId,
    /// Organization that owns the file.
    pub org: OrgId,
    /// Name of the file, unique in the organization.
    pub name: String,
    /// Blob with the content.
    pub blob: BlobId,
    /// Size of the content in bytes.
    pub size: i64,
    /// SHA-256 of the content.
    pub sha256: Sha256,
    /// Media type.
    pub content_type: String,
    /// Creation time.
    pub at: Timestamp,
    /// Time at which the sweep checks the content again.
    pub check_at: Timestamp,
}

const TAKEN: Error = Error::Conflict("name: a file has it already");

impl Store {
    /// Saves a file and returns it. `Conflict` if the name is taken; `Unavailable` if the content has become pending delete.
    pub async fn create_file(&self, new: NewFile, audit: Audit) -> Result<File> {
        self.db.write(move |tx| create(tx, &new, &audit)).await
    }

    /// Returns a file by its id.
    pub async fn get_file(&self, org: OrgId, id: FileId) -> Result<FileRow> {
        self.db
            .read(move |tx| {
                tx.read_one(
                    select!(FileRow, " FROM file WHERE id = $2 AND org_id = $1"),
                    vals![org, id],
                )
            })
            .await
    }

    /// Returns a file by its id, as clients see it.
    pub async fn listed_file(&self, org: OrgId, id: FileId) -> Result<File> {
        let found = self
            .db
            .read(move |tx| tx.read_one::<ListedFile>(SELECT_LISTED, vals![org, id]));
        found.await.map(Into::into)
    }

    /// Returns a file by its name, as clients see it.
    pub async fn listed_file_named(&self, org: OrgId, name: &str) -> Result<File> {
        let name = name.to_owned();
        self.db
            .read(move |tx| {
                tx.read_one::<ListedFile>(
                    select!(ListedFile, " FROM file WHERE org_id = $1 AND name = $2"),
                    vals![org, name.as_str()],
                )
            })
            .await
            .map(Into::into)
    }

    /// Returns a file by its name.
    pub async fn file_named(&self, org: OrgId, name: &str) -> Result<FileRow> {
        let name = name.to_owned();
        self.db
            .read(move |tx| {
                tx.read_one(
                    select!(FileRow, " FROM file WHERE org_id = $1 AND name = $2"),
                    vals![org, name.as_str()],
                )
            })
            .await
    }

    /// Returns the files with these ids or names, as far as they exist, in no particular order.
    pub async fn find_files(&self, org: OrgId, ids: &[FileId], names: &[String]) -> Result<Vec<FileRow>> {
        let (ids, names) = (json(ids)?, json(names)?);
        self.db
            .read(move |tx| {
                let [by_id, by_name] = batch(
                    tx,
                    &[
                        Stmt::new(
                            select!(
                                FileRow,
                                " FROM file WHERE id {IN}SELECT value FROM {JSON_EACH}($2){END} AND org_id = $1"
                            ),
                            vals![org, ids.as_str()],
                        ),
                        Stmt::new(
                            select!(
                                FileRow,
                                " FROM file WHERE org_id = $1 AND name {IN}SELECT value FROM {JSON_EACH}($2){END}"
                            ),
                            vals![org, names.as_str()],
                        ),
                    ],
                )?;
                by_id.rows.iter().chain(&by_name.rows).map(FileRow::read).collect()
            })
            .await
    }

    /// Returns the organization's files older than `before`, newest first.
    pub async fn list_files(
        &self,
        org: OrgId,
        before: Option<(Timestamp, FileId)>,
        limit: u32,
    ) -> Result<Vec<File>> {
        // `~` sorts after every character of an id.
        let (at, id) = before.map_or((Timestamp::from_micros(i64::MAX), "~".to_owned()), |(at, id)| {
            (at, id.to_string())
        });
        self.db
            .read(move |tx| {
                let files: Vec<ListedFile> = tx.read_all(
                    select!(
                        ListedFile,
                        " FROM file WHERE org_id = $1 AND created_at >= 0 AND (created_at, id) < ($2, $3) \
                         ORDER BY created_at DESC, id DESC LIMIT $4"
                    ),
                    vals![org, at, id.as_str(), limit],
                )?;
                Ok(files.into_iter().map(Into::into).collect())
            })
            .await
    }

    /// Renames a file and returns it. `Conflict` if the name is taken.
    pub async fn rename_file(&self, org: OrgId, id: FileId, name: &str, audit: Audit) -> Result<File> {
        let name = name.to_owned();
        self.db
            .write(move |tx| rename(tx, (org, id), &name, &audit))
            .await
    }

    /// Deletes a file. Its content stays at least until `check_at`, for clients that are reading it.
    pub async fn delete_file(&self, org: OrgId, id: FileId, check_at: Timestamp, audit: Audit) -> Result<()> {
        self.db
            .write(move |tx| delete(tx, (org, id), check_at, &audit))
            .await
    }
}

// If two commands use the same name, the second one sees the first.
fn create(tx: &mut dyn Tx, new: &NewFile, audit: &Audit) -> Result<File> {
    let [_, referred, _, _, saved] = batch(
        tx,
        &[
            lock(new.org),
            defer_check(new.org, new.blob, new.check_at),
            insert!("file", {
                "id": new.id,
                "org_id": new.org,
                "name": new.name.as_str(),
                "blob_id": new.blob,
                "size": new.size,
                "sha256": new.sha256.as_bytes().as_slice(),
                "content_type": new.content_type.as_str(),
                "created_at": new.at,
            }, " ON CONFLICT (org_id, name) DO NOTHING")
            .exactly(1, TAKEN),
            audit::record(audit),
            Stmt::new(SELECT_LISTED, vals![new.org, new.id]),
        ],
    )?;
    count_again(tx, &referred.rows)?;
    saved.one::<ListedFile>().map(Into::into)
}

fn rename(tx: &mut dyn Tx, (org, id): (OrgId, FileId), name: &str, audit: &Audit) -> Result<File> {
    let [_, taken] = batch(
        tx,
        &[
            lock(org),
            Stmt::new(
                "SELECT id FROM file WHERE org_id = $1 AND name = $2",
                vals![org, name],
            ),
        ],
    )?;
    if !taken.rows.is_empty() {
        return Err(TAKEN);
    }
    let [_, _, renamed] = batch(
        tx,
        &[
            Stmt::new(
                "UPDATE file SET name = $3 WHERE id = $2 AND org_id = $1",
                vals![org, id, name],
            )
            .exactly(1, Error::NotFound),
            audit::record(audit),
            Stmt::new(SELECT_LISTED, vals![org, id]),
        ],
    )?;
    renamed.one::<ListedFile>().map(Into::into)
}

fn delete(tx: &mut dyn Tx, (org, id): (OrgId, FileId), check_at: Timestamp, audit: &Audit) -> Result<()> {
    let [deferred, _, _] = batch(
        tx,
        &[
            // Works as `defer_check` does, by the file. If another command has just deleted the file, there is no blob
            // to defer.
            Stmt::new(
                "UPDATE blob SET check_at = $3 \
                 WHERE id = (SELECT f.blob_id FROM file f WHERE f.id = $2 AND f.org_id = $1) RETURNING id",
                vals![org, id, check_at],
            ),
            Stmt::new("DELETE FROM file WHERE id = $2 AND org_id = $1", vals![org, id])
                .exactly(1, Error::NotFound),
            audit::record(audit),
        ],
    )?;
    uncount(tx, &ids_of(&deferred.rows)?)
}
