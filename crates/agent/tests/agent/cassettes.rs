//! Recorded runs, replayed: the loop must ask for the same turns, spend the same money and end in the same way.
//!
//! A cassette is written by `sortie runs export`. Its model and its tools replay the recorded answers, with the recorded
//! durations. An output that the record has cut is padded to its length.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::value::RawValue;
use sortie_agent::{
    model::ToolDefinition,
    schema::Schema,
    tool::{Context, ToolError},
};

use crate::{prelude::*, support::run_ruled};

/// The id of a model of which the record has no figures.
const UNKNOWN: &str = "unknown";
/// The version of the format that is read here.
const VERSION: u32 = 1;
/// The most of an output that a model is shown, in bytes.
const OUTPUT_BYTES: usize = 32 * 1024;

#[derive(Deserialize)]
struct Header {
    cassette: u32,
    model: Option<ModelInfo>,
    fallback_model: Option<ModelInfo>,
    prompt: String,
    #[serde(default)]
    instructions: String,
    input: Option<Value>,
    output_schema: Option<Value>,
    tools: Vec<String>,
    max_cost_micros: u64,
    timeout_seconds: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Say(Say),
    Result(Outputs),
    Event(Value),
    End(End),
}

#[derive(Clone, Debug, Deserialize)]
struct Say {
    model: Option<String>,
    #[serde(default)]
    text: String,
    #[serde(default)]
    calls: Vec<Call>,
    stop_reason: String,
    #[serde(default)]
    notes: bool,
    failed: Option<String>,
    usage: Counted,
    cost_micros: u64,
    duration_ms: u64,
}

#[derive(Clone, Debug, Deserialize)]
struct Call {
    id: String,
    name: String,
    arguments: Value,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct Counted {
    #[serde(rename = "input_tokens")]
    input: u64,
    #[serde(rename = "output_tokens")]
    output: u64,
    #[serde(rename = "cache_read_tokens")]
    cache_read: u64,
    #[serde(rename = "cache_write_tokens")]
    cache_write: u64,
}

#[derive(Deserialize)]
struct Outputs {
    id: String,
    tool: String,
    is_error: bool,
    output: String,
    output_bytes: usize,
    duration_ms: u64,
}

#[derive(Deserialize)]
struct End {
    status: String,
    error: Option<String>,
    output: Option<String>,
}

struct Cassette {
    header: Header,
    says: Vec<Say>,
    results: Vec<Outputs>,
    events: Vec<String>,
    end: End,
}

fn read(text: &str) -> Cassette {
    let mut lines = text.lines();
    let header: Header = serde_json::from_str(lines.next().expect("a header")).unwrap();
    assert_eq!(header.cassette, VERSION, "a cassette of another version");
    let (mut says, mut results, mut events, mut end) = (Vec::<Say>::new(), Vec::new(), Vec::new(), None);
    for line in lines {
        match serde_json::from_str(line).unwrap() {
            Line::Say(say) => says.push(say),
            Line::Result(result) if says.last().is_some_and(|say| is_of_loop(say, &result)) => {}
            Line::Result(result) => results.push(result),
            Line::Event(event) => events.push(event["type"].as_str().unwrap_or_default().to_owned()),
            Line::End(last) => end = Some(last),
        }
    }
    Cassette {
        header,
        says,
        results,
        events,
        end: end.expect("an end"),
    }
}

/// Whether the loop itself has answered a call: it was not made, or could not be read.
fn is_of_loop(say: &Say, result: &Outputs) -> bool {
    let unread = |call: &Call| call.id == result.id && !call.arguments.is_object();
    result.output.starts_with("not made: ") || say.calls.iter().any(unread)
}

/// The name of a recorded tool in a replay, which differs if the agent has a tool of that name.
fn replayed(name: &str) -> String {
    format!("recorded_{name}")
}

/// A model of a cassette. The model and its fallback take their answers from the same record.
struct Player {
    info: ModelInfo,
    tools: Vec<String>,
    says: Arc<Mutex<VecDeque<Say>>>,
    status: String,
    error: String,
}

impl Player {
    fn of(cassette: &Cassette) -> Self {
        let unknown = ModelInfo {
            id: UNKNOWN.to_owned(),
            provider: "test".to_owned(),
            name: "Unknown".to_owned(),
            context_window: 200_000,
            max_output_tokens: 32_000,
            prices: ModelPrices::default(),
            capabilities: vec!["tools".to_owned()],
        };
        Self {
            info: cassette.header.model.clone().unwrap_or(unknown),
            tools: cassette.header.tools.clone(),
            says: Arc::new(Mutex::new(cassette.says.iter().cloned().collect())),
            status: cassette.end.status.clone(),
            error: cassette.end.error.clone().unwrap_or_default(),
        }
    }

