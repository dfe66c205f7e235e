//! Clients that are generated from the API description, used with a node.

use std::path::Path;

use sortie_testkit::{peers::installed, prelude::*};
use tempfile::TempDir;

use crate::{described, peer, succeeds};

/// Copies a script of ours next to the generated client.
fn bring(script: &str, folder: &TempDir) -> Result<()> {
    let from = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/peers")
        .join(script);
    std::fs::copy(&from, folder.path().join(script)).with_context(|| from.display().to_string())?;
    Ok(())
}

#[tokio::test]
async fn a_generated_python_client_creates_a_run_and_reads_it() -> Result<()> {
    let (node, folder) = described().await?;
    std::fs::write(folder.path().join("config.yaml"), "post_hooks: []\n")?;
    let generate = "generate --path openapi.json --output-path client --meta none --config config.yaml";
    let said = succeeds(peer("venv/bin/openapi-python-client", &folder)?.args(generate.split(' ')))?;
    ensure!(!said.to_lowercase().contains("warning"), "{said}");
    bring("client.py", &folder)?;
    let said = succeeds(
        peer("venv/bin/python", &folder)?
            .arg("client.py")
            .env("SORTIE_URL", node.url()?)
            .env("SORTIE_API_KEY", node.key()),
    )?;
    assert_eq!(said, "succeeded: hello from Python\n");
    Ok(())
}

#[tokio::test]
async fn a_generated_typescript_client_creates_a_run_and_reads_it() -> Result<()> {
    let (node, folder) = described().await?;
    std::os::unix::fs::symlink(installed("npm/node_modules")?, folder.path().join("node_modules"))?;
    let types = ["openapi.json", "--output", "schema.d.ts"];
    succeeds(peer("npm/node_modules/.bin/openapi-typescript", &folder)?.args(types))?;
    bring("client.mts", &folder)?;
    let options =
        "--strict --target es2022 --module nodenext --moduleResolution nodenext --skipLibCheck client.mts";
    succeeds(peer("npm/node_modules/.bin/tsc", &folder)?.args(options.split(' ')))?;
    let said = succeeds(
        peer("node/bin/node", &folder)?
            .arg("client.mjs")
            .env("SORTIE_URL", node.url()?)
            .env("SORTIE_API_KEY", node.key()),
    )?;
    assert_eq!(said, "succeeded: hello from TypeScript\n");
    Ok(())
}
