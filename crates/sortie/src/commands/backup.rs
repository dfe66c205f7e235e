//! `sortie backup` and `sortie restore`: an embedded database and the content it refers to, as one archive.
//!
//! The database is copied first, in one read transaction while the engine may run, and then the contents that the copy
//! refers to. The engine deletes content one hour after its last reference is gone, at the earliest. The contents of a
//! copy that is younger than an hour therefore still exist. If one is missing, the backup fails and names the records
//! that need it.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use sortie_api::plain;
use sortie_blobs::Address;
use sortie_engine::{Clock, MasterKey, check_key_text};
use sortie_store::installation::{DatabaseCopy, ReferredBlob, Referrer, Summary};

use super::Context;
use crate::{
    archive::{self, ContentsIn, DATABASE, KEYS, Manifest, Writer},
    args::{BackupArgs, RestoreArgs},
    config::Config,
    data_dir::{self, DataDir, NodeKey, Purpose},
    failure::{Exit, Failure, Result},
    node::{engine_options, held_master_keys},
    scratch::Scratch,
    terminal,
};

/// Number of contents in one query.
const PAGE: u32 = 1_000;
/// The file of the master keys, in a data folder and in an archive.
const MASTER_KEY: &str = KEYS[0];
/// Maximum number of referrers that are named for a lost content.
const REFERRERS: u32 = 10;

const POSTGRES: &str = "the records are in PostgreSQL, which has tools of its own for this: pg_dump or pg_basebackup for \
    the database first, then the versions of the bucket for the contents; docs/OPERATIONS.md has the steps";

pub(super) async fn backup(context: &Context, args: BackupArgs) -> Result<Exit> {
    let config = context.client_config(&context.flags)?;
    blocking(move || back_up(&config, &args)).await
}

pub(super) async fn restore(context: &Context, args: RestoreArgs) -> Result<Exit> {
    let config = context.client_config(&context.flags)?;
    blocking(move || put_back(&config, &args)).await
}

/// Everything here reads and writes files.
async fn blocking(work: impl FnOnce() -> Result<Exit> + Send + 'static) -> Result<Exit> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Failure::internal(error.to_string()))?
}

/// Failure of an access to the archive, or to a file that is copied to or from it.
fn failed(what: &str, path: &Path, error: &io::Error) -> Failure {
    let exit = if error.kind() == io::ErrorKind::PermissionDenied {
        Exit::Denied
    } else {
        Exit::Internal
    };
    Failure::new(
        exit,
        format!("cannot {what} {}: {}", path.display(), plain::io(error)),
    )
}

/// Failure of an access to the data folder, with remedies.
fn data_failed(what: &str, path: &Path, error: &io::Error) -> Failure {
    data_dir::failed(&format!("cannot {what}"), path, error)
}

/// Failure of a database, with its own message.
fn database_failed(what: &str, path: &Path, error: &sortie_store::Error) -> Failure {
    Failure::internal(format!("cannot {what} {}: {}", path.display(), error.cause()))
}

/// Source of a backup.
struct Source {
    database: PathBuf,
    /// None: the contents are in a bucket.
    contents: Option<PathBuf>,
    /// None: the backup has no keys.
    keys: Option<Keys>,
}

