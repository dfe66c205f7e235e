//! A conversation with a server of each protocol, through the catalog: text, tool calls, their results, an answer, a refusal. The
//! servers share no code with the clients.

#[cfg(test)]
mod cases;

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use sortie_agent::{
    Model, ToolContent,
    model::{
        Content, Deltas, Request, Retry, StopReason, Task, ToolCall, ToolDefinition, ToolResult, ToolUse,
        Turn,
    },
};
use sortie_api::model::ModelPrices;
use sortie_models::{Api, ModelSettings, ProviderSettings, Settings, catalog};
use sortie_testkit::{ScriptedAnthropic, ScriptedGemini, ScriptedModel, http::StatusCode, model};

struct Nobody;

impl Deltas for Nobody {
    fn text(&self, _piece: &str) {}
}

const SHELL: ToolDefinition<'static> = ToolDefinition {
    name: "shell",
    description: "Runs a command.",
    parameters: r#"{"type": "object"}"#,
};

fn script() -> [model::Turn; 3] {
    [
        model::Turn::says(["Let me ", "look."])
            .thinks("Where are they?")
            .and_calls("shell", json!({"command": "ls ä"}))
            .and_calls("shell", json!({}))
            .using(20, 9),
        model::Turn::says(["42"]).using(40, 1),
        model::Turn::fails(StatusCode::TOO_MANY_REQUESTS, Some(3)),
    ]
}

/// Returns the only model of a provider at this address.
fn only_model(api: &str, base_url: &str) -> Result<Arc<dyn Model>> {
    let settings = Settings {
        providers: vec![ProviderSettings {
            name: "acme".to_owned(),
            api: Api::named(api).context("no such protocol")?,
            base_url: Some(base_url.parse()?),
            key: None,
            outbound: sortie_net::Outbound::default(),
        }],
        models: vec![ModelSettings {
            id: "m".to_owned(),
            provider: Some("acme".to_owned()),
            upstream: Some("scripted".to_owned()),
            context_window: Some(100_000),
            max_output_tokens: Some(10_000),
            prices: Some(ModelPrices::default()),
            ..ModelSettings::default()
        }],
        ..Settings::default()
    };
    catalog(&settings)?.models.into_iter().next().context("no model")
}

fn request() -> Request<'static> {
    Request {
        system: "Be brief.",
        task: Task {
            prompt: "Count the files.",
            input: None,
            input_file: None,
            output_schema: None,
            environment: "",
            media: &[],
        },
        transcript: &[],
        tools: &[SHELL],
        max_tokens: 1_000,
        tool_use: ToolUse::Auto,
        effort: None,
        cache_key: "",
    }
}

async fn converse(model: &dyn Model) -> Result<()> {
    let mut request = request();
    let reply = model.call(request, &Nobody).await?;
    assert_eq!(reply.stop_reason, StopReason::ToolUse);
    assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (20, 9));
    let said = |piece: &Content| matches!(piece, Content::Text(text) if text == "Let me look.");
    assert!(reply.content.iter().any(said), "{:?}", reply.content);
    let calls = tool_calls(&reply.content);
    let arguments: Vec<Value> = calls
        .iter()
        .map(|call| serde_json::from_str(&call.arguments))
        .collect::<Result<_, _>>()?;
    assert_eq!(arguments, [json!({"command": "ls ä"}), json!({})]);
    let results = calls.into_iter().map(|call| ToolResult {
        id: call.id,
        name: call.name,
        content: ToolContent::Text("a\nb".to_owned()),
        is_error: false,
        note: None,
    });
    let transcript = [
        Turn::Assistant(reply.content),
        Turn::ToolResults(results.collect()),
    ];
    request.transcript = &transcript;
    let reply = model.call(request, &Nobody).await?;
    assert_eq!(reply.stop_reason, StopReason::EndTurn);
    assert!(
        matches!(reply.content.as_slice(), [Content::Text(text)] if text == "42"),
        "{:?}",
        reply.content
    );
    let limited = model.call(request, &Nobody).await.err().context("no failure")?;
    let after = Some(Duration::from_secs(3));
    assert_eq!(limited.retry, Retry::Soon { after });
    Ok(())
}

fn tool_calls(content: &[Content]) -> Vec<ToolCall> {
    let calls = content.iter().filter_map(|piece| match piece {
        Content::ToolCall(call) => Some(call.clone()),
        Content::Text(_) | Content::Opaque(_) => None,
    });
    calls.collect()
}

#[tokio::test]
async fn a_conversation_with_tools_goes_through_the_messages_api() -> Result<()> {
    let server = ScriptedAnthropic::start(script()).await?;
    converse(&*only_model("anthropic", &server.base_url())?).await?;
    let requests = server.requests();
    let results = &requests[1]["messages"][2]["content"];
    let ids = (&results[0]["tool_use_id"], &results[1]["tool_use_id"]);
    assert_eq!(ids, (&json!("toolu_0"), &json!("toolu_1")));
    assert_eq!(requests[0]["model"], "scripted");
    Ok(())
}

#[tokio::test]
async fn a_conversation_with_tools_goes_through_the_gemini_api() -> Result<()> {
    let server = ScriptedGemini::start(script()).await?;
    converse(&*only_model("gemini", &server.base_url())?).await
}

#[tokio::test]
async fn a_conversation_with_tools_goes_through_the_responses_api() -> Result<()> {
    let server = ScriptedModel::start(script()).await?;
    converse(&*only_model("openai-responses", &server.base_url())?).await
}

#[tokio::test]
async fn a_conversation_with_tools_goes_through_chat_completions() -> Result<()> {
    let server = ScriptedModel::start(script()).await?;
    converse(&*only_model("openai-chat", &server.base_url())?).await
}

#[tokio::test]
async fn an_answer_cut_off_while_the_model_thinks_goes_on_in_every_protocol() -> Result<()> {
    let script = || {
        [
            model::Turn::says([""; 0]).thinks("Where are").cut_off(),
            model::Turn::says(["42"]),
        ]
    };
    let anthropic = ScriptedAnthropic::start(script()).await?;
    let openai = [
        ScriptedModel::start(script()).await?,
        ScriptedModel::start(script()).await?,
    ];
    let gemini = ScriptedGemini::start(script()).await?;
    for (api, base_url) in [
        ("anthropic", anthropic.base_url()),
        ("openai-responses", openai[0].base_url()),
        ("openai-chat", openai[1].base_url()),
        ("gemini", gemini.base_url()),
    ] {
        let model = only_model(api, &base_url)?;
        let cut = model.call(request(), &Nobody).await?;
        assert_eq!(cut.stop_reason, StopReason::MaxTokens, "{api:?}");
        let transcript = [Turn::Assistant(cut.content), Turn::User("Go on.".to_owned())];
        let whole = Request {
            transcript: &transcript,
            ..request()
        };
        let reply = model.call(whole, &Nobody).await?;
        assert_eq!(reply.stop_reason, StopReason::EndTurn, "{api:?}");
    }
    assert_eq!(anthropic.broken_rules(), [""; 0]);
    assert_eq!(openai.iter().flat_map(|server| server.broken_rules()).count(), 0);
    Ok(())
}
