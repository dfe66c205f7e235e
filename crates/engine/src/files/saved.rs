//! Saved files: upload, read, rename and delete.
//!
//! An upload goes to the storage piece by piece and becomes a file once it is complete. An upload that ends earlier stores
//! nothing. The content of a file never changes: a run that names a file by its id always reads the same.

use std::ops::Range;

use sortie_api::{BlobId, ErrorCode, File, FileId, OrgId, Refusal, Sha256, Timestamp, file::check_name};
use sortie_blobs::{Content, Staging};
use sortie_store::{
    Store,
    access::Caller,
    files::{FileRow, NewFile},
};

use crate::{
    Engine,
    files::{
        contents::{Contents, storage},
        uploads::Slot,
    },
    kit::{random::random, retry::until_read},
};

/// Content that a client is sending. Dropping it deletes the staged part.
pub struct Upload {
    staging: Staging,
    limit: u64,
    _slot: Slot,
}

impl Upload {
    /// Adds bytes.
    ///
    /// # Errors
    /// `Unavailable` when they cannot be written.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        self.staging.write(bytes).await.map_err(storage)
    }

    /// Returns the number of bytes that may still be added.
    pub fn room(&self) -> u64 {
        self.limit.saturating_sub(self.staging.size())
    }
}

/// Description of stored content.
#[derive(Clone, Debug)]
pub struct Stored {
    pub(crate) org: OrgId,
    pub(crate) blob: BlobId,
    /// File name for a download.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256 of the content.
    pub sha256: Sha256,
    /// Media type.
    pub content_type: String,
    /// Time of creation.
    pub created_at: Timestamp,
}

impl Engine {
    /// Returns the maximum size of a file, in bytes.
    pub fn max_file_bytes(&self) -> u64 {
        self.0.options.max_file_bytes
    }

    /// Begins an upload.
    ///
    /// # Errors
    /// `Unavailable` while too many uploads run, or too many of the caller, or while the storage does not answer.
    pub async fn begin_upload(&self, caller: &Caller) -> Result<Upload, Refusal> {
        self.check_open()?;
        let slot = self.0.stores.uploads.slot(caller).await?;
        Ok(Upload {
            staging: self.0.stores.contents.stage(caller.org).await?,
            limit: self.0.options.max_file_bytes,
            _slot: slot,
        })
    }

    /// Saves an upload under a name. Without a `content_type` the media type follows from the name.
    ///
    /// # Errors
    /// `InvalidRequest` for a name that breaks a rule, `Conflict` if the name is taken.
    pub async fn create_file(
        &self,
        caller: &Caller,
        upload: Upload,
        name: String,
        content_type: Option<String>,
    ) -> Result<File, Refusal> {
        named(&name)?;
        self.free(caller.org, &name).await?;
        let staged = upload.staging.finish().await.map_err(storage)?;
        let (size, sha256) = (staged.size(), staged.sha256());
        let blob = self.0.stores.contents.keep(caller.org, staged).await?;
        self.0.metrics.uploaded(size);
        let content = (blob, sha256, size);
        self.name_content(caller, content, name, content_type).await
    }

    /// Creates a file that refers to stored content.
    pub(crate) async fn name_content(
        &self,
        caller: &Caller,
        (blob, sha256, size): (BlobId, Sha256, u64),
        name: String,
        content_type: Option<String>,
    ) -> Result<File, Refusal> {
        let at = self.0.options.clock.now();
        let new = NewFile {
            id: FileId::new(at, random()?),
            org: caller.org,
            content_type: content_type.unwrap_or_else(|| media_type(&name)),
            name,
            blob,
            size: i64::try_from(size).map_err(Refusal::internal)?,
            sha256,
            at,
            check_at: self.0.stores.contents.check_at(),
        };
        let audit = caller.audit(
            (self.0.options.clock.now(), random()?),
            "file.create",
            new.id.to_string(),
        );
        Ok(self.store().create_file(new, audit).await?)
    }

    /// Returns a file by its id or name.
    pub async fn get_file(&self, org: OrgId, file: &str) -> Result<File, Refusal> {
        Ok(match named_by(file)? {
            FileKey::Id(id) => self.store().listed_file(org, id).await?,
            FileKey::Name(name) => self.store().listed_file_named(org, name).await?,
        })
    }

    /// Returns the description of a file's content.
    pub async fn stored_file(&self, org: OrgId, file: &str) -> Result<Stored, Refusal> {
        let file = found(self.store(), org, file).await?;
        Ok(Stored {
            org,
            blob: file.blob,
            name: file.name,
            size: u64::try_from(file.size).map_err(Refusal::internal)?,
            sha256: file.sha256,
            content_type: file.content_type,
            created_at: file.created_at,
        })
    }

