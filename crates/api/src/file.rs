//! Saved files: the record, pages of records, and the rename request.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    digest::Sha256,
    id::{FileId, RunId},
    limits,
    object::objects,
    time::Timestamp,
};

/// A saved file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct File {
    /// ID of the file.
    pub id: FileId,
    /// Name of the file, unique in the organization.
    #[schema(example = "orders.csv")]
    pub name: String,
    /// Size in bytes.
    #[schema(minimum = 0)]
    pub size: i64,
    /// Media type: as sent, else from the name.
    #[schema(example = "text/csv")]
    pub content_type: String,
    /// SHA-256 of the content, in lowercase hexadecimal.
    pub sha256: Sha256,
    /// Time at which the file was saved.
    pub created_at: Timestamp,
    /// Names of the workflows that name the file, by ID or by name, in order: at most the first 20.
    #[schema(max_items = 20)]
    pub used_by: Vec<String>,
}

/// Page of files, newest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct FilePage {
    /// The files.
    pub items: Vec<File>,
    /// Value for `cursor` to get the next page; empty on the last one.
    pub next_cursor: String,
}

/// Request for a new name of a file.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct RenameFile {
    /// The name: 1 to 255 bytes, no `/`, no control or invisible character, not `.` or `..`, not in the form of a
    /// file's id.
    #[schema(min_length = 1, max_length = 255, example = "orders-2026.csv")]
    pub name: String,
}

/// Request to keep an artifact of a run as a saved file.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct KeepArtifact {
    /// The run.
    pub run: RunId,
    /// Path of the artifact, as in the run object.
    #[schema(min_length = 1, max_length = 1024, example = "report.md")]
    pub path: String,
    /// The file's name: 1 to 255 bytes, no `/`, no control or invisible character, not `.` or `..`, not in the form of
    /// a file's id.
    #[schema(min_length = 1, max_length = 255, example = "report-2026.md")]
    pub name: String,
}

objects!(RenameFile KeepArtifact);

/// Checks a file's name.
///
/// # Errors
/// The rule, for a message that names the field.
pub fn check_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() || name.len() > limits::FILE_NAME_BYTES {
        return Err("must be 1 to 255 bytes");
    }
    if name.contains('/') || name.chars().any(char::is_control) {
        return Err("must hold no `/` and no control characters");
    }
    if !is_seen_whole(name) {
        return Err("must hold no invisible characters and none that change the direction of text");
    }
    if name == "." || name == ".." {
        return Err("must not be `.` or `..`");
    }
    if name.parse::<FileId>().is_ok() {
        return Err("must not have the form of a file's ID");
    }
    Ok(())
}

/// Whether every character of a name is seen where it stands. A joiner is part of a letter or of a picture: it may
/// stand between two characters beyond ASCII.
pub fn is_seen_whole(name: &str) -> bool {
    let mut before = None;
    let mut characters = name.chars().peekable();
    while let Some(character) = characters.next() {
        let is_beyond_ascii = |neighbour: char| !neighbour.is_ascii() && !is_deceptive(neighbour);
        let joins = matches!(character, ZERO_WIDTH_NON_JOINER | ZERO_WIDTH_JOINER)
            && before.is_some_and(is_beyond_ascii)
            && characters.peek().copied().is_some_and(is_beyond_ascii);
        if is_deceptive(character) && !joins {
            return false;
        }
        before = Some(character);
    }
    true
}

const ZERO_WIDTH_NON_JOINER: char = '\u{200c}';
const ZERO_WIDTH_JOINER: char = '\u{200d}';

/// Whether a character makes a name look like another one: it is a control character, has no width, or changes the
/// direction of the text around it.
pub const fn is_deceptive(character: char) -> bool {
    matches!(
        character,
        '\0'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            // Soft hyphen, grapheme joiner, Arabic letter mark, Hangul fillers, Khmer vowels without a sign.
            | '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            // Mongolian selectors and separator.
            | '\u{180b}'..='\u{180f}'
            // Zero-width space and joiners, marks of direction.
            | '\u{200b}'..='\u{200f}'
            // Line and paragraph separators, embeddings and overrides.
            | '\u{2028}'..='\u{202e}'
            // Word joiner, invisible operators, isolates.
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{feff}'
            | '\u{ffa0}'
            // Annotations and tags.
            | '\u{fff0}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_it_looks_like() {
        for name in [
            "report.pdf",
            "a \"quoted\" 100%22.txt",
            "größer, 大きい.csv",
            "קובץ.txt",
            // Persian with a non-joiner, a family joined of three, a heart with a selector.
            "نامه\u{200c}ها.txt",
            "👨\u{200d}👩\u{200d}👧.png",
            "❤\u{fe0f}.png",
        ] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in [
            "photo\u{202e}gpj.exe",
            "a\u{200b}.txt",
            "a\u{200d}.txt",
            "\u{200d}ä",
            "ä\u{200d}\u{200d}ä",
            "\u{feff}a",
            "a\u{2028}b",
            "a\u{e0041}",
            "\u{2066}a\u{2069}",
            "\u{200f}a",
            "a\r\nb",
            "a\u{85}b",
        ] {
            assert!(check_name(name).is_err(), "{}", name.escape_unicode());
        }
    }
}
