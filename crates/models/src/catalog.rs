//! The catalog: the models that a node offers, each with its client.
//!
//! The catalog does not guess. It rejects a model with an unknown provider, size or price, and an unusable default model, with
//! an error that names it. `runbook` is always available.

use std::{collections::HashSet, fmt, sync::Arc, time::Duration};

use sortie_agent::{Model, runbook};
use sortie_api::model::ModelInfo;
use sortie_net::{EngineClient, Timeouts};
use url::Url;

use crate::{
    builtin,
    provider::{END_WAIT, Entry, InvalidSettings, Provider},
    settings::{ModelSettings, ProviderSettings, Settings},
};

/// Timeout to connect to a provider.
const CONNECT: Duration = Duration::from_secs(10);

/// The models of a node.
pub struct Catalog {
    /// Model of runs that do not name one. It is one of `models`.
    pub default_model: String,
    /// Whether the default is `runbook` only because there is no other model, and not because the settings name it.
    pub is_stopgap: bool,
    /// Usable models, `runbook` last, with unique ids.
    pub models: Vec<Arc<dyn Model>>,
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<_> = self.models.iter().map(|model| &model.info().id).collect();
        f.debug_struct("Catalog")
            .field("default_model", &self.default_model)
            .field("is_stopgap", &self.is_stopgap)
            .field("models", &ids)
            .finish()
    }
}

/// Builds the catalog: for each provider in order its built-in models, then the operator's. The models of a provider share one
/// connection pool. The error names the wrong setting.
pub fn catalog(settings: &Settings) -> Result<Catalog, InvalidSettings> {
    let runbook = runbook();
    let offline = runbook.info().id.clone();
    let own = own_models(settings, &offline)?;
    let mut models = provided(settings, &own)?;
    models.push(runbook);
    Ok(Catalog {
        default_model: default_model(settings, &models)?,
        is_stopgap: settings.default_model.is_none() && models.len() == 1,
        models,
    })
}

/// Returns the models of all providers, in order.
fn provided(settings: &Settings, own: &[Entry]) -> Result<Vec<Arc<dyn Model>>, InvalidSettings> {
    let mut names = HashSet::new();
    let mut models = Vec::new();
    for provider in &settings.providers {
        if provider.name.is_empty() || !names.insert(&provider.name) {
            return Err(refused(format!(
                "provider {:?}: the name of a provider must be unique",
                provider.name
            )));
        }
        let ready = Provider {
            name: provider.name.clone(),
            base: base(provider)?,
            key: provider.key.clone(),
            http: client(provider, settings.silence)?,
            end_wait: END_WAIT,
        };
        for entry in entries(provider, own) {
            models.push((provider.api.0.client)(&ready, entry)?);
        }
    }
    Ok(models)
}

fn refused(sentence: String) -> InvalidSettings {
    InvalidSettings(sentence)
}

/// Creates the HTTP client of a provider.
pub(crate) fn client(
    provider: &ProviderSettings,
    silence: Duration,
) -> Result<EngineClient, InvalidSettings> {
    let timeouts = Timeouts {
        connect: CONNECT,
        read: silence,
        total: None,
    };
    EngineClient::through(&provider.outbound, timeouts).map_err(|error| {
        refused(format!(
            "provider {:?}: no HTTP client can be made: {error}",
            provider.name
        ))
    })
}

/// Returns the base address of a provider, without a trailing slash.
pub(crate) fn base(provider: &ProviderSettings) -> Result<Url, InvalidSettings> {
    let wrong = |rule: &str| refused(format!("provider {:?}: base_url {rule}", provider.name));
    let mut base = match &provider.base_url {
        Some(url) => url.clone(),
        None => provider
            .api
            .0
            .home
            .parse()
            .map_err(|_| wrong("is required: this provider has no default address"))?,
    };
    if !matches!(base.scheme(), "http" | "https") || base.host().is_none() {
        return Err(wrong("must begin with http:// or https:// and name a host"));
    }
    if !base.username().is_empty() || base.password().is_some() {
        return Err(wrong("must not carry a user name or a password"));
    }
    if base.query().is_some() || base.fragment().is_some() {
        return Err(wrong("must not have a query or a fragment"));
    }
    let path = base.path().trim_end_matches('/').to_owned();
    base.set_path(&path);
    Ok(base)
}

