//! `LiteLLM`: its proxy as a second dialect of three protocols, and its price table as a check of our prices and of our parsing
//! of usage figures.

use std::sync::Arc;

use axum::{Router, routing::post};
use serde_json::{Value, json};
use sortie_agent::{
    ToolContent,
    model::{Content, Model, Retry, StopReason, ToolCall, ToolResult, Turn, Usage},
};
use sortie_api::model::{ModelInfo, ModelPrices};
use sortie_models::{Api, ProviderSettings, Settings, catalog};
use sortie_testkit::{ScriptedModel, http::StatusCode, model::Turn as Says};
use tokio::task::JoinSet;

use crate::support::{Peer, Streamed, command, model, request, run_script};

const MASTER_KEY: &str = "sk-master";

/// Starts a proxy with the models of these servers, by name.
fn proxy(models: &[(&str, &ScriptedModel)]) -> (Peer, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.json");
    let models: Vec<Value> = models
        .iter()
        .map(|(name, server)| {
            let upstream = json!({
                "model": "openai/scripted", "api_base": server.base_url(), "api_key": "sk-upstream", "max_retries": 0,
            });
            json!({"model_name": name, "litellm_params": upstream})
        })
        .collect();
    let settings = json!({
        "model_list": models,
        "router_settings": {"num_retries": 0, "disable_cooldowns": true},
        "litellm_settings": {"telemetry": false},
    });
    // JSON is valid YAML.
    std::fs::write(&config, settings.to_string()).unwrap();
    let litellm = || {
        let mut litellm = command("venv/bin/litellm");
        litellm
            .args(["--host", "127.0.0.1", "--config"])
            .arg(&config)
            .current_dir(folder.path())
            .env("LITELLM_LOCAL_MODEL_COST_MAP", "True")
            .env("LITELLM_MASTER_KEY", MASTER_KEY)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            // The proxy does not accept port 0.
            .arg("--port");
        litellm
    };
    (Peer::on_free_port(litellm), folder)
}

#[tokio::test]
async fn a_conversation_goes_through_the_proxy_in_three_protocols() {
    let apis = [
        ("openai-chat", "/v1", "chat"),
        ("openai-responses", "/v1", "responses"),
        ("anthropic", "", "messages"),
    ];
    let script = || {
        [
            Says::says(["I ", "look."])
                .and_calls("shell", json!({"command": "ls -l"}))
                .using(17, 5),
            Says::says(["x.txt"]).using(20, 2),
            Says::fails(StatusCode::TOO_MANY_REQUESTS, Some(2)),
            Says::fails(StatusCode::SERVICE_UNAVAILABLE, None),
            Says::fails(StatusCode::BAD_REQUEST, None),
        ]
    };
    let servers = [
        ScriptedModel::start(script()).await.unwrap(),
        ScriptedModel::start(script()).await.unwrap(),
        ScriptedModel::start(script()).await.unwrap(),
    ];
    let models: Vec<_> = apis
        .iter()
        .zip(&servers)
        .map(|((.., name), server)| (*name, server))
        .collect();
    let (proxy, _folder) = self::proxy(&models);
    for ((api, path, name), server) in apis.into_iter().zip(&servers) {
        let base = format!("http://{}{path}", proxy.address);
        let client = model(api, &base, MASTER_KEY, name);
        converse(&*client, name).await;
        // The upstream server received the fields of our request.
        let seen = server.requests()[1].to_string();
        for part in [
            "Be brief.",
            "List the files",
            "call_0",
            "ls -l",
            "x.txt y.txt",
            "Runs a command.",
        ] {
            assert!(seen.contains(part), "{name}: {part} is not in {seen}");
        }
        for retry in ["429", "503"] {
            let error = client
                .call(request("again", &[]), &Streamed::default())
                .await
                .unwrap_err();
            assert!(
                matches!(error.retry, Retry::Soon { .. }),
                "{name}, {retry}: {error}"
            );
        }
        let error = client
            .call(request("again", &[]), &Streamed::default())
            .await
            .unwrap_err();
        assert_eq!(error.retry, Retry::Never, "{name}: {error}");
        let stranger = model(api, &base, "sk-stranger", name);
        let error = stranger
            .call(request("again", &[]), &Streamed::default())
            .await
            .unwrap_err();
        assert_eq!(error.retry, Retry::Never, "{name}: {error}");
        assert!(!error.message.contains("sk-stranger"), "{name}: {error}");
        assert_eq!(server.left(), 0, "{name}");
    }
}

