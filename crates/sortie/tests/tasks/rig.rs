//! A node with a model for each task, and the cost of each run.

use std::{collections::HashMap, io::Write as _};

use sortie_api::{Event, Run};
use sortie_testkit::{ScriptedAnthropic, model::Turn, prelude::*, serve::Serving};
use tempfile::NamedTempFile;
use tokio::task::JoinSet;

use crate::seen::Seen;

/// The model of a task: maps each request to a turn.
pub(crate) type Model = Box<dyn FnMut(&Seen<'_>) -> Turn + Send>;

/// The most that a task may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) turns: usize,
    pub(crate) kilobytes: u64,
    /// Thousandths of a dollar.
    pub(crate) spent: i64,
    /// The highest hold, in thousandths of a dollar.
    pub(crate) held: i64,
}

/// The limits of a task: turns, kilobytes, thousandths of a dollar, and thousandths of a dollar at the highest hold.
pub(crate) const fn limits(turns: usize, kilobytes: u64, spent: i64, held: i64) -> Limits {
    Limits {
        turns,
        kilobytes,
        spent,
        held,
    }
}

/// A task.
pub(crate) struct Task {
    /// A name for the table, which is also that of the model.
    pub(crate) name: &'static str,
    /// The run without its model.
    pub(crate) request: Value,
    pub(crate) model: Model,
    pub(crate) limits: Limits,
    /// A part that the answer must have.
    pub(crate) answer: &'static str,
    /// Checks the requests and events. Returns the fault, or an empty text.
    pub(crate) check: fn(&[Value], &[Event]) -> String,
    /// A service that the run calls, for as long as the task is there.
    pub(crate) _service: Option<Serving>,
}

/// A task that has ended.
pub(crate) struct Ended {
    pub(crate) name: &'static str,
    pub(crate) turns: usize,
    pub(crate) bytes: u64,
    /// The share of the input that came from the cache, in percent.
    pub(crate) cached: u64,
    /// The highest hold, in micros.
    pub(crate) held: i64,
    /// Micros.
    pub(crate) spent: i64,
    pub(crate) run: Run,
    limits: Limits,
    answer: &'static str,
    check: String,
    broken: Vec<String>,
    dropped: u32,
}

impl Ended {
    /// Whether the run has the expected answer.
    pub(crate) fn is_answered(&self) -> bool {
        let output = self.run.output.as_deref().unwrap_or_default();
        self.run.status == RunStatus::Succeeded && output.contains(self.answer)
    }

    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if !self.is_answered() {
            faults.push(format!(
                "no answer: {:?} {:?} {:?}",
                self.run.status, self.run.error, self.run.output
            ));
        }
        let limits = self.limits;
        let mut above = |what: &str, value: i64, limit: i64| {
            if value > limit {
                faults.push(format!("{value} {what}, at most {limit}"));
            }
        };
        let whole = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        above("turns", whole(self.turns as u64), whole(limits.turns as u64));
        above("bytes sent", whole(self.bytes), whole(limits.kilobytes * 1_000));
        above("micros spent", self.spent, limits.spent * 1_000);
        above("micros held", self.held, limits.held * 1_000);
        if self.dropped > 0 {
            faults.push(format!(
                "{} thinking blocks were sent behind a change",
                self.dropped
            ));
        }
        faults.extend(self.broken.iter().cloned());
        if !self.check.is_empty() {
            faults.push(self.check.clone());
        }
        faults
            .into_iter()
            .map(|fault| format!("{}: {fault}", self.name))
            .collect()
    }
}

/// A node, its models, and the tasks.
pub(crate) struct Rig {
    node: Node,
    _config: NamedTempFile,
    tasks: Vec<(Task, ScriptedAnthropic)>,
}

impl Rig {
    pub(crate) async fn start(tasks: Vec<Task>) -> Result<Self> {
        let mut config = NamedTempFile::new()?;
        let mut ready = Vec::new();
        for mut task in tasks {
            let model = std::mem::replace(&mut task.model, Box::new(|_| Turn::says(["none"])));
            let server = ScriptedAnthropic::driven(driver(model)).await?;
            describe(&mut config, &task, &server.base_url())?;
            ready.push((task, server));
        }
        let file = config
            .path()
            .to_str()
            .context("a path that is no text")?
            .to_owned();
        let options = NodeOptions::default()
            .env("SORTIE_CONFIG", &file)
            .env("SORTIE_LOG_FILTER", "info,sortie_agent=debug")
            .env("SORTIE_LOG_FORMAT", "json");
        let node = Node::start_with(env!("CARGO_BIN_EXE_sortie"), Database::Sqlite, options).await?;
        Ok(Self {
            node,
            _config: config,
            tasks: ready,
        })
    }

