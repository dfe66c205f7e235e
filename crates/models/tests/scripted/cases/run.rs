//! Runs a case: the agent loop and the client of the protocol against a provider that answers as scripted.

use std::{collections::VecDeque, ops::Deref, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, value::RawValue};
use sortie_agent::{
    BudgetSpec, Egress, Environment, Model, Outcome, Owner, RunSpec, Shell, Sink, Stopped, Tool, ToolContent,
    journal::Entry,
    model::ToolDefinition,
    schema::Schema,
    tool::{Context, Effect, Order, ToolError},
};
use sortie_api::{EventType, Micros, OrgId, RunId, Timestamp, model::ModelPrices};
use sortie_models::{Catalog, ModelSettings, ProviderSettings, Settings, catalog};
use sortie_testkit::{
    ScriptedAnthropic, ScriptedGemini, ScriptedModel, ScriptedServer,
    http::StatusCode,
    model::{Driver, Turn},
};
use tokio::time::{Instant, timeout};

use super::{
    clock,
    file::{ApiName, Call, Case, Planned, Status, ToolTable},
    sandbox,
};

/// Budget of a run: a hundred dollars.
const BUDGET_MICROS: u64 = 100_000_000;

/// The outcome of a case.
pub(super) struct Ended {
    pub(super) status: Status,
    /// The output, or the reason of the failure.
    pub(super) text: String,
    pub(super) calls: Vec<Call>,
    pub(super) charged_micros: u64,
    /// Total of the retry delays.
    pub(super) waited: Duration,
    pub(super) requests: Vec<Value>,
    /// Number of answers without a request.
    pub(super) answers_left: usize,
    /// Number of requests without an answer.
    pub(super) unanswered: usize,
    /// Rules of the provider that requests have violated.
    pub(super) broken: Vec<String>,
}

/// The answers of a provider.
struct Answers {
    planned: VecDeque<Planned>,
    first: Option<Instant>,
    /// Number of requests without an answer.
    unanswered: usize,
}

impl Answers {
    fn next(&mut self) -> Turn {
        let since = self.first.get_or_insert_with(Instant::now).elapsed();
        while self
            .planned
            .front()
            .and_then(|planned| planned.until)
            .is_some_and(|until| until <= since)
        {
            self.planned.pop_front();
        }
        match self.planned.front() {
            Some(planned) if planned.until.is_some() => planned.turn.clone(),
            Some(_) => self.planned.pop_front().unwrap().turn,
            None => {
                self.unanswered += 1;
                Turn::fails(StatusCode::BAD_REQUEST, None)
            }
        }
    }
}

/// The scripted server of a protocol.
type Server = Box<dyn Deref<Target = ScriptedServer> + Send + Sync>;

async fn start(case: &Case, answers: &Arc<Mutex<Answers>>) -> Server {
    let answers = Arc::clone(answers);
    let driver: Driver = Box::new(move |_| answers.lock().next());
    match case.model.api {
        ApiName::Anthropic => Box::new(ScriptedAnthropic::driven(driver).await.unwrap()),
        ApiName::OpenaiChat | ApiName::OpenaiResponses => {
            let server = ScriptedModel::driven(driver).await.unwrap();
            server.hold_to(case.model.provider.provider());
            Box::new(server)
        }
        ApiName::Gemini => Box::new(ScriptedGemini::driven(driver).await.unwrap()),
    }
}

/// The events of a run.
#[derive(Default)]
struct Events(Mutex<Vec<Value>>);

impl Events {
    fn push(&self, event: &EventType) {
        // An event that cannot be serialized has no fields that a case could check.
        let mut data = serde_json::to_value(event).unwrap_or_else(|_| Value::Object(serde_json::Map::new()));
        data["type"] = event.kind().into();
        self.0.lock().push(data);
    }

    /// Returns the events of a type.
    fn of(&self, kind: &str) -> Vec<Value> {
        let events = self.0.lock();
        events
            .iter()
            .filter(|event| event["type"] == kind)
            .cloned()
            .collect()
    }

    fn sum(&self, kind: &str, field: &str) -> u64 {
        self.of(kind)
            .iter()
            .filter_map(|event| event[field].as_u64())
            .sum()
    }

    /// Returns the total of the retry delays.
    fn waits(&self) -> Duration {
        Duration::from_millis(self.sum("retry", "delay_ms"))
    }

    fn calls(&self) -> Vec<Call> {
        let call = |event: &Value| Call {
            tool: event["tool"].as_str().unwrap_or_default().to_owned(),
            arguments: event["arguments"].clone(),
        };
        self.of("tool_start").iter().map(call).collect()
    }
}

impl Sink for Events {
    fn record(&self, event: EventType) -> BoxFuture<'_, Result<(), Stopped>> {
        self.push(&event);
        Box::pin(async { Ok(()) })
    }

    fn journal(&self, _entry: Entry) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(async { Ok(()) })
    }

    fn durable(&self) -> BoxFuture<'_, Result<(), Stopped>> {
        Box::pin(async { Ok(()) })
    }

    fn spent(&self, _cost: Micros, _at: Instant) {}

    fn charged(&self, call: EventType) {
        self.push(&call);
    }
}

/// A tool that always returns the same result.
struct Fixed {
    name: String,
    schema: String,
    answer: String,
}

