//! `GET /v1/models` (`docs/MODELS.md#which-models-there-are`).

use std::path::Path;

use sortie_testkit::node::{DefaultModel, binary_command};

use crate::prelude::*;

/// `docs/MODELS.md#the-offline-model`: the offline model does not count as a language model.
#[tokio::test]
async fn a_prompt_without_blocks_needs_a_language_model() -> Checked {
    const RULE: &str = "model: no language model is configured; set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, \
                        or run `sortie init` (docs/MODELS.md)";
    let options = NodeOptions {
        default_model: DefaultModel::Unset,
        ..NodeOptions::default()
    };
    let (node, client) = started_with(Database::Sqlite, options).await?;
    assert_contains!(node.log(), "no language model is configured");
    let plain = json!({"prompt": "Write a poem."});
    let refused = client.post("/v1/runs", &plain).refused("invalid_request").await?;
    assert_eq!(refused.error, RULE);
    // A workflow may wait for its model.
    let saved = client.send(Method::PUT, "/v1/workflows/poem", plain.to_string().into());
    saved.await?.expect(201)?;
    let of_workflow = json!({"workflow": "poem"});
    let refused = client
        .post("/v1/runs", &of_workflow)
        .refused("invalid_request")
        .await?;
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

/// `docs/MODELS.md#the-offline-model`: models depend on the engine, not on the operator's shell.
#[tokio::test]
async fn doctor_tells_the_models_of_the_engine_that_it_asks() -> Checked {
    let options = NodeOptions {
        default_model: DefaultModel::Unset,
        ..NodeOptions::default().env("ANTHROPIC_API_KEY", "sk-ant-x")
    };
    let node = node_with(Database::Sqlite, options).await?;
    let mut doctor = node.sortie(&["doctor"]);
    doctor.env_remove("SORTIE_DEFAULT_MODEL");
    let checks = text(&exits(doctor, 0)?.stdout);
    let models: Vec<&str> = checks.lines().filter(|line| line.contains(" models ")).collect();
    ensure!(
        models.len() == 1 && models[0].starts_with("ok ") && models[0].contains("claude"),
        "{checks}"
    );
    Ok(())
}

/// `docs/MODELS.md#the-offline-model`: `sortie run` starts no engine that would refuse the prompt.
#[test]
fn a_prompt_without_blocks_starts_no_engine_without_a_language_model() -> Checked {
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("data");
    let run = |arguments: &[&str]| {
        let mut command = binary_command(Path::new(env!("CARGO_BIN_EXE_sortie")));
        command.args(arguments).arg("--data-dir").arg(&data);
        command.env_remove("SORTIE_DEFAULT_MODEL");
        command
    };
    let refused = exits(run(&["run", "Write a poem"]), 64)?;
    let told = text(&refused.stderr);
    ensure!(
        told.contains("model: no language model is configured; set ANTHROPIC_API_KEY")
            && told.lines().count() == 1,
        "{told}"
    );
    ensure!(!data.exists(), "the folder was made");
    exits(run(&["run", "--no-shell", "```answer\nroses\n```"]), 0)?;
    ensure!(data.exists());
    // The engine checks a prompt for `runbook` if it is named.
    exits(
        run(&["run", "--no-shell", "--model", "runbook", "Write a poem"]),
        0,
    )?;
    Ok(())
}

#[tokio::test]
async fn the_catalog_needs_no_key_and_holds_the_offline_model() -> Checked {
    let (_node, client) = started(Database::Sqlite).await?;
    for client in [client.anonymous(), client.clone()] {
        let catalog = client.get("/v1/models").json(200).await?;
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

/// `docs/COSTS.md#choose-a-model`: its prices are those of the catalog.
#[tokio::test]
async fn the_page_of_costs_has_the_prices_of_the_catalog() -> Checked {
    const PAGE: &str = include_str!("../../../../docs/COSTS.md");
    let options = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"]
        .into_iter()
        .fold(NodeOptions::default(), |options, key| options.env(key, "sk-x"));
    let (_node, client) = started_with(Database::Sqlite, options).await?;
    let catalog = client.get("/v1/models").json(200).await?;
    let models = catalog["models"].as_array().context("no models")?;
    let rows: Vec<Vec<&str>> = PAGE
        .lines()
        .filter(|line| line.starts_with("| `") && line.contains("| $"))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    ensure!(rows.len() > 6, "{rows:?}");
    for row in rows {
        let id = row[1].trim_matches('`');
        let model = models.iter().find(|model| model["id"] == id);
        let prices = &model.with_context(|| format!("no model {id}"))?["prices"];
        for (price, shown) in [("input", row[2]), ("output", row[3]), ("cache_read", row[4])] {
            let micros = prices[format!("{price}_micros_per_mtok")]
                .as_u64()
                .with_context(|| prices.to_string())?;
            let dollars = format!("${}.{:02}", micros / 1_000_000, micros % 1_000_000 / 10_000);
            assert_eq!(shown, dollars, "{price} of {id}");
        }
    }
    Ok(())
}
