//! Counters and histograms of a node, for operators. The code that causes an event counts it in one line.
//!
//! No metric names an organization, a run, a key or anything that a client has sent, because the endpoint is unauthenticated.
//! Values of labels come from the catalog of models and from lists in this folder. Adding to a metric does not allocate.

mod models;
mod sandbox;
#[cfg(test)]
mod tests;

use std::{sync::atomic::AtomicU64, time::Duration};

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use sortie_agent::tool::tool_named;
use sortie_api::{EventType, Micros, RunStatus, Timestamp, event::ConnectionCall, event::ToolEnd};
use sortie_store::runs::EventRow;

pub(crate) use self::{
    models::{ModelFigures, measured},
    sandbox::MeasuredSandbox,
};

/// A single label: name and value.
type Label = [(&'static str, &'static str); 1];
type Counters = Family<Label, Counter>;
type Histograms = Family<Label, Histogram, fn() -> Histogram>;

/// Bucket bounds in seconds of actions that should take milliseconds: dispatch, events, opening a sandbox.
const SHORT: [f64; 14] = [
    0.000_5, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0,
];

/// Bucket bounds in seconds of actions that depend on other systems: tools, receivers of callbacks.
const MEDIUM: [f64; 14] = [
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0,
];

/// Bucket bounds in seconds of a whole run.
const LONG: [f64; 14] = [
    0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0,
];

/// The tools that every engine has, by the names that models call.
const TOOLS: [&str; 10] = [
    "edit_file",
    "http_request",
    "jobs",
    "list_files",
    "read_file",
    "search_files",
    "shell",
    "web_fetch",
    "web_search",
    "write_file",
];

/// Labels under which tools of connections are counted together.
const HTTP: &str = "http";
const MCP: &str = "mcp";
/// Label of calls that name no known tool.
const UNKNOWN: &str = "unknown";

fn short() -> Histogram {
    Histogram::new(SHORT)
}

fn medium() -> Histogram {
    Histogram::new(MEDIUM)
}

fn long() -> Histogram {
    Histogram::new(LONG)
}

/// Origin of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// A client created it.
    Api,
    /// A schedule started it.
    Schedule,
}

/// Outcome of an attempt to deliver a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// The receiver accepted the callback.
    Delivered,
    /// The attempt failed, and another follows.
    Failed,
    /// The attempt failed, and no other follows.
    Abandoned,
}

/// Outcome of a node's renewal of its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// The lease was extended.
    Renewed,
    /// The node had been declared lost, and starts under a new identity.
    Lost,
    /// The database did not store the renewal.
    Failed,
}

/// Metrics of one node.
#[derive(Debug)]
pub(crate) struct Metrics {
    runs_accepted: Counters,
    runs_finished: Counters,
    run_duration: Histograms,
    run_cost: Counter,
    resumed: Counter,
    taken_over: Counter,
    budget_refusals: Counter,
    ledger_checks: Counter,
    ledger_differences: Gauge,
    usage_uncounted: Gauge,
    license_refusals: Counter,
    dispatch_delay: Histogram,
    events: Counter,
    event_lag: Histogram,
    event_read_lag: Histogram,
    retries: Counter,
    tool_duration: Histograms,
    tool_errors: Counters,
    connection_calls: Family<[(&'static str, &'static str); 2], Counter>,
    callback_attempts: Counters,
    callback_duration: Histogram,
    renewals: Counters,
    clock_offset: Gauge<f64, AtomicU64>,
    uploads: Counter,
    upload_bytes: Counter,
    pub(crate) models: ModelFigures,
    pub(crate) sandbox_opens: Counters,
    pub(crate) sandbox_open: Histogram,
}

