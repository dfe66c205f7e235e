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

/// Makes a `SQLite` file of the statements that [`file_as_sql`] wrote.
pub fn file_from_sql(file: &Path, sql: &str) -> Result<()> {
    Ok(Connection::open(file)?.execute_batch(sql)?)
}

/// Runs statements that add many rows to a `SQLite` file. No node is on it, and nobody misses what a power cut would lose.
pub(crate) fn file_bulk(file: &Path, sql: &str) -> Result<()> {
    let file = Connection::open(file)?;
    file.execute_batch("PRAGMA synchronous = OFF; PRAGMA cache_size = -262144")?;
    Ok(file.execute_batch(sql)?)
}

/// Writes what [`file_bulk`] has added to the disk. Otherwise the first commit of a node waits until the system has done that.
pub(crate) fn file_to_disk(file: &Path) -> Result<()> {
    Ok(std::fs::File::open(file)?.sync_all()?)
}

/// A `SQLite` file as statements that make it again. No node is on it.
pub(crate) fn file_as_sql(file: &Path) -> Result<String> {
    let file = Connection::open(file)?;
    let texts = |sql: &str| -> Result<Vec<String>> {
        let mut statement = file.prepare(sql)?;
        let rows = statement.query_map((), |row| row.get(0))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    };
    // Nobody may make the tables of SQLite itself, such as its statistics.
    let schema = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite%'";
    let mut statements = vec!["PRAGMA foreign_keys = OFF".to_owned(), "BEGIN".to_owned()];
    statements.extend(texts(&format!("{schema} AND type = 'table' ORDER BY name"))?);
    for table in texts(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql IS NOT NULL AND name NOT LIKE 'sqlite%' ORDER BY name",
    )? {
        let columns = texts(&format!(
            "SELECT 'quote(' || name || ')' FROM pragma_table_info('{table}')"
        ))?;
        let values = columns.join(" || ', ' || ");
        statements.extend(texts(&format!(
            "SELECT 'INSERT INTO {table} VALUES (' || {values} || ')' FROM {table}"
        ))?);
    }
    statements.extend(texts(&format!("{schema} AND type <> 'table' ORDER BY name"))?);
    statements.push("COMMIT;\n".to_owned());
    Ok(statements.join(";\n"))
}
