//! Providers and models: the tables of the file whose names the operator chooses, and the providers' usual variables.
//!
//! A provider that people know is on as soon as its key is there. Every other one is on when the file names it.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use serde::Deserialize;
use sortie_api::{Credential, Effort, Micros, model::ModelPrices, plain};
use sortie_models::{Api, ModelSettings, ProviderSettings, Settings, builtin_provider};
use sortie_net::{Outbound, check_form};
use toml::{Table, Value};
use url::Url;

use super::{Error, environment::Environment, layers::Layers, network};

/// The providers whose addresses and protocols are known, with the variables that hold their keys and addresses.
const KNOWN: &[(&str, Api, &str, &str)] = &[
    (
        "anthropic",
        Api::Anthropic,
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
    ),
    (
        "openai",
        Api::OpenaiResponses,
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
    ),
    ("gemini", Api::Gemini, "GEMINI_API_KEY", "GEMINI_BASE_URL"),
];

/// Keys of `[providers.NAME]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Provider {
    api: Option<String>,
    base_url: Option<String>,
    api_key: Option<Credential>,
    api_key_file: Option<PathBuf>,
    proxy: Option<String>,
    ca_file: Option<PathBuf>,
}

/// Keys of `[models."ID"]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Model {
    provider: Option<String>,
    upstream: Option<String>,
    name: Option<String>,
    context_window: Option<u64>,
    max_output_tokens: Option<u64>,
    free: Option<bool>,
    input_micros_per_mtok: Option<Micros>,
    output_micros_per_mtok: Option<Micros>,
    cache_read_micros_per_mtok: Option<Micros>,
    cache_write_micros_per_mtok: Option<Micros>,
    capabilities: Option<Vec<String>>,
    effort: Option<Effort>,
}

/// Reads the providers and models of all layers.
pub(super) fn settings(
    layers: &Layers,
    (environment, outbound): (&Environment, &Outbound),
    default_model: Option<&str>,
    silence: Duration,
) -> Result<Settings, Error> {
    let mut tables: BTreeMap<String, Provider> = named(layers, "providers")?;
    for (name, _, key, base_url) in KNOWN {
        let key_file = format!("{key}_FILE");
        let (of_key, of_file) = (environment.get(key), environment.get(&key_file));
        if of_key.is_some() && of_file.is_some() {
            return Err(Error(format!(
                "providers.{name}.api_key: set {key} or {key_file}, not both"
            )));
        }
        let base_url = environment.get(base_url);
        if of_key.is_some() || of_file.is_some() || base_url.is_some() {
            let table = tables.entry((*name).to_owned()).or_default();
            // The environment wins over the file.
            table.base_url = base_url.map(str::to_owned).or(table.base_url.take());
            if of_key.is_some() || of_file.is_some() {
                table.api_key = of_key.map(Credential::new);
                table.api_key_file = of_file.map(PathBuf::from);
            }
        }
    }
    let models: BTreeMap<String, Model> = named(layers, "models")?;
    let providers: Vec<_> = tables
        .into_iter()
        .map(|(name, table)| provider(name, table, outbound))
        .collect::<Result<_, _>>()?;
    let api_of = |id: &str, table: &Model| {
        let name = table.provider.as_deref().or_else(|| builtin_provider(id))?;
        let provider = providers.iter().find(|provider| provider.name == name)?;
        Some(provider.api)
    };
    let models = models.into_iter().map(|(id, table)| {
        let api = api_of(&id, &table);
        model(id, table, api)
    });
    let models = models.collect::<Result<_, _>>()?;
    Ok(Settings {
        providers,
        models,
        default_model: default_model.map(str::to_owned),
        silence,
    })
}

/// Every table below `[section]`, by its name.
fn named<T: for<'de> Deserialize<'de>>(layers: &Layers, section: &str) -> Result<BTreeMap<String, T>, Error> {
    let Some(setting) = layers.table(section) else {
        return Ok(BTreeMap::new());
    };
    let wrong = |name: &str, rule: &dyn std::fmt::Display| {
        Error(format!("{section}.{name} ({}): {rule}", setting.source))
    };
    let Value::Table(entries) = &setting.value else {
        return Err(Error(format!("{section} ({}): must be a table", setting.source)));
    };
    entries
        .iter()
        .map(|(name, value)| {
            let Value::Table(table) = value else {
                return Err(wrong(name, &"must be a table"));
            };
            let read = Table::try_into(table.clone());
            let read = read.map_err(|error: toml::de::Error| wrong(name, &plain::rule(error.message())))?;
            Ok((name.clone(), read))
        })
        .collect()
}

