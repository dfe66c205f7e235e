//! Connection to a `SQLite` database: its settings, and statements on it.

use std::{borrow::Cow, collections::HashMap, path::Path};

use rusqlite::{
    CachedStatement, ErrorCode, OpenFlags, StatementStatus,
    config::DbConfig,
    types::{ToSqlOutput, Value, ValueRef},
};

use super::{checkpoint::Log, space::Space};
use crate::{
    Dialect, Error, Result,
    hooks::{HookPoints as _, Hooks},
    known_budgets::KnownBudgets,
    tail::Tail,
    tx::{Answer, Stmt, Tx},
    value::{Row, Val},
};

/// Number of prepared statements that each connection caches.
const STATEMENTS: usize = 256;

/// Settings of every connection. A commit is on disk before it is answered.
pub(super) const SETTINGS: &str = "PRAGMA busy_timeout = 5000; PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY; \
                        PRAGMA synchronous = FULL; PRAGMA mmap_size = 0;";

/// Connection, together with the transaction that is open on it.
pub(crate) struct Connection {
    inner: rusqlite::Connection,
    /// Mark of the disk, which a write without space sets.
    space: Option<Space>,
    /// Translates SQL for this database.
    translate: fn(&str) -> String,
    /// Translated SQL by the address and length of the original.
    texts: HashMap<(usize, usize), String>,
    /// Tails of jobs that are not written yet.
    pub(super) tails: Vec<Tail>,
    /// Budgets as this connection has read them. Cleared after every rollback.
    pub(super) budgets: KnownBudgets,
    pub(super) hooks: Hooks,
}

