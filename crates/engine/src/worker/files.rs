//! The files that a run brings, laid in its working directory: inline ones from its definition, saved ones copied from
//! the storage without being held in memory.

use sortie_agent::Source;
use sortie_api::{FileId, OrgId, request::RunFile};
use sortie_sandbox::RelPath;

use super::{
    resume::{Files, Ground},
    run_one::Worker,
};
use crate::files::contents_of;

/// Lays the files, unless an earlier attempt at the run has. An error is the run's, in words for people.
pub(super) async fn lay(
    worker: &Worker,
    org: OrgId,
    files: Vec<RunFile>,
    ground: &mut Ground,
) -> Result<(), String> {
    let mut laid = Vec::new();
    for file in files {
        let path = RelPath::new(&file.path).map_err(|error| format!("files: {:?}: {error}", file.path))?;
        laid.push((path, file));
    }
    if ground.files == Files::Laid {
        ground.workspace.brought(laid.iter().map(|(path, _)| path));
        return Ok(());
    }
    if laid.is_empty() {
        return Ok(());
    }
    let ids = saved(&laid)?;
    let mut contents = contents_of(&worker.store, &worker.contents, org, &ids)
        .await?
        .into_iter();
    let mut sources = Vec::new();
    for (path, file) in laid {
        let source = match file.file {
            None => Source::Bytes(file.content.unwrap_or_default().into_bytes()),
            Some(id) => contents
                .next()
                .map(Source::File)
                .ok_or_else(|| format!("the file {id} is gone"))?,
        };
        sources.push((path, source));
    }
    ground
        .workspace
        .lay(sources)
        .await
        .map_err(|error| format!("the run's files cannot be laid: {error}"))
}

/// The ids of the saved ones, in order.
fn saved(files: &[(RelPath, RunFile)]) -> Result<Vec<FileId>, String> {
    files
        .iter()
        .filter_map(|(_, file)| file.file.as_ref())
        .map(|id| id.parse().map_err(|error| format!("files: {id:?}: {error}")))
        .collect()
}