    /// Runs all tasks at once.
    pub(crate) async fn run(self) -> Result<Vec<Ended>> {
        let client = self.node.client()?;
        let mut running = JoinSet::new();
        for (place, (task, _)) in self.tasks.iter().enumerate() {
            let mut request = task.request.clone();
            request["model"] = task.name.into();
            let client = client.clone();
            running.spawn(async move { (place, complete(&client, &request).await) });
        }
        let mut complete = HashMap::new();
        while let Some(done) = running.join_next().await {
            let (place, done) = done?;
            complete.insert(place, done?);
        }
        let log = self.node.log();
        let mut ended = Vec::new();
        for (place, (task, server)) in self.tasks.into_iter().enumerate() {
            let (events, run) = complete.remove(&place).context("a run is missing")?;
            ended.push(figures(&task, &server, &events, run, &log));
        }
        Ok(ended)
    }
}

async fn complete(client: &Client, request: &Value) -> Result<(Vec<Event>, Run)> {
    let run = client
        .create(request)
        .await
        .with_context(|| request.to_string())?;
    let mut stream = client.follow(&run.id.to_string(), None).await?;
    let (events, run) = stream.to_done().await?;
    Ok((events, run))
}

/// The names of the two models of a task, as the provider knows them.
const MODEL: &str = "claude-opus-5-5";
pub(crate) const FALLBACK: &str = "claude-sonnet-5-5";

/// Both models of a task, with the prices and the window of Claude Opus 5.5.
fn describe(config: &mut NamedTempFile, task: &Task, base_url: &str) -> Result<()> {
    let name = task.name;
    writeln!(
        config,
        "[providers.{name}]\napi = \"anthropic\"\nbase_url = \"{base_url}\"\napi_key = \"sk-task\""
    )?;
    for (id, upstream) in [(name.to_owned(), MODEL), (format!("{name}-fallback"), FALLBACK)] {
        writeln!(
            config,
            "[models.{id}]\nprovider = \"{name}\"\nupstream = \"{upstream}\"\ncontext_window = 1000000\n\
             max_output_tokens = 128000\ninput_micros_per_mtok = 4000000\noutput_micros_per_mtok = 20000000\n\
             cache_read_micros_per_mtok = 200000\ncache_write_micros_per_mtok = 5000000\n\
             capabilities = [\"tools\", \"structured_output\", \"thinking\", \"vision\"]"
        )?;
    }
    Ok(())
}

/// The model of a task as its server needs it. It thinks before each answer, and writes notes where the engine asks for
/// them. If it has to answer in the middle of its work, the answer is never the expected one.
fn driver(mut model: Model) -> sortie_testkit::model::Driver {
    Box::new(move |request| {
        let seen = Seen::of(request);
        if seen.must_write_notes() {
            return Turn::says(["Goal: the task. Done: the first steps. Next: the others."]);
        }
        let turn = model(&seen);
        if seen.must_answer() && turn.calls_tools() {
            return Turn::says(["I had to answer in the middle of the work."]);
        }
        turn.thinks("What does that say, and what is next?")
    })
}

fn figures(task: &Task, server: &ScriptedAnthropic, events: &[Event], run: Run, log: &str) -> Ended {
    let calls: Vec<Value> = events
        .iter()
        .filter(|event| event.kind == "model_call")
        .map(data)
        .collect();
    let sum = |field: &str| calls.iter().filter_map(|call| call[field].as_u64()).sum::<u64>();
    let read = sum("cache_read_tokens");
    let all = read + sum("input_tokens") + sum("cache_write_tokens");
    Ended {
        name: task.name,
        turns: calls.len(),
        bytes: server.bytes(),
        cached: read * 100 / all.max(1),
        held: held(log, &run.id.to_string()),
        spent: run.cost_micros.get(),
        limits: task.limits,
        answer: task.answer,
        check: (task.check)(&server.requests(), events),
        broken: server.broken_rules(),
        dropped: server.dropped_thinking(),
        run,
    }
}

/// The highest hold in the log for a run, in micros.
fn held(log: &str, run: &str) -> i64 {
    let lines = log
        .lines()
        .filter(|line| line.contains("held_micros") && line.contains(run));
    let amounts = lines.filter_map(|line| {
        let (_, behind) = line.split_once("\"held_micros\":")?;
        let digits: String = behind
            .chars()
            .skip_while(|c| !c.is_ascii_digit())
            .take_while(char::is_ascii_digit)
            .collect();
        digits.parse().ok()
    });
    amounts.max().unwrap_or(0)
}

/// A run with these files.
pub(crate) fn run(prompt: &str, files: &[(&str, &str)]) -> Value {
    let files: Vec<Value> = files
        .iter()
        .map(|(path, content)| json!({"path": path, "content": content}))
        .collect();
    json!({"prompt": prompt, "files": files, "max_cost_micros": 5_000_000})
}

pub(crate) fn nothing_else(_requests: &[Value], _events: &[Event]) -> String {
    String::new()
}

/// The fault of a run that was not asked for its answer because of this limit; empty if it was.
pub(crate) fn asked_because_of(reason: &str, events: &[Event]) -> String {
    let is_asked = |event: &Event| event.kind == "answer_requested" && data(event)["reason"] == reason;
    if events.iter().any(is_asked) {
        String::new()
    } else {
        format!("the answer was not requested because of {reason}")
    }
}