fn provider(name: String, table: Provider, node: &Outbound) -> Result<ProviderSettings, Error> {
    let wrong = |key: &str, rule: &str| Error(format!("providers.{name}.{key}: {rule}"));
    let known = KNOWN
        .iter()
        .find(|(known, ..)| *known == name)
        .map(|(_, api, ..)| *api);
    let base_url = match &table.base_url {
        Some(text) => Some(base_url(text).ok_or_else(|| wrong("base_url", BASE_URL))?),
        None => None,
    };
    let api = match (table.api.as_deref(), known) {
        (Some(text), _) => api(text).ok_or_else(|| {
            wrong(
                "api",
                "must be `anthropic`, `openai-responses`, `openai-chat` or `gemini`",
            )
        })?,
        // What else answers at an address of the operator's own rarely speaks more than Chat Completions.
        (None, Some(Api::OpenaiResponses)) if base_url.is_some() => Api::OpenaiChat,
        (None, Some(api)) => api,
        (None, None) => return Err(wrong("api", "must be set for a provider of your own")),
    };
    if known.is_none() && base_url.is_none() {
        return Err(wrong("base_url", "must be set for a provider of your own"));
    }
    let key = match (table.api_key, table.api_key_file) {
        (Some(_), Some(_)) => return Err(wrong("api_key", "and api_key_file cannot both be set")),
        (Some(key), None) => Some(key),
        (None, Some(path)) => {
            let text = super::read_value(&path).map_err(|error| {
                wrong(
                    "api_key_file",
                    &format!("{}: cannot be read: {}", path.display(), plain::io(&error)),
                )
            })?;
            Some(Credential::new(text.trim()))
        }
        (None, None) => None,
    };
    if key.as_ref().is_some_and(|key| !is_header_text(key.expose())) {
        return Err(wrong(
            "api_key",
            "must be visible ASCII characters without spaces",
        ));
    }
    if key.is_none() && base_url.is_none() {
        return Err(wrong(
            "api_key",
            "must be set, or base_url of a server that wants none",
        ));
    }
    let outbound = network::of_provider(node, table.proxy.as_deref(), table.ca_file.as_deref())
        .map_err(|(key, rule)| wrong(key, &rule))?;
    Ok(ProviderSettings {
        name,
        api,
        base_url,
        key,
        outbound,
    })
}

fn is_header_text(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn api(text: &str) -> Option<Api> {
    [Api::Anthropic, Api::OpenaiResponses, Api::OpenaiChat, Api::Gemini]
        .into_iter()
        .find(|api| api_name(*api) == text)
}

/// Returns the value of `api`.
pub(super) const fn api_name(api: Api) -> &'static str {
    match api {
        Api::Anthropic => "anthropic",
        Api::OpenaiResponses => "openai-responses",
        Api::OpenaiChat => "openai-chat",
        Api::Gemini => "gemini",
    }
}

/// Rule for an address that requests are made below.
pub(super) const BASE_URL: &str =
    "must be an http:// or https:// address of a host, without user, query or fragment";

/// An address that requests are made below.
pub(super) fn base_url(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let is_bare = url.query().is_none() && url.fragment().is_none();
    (is_bare && check_form(&url).is_ok()).then_some(url)
}

/// Returns the default price of writing to the cache: with Anthropic a quarter more than other input, elsewhere the
/// same. None where the amount is too large.
fn cache_write_price(input: Micros, api: Option<Api>) -> Option<Micros> {
    if api != Some(Api::Anthropic) {
        return Some(input);
    }
    let input = input.get().unsigned_abs();
    Micros::new(input + input.div_ceil(4)).ok()
}

fn model(id: String, table: Model, api: Option<Api>) -> Result<ModelSettings, Error> {
    let wrong = |rule: &str| Error(format!("models.{id:?}: {rule}"));
    let all = [
        table.input_micros_per_mtok,
        table.output_micros_per_mtok,
        table.cache_read_micros_per_mtok,
        table.cache_write_micros_per_mtok,
    ];
    let prices = match (
        table.free,
        table.input_micros_per_mtok,
        table.output_micros_per_mtok,
    ) {
        (Some(true), ..) if all.iter().any(Option::is_some) => {
            return Err(wrong("free = true and a price cannot both be set"));
        }
        (Some(true), ..) => Some(ModelPrices::default()),
        (_, Some(input), Some(output)) => Some(ModelPrices {
            input_micros_per_mtok: input,
            output_micros_per_mtok: output,
            // Without a price of their own, tokens read from the cache cost what others do.
            cache_read_micros_per_mtok: table.cache_read_micros_per_mtok.unwrap_or(input),
            cache_write_micros_per_mtok: table
                .cache_write_micros_per_mtok
                .or_else(|| cache_write_price(input, api))
                .ok_or_else(|| wrong("input_micros_per_mtok is too large"))?,
        }),
        (_, None, None) if all.iter().all(Option::is_none) => None,
        _ => {
            return Err(wrong(
                "input_micros_per_mtok and output_micros_per_mtok must be set together",
            ));
        }
    };
    Ok(ModelSettings {
        id,
        provider: table.provider,
        upstream: table.upstream,
        name: table.name,
        context_window: table.context_window,
        max_output_tokens: table.max_output_tokens,
        prices,
        capabilities: table.capabilities,
        effort: table.effort,
    })
}