impl Default for Metrics {
    /// Creates every label value at the start: `rate` and `increase` would miss the first event of a counter that
    /// appears with it.
    fn default() -> Self {
        let metrics = Self {
            runs_accepted: counters("trigger", &["api", "schedule"]),
            runs_finished: Counters::default(),
            run_duration: Histograms::new_with_constructor(long),
            run_cost: Counter::default(),
            resumed: Counter::default(),
            taken_over: Counter::default(),
            budget_refusals: Counter::default(),
            ledger_checks: Counter::default(),
            ledger_differences: Gauge::default(),
            usage_uncounted: Gauge::default(),
            license_refusals: Counter::default(),
            dispatch_delay: short(),
            events: Counter::default(),
            event_lag: short(),
            event_read_lag: short(),
            retries: Counter::default(),
            tool_duration: Histograms::new_with_constructor(medium),
            tool_errors: Counters::default(),
            connection_calls: Family::default(),
            callback_attempts: counters("outcome", &["delivered", "failed", "abandoned"]),
            callback_duration: medium(),
            renewals: counters("outcome", &["renewed", "lost", "failed"]),
            clock_offset: Gauge::default(),
            uploads: Counter::default(),
            upload_bytes: Counter::default(),
            models: ModelFigures::default(),
            sandbox_opens: counters("outcome", &["opened", "unavailable", "failed"]),
            sandbox_open: short(),
        };
        for status in RunStatus::ALL.into_iter().filter(|status| status.is_final()) {
            drop(
                metrics
                    .runs_finished
                    .get_or_create(&[("status", status.as_str())]),
            );
            drop(metrics.run_duration.get_or_create(&[("status", status.as_str())]));
        }
        for tool in TOOLS.into_iter().chain([HTTP, MCP, UNKNOWN]) {
            drop(metrics.tool_duration.get_or_create(&[("tool", tool)]));
            drop(metrics.tool_errors.get_or_create(&[("tool", tool)]));
        }
        for kind in [HTTP, MCP] {
            for status in ["2xx", "3xx", "4xx", "5xx", "none"] {
                let labels = [("kind", kind), ("status", status)];
                drop(metrics.connection_calls.get_or_create(&labels));
            }
        }
        metrics
    }
}

fn counters(label: &'static str, values: &[&'static str]) -> Counters {
    let counters = Counters::default();
    for value in values {
        drop(counters.get_or_create(&[(label, value)]));
    }
    counters
}

impl Metrics {
    /// Counts a recorded run.
    pub(crate) fn accepted(&self, trigger: Trigger) {
        let trigger = match trigger {
            Trigger::Api => "api",
            Trigger::Schedule => "schedule",
        };
        self.runs_accepted.get_or_create(&[("trigger", trigger)]).inc();
    }

    /// Counts a refused run if the refusal is by a budget or by the license.
    pub(crate) fn refused(&self, error: &sortie_store::Error) {
        if matches!(error, sortie_store::Error::OverBudget(_)) {
            self.budget_refusals.inc();
        } else if matches!(error, sortie_store::Error::Unlicensed(_)) {
            self.license_refusals.inc();
        }
    }

    /// Records a check of the ledger that has found this many differences.
    pub(crate) fn checked_ledger(&self, differences: u64) {
        self.ledger_differences
            .set(i64::try_from(differences).unwrap_or(i64::MAX));
        self.ledger_checks.inc();
    }

    /// Number of checks of the ledger, and of the differences that the last one has found.
    #[cfg(test)]
    pub(crate) fn checked_ledgers(&self) -> (u64, i64) {
        (self.ledger_checks.get(), self.ledger_differences.get())
    }

    /// Records a pass that has counted usage. `uncounted` is the time since the end of the oldest completed hour that is not
    /// counted.
    pub(crate) fn counted_usage(&self, uncounted: Option<Duration>) {
        let seconds = uncounted.unwrap_or_default().as_secs();
        self.usage_uncounted
            .set(i64::try_from(seconds).unwrap_or(i64::MAX));
    }

    /// Age of the oldest hour that was not counted, in seconds.
    #[cfg(test)]
    pub(crate) fn uncounted_usage(&self) -> i64 {
        self.usage_uncounted.get()
    }

    /// Counts a run that waited since `queued` and now has a worker.
    pub(crate) fn dispatched(&self, queued: Timestamp, now: Timestamp) {
        self.dispatch_delay.observe(now.since(queued).as_secs_f64());
    }

    /// Counts a run that was taken over from a lost node.
    pub(crate) fn took_over(&self) {
        self.taken_over.inc();
    }

    /// Counts a run with an end that this node has recorded.
    pub(crate) fn ended(&self, status: RunStatus) {
        self.runs_finished
            .get_or_create(&[("status", status.as_str())])
            .inc();
    }

    /// Counts a run with an end that this node has recorded, the time since its first claim, and its cost. This node worked on
    /// it.
    pub(crate) fn finished(&self, status: RunStatus, took: Duration, cost: Micros) {
        self.ended(status);
        self.settled(status, took, cost);
    }

