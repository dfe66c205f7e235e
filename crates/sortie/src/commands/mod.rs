//! The commands, one file each.

mod administration;
mod api;
mod artifacts;
mod backup;
mod budgets;
mod call;
mod config;
mod connections;
mod console;
mod contexts;
mod credits;
mod deliveries;
mod doctor;
mod export;
mod files;
mod health;
mod init;
mod keys;
mod license;
mod login;
mod logs;
mod man;
mod master_key;
mod mcp;
mod models;
mod nodes;
mod operators;
mod replay;
mod resume;
mod run;
mod runs;
mod schedules;
mod serve;
mod watch;
mod why;
mod workflows;

use std::path::PathBuf;

use crate::{
    args::{Cli, Command, Global, NodeArgs},
    completion,
    config::{Config, Environment, Flags, SandboxPolicy},
    connect::{Connection, Need},
    failure::{Exit, Result},
    logging::{self, Verbosity},
    named_engine::NamedEngine,
    render::print_json,
    terminal::{self, Terminal},
    user_folders,
};

/// Context of every command.
pub(crate) struct Context {
    pub(crate) environment: Environment,
    pub(crate) terminal: Terminal,
    /// The flags of every command.
    pub(crate) flags: Flags,
    /// The engine that the command line, the environment or a context names.
    named: Option<NamedEngine>,
}

/// Does what the command line says.
pub(crate) async fn execute(cli: Cli, environment: Environment) -> Result<Exit> {
    let context = Context::new(&cli, environment)?;
    match cli.command {
        Command::Init => init::init(&context).await,
        Command::Serve(args) => serve::serve(&context, &args).await,
        Command::Run(args) => run::run(&context, *args).await,
        Command::Runs(command) => runs::execute(&context, command).await,
        Command::Console(args) => console::open(&context, &args, None).await,
        Command::Open { run, console } => console::open(&context, &console, Some(&run)).await,
        Command::Workflows(command) => workflows::execute(&context, command).await,
        Command::Schedules(command) => schedules::execute(&context, command).await,
        Command::Connections(command) => connections::execute(&context, command).await,
        Command::Budgets(command) => budgets::execute(&context, command).await,
        Command::Files(command) => Box::pin(files::execute(&context, command)).await,
        Command::Keys(command) => keys::execute(&context, command).await,
        Command::Nodes(command) => nodes::execute(&context, command).await,
        Command::Organizations(command) => operators::organizations(&context, command).await,
        Command::Credits(command) => credits::credits(&context, command).await,
        Command::Admin(command) => credits::admin(&context, command).await,
        Command::Users(command) => operators::users(&context, command).await,
        Command::Audit(args) => administration::audit(&context, &args).await,
        Command::Usage(args) => administration::usage(&context, &args).await,
        Command::License(args) => license::execute(&context, args).await,
        Command::Login(args) => login::login(&context, args).await,
        Command::Contexts(command) => contexts::execute(&context, command),
        Command::Api(args) => api::call(&context, args).await,
        Command::Models(render) => models::list(&context, &render).await,
        Command::Openapi(args) => print_json(&sortie_server::openapi(args.api.into())),
        Command::Doctor(args) => doctor::doctor(&context, &args).await,
        Command::Backup(args) => backup::backup(&context, args).await,
        Command::MasterKey(command) => master_key::execute(&context, command).await,
        Command::Restore(args) => backup::restore(&context, args).await,
        Command::Mcp(args) => mcp::serve(&context, &args).await,
        Command::Health => health::health(&context).await,
        Command::Config(command) => config::execute(&context, command),
        Command::Completions { shell } => {
            terminal::print(&completion::script(shell)?)?;
            Ok(Exit::Success)
        }
        Command::Man { folder } => man::write(&folder),
    }
}

impl Context {
    fn new(cli: &Cli, environment: Environment) -> Result<Self> {
        let Global { url, context, .. } = &cli.global;
        let named = if uses_engine(&cli.command) {
            NamedEngine::find(url.as_deref(), context.as_deref(), &environment)?
        } else {
            None
        };
        let mut flags = cli.global.flags();
        if !is_for_project(&cli.command) {
            flags.outside_project = user_folders::state(&environment);
        }
        Ok(Self {
            terminal: Terminal::of_process(&environment),
            environment,
            flags,
            named,
        })
    }

    /// Returns the configuration for a command that talks to an engine. Only errors are logged.
    fn client_config(&self, flags: &Flags) -> Result<Config> {
        let config = Config::load(flags, &self.environment, SandboxPolicy::Strongest)?;
        logging::start(&config, Verbosity::Errors, self.terminal)?;
        Ok(config)
    }

    /// Finds or starts an engine.
    async fn open(&self, config: &Config, need: Need) -> Result<Connection> {
        Connection::open(self.named_engine(), config, &self.environment, need).await
    }

    /// The engine that the command line or the environment names.
    pub(crate) fn named_engine(&self) -> Option<&NamedEngine> {
        self.named.as_ref()
    }

    /// The data folder of the configuration.
    fn data_dir(&self) -> Result<PathBuf> {
        Ok(Config::data_dir(&self.flags, &self.environment)?)
    }

    /// Returns the configuration for a command that may start an engine with these flags.
    fn node_config(&self, args: &NodeArgs) -> Result<Config> {
        let mut flags = self.flags.clone();
        args.add_to(&mut flags);
        self.client_config(&flags)
    }
}

/// Whether a command may talk to an engine. The others work although the saved contexts cannot be read.
fn uses_engine(command: &Command) -> bool {
    !matches!(
        command,
        Command::Init
            | Command::Serve(_)
            | Command::Login(_)
            | Command::Contexts(_)
            | Command::Restore(_)
            | Command::Config(_)
            | Command::Openapi(_)
            | Command::Completions { .. }
            | Command::Man { .. }
    )
}

/// Whether a command works on the data folder of the working folder, even if nothing says that it is a project.
fn is_for_project(command: &Command) -> bool {
    matches!(
        command,
        Command::Serve(_) | Command::Restore(_) | Command::Config(_)
    )
}
