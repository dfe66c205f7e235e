//! Rules of `files`: their number, their paths and their content.

use std::collections::BTreeSet;

use sortie_api::{FileId, OrgId, Refusal, limits, request::RunFile};
use sortie_sandbox::RelPath;
use sortie_store::Store;

use crate::kit::rules::broken;

/// Checks `files` without a look-up of saved ones.
pub(super) fn form(files: &[RunFile]) -> Result<(), Refusal> {
    if files.len() > limits::FILES {
        return Err(broken(
            "files",
            format!("must have at most {} entries", limits::FILES),
        ));
    }
    let mut inline_bytes = 0;
    for (at, file) in files.iter().enumerate() {
        RelPath::new(&file.path).map_err(|rule| broken(format_args!("files[{at}].path"), rule))?;
        match (&file.file, &file.content) {
            (None, Some(content)) => inline_bytes += content.len(),
            (Some(_), None) => {}
            (Some(_), Some(_)) | (None, None) => {
                return Err(broken(
                    format_args!("files[{at}]"),
                    "must have either file or content",
                ));
            }
        }
    }
    if inline_bytes > limits::INLINE_FILES_BYTES {
        return Err(broken(
            "files",
            format!(
                "inline contents must be at most {} bytes together",
                limits::INLINE_FILES_BYTES
            ),
        ));
    }
    distinct(files)
}

/// Replaces the names of saved files by their ids, because a name may be given to another file later.
pub(super) async fn resolve(
    store: &Store,
    org: OrgId,
    files: &mut [RunFile],
    most: u64,
) -> Result<(), Refusal> {
    let (mut ids, mut names) = (Vec::new(), Vec::new());
    for file in files.iter().filter_map(|file| file.file.as_ref()) {
        match file.parse::<FileId>() {
            Ok(id) => ids.push(id),
            Err(_) => names.push(file.clone()),
        }
    }
    if ids.is_empty() && names.is_empty() {
        return Ok(());
    }
    let found = store.find_files(org, &ids, &names).await?;
    let mut bytes = 0_u64;
    for (at, file) in files.iter_mut().enumerate() {
        bytes = bytes.saturating_add(file.content.as_ref().map_or(0, String::len) as u64);
        let Some(wanted) = &mut file.file else { continue };
        let saved = found
            .iter()
            .find(|saved| saved.id.to_string() == *wanted || saved.name == *wanted)
            .ok_or_else(|| broken(format_args!("files[{at}].file"), format!("no file {wanted:?}")))?;
        *wanted = saved.id.to_string();
        bytes = bytes.saturating_add(u64::try_from(saved.size).unwrap_or(0));
    }
    if bytes > most {
        return Err(broken(
            "files",
            format!("must be at most {most} bytes together: a working directory holds no more"),
        ));
    }
    Ok(())
}

/// Checks that no path occurs twice, and that no path is a folder of another.
fn distinct(files: &[RunFile]) -> Result<(), Refusal> {
    let mut paths = BTreeSet::new();
    for (at, file) in files.iter().enumerate() {
        if !paths.insert(file.path.as_str()) {
            return Err(broken(
                format_args!("files[{at}].path"),
                format!("{:?} is there twice", file.path),
            ));
        }
    }
    for (at, file) in files.iter().enumerate() {
        let folder = file
            .path
            .match_indices('/')
            .filter_map(|(end, _)| file.path.get(..end))
            .find(|p| paths.contains(p));
        if let Some(folder) = folder {
            return Err(broken(
                format_args!("files[{at}].path"),
                format!("{folder:?} is a file and cannot also be a folder"),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(paths: &[&str]) -> Option<String> {
        let files: Vec<RunFile> = paths
            .iter()
            .map(|path| RunFile {
                path: (*path).to_owned(),
                file: None,
                content: Some(String::new()),
            })
            .collect();
        form(&files).err().map(|error| error.to_string())
    }

    #[test]
    fn a_path_that_another_needs_as_a_folder_is_refused() {
        assert_eq!(refusal(&["a", "a.b", "a0/b"]), None);
        let text = "files[1].path: \"a/b\" is a file and cannot also be a folder";
        assert_eq!(refusal(&["a/b", "a/b/c"]).as_deref(), Some(text));
        assert!(refusal(&["a/b/c", "x", "a"]).is_some_and(|text| text.starts_with("files[0].path")));
    }

    #[test]
    fn a_path_is_there_once() {
        assert_eq!(
            refusal(&["a", "b", "a"]).as_deref(),
            Some("files[2].path: \"a\" is there twice")
        );
    }

    #[test]
    fn exactly_one_of_file_and_content_is_needed() {
        let neither = RunFile {
            path: "a".to_owned(),
            file: None,
            content: None,
        };
        let both = RunFile {
            file: Some("f".to_owned()),
            content: Some(String::new()),
            ..neither.clone()
        };
        for file in [neither, both] {
            let text = form(&[file]).err().map(|error| error.to_string());
            assert_eq!(
                text.as_deref(),
                Some("files[0]: must have either file or content")
            );
        }
    }
}
