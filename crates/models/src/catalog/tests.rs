use sortie_api::{Credential, Micros, model::ModelPrices};
use sortie_testkit::rows;

use super::*;
use crate::{
    Api,
    test_server::{Answer, RecordedDeltas, Server, api, hello},
};

fn provider(name: &str, api: Api) -> ProviderSettings {
    ProviderSettings {
        name: name.to_owned(),
        api,
        base_url: None,
        key: Some(Credential::new("k")),
        outbound: sortie_net::Outbound::default(),
    }
}

fn priced(id: &str, provider: &str) -> ModelSettings {
    ModelSettings {
        id: id.to_owned(),
        provider: Some(provider.to_owned()),
        context_window: Some(32_768),
        max_output_tokens: Some(4_096),
        prices: Some(ModelPrices::default()),
        ..ModelSettings::default()
    }
}

fn settings(providers: Vec<ProviderSettings>, models: Vec<ModelSettings>) -> Settings {
    Settings {
        providers,
        models,
        ..Settings::default()
    }
}

fn ids(catalog: &Catalog) -> Vec<&str> {
    catalog
        .models
        .iter()
        .map(|model| model.info().id.as_str())
        .collect()
}

fn refusal(settings: &Settings) -> String {
    catalog(settings).unwrap_err().to_string()
}

#[test]
fn without_providers_there_is_the_offline_model() {
    let catalog = catalog(&Settings::default()).unwrap();
    assert_eq!(
        (catalog.default_model.as_str(), ids(&catalog)),
        ("runbook", vec!["runbook"])
    );
}

#[test]
fn a_providers_built_in_models_are_offered_under_its_name_and_protocol_only() {
    for (name, api, first) in [
        ("anthropic", api("anthropic"), "claude-opus-5-5"),
        ("openai", api("openai-responses"), "gpt-6.1-sol"),
        ("openai", api("openai-chat"), "gpt-6.1-sol"),
        ("gemini", api("gemini"), "gemini-3.8-flash"),
        ("openai", api("anthropic"), "runbook"),
        ("anthropic", api("gemini"), "runbook"),
        ("gemini", api("anthropic"), "runbook"),
        ("acme", api("anthropic"), "runbook"),
    ] {
        let catalog = catalog(&settings(vec![provider(name, api)], vec![])).unwrap();
        assert_eq!(catalog.default_model, first, "{name} {api:?}");
        assert_eq!(ids(&catalog)[0], first);
        assert_eq!(ids(&catalog).last(), Some(&"runbook"));
        assert!(
            catalog
                .models
                .iter()
                .all(|model| ["sortie", name].contains(&model.info().provider.as_str()))
        );
    }
}

#[test]
fn the_first_provider_that_has_a_model_gives_the_default() {
    let providers = vec![
        provider("acme", api("anthropic")),
        provider("gemini", api("gemini")),
        provider("anthropic", api("anthropic")),
    ];
    let mut settings = settings(providers, vec![]);
    assert_eq!(catalog(&settings).unwrap().default_model, "gemini-3.8-flash");
    settings.models.push(priced("llama", "acme"));
    assert_eq!(catalog(&settings).unwrap().default_model, "llama");
    settings.default_model = Some("runbook".to_owned());
    assert_eq!(catalog(&settings).unwrap().default_model, "runbook");
}

#[test]
fn a_model_of_the_operators_has_what_it_does_not_say_from_the_built_in_one() {
    let cheaper = ModelSettings {
        id: "claude-opus-5-5".to_owned(),
        name: Some("Ours".to_owned()),
        max_output_tokens: Some(1_000),
        ..ModelSettings::default()
    };
    let catalog = catalog(&settings(
        vec![provider("anthropic", api("anthropic"))],
        vec![cheaper],
    ))
    .unwrap();
    let all = ids(&catalog);
    assert_eq!(all.iter().filter(|id| **id == "claude-opus-5-5").count(), 1);
    let info = catalog.models[0].info();
    assert_eq!((info.name.as_str(), info.max_output_tokens), ("Ours", 1_000));
    let built_in = builtin::find("claude-opus-5-5").unwrap();
    assert_eq!(
        (info.prices, info.context_window),
        (built_in.prices, built_in.context_window)
    );
}

#[test]
fn a_built_in_model_can_be_moved_to_another_provider() {
    let providers = vec![
        provider("anthropic", api("anthropic")),
        provider("proxy", api("anthropic")),
    ];
    let moved = ModelSettings {
        id: "claude-haiku-4-5".to_owned(),
        provider: Some("proxy".to_owned()),
        ..ModelSettings::default()
    };
    let catalog = catalog(&settings(providers, vec![moved])).unwrap();
    let found: Vec<_> = catalog
        .models
        .iter()
        .filter(|m| m.info().id == "claude-haiku-4-5")
        .collect();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].info().provider, "proxy");
}