impl From<&ToolTable> for Fixed {
    fn from(table: &ToolTable) -> Self {
        Self {
            name: table.name.clone(),
            schema: table.schema.clone(),
            answer: table.answer.clone(),
        }
    }
}

impl Tool for Fixed {
    fn definition(&self) -> ToolDefinition<'_> {
        ToolDefinition {
            name: &self.name,
            description: "A tool of the case.",
            parameters: &self.schema,
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
        _arguments: Box<RawValue>,
        _context: Context<'a>,
    ) -> BoxFuture<'a, Result<ToolContent, ToolError>> {
        Box::pin(async { Ok(ToolContent::Text(self.answer.clone())) })
    }
}

fn micros(amount: u64) -> Micros {
    Micros::new(amount).unwrap()
}

/// Creates the models `m` and `fallback` of the provider at this address.
fn models(case: &Case, base_url: &str) -> Catalog {
    let table = &case.model;
    let model = |id: &str, upstream: &str| ModelSettings {
        id: id.to_owned(),
        provider: Some("acme".to_owned()),
        upstream: Some(upstream.to_owned()),
        context_window: Some(200_000),
        max_output_tokens: Some(32_000),
        // A micro-dollar per input token.
        prices: Some(ModelPrices {
            input_micros_per_mtok: micros(1_000_000),
            output_micros_per_mtok: micros(5_000_000),
            cache_read_micros_per_mtok: micros(100_000),
            cache_write_micros_per_mtok: micros(1_250_000),
        }),
        capabilities: Some(table.capabilities.clone()),
        ..ModelSettings::default()
    };
    let settings = Settings {
        providers: vec![ProviderSettings {
            name: "acme".to_owned(),
            api: table.api.api(),
            base_url: Some(base_url.parse().unwrap()),
            key: None,
            outbound: sortie_net::Outbound::default(),
        }],
        models: vec![model("m", &table.upstream), model("fallback", "fallback")],
        ..Settings::default()
    };
    catalog(&settings).unwrap()
}

fn find(models: &Catalog, id: &str) -> Arc<dyn Model> {
    let mut models = models.models.iter();
    models.find(|model| model.info().id == id).unwrap().clone()
}

fn spec(case: &Case, fallback: Option<Arc<dyn Model>>, limit: Duration) -> RunSpec {
    let schema = case
        .run
        .schema
        .as_ref()
        .map(|text| Schema::compile(text).unwrap());
    RunSpec {
        owner: Owner {
            run: RunId::new(Timestamp::from_micros(0), [1; 10]),
            org: OrgId::new(Timestamp::from_micros(0), [1; 10]),
        },
        prompt: case.run.prompt.clone(),
        instructions: case.run.instructions.clone(),
        input: None,
        output_schema: schema.map(Arc::new),
        shell: Shell::Allowed,
        egress: Egress::Closed,
        budget: BudgetSpec {
            max_cost: micros(BUDGET_MICROS),
            compute_micros_per_second: Micros::ZERO,
            started: Instant::now(),
            spent: Micros::ZERO,
        },
        deadline: Some(Instant::now() + limit),
        max_steps: 20,
        effort: None,
        fallback,
        files: Vec::new(),
        environment: Environment::default(),
        media: Vec::new(),
        command_timeout: Duration::from_mins(1),
        tools: case
            .tools
            .iter()
            .map(|tool| Arc::new(Fixed::from(tool)) as Arc<dyn Tool>)
            .collect(),
        redactor: Arc::default(),
        resume: None,
    }
}

/// Runs a case to its end.
pub(super) async fn run(case: &Case) -> Ended {
    let answers = Arc::new(Mutex::new(Answers {
        planned: case.planned().unwrap(),
        first: None,
        unanswered: 0,
    }));
    let server = start(case, &answers).await;
    let models = models(case, &server.base_url());
    let model = find(&models, "m");
    let limit = Duration::from_secs(case.run.timeout_seconds);
    let spec = spec(case, case.run.fallback.then(|| find(&models, "fallback")), limit);
    let events = Events::default();
    let (mut workspace, _root) = sandbox::workspace();
    let run = timeout(limit, sortie_agent::run(spec, &*model, &mut workspace, &events));
    let progress = || events.0.lock().len() + server.requests().len();
    let outcome = tokio::select! {
        outcome = run => outcome,
        () = clock::moves_on(|| events.waits(), progress) => unreachable!("the clock never stops"),
    };
    workspace.close().await.unwrap();
    let (status, text) = match outcome {
        Ok(Outcome::Succeeded(output)) => (Status::Succeeded, output),
        Ok(Outcome::Failed(reason)) => (Status::Failed, reason),
        Ok(Outcome::Uncertain(call)) => unreachable!("no attempt was lost: {call:?}"),
        Err(_) => (Status::TimedOut, String::new()),
    };
    let answers = answers.lock();
    Ended {
        status,
        text,
        answers_left: answers
            .planned
            .iter()
            .filter(|planned| planned.until.is_none())
            .count(),
        unanswered: answers.unanswered,
        calls: events.calls(),
        charged_micros: events.sum("model_call", "cost_micros"),
        waited: events.waits(),
        requests: server.requests(),
        broken: server.broken_rules(),
    }
}
