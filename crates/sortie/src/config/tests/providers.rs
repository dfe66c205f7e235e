//! Providers and models in the configuration.

use super::*;
use sortie_testkit::rows;

pub(super) fn providers(file: &str, variables: &[(&str, &str)]) -> Result<sortie_models::Settings, String> {
    load(file, variables, &Flags::default(), SandboxPolicy::Required)
        .map(|config| config.models)
        .map_err(|error| error.0)
}

#[test]
fn a_known_provider_is_on_when_its_key_is_there_and_the_environment_wins() {
    assert!(providers("", &[]).unwrap().providers.is_empty());
    for own in ["api_key = \"of-the-file\"", "api_key_file = \"/nowhere\""] {
        let file = format!("[providers.anthropic]\n{own}");
        let settings = providers(&file, &[("ANTHROPIC_API_KEY", "of-the-environment")]).unwrap();
        let [anthropic] = settings.providers.as_slice() else {
            panic!("{settings:?}")
        };
        assert_eq!(anthropic.key.as_ref().unwrap().expose(), "of-the-environment");
        assert_eq!(anthropic.base_url, None);
    }
}

#[test]
fn the_key_of_a_known_provider_may_be_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    std::fs::write(&path, "of-its-own\n").unwrap();
    let path = path.to_str().unwrap();
    for (variable, name) in [
        ("ANTHROPIC_API_KEY_FILE", "anthropic"),
        ("OPENAI_API_KEY_FILE", "openai"),
        ("GEMINI_API_KEY_FILE", "gemini"),
    ] {
        let file = format!("[providers.{name}]\napi_key = \"of-the-file\"");
        for file in ["", &file] {
            let settings = providers(file, &[(variable, path)]).unwrap();
            let [provider] = settings.providers.as_slice() else {
                panic!("{settings:?}")
            };
            assert_eq!(provider.name, name);
            assert_eq!(provider.key.as_ref().unwrap().expose(), "of-its-own");
        }
    }
    let both = [("OPENAI_API_KEY", "k"), ("OPENAI_API_KEY_FILE", path)];
    assert_eq!(
        providers("", &both).unwrap_err(),
        "providers.openai.api_key: set OPENAI_API_KEY or OPENAI_API_KEY_FILE, not both"
    );
}

#[test]
fn a_server_behind_openais_variables_is_spoken_to_in_chat_completions_and_needs_no_key() {
    let settings = providers("", &[("OPENAI_BASE_URL", "http://127.0.0.1:11434/v1")]).unwrap();
    let [openai] = settings.providers.as_slice() else {
        panic!("{settings:?}")
    };
    assert_eq!((openai.api.name(), openai.key.is_none()), ("openai-chat", true));
    let own = providers("", &[("OPENAI_API_KEY", "k")]).unwrap();
    assert_eq!(own.providers[0].api.name(), "openai-responses");
}

