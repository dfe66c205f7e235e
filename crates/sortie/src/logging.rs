//! Log lines on standard error, and the spans that are exported. What is logged never holds a prompt, an input, an
//! output or a key: that is kept by whoever logs; here it is only written.

mod json_lines;

use json_lines::JsonLines;
use sortie_api::SPANS;
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    filter::{FilterExt as _, filter_fn},
    fmt::{self, format::JsonFields},
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

use crate::{
    config::{Config, LogFormat},
    failure::{Exit, Failure, Result},
    telemetry::Telemetry,
    terminal::Terminal,
};

/// Log lines that a command shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verbosity {
    /// Lines that the configuration selects.
    Configured,
    /// Only errors: the command has its own words.
    Errors,
}

/// Starts the log for the life of the process.
pub(crate) fn start(config: &Config, verbosity: Verbosity, terminal: Terminal) -> Result<()> {
    started(
        Registry::default()
            .with(layer(config, verbosity, terminal)?)
            .try_init(),
    )
}

/// Starts the log, and the export of spans where the configuration asks for one, for the life of the process.
pub(crate) fn start_with_traces(config: &Config, terminal: Terminal) -> Result<Telemetry> {
    let log = layer(config, Verbosity::Configured, terminal)?;
    let (telemetry, spans) = Telemetry::start(config)?;
    started(Registry::default().with(log).with(spans).try_init())?;
    Ok(telemetry)
}

fn started(started: std::result::Result<(), impl std::fmt::Display>) -> Result<()> {
    started.map_err(|error| Failure::internal(format!("the log cannot be started: {error}")))
}

type LogLayer = Box<dyn Layer<Registry> + Send + Sync>;

fn layer(config: &Config, verbosity: Verbosity, terminal: Terminal) -> Result<LogLayer> {
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
    // What is exported is not for the log, so that nobody looks at it where nothing is exported.
    let filter = filter.and(filter_fn(|metadata| metadata.target() != SPANS));
    Ok(match config.log_format {
        LogFormat::Text => fmt::layer()
            .with_writer(std::io::stderr)
            .with_ansi(terminal.colours_stderr())
            .with_filter(filter)
            .boxed(),
        LogFormat::Json => fmt::layer()
            .fmt_fields(JsonFields::new())
            .event_format(JsonLines)
            .with_writer(std::io::stderr)
            .with_filter(filter)
            .boxed(),
    })
}
