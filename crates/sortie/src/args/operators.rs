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
    #[command(after_help = "\
Examples:
  sortie organizations list
  sortie organizations list --json")]
    List(OperatorArgs),
    /// Show an organization
    #[command(after_help = "\
Examples:
  sortie organizations show org_01kafs6w1cefkstv6qr1ptb0mp")]
    Show {
        /// ID of the organization
        organization: OrgId,
        #[command(flatten)]
        operator: OperatorArgs,
    },
    /// Suspend an organization
    ///
    /// Every node refuses the credentials of the organization within five seconds. Queued runs stay queued.
    #[command(after_help = "\
Examples:
  sortie organizations suspend org_01kafs6w1cefkstv6qr1ptb0mp --reason 'unpaid invoice'
  sortie organizations suspend org_01kafs6w1cefkstv6qr1ptb0mp --cancel")]
    Suspend {
        /// ID of the organization
        organization: OrgId,
        /// Reason, for operators
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// Cancel the active runs; without this they end normally
        #[arg(long)]
        cancel: bool,
        #[command(flatten)]
        operator: OperatorArgs,
    },
    /// End the suspension of an organization
    #[command(after_help = "\
Examples:
  sortie organizations resume org_01kafs6w1cefkstv6qr1ptb0mp")]
    Resume {
        /// ID of the organization
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
        /// ID of the payment
        payment: PaymentId,
        /// Cents to refund [default: all that is not refunded yet]
        #[arg(long, value_name = "CENTS", value_parser = whole::<i64>, requires = "reference")]
        amount_cents: Option<i64>,
        /// Idempotency reference of the refund; required with --amount-cents
        #[arg(long, value_name = "TEXT")]
        reference: Option<String>,
        #[command(flatten)]
        operator: OperatorArgs,
    },
    /// Show the credits of an organization
    #[command(after_help = "\
Examples:
  sortie credits show org_01kafs6w1cefkstv6qr1ptb0mp")]
    Show {
        /// ID of the organization
        organization: OrgId,
        #[command(flatten)]
        operator: OperatorArgs,
    },
}

/// Movement of credits.
#[derive(Clone, Debug, Args)]
pub(crate) struct MovementArgs {
    /// ID of the organization
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
    /// Record a correction, which may take credits
    #[arg(long)]
    pub(crate) correct: bool,
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AdminCommand {
    /// Compare the credits of all organizations with the ledger and with the runs
    ///
    /// Exits with 0 only if everything agrees. Each line names an organization, the expected and the found amount.
    #[command(after_help = "\
Examples:
  sortie admin check-ledger")]
    CheckLedger(OperatorArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum UsersCommand {
    /// List all people
    #[command(after_help = "\
Examples:
  sortie users list")]
    List(OperatorArgs),
    /// Create an account and print the link by which its person sets a password
    #[command(after_help = "\
Examples:
  sortie users create ada@example.com 'Ada Lovelace'")]
    Create {
        /// Email address of the person
        email: String,
        /// Name of the person
        name: String,
        #[command(flatten)]
        operator: OperatorArgs,
    },
    /// Refuse sign-ins of a person and end the sessions
    #[command(after_help = "\
Examples:
  sortie users disable ada@example.com")]
    Disable(UserArgs),
    /// Let a person sign in again
    #[command(after_help = "\
Examples:
  sortie users enable ada@example.com")]
    Enable(UserArgs),
    /// Remove the identities of a person at identity providers, and end the sessions
    #[command(after_help = "\
Examples:
  sortie users unlink ada@example.com")]
    Unlink(UserArgs),
    /// Print a link by which a person sets a password; it works once
    #[command(after_help = "\
Examples:
  sortie users reset-link ada@example.com")]
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
