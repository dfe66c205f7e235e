//! A run's events in a form for people: the agent's messages, its tool calls, and their results.
//!
//! This module makes the text, and others print it. Text from the agent is made harmless first.

use serde::Deserialize;
use sortie_api::{Event, Micros, Run, RunStatus, event::kind};

use crate::terminal::{Style, harmless, styled, wrapped};

/// Lines of a tool's output that are shown: from its beginning, and from its end.
const HEAD_LINES: usize = 12;
const TAIL_LINES: usize = 6;

/// Most characters of one line of a tool's output or arguments.
const LINE_CHARS: usize = 400;

/// Activity between the calls of tools.
const THINKING: &str = "thinking";

/// The transcript of one run so far.
#[derive(Debug)]
pub(crate) struct Transcript {
    colours: bool,
    /// Width of the terminal, at which lines are wrapped; without one, they stay whole.
    pub(crate) columns: Option<usize>,
    activity: String,
    /// Last text of the agent. If it turns out to be the answer, it is not shown here, because the answer is printed
    /// separately.
    said: Option<String>,
}

/// The union of the fields of all events: if an event lacks one, less is shown.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Data {
    status: Option<RunStatus>,
    runtime: String,
    shell: bool,
    text: String,
    tool: String,
    id: String,
    arguments: serde_json::Map<String, serde_json::Value>,
    is_error: bool,
    output: String,
    output_bytes: u64,
    limit_bytes: u64,
    path: String,
    size: u64,
    duration_ms: u64,
    model: String,
    step: u32,
    attempt: u32,
    input_tokens: u64,
    output_tokens: u64,
    cost_micros: Micros,
    what: String,
    delay_ms: u64,
    reason: String,
    spent_micros: Micros,
    limit_micros: Micros,
    errors: Vec<String>,
}

/// The fields of a call through a connection. Its status is a number.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ConnectionCall {
    connection: String,
    method: String,
    path: String,
    status: Option<u16>,
    bytes: u64,
    duration_ms: u64,
}

impl Transcript {
    pub(crate) fn new(colours: bool) -> Self {
        Self {
            colours,
            columns: None,
            activity: "waiting".to_owned(),
            said: None,
        }
    }

    /// Returns the current activity, in a few words.
    pub(crate) fn activity(&self) -> &str {
        &self.activity
    }

    /// The lines that an event adds, or an empty text.
    pub(crate) fn event(&mut self, event: &Event) -> String {
        let data: Data = serde_json::from_str(event.data.get()).unwrap_or_default();
        let mut lines = self.say_what_was_said(event, &data);
        lines += &self.lines_of(event, data);
        lines
    }

    fn say_what_was_said(&mut self, event: &Event, next: &Data) -> String {
        match self.said.take() {
            Some(text) if event.kind == kind::RESULT && text.trim() == next.output.trim() => String::new(),
            Some(text) if is_bookkeeping(&event.kind) => {
                self.said = Some(text);
                String::new()
            }
            Some(text) => self.paragraphs(&text),
            None => String::new(),
        }
    }

    /// Returns a message of the agent.
    fn paragraphs(&self, text: &str) -> String {
        harmless(text.trim_end())
            .lines()
            .flat_map(|line| wrapped(line, self.columns, ["", ""]))
            .map(|row| row + "\n")
            .collect()
    }

