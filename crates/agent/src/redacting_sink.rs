//! The run's sink with its redactor in front: credentials are removed from everything that is recorded.
//!
//! A run without credentials has nothing to redact: its events pass unchanged. Thinking between tags is removed from the text
//! that the model is writing.

use futures_util::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use serde_json::value::{RawValue, to_raw_value};
use sortie_api::{
    Artifact, EventType, Micros,
    event::{ConnectionCall, ToolEnd},
};

use crate::{
    Redactor, Sink, Stopped,
    journal::{Entry, What},
    model::{Content, ToolCall, ToolResult},
    redact::Pieces,
    weak::thinking::{AnswerText, Tags},
};

/// A sink that receives everything without credentials.
pub(crate) struct RedactingSink<'a> {
    sink: &'a dyn Sink,
    redactor: &'a Redactor,
    tags: Tags,
    writing: Mutex<Writing>,
}

/// The text that the model is writing.
#[derive(Default)]
struct Writing {
    step: u32,
    /// Text of the call under way; `None` before its first piece.
    answer: Option<AnswerText>,
    pieces: Pieces,
}

impl<'a> RedactingSink<'a> {
    /// A sink for answers with thinking between `tags`.
    pub(crate) fn new(sink: &'a dyn Sink, redactor: &'a Redactor, tags: Tags) -> Self {
        Self {
            sink,
            redactor,
            tags,
            writing: Mutex::default(),
        }
    }

    /// Ends the text of a call: emits the part that was held back.
    fn finish_answer(&self, writing: &mut Writing) {
        if let Some(mut answer) = writing.answer.take() {
            let rest = answer.finish();
            self.show(writing, &rest);
        }
        self.finish(writing);
    }

    /// Emits the text that the redactor has held back.
    fn finish(&self, writing: &mut Writing) {
        let rest = writing.pieces.rest(self.redactor);
        if !rest.is_empty() {
            self.sink.message_delta(writing.step, &rest);
        }
    }

    fn show(&self, writing: &mut Writing, text: &str) {
        let shown = if self.redactor.is_empty() {
            text.into()
        } else {
            writing.pieces.push(self.redactor, text)
        };
        if !shown.is_empty() {
            self.sink.message_delta(writing.step, &shown);
        }
    }

