//! The pictures among a run's saved files, for the first message of a model that accepts them.

use std::{fs::File, io::Read as _};

use sortie_agent::{Media, Model, media_of};
use sortie_api::{FileId, OrgId, request::RunFile};

use super::Worker;
use crate::files::saved::{Unprepared, contents_of};

/// Maximum number of pictures in a first message.
const PICTURES: usize = 8;
/// Size limit of the pictures together, in bytes. Providers accept requests of 20 MiB and more, and base64 adds a
/// third.
const ALL_BYTES: u64 = 8 * 1024 * 1024;

/// Returns the first pictures of `files`, up to the limits of one message. The environment block names the other files, and tools
/// can read them.
///
/// # Errors
/// `Away` if the storage is unavailable, `Failed` if a file cannot be read.
pub(super) async fn pictures(
    worker: &Worker,
    org: OrgId,
    files: &[RunFile],
    model: &dyn Model,
) -> Result<Vec<Media>, Unprepared> {
    let wanted: Vec<(FileId, &str)> = files
        .iter()
        .filter(|file| has_picture_name(&file.path))
        .filter_map(|file| Some((file.file.as_ref()?.parse().ok()?, file.path.as_str())))
        .take(PICTURES)
        .collect();
    if wanted.is_empty() || !model.info().capabilities.iter().any(|can| can == "vision") {
        return Ok(Vec::new());
    }
    let ids: Vec<FileId> = wanted.iter().map(|(id, _)| *id).collect();
    let contents = match contents_of(&worker.records.store, &worker.contents, org, &ids).await {
        Ok(contents) => contents,
        // The file was deleted during an earlier attempt, so it is in the working directory, and the run continues without
        // showing it. If it still has to be staged, staging reports the same error.
        Err(Unprepared::Failed(error)) => {
            tracing::warn!(error, "cannot read the pictures of a run");
            return Ok(Vec::new());
        }
        Err(away @ Unprepared::Away(_)) => return Err(away),
    };
    let named: Vec<(File, String)> = contents
        .into_iter()
        .zip(wanted)
        .map(|(file, (_, path))| (file, path.to_owned()))
        .collect();
    let read = tokio::task::spawn_blocking(move || read(named));
    let read = read
        .await
        .map_err(|error| format!("the run's pictures cannot be read: {error}"))?
        .map_err(|error| format!("the run's pictures cannot be read: {error}"))?;
    let counted = read.into_iter().filter_map(|media| {
        let tokens = model.media_tokens(&media)?;
        Some(Media { tokens, ..media })
    });
    Ok(counted.collect())
}

/// Whether the name is that of a picture. Its bytes decide in the end.
fn has_picture_name(path: &str) -> bool {
    let ending = path
        .rsplit_once('.')
        .map(|(_, ending)| ending.to_ascii_lowercase());
    ending.is_some_and(|ending| ["png", "jpg", "jpeg", "gif", "webp"].contains(&ending.as_str()))
}

fn read(files: Vec<(File, String)>) -> std::io::Result<Vec<Media>> {
    let mut left = ALL_BYTES;
    let mut pictures = Vec::new();
    for (file, path) in files {
        let mut bytes = Vec::new();
        file.take(left + 1).read_to_end(&mut bytes)?;
        let Some(rest) = left.checked_sub(bytes.len() as u64) else {
            continue;
        };
        if let Some(media) = media_of(&bytes, &path).filter(|media| media.pixels.is_some()) {
            left = rest;
            pictures.push(media);
        }
    }
    Ok(pictures)
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, Write as _};

    use super::*;

    fn file(content: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        file.rewind().unwrap();
        file
    }

    fn gif(bytes: usize) -> Vec<u8> {
        let mut gif = b"GIF89a\x02\x00\x03\x00".to_vec();
        gif.resize(bytes, 0);
        gif
    }

    #[test]
    fn only_pictures_are_taken_and_only_as_many_bytes_as_a_message_holds() {
        let large = gif(3 << 20);
        let files = vec![
            (file(&large), "a.gif".to_owned()),
            (file(b"text"), "b.png".to_owned()),
            (file(&large), "c.gif".to_owned()),
            (file(&large), "d.gif".to_owned()),
            (file(&gif(20)), "e.gif".to_owned()),
        ];
        let pictures = read(files).unwrap();
        let labels: Vec<&str> = pictures
            .iter()
            .map(|media| media.label.split([':', ' ']).next().unwrap())
            .collect();
        assert_eq!(labels, ["a.gif", "c.gif", "e.gif"]);
        assert_eq!(pictures[0].pixels, Some((2, 3)));
    }

    #[test]
    fn a_name_decides_which_files_are_looked_into() {
        assert!(has_picture_name("a/b.PNG") && has_picture_name("x.webp"));
        assert!(!has_picture_name("png") && !has_picture_name("a.csv"));
    }
}
