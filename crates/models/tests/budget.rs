//! Long runs on small budgets with the prices of real models. Every run produces an answer or uses up its budget, and never
//! exceeds it.
//!
//! The simulated model works until the agent asks for its answer. It counts tokens like its tokenizer and thinks before each
//! call. Its provider either caches the prefix of the previous request or does not.
//! before each call, and its provider caches the prefix of the request before, or does not.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, and its table is short"
)]

use std::{fmt::Write as _, path::PathBuf, sync::Arc};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{json, value::RawValue};
use sortie_agent::{
    BudgetSpec, Egress, Environment, Model, Outcome, Owner, RunSpec, Shell, Sink, Stopped, Tool, ToolContent,
    Workspace,
    journal::Entry,
    model::{
        Content, Deltas, ModelError, Reply, Request, StopReason, ToolCall, ToolDefinition, ToolUse, Turn,
        Usage,
    },
    tool::{Context, Effect, Order, ToolError, arguments_of},
};
use sortie_api::{Credential, EventType, Micros, OrgId, RunId, Timestamp, model::ModelInfo};
use sortie_models::{Api, ProviderSettings, Settings, catalog};
use sortie_sandbox::{
    Backend, Capabilities, Enforcement, Error, Level, Limits, Sandbox, Spec, Tenancy, Workdir,
};
use tokio::time::{Duration, Instant};

/// Type of text in a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Text {
    /// English: four bytes per token.
    Prose,
    /// Digits: two tokens per three bytes.
    Digits,
}

impl Text {
    fn of_bytes(self, bytes: usize) -> String {
        let unit = match self {
            Self::Prose => "the quick brown fox jumps over the lazy dog, ",
            Self::Digits => "4815162342",
        };
        let mut text = unit.repeat(bytes.div_ceil(unit.len()));
        text.truncate(bytes);
        text
    }

    fn tokens(self, text: &str) -> u64 {
        let bytes = text.len() as u64;
        match self {
            Self::Prose => bytes.div_ceil(4),
            Self::Digits => (bytes * 2).div_ceil(3),
        }
    }
}

/// A model that reads page after page until the agent asks for its answer.
struct Reader {
    info: ModelInfo,
    text: Text,
    caches: bool,
    /// Number of calls per message.
    at_once: u32,
    /// Parts of the previous prompt, with their token counts.
    seen: Mutex<Vec<(String, u64)>>,
    calls: Mutex<u32>,
}

impl Reader {
    fn parts(&self, request: &Request<'_>) -> Vec<(String, u64)> {
        let tools: String = request
            .tools
            .iter()
            .map(|tool| [tool.name, tool.description, tool.parameters].concat())
            .collect();
        let mut parts = vec![
            [request.system, &tools].concat(),
            request.task.first_message().into_owned(),
        ];
        for turn in request.transcript {
            parts.push(match turn {
                Turn::Assistant(pieces) => pieces.iter().map(piece).collect(),
                Turn::ToolResults(results) => {
                    results.iter().map(|result| result.text().into_owned()).collect()
                }
                Turn::User(text) => text.clone(),
            });
        }
        let thought = |part: &str| THINKING_TOKENS * part.matches("signature").count() as u64;
        parts
            .into_iter()
            .map(|part| {
                let tokens = self.text.tokens(&part) + thought(&part) + 12;
                (part, tokens)
            })
            .collect()
    }

    fn usage(&self, request: &Request<'_>, output_tokens: u64) -> Usage {
        let parts = self.parts(request);
        let mut seen = self.seen.lock();
        let same = parts
            .iter()
            .zip(seen.iter())
            .take_while(|(now, before)| now == before)
            .count();
        let tokens = |parts: &[(String, u64)]| parts.iter().map(|(_, tokens)| tokens).sum::<u64>();
        let (old, new) = parts.split_at(same);
        let usage = if self.caches {
            Usage {
                output_tokens,
                cache_read_tokens: tokens(old),
                cache_write_tokens: tokens(new),
                ..Usage::default()
            }
        } else {
            Usage {
                input_tokens: tokens(&parts),
                output_tokens,
                ..Usage::default()
            }
        };
        *seen = parts;
        usage
    }
}

fn piece(piece: &Content) -> String {
    match piece {
        Content::Text(text) => text.clone(),
        Content::ToolCall(call) => [call.name.as_str(), &call.arguments].concat(),
        Content::Opaque(raw) => raw.get().to_owned(),
    }
}

const THINKING_TOKENS: u64 = 700;

