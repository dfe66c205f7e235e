//! `sortie runs why`: explains the status of a run from its record and its events, and names the next command.

use serde::{Deserialize, Serialize};
use sortie_api::{Event, Micros, Run, RunId, RunStatus, Timestamp, event::kind};
use sortie_base::Clock;

use super::{Context, resume};
use crate::{
    args::RunRef,
    client::Client,
    connect::Connection,
    failure::{Exit, Result},
    printed::printed,
    render::{Field, Record, Render, maybe, some},
    transcript::milliseconds,
};

/// Lines of a failed call's output that are shown, from its end.
const OUTPUT_LINES: usize = 5;

/// Longest text of a call that is shown, in characters.
const CALL_CHARS: usize = 200;

/// Explanation of a run's status.
#[derive(Debug, Serialize)]
struct Explanation {
    run: RunId,
    status: RunStatus,
    summary: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_step: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed_call: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
    budget: String,
    next: String,
}

impl Record for Explanation {
    const LINES: &'static [Field<Self>] = &[
        ("run", |why| some(why.run)),
        ("status", |why| some(&why.summary)),
        ("error", |why| maybe(why.error.as_ref())),
        ("last step", |why| maybe(why.last_step.as_ref())),
        ("failed", |why| maybe(why.failed_call.as_ref())),
        ("warning", |why| maybe(why.warning.as_ref())),
        ("budget", |why| some(&why.budget)),
        ("next", |why| some(&why.next)),
    ];
}

pub(super) async fn why(context: &Context, run: &RunRef, render: &Render) -> Result<Exit> {
    let show = async |connection: &mut Connection| {
        let client: &Client = &connection.client;
        let id = client.find_run(run).await?;
        let run = client.look_at_run(id).await?;
        let events = client.recorded_events(id, 0).await?;
        render.one(&explain(&run, &events, Clock::system().now()))?;
        resume::print_unattended(connection, &[run]).await?;
        Ok(Exit::Success)
    };
    context.with(render, show).await
}

/// The union of the fields of all events that explain something.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Data {
    step: u32,
    tool: String,
    id: String,
    arguments: serde_json::Map<String, serde_json::Value>,
    is_error: bool,
    output: String,
    what: String,
    reason: String,
    errors: Vec<String>,
}

/// Facts from the events of a run that explain its status.
#[derive(Debug, Default)]
struct Findings {
    step: u32,
    /// Calls of tools that have begun and not ended, by ID.
    open_calls: Vec<(String, String)>,
    last_call: Option<String>,
    failed_call: Option<String>,
    /// Reason of the last retry, unless a later call of the model ended.
    retry: Option<String>,
    rejected: Option<String>,
    uncertain_call: Option<String>,
    is_budget_spent: bool,
}

impl Findings {
    fn of(events: &[Event]) -> Self {
        let mut findings = Self::default();
        for event in events {
            let data: Data = serde_json::from_str(event.data.get()).unwrap_or_default();
            findings.add(&event.kind, data);
        }
        findings
    }

    fn add(&mut self, event_kind: &str, data: Data) {
        self.step = self.step.max(data.step);
        match event_kind {
            kind::MODEL_CALL => self.retry = None,
            kind::TOOL_START => {
                let call = call_text(&data);
                self.last_call = Some(call.clone());
                self.open_calls.push((data.id, call));
            }
            kind::TOOL_END => {
                let open = self.open_calls.iter().position(|(id, _)| *id == data.id);
                let call = open.map_or_else(|| data.tool.clone(), |at| self.open_calls.remove(at).1);
                if data.is_error {
                    self.failed_call = Some(format!("{call}{}", end_of_output(&data.output)));
                }
            }
            kind::RETRY => self.retry = Some(format!("{}: {}", data.what, data.reason)),
            kind::OUTPUT_REJECTED => self.rejected = Some(data.errors.join("; ")),
            kind::BUDGET_REACHED => self.is_budget_spent = true,
            kind::INTERRUPTED if !data.tool.is_empty() => {
                self.uncertain_call = Some(format!("{} ({})", data.tool, data.id));
            }
            kind::RESUMED => self.open_calls.clear(),
            _ => {}
        }
    }

    fn last_step(&self) -> Option<String> {
        let turn = (self.step > 0).then(|| format!("turn {}", self.step));
        let call = match (self.open_calls.last(), &self.last_call) {
            (Some((_, call)), _) => Some(format!("{call}, which has not ended")),
            (None, call) => call.clone(),
        };
        let parts: Vec<String> = turn.into_iter().chain(call).collect();
        (!parts.is_empty()).then(|| parts.join(": "))
    }

