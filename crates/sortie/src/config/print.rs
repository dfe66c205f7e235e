//! The configuration in effect, for people and for machines. Secrets are left out.

use serde_json::{Map, json};
use toml::{Table, Value};
use zeroize::Zeroize as _;

use super::{
    layers::{DEFAULT, KEYS, Layers, variable},
    network,
    values::{self, HIDDEN},
};

/// Sections with tables that the operator names, and their values without any table.
fn tables() -> [(&'static str, serde_json::Value); 4] {
    [
        ("providers", json!({})),
        ("models", json!({})),
        ("sign_in.oidc", json!([])),
        ("license.plans", json!([])),
    ]
}

/// Keys with values that are entirely secret.
const SECRETS: [&str; 7] = [
    "api_key",
    "client_secret",
    "headers",
    "master_key",
    "secret_key",
    "signing_key",
    "webhook_secrets",
];

/// Whether the value of a key is secret, or an address with a secret in it.
pub(super) fn is_secret(key: &str) -> bool {
    let name = key.rsplit('.').next().unwrap_or_default();
    SECRETS.contains(&name) || ["database_url", "smtp_url", "proxy"].contains(&name)
}

/// Overwrites the texts of a value.
pub(super) fn overwrite(value: &mut Value) {
    match value {
        Value::String(text) => text.zeroize(),
        Value::Array(entries) => entries.iter_mut().for_each(overwrite),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) | Value::Table(_) => {}
    }
}

/// Overwrites what may not be shown.
pub(super) fn redact(table: &mut Table) {
    for (name, value) in table {
        match (name.as_str(), value) {
            (_, Value::Table(inner)) => redact(inner),
            (_, Value::Array(entries)) if entries.iter().any(Value::is_table) => {
                entries
                    .iter_mut()
                    .filter_map(Value::as_table_mut)
                    .for_each(redact);
            }
            ("database_url" | "smtp_url", Value::String(url)) => replace(url, values::redact(url)),
            ("proxy", Value::String(proxy)) => replace(proxy, network::shown(proxy)),
            (name, value) if SECRETS.contains(&name) => {
                overwrite(value);
                *value = Value::String(HIDDEN.to_owned());
            }
            _ => {}
        }
    }
}

fn replace(secret: &mut String, shown: String) {
    secret.zeroize();
    *secret = shown;
}

/// Prints a line for each key, in the form of the file, followed by its source.
pub(super) fn as_toml(layers: &Layers) -> String {
    let mut section = "";
    let lines = KEYS.iter().map(|key| {
        let (table, name) = key.name.rsplit_once('.').unwrap_or(("", &key.name));
        let heading = if table == section {
            String::new()
        } else {
            format!("\n[{table}]\n")
        };
        section = table;
        match (layers.get(&key.name), layers.source(&key.name)) {
            (None, _) => format!("{heading}# {name} is not set\n"),
            (Some(value), None) => format!("{heading}{name} = {value}\n"),
            (Some(value), Some(source)) => {
                let line = format!("{name} = {value}");
                format!("{heading}{line:<40} # {source}\n")
            }
        }
    });
    let text: String = lines.collect();
    let mut named = Layers::default();
    for (section, _) in tables() {
        if let Some(value) = layers.get(section) {
            named.set(section, value.clone(), None);
        }
    }
    if named.table().is_empty() {
        return text;
    }
    text + "\n" + &named.table().to_string()
}

/// An object by key: value, source, and the variable that would override it.
pub(super) fn as_json(layers: &Layers) -> serde_json::Value {
    let mut object = Map::new();
    for key in KEYS.iter() {
        let source = layers.source(&key.name).unwrap_or(DEFAULT);
        let variable = variable(&key.name);
        let entry = match layers.get(&key.name) {
            Some(value) => json!({"value": value, "source": source, "variable": variable}),
            None => json!({"source": source, "variable": variable}),
        };
        object.insert(key.name.clone(), entry);
    }
    for (section, none) in tables() {
        object.insert(
            section.to_owned(),
            layers.get(section).map_or(none, |value| json!(value)),
        );
    }
    object.into()
}
