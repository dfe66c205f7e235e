//! What the file tools share: paths as models write them, and errors as models read them.

use sortie_sandbox::{FileError, RelPath, Workdir};

use super::{Context, ToolError};
use crate::workspace::WorkspaceError;

/// A path of a file. A leading `./` is taken off: models write it often.
pub(super) fn file_path(text: &str) -> Result<RelPath, ToolError> {
    RelPath::new(bare(text)).map_err(|error| ToolError::ToModel(format!("path: {error}")))
}

/// A path of a folder, `None` for the working directory itself.
pub(super) fn folder_path(text: Option<&str>) -> Result<Option<RelPath>, ToolError> {
    match bare(text.unwrap_or_default()).trim_end_matches('/') {
        "" | "." if !text.is_some_and(|text| text.starts_with('/')) => Ok(None),
        folder => file_path(folder).map(Some),
    }
}

fn bare(mut text: &str) -> &str {
    while let Some(rest) = text.strip_prefix("./") {
        text = rest;
    }
    text
}

/// A failure with the path that it is about.
pub(super) fn about(path: &str, error: &FileError) -> ToolError {
    ToolError::ToModel(format!("{path}: {error}"))
}

/// Does blocking work on the working directory.
pub(super) async fn with_workdir<T: Send + 'static>(
    context: Context<'_>,
    work: impl FnOnce(&Workdir) -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    // The workspace is free again before the work begins, so that calls run side by side.
    let files = context.files()?;
    let directory = files.workspace.lock().await.directory(files.input_file).await?;
    directory.run(work).await.map_err(WorkspaceError::from)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_as_models_write_them_are_understood() {
        assert_eq!(file_path("././a/b").unwrap().as_str(), "a/b");
        for here in [None, Some(""), Some("."), Some("./"), Some("./.")] {
            assert_eq!(folder_path(here).unwrap(), None, "{here:?}");
        }
        assert_eq!(folder_path(Some("./src/")).unwrap().unwrap().as_str(), "src");
        for hostile in ["/", "/etc", "..", "a/../..", "./../x"] {
            let ToolError::ToModel(told) = folder_path(Some(hostile)).unwrap_err() else {
                panic!("{hostile}")
            };
            assert!(told.starts_with("path: must "), "{hostile}: {told}");
        }
    }
}