    /// The model that answers after a refusal.
    fn fallback(&self, info: ModelInfo) -> Self {
        Self {
            info,
            tools: self.tools.clone(),
            says: Arc::clone(&self.says),
            status: self.status.clone(),
            error: self.error.clone(),
        }
    }

    fn next(&self) -> Option<Say> {
        self.says.lock().pop_front()
    }

    fn left(&self) -> usize {
        self.says.lock().len()
    }

    fn reply(&self, say: Say) -> Result<Reply, ModelError> {
        let usage = Usage {
            input_tokens: say.usage.input,
            output_tokens: say.usage.output,
            cache_read_tokens: say.usage.cache_read,
            cache_write_tokens: say.usage.cache_write,
        };
        if let Some(failed) = say.failed {
            return Err(ModelError {
                usage,
                ..ModelError::retryable(failed, None)
            });
        }
        if say.stop_reason == "error" {
            return Err(ModelError {
                usage,
                ..ModelError::fatal(self.error.clone())
            });
        }
        let text = if say.notes {
            "The notes are not in the record.".to_owned()
        } else {
            say.text
        };
        let mut content = vec![Content::Text(text)];
        content.extend(say.calls.into_iter().map(|call| {
            let known = self.tools.contains(&call.name);
            Content::ToolCall(ToolCall {
                id: call.id,
                name: if known { replayed(&call.name) } else { call.name },
                // Arguments that could not be read are not in the record.
                arguments: call
                    .arguments
                    .as_object()
                    .map_or_else(|| "{".to_owned(), |_| call.arguments.to_string()),
            })
        }));
        Ok(Reply {
            content,
            thinking: String::new(),
            stop_reason: match say.stop_reason.as_str() {
                "end_turn" => StopReason::EndTurn,
                "tool_use" => StopReason::ToolUse,
                "max_tokens" => StopReason::MaxTokens,
                "refusal" => StopReason::Refusal,
                other => panic!("{other:?} is no reason to stop"),
            },
            usage,
        })
    }
}

impl Model for Player {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn call<'a>(
        &'a self,
        _request: Request<'a>,
        _deltas: &'a dyn Deltas,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(async move {
            let Some(say) = self.next() else {
                return match self.status.as_str() {
                    "failed" => Err(ModelError::fatal(self.error.clone())),
                    "succeeded" => panic!("the loop asks for more turns than were recorded"),
                    _ => std::future::pending().await,
                };
            };
            if let (Some(recorded), true) = (&say.model, self.info.id != UNKNOWN) {
                assert_eq!(
                    *recorded, self.info.id,
                    "another model is asked than was recorded"
                );
            }
            tokio::time::sleep(Duration::from_millis(say.duration_ms)).await;
            self.reply(say)
        })
    }
}

/// A tool of a cassette: it replays its recorded answers, in order.
struct Recorded {
    name: String,
    outputs: Mutex<VecDeque<Outputs>>,
}

impl Recorded {
    fn of(cassette: &mut Cassette) -> Vec<Arc<dyn Tool>> {
        let mut tools: Vec<Self> = cassette
            .header
            .tools
            .iter()
            .map(|name| Self {
                name: replayed(name),
                outputs: Mutex::default(),
            })
            .collect();
        for result in std::mem::take(&mut cassette.results) {
            let tool = tools.iter_mut().find(|tool| tool.name == replayed(&result.tool));
            if let Some(tool) = tool {
                tool.outputs.get_mut().push_back(result);
            }
        }
        tools
            .into_iter()
            .map(|tool| Arc::new(tool) as Arc<dyn Tool>)
            .collect()
    }
}

impl Tool for Recorded {
    fn definition(&self) -> ToolDefinition<'_> {
        ToolDefinition {
            name: &self.name,
            description: "",
            parameters: r#"{"type":"object"}"#,
        }
    }

    fn order(&self) -> Order {
        Order::OneByOne
    }

    fn effect(&self, _arguments: &RawValue) -> Effect {
        Effect::Nothing
    }

    fn call<'a>(
        &'a self,
        _raw: Box<RawValue>,
        _context: Context<'a>,
    ) -> BoxFuture<'a, Result<ToolContent, ToolError>> {
        Box::pin(async move {
            let next = self.outputs.lock().pop_front();
            let recorded =
                next.unwrap_or_else(|| panic!("{} is called more often than was recorded", self.name));
            tokio::time::sleep(Duration::from_millis(recorded.duration_ms)).await;
            let mut output = recorded.output;
            let missing = recorded
                .output_bytes
                .min(OUTPUT_BYTES)
                .saturating_sub(output.len());
            output.push_str(&"x".repeat(missing));
            if recorded.is_error {
                return Err(ToolError::ToModel(output));
            }
            Ok(ToolContent::Text(output))
        })
    }
}

