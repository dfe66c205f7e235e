//! The command line: its commands, flags and help texts.

mod administration;
mod amount;
mod api;
pub(crate) mod artifacts;
mod budgets;
mod callback;
mod connections;
mod contexts;
mod document;
pub(crate) mod export;
mod files;
mod license;
mod moment;
mod name;
mod number;
mod operations;
mod operators;
mod paging;
mod reference;
mod replay;
pub(crate) mod resume;
mod run;
mod runs;
mod schedules;
mod version;
mod workflows;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use sortie_api::Role;

use self::runs::given;
pub(crate) use self::{
    administration::{AuditArgs, Grace, KeysCommand, NodesCommand, UsageArgs},
    amount::Amount,
    api::{ApiArgs, FieldArg},
    budgets::{Allowance, BudgetsCommand},
    callback::CallbackArgs,
    connections::{AuthKind, ConnectionsCommand, PutArgs},
    contexts::{ContextsCommand, LoginArgs},
    document::Document,
    files::{FileRef, FilesCommand},
    license::{LicenseArgs, LicenseCommand},
    moment::Moment,
    name::Name,
    operations::{BackupArgs, DoctorArgs, InstallationArgs, MasterKeyCommand, OpenapiArgs, RestoreArgs},
    operators::{AdminCommand, CreditsCommand, OperatorArgs, OrganizationsCommand, UserArgs, UsersCommand},
    paging::Paging,
    reference::{Reference, RunRef},
    replay::ReplayArgs,
    run::{Attendance, FileArg, Label, RunArgs},
    runs::{RunsCommand, WhichRuns},
    schedules::{Clearable, CreateScheduleArgs, ScheduleFields, SchedulesCommand, UpdateScheduleArgs},
    workflows::{PutWorkflows, WorkflowsCommand},
};
use crate::{config::Flags, render::Render};

/// Runs AI agents on demand.
#[derive(Debug, Parser)]
#[command(
    name = "sortie",
    version = version::SHOWN,
    about,
    max_term_width = 100,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags of every command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Engine")]
pub(crate) struct Global {
    /// Configuration file [default: sortie.toml in this folder, else that of `sortie init`]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Folder with the database, the admin key and the runs' working directories [default: data, or the user's state folder]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data_dir: Option<String>,
    #[arg(
        long,
        global = true,
        value_name = "URL",
        help = "Address of the engine [env: SORTIE_URL] [default: the current context, else the engine of the data folder]"
    )]
    pub(crate) url: Option<String>,
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        conflicts_with = "url",
        help = "Engine that `sortie login` has saved under this name [env: SORTIE_CONTEXT]"
    )]
    pub(crate) context: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Set up a model provider: asks for its key, checks it and writes the configuration
    #[command(after_help = INIT_HELP)]
    Init,
    /// Serve the API and work on runs until a signal stops it
    Serve(ServeArgs),
    /// Start a run, follow it and print its answer
    Run(Box<RunArgs>),
    /// List, read and cancel runs
    #[command(subcommand)]
    Runs(RunsCommand),
    /// Open the console in a browser, signed in with the role of the key
    Console(ConsoleArgs),
    /// Open the page of a run in a browser, signed in with the role of the key
    #[command(after_help = "\
