//! A run in a test: its task, the replies of its model, the behaviour of its commands, and the records.

mod going_on;
mod pretended;
mod probe;
mod rules;
mod running;
#[path = "../shared/spec.rs"]
mod spec;

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json, value::RawValue};
use sortie_agent::{
    Model, Outcome, RunSpec, Shell, Sink, Stopped, Tool, Workspace,
    journal::{Entry, Journal, What},
    model::{Content, Deltas, ModelError, Reply, Request, StopReason, ToolCall, ToolUse, Turn, Usage},
    schema::Schema,
};
use sortie_api::{
    EventType, Micros,
    model::{ModelInfo, ModelPrices},
};
use sortie_sandbox::{Backend, Limits};
use tempfile::TempDir;
use tokio::time::Instant;

pub(crate) use self::{
    pretended::{Does, Pretended, prints},
    probe::Probe,
    rules::{Cache, Counting, Ruled, thinks},
    running::{play, play_in, run_agent, run_in, run_ruled},
    spec::spec,
};

/// Makes the lines of a scripted model of replies, errors and lines.
macro_rules! script {
    ($($line:expr),* $(,)?) => { vec![$($crate::support::Line::from($line)),*] };
}
pub(crate) use script;

/// Makes a scripted model that gives these replies, errors and lines.
macro_rules! scripted {
    ($($line:expr),* $(,)?) => { $crate::support::Scripted::new($crate::support::script![$($line),*]) };
}
pub(crate) use scripted;

/// Changes to a run before it starts.
pub(crate) trait Changes: Sized {
    /// Continues with these entries of an earlier attempt.
    fn resuming(self, entries: Vec<Entry>) -> Self;
    /// Offers this tool alone besides the built-in ones.
    fn with_tool(self, tool: Arc<dyn Tool>) -> Self;
    /// Sets the deadline.
    fn until(self, deadline: Instant) -> Self;
    /// Sets the model that answers after a failure.
    fn with_fallback(self, model: Arc<dyn Model>) -> Self;
    /// Denies the shell.
    fn without_shell(self) -> Self;
}

impl Changes for RunSpec {
    fn resuming(mut self, entries: Vec<Entry>) -> Self {
        self.resume = Some(Journal::new(entries));
        self
    }

    fn with_tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.tools = vec![tool];
        self
    }

    fn until(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    fn with_fallback(mut self, model: Arc<dyn Model>) -> Self {
        self.fallback = Some(model);
        self
    }

    fn without_shell(mut self) -> Self {
        self.shell = Shell::Denied;
        self
    }
}

pub(crate) fn micros(amount: u64) -> Micros {
    Micros::new(amount).unwrap()
}

pub(crate) fn raw(value: &Value) -> Box<RawValue> {
    RawValue::from_string(value.to_string()).unwrap()
}

pub(crate) fn with_schema(prompt: &str, schema: &Value) -> RunSpec {
    RunSpec {
        output_schema: Some(Arc::new(Schema::compile(&schema.to_string()).unwrap())),
        ..spec(prompt)
    }
}

/// Records everything that it receives.
#[derive(Default)]
pub(crate) struct Recorder {
    events: Mutex<Vec<(&'static str, Value)>>,
    spent: Mutex<Vec<Micros>>,
    deltas: Mutex<String>,
    journal: Mutex<Vec<Entry>>,
    /// Number of events in front of each entry of the journal.
    events_before: Mutex<Vec<usize>>,
    /// Models of the calls with clamped usage.
    clamped: Mutex<Vec<String>>,
    /// Number of entries at each request for durability.
    durable: Mutex<Vec<usize>>,
    /// Refuses events from this one on.
    refuse_from: Option<usize>,
    /// Refuses entries from this one on.
    refuse_entries_from: Option<usize>,
}

impl Recorder {
    pub(crate) fn refusing_from(event: usize) -> Self {
        Self {
            refuse_from: Some(event),
            ..Self::default()
        }
    }

    pub(crate) fn refusing_entries_from(entry: usize) -> Self {
        Self {
            refuse_entries_from: Some(entry),
            ..Self::default()
        }
    }

    /// Returns the entries of the journal.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.journal.lock().clone()
    }