    /// Counts time and cost of a run of this node. Its end has been counted already.
    pub(crate) fn settled(&self, status: RunStatus, took: Duration, cost: Micros) {
        self.run_duration
            .get_or_create(&[("status", status.as_str())])
            .observe(took.as_secs_f64());
        self.run_cost.inc_by(u64::try_from(cost.get()).unwrap_or(0));
    }

    /// Counts events that were stored and announced to their readers, and observes the age of the oldest.
    pub(crate) fn published(&self, events: &[EventRow], now: Timestamp) {
        self.events.inc_by(events.len() as u64);
        if let Some(oldest) = events.first() {
            self.event_lag.observe(now.since(oldest.created_at).as_secs_f64());
        }
    }

    /// Observes a read from the store by streams that were up to date. `oldest` is the time of the oldest event of that read.
    pub(crate) fn read_on(&self, oldest: Timestamp, now: Timestamp) {
        self.event_read_lag.observe(now.since(oldest).as_secs_f64());
    }

    /// Counts an event of a run.
    pub(crate) fn happened(&self, event: &EventType) {
        if let EventType::ModelCall(call) = event {
            self.models.charged(call);
        } else if let EventType::ToolEnd(end) = event {
            self.tool_ended(end);
        } else if let EventType::ConnectionCall(call) = event {
            self.connection_called(call);
        } else if let EventType::Retry { .. } = event {
            self.retries.inc();
        } else if let EventType::Resumed { .. } = event {
            self.resumed.inc();
        }
    }

    fn tool_ended(&self, end: &ToolEnd) {
        let tool = tool_label(&end.tool);
        self.tool_duration
            .get_or_create(&[("tool", tool)])
            .observe(Duration::from_millis(end.duration_ms).as_secs_f64());
        if end.is_error {
            self.tool_errors.get_or_create(&[("tool", tool)]).inc();
        }
    }

    fn connection_called(&self, call: &ConnectionCall) {
        // The methods of HTTP are capitals, those of MCP are not.
        let is_http = call.method.bytes().all(|byte| byte.is_ascii_uppercase());
        let status = match call.status.map(|status| status / 100) {
            Some(2) => "2xx",
            Some(3) => "3xx",
            Some(4) => "4xx",
            Some(5) => "5xx",
            Some(_) | None => "none",
        };
        let kind = if is_http { HTTP } else { MCP };
        self.connection_calls
            .get_or_create(&[("kind", kind), ("status", status)])
            .inc();
    }

    /// Counts an attempt to deliver a callback.
    pub(crate) fn delivered(&self, outcome: Delivery, took: Duration) {
        let outcome = match outcome {
            Delivery::Delivered => "delivered",
            Delivery::Failed => "failed",
            Delivery::Abandoned => "abandoned",
        };
        self.callback_attempts
            .get_or_create(&[("outcome", outcome)])
            .inc();
        self.callback_duration.observe(took.as_secs_f64());
    }

    /// Counts a renewal of the node's lease.
    pub(crate) fn renewed(&self, outcome: Renewal) {
        let outcome = match outcome {
            Renewal::Renewed => "renewed",
            Renewal::Lost => "lost",
            Renewal::Failed => "failed",
        };
        self.renewals.get_or_create(&[("outcome", outcome)]).inc();
    }

    /// Sets the distance of the machine's clock from the database's, in microseconds.
    pub(crate) fn measured_clock(&self, offset: i64) {
        let distance = Duration::from_micros(offset.unsigned_abs()).as_secs_f64();
        self.clock_offset
            .set(if offset < 0 { -distance } else { distance });
    }

    /// Counts an upload of this many bytes.
    pub(crate) fn uploaded(&self, bytes: u64) {
        self.uploads.inc();
        self.upload_bytes.inc_by(bytes);
    }

