//! The configuration in effect, for people and for machines. Secrets are left out.

use std::collections::BTreeMap;

use serde_json::json;
use sortie_models::{ProviderSettings, Settings};
use toml::Value;

use super::{
    layers::{KEYS, Layers, Setting, Source, variable},
    values::redact,
};

/// What stands in the place of a secret that is set.
const HIDDEN: &str = "***";

/// The providers and the operator's models, in the form of the file.
pub(super) fn providers_as_toml(settings: &Settings) -> String {
    let mut text = String::new();
    for (name, entry) in providers(settings) {
        text += &format!("\n[providers.{name}]\n");
        for (key, value) in entry.as_object().into_iter().flatten() {
            text += &format!("{key} = {value}\n");
        }
    }
    for model in &settings.models {
        let provider = model.provider.as_deref().unwrap_or("its own");
        text += &format!("\n[models.{:?}] # of provider {provider}\n", model.id);
    }
    text
}

/// The providers by name: protocol, address, and whether there is a key.
pub(super) fn providers(settings: &Settings) -> BTreeMap<String, serde_json::Value> {
    let entry = |provider: &ProviderSettings| {
        let mut entry = json!({ "api": super::providers::api_name(provider.api) });
        if let Some(url) = &provider.base_url {
            entry["base_url"] = url.as_str().into();
        }
        if provider.key.is_some() {
            entry["api_key"] = HIDDEN.into();
        }
        entry
    };
    settings
        .providers
        .iter()
        .map(|provider| (provider.name.clone(), entry(provider)))
        .collect()
}

fn shown(key: &str, setting: &Setting) -> Value {
    match (key, &setting.value) {
        ("database_url", Value::String(url)) => Value::String(redact(url)),
        ("web.search.api_key", _) => Value::String(HIDDEN.to_owned()),
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
