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
        ("master_key", _) => Value::String("***".to_owned()),
        (_, value) => value.clone(),
    }
}

/// One line a key, in the form of the file, with its source behind it.
pub(super) fn as_toml(layers: &Layers) -> String {
    let mut section = "";
    KEYS.iter()
        .map(|(key, _)| {
            let (table, name) = key.rsplit_once('.').unwrap_or(("", key));
            let heading = if table == section {
                String::new()
            } else {
                format!("\n[{table}]\n")
            };
            section = table;
            let Some(setting) = layers.get(key) else {
                return format!("{heading}# {name} is not set\n");
            };
            let line = format!("{name} = {}", shown(key, setting));
            if setting.source == Source::Default {
                format!("{heading}{line}\n")
            } else {
                format!("{heading}{line:<40} # {}\n", setting.source)
            }
        })
        .collect()
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