impl Connection {
    /// Opens the connection that writes. It notes each commit in the log.
    pub(super) fn writer(path: &Path, space: &Space, log: &mut Log) -> Result<Self> {
        let mut connection = Self::open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        connection.space = Some(space.clone());
        let mode: String = connection
            .inner
            .query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))
            .map_err(|error| connection.failed(error))?;
        if mode != "wal" {
            return Err(Error::Database(format!(
                "the file system of {} does not support SQLite's write-ahead log",
                path.display()
            )));
        }
        connection.script("PRAGMA cache_size = -16384;")?;
        let hooked = connection.inner.wal_hook(Some(log.hook()));
        hooked.map_err(|error| connection.failed(error))?;
        Ok(connection)
    }

    /// Opens a connection for queries and checkpoints. If it is the last one on a database, it checkpoints the log when
    /// it closes, as every connection that can write does.
    pub(super) fn unchanged(path: &Path) -> Result<Self> {
        Self::open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
    }

    /// Opens a connection that cannot write.
    pub(super) fn reader(path: &Path) -> Result<Self> {
        Self::open(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
    }

    fn open(path: &Path, access: OpenFlags) -> Result<Self> {
        let inner = rusqlite::Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)
            .map_err(failure)?;
        let connection = Self::over(inner, |sql| Dialect::Sqlite.translate(sql))?;
        connection.script(SETTINGS)?;
        Ok(connection)
    }

    /// Opens a database in memory, with SQL that `translate` has translated.
    #[cfg(feature = "simulation")]
    pub(crate) fn in_memory(translate: fn(&str) -> String) -> Result<Self> {
        let inner = rusqlite::Connection::open_in_memory().map_err(failure)?;
        Self::over(inner, translate)
    }

    fn over(inner: rusqlite::Connection, translate: fn(&str) -> String) -> Result<Self> {
        inner.set_prepared_statement_cache_capacity(STATEMENTS);
        // Without it SQLite prepares a cached statement again whenever a parameter of a LIMIT or of a comparison has another
        // value, which cost a third of the processor time of a run.
        inner
            .set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
            .map_err(failure)?;
        Ok(Self {
            inner,
            space: None,
            translate,
            texts: HashMap::new(),
            tails: Vec::new(),
            budgets: KnownBudgets::default(),
            hooks: Hooks::default(),
        })
    }

    /// Runs statements without parameters, and ignores their rows.
    pub(crate) fn script(&self, sql: &str) -> Result<()> {
        self.inner.execute_batch(sql).map_err(|error| self.failed(error))
    }

    /// Runs a statement that begins, ends or divides a transaction. It comes from the statement cache.
    pub(crate) fn control(&self, sql: &'static str) -> Result<()> {
        self.inner
            .prepare_cached(sql)
            .and_then(|mut statement| statement.raw_execute())
            .map(drop)
            .map_err(|error| self.failed(error))
    }

    /// Converts an error of the driver, and marks the disk as full if that is the cause.
    fn failed(&self, error: rusqlite::Error) -> Error {
        let Some(space) = &self.space else {
            return failure(error);
        };
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => {
                space.is_over(&error);
                space.error()
            }
            // `SQLite` reports this error if the `-wal` or `-shm` file cannot grow, and also if the disk is broken.
            Some(ErrorCode::SystemIoFailure) if space.finds_none() => {
                space.is_over(&error);
                space.error()
            }
            Some(_) | None => failure(error),
        }
    }

    /// Number of rows that were changed on this connection so far, whether or not the changes were kept.
    pub(super) fn changes(&self) -> u64 {
        self.inner.total_changes()
    }

    /// Whether no transaction is open.
    pub(crate) fn is_idle(&self) -> bool {
        self.inner.is_autocommit()
    }

    /// Runs statements of the same SQL, which is taken from the statement cache once.
    fn same(&mut self, statements: &[Stmt<'_>], answers: &mut Vec<Answer>) -> Result<()> {
        let Some(first) = statements.first() else {
            return Ok(());
        };
        let text = self
            .texts
            .entry(address(first))
            .or_insert_with(|| (self.translate)(first.sql));
        let mut prepared = self.inner.prepare_cached(text).map_err(failure)?;
        for statement in statements {
            let answer = self.one(&mut prepared, statement)?;
            self.hooks
                .stepped(|| prepared.reset_status(StatementStatus::VmStep));
            statement.check(&answer)?;
            answers.push(answer);
        }
        Ok(())
    }

    fn one(&self, prepared: &mut CachedStatement<'_>, statement: &Stmt<'_>) -> Result<Answer> {
        if prepared.parameter_count() != statement.params.len() {
            return Err(Error::Database(format!(
                "{} parameters for a statement that takes {}",
                statement.params.len(),
                prepared.parameter_count()
            )));
        }
        for (number, value) in (1..).zip(&statement.params) {
            prepared
                .raw_bind_parameter(number, borrowed(value.checked()?))
                .map_err(failure)?;
        }
        if prepared.column_count() > 0 {
            let rows = all_rows(prepared)?.map_err(|error| self.failed(error))?;
            return Ok(Answer {
                affected: u64::try_from(rows.len()).unwrap_or(u64::MAX),
                rows,
            });
        }
        let affected = prepared.raw_execute().map_err(|error| self.failed(error))?;
        Ok(Answer {
            affected: u64::try_from(affected).unwrap_or(u64::MAX),
            rows: Vec::new(),
        })
    }
}

/// Address and length of the SQL of a statement.
fn address(statement: &Stmt<'_>) -> (usize, usize) {
    (statement.sql.as_ptr().addr(), statement.sql.len())
}

impl Tx for Connection {
    fn is_local(&self) -> bool {
        true
    }

    fn known_budgets(&mut self) -> Option<&mut KnownBudgets> {
        Some(&mut self.budgets)
    }

    fn tail(&mut self, tail: Tail) {
        self.tails.push(tail);
    }

