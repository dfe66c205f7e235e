//! `GET /v1/models` (`docs/MODELS.md#which-models-there-are`).

use sortie_testkit::Database;

use crate::{Checked, node};

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
