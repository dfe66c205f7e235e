//! Checks of the data folder, the database and the storage of this machine's configuration. The checks never change the
//! database.

use std::{cmp::Ordering, os::unix::fs::PermissionsExt as _, path::Path};

use sortie_api::check::{Check, Verdict};
use sortie_store::{Store, installation::DatabaseInfo};

use crate::{
    config::Config,
    data_dir::{self, DataDir, Purpose},
    node::{engine_options, unopened},
};

pub(super) fn data_folder(config: &Config) -> Check {
    let (name, path) = ("data folder", config.data_dir.display());
    let data_dir = DataDir::new(&config.data_dir);
    let usable = data_dir
        .check_writable()
        .and_then(|()| data_dir.is_used())
        .and_then(|_| data_dir.running_engine().map(drop));
    if let Err(failure) = usable {
        return Check::new(name, Verdict::Fault, failure.to_string());
    }
    match std::fs::metadata(&config.data_dir) {
        Ok(found) if found.permissions().mode() & 0o077 != 0 => {
            Check::new(name, Verdict::Warning, path.to_string())
                .hint(format!("others can look into it: chmod 700 {path}"))
        }
        Ok(_) => Check::new(name, Verdict::Ok, path.to_string()),
        Err(_) => Check::new(name, Verdict::Ok, format!("{path} (made at the first start)")),
    }
}

pub(super) async fn database(config: &Config) -> Check {
    let name = "database";
    let url = config.database_url.to_string();
    let engine = DataDir::new(&config.data_dir).running_engine().ok().flatten();
    if let (Some(engine), Some(_)) = (&engine, config.database_url.sqlite_path()) {
        return Check::new(
            name,
            Verdict::Ok,
            format!("{url} (in use by the engine at {})", engine.url),
        );
    }
    match config.database_url.sqlite_path().map(Path::try_exists) {
        None | Some(Ok(true)) => {}
        Some(Ok(false)) => {
            return Check::new(name, Verdict::Ok, format!("{url} (made at the first start)"));
        }
        Some(Err(error)) => {
            let told = data_dir::failed("cannot read the database", Path::new(&url), &error);
            return Check::new(name, Verdict::Fault, told.to_string());
        }
    }
    match Store::inspect(config.database_url.expose()).await {
        Ok(info) => schema(&url, &info),
        Err(error) => Check::new(name, Verdict::Fault, unopened(config, &error).to_string()).hint(
            "mend its disk or its server, mount a read-only disk for writing, or name another data folder (--data-dir) \
             or database (--database-url)",
        ),
    }
}

/// Compares the schema of a database with that of this program. The check never migrates the database.
fn schema(url: &str, info: &DatabaseInfo) -> Check {
    let DatabaseInfo {
        kind,
        version,
        migration,
        known_migration: known,
    } = info;
    let found = format!("{url}: {kind} {version}, migration {migration}");
    let check = |verdict, found| Check::new("database", verdict, found);
    match migration.cmp(known) {
        Ordering::Equal => check(Verdict::Ok, found),
        Ordering::Less if *migration == 0 => check(
            Verdict::Ok,
            format!("{url}: {kind} {version} (its tables are made at the first start)"),
        ),
        Ordering::Less => check(
            Verdict::Warning,
            format!("{found}, which is older than this version with {known}"),
        )
        .hint("the next start of this version migrates it; versions before do not start on it then"),
        Ordering::Greater => check(
            Verdict::Fault,
            format!("{found}, which is newer than this version with {known}"),
        )
        .hint("this version does not start on it: use the one that has migrated it, or a newer one"),
    }
}

/// Writes, reads and deletes a test content where file contents are stored.
pub(super) async fn storage(config: &Config) -> Check {
    let name = "storage";
    // A folder that no engine has used is left unchanged.
    if !matches!(DataDir::new(&config.data_dir).is_used(), Ok(true)) {
        let url = config.blob_url.as_deref().unwrap_or("below the data folder");
        return Check::new(
            name,
            Verdict::Ok,
            format!("{url} (not tried before the first start)"),
        );
    }
    let options = engine_options(config, String::new(), Purpose::OneCommand);
    match options.prove_storage().await {
        Ok(url) => Check::new(name, Verdict::Ok, format!("{url}: written, read and deleted")),
        Err(reason) => Check::new(name, Verdict::Fault, reason).hint(
            "files cannot be saved until this works, and runs that need it wait; runs without files go on",
        )
        .hint("mend it, mount a read-only disk for writing, or name another storage by blob_url"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_of_another_version_is_told() {
        let of = |migration| {
            let info = DatabaseInfo {
                kind: "SQLite".to_owned(),
                version: "3".to_owned(),
                migration,
                known_migration: 31,
            };
            schema("sqlite:x", &info)
        };
        for (migration, verdict, words) in [
            (0, Verdict::Ok, "first start"),
            (30, Verdict::Warning, "migration 30, which is older"),
            (31, Verdict::Ok, "migration 31"),
            (32, Verdict::Fault, "migration 32, which is newer"),
        ] {
            let check = of(migration);
            assert_eq!(check.verdict, verdict, "{check:?}");
            assert!(check.found.contains(words), "{check:?}");
        }
    }
}
