//! Saved files: taking them in, reading them, naming them, and giving them up.
//!
//! An upload goes to the storage piece by piece and is a file once all of it is there; whatever ends it before leaves
//! nothing behind. A file's content never changes: a run that names it by its id reads what was there when it was made.

use std::{ops::Range, sync::Arc, time::Duration};

use sortie_api::{BlobId, File, FileId, OrgId, Sha256, Timestamp, file::check_name};
use sortie_blobs::{Content, Staging};
use sortie_store::{FileRow, NewFile, Store};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    Engine,
    error::Error,
    files::contents::{Contents, storage},
    kit::{caller::Caller, clock::random},
};

/// Uploads that one node takes in at once, each with about a MiB in memory.
const UPLOADS: usize = 16;
/// How long an upload waits for others to be done.
const PATIENCE: Duration = Duration::from_secs(2);

/// The turns of uploads.
#[derive(Clone, Debug)]
pub(crate) struct Uploads(Arc<Semaphore>);

impl Default for Uploads {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(UPLOADS)))
    }
}

/// Content that a client is sending. Dropped, nothing of it stays.
pub struct Upload {
    staging: Staging,
    limit: u64,
    _turn: OwnedSemaphorePermit,
}

impl Upload {
    /// Adds bytes.
    ///
    /// # Errors
    /// `Unavailable` when they cannot be written.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.staging.write(bytes).await.map_err(storage)
    }

    /// How many bytes may still be added.
    pub fn room(&self) -> u64 {
        self.limit.saturating_sub(self.staging.size())
    }
}

/// What a reader needs to know of some content before it is opened.
#[derive(Clone, Debug)]
pub struct Stored {
    pub(crate) org: OrgId,
    pub(crate) blob: BlobId,
    /// The name it is offered under.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its SHA-256.
    pub sha256: Sha256,
    /// Its media type.
    pub content_type: String,
    /// When it was made.
    pub created_at: Timestamp,
}

impl Engine {
    /// The size of the largest file that is taken, in bytes.
    pub fn max_file_bytes(&self) -> u64 {
        self.0.options.max_file_bytes
    }

    /// Begins an upload.
    ///
    /// # Errors
    /// `Unavailable` while too many are under way, or while the storage is away.
    pub async fn begin_upload(&self) -> Result<Upload, Error> {
        self.check_open()?;
        let turn = Arc::clone(&self.0.stores.uploads.0).acquire_owned();
        let turn = tokio::time::timeout(PATIENCE, turn)
            .await
            .map_err(|_| {
                Error::Unavailable(
                    "too many uploads at once, retry in a moment or on another node".to_owned(),
                )
            })?
            .map_err(|error| Error::Internal(error.to_string()))?;
        Ok(Upload {
            staging: self.0.stores.contents.stage().await?,
            limit: self.0.options.max_file_bytes,
            _turn: turn,
        })
    }

    /// Saves what was uploaded under a name. Without a media type that says anything, the name decides.
    ///
    /// # Errors
    /// `Invalid` for a name that breaks a rule, `Conflict` for one that is taken.
    pub async fn create_file(
        &self,
        caller: &Caller,
        upload: Upload,
        name: String,
        content_type: Option<String>,
    ) -> Result<File, Error> {
        named(&name)?;
        self.free(caller.org, &name).await?;
        let staged = upload.staging.finish().await.map_err(storage)?;
        let (size, sha256) = (staged.size(), staged.sha256());
        let blob = self.0.stores.contents.keep(caller.org, staged).await?;
        self.0.metrics.uploaded(size);
        let content = (blob, sha256, size);
        self.name_content(caller, content, name, content_type).await
    }

    /// Makes a file of content that is kept.
    pub(crate) async fn name_content(
        &self,
        caller: &Caller,
        (blob, sha256, size): (BlobId, Sha256, u64),
        name: String,
        content_type: Option<String>,
    ) -> Result<File, Error> {
        let at = self.0.options.clock.now();
        let file = File {
            id: FileId::new(at, random()?),
            content_type: content_type.unwrap_or_else(|| media_type(&name)),
            name,
            size: i64::try_from(size).map_err(|error| Error::Internal(error.to_string()))?,
            sha256,
            created_at: at,
        };
        let new = NewFile {
            id: file.id,
            org: caller.org,
            name: file.name.clone(),
            blob,
            size: file.size,
            sha256,
            content_type: file.content_type.clone(),
            at,
            check_at: self.0.stores.contents.check_at(),
        };
        let audit = caller.audit(&self.0.options.clock, "file.create", file.id.to_string())?;
        self.store().create_file(new, audit).await?;
        Ok(file)
    }

