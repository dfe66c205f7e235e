//! Status line of a followed run on a terminal: current activity, turn, tokens, and money of the budget. Above it the end
//! of the text that the model is writing, or of the output that a command is printing.
//!
//! The lines are erased before anything else is printed, so they never mix with the transcript.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Deserialize;
use sortie_api::{Event, Micros, Run, event::kind};
use sortie_base::Clock;

use crate::{
    client::Live,
    terminal::{Style, Terminal, harmless, styled, wrapped},
};

/// Most lines of live text.
const LIVE_LINES: usize = 8;

/// Length of live text that is kept, in bytes. More than a terminal shows in [`LIVE_LINES`].
const LIVE_BYTES: usize = 16 * 1024;

/// Columns of a terminal that does not say its size.
const COLUMNS: usize = 80;

pub(crate) struct StatusLine {
    bar: ProgressBar,
    terminal: Terminal,
    activity: String,
    progress: Progress,
    budget: Option<Micros>,
    live: LiveText,
}

/// Usage of the run so far, from its events.
#[derive(Debug, Default, PartialEq, Eq)]
struct Progress {
    turn: u32,
    tokens: u64,
    spent: Micros,
}

/// The fields of all events that count.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Counted {
    step: u32,
    input_tokens: u64,
    output_tokens: u64,
    cache_read_tokens: u64,
    cache_write_tokens: u64,
    cost_micros: Micros,
}

/// End of the text that the model is writing, or of the output of a command.
#[derive(Debug, Default)]
struct LiveText {
    text: String,
    /// Tool call that the text is from; `None` for the model.
    call: Option<String>,
}

impl StatusLine {
    pub(crate) fn new(terminal: Terminal) -> Self {
        let line = Self {
            bar: ProgressBar::new_spinner(),
            terminal,
            activity: "waiting".to_owned(),
            progress: Progress::default(),
            budget: None,
            live: LiveText::default(),
        };
        line.show();
        line.bar.enable_steady_tick(Duration::from_millis(120));
        line
    }

    /// Shows the budget and the age of a run.
    pub(crate) fn begin(&mut self, run: &Run) {
        self.budget = Some(run.max_cost_micros);
        let begun = run.started_at.unwrap_or(run.created_at);
        self.bar = std::mem::replace(&mut self.bar, ProgressBar::hidden())
            .with_elapsed(Clock::system().now().since(begun));
        self.show();
    }

    /// Counts an event. `activity` is the run's activity now.
    pub(crate) fn event(&mut self, event: &Event, activity: &str) {
        self.progress.count(event);
        activity.clone_into(&mut self.activity);
        self.show();
    }

    pub(crate) fn live(&mut self, live: &Live) {
        self.live.add(live);
        self.show();
    }

    /// Ends the live text, which is recorded now or was withdrawn.
    pub(crate) fn end_live(&mut self) {
        self.live = LiveText::default();
        self.show();
    }

    /// Shows another activity until the next event.
    pub(crate) fn say(&self, activity: &str) {
        self.bar.set_message(activity.to_owned());
    }

    /// Erases the lines, does `print`, and shows them again.
    pub(crate) fn suspend(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }

    pub(crate) fn close(self) {
        self.bar.finish_and_clear();
    }

    fn show(&self) {
        let colours = self.terminal.colours_stderr();
        let columns = self.terminal.stderr_columns().unwrap_or(COLUMNS);
        let live: Vec<String> = self
            .live
            .last_lines(columns)
            .iter()
            .map(|line| styled(line, Style::Dim, colours))
            .collect();
        // `wide_msg` is cut at the width of the terminal, measured from the last newline of the template.
        let template = if live.is_empty() {
            "{spinner} {elapsed} · {wide_msg}"
        } else {
            "{prefix}\n{spinner} {elapsed} · {wide_msg}"
        };
        // The templates are constant; an invalid one would only change the look.
        let style =
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner());
        self.bar.set_style(style);
        self.bar.set_prefix(live.join("\n"));
        self.bar
            .set_message(self.progress.line(&self.activity, self.budget));
    }
}

