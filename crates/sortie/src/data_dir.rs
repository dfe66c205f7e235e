//! The data folder: its mode, its one owner at a time, the node's name, the admin key and the master key.
//!
//! `engine.json` names the engine that works in the folder. The engine locks it while it runs, so that a file left by a
//! killed engine is never mistaken for a running one. Commands that share the engine of another command hold a shared
//! lock on `sharing.lock`; that engine stays until it can lock the file for itself.

mod folder;

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use sortie_api::{
    Mode, plain,
    secret::{OPERATOR_KEY, SELF_HOSTED_KEY, Secret},
};
use sortie_engine::MasterKey;
use zeroize::Zeroizing;

pub(crate) use self::folder::{IGNORE_FILE, hide_from_git};
use crate::{
    client::{ClientKey, KeySource},
    failure::{Exit, Failure, Result},
};

const ENGINE_FILE: &str = "engine.json";
const SHARING_FILE: &str = "sharing.lock";
const NAME_FILE: &str = "node_name";
const MASTER_KEY_FILE: &str = "master.key";

/// Key that the first start of a node leaves in its data folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeKey {
    /// The admin key of a self-hosted engine.
    Admin,
    /// The operator's key of a hosted deployment.
    Operator,
}

impl NodeKey {
    const fn file(self) -> &'static str {
        match self {
            Self::Admin => "admin.key",
            Self::Operator => "operator.key",
        }
    }

    /// Prefix of the secret.
    pub(crate) const fn prefix(self) -> &'static str {
        match self {
            Self::Admin => SELF_HOSTED_KEY,
            Self::Operator => OPERATOR_KEY,
        }
    }

    /// The name in messages.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin key",
            Self::Operator => "operator key",
        }
    }
}

/// Kind of engine that works in a data folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Purpose {
    /// `sortie serve`: it stays, and accepts the runs of other commands.
    Serve,
    /// The own engine of a command that works on runs. It ends when these runs and those of sharing commands are done.
    OneRun,
    /// The own engine of another command: it works on no runs, and ends with the command.
    OneCommand,
}

/// The engine that works in a data folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunningEngine {
    /// Address of the API, seen from this machine.
    pub(crate) url: String,
    /// Address of the organization API of a hosted deployment, seen from this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) org_url: Option<String>,
    /// Kind of the engine.
    pub(crate) purpose: Purpose,
    /// ID of the engine's process.
    pub(crate) pid: u32,
}

/// Use of a data folder by an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Occupancy {
    /// No engine works in the folder.
    Free,
    /// An engine has the folder and has not yet published its address.
    Starting,
    /// This engine works in the folder.
    Engine(RunningEngine),
}

/// A data folder. This process may or may not own it.
#[derive(Clone, Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
}

/// This process's ownership of a data folder, until it is dropped.
#[derive(Debug)]
pub(crate) struct Owner {
    file: File,
    is_new_folder: bool,
}

/// Lock on the sharing of an engine, until it is dropped: shared by those that use the engine of another command, or
/// exclusive to the engine that ends.
#[derive(Debug)]
pub(crate) struct Sharing {
    _file: File,
}

/// Failure of an access to the data folder, or to a database. A permission error comes with remedies.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the system has words of its own for the other kinds"
)]
pub(crate) fn failed(what: &str, path: &Path, error: &io::Error) -> Failure {
    let (path, kind) = (path.display(), error.kind());
    if kind == io::ErrorKind::PermissionDenied {
        return Failure::new(
            Exit::Denied,
            format!(
                "{what} {path}: permission denied; run the command as the owner of the data folder, name another folder by \
                 --data-dir, or name the engine by SORTIE_URL and a key by SORTIE_API_KEY"
            ),
        );
    }
    let other = "name another folder by --data-dir";
    let cause = plain::io(error);
    Failure::internal(match kind {
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            format!("{what} {path}: a file exists where a folder is needed; {other}")
        }
        io::ErrorKind::StorageFull => format!("{what} {path}: {cause}; make room, or {other}"),
        io::ErrorKind::ReadOnlyFilesystem => {
            format!("{what} {path}: {cause}; mount it for writing, or {other}")
        }
        _ => format!("{what} {path}: {cause}"),
    })
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