#[test]
fn what_is_wrong_with_a_provider_or_a_model_is_told_with_its_name() {
    for (file, said) in rows! {
        "[providers.x]\nbase_url = \"http://h/v1\"",
        "providers.x.api (sortie.toml): must be set for a provider of your own";
        "[providers.x]\napi = \"openai-chat\"",
        "providers.x.base_url (sortie.toml): must be set for a provider of your own";
        "[providers.openai]\napi = \"soap\"",
        "providers.openai.api (sortie.toml): must be `anthropic`, `openai-responses`, `openai-chat` or `gemini`";
        "[providers.openai]\nbase_url = \"ftp://h\"",
        "providers.openai.base_url (sortie.toml): must be an http:// or https:// address of a host, without user, query or fragment";
        "[providers.openai]\napi_key = \"a\\nb\"",
        "providers.openai.api_key (sortie.toml): must be visible ASCII characters without spaces";
        "[providers.anthropic]",
        "providers.anthropic.api_key (sortie.toml): must be set, or base_url of a server that wants none";
        "[providers.openai]\napi_key = \"a\"\napi_key_file = \"b\"",
        "providers.openai.api_key (sortie.toml): and api_key_file cannot both be set";
        "[models.m]\ninput_micros_per_mtok = 1",
        "models.m (sortie.toml): input_micros_per_mtok and output_micros_per_mtok must be set together";
        "[models.m]\nfree = true\noutput_micros_per_mtok = 1",
        "models.m (sortie.toml): free = true and a price cannot both be set";
        "private_addresses = [\"web\"]",
        "private_addresses (sortie.toml): entry 1 must be `callbacks` or `connections`, not `web`";
    } {
        assert_eq!(refusal(file), said);
    }
    let unknown = refusal("[providers.openai]\nkey = \"a\"");
    assert!(
        unknown.starts_with(
            "sortie.toml: unknown key `providers.openai.key`; expected one of `api`, `base_url`"
        ),
        "{unknown}"
    );
    let unknown = refusal("[models.m]\nprice = 1");
    assert!(
        unknown.starts_with("sortie.toml: unknown key `models.m.price`; expected one of `provider`"),
        "{unknown}"
    );
    assert_eq!(
        refusal("providers = 1"),
        "providers (sortie.toml): must be a table, not the number 1"
    );
}

#[test]
fn a_model_of_ones_own_has_prices_in_micros_or_is_declared_free() {
    let file = "[models.a]\ninput_micros_per_mtok = 3\noutput_micros_per_mtok = 15\ncache_read_micros_per_mtok = 1\n\
                [models.b]\nfree = true\n[models.c]";
    let settings = providers(file, &[]).unwrap();
    let prices: Vec<_> = settings.models.iter().map(|model| model.prices).collect();
    let micros = |amount| sortie_api::Micros::new(amount).unwrap();
    assert_eq!(
        prices,
        [
            Some(sortie_api::model::ModelPrices {
                input_micros_per_mtok: micros(3),
                output_micros_per_mtok: micros(15),
                cache_read_micros_per_mtok: micros(1),
                cache_write_micros_per_mtok: micros(3),
            }),
            Some(sortie_api::model::ModelPrices::default()),
            None,
        ]
    );
}

#[test]
fn writing_to_the_cache_of_anthropic_costs_a_quarter_more_than_other_input() {
    let file = "[providers.own]\napi = \"anthropic\"\nbase_url = \"http://h\"\n\
                [providers.chat]\napi = \"openai-chat\"\nbase_url = \"http://h\"\n\
                [models.a]\nprovider = \"own\"\ninput_micros_per_mtok = 3\noutput_micros_per_mtok = 15\n\
                [models.b]\nprovider = \"own\"\ninput_micros_per_mtok = 3\noutput_micros_per_mtok = 15\n\
                cache_write_micros_per_mtok = 2\n\
                [models.c]\nprovider = \"chat\"\ninput_micros_per_mtok = 3\noutput_micros_per_mtok = 15\n\
                [models.claude-opus-5-5]\ninput_micros_per_mtok = 8\noutput_micros_per_mtok = 15";
    let settings = providers(file, &[("ANTHROPIC_API_KEY", "k")]).unwrap();
    let prices: Vec<_> = settings
        .models
        .iter()
        .map(|model| {
            let write = model.prices.unwrap().cache_write_micros_per_mtok;
            (model.id.as_str(), write.get())
        })
        .collect();
    assert_eq!(prices, [("a", 4), ("b", 2), ("c", 3), ("claude-opus-5-5", 10)]);
}

#[test]
fn no_key_is_shown() {
    let file = "[providers.openai]\napi_key = \"hush-1\"\n[web.search]\napi_key = \"hush-2\"";
    let config = load(
        file,
        &[("GEMINI_API_KEY", "hush-3")],
        &Flags::default(),
        SandboxPolicy::Required,
    )
    .unwrap();
    for shown in [
        config.to_toml(),
        config.to_json().to_string(),
        format!("{config:?}"),
    ] {
        assert!(!shown.contains("hush"), "{shown}");
        assert!(shown.contains("openai"), "{shown}");
    }
}