Examples:
  sortie open run_01kafs6w1cefkstv6qr1ptb0mp
  sortie open run_01kafs6w1cefkstv6qr1ptb0mp --print")]
    Open {
        /// ID of a run, its beginning, or @last for the newest run
        run: RunRef,
        #[command(flatten)]
        console: ConsoleArgs,
    },
    /// Save, list and delete workflows: run definitions under a name
    #[command(subcommand)]
    Workflows(WorkflowsCommand),
    /// Start workflows on a timetable, and read its history
    #[command(subcommand)]
    Schedules(SchedulesCommand),
    /// Save, list, test and authorize connections to APIs and MCP servers
    #[command(subcommand)]
    Connections(ConnectionsCommand),
    /// Save, list, fetch, rename and delete files that runs can be given
    #[command(subcommand)]
    Files(FilesCommand),
    /// Limit the cost of runs in a day or a month
    #[command(subcommand)]
    Budgets(BudgetsCommand),
    /// Create, list, rotate and revoke API keys
    #[command(subcommand)]
    Keys(KeysCommand),
    /// List the nodes of the engine
    #[command(subcommand)]
    Nodes(NodesCommand),
    /// List, show, suspend and resume the organizations of a hosted deployment
    #[command(subcommand)]
    Organizations(OrganizationsCommand),
    /// Give credits to the organizations of a hosted deployment, and show them
    #[command(subcommand)]
    Credits(CreditsCommand),
    /// Check a hosted deployment
    #[command(subcommand)]
    Admin(AdminCommand),
    /// Create, list, disable and enable the accounts of a hosted deployment
    #[command(subcommand)]
    Users(UsersCommand),
    /// Show who changed what, when and from where
    Audit(AuditArgs),
    /// Show the cost and usage of runs
    Usage(UsageArgs),
    /// Show, install and delete the license of an engine; grant licenses to an organization
    License(LicenseArgs),
    /// Save the address and the API key of an engine as a context, and make it the current one
    Login(LoginArgs),
    /// List the saved engines, choose the current one, and delete them
    #[command(subcommand)]
    Contexts(ContextsCommand),
    /// Call an operation of the API and print its answer
    Api(ApiArgs),
    /// List the models that runs can use
    #[command(after_help = "\
Without a running engine, these are the models of this configuration.

Examples:
  sortie models
  sortie models --json")]
    Models(Render),
    /// Print the OpenAPI document of an API
    Openapi(OpenapiArgs),
    /// Check this machine, and the running engine
    Doctor(DoctorArgs),
    /// Back up an embedded database and its files to an archive
    Backup(BackupArgs),
    /// Create a data folder from a backup
    Restore(RestoreArgs),
    /// Show the keys that seal credentials, and seal with a new one
    #[command(subcommand)]
    MasterKey(MasterKeyCommand),
    /// Serve an MCP client on standard input: its tools are the workflows and runs of an engine
    Mcp(McpArgs),
    /// Ask an engine whether it accepts runs now
    #[command(after_help = "\
Examples:
  sortie health
  sortie health --url https://sortie.example.com")]
    Health,
    /// Show and check the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print a script that completes commands, flags, names and IDs in a shell
    #[command(after_help = "\
The script asks this program for each completion, and this program asks the
engine for names and IDs.