impl DataDir {
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
        }
    }

    /// Returns the message for a command that has created the folder, or is the first to use an empty one.
    pub(crate) fn made(&self) -> String {
        format!(
            "made the data folder {}, which has the database and keys; Git ignores it",
            self.path.display()
        )
    }

    pub(crate) fn key_file(&self, which: NodeKey) -> PathBuf {
        self.path.join(which.file())
    }

    /// Takes the folder for an engine of this process, or reports its owner.
    pub(crate) fn own(&self) -> Result<Owner> {
        loop {
            if let Some(owner) = self.take()? {
                return Ok(owner);
            }
            match self.occupancy()? {
                // A command that looks at the folder locks the file for a moment.
                Occupancy::Free => std::thread::yield_now(),
                occupancy @ (Occupancy::Starting | Occupancy::Engine(_)) => {
                    return Err(self.in_use(&occupancy));
                }
            }
        }
    }

    /// Takes the folder for an engine of this process; `None` if another engine has it. A missing folder is created,
    /// and a folder with foreign files is refused.
    pub(crate) fn take(&self) -> Result<Option<Owner>> {
        let is_new_folder = self.create()?;
        let path = self.path.join(ENGINE_FILE);
        let file = private()
            .read(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|e| failed("cannot open", &path, &e))?;
        match file.try_lock() {
            // Drops the outdated entry of an earlier engine.
            Ok(()) => file
                .set_len(0)
                .map(|()| Some(Owner { file, is_new_folder }))
                .map_err(|e| failed("cannot write", &path, &e)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(failed("cannot lock", &path, &error)),
        }
    }

    /// The failure of a command that needs the folder exclusively, with remedies.
    pub(crate) fn in_use(&self, occupancy: &Occupancy) -> Failure {
        let path = self.path.display();
        let other = "or name another folder by --data-dir";
        Failure::unavailable(match occupancy {
            Occupancy::Free | Occupancy::Starting => {
                format!("an engine starts or ends in the data folder {path}: try again in a moment, {other}")
            }
            Occupancy::Engine(RunningEngine {
                url, purpose, pid, ..
            }) => match purpose {
                Purpose::Serve => format!(
                    "an engine works in the data folder {path} already, at {url} (process {pid}): use that one, {other}"
                ),
                Purpose::OneRun => format!(
                    "a `sortie run` (process {pid}) works in the data folder {path}: try again when it has ended, {other}"
                ),
                Purpose::OneCommand => format!(
                    "another command (process {pid}) works in the data folder {path}: try again when it has ended, {other}"
                ),
            },
        })
    }

    /// Returns the engine that works in the folder now, if any. `Denied` if this user may not read the folder.
    pub(crate) fn running_engine(&self) -> Result<Option<RunningEngine>> {
        Ok(match self.occupancy()? {
            Occupancy::Engine(engine) => Some(engine),
            Occupancy::Free | Occupancy::Starting => None,
        })
    }

    /// Returns the use of the folder. `Denied` if this user may not read it.
    pub(crate) fn occupancy(&self) -> Result<Occupancy> {
        let path = self.path.join(ENGINE_FILE);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Occupancy::Free),
            Err(error) => return Err(failed("cannot read", &path, &error)),
        };
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => {
                Ok(read_engine(&file).map_or(Occupancy::Starting, Occupancy::Engine))
            }
            Ok(()) => Ok(Occupancy::Free),
            Err(TryLockError::Error(error)) => Err(failed("cannot lock", &path, &error)),
        }
    }

    /// Keeps the engine of another command until the lock is dropped; `None` if that engine is ending.
    pub(crate) fn share(&self) -> Result<Option<Sharing>> {
        self.lock_sharing(File::try_lock_shared)
    }

    /// Stops other commands from sharing this engine; `None` if one still shares it.
    pub(crate) fn end_sharing(&self) -> Result<Option<Sharing>> {
        self.lock_sharing(File::try_lock)
    }

    fn lock_sharing(
        &self,
        lock: impl FnOnce(&File) -> std::result::Result<(), TryLockError>,
    ) -> Result<Option<Sharing>> {
        let path = self.path.join(SHARING_FILE);
        let file = private()
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|e| failed("cannot open", &path, &e))?;
        match lock(&file) {
            Ok(()) => Ok(Some(Sharing { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(failed("cannot lock", &path, &error)),
        }
    }

    /// The node's name: random at first, then always the same.
    pub(crate) fn node_name(&self) -> Result<String> {
        let path = self.path.join(NAME_FILE);
        match fs::read_to_string(&path) {
            Ok(text) if crate::config::is_node_name(text.trim()) => return Ok(text.trim().to_owned()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed("cannot read", &path, &error)),
        }
        let name = format!("node-{:016x}", random_number()?);
        write_new(&path, &name).map_err(|e| failed("cannot write", &path, &e))?;
        Ok(name)
    }

    /// The keys that seal credentials, if an earlier start or a restored backup has stored some. Several keys are
    /// separated by commas, and the first seals. A file without a key is an error: a new key could not open the
    /// existing credentials.
    pub(crate) fn master_keys(&self) -> Result<Option<Vec<MasterKey>>> {
        let path = self.path.join(MASTER_KEY_FILE);
        match fs::read_to_string(&path).map(Zeroizing::new) {
            Ok(text) => MasterKey::list(&text).map(Some).map_err(|rule| {
                Failure::new(
                    Exit::Configuration,
                    format!(
                        "{}: {rule}; put the file back as it was, or remove it together with all saved connections",
                        path.display()
                    ),
                )
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("cannot read", &path, &error)),
        }
    }

    /// Makes a random key for a database with no sealed values yet. The key stays the same from then on.
    pub(crate) fn make_master_key(&self) -> Result<MasterKey> {
        let path = self.path.join(MASTER_KEY_FILE);
        let mut random = Zeroizing::new([0_u8; 32]);
        getrandom::fill(random.as_mut_slice())
            .map_err(|e| Failure::internal(format!("no random numbers: {e}")))?;
        let key = MasterKey::new(random);
        // A file with the final name is always complete.
        let unfinished = path.with_extension("key.new");
        write_new(&unfinished, &key.to_hex())
            .and_then(|()| fs::rename(&unfinished, &path))
            .and_then(|()| sync_folder(&path))
            .map_err(|e| failed("cannot write", &path, &e))?;
        Ok(key)
    }

    /// The admin key that the first start of a node left here.
    pub(crate) fn admin_key(&self) -> Result<Option<String>> {
        self.key(NodeKey::Admin)
    }

    /// The key that the first start of a node left here. `Denied` if this user may not read it.
    pub(crate) fn key(&self, which: NodeKey) -> Result<Option<String>> {
        let path = self.key_file(which);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text.trim().to_owned()).filter(|key| !key.is_empty())),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(failed("cannot read", &path, &error)),
        }
    }

    /// Returns the key as [`Self::key`] does, with its file for messages.
    pub(crate) fn api_key(&self, which: NodeKey) -> Result<Option<ClientKey>> {
        let source = KeySource::File(self.key_file(which));
        Ok(self.key(which)?.map(|key| ClientKey::new(key, source)))
    }

    /// Checks that the file of the admin key can be replaced, before the key in it is rotated.
    pub(crate) fn check_admin_key_can_be_replaced(&self, held: Secret) -> Result<()> {
        self.prepare_key(NodeKey::Admin, held).map(PreparedKey::discard)
    }

    /// Replaces the secret of a rotated key in its file, which only the owner can read.
    pub(crate) fn replace_admin_key(&self, secret: Secret) -> Result<()> {
        let key = self.prepare_key(NodeKey::Admin, secret)?;
        key.replace()
            .map_err(|e| failed("cannot replace", &self.key_file(NodeKey::Admin), &e))
    }

    /// Writes `secret` down, durably, before it becomes the first key: whenever the process dies, the file or
    /// [`Self::key`] has it. A folder that cannot hold it is found out while nothing is lost yet.
    pub(crate) fn prepare_key(&self, which: NodeKey, secret: Secret) -> Result<PreparedKey> {
        let key = self.prepared(which, secret);
        match fs::remove_file(&key.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("cannot replace", &key.path, &error));
            }
            Ok(()) | Err(_) => {}
        }
        write_new(&key.path, key.secret.expose())
            .and_then(|()| sync_folder(&key.path))
            .map_err(|e| failed("cannot write", &key.path, &e))?;
        Ok(key)
    }

    /// The key that an earlier start prepared and did not put in its place, if it is whole. Whether it became a key
    /// is for the store to say.
    pub(crate) fn left_key(&self, which: NodeKey) -> Option<PreparedKey> {
        let text = fs::read_to_string(self.prepared_key_file(which)).ok()?;
        let secret = Secret::parse(which.prefix(), text.trim()).ok()?;
        Some(self.prepared(which, secret))
    }

    fn prepared_key_file(&self, which: NodeKey) -> PathBuf {
        self.path.join(format!("{}.new", which.file()))
    }

    fn prepared(&self, which: NodeKey, secret: Secret) -> PreparedKey {
        PreparedKey {
            secret,
            path: self.prepared_key_file(which),
            target: self.key_file(which),
        }
    }
}