    fn writing(&self) -> MutexGuard<'_, Writing> {
        // A panic elsewhere at worst loses a piece of the text.
        self.writing.lock()
    }

    fn text(&self, text: String) -> String {
        self.redactor.redact_owned(text)
    }

    fn json(&self, json: Box<RawValue>) -> Box<RawValue> {
        let shown = self.redactor.redact(json.get());
        if shown.len() == json.get().len() && shown == json.get() {
            return json;
        }
        // Redacting a number or a key can make the JSON invalid.
        RawValue::from_string(shown.to_string())
            .or_else(|_| to_raw_value(&serde_json::json!({ "malformed": shown })))
            .unwrap_or_default()
    }

    fn event(&self, event: EventType) -> EventType {
        let text = |text| self.text(text);
        match event {
            EventType::Status { status, error } => EventType::Status {
                status,
                error: error.map(text),
            },
            EventType::Message { text, step } => EventType::Message {
                text: self.text(text),
                step,
            },
            EventType::ThinkingSummary { text, step } => EventType::ThinkingSummary {
                text: self.text(text),
                step,
            },
            EventType::ToolStart { tool, id, arguments } => EventType::ToolStart {
                tool: text(tool),
                id: text(id),
                arguments: self.json(arguments),
            },
            EventType::ToolEnd(end) => EventType::ToolEnd(ToolEnd {
                tool: text(end.tool),
                id: text(end.id),
                output: text(end.output),
                ..end
            }),
            EventType::Retry {
                what,
                attempt,
                delay_ms,
                reason,
            } => EventType::Retry {
                what,
                attempt,
                delay_ms,
                reason: text(reason),
            },
            EventType::ConnectionCall(call) => EventType::ConnectionCall(ConnectionCall {
                connection: text(call.connection),
                method: text(call.method),
                path: text(call.path),
                ..call
            }),
            EventType::OutputRejected { errors, attempt } => EventType::OutputRejected {
                errors: errors.into_iter().map(text).collect(),
                attempt,
            },
            EventType::Artifact(artifact) => EventType::Artifact(Artifact {
                path: text(artifact.path),
                ..artifact
            }),
            EventType::ArtifactSkipped { path, reason } => EventType::ArtifactSkipped {
                path: text(path),
                reason: text(reason),
            },
            EventType::Result { output } => EventType::Result { output: text(output) },
            EventType::Interrupted {
                reason,
                step,
                tool,
                id,
            } => EventType::Interrupted {
                reason,
                step,
                tool: tool.map(text),
                id: id.map(text),
            },
            plain @ (EventType::WorkerStarted { .. }
            | EventType::ModelCall(_)
            | EventType::BudgetWarning(_)
            | EventType::BudgetReached(_)
            | EventType::ContextCompacted { .. }
            | EventType::AnswerRequested { .. }
            | EventType::Resumed { .. }
            | EventType::OutputTruncated { .. }) => plain,
        }
    }

    fn entry(&self, entry: Entry) -> Entry {
        let text = |text| self.text(text);
        let what = match entry.what {
            What::Reply {
                content,
                count,
                is_cut,
            } => What::Reply {
                content: content.into_iter().map(|piece| self.content(piece)).collect(),
                count,
                is_cut,
            },
            What::Began { environment, prefix } => What::Began {
                environment: text(environment),
                prefix,
            },
            What::Intent { id, tool, effect } => What::Intent {
                id: text(id),
                tool: text(tool),
                effect,
            },
            What::CallTask { id, task } => What::CallTask {
                id: text(id),
                task: text(task),
            },
            What::Result(result) => What::Result(ToolResult {
                id: text(result.id),
                name: text(result.name),
                content: result.content.shown(self.redactor, usize::MAX),
                is_error: result.is_error,
                note: result.note.map(|note| self.text(note)),
            }),
            What::Correction { text } => What::Correction {
                text: self.text(text),
            },
            What::Compacted { summary, turns } => What::Compacted {
                summary: text(summary),
                turns,
            },
            What::Note { kind, text } => What::Note {
                kind,
                text: self.text(text),
            },
            unchanged @ (What::Trimmed { .. } | What::ThinkingDropped | What::FellBack) => unchanged,
        };
        Entry { what, ..entry }
    }

    fn content(&self, piece: Content) -> Content {
        match piece {
            Content::Text(text) => Content::Text(self.text(text)),
            Content::ToolCall(call) => Content::ToolCall(ToolCall {
                id: self.text(call.id),
                name: self.text(call.name),
                arguments: self.text(call.arguments),
            }),
            Content::Opaque(raw) => Content::Opaque(self.json(raw)),
        }
    }
}