    fn batch(&mut self, statements: &[Stmt<'_>]) -> Result<Vec<Answer>> {
        let mut answers = Vec::with_capacity(statements.len());
        for same in statements.chunk_by(|one, next| address(one) == address(next)) {
            self.same(same, &mut answers)?;
        }
        Ok(answers)
    }
}

fn borrowed<'a>(value: &'a Val<'_>) -> ToSqlOutput<'a> {
    ToSqlOutput::Borrowed(match value {
        Val::Null => ValueRef::Null,
        Val::Int(number) => ValueRef::Integer(*number),
        Val::Text(text) => ValueRef::Text(text.as_bytes()),
        Val::Blob(bytes) => ValueRef::Blob(bytes),
    })
}

/// Returns every row, or the error of the driver.
fn all_rows(statement: &mut CachedStatement<'_>) -> Result<rusqlite::Result<Vec<Row>>> {
    let columns = statement.column_count();
    let mut cursor = statement.raw_query();
    let mut rows = Vec::new();
    loop {
        let row = match cursor.next() {
            Ok(Some(row)) => row,
            Ok(None) => return Ok(Ok(rows)),
            Err(error) => return Ok(Err(error)),
        };
        let values = (0..columns)
            .map(|column| match row.get::<_, Value>(column).map_err(failure)? {
                Value::Null => Ok(Val::Null),
                Value::Integer(number) => Ok(Val::Int(number)),
                Value::Text(text) => Ok(Val::Text(Cow::Owned(text))),
                Value::Blob(bytes) => Ok(Val::Blob(Cow::Owned(bytes))),
                Value::Real(_) => Err(Error::Corrupt(format!("column {column} is a fraction"))),
            })
            .collect::<Result<_>>()?;
        rows.push(Row(values));
    }
}

/// Converts an error of the driver. It is [`Error::Unavailable`] if another try may succeed.
#[expect(clippy::needless_pass_by_value, reason = "the shape `map_err` takes")]
pub(super) fn failure(error: rusqlite::Error) -> Error {
    let passing = error.sqlite_error_code().is_some_and(|code| {
        matches!(
            code,
            ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
                | ErrorCode::CannotOpen
                | ErrorCode::ReadOnly
                | ErrorCode::OutOfMemory
        )
    });
    if passing {
        Error::Unavailable(error.to_string())
    } else if error.sqlite_error_code().is_some_and(is_of_damage) {
        Error::Database(DAMAGED.to_owned())
    } else {
        Error::Database(error.to_string())
    }
}

/// Whether the database file itself is damaged.
const fn is_of_damage(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
}

/// Cause and remedy if the database file is damaged.
const DAMAGED: &str = "the file is damaged, or is no database: put a backup in its place (docs/OPERATIONS.md), or move it \
                       away with the files beside it, and an empty database is made";

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;
    use sortie_testkit::postgres::TestDatabase;

    use super::{
        super::{beside, checkpoint},
        *,
    };
    use crate::vals;

    #[test]
    fn a_broken_disk_is_not_taken_for_a_full_one() {
        let database = TestDatabase::sqlite().unwrap();
        let path = Path::new(database.url().strip_prefix("sqlite:").unwrap());
        std::fs::write(path, "").unwrap();
        let space = Space::of(path);
        let connection = Connection::writer(path, &space, &mut checkpoint::log(path).0).unwrap();
        let broken = || {
            let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_WRITE);
            rusqlite::Error::SqliteFailure(code, None)
        };
        let told = connection.failed(broken());
        assert!(
            matches!(&told, Error::Unavailable(cause) if cause.contains("I/O")),
            "{told}"
        );
        assert!(!space.is_full());
        // Every write to this device finds no space.
        std::os::unix::fs::symlink("/dev/full", beside(path, "-trial")).unwrap();
        assert_eq!(connection.failed(broken()), space.error());
        assert!(space.is_full());
    }

    #[test]
    fn a_cached_statement_is_not_prepared_again_for_other_values() {
        let inner = rusqlite::Connection::open_in_memory().unwrap();
        let mut connection = Connection::over(inner, |sql| Dialect::Sqlite.translate(sql)).unwrap();
        connection
            .script("CREATE TABLE row (id TEXT PRIMARY KEY, number BIGINT)")
            .unwrap();
        let sql = "SELECT id FROM row WHERE ($2 = 0 OR number < $2) ORDER BY id LIMIT $1";
        for value in [0_i64, 1, 5, 64] {
            connection.batch(&[Stmt::new(sql, vals![value, value])]).unwrap();
        }
        let text = (connection.translate)(sql);
        let statement = connection.inner.prepare_cached(&text).unwrap();
        assert_eq!(statement.get_status(StatementStatus::Run), 4);
        assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
    }
}