async fn converse(client: &dyn Model, name: &str) {
    let streamed = Streamed::default();
    let reply = client
        .call(request("List the files", &[]), &streamed)
        .await
        .unwrap();
    assert_eq!(
        (streamed.text().as_str(), reply.stop_reason),
        ("I look.", StopReason::ToolUse),
        "{name}"
    );
    assert_eq!(
        (reply.usage.input_tokens, reply.usage.output_tokens),
        (17, 5),
        "{name}"
    );
    let call = reply.content.iter().find_map(|piece| match piece {
        Content::ToolCall(call) => Some(call.clone()),
        Content::Text(_) | Content::Opaque(_) => None,
    });
    let ToolCall {
        id,
        name: tool,
        arguments,
    } = call.unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(&arguments).unwrap(),
        json!({"command": "ls -l"}),
        "{name}"
    );
    let result = ToolResult {
        id,
        name: tool,
        content: ToolContent::Text("x.txt y.txt".to_owned()),
        is_error: false,
        note: None,
    };
    let transcript = [Turn::Assistant(reply.content), Turn::ToolResults(vec![result])];
    let streamed = Streamed::default();
    let reply = client
        .call(request("List the files", &transcript), &streamed)
        .await
        .unwrap();
    assert_eq!(
        (streamed.text().as_str(), reply.stop_reason),
        ("x.txt", StopReason::EndTurn),
        "{name}"
    );
    assert_eq!(
        (reply.usage.input_tokens, reply.usage.output_tokens),
        (20, 2),
        "{name}"
    );
}

/// Every built-in model.
fn builtins() -> Vec<ModelInfo> {
    let provider = |name: &str, api: &str| ProviderSettings {
        name: name.to_owned(),
        api: Api::named(api).unwrap(),
        base_url: None,
        key: Some(sortie_api::Credential::new("sk-peer")),
        outbound: sortie_net::Outbound::default(),
    };
    let settings = Settings {
        providers: vec![
            provider("anthropic", "anthropic"),
            provider("openai", "openai-responses"),
            provider("gemini", "gemini"),
        ],
        ..Settings::default()
    };
    let models = catalog(&settings).unwrap().models;
    let infos = models.iter().map(|model| model.info().clone());
    infos.filter(|info| info.provider != "sortie").collect()
}

/// Prices of input, output, cache reads and cache writes.
fn four(prices: &ModelPrices) -> [u64; 4] {
    [
        prices.input_micros_per_mtok,
        prices.output_micros_per_mtok,
        prices.cache_read_micros_per_mtok,
        prices.cache_write_micros_per_mtok,
    ]
    .map(|price| price.get().unsigned_abs())
}

/// Usage in the format of each protocol, and the provider of the model.
fn told() -> Vec<(&'static str, &'static str, &'static str, Value)> {
    let chat = |read: u64, written: u64| {
        json!({"prompt_tokens": 1_000, "completion_tokens": 70, "total_tokens": 1_070,
            "prompt_tokens_details": {"cached_tokens": read, "cache_write_tokens": written},
            "completion_tokens_details": {"reasoning_tokens": 50}})
    };
    let responses = |read: u64, written: u64| {
        json!({"input_tokens": 1_000, "output_tokens": 70, "total_tokens": 1_070,
            "input_tokens_details": {"cached_tokens": read, "cache_write_tokens": written},
            "output_tokens_details": {"reasoning_tokens": 50}})
    };
    let messages = |read: u64, written: u64| {
        json!({"input_tokens": 1_000, "output_tokens": 70, "cache_read_input_tokens": read,
            "cache_creation_input_tokens": written})
    };
    let mut told = Vec::new();
    for (read, written) in [(0, 0), (640, 0), (0, 300), (640, 300)] {
        told.push(("openai-chat", "chat", "gpt-6.1-sol", chat(read, written)));
        told.push(("openai-chat", "chat", "gpt-4.1", chat(read, 0)));
        told.push((
            "openai-responses",
            "responses",
            "gpt-6.1-sol",
            responses(read, written),
        ));
        told.push(("openai-responses", "responses", "gpt-5.5", responses(read, 0)));
        told.push((
            "anthropic",
            "anthropic",
            "claude-opus-5-5",
            messages(read, written),
        ));
        told.push((
            "anthropic",
            "anthropic",
            "claude-haiku-4-5",
            messages(read, written),
        ));
    }
    told
}

