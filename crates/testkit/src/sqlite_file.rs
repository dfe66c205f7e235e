//! `SQLite` files: their rows, and their form as statements.

use std::path::Path;

use anyhow::Result;
use rusqlite::{Connection, OpenFlags, types::ValueRef};
use serde_json::{Map, Value};

/// The rows of a query on a `SQLite` file, each as an object with its columns; bytes are shown as text.
pub(crate) fn file_rows(file: &Path, sql: &str) -> Result<Vec<Value>> {
    let file = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    file.busy_timeout(std::time::Duration::from_secs(10))?;
    let mut statement = file.prepare(sql)?;
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut rows = statement.query(())?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let mut object = Map::new();
        for (index, name) in names.iter().enumerate() {
            let value = match row.get_ref(index)? {
                ValueRef::Null => Value::Null,
                ValueRef::Integer(number) => number.into(),
                ValueRef::Real(number) => number.into(),
                ValueRef::Text(bytes) | ValueRef::Blob(bytes) => String::from_utf8_lossy(bytes).into(),
            };
            object.insert(name.clone(), value);
        }
        all.push(Value::Object(object));
    }
    Ok(all)
}

/// Runs statements that add many rows to a `SQLite` file. No node uses the file, and a power cut may lose the rows.
pub(crate) fn file_bulk(file: &Path, sql: &str) -> Result<()> {
    let file = Connection::open(file)?;
    file.execute_batch("PRAGMA synchronous = OFF; PRAGMA cache_size = -262144")?;
    Ok(file.execute_batch(sql)?)
}

/// Syncs the changes of [`file_bulk`] to the disk. Otherwise the first commit of a node waits for that.
pub(crate) fn file_to_disk(file: &Path) -> Result<()> {
    Ok(std::fs::File::open(file)?.sync_all()?)
}
