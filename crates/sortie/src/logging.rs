//! Log lines on standard error. What is logged never holds a prompt, an input, an output or a key: that is kept by
//! whoever logs; here it is only written.

use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _};

use crate::{
    config::{Config, LogFormat},
    failure::{Exit, Failure, Result},
    terminal::Terminal,
};

/// What of the log a command shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verbosity {
    /// What the configuration says.
    Configured,
    /// Only errors: the command has its own words.
    Errors,
}

/// Starts the log for the life of the process.
pub(crate) fn start(config: &Config, verbosity: Verbosity, terminal: Terminal) -> Result<()> {
    let directives = match verbosity {
        Verbosity::Configured => config.log_filter.as_str(),
        Verbosity::Errors => "error",
    };
    let filter = EnvFilter::try_new(directives).map_err(|error| {
        Failure::new(
            Exit::Configuration,
            format!("log.filter: must be a level, or levels by module: {error}"),
        )
    })?;
    let registry = tracing_subscriber::registry().with(filter);
    let started = match config.log_format {
        LogFormat::Text => registry
            .with(
                fmt::layer()
                    .with_writer(std::io::stderr)
                    .with_ansi(terminal.colours_stderr()),
            )
            .try_init(),
        LogFormat::Json => registry
            .with(
                fmt::layer()
                    .json()
                    .flatten_event(true)
                    .with_writer(std::io::stderr),
            )
            .try_init(),
    };
    started.map_err(|error| Failure::internal(format!("the log cannot be started: {error}")))
}