/// Keys that a backup takes along.
struct Keys {
    /// The master keys in use, from the configuration or from the data folder.
    master: Option<Vec<MasterKey>>,
    /// Other secret files of the data folder.
    files: Vec<(&'static str, PathBuf)>,
}

impl Keys {
    fn of(config: &Config) -> Result<Self> {
        let data_dir = DataDir::new(&config.data_dir);
        let others = KEYS.into_iter().filter(|name| *name != MASTER_KEY);
        let mut files = Vec::new();
        for name in others {
            let path = config.data_dir.join(name);
            match File::open(&path) {
                Ok(_) => files.push((name, path)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(data_failed("read", &path, &error)),
            }
        }
        Ok(Self {
            master: held_master_keys(config, &data_dir)?,
            files,
        })
    }

    /// Every key with the file that holds it. The master keys are written into `scratch`, because those of the
    /// configuration are in no file.
    ///
    /// # Errors Fails if the copy was sealed with a master key that is not among them: the backup would be worthless.
    fn files(&self, copy: &mut DatabaseCopy, scratch: &Scratch) -> Result<Vec<(&'static str, PathBuf)>> {
        let sealed = copy
            .seal_check()
            .map_err(|error| database_failed("read", scratch.path(), &error))?;
        let master = self.master.as_deref().unwrap_or_default();
        if let Some(sealed) = sealed {
            check_key_text(&sealed, master).map_err(|error| {
                Failure::usage(format!(
                    "the master key in use is not known to this command, give it the configuration of the engine: {error}"
                ))
            })?;
        }
        let mut files = self.files.clone();
        if !master.is_empty() {
            let path = scratch.path().join(MASTER_KEY);
            let text = MasterKey::to_list(master);
            let mut file = private(&path).map_err(|error| failed("make", &path, &error))?;
            file.write_all(text.as_bytes())
                .and_then(|()| file.write_all(b"\n"))
                .map_err(|error| failed("write", &path, &error))?;
            files.insert(0, (MASTER_KEY, path));
        }
        Ok(files)
    }
}

/// A new file for this user alone.
fn private(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

impl Source {
    fn of(config: &Config, args: &BackupArgs) -> Result<Self> {
        let database = config
            .database_url
            .sqlite_path()
            .ok_or_else(|| Failure::usage(POSTGRES))?;
        match File::open(database) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Failure::unavailable(format!(
                    "{} does not exist: name the data folder by --data-dir",
                    database.display()
                )));
            }
            Err(error) => return Err(data_failed("read the database", database, &error)),
        }
        Ok(Self {
            database: database.to_owned(),
            contents: engine_options(config, String::new(), Purpose::OneCommand).content_folder(),
            keys: args.include_keys.then(|| Keys::of(config)).transpose()?,
        })
    }

    /// Writes the archive. Returns its manifest as well.
    fn write<W: Write>(&self, to: W, scratch: &Scratch) -> Result<(W, Manifest)> {
        let copied = scratch.path().join(DATABASE);
        let created_at = Clock::system().now();
        let mut copy = DatabaseCopy::make(&self.database, &copied)
            .map_err(|error| database_failed("copy", &self.database, &error))?;
        let summary = copy
            .summary()
            .map_err(|error| database_failed("read", &self.database, &error))?;
        let size = fs::metadata(&copied)
            .map_err(|error| failed("read", &copied, &error))?
            .len();
        let keys = match &self.keys {
            Some(keys) => keys.files(&mut copy, scratch)?,
            None => Vec::new(),
        };
        let manifest = Manifest {
            format: Manifest::FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            created_at,
            migration: summary.migration,
            database_bytes: size,
            runs: summary.runs,
            contents_in: if self.contents.is_some() {
                ContentsIn::Archive
            } else {
                ContentsIn::Bucket
            },
            contents: summary.contents,
            content_bytes: summary.content_bytes,
            keys: keys.iter().map(|(name, _)| (*name).to_owned()).collect(),
        };
        let sums = scratch.path().join("sums");
        let sums = private(&sums).map_err(|error| failed("make", &sums, &error))?;
        let write = || -> std::result::Result<W, Broken> {
            let mut archive = Writer::begin(to, sums, &manifest)?;
            archive.add_file(DATABASE, &copied)?;
            for (name, path) in &keys {
                archive.add_file(name, path)?;
            }
            if let Some(folder) = &self.contents {
                add_contents(&mut archive, &mut copy, folder)?;
            }
            Ok(archive.finish()?)
        };
        let to = write().map_err(|broken| Failure::internal(format!("the backup broke off: {broken}")))?;
        Ok((to, manifest))
    }
}

/// Reason why an archive could not be finished.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Archive(#[from] archive::Error),
    #[error("{}", .0.cause())]
    Database(#[from] sortie_store::Error),
    #[error(
        "{0} contents of files and artifacts are lost or damaged, those named above. Put each back in its place below the \
         folder of contents from an earlier backup, or save the same bytes again under any name (`sortie files upload`): \
         either mends it. What cannot be had again: delete the saved file (`sortie files delete`); artifacts go with their \
         run, after `retention_days`. What nothing needs any more was deleted while a backup of more than an hour was at \
         work: start again"
    )]
    Contents(u64),
}

fn address_of(blob: &ReferredBlob) -> Address {
    Address {
        org: blob.org,
        sha256: blob.sha256,
        blob: blob.id,
    }
}