/// A private file with a future key. The caller keeps or discards it.
#[derive(Debug)]
pub(crate) struct PreparedKey {
    secret: Secret,
    path: PathBuf,
    target: PathBuf,
}

impl PreparedKey {
    /// Returns the secret in the file.
    pub(crate) fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Renames the file to its final name, durably. The key of an earlier store is kept in another file.
    pub(crate) fn keep(&self) -> io::Result<()> {
        if self.target.try_exists()? {
            let kept = (1..u32::MAX)
                .map(|number| self.target.with_extension(format!("key.{number}")))
                .find(|path| !path.exists())
                .unwrap_or_else(|| self.target.with_extension("key.old"));
            fs::rename(&self.target, kept)?;
        }
        fs::rename(&self.path, &self.target)?;
        sync_folder(&self.target)
    }

    /// Replaces the previous key atomically and durably: a reader finds either the old or the new one.
    fn replace(&self) -> io::Result<()> {
        fs::rename(&self.path, &self.target)?;
        sync_folder(&self.target)
    }

    /// Removes the file: its secret is no key.
    pub(crate) fn discard(self) {
        // If it remains, the next start replaces it.
        let _removed = fs::remove_file(&self.path);
    }
}

impl Owner {
    /// Whether taking the folder has made it.
    pub(crate) const fn is_new_folder(&self) -> bool {
        self.is_new_folder
    }

