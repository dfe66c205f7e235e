//! Databases that are made once and copied for each test, which takes a fraction of the time of the migrations.
//!
//! The name of a template includes the checksum of the migrations, so a changed migration leads to a new one.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use sha2::{Digest as _, Sha256};

/// Makes the new `SQLite` file `file` a copy of a [template](sqlite_template).
pub async fn copy_sqlite_template(
    file: &Path,
    template: &str,
    make: impl AsyncFnOnce(&str) -> Result<()>,
) -> Result<()> {
    let kept = sqlite_template(template, make).await?;
    fs::copy(&kept, file).with_context(|| format!("cannot copy {}", kept.display()))?;
    Ok(())
}

/// Returns the `SQLite` file that `make` creates at the given address. The first test that names the `template` calls
/// `make`, which must close the file before it returns.
pub(crate) async fn sqlite_template(
    template: &str,
    make: impl AsyncFnOnce(&str) -> Result<()>,
) -> Result<PathBuf> {
    let folder = folder()?;
    let kept = folder.join(format!("{}.db", versioned(template)?));
    if !kept.exists() {
        let making = tempfile::tempdir_in(&folder).context("cannot make a folder for a template")?;
        let first = making.path().join("made.db");
        make(&format!("sqlite:{}", first.display())).await?;
        write_log_back(&first)?;
        // If another test makes it at the same time, it replaces this file by an equal one.
        fs::rename(&first, &kept).with_context(|| format!("cannot keep {}", kept.display()))?;
    }
    Ok(kept)
}

/// Checkpoints the log of a database into its file, so that a copy of the file is complete. The last connection to
/// close leaves the log if it cannot write.
fn write_log_back(file: &Path) -> Result<()> {
    let connection = rusqlite::Connection::open(file)?;
    let mode: String = connection.query_row("PRAGMA journal_mode", (), |row| row.get(0))?;
    let is_busy: bool = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |row| row.get(0))?;
    ensure!(mode == "wal" && !is_busy, "{} is still open", file.display());
    Ok(())
}

/// Folder of the files, next to the test binary.
fn folder() -> Result<PathBuf> {
    let program = env::current_exe().context("cannot find out which program this is")?;
    let beside = program.parent().context("the program is in no folder")?;
    let folder = beside.join("sqlite-templates");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// Returns the name of a template with the start of the SHA-256 of all migrations, in hexadecimal.
pub(crate) fn versioned(template: &str) -> Result<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../store/migrations");
    let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut files = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    files.sort();
    let mut digest = Sha256::new();
    for file in files {
        digest.update(fs::read(file)?);
    }
    let digest = digest.finalize();
    let start = digest.iter().take(8);
    Ok(start.fold(format!("{template}_"), |name, byte| name + &format!("{byte:02x}")))
}
