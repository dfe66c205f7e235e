//! Start of a run, or its resumption: its tools, its task, and its journal.

use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::Mutex;

use super::Agent;
use crate::{
    RunSpec, Shell, Sink, Workspace,
    answer::Answer,
    counts::Counts,
    journal::{Ended, Journal, NoteKind, What},
    journal_writer::JournalWriter,
    meter::Meter,
    model::{Model, Task, ToolDefinition},
    model_call::Caller,
    prompt,
    resume::Point,
    schema::Schema,
    stop::Stop,
    tool::{Context, Files, Tool},
    tool_call::ToolRunner,
    tools::{self, CommandTime},
    weak::thinking::Tags,
    window::Window,
    workspace::INPUT_FILE,
};

/// A larger `input` is stored as a file even if the agent has no shell.
const INPUT_FILE_FROM_BYTES: usize = 8 * 1024;

/// Parts of a run.
pub(super) struct Parts<'a> {
    pub(super) spec: &'a RunSpec,
    pub(super) model: &'a dyn Model,
    pub(super) sink: &'a dyn Sink,
    pub(super) meter: &'a Meter<'a>,
    pub(super) tags: Tags,
}

impl Parts<'_> {
    /// Runs it to its output, from where `journal` ends.
    pub(super) async fn run(
        &self,
        workspace: &mut Workspace,
        journal: Option<Journal>,
    ) -> Result<String, Stop> {
        let Self {
            spec,
            model,
            sink,
            meter,
            ref tags,
        } = *self;
        let input_file = input_file(spec, workspace);
        let toolbox = toolbox(spec)?;
        let definitions: Vec<ToolDefinition<'_>> = toolbox.iter().map(|tool| tool.definition()).collect();
        let workdir = workspace.shown_path();
        let workspace = Mutex::new(workspace);
        let journal_writer = JournalWriter::new(sink, meter);
        let context = Context {
            sink,
            output_bytes: model.tool_output_bytes(),
            media_tokens: u64::MAX,
            model: Some(model),
            files: Some(Files {
                workspace: &workspace,
                input_file,
                command_time: CommandTime::of(spec, model.kind()),
            }),
            redactor: Some(&spec.redactor),
        };
        let tools = ToolRunner {
            owner: spec.owner,
            toolbox: &toolbox,
            context,
            sink,
            meter,
            journal_writer: &journal_writer,
            redactor: &spec.redactor,
        };
        let Start { point, ended } = match journal {
            None => Start::default(),
            Some(journal) => resumed(journal, &tools)?,
        };
        let environment = match &point.began {
            Some((environment, _)) => environment.clone(),
            None => prompt::environment(spec, model.kind(), &workdir),
        };
        let task = Task {
            prompt: &spec.prompt,
            input: spec.input.as_deref(),
            input_file: input_file.map(|_| INPUT_FILE),
            output_schema: spec.output_schema.as_deref().map(Schema::text),
            environment: &environment,
            media: &spec.media,
        };
        let mut agent = Agent {
            spec,
            sink,
            caller: self.caller(task, &definitions),
            tools,
            journal_writer: &journal_writer,
            answer: Answer::new(spec.output_schema.clone(), point.rejected),
            conversation: point.conversation,
            tags: tags.clone(),
            step: point.step,
            broken: point.broken,
            answer_wanted: None,
            noted: point.noted,
            cut: point.cut,
            fallback: spec.fallback.as_deref(),
            began: None,
        };
        if point.fell_back
            && let Some(fallback) = agent.fallback.take()
        {
            agent.go_on_with(fallback);
        }
        agent.settle_prefix(point.began, point.counts).await?;
        // A turn that is not complete is completed first.
        if point.open.is_none() {
            agent.settle_losses(ended).await?;
        }
        meter.update_sink();
        agent.work(point.open).await
    }

    fn caller<'c>(&'c self, task: Task<'c>, tools: &'c [ToolDefinition<'c>]) -> Caller<'c> {
        let Self {
            spec,
            model,
            sink,
            meter,
            ..
        } = *self;
        Caller {
            owner: spec.owner,
            model,
            system: prompt::system(spec),
            task,
            tools,
            sink,
            meter,
            window: Window::of(model),
            effort: spec.effort,
            cache_key: spec.owner.run.to_string(),
            deadline: spec.deadline,
            has_fallback: spec.fallback.is_some(),
            slowest: Duration::ZERO,
        }
    }
}