    /// Tells other commands where this engine answers.
    pub(crate) fn announce(&self, engine: &RunningEngine) -> Result<()> {
        let text = serde_json::to_string(engine).map_err(|e| Failure::internal(e.to_string()))?;
        let write = |mut file: &File| {
            file.set_len(0)?;
            file.rewind()?;
            file.write_all(text.as_bytes())
        };
        write(&self.file).map_err(|e| failed("cannot write", Path::new(ENGINE_FILE), &e))
    }
}

fn read_engine(mut file: &File) -> Option<RunningEngine> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

/// Whether neither the file nor its folder exists.
pub(crate) fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn random_number() -> Result<u64> {
    getrandom::u64().map_err(|error| Failure::internal(format!("no random numbers: {error}")))
}

/// Makes sure that the folder of `path` has its entry.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = private().create(true).truncate(true).open(path)?;
    file.write_all(text.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()
}

/// Replaces a file that only this user can read, in one step.
pub(crate) fn replace_private(path: &Path, text: &str) -> io::Result<()> {
    let mut unfinished = path.file_name().unwrap_or_default().to_owned();
    unfinished.push(".new");
    let unfinished = path.with_file_name(unfinished);
    // A file that a killed process has left may be readable by others.
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    write_new(&unfinished, text.trim_end())
        .and_then(|()| fs::rename(&unfinished, path))
        .and_then(|()| sync_folder(path))
}

/// The failure of a command that needs a key of the engine if none was found.
pub(crate) fn no_key(data_dir: &DataDir, mode: Mode) -> Failure {
    let message = match mode {
        Mode::SelfHosted => format!(
            "no API key: set SORTIE_API_KEY to one that `sortie keys create` has made (there is no {})",
            data_dir.key_file(NodeKey::Admin).display()
        ),
        Mode::Hosted => format!("no API key: set SORTIE_API_KEY to a key of an organization; {HOSTED_KEYS}"),
    };
    Failure::new(Exit::Denied, message)
}

/// Source of the API keys of a hosted deployment.
pub(crate) const HOSTED_KEYS: &str = "on a hosted deployment the owner and the admins of each organization make them, on \
                                      the page of the organization's keys";

#[cfg(test)]
#[path = "data_dir_tests.rs"]
mod tests;
