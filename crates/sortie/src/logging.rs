//! Log lines on standard error, and the spans that are exported. Neither ever holds a prompt, an input, an output or a
//! key. The callers ensure that; this module only writes.

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
    /// Only errors: the command prints its own messages.
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

/// Starts the log, and the export of spans if configured, for the life of the process.
pub(crate) fn start_with_traces(config: &Config, terminal: Terminal) -> Result<Telemetry> {
    let log = layer(config, Verbosity::Configured, terminal)?;
    let (telemetry, spans) = Telemetry::start(config)?;
    started(Registry::default().with(log).with(spans).try_init())?;
    Ok(telemetry)
}

fn started(started: std::result::Result<(), impl std::fmt::Display>) -> Result<()> {
    started.map_err(|error| Failure::internal(format!("the log cannot be started: {error}")))
}

/// Name of the crate that speaks MCP, as in the targets of its lines.
const MCP_LIBRARY: &str = "rmcp";

fn is_of_mcp_library(target: &str) -> bool {
    let inner = target.strip_prefix(MCP_LIBRARY);
    inner.is_some_and(|inner| inner.is_empty() || inner.starts_with("::"))
}

/// Rule for the selection of log lines.
pub(crate) const FILTER_RULE: &str = "must be a level (`error`, `warn`, `info`, `debug`, `trace` or `off`), or levels of \
    modules between commas, such as `info,sortie_engine=debug`";

/// Parses the filter of log lines; `None` if the text is not a filter.
pub(crate) fn filter(directives: &str) -> Option<EnvFilter> {
    EnvFilter::try_new(directives).ok()
}

type LogLayer = Box<dyn Layer<Registry> + Send + Sync>;

fn layer(config: &Config, verbosity: Verbosity, terminal: Terminal) -> Result<LogLayer> {
    let directives = match verbosity {
        Verbosity::Configured => config.log.filter.as_str(),
        Verbosity::Errors => "error",
    };
    let filter = filter(directives)
        .ok_or_else(|| Failure::new(Exit::Configuration, format!("log.filter: {FILTER_RULE}")))?;
    // Exported spans are kept out of the log, so that they are not even created without an export. The MCP library logs
    // messages of servers and reports their faults as its own errors: it logs only if the filter names it.
    let is_named = directives.contains(MCP_LIBRARY);
    let filter = filter.and(filter_fn(move |metadata| {
        let target = metadata.target();
        target != SPANS && (is_named || !is_of_mcp_library(target))
    }));
    Ok(match config.log.format {
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
