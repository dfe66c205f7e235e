//! Arguments of the commands that run an engine.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use sortie_server::Api;

use super::NodeArgs;
use crate::render::Render;

/// Address of the engine, or of the organization API of a hosted deployment, and the form of the answer.
#[derive(Clone, Debug, Args)]
pub(crate) struct InstallationArgs {
    #[command(flatten)]
    pub(crate) render: Render,
    #[arg(
        long,
        value_name = "URL",
        conflicts_with = "url",
        help = "Address of the organization API of a hosted deployment, for its operator [env: SORTIE_ORG_URL]"
    )]
    pub(crate) org_url: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Looks at this machine, and at the engine at --url or SORTIE_URL, else at the
one that serves in the data folder. An engine elsewhere is looked at alone.
On a hosted deployment the operator's key opens the checks of the node, at
--org-url or SORTIE_ORG_URL.

Exit codes:
  0  all is well, or well enough   1  a fault was found")]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) target: InstallationArgs,
    /// Have the engine ask the model providers for their models, with the keys that runs use
    #[arg(long)]
    pub(crate) providers: bool,
    #[command(flatten)]
    pub(crate) node: NodeArgs,
}

#[derive(Debug, Args)]
pub(crate) struct OpenapiArgs {
    /// The API that the document describes
    #[arg(long, value_name = "API", default_value = "engine")]
    pub(crate) api: NamedApi,
}

/// API by its name on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum NamedApi {
    /// Runs and their resources
    Engine,
    /// People and organizations of a hosted deployment
    Organization,
}

impl From<NamedApi> for Api {
    fn from(named: NamedApi) -> Self {
        match named {
            NamedApi::Engine => Self::Engine,
            NamedApi::Organization => Self::Organization,
        }
    }
}

/// A file, or `-` for a standard stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileOrStream(Option<PathBuf>);

impl From<&str> for FileOrStream {
    fn from(text: &str) -> Self {
        Self((text != "-").then(|| PathBuf::from(text)))
    }
}

impl FileOrStream {
    /// The file; none where it is the stream.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.0.as_deref()
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
The archive is a tar file with the database, as it stands at one moment, and the
files and artifacts that it refers to. The engine may go on meanwhile.
Neither the master key nor the admin key is in it unless asked for: keep the
master key elsewhere, as without it no sealed credential can ever be read again.")]
pub(crate) struct BackupArgs {
    /// The archive to write, which must not exist yet, or `-` for standard output
    #[arg(value_name = "FILE|-")]
    pub(crate) to: FileOrStream,
    /// Put the master keys in use, admin.key and operator.key into the archive: it then gives access to everything
    #[arg(long)]
    pub(crate) include_keys: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The data folder (--data-dir) must not exist yet, or be empty. Nothing is put in
its place before every check sum and the database itself were found in order.")]
pub(crate) struct RestoreArgs {
    /// The archive to read, or `-` for standard input
    #[arg(value_name = "FILE|-")]
    pub(crate) from: FileOrStream,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MasterKeyCommand {
    /// Show the engine's keys, and the values that are sealed with each
    Status(InstallationArgs),
    /// Seal everything again with the first key, so that the others can be removed
    Reseal(InstallationArgs),
}
