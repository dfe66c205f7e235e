//! `sortie man`: the manual pages for packages.

use std::{fs, path::Path};

use clap::CommandFactory as _;
use sortie_api::plain;

use crate::{
    args::Cli,
    failure::{Exit, Failure, Result},
    terminal,
};

/// Writes a page for each command into a folder.
pub(super) fn write(folder: &Path) -> Result<Exit> {
    let failed = |error: std::io::Error| {
        Failure::internal(format!(
            "cannot write to {}: {}",
            folder.display(),
            plain::io(&error)
        ))
    };
    fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(Cli::command(), folder).map_err(failed)?;
    terminal::note(&format!("wrote the manual pages to {}", folder.display()));
    Ok(Exit::Success)
}
