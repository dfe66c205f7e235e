//! Arguments of the commands for the operator of a hosted deployment.

use clap::{Args, Subcommand};
use sortie_api::{OrgId, PaymentId};

use super::{Amount, number::whole};
use crate::render::Render;

/// Address of the organization API, and the form of the answer.
#[derive(Clone, Debug, Args)]
pub(crate) struct OperatorArgs {
    #[command(flatten)]
    pub(crate) render: Render,
    #[arg(
        long,
        value_name = "URL",
        help = "Address of the organization API [env: SORTIE_ORG_URL] [default: the node of the data folder]"
    )]
    pub(crate) org_url: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OrganizationsCommand {
    /// List all organizations
    List(OperatorArgs),
    /// Show an organization
    Show {
        organization: OrgId,
        #[command(flatten)]
        operator: OperatorArgs,
    },
    /// Suspend an organization
    ///
    /// Credentials of the organization are refused on every node within five seconds. Waiting runs stay where they are.
    Suspend {
        organization: OrgId,
        /// Reason, for operators
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// Cancel the runs at work; without this they end normally
        #[arg(long)]
        cancel: bool,
        #[command(flatten)]
        operator: OperatorArgs,
    },
    /// End the suspension of an organization
    Resume {
        organization: OrgId,
        #[command(flatten)]
        operator: OperatorArgs,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum CreditsCommand {
    /// Give credits to an organization, or correct them
    #[command(after_help = "\
Examples:
  sortie credits grant org_01kafs6w1cefkstv6qr1ptb0mp '$5' --reason 'welcome' --reference ticket-4711
  sortie credits grant org_01kafs6w1cefkstv6qr1ptb0mp '-$5' --correct --reason 'granted twice' --reference fix-1")]
    Grant(MovementArgs),
    /// Refund a payment, or a part of it, and take the credits back
    #[command(after_help = "\
Examples:
  sortie credits refund pay_01kafs6w1cefkstv6qr1ptb0mp
  sortie credits refund pay_01kafs6w1cefkstv6qr1ptb0mp --amount-cents 500 --reference ticket-4711")]
    Refund {
        payment: PaymentId,
        /// Cents to refund; without this all that is left
        #[arg(long, value_name = "CENTS", value_parser = whole::<i64>, requires = "reference")]
        amount_cents: Option<i64>,
        /// Idempotency reference of the refund; required with --amount-cents
        #[arg(long, value_name = "TEXT")]
        reference: Option<String>,
        #[command(flatten)]
        operator: OperatorArgs,
    },
    /// Show the credits of an organization
    Show {
        organization: OrgId,
        #[command(flatten)]
        operator: OperatorArgs,
    },
}

/// Movement of credits.
#[derive(Clone, Debug, Args)]
pub(crate) struct MovementArgs {
    pub(crate) organization: OrgId,
    /// Amount with its unit: $5, $0.05, 5usd or 5000000micros
    #[arg(allow_hyphen_values = true)]
    pub(crate) amount: Amount,
    /// Reason, which the organization sees in its ledger
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    /// Idempotency reference of the movement
    #[arg(long, value_name = "TEXT")]
    pub(crate) reference: String,
    /// Enter a correction, which may take credits
    #[arg(long)]
    pub(crate) correct: bool,
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AdminCommand {
    /// Compare the credits of all organizations with the ledger and with the runs
    ///
    /// Exits with 0 only where everything agrees. Each line names an organization, what was expected and what was found.
    CheckLedger(OperatorArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum UsersCommand {
    /// List all people
    List(OperatorArgs),
    /// Create an account and print the link by which its person sets a password
    Create {
        /// Email address of the person
        email: String,
        /// Name of the person
        name: String,
        #[command(flatten)]
        operator: OperatorArgs,
    },
    /// Refuse sign-ins of a person and end the sessions
    Disable(UserArgs),
    /// Let a person sign in again
    Enable(UserArgs),
    /// End the identities of a person at identity providers, and the sessions
    Unlink(UserArgs),
    /// Print a link by which a person sets a password, this once
    ResetLink(UserArgs),
}

/// A person.
#[derive(Clone, Debug, Args)]
pub(crate) struct UserArgs {
    /// ID or email address of the person
    pub(crate) user: String,
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
}
