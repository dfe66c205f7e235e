//! The files that a run brings, laid in its working directory: inline ones from its definition, saved ones copied from
//! the storage without being held in memory.

use sortie_agent::Source;
use sortie_api::{FileId, OrgId, request::RunFile};
use sortie_sandbox::RelPath;

use super::{
    Worker,
    resume::{Files, Ground},
};
use crate::{error::Error, files::saved::contents_of};

/// Lays the files, unless an earlier attempt at the run has. Returns the path and the size of each. An error is the
/// run's, in words for people.
pub(super) async fn lay(
    worker: &Worker,
    org: OrgId,
    files: Vec<RunFile>,
    ground: &mut Ground,
) -> Result<Vec<(String, u64)>, String> {
    let mut laid = Vec::new();
    for file in files {
        let path = RelPath::new(&file.path).map_err(|error| format!("files: {:?}: {error}", file.path))?;
        laid.push((path, file));
    }
    let ids = saved(&laid)?;
    let sizes = sizes(worker, org, &laid, &ids).await?;
    if ground.files == Files::Laid {
        ground.workspace.brought(laid.iter().map(|(path, _)| path));
        return Ok(sizes);
    }
    if laid.is_empty() {
        return Ok(sizes);
    }
    let mut contents = contents_of(&worker.records.store, &worker.contents, org, &ids)
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
        .map_err(|error| format!("the run's files cannot be laid: {error}"))?;
    Ok(sizes)
}

/// Path and size of each file, in order. A saved file that was deleted since an earlier attempt laid it has no size any
/// more and is left out.
async fn sizes(
    worker: &Worker,
    org: OrgId,
    files: &[(RelPath, RunFile)],
    saved: &[FileId],
) -> Result<Vec<(String, u64)>, String> {
    let rows = if saved.is_empty() {
        Vec::new()
    } else {
        let found = worker.records.store.find_files(org, saved, &[]).await;
        found.map_err(|error| format!("the run's files cannot be found: {}", Error::from(error)))?
    };
    let mut ids = saved.iter();
    let size = |file: &RunFile| {
        if file.file.is_none() {
            return Some(file.content.as_ref().map_or(0, |content| content.len() as u64));
        }
        let id = ids.next()?;
        let row = rows.iter().find(|row| row.file.id == *id)?;
        u64::try_from(row.file.size).ok()
    };
    let sizes: Vec<_> = files.iter().map(|(_, file)| file).map(size).collect();
    let paths = files.iter().map(|(_, file)| file.path.clone());
    Ok(paths
        .zip(sizes)
        .filter_map(|(path, size)| Some((path, size?)))
        .collect())
}

/// The ids of the saved ones, in order.
fn saved(files: &[(RelPath, RunFile)]) -> Result<Vec<FileId>, String> {
    files
        .iter()
        .filter_map(|(_, file)| file.file.as_ref())
        .map(|id| id.parse().map_err(|error| format!("files: {id:?}: {error}")))
        .collect()
}