/// Adds all contents. Once a content is missing, the archive cannot be complete. The remaining contents are still
/// checked, so that the error lists every missing one.
fn add_contents<W: Write>(
    archive: &mut Writer<W>,
    copy: &mut DatabaseCopy,
    folder: &Path,
) -> std::result::Result<(), Broken> {
    let (mut missing, mut after) = (0, None);
    loop {
        let page = copy.referred_blobs(after, PAGE)?;
        let Some(last) = page.last() else {
            break;
        };
        after = Some(last.id);
        for blob in &page {
            let address = address_of(blob);
            let taken = match File::open(address.file_in(folder)) {
                Ok(file) if missing == 0 => archive.add_content(address, file, blob.size),
                Ok(file) => archive::check_content(address, file, blob.size),
                Err(error) => Err(archive::Error::Refused(format!(
                    "the content {address} cannot be read: {}",
                    plain::io(&error)
                ))),
            };
            match taken {
                Ok(()) => {}
                Err(archive::Error::Refused(reason)) => {
                    missing += 1;
                    let referrers = copy.referrers(blob.id, REFERRERS)?;
                    terminal::note(&format!("{reason}: {}", told_referrers(&referrers)));
                }
                Err(error @ archive::Error::Io(_)) => return Err(error.into()),
            }
        }
    }
    if missing > 0 {
        return Err(Broken::Contents(missing));
    }
    Ok(())
}

/// Returns the referrers of a content, in words.
fn told_referrers(referrers: &[Referrer]) -> String {
    let one = |referrer: &Referrer| match referrer {
        Referrer::File(name) => format!("the saved file `{}`", terminal::harmless(name)),
        Referrer::Run(run) => format!("an artifact of {run}"),
    };
    let mut told: Vec<String> = referrers.iter().map(one).collect();
    if referrers.len() >= REFERRERS as usize {
        told.push("and perhaps more".to_owned());
    }
    told.join(", ")
}

fn back_up(config: &Config, args: &BackupArgs) -> Result<Exit> {
    let source = Source::of(config, args)?;
    let manifest = if let Some(path) = args.to.file() {
        write_file(&source, path)?
    } else {
        let scratch = Scratch::make(config.data_dir.join("backup.partial"))?;
        let (mut to, manifest) = source.write(io::stdout().lock(), &scratch)?;
        to.flush()?;
        manifest
    };
    terminal::note(&told(&manifest));
    if !manifest.keys.iter().any(|key| key == MASTER_KEY) {
        terminal::note(
            "THE MASTER KEY IS NOT IN THE BACKUP: without it no sealed credential (connections, callbacks) can be read again. \
             Keep `master.key` of the data folder, or the value of SORTIE_MASTER_KEY, in another safe place.",
        );
    }
    Ok(Exit::Success)
}

/// Writes the archive under a temporary name first, so that a file with the final name is always complete.
fn write_file(source: &Source, path: &Path) -> Result<Manifest> {
    if path.symlink_metadata().is_ok() {
        return Err(Failure::usage(format!("{} exists already", path.display())));
    }
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let scratch = Scratch::make(partial.into())?;
    let unfinished = scratch.path().join("archive");
    let file = private(&unfinished).map_err(|error| failed("make", &unfinished, &error))?;
    let (file, manifest) = source.write(io::BufWriter::with_capacity(1 << 20, file), &scratch)?;
    file.into_inner()
        .map_err(io::IntoInnerError::into_error)
        .and_then(|file| file.sync_all())
        .and_then(|()| fs::rename(&unfinished, path))
        .and_then(|()| sync_above(path))
        .map_err(|error| failed("write", path, &error))?;
    Ok(manifest)
}

/// Makes a rename of `path` durable.
fn sync_above(path: &Path) -> io::Result<()> {
    let above = path.parent().filter(|above| !above.as_os_str().is_empty());
    File::open(above.unwrap_or(Path::new(".")))?.sync_all()
}

fn told(manifest: &Manifest) -> String {
    let contents = match manifest.contents_in {
        ContentsIn::Archive => format!(
            "{} contents of files and artifacts ({} bytes)",
            manifest.contents, manifest.content_bytes
        ),
        ContentsIn::Bucket => format!(
            "no contents: {} of them are in the bucket, which needs a backup of its own",
            manifest.contents
        ),
    };
    format!(
        "backup of {}: {} runs, database of {} bytes at migration {}, {contents}",
        manifest.created_at, manifest.runs, manifest.database_bytes, manifest.migration
    )
}