    fn warning(&self) -> Option<String> {
        if let Some(call) = &self.uncertain_call {
            return Some(format!("it is unknown whether the call {call} took effect"));
        }
        if let Some(errors) = &self.rejected {
            return Some(format!("an answer did not match the output schema: {errors}"));
        }
        self.retry.as_ref().map(|retry| format!("retried {retry}"))
    }
}

/// Returns a call in one line.
fn call_text(data: &Data) -> String {
    let arguments = match data.arguments.get("command").and_then(|command| command.as_str()) {
        Some(command) => command.to_owned(),
        None if data.arguments.is_empty() => String::new(),
        None => serde_json::Value::Object(data.arguments.clone()).to_string(),
    };
    let arguments = arguments.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut shown: String = arguments.chars().take(CALL_CHARS).collect();
    if shown.len() < arguments.len() {
        shown.push('…');
    }
    format!("{} {shown}", data.tool).trim_end().to_owned()
}

/// Returns the last lines of a failed call, each on a line.
fn end_of_output(output: &str) -> String {
    let text = printed(output);
    let text = if text.trim().is_empty() { output } else { &text };
    let lines: Vec<&str> = text.lines().collect();
    let end = lines
        .get(lines.len().saturating_sub(OUTPUT_LINES)..)
        .unwrap_or_default();
    end.iter()
        .fold(String::new(), |text, line| text + "\n          " + line)
}

fn explain(run: &Run, events: &[Event], now: Timestamp) -> Explanation {
    let findings = Findings::of(events);
    let is_running = !run.status.is_final();
    Explanation {
        run: run.id,
        status: run.status,
        summary: summary(run, now),
        error: run.error.clone(),
        last_step: findings.last_step(),
        failed_call: findings
            .failed_call
            .clone()
            .filter(|_| is_running || run.status != RunStatus::Succeeded),
        warning: findings.warning().filter(|_| run.status != RunStatus::Succeeded),
        budget: budget(run, &findings),
        next: next(run, &findings),
    }
}

fn summary(run: &Run, now: Timestamp) -> String {
    let between = |from: Timestamp, to: Timestamp| {
        milliseconds(u64::try_from(to.since(from).as_millis()).unwrap_or(u64::MAX))
    };
    match run.status {
        RunStatus::Reserving => format!(
            "waits until its budget is reserved, since {}",
            between(run.created_at, now)
        ),
        RunStatus::Queued => format!(
            "queued for {}: it starts as soon as a worker is free",
            between(run.created_at, now)
        ),
        RunStatus::Starting => "a worker is preparing it".to_owned(),
        RunStatus::Running => format!(
            "running for {} of at most {} s",
            between(run.started_at.unwrap_or(run.created_at), now),
            run.timeout_seconds
        ),
        RunStatus::Succeeded
        | RunStatus::Failed
        | RunStatus::Cancelled
        | RunStatus::TimedOut
        | RunStatus::Interrupted => {
            let took = match (run.started_at, run.finished_at) {
                (Some(started), Some(finished)) => format!(" after {}", between(started, finished)),
                (_, Some(_)) => " before it started".to_owned(),
                (_, None) => String::new(),
            };
            format!("{}{took}", run.status.as_str().replace('_', " "))
        }
    }
}

fn budget(run: &Run, findings: &Findings) -> String {
    let rest = if findings.is_budget_spent {
        ", which does not pay for another call"
    } else {
        ""
    };
    format!("{} of {}{rest}", run.cost_micros, run.max_cost_micros)
}

