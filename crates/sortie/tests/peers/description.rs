//! The description document, read by validators.

use anyhow::{Result, ensure};

use crate::{described, peer, succeeds};

#[tokio::test]
async fn the_description_is_valid_openapi() -> Result<()> {
    let (_node, folder) = described().await?;
    let said = succeeds(peer("venv/bin/openapi-spec-validator", &folder)?.arg("openapi.json"))?;
    ensure!(said.contains("OK"), "{said}");
    Ok(())
}

#[tokio::test]
async fn the_description_passes_the_recommended_rules() -> Result<()> {
    let (_node, folder) = described().await?;
    succeeds(peer("npm/node_modules/.bin/redocly", &folder)?.args(["lint", "openapi.json"]))?;
    Ok(())
}
