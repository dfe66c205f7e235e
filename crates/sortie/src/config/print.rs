//! The configuration in effect, for people and for machines. Secrets are left out.

use serde_json::json;
use toml::Value;

use super::{
    layers::{KEYS, Layers, Setting, Source, variable},
    values::redact,
};

fn shown(key: &str, setting: &Setting) -> Value {
    match (key, &setting.value) {
        ("database_url", Value::String(url)) => Value::String(redact(url)),
        (_, value) => value.clone(),
    }
}

/// One line a key, in the form of the file, with its source behind it.
pub(super) fn as_toml(layers: &Layers) -> String {
    let mut text = String::new();
    let mut section = "";
    for (key, _) in KEYS {
        let (table, name) = key.rsplit_once('.').unwrap_or(("", key));
        if table != section {
            text += &format!("\n[{table}]\n");
            section = table;
        }
        match layers.get(key) {
            Some(setting) => {
                let line = format!("{name} = {}", shown(key, setting));
                text += &match &setting.source {
                    Source::Default => format!("{line}\n"),
                    source => format!("{line:<40} # {source}\n"),
                };
            }
            None => text += &format!("# {name} is not set\n"),
        }
    }
    text
}

/// An object by key: value, source, and the variable that would override it.
pub(super) fn as_json(layers: &Layers) -> serde_json::Value {
    KEYS.iter()
        .map(|(key, _)| {
            let entry = match layers.get(key) {
                Some(setting) => json!({
                    "value": shown(key, setting),
                    "source": setting.source.to_string(),
                    "variable": variable(key),
                }),
                None => json!({ "source": "default", "variable": variable(key) }),
            };
            ((*key).to_owned(), entry)
        })
        .collect::<serde_json::Map<_, _>>()
        .into()
}