impl Model for Reader {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn call<'a>(
        &'a self,
        request: Request<'a>,
        _deltas: &'a dyn Deltas,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        let mut calls = self.calls.lock();
        *calls += 1;
        let notes = matches!(request.transcript.last(), Some(Turn::User(text)) if text.starts_with("The conversation has become"));
        let (content, output_tokens) = if notes || request.tool_use == ToolUse::Never {
            let words = if notes { "Notes: read on." } else { "The answer." };
            (vec![Content::Text(words.to_owned())], 400)
        } else {
            let thought = json!({"signature": "EqoBCkgIARABGAIiQ".repeat(20)}).to_string();
            let mut pieces = vec![
                Content::Opaque(RawValue::from_string(thought).unwrap()),
                Content::Text(format!("I read for the {calls}th time.")),
            ];
            pieces.extend((0..self.at_once).map(|number| {
                Content::ToolCall(ToolCall {
                    id: format!("call_{calls}_{number}"),
                    name: "fetch".to_owned(),
                    arguments: json!({"page": *calls * 10 + number}).to_string(),
                })
            }));
            (pieces, THINKING_TOKENS + 60 * u64::from(self.at_once))
        };
        let reply = Reply {
            stop_reason: if output_tokens > request.max_tokens {
                StopReason::MaxTokens
            } else if content.len() > 1 {
                StopReason::ToolUse
            } else {
                StopReason::EndTurn
            },
            content,
            thinking: String::new(),
            usage: self.usage(&request, output_tokens.min(request.max_tokens)),
        };
        Box::pin(async { Ok(reply) })
    }
}

/// A tool that returns pages.
struct Fetch {
    text: Text,
    bytes: usize,
}

#[derive(serde::Deserialize)]
struct Page {
    page: u32,
}

impl Tool for Fetch {
    fn definition(&self) -> ToolDefinition<'_> {
        ToolDefinition {
            name: "fetch",
            description: "Fetches a page.",
            parameters: r#"{"type":"object","properties":{"page":{"type":"integer"}}}"#,
        }
    }

    fn order(&self) -> Order {
        Order::SideBySide
    }

    fn effect(&self, _arguments: &RawValue) -> Effect {
        Effect::Nothing
    }

    fn call<'a>(
        &'a self,
        raw: Box<RawValue>,
        context: Context<'a>,
    ) -> BoxFuture<'a, Result<ToolContent, ToolError>> {
        Box::pin(async move {
            let Page { page } = arguments_of(&self.definition(), &raw)?;
            let text = format!("{page}: {}", self.text.of_bytes(self.bytes));
            Ok(ToolContent::Text(context.bounded(&text)))
        })
    }
}

/// Records the cost of the run and its compactions.
#[derive(Default)]
struct Recorded {
    cost: Mutex<Micros>,
    kinds: Mutex<Vec<&'static str>>,
}

impl Sink for Recorded {
    fn record(&self, event: EventType) -> BoxFuture<'_, Result<(), Stopped>> {
        self.kinds.lock().push(event.kind());
        Box::pin(async { Ok(()) })
    }

    fn journal(&self, _entry: Entry) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(async { Ok(()) })
    }

    fn durable(&self) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(async { Ok(()) })
    }

    fn spent(&self, cost: Micros, _at: Instant) {
        *self.cost.lock() = cost;
    }
}

struct NoSandbox(Capabilities);

impl Backend for NoSandbox {
    fn capabilities(&self) -> &Capabilities {
        &self.0
    }

    fn open<'a>(
        &'a self,
        _workdir: &'a Workdir,
        _spec: Spec,
    ) -> BoxFuture<'a, Result<Box<dyn Sandbox>, Error>> {
        Box::pin(async { Err(Error::Setup("there are no commands here".to_owned())) })
    }
}

fn workspace() -> Workspace {
    let capabilities = Capabilities {
        level: Level::None,
        memory: Enforcement::Soft,
        disk: Enforcement::Soft,
        tenancy: Tenancy::Single,
        egress: false,
        missing: Vec::new(),
    };
    let root = PathBuf::from("/nonexistent");
    Workspace::new(
        root,
        "run".to_owned(),
        Arc::new(NoSandbox(capabilities)),
        Limits::default(),
    )
}

/// A simulated run.
#[derive(Clone, Copy, Debug)]
struct Case {
    model: &'static str,
    cents: u64,
    text: Text,
    caches: bool,
    page_bytes: usize,
    /// Number of calls per message.
    at_once: u32,
    /// Size of the task in bytes.
    task_bytes: usize,
}

struct Ended {
    outcome: Outcome,
    spent_percent: i64,
    calls: u32,
    notes: usize,
}

fn micros(amount: u64) -> Micros {
    Micros::new(amount).unwrap()
}

