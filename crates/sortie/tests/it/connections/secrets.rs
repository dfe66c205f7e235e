//! Credentials planted everywhere, and a service that sends them back in every form: the test searches everything that
//! the engine shows, records and stores, and finds none.

use std::path::Path;

use aho_corasick::AhoCorasick;
use anyhow::bail;
use sortie_testkit::service::forms;

use super::{calls, put};
use crate::prelude::*;

both_databases![no_credential_comes_out_in_any_form];

/// With characters that every encoding changes.
const SECRETS: [&str; 7] = [
    "tok/7f3a+\"q\"=&x9Zk<m>",
    "hdr\\51c8+/'y'%w2",
    "qry 88d0/+?&=k\u{e4}z",
    "pas:s4e1b/+\"&~ ",
    "inl/0c27+\"=\"&b6Tq",
    "mcp-9a64+/=\"k\"&d1",
    "url-3ee5+!$'()*,d7",
];

/// Collects the files below a folder, with their bytes.
pub(crate) fn files(folder: &Path, found: &mut Vec<(String, Vec<u8>)>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files(&path, found)?;
        } else if path.is_file() {
            found.push((path.display().to_string(), std::fs::read(&path)?));
        }
    }
    Ok(())
}

/// Places that were searched, with their bytes.
#[derive(Default)]
pub(crate) struct Looked(pub(crate) Vec<(String, Vec<u8>)>);

impl Looked {
    pub(crate) fn add(&mut self, place: &str, text: impl Into<Vec<u8>>) {
        self.0.push((place.to_owned(), text.into()));
    }

    /// Checks that no form of a text is anywhere.
    pub(crate) fn without(&self, secret: &str) -> Result<()> {
        let mut texts = Vec::new();
        for form in forms(secret) {
            texts.push(serde_json::to_string(&form)?.trim_matches('"').to_owned());
            texts.push(form);
        }
        // A single pass for all forms, because it searches megabytes.
        let any = AhoCorasick::new(&texts)?;
        for (place, bytes) in &self.0 {
            if let Some(found) = any.find(bytes) {
                bail!("{secret:?} is in {place}, as {}", texts[found.pattern()]);
            }
        }
        Ok(())
    }
}

async fn look(client: &Client, looked: &mut Looked, id: &str) -> Result<()> {
    for path in ["", "/definition", "/events"] {
        let path = format!("/v1/runs/{id}{path}");
        let as_json = client.with_header("accept", "application/json");
        looked.add(&path, as_json.get(&path).expect(200).await?.text());
    }
    Ok(())
}

fn definitions(service: &Service) -> Value {
    let echo = format!("{}/echo", service.url());
    let [token, header, query, password, _, mcp, _] = SECRETS;
    json!({
        "bearer": {"type": "http", "url": echo, "auth": {"type": "bearer", "token": token}},
        "header": {"type": "http", "url": echo, "auth": {"type": "header", "name": "X-Api-Key", "value": header}},
        "query": {"type": "http", "url": echo, "auth": {"type": "query", "name": "key", "value": query}},
        "basic": {"type": "http", "url": echo, "auth": {"type": "basic", "username": "ann", "password": password.trim()}},
        "mcp": {"type": "mcp", "url": format!("{}/mcp", service.url()), "headers": {"X-Key": mcp}},
    })
}

async fn no_credential_comes_out_in_any_form(database: Database) -> Checked {
    let service = Service::start().await?;
    let options = NodeOptions::default().env("SORTIE_LOG_FILTER", "trace");
    let (node, client) = started_with(database, options).await?;
    let mut looked = Looked::default();
    let mut connections = json!({
        "inline": {"type": "http", "url": format!("{}/echo?k={}", service.url(), "url-3ee5%2B%21$%27%28%29%2A%2Cd7"),
            "auth": {"type": "bearer", "token": SECRETS[4]}},
    });
    for (name, definition) in definitions(&service).as_object().into_iter().flatten() {
        looked.add(name, put(&client, name, definition).expect(201).await?.text());
        connections[name] = json!({"ref": name});
    }
    let call = |status: u16| json!({"method": "POST", "path": "/x", "query": {"status": status.to_string()}, "json": {"a": 1}});
    let mut runs = Vec::new();
    for status in [200, 400, 500] {
        for name in ["bearer", "header", "query", "basic", "inline"] {
            let (events, run) = client
                .complete(&calls(
                    &[(&format!("{name}__request"), call(status))],
                    &connections,
                ))
                .await?;
            looked.add("the stream", serde_json::to_string(&events)?);
            runs.push(run.id.to_string());
        }
    }
    let (_, run) = client
        .complete(&calls(&[("mcp__echo", json!({}))], &connections))
        .await?;
    runs.push(run.id.to_string());
    for id in &runs {
        look(&client, &mut looked, id).await?;
    }
    // Each was really sent and sent back.
    let received = serde_json::to_string(
        &service
            .received()
            .iter()
            .map(|one| (&one.query, &one.headers))
            .collect::<Vec<_>>(),
    )?;
    for sent in [
        "tok/7f3a",
        "hdr",
        "qry",
        "YW5uOnBhczpzNGUxY",
        "inl/0c27",
        "mcp-9a64",
        "url-3ee5",
    ] {
        ensure!(received.contains(sent), "{sent} was not sent");
    }
    looked.add("the list", client.get("/v1/connections").await?.text());
    looked.add("the log", node.log());
    stored(&node, &mut looked).await?;
    for secret in SECRETS {
        looked.without(secret.trim())?;
    }
    ensure!(
        looked
            .0
            .iter()
            .any(|(_, bytes)| bytes.windows(10).any(|part| part == b"[redacted]"))
    );
    Ok(())
}

/// The data folder, except the master key, and the database, whether it is a file there or not.
async fn stored(node: &Node, looked: &mut Looked) -> Result<()> {
    let before = looked.0.len();
    files(node.data_dir(), &mut looked.0)?;
    ensure!(looked.0.len() > before, "the data folder is empty");
    let tables = node.dump().await?;
    let tables = tables
        .into_iter()
        .map(|(table, bytes)| (format!("sortie.db: {table}"), bytes));
    looked.0.extend(tables);
    // Make sure that the searched bytes are really the stored ones.
    for stored in ["connection_call", "[redacted]"] {
        let has_it = |bytes: &[u8]| bytes.windows(stored.len()).any(|part| part == stored.as_bytes());
        ensure!(
            looked
                .0
                .iter()
                .any(|(place, bytes)| place.contains("sortie.db") && has_it(bytes)),
            "{stored} is in no table"
        );
    }
    let key = std::fs::read_to_string(node.data_dir().join("master.key")).context("no master key")?;
    ensure!(!node.log().contains(key.trim()), "the master key is logged");
    Ok(())
}
