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
Checks this machine, and the engine that is named or that serves in the data
folder. With an engine on another machine only the engine is checked. On a
hosted deployment the operator's key opens the checks of the node, at --org-url
or SORTIE_ORG_URL.

Exit codes:
  0  no faults (warnings are possible)   1  a fault was found

Examples:
  sortie doctor
  sortie doctor --providers
  sortie doctor --url https://sortie.example.com")]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) target: InstallationArgs,
    /// Also ask the model providers for their models, with the keys that runs use; costs nothing
    #[arg(long)]
    pub(crate) providers: bool,
    #[command(flatten)]
    pub(crate) node: NodeArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sortie openapi > engine.json
  sortie openapi --api organization")]
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
The archive is a tar file with a snapshot of the database, and the files and
artifacts that it refers to. The engine may work during the backup. The archive
has no keys without --include-keys: keep a copy of the master key elsewhere,
because sealed credentials cannot be read without it.

Examples:
  sortie backup sortie.tar
  sortie backup - | gzip > sortie.tar.gz")]
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
The data folder (--data-dir, else data) must be missing or empty. It is created
only after every checksum and the database are verified.

Examples:
  sortie restore sortie.tar
  gunzip < sortie.tar.gz | sortie restore - --data-dir /var/lib/sortie/data")]
pub(crate) struct RestoreArgs {
    /// The archive to read, or `-` for standard input
    #[arg(value_name = "FILE|-")]
    pub(crate) from: FileOrStream,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MasterKeyCommand {
    /// Show the keys of the engine, and the number of values that each has sealed
    #[command(after_help = "\
Examples:
  sortie master-key status")]
    Status(InstallationArgs),
    /// Seal everything again with the first key, so that the others can be removed
    #[command(after_help = "\
Examples:
  sortie master-key reseal")]
    Reseal(InstallationArgs),
}