fn put_back(config: &Config, args: &RestoreArgs) -> Result<Exit> {
    let target = &config.data_dir;
    refuse_other_places(config)?;
    let place = place_of(target)?;
    let mut beside = place.clone().into_os_string();
    beside.push(".restoring");
    let scratch = Scratch::make(beside.into())?;
    let fits = |manifest: &Manifest| fits(config, manifest);
    let unpacked = match args.from.file() {
        Some(path) => {
            let file = File::open(path).map_err(|error| {
                // The path on the command line does not exist.
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) {
                    Failure::usage(format!("cannot open {}: {}", path.display(), plain::io(&error)))
                } else {
                    failed("open", path, &error)
                }
            })?;
            archive::unpack(file, scratch.path(), fits)
        }
        None => archive::unpack(io::stdin().lock(), scratch.path(), fits),
    };
    let manifest = unpacked.map_err(|error| match error {
        archive::Error::Refused(reason) => refused(&reason),
        archive::Error::Io(error) => data_failed("restore to", target, &error),
    })?;
    let summary = check(config, scratch.path())?;
    into_place(&scratch, &place)?;
    terminal::print(&report(config, &manifest, summary))?;
    Ok(Exit::Success)
}

fn refused(reason: &str) -> Failure {
    Failure::usage(format!("the archive is refused, nothing was restored: {reason}"))
}

/// Returns the path of the future data folder, in a form from which the name of a sibling can be made.
///
/// # Errors Refuses an existing target that cannot become the data folder by one rename, before anything is unpacked.
fn place_of(target: &Path) -> Result<PathBuf> {
    let refused = |why: &str| Failure::usage(format!("{} {why}", target.display()));
    let looked = |error: io::Error| data_failed("look into", target, &error);
    // Drops a slash at the end, which would make the system follow a link.
    let plain: PathBuf = target.components().collect();
    let found = match plain.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(plain),
        found => found.map_err(looked)?,
    };
    if found.is_symlink() {
        return Err(refused(
            "is a symbolic link, which cannot become the data folder: name the folder that it leads to by --data-dir",
        ));
    }
    if !found.is_dir() {
        return Err(refused("is not a folder: name one by --data-dir"));
    }
    let place = fs::canonicalize(&plain).map_err(looked)?;
    let above = place.parent().unwrap_or(&place);
    if place == above || above.metadata().map_err(looked)?.dev() != found.dev() {
        return Err(is_mount_point(target));
    }
    if fs::read_dir(&place).map_err(looked)?.next().is_some() {
        return Err(refused(
            "is not empty: a backup is restored into a new folder only; name one by --data-dir",
        ));
    }
    Ok(place)
}

fn is_mount_point(target: &Path) -> Failure {
    Failure::usage(format!(
        "{} is a mount point and cannot be replaced in one step: restore into a folder below it, such as \
         --data-dir {}, and start with that as the data folder",
        target.display(),
        target.join("data").display()
    ))
}

/// A backup can be restored to the data folder only.
fn refuse_other_places(config: &Config) -> Result<()> {
    let database = config.database_url.sqlite_path();
    if database != Some(&config.data_dir.join(DATABASE)) {
        return Err(Failure::usage(if database.is_none() {
            POSTGRES.to_owned()
        } else {
            format!(
                "a backup is restored to {DATABASE} in the data folder, and database_url is {}: leave it out, and move \
                 the file afterwards",
                config.database_url
            )
        }));
    }
    let contents = engine_options(config, String::new(), Purpose::OneCommand).content_folder();
    if contents.is_some_and(|folder| folder != config.data_dir.join("blobs")) {
        return Err(Failure::usage(
            "a backup is restored to `blobs` in the data folder, and blob_url names another folder: leave it out, and \
             move the folder afterwards",
        ));
    }
    Ok(())
}

/// Whether the contents of files of the restored engine are on this machine.
fn has_contents_here(config: &Config) -> bool {
    let options = engine_options(config, String::new(), Purpose::OneCommand);
    options.content_folder().is_some()
}

