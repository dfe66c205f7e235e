//! The commands of `sortie files` and their flags.

use std::path::PathBuf;

use clap::Subcommand;
use sortie_api::{FileId, file::check_name};

use super::Paging;
use crate::render::Render;

#[derive(Debug, Subcommand)]
pub(crate) enum FilesCommand {
    /// List the saved files, newest first
    #[command(after_help = "\
Examples:
  sortie files list --all")]
    List {
        #[command(flatten)]
        paging: Paging,
        #[command(flatten)]
        render: Render,
    },
    /// Show the record of a file
    #[command(after_help = "\
Examples:
  sortie files get orders.csv")]
    Get {
        /// Name or ID of the file
        file: FileRef,
        #[command(flatten)]
        render: Render,
    },
    /// Save a file of this machine
    #[command(after_help = "\
Examples:
  sortie files upload examples/orders.csv --name orders-2026.csv")]
    Upload {
        /// File to save
        path: PathBuf,
        /// Name of the saved file [default: that of the file]
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        #[command(flatten)]
        render: Render,
    },
    /// Fetch the content of a file
    #[command(after_help = "\
Examples:
  sortie files download orders.csv --output - | head -n 3")]
    Download {
        /// Name or ID of the file
        file: FileRef,
        /// File to write, or `-` for standard output; an existing file is replaced [default: the file's name, in this
        /// folder]
        #[arg(long, short, value_name = "PATH|-")]
        output: Option<PathBuf>,
    },
    /// Give a file another name
    #[command(after_help = "\
Examples:
  sortie files rename orders.csv orders-2026.csv")]
    Rename {
        /// Name or ID of the file
        file: FileRef,
        /// New name
        name: String,
        #[command(flatten)]
        render: Render,
    },
    /// Delete files
    #[command(after_help = "\
Examples:
  sortie files delete orders-2025.csv orders-2026.csv")]
    Delete {
        /// Name or ID of a file
        #[arg(required = true, value_name = "FILE")]
        files: Vec<FileRef>,
    },
}

/// A file's ID or name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileRef(String);

impl FileRef {
    /// The text, as one segment of a path before it is encoded.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<FileId> for FileRef {
    fn from(id: FileId) -> Self {
        Self(id.to_string())
    }
}

impl std::fmt::Display for FileRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for FileRef {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.parse::<FileId>().is_err() {
            check_name(text).map_err(|rule| format!("a file's name {rule}"))?;
        }
        Ok(Self(text.to_owned()))
    }
}