    /// Returns the events and entries that are left where the first `stored` of them, in their order, were stored.
    pub(crate) fn cut(&self, stored: usize) -> (Vec<(&'static str, Value)>, Vec<Entry>) {
        let before = self.events_before.lock().clone();
        // The entry with the index `n` follows `n` entries and the events before it.
        let entries = before
            .iter()
            .enumerate()
            .take_while(|(index, events)| index + **events < stored);
        let entries = entries.count();
        let events = self.events.lock();
        let kept = events
            .iter()
            .take(stored - entries.min(stored))
            .cloned()
            .collect();
        (kept, self.entries()[..entries].to_vec())
    }

    /// Returns the entries in short: `reply`, `intent a`, `result a`, …, each after its step.
    pub(crate) fn steps(&self) -> Vec<String> {
        let short = |entry: Entry| {
            let what = match entry.what {
                What::Reply { .. } => "reply".to_owned(),
                What::Intent { id, .. } => format!("intent {id}"),
                What::CallTask { id, task } => format!("task {id} {task}"),
                What::Result(result) => format!("result {}", result.id),
                What::Correction { .. } => "correction".to_owned(),
                What::Compacted { .. } => "compacted".to_owned(),
                What::Trimmed { .. } => "trimmed".to_owned(),
                What::Note { kind, .. } => format!("note {kind:?}"),
                What::ThinkingDropped => "thinking dropped".to_owned(),
                What::FellBack => "fell back".to_owned(),
                What::Began { .. } => return None,
            };
            Some(format!("{} {what}", entry.step))
        };
        self.entries().into_iter().filter_map(short).collect()
    }

    /// Returns the number of entries at each request for durability.
    pub(crate) fn made_durable(&self) -> Vec<usize> {
        self.durable.lock().clone()
    }

    /// Returns everything that was reported, as text.
    pub(crate) fn everything(&self) -> String {
        let journal: Vec<String> = self
            .entries()
            .iter()
            .map(|entry| serde_json::to_string(entry).unwrap())
            .collect();
        let events = self.events.lock();
        format!("{events:?}\n{}\n{}", journal.join("\n"), self.deltas())
    }

    /// The types of all events, in order.
    pub(crate) fn kinds(&self) -> Vec<&'static str> {
        self.events.lock().iter().map(|(kind, _)| *kind).collect()
    }

    /// The data of all events of a type.
    pub(crate) fn data(&self, kind: &str) -> Vec<Value> {
        let events = self.events.lock();
        events
            .iter()
            .filter(|(k, _)| *k == kind)
            .map(|(_, data)| data.clone())
            .collect()
    }

    /// The last reported cost.
    pub(crate) fn last_spent(&self) -> i64 {
        self.spent.lock().last().map_or(-1, |spent| spent.get())
    }

    pub(crate) fn spent(&self) -> Vec<i64> {
        self.spent.lock().iter().map(|spent| spent.get()).collect()
    }

    /// Models of the calls with clamped usage, in order.
    pub(crate) fn clamped(&self) -> Vec<String> {
        self.clamped.lock().clone()
    }

    pub(crate) fn deltas(&self) -> String {
        self.deltas.lock().clone()
    }
}

impl Sink for Recorder {
    fn record(&self, event: EventType) -> BoxFuture<'_, Result<(), Stopped>> {
        let mut events = self.events.lock();
        let refused = self.refuse_from.is_some_and(|from| events.len() >= from);
        if !refused {
            events.push((event.kind(), serde_json::to_value(&event).unwrap()));
        }
        Box::pin(async move { if refused { Err(Stopped) } else { Ok(()) } })
    }

    fn journal(&self, entry: Entry) -> BoxFuture<'_, Result<(), Stopped>> {
        let mut journal = self.journal.lock();
        let refused = self.refuse_entries_from.is_some_and(|from| journal.len() >= from);
        if !refused {
            journal.push(entry);
            let events = self.events.lock().len();
            self.events_before.lock().push(events);
        }
        Box::pin(async move { if refused { Err(Stopped) } else { Ok(()) } })
    }

    fn durable(&self) -> BoxFuture<'_, Result<(), Stopped>> {
        let written = self.journal.lock().len();
        self.durable.lock().push(written);
        Box::pin(async { Ok(()) })
    }

    fn spent(&self, cost: Micros, _at: tokio::time::Instant) {
        self.spent.lock().push(cost);
    }

    fn charged(&self, call: EventType) {
        let mut events = self.events.lock();
        events.push((call.kind(), serde_json::to_value(&call).unwrap()));
    }

    fn usage_clamped(&self, model: &str) {
        self.clamped.lock().push(model.to_owned());
    }

    fn message_delta(&self, _step: u32, text: &str) {
        self.deltas.lock().push_str(text);
    }
}

/// A workspace in a folder of the test, and that folder.
pub(crate) fn workspace(backend: &Arc<Pretended>) -> (Workspace, TempDir) {
    let root = tempfile::tempdir().unwrap();
    let backend: Arc<dyn Backend> = backend.clone();
    (
        Workspace::new(
            root.path().to_owned(),
            "run".to_owned(),
            backend,
            Limits::default(),
        ),
        root,
    )
}

/// A backend that must not be asked for anything.
pub(crate) fn untouched() -> Arc<Pretended> {
    Pretended::new(&[], |command| panic!("ran {command}"))
}

/// A model that replies by its script, and remembers its requests.
pub(crate) struct Scripted {
    pub(crate) info: ModelInfo,
    pub(crate) binds_thinking: bool,
    script: Mutex<VecDeque<Line>>,
    pub(crate) asked: Mutex<Vec<Asked>>,
    transcripts: Mutex<Vec<Vec<Turn>>>,
}

/// Behaviour of a scripted model in one call.
#[derive(Clone)]
pub(crate) struct Line {
    /// Duration of the call.
    pub(crate) after: Duration,
    /// Text that is written before the end.
    pub(crate) deltas: &'static str,
    /// Bytes of thinking besides.
    pub(crate) hidden: usize,
    /// End of the call.
    pub(crate) reply: Result<Reply, ModelError>,
}