/// Returns the command that helps next.
fn next(run: &Run, findings: &Findings) -> String {
    let id = run.id;
    let is_step_limit = run
        .error
        .as_ref()
        .is_some_and(|error| error.contains("step limit"));
    match run.status {
        RunStatus::Reserving | RunStatus::Queued | RunStatus::Starting | RunStatus::Running => {
            format!("`sortie runs watch {id}` follows it, `sortie runs cancel {id}` ends it")
        }
        RunStatus::Succeeded => format!("`sortie runs get {id}` prints the answer"),
        RunStatus::Failed if findings.is_budget_spent => {
            let more = Micros::try_from(run.max_cost_micros.get().saturating_mul(2));
            let more = more.unwrap_or(run.max_cost_micros);
            format!("`sortie runs replay {id} --max-cost '{more}'` starts it again with a larger budget")
        }
        RunStatus::Failed if is_step_limit => {
            "allow more model calls: `sortie run … --max-steps` with a larger number".to_owned()
        }
        RunStatus::Failed | RunStatus::TimedOut if findings.retry.is_some() => format!(
            "`sortie doctor --providers` asks the providers of models; then `sortie runs replay {id}` starts it again"
        ),
        RunStatus::TimedOut => format!(
            "allow more than {} s: `sortie run … --timeout` with a larger number, at most 3600",
            run.timeout_seconds
        ),
        RunStatus::Interrupted if findings.uncertain_call.is_some() => {
            format!("check whether the call took effect; then `sortie runs replay {id}` starts the run again")
        }
        RunStatus::Failed => {
            format!("`sortie runs events {id}` shows each step; `sortie runs replay {id}` starts it again")
        }
        RunStatus::Cancelled | RunStatus::Interrupted => {
            format!("`sortie runs replay {id}` starts it again")
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::render::lines;

    fn run(status: &str, more: &Value) -> Run {
        let mut run = json!({
            "id": "run_01kafs6w1cefkstv6qr1ptb0mp", "status": status, "created_at": "2026-11-20T21:30:00.000Z",
            "max_cost_micros": 1_000_000, "cost_micros": 1_250, "billing_pending": false,
            "zero_data_retention": false, "timeout_seconds": 300, "last_event_id": 1
        });
        run.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        serde_json::from_value(run).unwrap()
    }

    fn events(events: &[(&str, Value)]) -> Vec<Event> {
        let event = |(kind, data): &(&str, Value)| json!({"id": 1, "type": kind, "data": data, "created_at": "2026-11-20T21:30:00.000Z"});
        events
            .iter()
            .map(|pair| serde_json::from_value(event(pair)).unwrap())
            .collect()
    }

    fn now() -> Timestamp {
        serde_json::from_value(json!("2026-11-20T21:30:12.000Z")).unwrap()
    }

    fn explained(status: &str, more: &Value, all: &[(&str, Value)]) -> String {
        lines(
            &explain(&run(status, more), &events(all), now()),
            &crate::render::Look::plain(),
        )
    }

    #[test]
    fn a_failed_run_names_its_failed_call_and_the_next_command() {
        let ended = json!({"error": "the command failed", "started_at": "2026-11-20T21:30:01.000Z",
            "finished_at": "2026-11-20T21:30:03.500Z"});
        let call = [
            ("model_call", json!({"step": 2})),
            (
                "tool_start",
                json!({"tool": "shell", "id": "1", "arguments": {"command": "python3 -c '\n1 / 0'"}}),
            ),
            (
                "tool_end",
                json!({"tool": "shell", "id": "1", "is_error": true,
                    "output": "[the command exited with status 1]\n[stderr]\nZeroDivisionError\n"}),
            ),
        ];
        insta::assert_snapshot!(explained("failed", &ended, &call));
    }

    #[test]
    fn every_status_has_its_reason_and_a_next_command() {
        let ended =
            json!({"started_at": "2026-11-20T21:30:01.000Z", "finished_at": "2026-11-20T21:30:03.500Z"});
        let open = ("tool_start", json!({"tool": "jobs", "id": "7", "arguments": {}}));
        let spent = ("budget_reached", json!({}));
        let retry = ("retry", json!({"what": "model call", "reason": "429"}));
        let uncertain = (
            "interrupted",
            json!({"reason": "uncertain_call", "tool": "mail", "id": "call_7"}),
        );
        for (status, more, all, parts) in [
            ("queued", json!({}), vec![], ["queued for 12.0 s", "runs watch"]),
            (
                "reserving",
                json!({}),
                vec![],
                ["reserved, since 12.0 s", "runs cancel"],
            ),
            (
                "running",
                json!({}),
                vec![open],
                ["jobs, which has not ended", "running for"],
            ),
            (
                "succeeded",
                ended.clone(),
                vec![],
                ["succeeded after 2.5 s", "runs get"],
            ),
            (
                "failed",
                ended.clone(),
                vec![spent],
                ["does not pay", "--max-cost '$2.00'"],
            ),
            (
                "failed",
                ended.clone(),
                vec![retry],
                ["retried model call: 429", "sortie doctor"],
            ),
            (
                "timed_out",
                ended.clone(),
                vec![],
                ["timed out after", "--timeout"],
            ),
            (
                "interrupted",
                ended.clone(),
                vec![uncertain],
                ["mail (call_7)", "took effect"],
            ),
            (
                "cancelled",
                json!({"finished_at": now()}),
                vec![],
                ["before it started", "runs replay"],
            ),
            (
                "failed",
                json!({"error": "step limit reached"}),
                vec![],
                ["step limit", "--max-steps"],
            ),
        ] {
            let text = explained(status, &more, &all);
            for part in parts {
                assert!(text.contains(part), "{part:?} is missing in:\n{text}");
            }
        }
    }

    proptest! {
        #[test]
        fn no_event_makes_it_panic(kind in "[a-z_]{0,16}", text in any::<String>(), step: u32) {
            let data = json!({"tool": text, "id": text, "output": text, "is_error": true, "reason": text, "step": step,
                "arguments": {"command": text}});
            for kind in [&kind, "tool_start", "tool_end", "retry", "interrupted"] {
                let _explained = explained("failed", &json!({}), &[(kind, data.clone())]);
            }
        }
    }
}