    /// Registers every metric.
    pub(crate) fn register(&self, registry: &mut Registry) {
        self.register_runs(registry);
        self.models.register(registry);
        registry.register(
            "tool_call_duration_seconds",
            "Duration of tool calls; tools of connections count as `http` or `mcp` together",
            self.tool_duration.clone(),
        );
        registry.register(
            "tool_errors",
            "Calls of tools of which the model was told a failure, commands that exit with one included",
            self.tool_errors.clone(),
        );
        registry.register(
            "connection_calls",
            "Requests through connections by the class of their answer; `none` where there was no answer",
            self.connection_calls.clone(),
        );
        registry.register(
            "sandbox_opens",
            "Sandboxes that were to be opened; `unavailable` where the host does not give one",
            self.sandbox_opens.clone(),
        );
        registry.register(
            "sandbox_open_duration_seconds",
            "Time to open a sandbox",
            self.sandbox_open.clone(),
        );
        registry.register(
            "callback_attempts",
            "Attempts to deliver callbacks; `abandoned` where no other follows",
            self.callback_attempts.clone(),
        );
        registry.register(
            "callback_attempt_duration_seconds",
            "Duration of an attempt to deliver a callback",
            self.callback_duration.clone(),
        );
        registry.register(
            "lease_renewals",
            "Renewals of this node's lease; `lost` where it had been declared lost meanwhile",
            self.renewals.clone(),
        );
        registry.register(
            "clock_offset_seconds",
            "Time by which the clock of this machine is ahead of that of the database; 0 on SQLite",
            self.clock_offset.clone(),
        );
        registry.register(
            "usage_uncounted_age_seconds",
            "Time since the end of the oldest completed hour that the last count of this node left uncounted; 0 where none is left",
            self.usage_uncounted.clone(),
        );
        registry.register(
            "uploads",
            "Files that clients have uploaded",
            self.uploads.clone(),
        );
        registry.register(
            "upload_bytes",
            "Bytes of the files that clients have uploaded",
            self.upload_bytes.clone(),
        );
    }

    /// Registers the figures of the nightly check, which only a hosted deployment has.
    pub(crate) fn register_ledger(&self, registry: &mut Registry) {
        registry.register(
            "ledger_checks",
            "Nightly checks of the ledger that this node has completed",
            self.ledger_checks.clone(),
        );
        registry.register(
            "ledger_differences",
            "Differences that the last check of the ledger on this node has found",
            self.ledger_differences.clone(),
        );
    }

    fn register_runs(&self, registry: &mut Registry) {
        registry.register(
            "runs_accepted",
            "Runs that this node has accepted",
            self.runs_accepted.clone(),
        );
        registry.register(
            "runs_finished",
            "Runs whose end this node has recorded",
            self.runs_finished.clone(),
        );
        registry.register(
            "run_duration_seconds",
            "Duration of runs from their first claim to the end that this node has recorded",
            self.run_duration.clone(),
        );
        registry.register(
            "run_cost_micros",
            "Cost of the runs that this node has worked on to their end, in millionths of a US dollar",
            self.run_cost.clone(),
        );
        registry.register(
            "runs_resumed",
            "Runs that went on here after their worker was lost",
            self.resumed.clone(),
        );
        registry.register(
            "runs_taken_over",
            "Runs that this node has taken over from lost nodes, or resumed itself",
            self.taken_over.clone(),
        );
        registry.register(
            "budget_refusals",
            "Runs that were refused because a budget had no room for them",
            self.budget_refusals.clone(),
        );
        registry.register(
            "license_refusals",
            "Runs that were refused because the allowance of the license was used up, or the license had expired",
            self.license_refusals.clone(),
        );
        registry.register(
            "dispatch_delay_seconds",
            "Waiting time of runs from their creation until a worker of this node had them",
            self.dispatch_delay.clone(),
        );
        registry.register(
            "events_recorded",
            "Events of runs that this node has recorded",
            self.events.clone(),
        );
        registry.register(
            "event_lag_seconds",
            "Time from an event until it was durable and its followers were notified: that of the oldest of each batch",
            self.event_lag.clone(),
        );
        registry.register(
            "event_read_lag_seconds",
            "Time from an event until streams of this node that waited for it had read it from the store: that of the oldest of each read",
            self.event_read_lag.clone(),
        );
        registry.register(
            "model_retries",
            "Model calls that were retried after a temporary failure",
            self.retries.clone(),
        );
    }
}

/// Returns the label of a tool. Tools of connections are named `<connection>__<tool>`. The tool of an HTTP API is named
/// `request`, followed by a piece of a hash if the connection's name had to be changed.
fn tool_label(name: &str) -> &'static str {
    let meant = tool_named(name).unwrap_or(name);
    if let Some(known) = TOOLS.into_iter().find(|known| *known == meant) {
        return known;
    }
    match name.split_once("__") {
        Some((_, tool)) if tool == "request" || tool.starts_with("request_") => HTTP,
        Some(_) => MCP,
        None => UNKNOWN,
    }
}
