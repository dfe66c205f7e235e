//! `GET /v1/models` (`docs/MODELS.md#which-models-there-are`).

use anyhow::ensure;
use serde_json::json;
use sortie_testkit::{Database, NodeOptions, http::Method, node::DefaultModel};

use crate::{
    Checked,
    kit::{exits, text},
    node, node_with,
};

/// `docs/MODELS.md#the-offline-model`: the offline model does not pass for a language model.
#[tokio::test]
async fn a_prompt_without_blocks_needs_a_language_model() -> Checked {
    const RULE: &str = "model: no language model is configured; set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, \
                        or name one (docs/MODELS.md)";
    let options = NodeOptions {
        default_model: DefaultModel::Unset,
        ..NodeOptions::default()
    };
    let node = node_with(Database::Sqlite, options).await?;
    let client = node.client()?;
    ensure!(
        node.log().contains("no language model is configured"),
        "{}",
        node.log()
    );
    let plain = json!({"prompt": "Write a poem."});
    let refused = client
        .post("/v1/runs", &plain)
        .await?
        .failure(400, "invalid_request")?;
    assert_eq!(refused.error, RULE);
    // A workflow may wait for its model.
    let saved = client.send(Method::PUT, "/v1/workflows/poem", plain.to_string().into());
    saved.await?.expect(201)?;
    let of_workflow = json!({"workflow": "poem"});
    let refused = client
        .post("/v1/runs", &of_workflow)
        .await?
        .failure(400, "invalid_request")?;
    assert_eq!(refused.error, RULE);
    for body in [
        json!({"prompt": "Write a poem.", "model": "runbook"}),
        json!({"workflow": "poem", "model": "runbook"}),
        json!({"prompt": "```answer\nroses\n```"}),
    ] {
        client.create(&body).await?;
    }
    let mut doctor = node.sortie(&["doctor"]);
    doctor.env_remove("SORTIE_DEFAULT_MODEL");
    let checks = text(&exits(doctor, 0)?.stdout);
    ensure!(checks.contains("no language model is configured"), "{checks}");
    Ok(())
}

#[tokio::test]
async fn the_catalog_needs_no_key_and_holds_the_offline_model() -> Checked {
    let node = node(Database::Sqlite).await?;
    let client = node.client()?;
    for client in [client.anonymous(), client.clone()] {
        let catalog = client.get("/v1/models").await?.expect(200)?.json()?;
        assert_eq!(catalog["default_model"], "runbook");
        let models = catalog["models"].as_array().cloned().unwrap_or_default();
        let runbook = models
            .iter()
            .find(|model| model["id"] == "runbook")
            .cloned()
            .unwrap_or_default();
        for price in ["input", "output", "cache_read", "cache_write"] {
            assert_eq!(
                runbook["prices"][format!("{price}_micros_per_mtok")],
                0,
                "{runbook}"
            );
        }
        for field in ["provider", "name"] {
            assert!(runbook[field].is_string(), "{field} in {runbook}");
        }
        assert!(
            runbook["context_window"].is_u64() && runbook["capabilities"].is_array(),
            "{runbook}"
        );
    }
    Ok(())
}
