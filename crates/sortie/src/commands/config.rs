//! `sortie config`: the documentation of the configuration, and the settings in effect.

use super::Context;
use crate::{
    args::ConfigCommand,
    config::{Config, DEFAULT_FILE, SandboxPolicy},
    data_dir::Purpose,
    failure::{Exit, Failure, Result},
    node::engine_options,
    organization_side::check_payments,
    telemetry::Telemetry,
    terminal,
};

pub(super) fn execute(context: &Context, command: ConfigCommand) -> Result<Exit> {
    match command {
        ConfigCommand::Default => {
            terminal::print(DEFAULT_FILE)?;
            Ok(Exit::Success)
        }
        ConfigCommand::Check { file, render } => {
            let mut flags = context.flags.clone();
            flags.file = file.or(flags.file);
            let config = Config::load(&flags, &context.environment, SandboxPolicy::Required)?;
            engine_options(&config, String::new(), Purpose::Serve)
                .check()
                .map_err(|error| Failure::new(Exit::Configuration, error.to_string()))?;
            Telemetry::check(&config)?;
            check_payments(&config)?;
            render.answer(&config.to_json(), |_| Ok(terminal::print(&config.to_toml())?))
        }
    }
}