#[test]
fn what_is_not_said_and_not_known_is_refused_with_the_setting_named() {
    let acme = || vec![provider("acme", api("anthropic"))];
    for (model, expected) in rows! {
        ModelSettings {
            prices: None,
            ..priced("llama", "acme")
        },
        "model \"llama\": input_micros_per_mtok and output_micros_per_mtok are missing";
        ModelSettings { context_window: None, ..priced("llama", "acme") }, "model \"llama\": context_window is missing";
        ModelSettings {
            max_output_tokens: None,
            ..priced("llama", "acme")
        },
        "model \"llama\": max_output_tokens is missing";
        ModelSettings { max_output_tokens: Some(0), ..priced("llama", "acme") }, "max_output_tokens must be from 1";
        ModelSettings { max_output_tokens: Some(32_769), ..priced("llama", "acme") }, "max_output_tokens must be from 1";
        ModelSettings { provider: None, ..priced("llama", "acme") }, "model \"llama\": provider is missing";
        priced("llama", "acne"), "model \"llama\": provider \"acne\" is not configured";
        priced("runbook", "acme"), "model \"runbook\": this id belongs to the offline model";
        priced(" ", "acme"), "id must not be empty";
        ModelSettings {
            capabilities: Some(vec!["flying".to_owned()]),
            ..priced("llama", "acme")
        },
        "capability \"flying\" must be one of tools, structured_output, thinking, vision, documents";
    } {
        let said = refusal(&settings(acme(), vec![model]));
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn what_is_there_twice_and_an_unknown_default_are_refused() {
    let acme = || vec![provider("acme", api("anthropic"))];
    let twice = vec![priced("llama", "acme"), priced("llama", "acme")];
    assert!(refusal(&settings(acme(), twice)).contains("model \"llama\": there is another model of this id"));
    let twice = vec![
        provider("acme", api("anthropic")),
        provider("acme", api("gemini")),
    ];
    assert!(
        refusal(&settings(twice, vec![]))
            .contains("provider \"acme\": the name of a provider must be unique")
    );
    let unknown = Settings {
        default_model: Some("gpt-2".to_owned()),
        ..settings(acme(), vec![priced("llama", "acme")])
    };
    assert_eq!(
        refusal(&unknown),
        "default_model: \"gpt-2\" must be one of the usable models: llama, runbook"
    );
}

#[test]
fn a_model_declared_free_by_its_prices_is_taken() {
    let catalog = catalog(&settings(
        vec![provider("acme", api("anthropic"))],
        vec![priced("llama", "acme")],
    ))
    .unwrap();
    let info = catalog.models[0].info();
    assert_eq!(info.prices.input_micros_per_mtok, Micros::ZERO);
    assert_eq!(info.capabilities, ["tools"]);
    assert_eq!(info.name, "llama");
}

#[test]
fn an_address_that_no_request_could_go_to_is_refused_without_its_secrets() {
    for (url, rule) in [
        ("ftp://a.example", "must begin with http"),
        ("mailto:a@b", "must begin with http"),
        ("https://me:hush@a.example/", "must not carry"),
        ("https://a.example/?key=hush", "must not have a query"),
        ("https://a.example/#x", "must not have a query"),
    ] {
        let acme = ProviderSettings {
            base_url: Some(url.parse().unwrap()),
            ..provider("acme", api("anthropic"))
        };
        let said = refusal(&settings(vec![acme], vec![priced("llama", "acme")]));
        assert!(
            said.starts_with("provider \"acme\": base_url") && said.contains(rule),
            "{said}"
        );
        assert!(!said.contains("hush"), "{said}");
    }
}

#[tokio::test]
async fn a_model_is_called_at_its_providers_address_by_its_name_there() {
    let stream = "data: {\"type\":\"message_stop\"}\n\n";
    let server = Server::start([Answer::events(stream)]).await;
    let acme = ProviderSettings {
        base_url: Some(format!("{}v1/", server.provider.base).parse().unwrap()),
        ..provider("acme", api("anthropic"))
    };
    let llama = ModelSettings {
        upstream: Some("llama-4-70b".to_owned()),
        ..priced("llama", "acme")
    };
    let catalog = catalog(&settings(vec![acme], vec![llama])).unwrap();
    catalog.models[0]
        .call(hello(), &RecordedDeltas::default())
        .await
        .unwrap();
    assert!(server.head(0).starts_with("post /v1/messages http/1.1"));
    assert_eq!(server.body(0)["model"], "llama-4-70b");
}
