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

/// `OpenAPI` Generator checks the document before it generates a client.
#[tokio::test]
async fn the_most_used_generator_takes_the_description() -> Result<()> {
    let (_node, folder) = described().await?;
    let said =
        succeeds(peer("venv/bin/openapi-generator-cli", &folder)?.args(["validate", "-i", "openapi.json"]))?;
    ensure!(said.contains("No validation issues detected."), "{said}");
    let generate = ["generate", "-g", "python", "-i", "openapi.json", "-o", "client"];
    succeeds(peer("venv/bin/openapi-generator-cli", &folder)?.args(generate))?;
    succeeds(peer("venv/bin/python", &folder)?.args(["-m", "compileall", "-q", "client"]))?;
    ensure!(
        folder
            .path()
            .join("client/openapi_client/api/runs_api.py")
            .exists(),
        "no operations of runs"
    );
    Ok(())
}