/// Checks that the configuration and the archive agree on the place of file contents. The beginning of the archive is
/// enough for that.
fn fits(config: &Config, manifest: &Manifest) -> std::result::Result<(), String> {
    match (manifest.contents_in, has_contents_here(config)) {
        (ContentsIn::Archive, false) => {
            Err("it holds the contents of files, and blob_url names a bucket: leave blob_url out".to_owned())
        }
        (ContentsIn::Bucket, true) => Err(
            "the contents of files are in a bucket: set blob_url (SORTIE_BLOB_URL) to the one of the engine that \
             was backed up"
                .to_owned(),
        ),
        (ContentsIn::Archive, true) | (ContentsIn::Bucket, false) => Ok(()),
    }
}

/// Checks that the unpacked folder is a complete data folder: a sound database, and every content that it refers to.
fn check(config: &Config, folder: &Path) -> Result<Summary> {
    let mut database = DatabaseCopy::open(&folder.join(DATABASE))
        .map_err(|error| refused(&format!("its database does not open: {}", error.cause())))?;
    let checked = database.check().and_then(|()| database.summary());
    let summary =
        checked.map_err(|error| refused(&format!("its database is not in order: {}", error.cause())))?;
    if has_contents_here(config) {
        look_for_contents(&mut database, &folder.join("blobs")).map_err(|reason| refused(&reason))?;
    }
    Ok(summary)
}

/// Checks that every content that the database refers to is in the folder and has the right size. The bytes were
/// compared with the address when the archive was unpacked.
fn look_for_contents(database: &mut DatabaseCopy, folder: &Path) -> std::result::Result<(), String> {
    let mut after = None;
    loop {
        let page = database
            .referred_blobs(after, PAGE)
            .map_err(|error| format!("its database is not in order: {}", error.cause()))?;
        let Some(last) = page.last() else {
            return Ok(());
        };
        after = Some(last.id);
        for blob in &page {
            let address = address_of(blob);
            let found = fs::metadata(address.file_in(folder));
            if !found.is_ok_and(|found| found.len() == blob.size) {
                return Err(format!("it lacks the content {address}"));
            }
        }
    }
}

/// Moves the unpacked folder to the data folder, durably and in one step.
fn into_place(scratch: &Scratch, target: &Path) -> Result<()> {
    let written = File::open(scratch.path()).and_then(|folder| Ok(rustix::fs::syncfs(folder)?));
    written
        .and_then(|()| scratch.become_folder(target))
        .and_then(|()| sync_above(target))
        .map_err(|error| {
            if [io::ErrorKind::ResourceBusy, io::ErrorKind::CrossesDevices].contains(&error.kind()) {
                return is_mount_point(target);
            }
            data_failed("put the data folder in its place:", target, &error)
        })
}

fn report(config: &Config, manifest: &Manifest, summary: Summary) -> String {
    let mut lines = vec![
        format!("restored to {}: {}", config.data_dir.display(), told(manifest)),
        format!(
            "{} runs wait and are worked on as usual; {} were at work: the node takes them over within half a minute of \
             its start, and each goes on from its journal or ends as interrupted",
            summary.waiting, summary.at_work
        ),
        format!(
            "{} callbacks are due and are sent, some perhaps a second time; {} schedules are on and make up for what they \
             missed as far as their catch-up window goes",
            summary.callbacks, summary.schedules
        ),
    ];
    if summary.unretained > 0 {
        lines.push(format!(
            "{} runs with zero data retention end as interrupted: their content was in the memory of a node alone",
            summary.unretained
        ));
    }
    lines.push("Git ignores the data folder, which may hold keys".to_owned());
    let has = |key: &str| manifest.keys.iter().any(|found| found == key);
    if !has(MASTER_KEY) {
        lines.push(format!(
            "the master key was not in the backup: put it back as {} or SORTIE_MASTER_KEY BEFORE the first start: where anything is \
             sealed, the node does not start without it",
            config.data_dir.join(MASTER_KEY).display()
        ));
    }
    if !has(KEYS[1]) {
        lines.push(format!(
            "the admin key was not in the backup: keys work as before; write yours to {} where commands are to find it",
            DataDir::new(&config.data_dir).key_file(NodeKey::Admin).display()
        ));
    }
    lines.join("\n") + "\n"
}
