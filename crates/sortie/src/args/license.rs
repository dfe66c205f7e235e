//! Arguments of `sortie license`.

use clap::{Args, Subcommand};
use sortie_api::{OrgId, Timestamp};

use super::{OperatorArgs, number::whole};
use crate::render::Render;

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  sortie license
  sortie license --json"
)]
pub(crate) struct LicenseArgs {
    #[command(subcommand)]
    pub(crate) command: Option<LicenseCommand>,
    #[command(flatten)]
    pub(crate) render: Render,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LicenseCommand {
    /// Install the license of a token, in place of an earlier one
    #[command(after_help = "\
Examples:
  sortie license install - < license.txt")]
    Install {
        /// Token of the license, or `-` for standard input
        #[arg(value_name = "TOKEN|-")]
        token: String,
        #[command(flatten)]
        render: Render,
    },
    /// Delete the license; the engine then has no allowance of runs
    #[command(after_help = "\
Examples:
  sortie license delete")]
    Delete,
    /// Entitle an organization of a hosted deployment to licenses
    ///
    /// Replaces the earlier entitlement of the organization. Existing deployments stay as they are.
    #[command(after_help = "\
Examples:
  sortie license grant org_01kafs6w1cefkstv6qr1ptb0mp --monthly-runs 10000 --deployments 2")]
    Grant {
        /// ID of the organization
        organization: OrgId,
        /// Runs in a calendar month, in UTC, for each deployment
        #[arg(long, value_name = "N", value_parser = whole::<i64>)]
        monthly_runs: i64,
        /// Maximum number of self-hosted installations
        #[arg(long, value_name = "N", value_parser = whole::<i64>)]
        deployments: i64,
        /// End of the licenses, as in 2027-11-20T21:30:00Z [default: in 365 days]
        #[arg(long, value_name = "TIME")]
        expires_at: Option<Timestamp>,
        #[command(flatten)]
        operator: OperatorArgs,
    },
    /// Print the key by which self-hosted engines verify the licenses of a hosted deployment
    #[command(after_help = "\
Examples:
  sortie license public-key")]
    PublicKey(OperatorArgs),
}