Examples:
  source <(sortie completions bash)                                  # ~/.bashrc
  source <(sortie completions zsh)                                   # ~/.zshrc
  sortie completions fish > ~/.config/fish/completions/sortie.fish")]
    Completions {
        /// Shell that reads the script
        shell: Shell,
    },
    /// Write the manual pages of all commands
    #[command(
        hide = true,
        after_help = "\
Examples:
  sortie man target/man"
    )]
    Man {
        /// Folder for the pages; missing folders are made
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

#[derive(Clone, Debug, Args)]
pub(crate) struct NodeArgs {
    /// Database for records: sqlite:PATH or postgres://…
    #[arg(long, value_name = "URL")]
    pub(crate) database_url: Option<String>,
    /// Weakest accepted isolation of the commands of runs: namespaces, landlock or none
    #[arg(long, value_name = "LEVEL")]
    pub(crate) sandbox: Option<String>,
    /// Run the model's commands unsandboxed: as this user, with its files and its network
    #[arg(long)]
    pub(crate) i_understand_commands_run_unsandboxed: bool,
}

/// Help of `sortie init`.
const INIT_HELP: &str = "\
Writes the file that --config names, else sortie.toml in the user's settings
folder (~/.config/sortie), which every command reads outside a project. The key
goes to a file of its own in the settings folder, which only you can read.

Examples:
  sortie init
  sortie init --config sortie.toml    # for the project in this folder";

#[derive(Debug, Args)]
#[command(after_help = "\
The first start prints an admin key on standard output, and keeps it in
admin.key in the data folder. Ctrl-C stops the engine; a second one stops it at
once.

Examples:
  sortie serve
  sortie serve --listen 0.0.0.0:8080 --config /etc/sortie/sortie.toml")]
pub(crate) struct ServeArgs {
    /// Address and port of the API [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<String>,
    /// Deployment mode: self-hosted or hosted [default: self-hosted]
    #[arg(long)]
    pub(crate) mode: Option<String>,
    #[command(flatten)]
    pub(crate) node: NodeArgs,
    /// Format of log lines: text or json
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<String>,
}

/// Engine that an MCP client uses.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  sortie mcp
  claude mcp add sortie -- sortie mcp")]
pub(crate) struct McpArgs {
    #[command(flatten)]
    pub(crate) node: NodeArgs,
}

/// Console to open.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  sortie console
  sortie console --print --url https://sortie.example.com")]
pub(crate) struct ConsoleArgs {
    /// Print the address instead of opening it; it signs in once, within a minute
    #[arg(long)]
    pub(crate) print: bool,
}

/// The roles that a key can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeyRole {
    /// Works with runs
    Member,
    /// Also creates and revokes keys
    Admin,
}

