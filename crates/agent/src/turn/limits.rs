//! Limits that a run approaches: time, money, and a model that repeats itself. Warnings are appended to the newest tool result,
//! so that caches and thinking blocks stay valid; close to the end the final answer is requested.

use std::time::Duration;

use sortie_api::{EventType, event::AnswerReason};
use tokio::time::Instant;

use super::{
    Agent,
    repetition::{self, repeated},
};
use crate::{
    journal::{NoteKind, What},
    model::{Kind, Turn},
    stop::{ANSWER_NOW, Stop},
};

/// The share of time or money after which the model is warned, in percent.
const WARNING_PERCENT: u128 = 80;
/// The share of time after which a slow model is asked for its final answer, in percent.
const LATE_PERCENT: u128 = 66;
/// The share of time or money after which the final answer is asked for, in percent.
const ENDING_PERCENT: u128 = 90;

impl Agent<'_> {
    /// Warns the model of the limits that the run approaches, each once.
    pub(super) async fn announce_limits(&mut self) -> Result<(), Stop> {
        if self.caller.model.kind() == Kind::Program || self.is_ending() {
            return Ok(());
        }
        if let Some(reason) = self.answer_wanted.take() {
            return self.end(reason).await;
        }
        let (spent, time) = (self.spent_percent(), self.time_percent());
        if spent >= ENDING_PERCENT {
            return self.end(AnswerReason::Budget).await;
        }
        if time >= ENDING_PERCENT || self.is_late(time) {
            return self.end(AnswerReason::Time).await;
        }
        // A warning is useless before any tool was called.
        if !matches!(self.conversation.turns().last(), Some(Turn::ToolResults(_))) {
            return Ok(());
        }
        let repeated = repeated(self.conversation.turns());
        if repeated >= repetition::ENDED {
            return self.end(AnswerReason::Repetition).await;
        }
        if repeated >= repetition::TOLD {
            let text = format!(
                "The same calls have had the same results {repeated} times in a row. Try something else, or answer with \
                 what you know."
            );
            self.note(NoteKind::Repetition, text).await?;
        }
        if spent >= WARNING_PERCENT && !self.noted.contains(&NoteKind::Budget) {
            let so_far = self.caller.meter.so_far();
            let text = format!(
                "{} of the run's budget of {} are spent. Finish what matters most: at {ENDING_PERCENT} % the final answer \
                 is asked for.",
                so_far.spent_micros, so_far.limit_micros
            );
            self.note(NoteKind::Budget, text).await?;
        }
        if time >= WARNING_PERCENT && !self.noted.contains(&NoteKind::Time) {
            let left = self.time_left().unwrap_or_default().as_secs();
            let text = format!(
                "{left} s of the run's time are left. Finish what matters most: at {ENDING_PERCENT} % of the time the final \
                 answer is asked for."
            );
            self.note(NoteKind::Time, text).await?;
        }
        Ok(())
    }

    /// Whether the final answer was asked for.
    pub(super) fn is_ending(&self) -> bool {
        self.noted.contains(&NoteKind::Ending)
    }

    /// Requests the final answer: from here on no tool is called.
    pub(super) async fn end(&mut self, reason: AnswerReason) -> Result<(), Stop> {
        let why = match reason {
            AnswerReason::Budget => "The rest of the run's budget is kept for the answer.",
            AnswerReason::Time => "The run's time is nearly over.",
            AnswerReason::Repetition => "The same calls keep having the same results.",
        };
        let requested = EventType::AnswerRequested {
            reason,
            step: self.step,
        };
        // An answer that was begun starts again.
        self.cut.clear();
        self.note(NoteKind::Ending, format!("{why} {ANSWER_NOW}")).await?;
        self.sink.record(requested).await?;
        Ok(())
    }

    /// Appends a note to the newest tool result.
    pub(super) async fn note(&mut self, kind: NoteKind, text: String) -> Result<(), Stop> {
        self.noted.push(kind);
        self.conversation.note(&text);
        // The note belongs to the turn before.
        let step = self.step.saturating_sub(1);
        self.journal_writer.write(step, What::Note { kind, text }).await?;
        Ok(())
    }

    fn spent_percent(&self) -> u128 {
        let so_far = self.caller.meter.so_far();
        let [spent, limit] = [so_far.spent_micros, so_far.limit_micros]
            .map(|micros| u128::try_from(micros.get()).unwrap_or_default());
        (spent * 100).checked_div(limit).unwrap_or(0)
    }

    fn time_percent(&self) -> u128 {
        let started = self.spec.budget.started;
        let percent = self.spec.deadline.and_then(|deadline| {
            let whole = deadline.saturating_duration_since(started).as_millis();
            let gone = Instant::now().saturating_duration_since(started).as_millis();
            (gone * 100).checked_div(whole)
        });
        percent.unwrap_or(0)
    }

    /// Whether a call that takes 1.5 times as long as the slowest one so far would not end in time. Checked only in the last
    /// third of the time.
    fn is_late(&self, percent: u128) -> bool {
        let needed = self.caller.slowest + self.caller.slowest / 2;
        percent >= LATE_PERCENT && self.time_left().is_some_and(|left| left < needed)
    }

    fn time_left(&self) -> Option<Duration> {
        let deadline = self.spec.deadline?;
        Some(deadline.saturating_duration_since(Instant::now()))
    }
}
