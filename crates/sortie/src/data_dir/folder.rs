//! The folder itself: private to this user, hidden from version control, and never one with foreign files.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use rustix::fs::Access;

use super::{
    DataDir, ENGINE_FILE, MASTER_KEY_FILE, NAME_FILE, NodeKey, failed, random_number, sync_folder, write_new,
};
use crate::{
    failure::{Failure, Result},
    terminal,
};

/// File that hides the folder from Git.
pub(crate) const IGNORE_FILE: &str = ".gitignore";

/// Rule that makes Git ignore everything in a folder.
const EVERYTHING: &str = "*";

/// Files that mark a folder as a data folder. An operator may put a database or a key there before the first start.
const OWN_FILES: [&str; 5] = [
    NAME_FILE,
    MASTER_KEY_FILE,
    "sortie.db",
    NodeKey::Admin.file(),
    NodeKey::Operator.file(),
];

/// Start of the text that an engine writes into its file.
const ENGINE_TEXT: &[u8] = b"{\"url\":";

/// Entries of a folder that is empty otherwise: that of the root of a file system, and the settings of a node.
const EMPTY_BUT: [&str; 2] = ["lost+found", "sortie.toml"];

fn make_private(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Makes version control ignore a folder that may hold keys.
pub(crate) fn hide_from_git(folder: &Path) -> io::Result<()> {
    let path = folder.join(IGNORE_FILE);
    write_new(&path, EVERYTHING).and_then(|()| sync_folder(&path))
}

/// Returns the rules of version control in a folder; empty if it has none.
fn read_rules(folder: &Path) -> io::Result<String> {
    match fs::read(folder.join(IGNORE_FILE)) {
        Ok(rules) => Ok(String::from_utf8_lossy(&rules).into_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error),
    }
}

/// Whether `engine.json` in a folder is that of an engine. A start empties the file, so a foreign file must not pass. A
/// power cut may leave a part of the text, or zeros instead.
fn has_engine_file(folder: &Path) -> io::Result<bool> {
    let text = fs::read(folder.join(ENGINE_FILE))?;
    let length = text.len().min(ENGINE_TEXT.len());
    Ok(text.first() == Some(&0) || text.get(..length) == ENGINE_TEXT.get(..length))
}

/// Removes the permissions of other users on an empty folder. A folder of another user, such as a mounted volume, is
/// left as it is: its files are private, and `sortie doctor` warns.
fn close_to_others(folder: &Path) -> io::Result<()> {
    let found = fs::metadata(folder)?;
    if found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o077 != 0 {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Makes a private folder that version control ignores, in one step: the folder never exists under its name without the
/// ignore file. Returns false if another process has created it first. `unfinished` is a free name next to it.
pub(super) fn make_hidden(path: &Path, unfinished: &Path) -> io::Result<bool> {
    fs::DirBuilder::new().mode(0o700).create(unfinished)?;
    match hide_from_git(unfinished).and_then(|()| fs::rename(unfinished, path)) {
        Ok(()) => Ok(true),
        Err(error) => {
            // A leftover folder would be empty and harmless.
            let _removed =
                fs::remove_file(unfinished.join(IGNORE_FILE)).and_then(|()| fs::remove_dir(unfinished));
            let is_taken = matches!(
                error.kind(),
                io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists
            );
            if is_taken && path.is_dir() {
                Ok(false)
            } else {
                Err(error)
            }
        }
    }
}

impl DataDir {
    /// Makes the folder and its parents. Only this user can read it. Returns whether no engine has used the folder
    /// before. Version control ignores the folder, for it holds keys.
    ///
    /// # Errors
    /// The errors of [`Self::is_used`].
    pub(crate) fn create(&self) -> Result<bool> {
        let failed = |error: io::Error| failed("cannot make the data folder", &self.path, &error);
        if let Some(above) = self.path.parent() {
            make_private(above).map_err(failed)?;
        }
        if !self.path.is_dir() {
            let mut name = self.path.file_name().unwrap_or_default().to_owned();
            name.push(format!(".{:016x}", random_number()?));
            if make_hidden(&self.path, &self.path.with_file_name(name)).map_err(failed)? {
                return Ok(true);
            }
        }
        let is_used = self.is_used()?;
        // A copy of a data folder may lack the file. A file with rules of the user is kept.
        if read_rules(&self.path).map_err(failed)?.trim().is_empty() {
            hide_from_git(&self.path).map_err(failed)?;
        }
        if !is_used {
            close_to_others(&self.path).map_err(failed)?;
        }
        Ok(!is_used)
    }

    /// Whether an engine has used the folder. False for a missing or empty folder.
    ///
    /// # Errors
    /// Fails for a folder that has only foreign files. It belongs to another program: keys and a database in it would be
    /// committed, published or deleted with the rest.
    pub(crate) fn is_used(&self) -> Result<bool> {
        let failed = |error: io::Error| failed("cannot read the data folder", &self.path, &error);
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(failed(error)),
        };
        let mut foreign = None;
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            let is_own = OWN_FILES.iter().any(|own| name == *own);
            if is_own || name == ENGINE_FILE && has_engine_file(&self.path).map_err(failed)? {
                return Ok(true);
            }
            if name != IGNORE_FILE && EMPTY_BUT.iter().all(|entry| name != *entry) {
                foreign = Some(name);
            }
        }
        if !["", EVERYTHING].contains(&read_rules(&self.path).map_err(failed)?.trim()) {
            foreign = Some(IGNORE_FILE.into());
        }
        match foreign {
            None => Ok(false),
            Some(name) => Err(Failure::usage(format!(
                "the data folder {} has files, such as {}, and none of them is Sortie's: its database and keys would lie \
                 among them; name another folder, or an empty one, by --data-dir (SORTIE_DATA_DIR)",
                self.path.display(),
                terminal::harmless(&name.to_string_lossy())
            ))),
        }
    }

    /// Checks that an engine can write in the folder, or in its parent if it does not exist yet.
    pub(crate) fn check_writable(&self) -> Result<()> {
        let there = self.path.ancestors().find(|path| path.symlink_metadata().is_ok());
        // The folder above a relative path has no name.
        let there = there.unwrap_or(Path::new("."));
        let failed = |error: io::Error| failed("cannot write in", there, &error);
        if !fs::metadata(there).map_err(failed)?.is_dir() {
            return Err(failed(io::ErrorKind::NotADirectory.into()));
        }
        let access = Access::WRITE_OK | Access::EXEC_OK;
        rustix::fs::access(there, access).map_err(|error| failed(error.into()))
    }

    /// Makes the folder for the working directories of runs.
    pub(crate) fn work(&self) -> Result<PathBuf> {
        let path = self.path.join("work");
        make_private(&path).map_err(|e| failed("cannot make", &path, &e))?;
        Ok(path)
    }
}
