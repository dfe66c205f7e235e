//! The description document, read by validators.

use std::process::Command;

use sortie_testkit::prelude::*;
use tempfile::TempDir;

use crate::{described, peer, succeeds};

/// Folders with the descriptions, in `openapi.json`: of the engine as a node serves it, and of the organizations.
async fn descriptions() -> Result<[TempDir; 2]> {
    let (_node, engine) = described().await?;
    let organization = TempDir::new()?;
    let document = sortie_server::openapi(sortie_server::Api::Organization);
    std::fs::write(organization.path().join("openapi.json"), document.to_string())?;
    Ok([engine, organization])
}

#[tokio::test]
async fn the_description_is_valid_openapi() -> Result<()> {
    for folder in descriptions().await? {
        let said = succeeds(peer("venv/bin/openapi-spec-validator", &folder)?.arg("openapi.json"))?;
        ensure!(said.contains("OK"), "{said}");
    }
    Ok(())
}

#[tokio::test]
async fn the_description_passes_the_recommended_rules() -> Result<()> {
    for folder in descriptions().await? {
        succeeds(peer("npm/node_modules/.bin/redocly", &folder)?.args(["lint", "openapi.json"]))?;
    }
    Ok(())
}

/// `OpenAPI` Generator, with the simple JIT only: optimizing would take most of the time of its short runs.
fn generator(folder: &TempDir) -> Result<Command> {
    let mut command = peer("venv/bin/openapi-generator-cli", folder)?;
    command.env("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC");
    Ok(command)
}

/// `OpenAPI` Generator checks the document before it generates a client.
#[tokio::test]
async fn the_most_used_generator_takes_the_description() -> Result<()> {
    for (folder, module) in descriptions()
        .await?
        .iter()
        .zip(["runs_api.py", "organizations_api.py"])
    {
        let check = ["validate", "-i", "openapi.json"];
        let said = succeeds(generator(folder)?.args(check))?;
        ensure!(said.contains("No validation issues detected."), "{said}");
        let generate = ["generate", "-g", "python", "-i", "openapi.json", "-o", "client"];
        succeeds(generator(folder)?.args(generate))?;
        succeeds(peer("venv/bin/python", folder)?.args(["-m", "compileall", "-q", "client"]))?;
        let modules = folder.path().join("client/openapi_client/api");
        ensure!(modules.join(module).exists(), "there is no {module}");
    }
    Ok(())
}
