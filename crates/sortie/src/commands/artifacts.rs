//! `sortie runs artifacts`: the files that a run has produced. A download writes only below the given folder, whatever
//! the engine sends, and verifies the written files.

use std::{
    fs::{DirBuilder, File, OpenOptions},
    io::Write,
    os::unix::fs::DirBuilderExt,
    path::Path,
};

use sha2::{Digest, Sha256};
use sortie_api::{Artifact, RunId, plain};
use sortie_sandbox::RelPath;

use super::Context;
use crate::{
    args::artifacts::ArtifactsArgs,
    client::{Client, Content, get},
    failure::{Exit, Failure, Result},
    render::{Field, Record, some},
    terminal,
};

impl Record for Artifact {
    const COLUMNS: &'static [Field<Self>] = &[
        ("PATH", |artifact| some(&artifact.path)),
        ("SIZE", |artifact| some(artifact.size)),
        ("TYPE", |artifact| some(&artifact.content_type)),
    ];
    const MORE: &'static [Field<Self>] = &[("SHA256", |artifact| some(artifact.sha256))];
    const CUT: &'static [&'static str] = &["PATH", "TYPE"];
}

pub(super) async fn artifacts(context: &Context, args: &ArtifactsArgs) -> Result<Exit> {
    context
        .call(&args.render, async |client| show(client, args).await)
        .await
}

async fn show(client: &Client, args: &ArtifactsArgs) -> Result<Exit> {
    let run = client.find_run(&args.run).await?;
    if let Some(path) = &args.path {
        let mut content = content(client, run, path).await?;
        while let Some(bytes) = content.next().await? {
            terminal::print_content(&bytes)?;
        }
        return Ok(Exit::Success);
    }
    let artifacts: Vec<Artifact> = client.ask(get(all(run))).await?;
    let Some(folder) = &args.download else {
        return args.render.list(&artifacts);
    };
    for artifact in &artifacts {
        download(client, run, artifact, folder).await?;
    }
    Ok(Exit::Success)
}

fn all(run: RunId) -> String {
    format!("v1/runs/{run}/artifacts")
}

async fn content(client: &Client, run: RunId, path: &str) -> Result<Content> {
    let path = client.below(&all(run), path.split('/'))?;
    client.content(&path).await
}

/// Saves one artifact below `folder`.
async fn download(client: &Client, run: RunId, artifact: &Artifact, folder: &Path) -> Result<()> {
    let shown = terminal::harmless(&artifact.path).into_owned();
    let failed = |cause: &str| {
        Failure::internal(format!(
            "{shown} cannot be saved in {}: {cause}",
            folder.display()
        ))
    };
    let path = RelPath::new(&artifact.path).map_err(|rule| failed(&format!("its path {rule}")))?;
    let place = folder.join(path.as_str());
    let file = create(folder, &path).map_err(|error| failed(&plain::io(&error)))?;
    let content = content(client, run, &artifact.path).await?;
    if let Err(failure) = fill(file, content, artifact).await {
        std::fs::remove_file(&place).map_err(|error| failed(&plain::io(&error)))?;
        return Err(failure);
    }
    terminal::note(&format!("{} ({} bytes)", place.display(), artifact.size));
    Ok(())
}

/// Writes the stream, and checks its length and hash against the artifact.
async fn fill(mut file: File, mut content: Content, artifact: &Artifact) -> Result<()> {
    let mut left = u64::try_from(artifact.size).unwrap_or(0);
    let mut hasher = Sha256::new();
    let other = || Failure::unavailable("what the engine sends is not what the run left");
    while let Some(bytes) = content.next().await? {
        left = left.checked_sub(bytes.len() as u64).ok_or_else(other)?;
        hasher.update(&bytes);
        file.write_all(&bytes)?;
    }
    file.sync_all()?;
    if sortie_api::Sha256::new(hasher.finalize().into()) == artifact.sha256 {
        Ok(())
    } else {
        Err(other())
    }
}

/// Creates a new file below `folder`, with its parent folders. Refuses links among these, and an existing file.
fn create(folder: &Path, path: &RelPath) -> std::io::Result<File> {
    DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
    let mut at = folder.to_owned();
    let mut segments = path.as_str().split('/').peekable();
    while let Some(segment) = segments.next() {
        at.push(segment);
        if segments.peek().is_none() {
            break;
        }
        match std::fs::symlink_metadata(&at) {
            Ok(there) if there.is_dir() => {}
            Ok(_) => return Err(std::io::Error::other(format!("{} is not a folder", at.display()))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => std::fs::create_dir(&at)?,
            Err(error) => return Err(error),
        }
    }
    // An existing file or link is never opened.
    OpenOptions::new().write(true).create_new(true).open(&at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::{Look, table};

    fn artifact(path: &str) -> Artifact {
        serde_json::from_value(serde_json::json!({
            "path": path, "size": 3, "content_type": "text/plain", "sha256": "0".repeat(64)
        }))
        .unwrap()
    }

    #[test]
    fn the_list_is_a_plain_table_without_control_characters() {
        let text = table(
            &[artifact("a/report.md"), artifact("nasty\u{1b}[2J")],
            &Look::plain(),
        );
        assert!(
            text.contains("a/report.md  3") && !text.contains('\u{1b}'),
            "{text:?}"
        );
    }

    #[test]
    fn nothing_is_made_through_a_link_or_over_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, outside) = (dir.path().join("new/in"), dir.path().join("outside"));
        std::fs::create_dir(&outside).unwrap();
        let make = |path: &str| create(&folder, &RelPath::new(path).unwrap()).map(drop);
        make("a/b.txt").unwrap();
        assert!(folder.join("a/b.txt").is_file());
        assert_eq!(
            make("a/b.txt").unwrap_err().kind(),
            std::io::ErrorKind::AlreadyExists
        );
        make("a/b.txt/c").unwrap_err();
        std::os::unix::fs::symlink(&outside, folder.join("link")).unwrap();
        make("link/c").unwrap_err();
        std::os::unix::fs::symlink(outside.join("c"), folder.join("c")).unwrap();
        make("c").unwrap_err();
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    }
}