    fn lines_of(&mut self, event: &Event, data: Data) -> String {
        match event.kind.as_str() {
            kind::STATUS => {
                if let Some(status) = data.status.filter(|status| !status.is_final()) {
                    self.activity = status.to_string();
                }
                String::new()
            }
            kind::WORKER_STARTED => {
                THINKING.clone_into(&mut self.activity);
                self.dim(&if data.shell {
                    format!("isolation of commands: {}", data.runtime)
                } else {
                    "without commands".to_owned()
                })
            }
            kind::MODEL_CALL if data.input_tokens + data.output_tokens == 0 => String::new(),
            kind::MODEL_CALL => self.dim(&format!(
                "{} · step {} · {} tokens in, {} out · {} · {}",
                data.model,
                data.step,
                data.input_tokens,
                data.output_tokens,
                data.cost_micros,
                milliseconds(data.duration_ms),
            )),
            kind::MESSAGE => {
                self.said = Some(data.text);
                String::new()
            }
            kind::THINKING_SUMMARY => self.block(&data.text, Style::Dim),
            kind::TOOL_START => self.tool_start(&data),
            kind::TOOL_END => self.tool_end(&data),
            kind::CONNECTION_CALL => self.connection_call(event),
            kind::RETRY => self.warning(&format!(
                "{} failed, retrying in {}: {}",
                data.what,
                milliseconds(data.delay_ms),
                data.reason
            )),
            kind::BUDGET_WARNING => self.warning(&format!(
                "{} of the budget of {} is spent",
                data.spent_micros, data.limit_micros
            )),
            kind::BUDGET_REACHED if data.spent_micros < data.limit_micros => self.warning(&format!(
                "{} of the budget of {} is spent, and the rest does not pay for another call",
                data.spent_micros, data.limit_micros
            )),
            kind::BUDGET_REACHED => self.warning(&format!("the budget of {} is spent", data.limit_micros)),
            kind::ANSWER_REQUESTED => self.warning(match data.reason.as_str() {
                "budget" => "asking for the final answer: the rest of the budget is reserved for it",
                "time" => "asking for the final answer: the time limit is near",
                "repetition" => "asking for the final answer: equal calls keep having equal results",
                _ => "asking for the final answer",
            }),
            kind::RESUMED => self.warning(&format!(
                "the worker was lost; the run resumes after step {} (attempt {})",
                data.step, data.attempt
            )),
            kind::INTERRUPTED if !data.tool.is_empty() => self.warning(&format!(
                "interrupted: {} in the call {} of {}",
                data.reason.replace('_', " "),
                data.id,
                data.tool
            )),
            kind::INTERRUPTED => self.warning(&format!("interrupted: {}", data.reason.replace('_', " "))),
            kind::OUTPUT_REJECTED => self.warning(&format!("answer refused: {}", data.errors.join("; "))),
            kind::OUTPUT_TRUNCATED => self.warning(&format!(
                "the answer was cut to {} of {} bytes",
                data.limit_bytes, data.output_bytes
            )),
            kind::ARTIFACT => self.dim(&format!("saved outputs/{} · {} bytes", data.path, data.size)),
            kind::ARTIFACT_SKIPPED => {
                self.warning(&format!("not saved: outputs/{}: {}", data.path, data.reason))
            }
            kind::RESULT => String::new(),
            other => self.dim(&format!("{other} {}", cut(event.data.get()))),
        }
    }

    fn connection_call(&self, event: &Event) -> String {
        let call: ConnectionCall = serde_json::from_str(event.data.get()).unwrap_or_default();
        let status = call
            .status
            .map_or_else(|| "no answer".to_owned(), |status| status.to_string());
        self.dim(&format!(
            "{} · {} {} · {status} · {} bytes · {}",
            one_line(&call.connection),
            one_line(&call.method),
            one_line(&call.path),
            call.bytes,
            milliseconds(call.duration_ms),
        ))
    }

    fn tool_start(&mut self, data: &Data) -> String {
        self.activity = one_line(&data.tool);
        let mut lines = self.rows(&one_line(&data.tool), ["▸ ", "  "], Style::Accent);
        match data.arguments.get("command").and_then(|command| command.as_str()) {
            Some(command) if data.tool == "shell" => {
                let command = format!("$ {}", command.trim_end().replace('\n', "\n  "));
                lines += &self.block(&command, Style::Bold);
            }
            _ if data.arguments.is_empty() => {}
            _ => {
                let arguments = serde_json::to_string(&data.arguments).unwrap_or_default();
                lines += &self.block(&arguments, Style::Bold);
            }
        }
        lines
    }