/// Returns the usage that a client parses.
async fn read(api: &str, usage: Value) -> Usage {
    let events = match api {
        "openai-chat" => vec![
            json!({"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]}),
            json!({"choices": [], "usage": usage}),
        ],
        "openai-responses" => vec![json!({"type": "response.completed", "response": {"usage": usage}})],
        _ => vec![
            json!({"type": "message_start", "message": {"usage": usage}}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}),
            json!({"type": "message_stop"}),
        ],
    };
    let stream: Arc<str> = events
        .iter()
        .map(|event| {
            let kind = event["type"].as_str().unwrap_or("message");
            format!("event: {kind}\ndata: {event}\n\n")
        })
        .collect::<Vec<_>>()
        .concat()
        .into();
    let answer = move || async move { ([("content-type", "text/event-stream")], stream.to_string()) };
    let router = Router::new().fallback(post(answer));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    let mut serving = JoinSet::new();
    serving.spawn(async move { axum::serve(listener, router).await });
    let client = model(api, &base, "sk-peer", "theirs");
    client
        .call(request("hello", &[]), &Streamed::default())
        .await
        .unwrap()
        .usage
}

#[tokio::test]
async fn prices_and_costs_are_those_of_its_table() {
    let ours = builtins();
    let told = told();
    let bodies = told
        .iter()
        .map(|(_, api, model, usage)| json!({"api": api, "model": model, "usage": usage}));
    let ids: Vec<&str> = ours.iter().map(|info| &*info.id).collect();
    let asked = json!({"models": ids, "bodies": bodies.collect::<Vec<_>>()});
    let theirs = run_script("litellm_cost.py", vec![asked.to_string()]).await;

    let (mut differences, mut unknown) = (Vec::new(), Vec::new());
    for info in &ours {
        let known = &theirs["models"][&info.id];
        if known.is_null() {
            unknown.push(&*info.id);
            continue;
        }
        // Without a cache price, cached tokens cost as much as others.
        let input = known["prices"][0].as_u64();
        let price = |kind: usize| known["prices"][kind].as_u64().or(input).unwrap();
        let (own, known_prices) = (four(&info.prices), [0, 1, 2, 3].map(price));
        let pairs = own.iter().zip(&known_prices);
        assert!(
            pairs.clone().all(|(own, known)| own >= known),
            "{}: {own:?} is less than {known_prices:?}",
            info.id
        );
        if own != known_prices {
            differences.push(&*info.id);
        }
        // The context window must end below the threshold for higher prices.
        if let Some(step) = known["dearer_above"].as_u64() {
            assert!(
                info.context_window <= step,
                "{} is dearer above {step} tokens",
                info.id
            );
        }
    }
    // Both are newer than the price table.
    assert_eq!(unknown, ["claude-fable-5-2", "gpt-6.1-terra"]);
    // Both have a temporary discount; ours are the prices after it.
    assert_eq!(differences, ["gemini-3.8-flash", "gemini-4-argon"]);

    for ((api, _, id, usage), cost) in told.into_iter().zip(theirs["costs"].as_array().unwrap()) {
        let prices = four(&ours.iter().find(|info| info.id == id).unwrap().prices);
        let read = read(api, usage.clone()).await;
        let tokens = [
            read.input_tokens,
            read.output_tokens,
            read.cache_read_tokens,
            read.cache_write_tokens,
        ];
        let charged: u64 = tokens
            .iter()
            .zip(prices)
            .map(|(tokens, price)| tokens * price)
            .sum();
        let theirs = format!("{:.3}", cost.as_f64().unwrap());
        assert_eq!(
            format!("{}.{:03}", charged / 1_000_000, charged / 1_000 % 1_000),
            theirs,
            "{id}: {usage}"
        );
    }
}
