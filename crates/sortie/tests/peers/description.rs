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
    let folders = descriptions().await?;
    for (folder, module) in folders.iter().zip(["runs_api.py", "organizations_api.py"]) {
        let check = ["validate", "-i", "openapi.json"];
        let said = succeeds(generator(folder)?.args(check))?;
        // The generator does not read `contentSchema`, which describes the data of live messages.
        let issues: Vec<&str> = said.lines().filter(|line| line.contains("\t- ")).collect();
        let live = ["MessageDelta", "MessageStart", "ToolOutput"];
        ensure!(
            issues.iter().all(|issue| live
                .iter()
                .any(|name| *issue == format!("\t- Unused model: {name}")))
                && said.contains("No validation issues detected.") == issues.is_empty(),
            "{said}"
        );
        let generate = ["generate", "-g", "python", "-i", "openapi.json", "-o", "client"];
        succeeds(generator(folder)?.args(generate))?;
        succeeds(peer("venv/bin/python", folder)?.args(["-m", "compileall", "-q", "client"]))?;
        let modules = folder.path().join("client/openapi_client/api");
        ensure!(modules.join(module).exists(), "there is no {module}");
        let generate = ["generate", "-g", "go", "-i", "openapi.json", "-o", "go"];
        succeeds(generator(folder)?.args(generate))?;
    }
    let [engine, _] = &folders;
    for (file, of_message) in [
        (
            "client/openapi_client/models/event.py",
            "from openapi_client.models.message_event import MessageEvent",
        ),
        ("go/model_event.go", "MessageEvent *MessageEvent"),
    ] {
        let event = std::fs::read_to_string(engine.path().join(file))?;
        ensure!(event.contains(of_message), "{file} does not type the events");
    }
    Ok(())
}
