//! The commands of `sortie connections` and their flags.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use sortie_api::connection::AuthType;

use super::Name;
use crate::render::Render;

#[derive(Debug, Subcommand)]
pub(crate) enum ConnectionsCommand {
    /// List the saved connections
    #[command(after_help = "\
Examples:
  sortie connections list")]
    List(Render),
    /// Show a connection, without its credentials
    #[command(after_help = "\
Examples:
  sortie connections get shop")]
    Get {
        /// Name of the connection
        name: Name,
        #[command(flatten)]
        render: Render,
    },
    /// Save a connection, or replace the one of that name whole
    Put(Box<PutArgs>),
    /// Delete a connection and forget its credentials
    #[command(after_help = "\
Examples:
  sortie connections delete shop")]
    Delete {
        /// Name of a connection
        #[arg(required = true, value_name = "NAME")]
        names: Vec<Name>,
    },
    /// Call the server and print the result
    #[command(after_help = "\
Examples:
  sortie connections test shop")]
    Test {
        /// Name of the connection
        name: Name,
        #[command(flatten)]
        render: Render,
    },
    /// Authorize a connection with OAuth
    ///
    /// Prints the address that a person opens in a browser. The page that the browser comes back to shows a code. At a
    /// terminal the command asks for it; elsewhere `connections confirm` takes it.
    #[command(after_help = "\
Examples:
  sortie connections authorize tracker")]
    Authorize {
        /// Name of the connection
        name: Name,
        #[command(flatten)]
        render: Render,
    },
    /// Confirm an authorization with the code that the browser shows
    #[command(after_help = "\
Examples:
  sortie connections confirm tracker BCDF-GHJK")]
    Confirm {
        /// Name of the connection
        name: Name,
        /// Code of the page, such as BCDF-GHJK
        #[arg(value_name = "CODE")]
        code: String,
        #[command(flatten)]
        render: Render,
    },
    /// List well-known services
    #[command(after_help = "\
Examples:
  sortie connections catalog")]
    Catalog(Render),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Credentials are never arguments, which others on this machine could read: they
come from standard input or from environment variables. --file takes every field
of the API, as JSON or TOML.

Examples:
  sortie connections put crm https://api.example.com/v1 --auth bearer < token
  sortie connections put tracker https://mcp.example.com/mcp --mcp --auth oauth
  sortie connections put notes --env NOTES_KEY=NOTES_KEY --command npx -y notes-mcp
  sortie connections put shop --file shop.toml")]
pub(crate) struct PutArgs {
    /// Name of the connection
    pub(crate) name: Name,
    /// Base URL of an HTTP API, or the endpoint of an MCP server
    #[arg(value_name = "URL", required_unless_present_any = ["file", "command"], conflicts_with_all = ["file", "command"])]
    pub(crate) target: Option<String>,
    /// Read the whole definition from a file in JSON or TOML, or from standard input
    #[arg(long, value_name = "FILE|-", conflicts_with_all = ["mcp", "auth", "auth_name", "username", "client_id",
        "issuer", "scopes", "secret_env", "headers", "allow", "description", "command", "variables"])]
    pub(crate) file: Option<PathBuf>,
    /// Connect to an MCP server
    #[arg(long)]
    pub(crate) mcp: bool,
    /// Run this program as an MCP server in the sandbox; it takes the rest of the line
    #[arg(long, value_name = "PROGRAM", num_args = 1.., allow_hyphen_values = true,
        conflicts_with_all = ["auth", "headers"])]
    pub(crate) command: Vec<String>,
    /// Set a variable of --command, with its value from a variable of this command
    #[arg(long = "env", value_name = "NAME=VARIABLE", requires = "command")]
    pub(crate) variables: Vec<String>,
    /// Authentication method
    #[arg(long, value_enum, default_value_t = AuthKind::None)]
    pub(crate) auth: AuthKind,
    /// Name of the header or query parameter of --auth header and --auth query
    #[arg(long, value_name = "NAME")]
    pub(crate) auth_name: Option<String>,
    /// User name of --auth basic
    #[arg(long, value_name = "NAME")]
    pub(crate) username: Option<String>,
    /// Client of --auth oauth, where the engine does not register itself
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// Issuer that --client-id belongs to: the client and its secret go to no other
    #[arg(long, value_name = "URL", requires = "client_id")]
    pub(crate) issuer: Option<String>,
    /// Scope to ask for with --auth oauth
    #[arg(long = "scope", value_name = "SCOPE")]
    pub(crate) scopes: Vec<String>,
    /// Read the credential from this variable [default: from standard input, where one is needed]
    #[arg(long, value_name = "VARIABLE")]
    pub(crate) secret_env: Option<String>,
    /// Add a header to every request, with its value from a variable
    #[arg(long = "header-env", value_name = "NAME=VARIABLE")]
    pub(crate) headers: Vec<String>,
    /// Allow only this method, or this tool of an MCP server
    #[arg(long, value_name = "METHOD|TOOL")]
    pub(crate) allow: Vec<String>,
    /// Purpose of the connection, for people and agents
    #[arg(long)]
    pub(crate) description: Option<String>,
    #[command(flatten)]
    pub(crate) render: Render,
}

/// Authentication methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuthKind {
    /// No authentication
    None,
    /// A token in `Authorization: Bearer`
    Bearer,
    /// User name and password
    Basic,
    /// A header of its own
    Header,
    /// A query parameter
    Query,
    /// OAuth, by `connections authorize`
    Oauth,
}

impl From<AuthKind> for AuthType {
    fn from(kind: AuthKind) -> Self {
        match kind {
            AuthKind::None => Self::None,
            AuthKind::Bearer => Self::Bearer,
            AuthKind::Basic => Self::Basic,
            AuthKind::Header => Self::Header,
            AuthKind::Query => Self::Query,
            AuthKind::Oauth => Self::OAuth,
        }
    }
}
