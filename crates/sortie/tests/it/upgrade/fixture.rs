//! A database of an earlier version, as it lies in the repository: its records as SQL, and beside them the contents of
//! its files, the secrets of its keys, and answers that the version gave.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sortie_testkit::{
    Answer, Client, Database, Node, NodeOptions, Records, http::HeaderValue, postgres::TestDatabase,
    sqlite_file::file_from_sql, until,
};
use tempfile::TempDir;

use super::options;

/// Part of a fixture beside the records.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(super) struct Beside {
    /// Secrets of keys, and ids, by the names that the maker gave them.
    pub(super) names: BTreeMap<String, String>,
    /// Contents of files and artifacts, by their paths in the data folder.
    contents: BTreeMap<String, String>,
    /// Answers of the earlier version.
    pub(super) answers: Vec<Recorded>,
}

/// An answer of the earlier version to a `GET`.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Recorded {
    /// Path and query.
    pub(super) path: String,
    /// Whether the node adds elements to the arrays of the answer by itself.
    pub(super) grows: bool,
    /// The body.
    pub(super) body: Value,
}

impl Beside {
    /// The text that the maker gave a name.
    pub(super) fn name(&self, name: &str) -> Result<&str> {
        let text = self.names.get(name).with_context(|| format!("no {name}"))?;
        Ok(text)
    }

    /// Takes up the contents of a node that is down.
    pub(super) fn keep_contents(&mut self, data: &Path) -> Result<()> {
        let mut folders = vec![data.join("blobs")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder)? {
                let path = entry?.path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let content = fs::read_to_string(&path).context("the contents of the fixture are text")?;
                let name = path.strip_prefix(data)?.to_str().context("a path of a content")?;
                self.contents.insert(name.to_owned(), content);
            }
        }
        Ok(())
    }
}

/// The folder of the fixtures.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/upgrade/recorded")
}

fn files(database: Database) -> (PathBuf, PathBuf) {
    let name = database.as_str().to_lowercase();
    let file = |ending: &str| folder().join(format!("{name}.{ending}"));
    (file("sql"), file("json"))
}

/// Writes the fixture of a node that is down.
pub(super) fn write(database: Database, node: &Node, mut beside: Beside) -> Result<()> {
    beside.keep_contents(node.data_dir())?;
    let (sql, json) = files(database);
    fs::write(sql, node.records_as_sql()?)?;
    fs::write(json, serde_json::to_string_pretty(&beside)? + "\n")?;
    Ok(())
}

/// Starts the present binary on the fixture, after `also` was done to its records.
pub(super) async fn start(database: Database, also: &str) -> Result<(Node, Beside)> {
    let (sql, json) = files(database);
    let sql = fs::read_to_string(sql)? + also;
    let beside: Beside = serde_json::from_str(&fs::read_to_string(json)?)?;
    let data = TempDir::new()?;
    for (name, content) in &beside.contents {
        let path = data.path().join(name);
        fs::create_dir_all(path.parent().context("a content is in a folder")?)?;
        fs::write(path, content)?;
    }
    let records = match database {
        Database::Sqlite => {
            file_from_sql(&data.path().join("sortie.db"), &sql)?;
            Records::InDataFolder { copy_of: None }
        }
        Database::Postgres => {
            let fresh = TestDatabase::postgres().await?;
            fresh.execute(&sql).await?;
            // Without a file of an engine in it, the folder would be refused as somebody else's.
            fs::write(data.path().join("node_name"), "upgraded")?;
            Records::Shared(Arc::new(fresh))
        }
    };
    let options = NodeOptions {
        data_from: Some(data.path().to_owned()),
        ..options()
    };
    let admin = beside.name("admin")?.to_owned();
    let node = Node::on(env!("CARGO_BIN_EXE_sortie"), records, options, Some(admin)).await?;
    Ok((node, beside))
}

/// `GET`, as JSON also where a stream is the default. Waits while the answer is 503: the node asks an earlier one for
/// what only that had in memory, until it is declared lost.
pub(super) async fn get(client: &Client, path: &str) -> Result<Answer> {
    let json = HeaderValue::from_static("application/json");
    let client = client.clone().with_header("accept", json);
    let look = async || client.get(path).await;
    until(path, look, |answer| answer.status != 503)
        .await?
        .expect(200)
}

/// The body of [`get`], with the items of all pages where it is a page.
pub(super) async fn whole(client: &Client, path: &str) -> Result<Value> {
    let mut body = get(client, path).await?.json()?;
    let separator = if path.contains('?') { '&' } else { '?' };
    while let Some(cursor) = body["next_cursor"].as_str().filter(|cursor| !cursor.is_empty()) {
        let next = format!("{path}{separator}cursor={cursor}");
        let mut next = get(client, &next).await?.json()?;
        let mut items = body["items"].as_array().cloned().unwrap_or_default();
        items.append(next["items"].as_array_mut().context("a page has items")?);
        next["items"] = items.into();
        body = next;
    }
    Ok(body)
}

/// Checks that everything of an earlier answer is in the present one: fields and, where it `grows`, elements may have
/// been added.
pub(super) fn ensure_kept(before: &Value, now: &Value, grows: bool) -> Result<()> {
    match (before, now) {
        (Value::Object(before), Value::Object(now)) => {
            for (name, value) in before {
                let of_now = now
                    .get(name)
                    .with_context(|| format!("{name} is gone: {now:?}"))?;
                ensure_kept(value, of_now, grows).with_context(|| format!("in {name}"))?;
            }
        }
        (Value::Array(before), Value::Array(now)) if grows => {
            for value in before {
                let kept = now.iter().any(|of_now| ensure_kept(value, of_now, grows).is_ok());
                ensure!(kept, "an element is gone: {value}");
            }
        }
        (Value::Array(before), Value::Array(now)) => {
            ensure!(before.len() == now.len(), "{} elements: {now:?}", now.len());
            for (at, (value, of_now)) in before.iter().zip(now).enumerate() {
                ensure_kept(value, of_now, grows).with_context(|| format!("in element {at}"))?;
            }
        }
        _ => ensure!(before == now, "{before} is now {now}"),
    }
    Ok(())
}