impl Progress {
    fn count(&mut self, event: &Event) {
        let counted: Counted = serde_json::from_str(event.data.get()).unwrap_or_default();
        self.turn = self.turn.max(counted.step);
        if matches!(event.kind.as_str(), kind::MODEL_CALL | kind::TOOL_END) {
            self.tokens += counted.input_tokens
                + counted.output_tokens
                + counted.cache_read_tokens
                + counted.cache_write_tokens;
            self.spent = self.spent.checked_add(counted.cost_micros).unwrap_or(self.spent);
        }
    }

    fn line(&self, activity: &str, budget: Option<Micros>) -> String {
        let mut parts = vec![activity.to_owned()];
        if self.turn > 0 {
            parts.push(format!("turn {}", self.turn));
        }
        if self.tokens > 0 {
            parts.push(format!("{} tokens", thousands(self.tokens)));
        }
        if let Some(budget) = budget {
            parts.push(format!("{} of {budget}", self.spent));
        }
        parts.join(" · ")
    }
}

impl LiveText {
    fn add(&mut self, live: &Live) {
        let (call, text) = match live {
            Live::Start => {
                *self = Self::default();
                return;
            }
            Live::Text(text) => (None, text),
            Live::Output { call, text } => (Some(call), text),
        };
        if self.call.as_ref() != call {
            *self = Self {
                text: String::new(),
                call: call.cloned(),
            };
        }
        self.text.push_str(text);
        if self.text.len() > 2 * LIVE_BYTES {
            let start = self.text.ceil_char_boundary(self.text.len() - LIVE_BYTES);
            self.text.drain(..start);
        }
    }

    /// Returns the last lines as a terminal of this width shows them.
    fn last_lines(&self, columns: usize) -> Vec<String> {
        let text = harmless(self.text.trim_end());
        let mut lines: Vec<String> = text
            .lines()
            .rev()
            .take(LIVE_LINES)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .flat_map(|line| wrapped(line, Some(columns), ["  ", "  "]))
            .collect();
        lines.drain(..lines.len().saturating_sub(LIVE_LINES));
        lines
    }
}

/// Returns a number with commas between the thousands.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let (head, rest) = digits.split_at(first);
    let groups = rest.as_bytes().chunks(3).map(String::from_utf8_lossy);
    let head = Some(head).filter(|head| !head.is_empty()).map(Into::into);
    head.into_iter().chain(groups).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &str, data: &serde_json::Value) -> Event {
        serde_json::from_value(serde_json::json!({
            "id": 1, "type": kind, "data": data, "created_at": "2026-11-20T21:30:00.000Z"
        }))
        .unwrap()
    }

    #[test]
    fn the_line_has_turn_tokens_and_money() {
        let mut progress = Progress::default();
        assert_eq!(progress.line("waiting", None), "waiting");
        let call = serde_json::json!({"step": 2, "input_tokens": 1_000_000, "output_tokens": 3, "cache_read_tokens": 10,
            "cost_micros": 1_500});
        progress.count(&event("model_call", &call));
        progress.count(&event("tool_end", &serde_json::json!({"cost_micros": 500})));
        assert_eq!(
            progress.line("thinking", serde_json::from_str("1000000").ok()),
            "thinking · turn 2 · 1,000,013 tokens · $0.002 of $1.00"
        );
    }

    #[test]
    fn numbers_have_commas() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(thousands(number), text);
        }
    }

    #[test]
    fn live_text_is_the_end_of_one_source_and_fits_the_terminal() {
        let mut live = LiveText::default();
        let text = |text: &str| Live::Text(text.to_owned());
        live.add(&text("One two three four "));
        live.add(&text("five.\u{1b}[2J\n"));
        assert_eq!(
            live.last_lines(20),
            ["  One two three four", "  five.\u{fffd}[2J"]
        );
        for n in 0..50 {
            live.add(&text(&format!("line {n}\n")));
        }
        let lines = live.last_lines(40);
        assert_eq!(
            (lines.len(), lines.last().unwrap().as_str()),
            (LIVE_LINES, "  line 49")
        );
        live.add(&Live::Output {
            call: "call_1".to_owned(),
            text: "ok".to_owned(),
        });
        assert_eq!(live.last_lines(40), ["  ok"]);
        live.add(&Live::Start);
        assert!(live.last_lines(40).is_empty());
        live.add(&text(&"ä".repeat(3 * LIVE_BYTES)));
        live.add(&text("end"));
        assert!(live.text.len() <= 2 * LIVE_BYTES && live.text.ends_with("end"));
    }
}
