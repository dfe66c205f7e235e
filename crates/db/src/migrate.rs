//! Migrations of a program, and the check against those that a database has.
//!
//! Each migration is applied once, in order, in a transaction that also records its checksum. `PostgreSQL` uses one
//! transaction per migration, because their locks stop other nodes; `SQLite` applies all missing ones in a single
//! transaction. A database that was migrated by a newer binary, or with another text under the same number, is refused.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use crate::{Error, ReadRow, Result, row, select, tx::Tx, vals, value::Row};

/// Migration from a file of the folder `crates/store/migrations`.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// Number, from 1 without gaps.
    pub version: i64,
    pub name: &'static str,
    /// Statements, with tokens such as `{BLOB}` that each dialect replaces.
    pub text: &'static str,
}

/// Tables that a program knows.
#[derive(Clone, Copy, Debug)]
pub struct Schema {
    /// Every migration, in order.
    pub migrations: &'static [Migration],
    /// Rows of `sqlite_stat1`, which tell the planner of `SQLite` how well each index selects, ordered by table and
    /// index: table, index, and its number of rows with the average number that have the same values in its first
    /// column, in its first two, and so on. For the primary key, the index has the name of the table.
    pub statistics: &'static [(&'static str, &'static str, &'static str)],
}

/// Creates the table of applied migrations.
pub(super) const RECORD_TABLE: &str = "CREATE TABLE IF NOT EXISTS migration \
    (version BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL)";

/// Reads the applied migrations.
pub(super) const APPLIED: &str = select!(AppliedMigration, " FROM migration ORDER BY version");

row! {
    struct AppliedMigration {
        version: i64 = "version",
        name: String = "name",
        checksum: String = "checksum",
    }
}

impl Migration {
    /// Returns the SHA-256 of the text, in hexadecimal.
    pub(super) fn checksum(&self) -> String {
        Sha256::digest(self.text)
            .iter()
            .fold(String::with_capacity(64), |mut hex, byte| {
                // Writing to a String cannot fail.
                let _ = write!(hex, "{byte:02x}");
                hex
            })
    }

    /// Records the migration as applied, within its transaction.
    pub(super) fn record(&self, tx: &mut dyn Tx) -> Result<()> {
        tx.exec(
            "INSERT INTO migration (version, name, checksum) VALUES ($1, $2, $3)",
            vals![self.version, self.name, self.checksum()],
        )
        .map(drop)
    }
}

impl Schema {
    /// Returns the number of the newest migration that this program knows.
    pub fn newest_known(&self) -> i64 {
        self.migrations.last().map_or(0, |migration| migration.version)
    }

    /// Reads the number of the newest recorded migration, or 0. This program may not know that migration; the ones it
    /// knows must be in order.
    pub fn recorded(&self, tx: &mut dyn Tx) -> Result<i64> {
        let applied = tx.query_all(APPLIED, vals![])?;
        let newest = applied.last().map_or(Ok(0), Row::only)?;
        if newest <= self.newest_known() {
            pending(self.migrations, &applied)?;
        }
        Ok(newest)
    }

    /// Reads the number of the newest applied migration. Refuses a database that this program cannot open.
    pub fn newest(&self, tx: &mut dyn Tx) -> Result<i64> {
        let applied = tx.query_all(APPLIED, vals![])?;
        pending(self.migrations, &applied)?;
        applied
            .last()
            .ok_or_else(|| Error::Database("no migration was ever applied to it".to_owned()))?
            .only()
    }
}

/// Returns the migrations of `known` that are missing in a database with `applied` (the rows of [`APPLIED`]).
pub(super) fn pending<'a>(known: &'a [Migration], applied: &[Row]) -> Result<&'a [Migration]> {
    let newest_known = known.last().map_or(0, |migration| migration.version);
    for (position, row) in applied.iter().enumerate() {
        let AppliedMigration {
            version,
            name,
            checksum,
        } = AppliedMigration::read(row)?;
        if version > newest_known {
            return Err(Error::Database(format!(
                "the database is newer than this program: it has migration {version} ({name}), \
                 this program knows up to {newest_known}; start a newer version"
            )));
        }
        match known.get(position) {
            Some(migration) if migration.version != version => {
                return Err(Error::Database(format!(
                    "migration {} ({}) is missing in the database although later ones were applied",
                    migration.version, migration.name
                )));
            }
            Some(migration) if migration.checksum() != checksum => {
                return Err(Error::Database(format!(
                    "migration {version} ({name}) was changed after it was applied to this database"
                )));
            }
            Some(_) => {}
            None => {
                return Err(Error::Database(format!(
                    "the database has migration {version} ({name}), which this program does not know"
                )));
            }
        }
    }
    Ok(known.get(applied.len()..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Val;

    const TWO: [Migration; 2] = [
        Migration {
            version: 1,
            name: "one",
            text: "a",
        },
        Migration {
            version: 2,
            name: "two",
            text: "b",
        },
    ];

    fn applied(migrations: &[(i64, &str)]) -> Vec<Row> {
        migrations
            .iter()
            .map(|&(version, text)| {
                let migration = Migration {
                    version,
                    name: "x",
                    text: Box::leak(text.to_owned().into_boxed_str()),
                };
                Row(vec![
                    Val::Int(version),
                    Val::from("x".to_owned()),
                    Val::from(migration.checksum()),
                ])
            })
            .collect()
    }

    fn versions(known: &[Migration], rows: &[(i64, &str)]) -> Result<Vec<i64>, String> {
        pending(known, &applied(rows))
            .map(|rest| rest.iter().map(|migration| migration.version).collect())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn only_what_was_not_applied_is_pending() {
        assert_eq!(versions(&TWO, &[]), Ok(vec![1, 2]));
        assert_eq!(versions(&TWO, &[(1, "a")]), Ok(vec![2]));
        assert_eq!(versions(&TWO, &[(1, "a"), (2, "b")]), Ok(vec![]));
    }

    #[test]
    fn a_changed_migration_is_refused() {
        let message = versions(&TWO, &[(1, "other")]).unwrap_err();
        assert!(message.contains("was changed after it was applied"), "{message}");
    }

    #[test]
    fn a_missing_migration_is_refused() {
        let message = versions(&TWO, &[(2, "b")]).unwrap_err();
        assert!(message.contains("migration 1 (one) is missing"), "{message}");
    }

    #[test]
    fn a_newer_database_is_refused() {
        let message = versions(&TWO, &[(1, "a"), (2, "b"), (3, "c")]).unwrap_err();
        assert!(message.contains("newer than this program"), "{message}");
    }
}