impl From<KeyRole> for Role {
    fn from(role: KeyRole) -> Self {
        match role {
            KeyRole::Member => Self::Member,
            KeyRole::Admin => Self::Admin,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print the commented default file, which documents every key
    #[command(after_help = "\
Examples:
  sortie config default > sortie.toml")]
    Default,
    /// Check the configuration and print the values in effect, with secrets redacted
    #[command(after_help = "\
Examples:
  sortie config check
  sortie config check /etc/sortie/sortie.toml --json")]
    Check {
        /// The file to check [default: the one that `serve` would read]
        file: Option<PathBuf>,
        #[command(flatten)]
        render: Render,
    },
}

impl Global {
    /// The configuration keys that the flags of every command set.
    pub(crate) fn flags(&self) -> Flags {
        let mut flags = Flags::new(self.config.clone());
        flags.text("data_dir", "--data-dir", self.data_dir.as_deref());
        flags
    }
}

impl NodeArgs {
    /// Adds the configuration keys that these flags set.
    pub(crate) fn add_to(&self, flags: &mut Flags) {
        flags.text("database_url", "--database-url", self.database_url.as_deref());
        flags.text("sandbox.minimum", "--sandbox", self.sandbox.as_deref());
        flags.switch(
            "sandbox.i_understand_commands_run_unsandboxed",
            "--i-understand-commands-run-unsandboxed",
            self.i_understand_commands_run_unsandboxed,
        );
    }
}

impl ServeArgs {
    /// Adds the configuration keys that these flags set.
    pub(crate) fn add_to(&self, flags: &mut Flags) {
        flags.text("listen", "--listen", self.listen.as_deref());
        flags.text("mode", "--mode", self.mode.as_deref());
        flags.text("log.format", "--log-format", self.log_format.as_deref());
        self.node.add_to(flags);
    }
}

#[cfg(test)]
mod help_tests;

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use proptest::prelude::*;

    use super::*;

    fn run_args(arguments: &[&str]) -> Result<RunArgs, clap::Error> {
        let cli = Cli::try_parse_from(["sortie", "run"].iter().chain(arguments))?;
        let Command::Run(args) = cli.command else {
            unreachable!("asked for run");
        };
        Ok(*args)
    }

    #[test]
    fn the_commands_are_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_file_takes_its_own_name_or_the_one_given() {
        let file = |text: &str| {
            text.parse::<FileArg>()
                .map(|file| (file.path.display().to_string(), file.name))
        };
        let pair = |path: &str, name: &str| Ok((path.to_owned(), name.to_owned()));
        assert_eq!(file("orders.csv"), pair("orders.csv", "orders.csv"));
        assert_eq!(file("/tmp/a/orders.csv"), pair("/tmp/a/orders.csv", "orders.csv"));
        assert_eq!(
            file("../orders.csv=in/data.csv"),
            pair("../orders.csv", "in/data.csv")
        );
        assert_eq!(file("a=b=c.txt"), pair("a=b", "c.txt"));
        for wrong in ["", "=x", "a=", "folder/", "..", "a/.."] {
            assert!(file(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn input_is_json_or_a_file() {
        let args = run_args(&["x", "--input", "{\"a\":1}", "--output-schema", "@schema.json"]).unwrap();
        assert_eq!(args.input, Some(Document::Inline("{\"a\":1}".to_owned())));
        assert_eq!(
            args.output_schema,
            Some(Document::File(PathBuf::from("schema.json")))
        );
    }

    #[test]
    fn the_later_of_follow_and_detach_counts() {
        assert!(!run_args(&["x"]).unwrap().attendance.detach);
        assert!(
            run_args(&["x", "--follow", "--detach"])
                .unwrap()
                .attendance
                .detach
        );
        assert!(
            !run_args(&["x", "--detach", "--follow"])
                .unwrap()
                .attendance
                .detach
        );
    }

    #[test]
    fn a_prompt_or_a_workflow_is_required_and_a_dash_is_a_prompt() {
        assert!(run_args(&[]).is_err());
        assert_eq!(run_args(&["-"]).unwrap().prompt.as_deref(), Some("-"));
        assert_eq!(run_args(&["--workflow", "daily"]).unwrap().prompt, None);
        assert!(run_args(&["--workflow", "No name"]).is_err());
    }

    #[test]
    fn ids_and_statuses_are_checked_before_anything_is_asked() {
        for wrong in [
            &["sortie", "runs", "get", "run_u"][..],
            &["sortie", "runs", "list", "--status", "done"],
            &["sortie", "runs", "list", "--limit", "0"],
            &["sortie", "keys", "create", "ci", "--role", "owner"],
            &[
                "sortie",
                "keys",
                "create",
                "ci",
                "--expires-in",
                "1d",
                "--expires-at",
                "2999-01-01T00:00:00Z",
            ],
            &["sortie", "keys", "create", "ci", "--expires-in", "-1d"],
            &[
                "sortie",
                "keys",
                "rotate",
                "key_01kafs6w1cefkstv6qr1ptb0mp",
                "--grace",
                "soon",
            ],
            &["sortie", "usage", "--by", "day,user"],
            &["sortie", "usage", "--from", "20261120"],
            &["sortie", "audit", "--limit", "0"],
            &["sortie", "connections", "get", "../admin/keys"],
            &["sortie", "connections", "put", "crm"],
            &["sortie", "workflows", "put"],
            &[
                "sortie",
                "runs",
                "replay",
                "run_01kafs6w1cefkstv6qr1ptb0mp",
                "--credential",
                "crm=hush",
            ],
            &[
                "sortie",
                "connections",
                "put",
                "crm",
                "https://a.example",
                "--file",
                "x",
            ],
            &[
                "sortie",
                "connections",
                "put",
                "crm",
                "https://a.example",
                "--auth",
                "token",
            ],
        ] {
            assert!(Cli::try_parse_from(wrong).is_err(), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_a_file_argument_panic(text in "\\PC{0,20}") {
            let _read = text.parse::<FileArg>();
        }

        #[test]
        fn a_given_name_is_kept(path in "[a-z/.=]{1,10}", name in "[a-z/]{1,10}") {
            let file = format!("{path}={name}").parse::<FileArg>().map_err(TestCaseError::fail)?;
            prop_assert_eq!(file.path, PathBuf::from(path));
            prop_assert_eq!(file.name, name);
        }
    }
}