    fn tool_end(&mut self, data: &Data) -> String {
        THINKING.clone_into(&mut self.activity);
        let (mark, style) = if data.is_error {
            ("✗", Style::Bad)
        } else {
            ("✓", Style::Good)
        };
        let time = milliseconds(data.duration_ms);
        let kept = u64::try_from(data.output.len()).unwrap_or(u64::MAX);
        let size = match data.output_bytes {
            0 => ", no output".to_owned(),
            all if all > kept => format!(", {all} bytes in all"),
            _ => String::new(),
        };
        let end = styled(&format!("{mark} {time}{size}"), style, self.colours);
        format!("{}  {end}\n", self.block(without_success(data), Style::Dim))
    }

    /// The indented lines of a text. The middle of a long text is left out.
    fn block(&self, text: &str, style: Style) -> String {
        let text = harmless(text.trim_end());
        let lines: Vec<&str> = text.lines().collect();
        let shown = |line: &&str| self.rows(&cut(line), ["  ", "  "], style);
        let hidden = lines.len().saturating_sub(HEAD_LINES + TAIL_LINES);
        if hidden < 2 {
            return lines.iter().map(shown).collect();
        }
        let head = lines.iter().take(HEAD_LINES).map(shown);
        let tail = lines.iter().skip(HEAD_LINES + hidden).map(shown);
        let gap = format!(
            "  {}\n",
            styled(&format!("… {hidden} lines more"), Style::Dim, self.colours)
        );
        head.chain([gap]).chain(tail).collect()
    }

    /// Returns a line of text as the terminal shows it.
    fn rows(&self, line: &str, indents: [&str; 2], style: Style) -> String {
        let row = |row: String| styled(&row, style, self.colours) + "\n";
        wrapped(line, self.columns, indents)
            .into_iter()
            .map(row)
            .collect()
    }

    fn dim(&self, text: &str) -> String {
        self.rows(&one_line(text), ["", "  "], Style::Dim)
    }

    fn warning(&self, text: &str) -> String {
        self.rows(&one_line(text), ["! ", "  "], Style::Bad)
    }

    /// Returns the agent's last message, if no event has shown it yet.
    pub(crate) fn unsaid(&mut self) -> String {
        self.said
            .take()
            .map_or_else(String::new, |text| self.paragraphs(&text))
    }

    /// The line that ends a run.
    pub(crate) fn done(&mut self, run: &Run) -> String {
        let unsaid = self.unsaid();
        let (mark, style) = if run.status == RunStatus::Succeeded {
            ("✓", Style::Good)
        } else {
            ("✗", Style::Bad)
        };
        let took = match (run.started_at, run.finished_at) {
            (Some(started), Some(finished)) => {
                let millis = finished.since(started).as_millis();
                format!(
                    " after {}",
                    milliseconds(u64::try_from(millis).unwrap_or(u64::MAX))
                )
            }
            (None, _) | (_, None) => String::new(),
        };
        let status = run.status.as_str().replace('_', " ");
        let line = format!("{mark} {status}{took} · {} · {}", run.cost_micros, run.id);
        let error = run
            .error
            .as_deref()
            .map_or_else(String::new, |error| self.block(error, style));
        unsaid + &self.rows(&line, ["", "  "], style) + &error
    }
}

/// Events that may come between a message of the agent and the result that repeats it.
fn is_bookkeeping(event_kind: &str) -> bool {
    matches!(
        event_kind,
        kind::MODEL_CALL
            | kind::BUDGET_WARNING
            | kind::OUTPUT_TRUNCATED
            | kind::ARTIFACT
            | kind::ARTIFACT_SKIPPED
    )
}

/// The output of a tool without the lines that report a command's success to the model: the mark shows it.
fn without_success(data: &Data) -> &str {
    if data.tool != "shell" || data.is_error {
        return &data.output;
    }
    ["[the command exited with status 0]\n", "[stdout]\n"]
        .iter()
        .fold(data.output.as_str(), |text, heading| {
            text.strip_prefix(heading).unwrap_or(text)
        })
}

/// Returns a duration for people.
pub(crate) fn milliseconds(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        _ => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1_000),
    }
}