/// Differences between a replay and its record.
async fn differences(text: &str) -> Vec<String> {
    let mut cassette = read(text);
    let tools = Recorded::of(&mut cassette);
    let model = Arc::new(Player::of(&cassette));
    let header = &cassette.header;
    let schema = header
        .output_schema
        .as_ref()
        .map(|schema| Schema::compile(&schema.to_string()).unwrap());
    let limit = Duration::from_secs(header.timeout_seconds);
    let fallback = header.fallback_model.clone();
    let mut run = RunSpec {
        instructions: header.instructions.clone(),
        input: header.input.as_ref().map(raw),
        output_schema: schema.map(Arc::new),
        deadline: Some(Instant::now() + limit),
        fallback: fallback.map(|info| Arc::new(model.fallback(info)) as Arc<dyn Model>),
        tools,
        ..spec(&header.prompt)
    };
    run.budget.max_cost = micros(header.max_cost_micros);
    let (mut workspace, _root) = workspace(&untouched());
    let recorder = Recorder::default();
    let ruled = Ruled::counting(&*model as &dyn Model, None);
    let ended = tokio::time::timeout(limit, run_ruled(run, &ruled, &mut workspace, &recorder))
        .await
        .ok();
    workspace.close().await.unwrap();

    let mut differences = Vec::new();
    let mut differ = |what: &str, replayed: String, recorded: String| {
        if replayed != recorded {
            differences.push(format!("{what}: {replayed} instead of {recorded}"));
        }
    };
    differ("answers left", model.left().to_string(), "0".to_owned());
    let charged = |says: &[Say]| -> Vec<u64> {
        let charged = says
            .iter()
            .filter(|say| say.failed.is_none() || say.cost_micros > 0);
        charged.map(|say| say.cost_micros).collect()
    };
    let costs: Vec<u64> = recorder
        .data("model_call")
        .iter()
        .filter_map(|call| call["cost_micros"].as_u64())
        .collect();
    differ(
        "costs",
        format!("{costs:?}"),
        format!("{:?}", charged(&cassette.says)),
    );
    let told = ["output_rejected", "answer_requested", "context_compacted"];
    let of_interest = |kinds: Vec<&str>| -> String {
        kinds
            .into_iter()
            .filter(|kind| told.contains(kind))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let told_then = cassette.events.iter().map(String::as_str).collect();
    differ("events", of_interest(recorder.kinds()), of_interest(told_then));
    let end = cassette.end;
    let (status, text) = match &ended {
        Some(Outcome::Succeeded(output)) => ("succeeded", output.clone()),
        Some(Outcome::Failed(why)) => ("failed", why.clone()),
        Some(Outcome::Uncertain(call)) => panic!("no cassette resumes a run: {call:?}"),
        None => (end.status.as_str(), String::new()),
    };
    differ("status", status.to_owned(), end.status.clone());
    if ended.is_some() {
        differ("words", text, end.output.or(end.error).unwrap_or_default());
    }
    differences
}

#[tokio::test(start_paused = true)]
async fn every_cassette_is_replayed_as_it_was_recorded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cassettes");
    let mut replayed = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            let text = std::fs::read_to_string(&path).unwrap();
            let differences = differences(&text).await;
            assert!(differences.is_empty(), "{}: {differences:#?}", path.display());
            replayed += 1;
        }
    }
    assert!(replayed > 0, "there are no cassettes");
}

#[tokio::test(start_paused = true)]
async fn a_cassette_that_the_loop_does_not_follow_is_told() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cassettes");
    let text = std::fs::read_to_string(folder.join("fix-a-bug.jsonl")).unwrap();
    assert!(differences(&text).await.is_empty());
    let mut lines: Vec<&str> = text.lines().collect();
    let last = lines
        .iter()
        .rposition(|line| line.starts_with("{\"say\""))
        .unwrap();
    lines.insert(last, lines[last]);
    let twice = lines.join("\n");
    let told = differences(&twice).await;
    assert!(
        told.iter().any(|told| told.starts_with("answers left: 1")),
        "{told:?}"
    );
    let cheaper = text.replacen("\"cost_micros\":", "\"cost_micros\":1", 1);
    assert!(
        differences(&cheaper)
            .await
            .iter()
            .any(|told| told.starts_with("costs: "))
    );
}