    /// Reads the bytes of `range` of some content, piece by piece.
    pub async fn read_content(&self, stored: &Stored, range: Range<u64>) -> Result<Content, Refusal> {
        let content = (stored.sha256, stored.blob);
        self.0.stores.contents.read(stored.org, content, range).await
    }

    /// Renames a file. A rename to the current name changes nothing.
    ///
    /// # Errors
    /// `InvalidRequest` for a name that breaks a rule, `Conflict` if the name is taken.
    pub async fn rename_file(&self, caller: &Caller, file: &str, name: &str) -> Result<File, Refusal> {
        named(name)?;
        let there = self.get_file(caller.org, file).await?;
        if there.name == name {
            return Ok(there);
        }
        let audit = caller.audit(
            (self.0.options.clock.now(), random()?),
            "file.rename",
            there.id.to_string(),
        );
        let renamed = self.store().rename_file(caller.org, there.id, name, audit).await;
        Ok(renamed?)
    }

    /// Deletes a file.
    pub async fn delete_file(&self, caller: &Caller, file: &str) -> Result<(), Refusal> {
        let there = found(self.store(), caller.org, file).await?;
        let audit = caller.audit(
            (self.0.options.clock.now(), random()?),
            "file.delete",
            there.id.to_string(),
        );
        let check_at = self.0.stores.contents.check_at();
        let deleted = self.store().delete_file(caller.org, there.id, check_at, audit);
        Ok(deleted.await?)
    }

    /// Refuses a name that is taken before the content is stored. The store checks it again at the end.
    pub(crate) async fn free(&self, org: OrgId, name: &str) -> Result<(), Refusal> {
        match self.store().file_named(org, name).await {
            Ok(_) => Err(ErrorCode::Conflict.because("name: a file has it already")),
            Err(sortie_store::Error::NotFound) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes unreferenced content that has expired. Returns the number deleted.
    pub async fn sweep_contents(&self) -> Result<u64, Refusal> {
        self.0.stores.contents.sweep().await
    }
}

/// Checks the name of a file.
pub(crate) fn named(name: &str) -> Result<(), Refusal> {
    check_name(name).map_err(|rule| ErrorCode::InvalidRequest.because(format!("name: {rule}")))
}

/// Returns the media type for a file name.
pub(crate) fn media_type(name: &str) -> String {
    let guess = mime_guess::from_path(name).first_raw();
    guess.unwrap_or("application/octet-stream").to_owned()
}

/// Text that names a file in an address.
enum FileKey<'a> {
    Id(FileId),
    Name(&'a str),
}

/// Reads the text that names a file. A text in the form of an id is taken as an id: no file can have such a name.
fn named_by(file: &str) -> Result<FileKey<'_>, Refusal> {
    match file.parse() {
        Ok(id) => Ok(FileKey::Id(id)),
        Err(_) if file.contains('\0') => Err(Refusal::not_found()),
        Err(_) => Ok(FileKey::Name(file)),
    }
}

/// Finds a file by its id or name.
async fn found(store: &Store, org: OrgId, file: &str) -> Result<FileRow, Refusal> {
    Ok(match named_by(file)? {
        FileKey::Id(id) => store.get_file(org, id).await?,
        FileKey::Name(name) => store.file_named(org, name).await?,
    })
}

/// Reason, for people, why a run cannot begin now.
pub(crate) enum Unprepared {
    /// The run fails.
    Failed(String),
    /// The storage with its files is unavailable.
    Away(String),
}

impl From<String> for Unprepared {
    fn from(reason: String) -> Self {
        Self::Failed(reason)
    }
}

/// Opens the contents of these files, in this order, for a run's working directory.
pub(crate) async fn contents_of(
    store: &Store,
    contents: &Contents,
    org: OrgId,
    ids: &[FileId],
) -> Result<Vec<std::fs::File>, Unprepared> {
    let rows = until_read(|| store.find_files(org, ids, &[]))
        .await
        .map_err(|error| format!("the run's files cannot be found: {}", Refusal::from(error)))?;
    let mut opened = Vec::new();
    for id in ids {
        let row = rows
            .iter()
            .find(|row| row.id == *id)
            .ok_or_else(|| format!("the file {id} is gone"))?;
        let file = contents
            .open_file(org, (row.sha256, row.blob))
            .await
            .map_err(|error| {
                let reason = format!("the file {id} cannot be read: {error}");
                if error.code == ErrorCode::Unavailable {
                    Unprepared::Away(reason)
                } else {
                    Unprepared::Failed(reason)
                }
            })?;
        opened.push(file);
    }
    Ok(opened)
}