fn one_line(text: &str) -> String {
    cut(&harmless(text).replace('\n', " "))
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(LINE_CHARS) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or_default()),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The events of a run as the stream sends them.
    const RECORDED: &str = include_str!("../tests/recorded/report.jsonl");

    fn event(line: &str) -> Event {
        serde_json::from_str(line).unwrap()
    }

    fn of(kind: &str, data: &serde_json::Value) -> Event {
        event(
            &serde_json::json!({"id": 1, "type": kind, "data": data, "created_at": "2026-11-20T21:30:00.000Z"})
                .to_string(),
        )
    }

    fn run(status: &str, error: Option<&str>) -> Run {
        serde_json::from_value(serde_json::json!({
            "id": "run_01kafs6w1cefkstv6qr1ptb0mp", "status": status, "error": error,
            "created_at": "2026-11-20T21:30:00.000Z", "started_at": "2026-11-20T21:30:00.004Z",
            "finished_at": "2026-11-20T21:30:01.254Z", "max_cost_micros": 1_000_000, "cost_micros": 1_250,
            "billing_pending": false, "zero_data_retention": false, "timeout_seconds": 300, "last_event_id": 1
        }))
        .unwrap()
    }

    fn render(transcript: &mut Transcript) -> String {
        RECORDED
            .lines()
            .map(|line| transcript.event(&event(line)))
            .collect()
    }

    #[test]
    fn a_recorded_run_reads_well() {
        let mut transcript = Transcript::new(false);
        let text = render(&mut transcript) + &transcript.done(&run("succeeded", None));
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_transcript_fits_the_terminal() {
        let mut transcript = Transcript::new(false);
        transcript.columns = Some(40);
        let text =
            render(&mut transcript) + &transcript.done(&run("failed", Some(&"a long reason ".repeat(9))));
        for line in text.lines() {
            assert!(textwrap::core::display_width(line) <= 40, "{line:?}");
        }
        assert!(text.contains("\n  $ head -n 3 orders.csv\n"), "{text}");
    }

    #[test]
    fn colours_add_nothing_but_colours() {
        let plain = render(&mut Transcript::new(false));
        let mut colourful = render(&mut Transcript::new(true));
        for code in ["1", "2", "31", "32", "36", "0"] {
            colourful = colourful.replace(&format!("\u{1b}[{code}m"), "");
        }
        assert_eq!(colourful, plain);
    }

    #[test]
    fn a_failure_says_why() {
        insta::assert_snapshot!(
            Transcript::new(false).done(&run("failed", Some("block 2 exited with status 1: no such file")))
        );
    }

    #[test]
    fn failures_on_the_way_are_shown() {
        let events = [
            of(
                "retry",
                &serde_json::json!({"what": "model call", "attempt": 2, "delay_ms": 1500, "reason": "429"}),
            ),
            of(
                "budget_warning",
                &serde_json::json!({"spent_micros": 800_000, "limit_micros": 1_000_000}),
            ),
            of(
                "budget_reached",
                &serde_json::json!({"spent_micros": 1_000_000, "limit_micros": 1_000_000}),
            ),
            of(
                "budget_reached",
                &serde_json::json!({"spent_micros": 0, "limit_micros": 100}),
            ),
            of(
                "output_rejected",
                &serde_json::json!({"errors": ["output.total: required"], "attempt": 1}),
            ),
            of(
                "output_truncated",
                &serde_json::json!({"limit_bytes": 1_048_576, "output_bytes": 2_000_000}),
            ),
            of(
                "connection_call",
                &serde_json::json!({"connection": "crm", "method": "GET", "path": "/orders", "status": 404, "bytes": 7, "duration_ms": 12}),
            ),
            of(
                "connection_call",
                &serde_json::json!({"connection": "crm", "method": "GET", "path": "/x", "bytes": 0, "duration_ms": 60_000}),
            ),
            of(
                "answer_requested",
                &serde_json::json!({"reason": "budget", "step": 5}),
            ),
            of("resumed", &serde_json::json!({"step": 3, "attempt": 2})),
            of("interrupted", &serde_json::json!({"reason": "worker_lost"})),
            of(
                "interrupted",
                &serde_json::json!({"reason": "uncertain_call", "step": 4, "tool": "send_mail", "id": "call_7"}),
            ),
            of(
                "artifact",
                &serde_json::json!({"path": "report.md", "size": 12, "sha256": "00", "content_type": "text/markdown"}),
            ),
            of(
                "artifact_skipped",
                &serde_json::json!({"path": "link", "reason": "a link, which is not followed"}),
            ),
            of("something_new", &serde_json::json!({"a": 1})),
        ];
        let mut transcript = Transcript::new(false);
        let text: String = events.iter().map(|event| transcript.event(event)).collect();
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_message_is_shown_unless_it_is_the_answer() {
        let message = of(
            "message",
            &serde_json::json!({"text": "I look first.", "step": 1}),
        );
        let call = of("model_call", &serde_json::json!({"model": "m", "step": 1}));
        for (answer, shown) in [("I look first.", ""), ("Done.", "I look first.\n")] {
            let mut transcript = Transcript::new(false);
            let result = of("result", &serde_json::json!({"output": answer}));
            let text: String = [&message, &call, &result]
                .iter()
                .map(|event| transcript.event(event))
                .collect();
            assert_eq!(text, shown);
        }
    }

    #[test]
    fn an_answer_is_not_shown_for_the_files_that_are_kept_behind_it() {
        let events = [
            of(
                "message",
                &serde_json::json!({"text": "The report is there.", "step": 1}),
            ),
            of("artifact", &serde_json::json!({"path": "report.md", "size": 12})),
            of(
                "artifact_skipped",
                &serde_json::json!({"path": "link", "reason": "a link"}),
            ),
            of("result", &serde_json::json!({"output": "The report is there."})),
        ];
        let mut transcript = Transcript::new(false);
        let text: String = events.iter().map(|event| transcript.event(event)).collect();
        assert!(!text.contains("The report is there."), "{text}");
        assert!(text.contains("saved outputs/report.md"), "{text}");
    }

    #[test]
    fn a_summary_of_thinking_is_shown_where_it_came_and_delays_no_message() {
        let thinking = of(
            "thinking_summary",
            &serde_json::json!({"text": "The header is missing.\n", "step": 1}),
        );
        let message = of("message", &serde_json::json!({"text": "Done.", "step": 1}));
        let result = of("result", &serde_json::json!({"output": "Done."}));
        let mut transcript = Transcript::new(false);
        let text: String = [&thinking, &message, &result]
            .iter()
            .map(|event| transcript.event(event))
            .collect();
        assert_eq!(text, "  The header is missing.\n");
    }

    #[test]
    fn the_middle_of_a_long_output_is_left_out() {
        let output = (1..=100)
            .map(|n| format!("line {n}"))
            .collect::<Vec<_>>()
            .join("\n");
        let end = of(
            "tool_end",
            &serde_json::json!({"tool": "shell", "id": "1", "is_error": false, "output": output,
                "output_bytes": output.len(), "duration_ms": 3}),
        );
        let text = Transcript::new(false).event(&end);
        assert!(
            text.contains("  line 12\n  … 82 lines more\n  line 95\n"),
            "{text}"
        );
    }

    #[test]
    fn an_agent_cannot_write_to_the_terminal_what_it_likes() {
        let mut transcript = Transcript::new(false);
        let nasty = "\u{1b}[2J\u{7}";
        let events = [
            of("message", &serde_json::json!({"text": nasty, "step": 1})),
            of(
                "tool_start",
                &serde_json::json!({"tool": nasty, "id": "1", "arguments": {"command": nasty}}),
            ),
            of(
                "tool_end",
                &serde_json::json!({"tool": nasty, "id": "1", "output": nasty, "output_bytes": 5}),
            ),
            of("retry", &serde_json::json!({"what": nasty, "reason": nasty})),
        ];
        let mut text: String = events.iter().map(|event| transcript.event(event)).collect();
        text += &transcript.done(&run("failed", Some(nasty)));
        assert!(!text.contains(['\u{1b}', '\u{7}']), "{text:?}");
    }

    proptest! {
        #[test]
        fn no_event_makes_it_panic(kind in "[a-z_]{0,16}", text in any::<String>(), number: u64) {
            let data = serde_json::json!({"text": text, "output": text, "tool": text, "duration_ms": number,
                "arguments": {"command": text}, "status": text});
            let _shown = Transcript::new(true).event(&of(&kind, &data));
        }
    }
}