/// Request to a model in one call.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) system: String,
    pub(crate) first_message: String,
    pub(crate) max_tokens: u64,
    pub(crate) tools: Vec<String>,
    pub(crate) tool_use: ToolUse,
    /// The last part of the transcript, as a model would read it.
    pub(crate) last: String,
}

impl From<Reply> for Line {
    fn from(reply: Reply) -> Self {
        Self {
            after: Duration::ZERO,
            deltas: "",
            hidden: 0,
            reply: Ok(reply),
        }
    }
}

impl From<ModelError> for Line {
    fn from(error: ModelError) -> Self {
        Self {
            after: Duration::ZERO,
            deltas: "",
            hidden: 0,
            reply: Err(error),
        }
    }
}

impl Scripted {
    pub(crate) fn new(script: Vec<Line>) -> Self {
        Self::priced(ModelPrices::default(), script)
    }

    pub(crate) fn priced(prices: ModelPrices, script: Vec<Line>) -> Self {
        let info = ModelInfo {
            id: "scripted".to_owned(),
            provider: "test".to_owned(),
            name: "Scripted".to_owned(),
            context_window: 200_000,
            max_output_tokens: 8_000,
            prices,
            capabilities: vec!["tools".to_owned()],
        };
        Self {
            info,
            binds_thinking: false,
            script: Mutex::new(script.into()),
            asked: Mutex::default(),
            transcripts: Mutex::default(),
        }
    }

    /// The transcripts that it was shown.
    pub(crate) fn transcripts(&self) -> Vec<Vec<Turn>> {
        self.transcripts.lock().clone()
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().clone()
    }
}

impl Model for Scripted {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn binds_thinking(&self) -> bool {
        self.binds_thinking
    }

    fn call<'a>(
        &'a self,
        request: Request<'a>,
        deltas: &'a dyn Deltas,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        let last = match request.transcript.last() {
            None | Some(Turn::Assistant(_)) => String::new(),
            Some(Turn::User(text)) => text.clone(),
            Some(Turn::ToolResults(results)) => {
                let texts: Vec<String> = results.iter().map(|r| r.text().into_owned()).collect();
                texts.join("|")
            }
        };
        self.transcripts.lock().push(request.transcript.to_vec());
        self.asked.lock().push(Asked {
            system: request.system.to_owned(),
            first_message: request.task.first_message().into_owned(),
            max_tokens: request.max_tokens,
            tool_use: request.tool_use,
            tools: request.tools.iter().map(|tool| tool.name.to_owned()).collect(),
            last,
        });
        let line = self.script.lock().pop_front().expect("the script goes on");
        Box::pin(async move {
            if !line.deltas.is_empty() {
                deltas.text(line.deltas);
            }
            deltas.written(line.hidden);
            tokio::time::sleep(line.after).await;
            line.reply
        })
    }
}

/// Whether the model is asked for the notes that replace the conversation.
pub(crate) fn asks_for_notes(request: &Request<'_>) -> bool {
    let last = request.transcript.last();
    matches!(last, Some(Turn::User(text)) if text.starts_with("The conversation has become too long"))
}

pub(crate) fn says(text: &str) -> Reply {
    Reply {
        content: vec![Content::Text(text.to_owned())],
        thinking: String::new(),
        stop_reason: StopReason::EndTurn,
        usage: Usage::default(),
    }
}

/// Calls of tools: name and arguments.
pub(crate) fn calls(calls: &[(&str, Value)]) -> Reply {
    let call = |(index, (name, arguments)): (usize, &(&str, Value))| {
        Content::ToolCall(ToolCall {
            id: format!("call_{index}"),
            name: (*name).to_owned(),
            arguments: arguments.to_string(),
        })
    };
    Reply {
        content: calls.iter().enumerate().map(call).collect(),
        thinking: String::new(),
        stop_reason: StopReason::ToolUse,
        usage: Usage::default(),
    }
}

/// Returns a call with an id that no other turn has.
pub(crate) fn call(id: &str, name: &str, arguments: &Value) -> Content {
    Content::ToolCall(ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_string(),
    })
}

/// A reply of these pieces.
pub(crate) fn reply(content: Vec<Content>) -> Reply {
    Reply {
        content,
        thinking: String::new(),
        stop_reason: StopReason::ToolUse,
        usage: Usage::default(),
    }
}

pub(crate) fn shell(command: &str) -> (&'static str, Value) {
    ("shell", json!({ "command": command }))
}

pub(crate) fn succeeded(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Succeeded(output) => output,
        Outcome::Failed(why) => panic!("failed: {why}"),
        Outcome::Uncertain(call) => panic!("uncertain: {call:?}"),
    }
}

pub(crate) fn failed(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Succeeded(output) => panic!("succeeded: {output}"),
        Outcome::Failed(why) => why,
        Outcome::Uncertain(call) => panic!("uncertain: {call:?}"),
    }
}