impl Agent<'_> {
    /// Compares the fixed part of the requests with that of the attempt before. If it differs, for example after an update of the
    /// engine, the counts are adjusted, and thinking that is bound to it is dropped.
    async fn settle_prefix(
        &mut self,
        before: Option<(String, String)>,
        mut counts: Counts,
    ) -> Result<(), Stop> {
        let prefix = self.caller.prefix();
        let environment = self.caller.task.environment.to_owned();
        match before {
            Some((_, before)) if before == prefix => {
                self.recall(counts);
                return Ok(());
            }
            // The journal comes from a version that did not write it.
            None if self.conversation.turns().is_empty() => {}
            None | Some(_) => {
                if self.caller.model.binds_thinking() {
                    self.drop_thinking().await?;
                }
            }
        }
        // The turns are unchanged: the old count of the whole bounds their tokens.
        if counts.longest().is_some() {
            counts.fixed_replaced(self.caller.most_fixed());
        }
        self.recall(counts);
        self.began = Some(What::Began { environment, prefix });
        Ok(())
    }

    fn recall(&mut self, counts: Counts) {
        let turns = self.conversation.turns();
        let longest = counts.longest().map_or(0, |(longest, _)| longest);
        let bytes = self.caller.bytes(turns.get(..longest).unwrap_or(turns));
        self.caller.window.recall(counts, bytes as u64);
    }

    /// Charges the model call that was under way when the worker was lost, and informs the model that its jobs have ended.
    async fn settle_losses(&mut self, ended: Option<Ended>) -> Result<(), Stop> {
        let Some(ended) = ended else { return Ok(()) };
        if ended == Ended::Lost {
            let turns = self.conversation.turns();
            self.caller.charge_abandoned(self.step + 1, turns);
        }
        if self.is_ending() || !self.conversation.had_jobs() {
            return Ok(());
        }
        let text = "The run goes on after its worker was lost. Commands that ran in the background have ended; look at \
                    their logs before you start them again.";
        self.note(NoteKind::Resumed, text.to_owned()).await
    }
}

/// The state in which a run begins or resumes.
#[derive(Default)]
struct Start {
    point: Point,
    /// End of the attempt before it.
    ended: Option<Ended>,
}

/// Resumes at the end of the journal. A model call that was under way there has a cost that was not recorded yet.
fn resumed(journal: Journal, tools: &ToolRunner<'_>) -> Result<Start, Stop> {
    if let Some(call) = journal.uncertain_call() {
        return Err(Stop::Uncertain(call));
    }
    let (entries, ended) = journal.into_parts();
    let point = Point::after(entries, |call| tools.is_broken(call)).map_err(Stop::Failed)?;
    Ok(Start {
        point,
        ended: Some(ended),
    })
}

/// The tools of a run, each with a unique name.
fn toolbox(spec: &RunSpec) -> Result<Vec<&dyn Tool>, Stop> {
    let mut toolbox: Vec<&dyn Tool> = Vec::with_capacity(6 + spec.tools.len());
    toolbox.extend(tools::toolbox(spec.shell, spec.egress).iter().copied());
    for tool in &spec.tools {
        let name = tool.definition().name;
        if toolbox.iter().any(|other| other.definition().name == name) {
            return Err(Stop::Failed(format!("the run has two tools named `{name}`")));
        }
        toolbox.push(&**tool);
    }
    Ok(toolbox)
}

/// Returns the content of `input.json`, which is written once there is a working directory.
fn input_file<'a>(spec: &'a RunSpec, workspace: &Workspace) -> Option<&'a RawValue> {
    let input = spec.input.as_deref()?;
    let wanted = spec.shell == Shell::Allowed || input.get().len() > INPUT_FILE_FROM_BYTES;
    (wanted && workspace.takes_input_file()).then_some(input)
}
