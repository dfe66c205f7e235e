//! The configuration in effect, for people and for machines. Secrets are left out.

use std::fmt::Write as _;

use serde_json::json;
use sortie_accounts::IdentityProvider;
use sortie_api::model::ModelPrices;
use sortie_billing::Plan;
use sortie_models::{ModelSettings, ProviderSettings, Settings};
use toml::Value;

use super::{
    layers::{KEYS, Layers, Setting, Source, variable},
    network, plans, sign_in,
    values::redact,
};

/// Text in the place of a redacted secret.
pub(super) const HIDDEN: &str = "***";

/// The providers and the operator's models, in the form of the file.
pub(super) fn providers_as_toml(settings: &Settings) -> String {
    let mut text = String::new();
    for provider in &settings.providers {
        text.push_str(&format_provider(provider));
    }
    for model in &settings.models {
        // Writing to a `String` cannot fail.
        let _infallible = writeln!(text, "\n[models.{:?}]", model.id);
        for (key, value) in figures(model) {
            let _infallible = writeln!(text, "{key} = {value}");
        }
    }
    text
}

/// The operator's models by id, as far as the configuration describes them.
pub(super) fn models(settings: &Settings) -> serde_json::Value {
    settings
        .models
        .iter()
        .map(|model| {
            let figures = figures(model).into_iter();
            let figures = figures.map(|(key, value)| (key.to_owned(), value));
            (model.id.clone(), serde_json::Value::Object(figures.collect()))
        })
        .collect()
}

/// A model, key by key. Its prices include those that follow from others.
fn figures(model: &ModelSettings) -> Vec<(&'static str, serde_json::Value)> {
    let mut figures = Vec::new();
    let texts = [
        ("provider", &model.provider),
        ("upstream", &model.upstream),
        ("name", &model.name),
    ];
    figures.extend(
        texts
            .into_iter()
            .filter_map(|(key, text)| Some((key, text.clone()?.into()))),
    );
    let sizes = [
        ("context_window", model.context_window),
        ("max_output_tokens", model.max_output_tokens),
    ];
    figures.extend(
        sizes
            .into_iter()
            .filter_map(|(key, size)| Some((key, size?.into()))),
    );
    match model.prices {
        None => {}
        Some(prices) if prices == ModelPrices::default() => figures.push(("free", true.into())),
        Some(prices) => figures.extend(
            [
                ("input_micros_per_mtok", prices.input_micros_per_mtok),
                ("output_micros_per_mtok", prices.output_micros_per_mtok),
                ("cache_read_micros_per_mtok", prices.cache_read_micros_per_mtok),
                ("cache_write_micros_per_mtok", prices.cache_write_micros_per_mtok),
            ]
            .map(|(key, price)| (key, price.get().into())),
        ),
    }
    figures.extend(
        model
            .capabilities
            .clone()
            .map(|names| ("capabilities", names.into())),
    );
    figures.extend(model.effort.map(|effort| ("effort", effort.as_str().into())));
    figures
}

fn format_provider(provider: &ProviderSettings) -> String {
    let mut text = format!("\n[providers.{}]\n", provider.name);
    for (key, value) in described(provider) {
        let _infallible = writeln!(text, "{key} = {value:?}");
    }
    text
}

/// The providers by name: protocol, address, and whether there is a key.
pub(super) fn providers(settings: &Settings) -> serde_json::Value {
    settings
        .providers
        .iter()
        .map(|provider| {
            let entry = described(provider)
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value.into()));
            (provider.name.clone(), serde_json::Value::Object(entry.collect()))
        })
        .collect()
}

/// A provider, key by key, without its key.
fn described(provider: &ProviderSettings) -> Vec<(&'static str, String)> {
    let mut described = vec![("api", super::providers::api_name(provider.api).to_owned())];
    described.extend(
        provider
            .base_url
            .as_ref()
            .map(|url| ("base_url", url.to_string())),
    );
    described.extend(provider.key.as_ref().map(|_| ("api_key", HIDDEN.to_owned())));
    described.extend(provider.proxy().map(|proxy| ("proxy", proxy.to_string())));
    described
}

fn shown(key: &str, setting: &Setting) -> Value {
    match (key, &setting.value) {
        ("database_url" | "smtp_url", Value::String(url)) => Value::String(redact(url)),
        ("network.proxy", Value::String(proxy)) => Value::String(network::shown(proxy)),
        (
            "web.search.api_key"
            | "master_key"
            | "license.signing_key"
            | "traces.headers"
            | "stripe.secret_key"
            | "stripe.webhook_secrets",
            _,
        ) => Value::String(HIDDEN.to_owned()),
        (_, value) => value.clone(),
    }
}

/// Prints a line for each key, in the form of the file, with its source behind it.
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
pub(super) fn as_json(
    layers: &Layers,
    settings: &Settings,
    (sign_in, plans): (&[IdentityProvider], &[Plan]),
) -> serde_json::Value {
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
        .chain([
            ("providers".to_owned(), providers(settings)),
            ("models".to_owned(), models(settings)),
            (sign_in::SECTION.to_owned(), sign_in::as_json(sign_in)),
            (plans::SECTION.to_owned(), plans::as_json(plans)),
        ])
        .collect::<serde_json::Map<_, _>>()
        .into()
}