/// Completes and checks the operator's models.
fn own_models(settings: &Settings, offline: &str) -> Result<Vec<Entry>, InvalidSettings> {
    let mut ids = HashSet::new();
    let mut own = Vec::new();
    for model in &settings.models {
        if !ids.insert(&model.id) {
            return Err(wrong(model, "there is another model of this id"));
        }
        if model.id == offline {
            return Err(wrong(model, "this id belongs to the offline model"));
        }
        let entry = complete(model)?;
        let provider = &entry.info.provider;
        if !settings.providers.iter().any(|known| known.name == *provider) {
            return Err(wrong(model, &format!("provider {provider:?} is not configured")));
        }
        own.push(entry);
    }
    Ok(own)
}

fn wrong(model: &ModelSettings, why: &str) -> InvalidSettings {
    refused(format!("model {:?}: {why}", model.id))
}

/// Completes a model of the operator with the figures of the built-in model with the same id.
fn complete(model: &ModelSettings) -> Result<Entry, InvalidSettings> {
    let known = builtin::find(&model.id);
    let known = known.as_ref();
    let needs = |what: &str| wrong(model, what);
    if model.id.trim().is_empty() {
        return Err(needs("id must not be empty"));
    }
    let provider = model
        .provider
        .clone()
        .or_else(|| known.map(|m| m.provider.clone()));
    let name = model.name.clone().or_else(|| known.map(|m| m.name.clone()));
    let window = model.context_window.or_else(|| known.map(|m| m.context_window));
    let output = model
        .max_output_tokens
        .or_else(|| known.map(|m| m.max_output_tokens));
    let prices = model.prices.or_else(|| known.map(|m| m.prices));
    let capabilities = model
        .capabilities
        .clone()
        .or_else(|| known.map(|m| m.capabilities.clone()));
    let info = ModelInfo {
        provider: provider.ok_or_else(|| needs("provider is missing"))?,
        name: name.unwrap_or_else(|| model.id.clone()),
        context_window: window.ok_or_else(|| needs("context_window is missing"))?,
        max_output_tokens: output.ok_or_else(|| needs("max_output_tokens is missing"))?,
        prices: prices
            .ok_or_else(|| needs("input_micros_per_mtok and output_micros_per_mtok are missing; a model that costs nothing says free = true"))?,
        capabilities: capabilities.unwrap_or_else(|| vec!["tools".to_owned()]),
        id: model.id.clone(),
    };
    if info.max_output_tokens == 0 || info.max_output_tokens > info.context_window {
        return Err(needs("max_output_tokens must be from 1 to context_window"));
    }
    if let Some(unknown) = info
        .capabilities
        .iter()
        .find(|can| !builtin::ALL.contains(&can.as_str()))
    {
        return Err(needs(&format!(
            "capability {unknown:?} must be one of {}",
            builtin::ALL.join(", ")
        )));
    }
    Ok(Entry {
        upstream: model.upstream.clone().unwrap_or_else(|| model.id.clone()),
        info,
        effort: model.effort,
    })
}

/// Returns the models of a provider. An operator's model replaces the built-in one with the same id, even if it belongs to
/// another provider.
fn entries<'a>(provider: &'a ProviderSettings, own: &'a [Entry]) -> impl Iterator<Item = Entry> + 'a {
    let of_own = |id: &str| own.iter().find(|entry| entry.info.id == id);
    let builtins =
        builtin::offered(&provider.name, provider.api).filter_map(move |info| match of_own(&info.id) {
            Some(own) if own.info.provider == provider.name => Some(own.clone()),
            Some(_) => None,
            None => Some(Entry {
                upstream: info.id.clone(),
                info,
                effort: None,
            }),
        });
    let others = own.iter().filter(|entry| {
        entry.info.provider == provider.name
            && builtin::offered(&provider.name, provider.api).all(|builtin| builtin.id != entry.info.id)
    });
    builtins.chain(others.cloned())
}

/// Returns the configured default model, or the first available one.
fn default_model(settings: &Settings, models: &[Arc<dyn Model>]) -> Result<String, InvalidSettings> {
    let mut ids = models.iter().map(|model| &model.info().id);
    let Some(wanted) = &settings.default_model else {
        return Ok(ids.next().cloned().unwrap_or_default());
    };
    if ids.any(|id| id == wanted) {
        return Ok(wanted.clone());
    }
    let known: Vec<_> = models.iter().map(|model| model.info().id.as_str()).collect();
    Err(refused(format!(
        "default_model: {wanted:?} must be one of the usable models: {}",
        known.join(", ")
    )))
}

#[cfg(test)]
mod tests;