impl Sink for RedactingSink<'_> {
    fn record(&self, event: EventType) -> BoxFuture<'_, Result<(), Stopped>> {
        // A warning may come during a model call, and the thinking continues after it.
        if matches!(
            event,
            EventType::ModelCall(_) | EventType::Retry { .. } | EventType::Message { .. }
        ) {
            self.finish_answer(&mut self.writing());
        }
        if self.redactor.is_empty() {
            return self.sink.record(event);
        }
        // Any recorded event ends the text before it.
        self.finish(&mut self.writing());
        self.sink.record(self.event(event))
    }

    fn journal(&self, entry: Entry) -> BoxFuture<'_, Result<(), Stopped>> {
        if self.redactor.is_empty() {
            return self.sink.journal(entry);
        }
        self.sink.journal(self.entry(entry))
    }

    fn durable(&self) -> BoxFuture<'_, Result<(), Stopped>> {
        self.sink.durable()
    }

    fn spent(&self, cost: Micros, at: tokio::time::Instant) {
        self.sink.spent(cost, at);
    }

    fn charged(&self, call: EventType) {
        self.sink.charged(self.event(call));
    }

    fn usage_clamped(&self, model: &str) {
        self.sink.usage_clamped(model);
    }

    fn model_started(&self, step: u32, model: &str) {
        self.sink.model_started(step, model);
    }

    fn wants_output(&self) -> bool {
        self.sink.wants_output()
    }

    fn command_output(&self, text: &str) {
        self.sink.command_output(text);
    }

    fn message_delta(&self, step: u32, text: &str) {
        let mut writing = self.writing();
        if writing.step != step {
            self.finish_answer(&mut writing);
            writing.step = step;
        }
        let tags = || AnswerText::new(self.tags.clone());
        let shown = writing.answer.get_or_insert_with(tags).push(text);
        self.show(&mut writing, &shown);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sortie_api::RunStatus;
    use sortie_sandbox::ExitKind;

    use super::*;
    use crate::journal::NoteKind;
    use crate::{
        content::{CommandOutput, ToolContent},
        tool::Effect,
    };

    /// Records everything it receives as text.
    #[derive(Default)]
    struct Told(Mutex<Vec<String>>);

    impl Sink for Told {
        fn record(&self, event: EventType) -> BoxFuture<'_, Result<(), Stopped>> {
            self.0.lock().push(serde_json::to_string(&event).unwrap());
            Box::pin(async { Ok(()) })
        }

        fn journal(&self, entry: Entry) -> BoxFuture<'_, Result<(), Stopped>> {
            self.0.lock().push(serde_json::to_string(&entry).unwrap());
            Box::pin(async { Ok(()) })
        }

        fn durable(&self) -> BoxFuture<'_, Result<(), Stopped>> {
            Box::pin(async { Ok(()) })
        }

        fn spent(&self, _cost: Micros, _at: tokio::time::Instant) {}
    }

    const SECRET: &str = "123456789";

    fn s() -> String {
        format!("a {SECRET} b")
    }

    fn events() -> Vec<EventType> {
        let arguments = |json: &str| RawValue::from_string(json.to_owned()).unwrap();
        let start = |json: &str| EventType::ToolStart {
            tool: s(),
            id: s(),
            arguments: arguments(json),
        };
        vec![
            EventType::Status {
                status: RunStatus::Failed,
                error: Some(s()),
            },
            EventType::Message { text: s(), step: 1 },
            start(r#"{"k":"123456789"}"#),
            start(r#"{"k":123456789}"#),
            EventType::ToolEnd(ToolEnd {
                tool: s(),
                id: s(),
                is_error: false,
                output: s(),
                output_bytes: 1,
                duration_ms: 1,
                cost_micros: Micros::ZERO,
            }),
            EventType::Retry {
                what: "model_call".to_owned(),
                attempt: 2,
                delay_ms: 1,
                reason: s(),
            },
            EventType::ConnectionCall(ConnectionCall {
                connection: s(),
                method: s(),
                path: s(),
                status: None,
                bytes: 0,
                duration_ms: 0,
            }),
            EventType::Interrupted {
                reason: "uncertain_call",
                step: 1,
                tool: Some(s()),
                id: Some(s()),
            },
            EventType::OutputRejected {
                errors: vec![s()],
                attempt: 1,
            },
            EventType::Result { output: s() },
        ]
    }

    fn entries() -> Vec<What> {
        let result = |content| {
            What::Result(ToolResult {
                id: s(),
                name: s(),
                content,
                is_error: false,
                note: None,
            })
        };
        let call = ToolCall {
            id: s(),
            name: s(),
            arguments: s(),
        };
        let opaque = RawValue::from_string(format!("[{SECRET}]")).unwrap();
        vec![
            What::Reply {
                content: vec![
                    Content::Text(s()),
                    Content::ToolCall(call),
                    Content::Opaque(opaque),
                ],
                count: None,
                is_cut: false,
            },
            What::Began {
                environment: s(),
                prefix: String::new(),
            },
            What::Note {
                kind: NoteKind::Time,
                text: s(),
            },
            What::Intent {
                id: s(),
                tool: s(),
                effect: Effect::Outside,
            },
            What::CallTask { id: s(), task: s() },
            result(ToolContent::Text(s())),
            result(ToolContent::Command(CommandOutput {
                exit: ExitKind::Code(0),
                stdout: s(),
                stderr: s(),
                timeout: Duration::ZERO,
                notes: vec![s()],
            })),
            What::Correction { text: s() },
            What::Compacted {
                summary: s(),
                turns: 1,
            },
        ]
    }

    #[tokio::test]
    async fn every_event_and_every_entry_passes_without_its_credentials() {
        let (told, redactor) = (Told::default(), Redactor::new([SECRET]));
        let shown = RedactingSink::new(&told, &redactor, Tags::default());
        for event in events() {
            assert!(serde_json::to_string(&event).unwrap().contains(SECRET));
            shown.record(event).await.unwrap();
        }
        for what in entries() {
            let entry = Entry {
                step: 1,
                spent_micros: Micros::ZERO,
                what,
            };
            shown.journal(entry).await.unwrap();
        }
        let told = told.0.into_inner();
        assert_eq!(told.len(), events().len() + entries().len());
        for told in told {
            assert!(told.contains("[redacted]") && !told.contains(SECRET), "{told}");
        }
    }
}
