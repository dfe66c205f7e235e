//! The arguments of `sortie runs artifacts`.

use std::path::PathBuf;

use clap::Args;

use super::RunRef;
use crate::render::Render;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sortie runs artifacts @last
  sortie runs artifacts @last report.md
  sortie runs artifacts 01kafs6w1cef --download results")]
pub(crate) struct ArtifactsArgs {
    /// ID of a run, its beginning, or @last for the newest run
    pub(crate) run: RunRef,
    /// Print the content of this artifact
    #[arg(conflicts_with_all = ["download", "json"])]
    pub(crate) path: Option<String>,
    /// Save all artifacts below this folder, which is made where it is missing; no file there is replaced
    #[arg(long, value_name = "DIR", conflicts_with = "json")]
    pub(crate) download: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) render: Render,
}