    /// A file by its id or name.
    pub async fn get_file(&self, org: OrgId, file: &str) -> Result<File, Error> {
        Ok(found(self.store(), org, file).await?.file)
    }

    /// What is needed to offer a file's content.
    pub async fn stored_file(&self, org: OrgId, file: &str) -> Result<Stored, Error> {
        let FileRow { file, blob } = found(self.store(), org, file).await?;
        Ok(Stored {
            org,
            blob,
            name: file.name,
            size: u64::try_from(file.size).map_err(|error| Error::Internal(error.to_string()))?,
            sha256: file.sha256,
            content_type: file.content_type,
            created_at: file.created_at,
        })
    }

    /// The bytes of `range` of some content, piece by piece.
    pub async fn read_content(&self, stored: &Stored, range: Range<u64>) -> Result<Content, Error> {
        let content = (stored.sha256, stored.blob);
        self.0.stores.contents.read(stored.org, content, range).await
    }

    /// Gives a file another name. One that it has already changes nothing.
    ///
    /// # Errors
    /// `Invalid` for a name that breaks a rule, `Conflict` for one that is taken.
    pub async fn rename_file(&self, caller: &Caller, file: &str, name: &str) -> Result<File, Error> {
        named(name)?;
        let there = found(self.store(), caller.org, file).await?.file;
        if there.name == name {
            return Ok(there);
        }
        let audit = caller.audit(&self.0.options.clock, "file.rename", there.id.to_string())?;
        let renamed = self.store().rename_file(caller.org, there.id, name, audit).await;
        Ok(renamed?)
    }

    /// Deletes a file.
    pub async fn delete_file(&self, caller: &Caller, file: &str) -> Result<(), Error> {
        let there = found(self.store(), caller.org, file).await?.file;
        let audit = caller.audit(&self.0.options.clock, "file.delete", there.id.to_string())?;
        let check_at = self.0.stores.contents.check_at();
        let deleted = self.store().delete_file(caller.org, there.id, check_at, audit);
        Ok(deleted.await?)
    }

    /// Refuses a name that is taken before its content is kept; the store decides in the end.
    pub(crate) async fn free(&self, org: OrgId, name: &str) -> Result<(), Error> {
        match self.store().file_named(org, name).await {
            Ok(_) => Err(Error::Conflict("name: a file has it already".to_owned())),
            Err(sortie_store::Error::NotFound) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes content that nothing refers to and whose time is over: how many there were.
    pub async fn sweep_contents(&self) -> Result<u64, Error> {
        self.0.stores.contents.sweep().await
    }
}

/// The rule of a file's name.
pub(crate) fn named(name: &str) -> Result<(), Error> {
    check_name(name).map_err(|rule| Error::Invalid(format!("name: {rule}")))
}

/// A media type by a name.
pub(crate) fn media_type(name: &str) -> String {
    let guess = mime_guess::from_path(name).first_raw();
    guess.unwrap_or("application/octet-stream").to_owned()
}

/// A name in the form of an id is one: no file can be saved under it.
async fn found(store: &Store, org: OrgId, file: &str) -> Result<FileRow, Error> {
    Ok(match file.parse::<FileId>() {
        Ok(id) => store.get_file(org, id).await?,
        Err(_) if file.contains('\0') => return Err(Error::NotFound),
        Err(_) => store.file_named(org, file).await?,
    })
}

/// The contents of these files, in this order, for a run's working directory. An error is the run's, in words for people.
pub(crate) async fn contents_of(
    store: &Store,
    contents: &Contents,
    org: OrgId,
    ids: &[FileId],
) -> Result<Vec<std::fs::File>, String> {
    let rows = store
        .find_files(org, ids, &[])
        .await
        .map_err(|error| format!("the run's files cannot be found: {}", Error::from(error)))?;
    let mut opened = Vec::new();
    for id in ids {
        let row = rows
            .iter()
            .find(|row| row.file.id == *id)
            .ok_or_else(|| format!("the file {id} is gone"))?;
        let file = contents
            .open_file(org, (row.file.sha256, row.blob))
            .await
            .map_err(|error| format!("the file {id} cannot be read: {error}"))?;
        opened.push(file);
    }
    Ok(opened)
}