async fn simulate(case: Case, infos: &[ModelInfo]) -> Ended {
    let info = infos.iter().find(|info| info.id == case.model).unwrap().clone();
    let model = Reader {
        info,
        text: case.text,
        caches: case.caches,
        at_once: case.at_once,
        seen: Mutex::default(),
        calls: Mutex::default(),
    };
    let max = case.cents * 10_000;
    let fetch = Fetch {
        text: case.text,
        bytes: case.page_bytes,
    };
    let spec = RunSpec {
        instructions: String::new(),
        owner: Owner {
            run: RunId::new(Timestamp::from_micros(0), [1; 10]),
            org: OrgId::new(Timestamp::from_micros(0), [1; 10]),
        },
        prompt: format!(
            "Read all pages and sum them up. {}",
            case.text.of_bytes(case.task_bytes)
        ),
        input: None,
        output_schema: None,
        shell: Shell::Allowed,
        egress: Egress::Closed,
        budget: BudgetSpec {
            max_cost: micros(max),
            compute_micros_per_second: micros(30),
            started: Instant::now(),
            spent: Micros::ZERO,
        },
        deadline: None,
        max_steps: 200,
        effort: None,
        fallback: None,
        files: Vec::new(),
        environment: Environment::default(),
        media: Vec::new(),
        command_timeout: Duration::from_mins(10),
        tools: vec![Arc::new(fetch)],
        redactor: Arc::default(),
        resume: None,
    };
    let recorded = Recorded::default();
    let outcome = sortie_agent::run(spec, &model, &mut workspace(), &recorded).await;
    let cost = recorded.cost.lock().get();
    let kinds = recorded.kinds.lock();
    assert!(cost <= i64::try_from(max).unwrap(), "{case:?} cost {cost}");
    Ended {
        outcome,
        spent_percent: cost * 100 / i64::try_from(max).unwrap(),
        calls: *model.calls.lock(),
        notes: kinds.iter().filter(|kind| **kind == "context_compacted").count(),
    }
}

fn catalog_infos() -> Vec<ModelInfo> {
    let provider = |name: &str, api: &str| ProviderSettings {
        name: name.to_owned(),
        api: Api::named(api).unwrap(),
        base_url: None,
        key: Some(Credential::new("none")),
        outbound: sortie_net::Outbound::default(),
    };
    let settings = Settings {
        providers: vec![
            provider("anthropic", "anthropic"),
            provider("openai", "openai-responses"),
            provider("gemini", "gemini"),
        ],
        ..Settings::default()
    };
    let catalog = catalog(&settings).unwrap();
    catalog.models.iter().map(|model| model.info().clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn long_work_on_a_small_budget_ends_with_an_answer() {
    let infos = catalog_infos();
    let mut table = String::from(
        "| model | budget | text | cached | page | at once | calls | notes | spent | end |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    let mut bad = Vec::new();
    for case in cases() {
        let ended = simulate(case, &infos).await;
        let end = match &ended.outcome {
            Outcome::Succeeded(_) => "answer",
            Outcome::Failed(why) => why,
            Outcome::Uncertain(call) => unreachable!("no attempt was lost: {call:?}"),
        };
        let Case {
            model,
            cents,
            text,
            caches,
            page_bytes,
            at_once,
            task_bytes: _,
        } = case;
        writeln!(
            table,
            "| {model} | ${}.{:02} | {text:?} | {} | {page_bytes} | {at_once} | {} | {} | {} % | {end} |",
            cents / 100,
            cents % 100,
            if caches { "yes" } else { "no" },
            ended.calls,
            ended.notes,
            ended.spent_percent,
        )
        .unwrap();
        // An answer without any work does not count.
        let has_answered = matches!(ended.outcome, Outcome::Succeeded(_)) && ended.calls > 2;
        if !has_answered && ended.spent_percent < 80 {
            bad.push((case, ended.calls, ended.spent_percent));
        }
    }
    println!("{table}");
    assert!(
        bad.is_empty(),
        "no answer, or no work, and money left: {bad:#?}\n{table}"
    );
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (model, cents) in [
        ("claude-opus-5-5", [50, 100, 200, 500]),
        ("claude-sonnet-5-5", [25, 50, 100, 200]),
        ("claude-fable-5-1", [100, 200, 300, 500]),
        ("gpt-6.1-sol", [25, 50, 100, 200]),
        ("gemini-3.8-flash", [25, 50, 100, 200]),
    ] {
        for cents in cents {
            for text in [Text::Prose, Text::Digits] {
                for (caches, page_bytes, at_once) in [
                    (true, 6_000, 1),
                    (true, 30_000, 1),
                    (true, 30_000, 8),
                    (false, 6_000, 1),
                    (false, 30_000, 1),
                    (false, 30_000, 8),
                ] {
                    cases.push(Case {
                        model,
                        cents,
                        text,
                        caches,
                        page_bytes,
                        at_once,
                        task_bytes: 0,
                    });
                }
            }
        }
    }
    // A task of 100 KB on the default budget.
    for caches in [true, false] {
        cases.push(Case {
            model: "claude-opus-5-5",
            cents: 100,
            text: Text::Prose,
            caches,
            page_bytes: 6_000,
            at_once: 1,
            task_bytes: 100_000,
        });
    }
    cases
}
