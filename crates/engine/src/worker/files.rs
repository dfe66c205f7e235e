//! Staging of a run's own files in its working directory. Inline files come from its definition. Saved files are streamed from
//! the storage.

use sortie_agent::Source;
use sortie_api::{FileId, OrgId, Refusal, request::RunFile};
use sortie_sandbox::RelPath;

use super::{
    Worker,
    resume::{AttemptState, Files},
};
use crate::{
    files::saved::{Unprepared, contents_of},
    kit::retry::until_read,
};

/// Stages the files, unless an earlier attempt has done so. Returns the path and the size of each.
pub(super) async fn stage(
    worker: &Worker,
    org: OrgId,
    files: Vec<RunFile>,
    state: &mut AttemptState,
) -> Result<Vec<(String, u64)>, Unprepared> {
    let mut named = Vec::new();
    for file in files {
        let path = RelPath::new(&file.path).map_err(|error| format!("files: {:?}: {error}", file.path))?;
        named.push((path, file));
    }
    let ids = saved(&named)?;
    let sizes = sizes(worker, org, &named, &ids).await?;
    if state.files == Files::Staged {
        state.workspace.set_own_files(named.iter().map(|(path, _)| path));
        return Ok(sizes);
    }
    if named.is_empty() {
        return Ok(sizes);
    }
    let mut contents = contents_of(&worker.records.store, &worker.contents, org, &ids)
        .await?
        .into_iter();
    let mut sources = Vec::new();
    for (path, file) in named {
        let source = match file.file {
            None => Source::Bytes(file.content.unwrap_or_default().into_bytes()),
            Some(id) => contents
                .next()
                .map(Source::File)
                .ok_or_else(|| format!("the file {id} is gone"))?,
        };
        sources.push((path, source));
    }
    state
        .workspace
        .stage(sources)
        .await
        .map_err(|error| format!("the run's files cannot be staged: {error}"))?;
    Ok(sizes)
}

/// Returns path and size of each file, in order. A saved file that was deleted since an earlier attempt staged it has
/// no size and is left out.
async fn sizes(
    worker: &Worker,
    org: OrgId,
    files: &[(RelPath, RunFile)],
    saved: &[FileId],
) -> Result<Vec<(String, u64)>, String> {
    let rows = if saved.is_empty() {
        Vec::new()
    } else {
        let found = until_read(|| worker.records.store.find_files(org, saved, &[])).await;
        found.map_err(|error| format!("the run's files cannot be found: {}", Refusal::from(error)))?
    };
    let mut ids = saved.iter();
    let size = |file: &RunFile| {
        if file.file.is_none() {
            return Some(file.content.as_ref().map_or(0, |content| content.len() as u64));
        }
        let id = ids.next()?;
        let row = rows.iter().find(|row| row.id == *id)?;
        u64::try_from(row.size).ok()
    };
    let sizes: Vec<_> = files.iter().map(|(_, file)| file).map(size).collect();
    let paths = files.iter().map(|(_, file)| file.path.clone());
    Ok(paths
        .zip(sizes)
        .filter_map(|(path, size)| Some((path, size?)))
        .collect())
}

/// Returns the ids of the saved files, in order.
fn saved(files: &[(RelPath, RunFile)]) -> Result<Vec<FileId>, String> {
    files
        .iter()
        .filter_map(|(_, file)| file.file.as_ref())
        .map(|id| id.parse().map_err(|error| format!("files: {id:?}: {error}")))
        .collect()
}
