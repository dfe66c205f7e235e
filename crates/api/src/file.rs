//! Saved files: the record, its pages, and what renames one.

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
    /// Its id.
    pub id: FileId,
    /// Its name, unique in the organization.
    #[schema(example = "orders.csv")]
    pub name: String,
    /// Its size in bytes.
    #[schema(minimum = 0)]
    pub size: i64,
    /// Its media type: as it was sent, else from its name.
    #[schema(example = "text/csv")]
    pub content_type: String,
    /// SHA-256 of its content, in lowercase hexadecimal.
    pub sha256: Sha256,
    /// When it was saved.
    pub created_at: Timestamp,
}

/// One page of files, newest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct FilePage {
    /// The files.
    pub items: Vec<File>,
    /// What `cursor` takes for the next page; empty on the last one.
    pub next_cursor: String,
}

/// A file's new name.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct RenameFile {
    /// The name: 1 to 255 bytes, no `/`, no control character, not `.` or `..`, not in the form of a file's id.
    #[schema(min_length = 1, max_length = 255, example = "orders-2026.csv")]
    pub name: String,
}

/// An artifact of a run that is to become a saved file.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct KeepArtifact {
    /// The run.
    pub run: RunId,
    /// The artifact's path, as the run shows it.
    #[schema(min_length = 1, max_length = 1024, example = "report.md")]
    pub path: String,
    /// The file's name: 1 to 255 bytes, no `/`, no control character, not `.` or `..`, not in the form of a file's id.
    #[schema(min_length = 1, max_length = 255, example = "report-2026.md")]
    pub name: String,
}

objects!(RenameFile KeepArtifact);

/// What a file's name breaks of the rules, if anything.
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
    if name == "." || name == ".." {
        return Err("must not be `.` or `..`");
    }
    if name.parse::<FileId>().is_ok() {
        return Err("must not have the form of a file's ID");
    }
    Ok(())
}
