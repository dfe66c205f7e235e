//! `jobs`: lists commands in the background of the sandbox, shows their output, and ends them.

use std::{fmt::Write as _, time::Duration};

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Context, Effect, Order, Tool, ToolError, arguments_of};
use crate::{
    content::{Extent, Kept, ToolContent, View, ended},
    model::ToolDefinition,
    text,
    workspace::{Job, JobEnd, Jobs as AllJobs, Rest},
};

/// Length of a command line in the list, in bytes.
const COMMAND_BYTES: usize = 120;

pub(super) struct Jobs;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    job: Option<u32>,
    wait_seconds: Option<u64>,
    kill: Option<bool>,
}

impl Tool for Jobs {
    fn definition(&self) -> ToolDefinition<'_> {
        ToolDefinition {
            name: "jobs",
            description: "Commands that run in the background. Without job: lists them. With job: its status, and its \
                          output since the last look. Its log file has all of its output.",
            parameters: concat!(
                r#"{"type":"object","properties":{"job":{"type":"integer","minimum":1},"#,
                r#""wait_seconds":{"type":"integer","minimum":0,"description":"Wait up to so long for it to end."},"#,
                r#""kill":{"type":"boolean","description":"End it, with all that it started."}},"#,
                r#""additionalProperties":false}"#
            ),
        }
    }

    fn order(&self) -> Order {
        Order::OneByOne
    }

    fn effect(&self, _arguments: &RawValue) -> Effect {
        Effect::Directory
    }

    fn call<'a>(
        &'a self,
        raw: Box<RawValue>,
        context: Context<'a>,
    ) -> BoxFuture<'a, Result<ToolContent, ToolError>> {
        Box::pin(async move {
            let Arguments {
                job,
                wait_seconds,
                kill,
            } = arguments_of(&self.definition(), &raw)?;
            let Some(number) = job else {
                if kill == Some(true) {
                    return Err(ToolError::ToModel("job: name the job to end".to_owned()));
                }
                return Ok(ToolContent::Text(list(context).await?));
            };
            let job = find(number, context).await?;
            if kill == Some(true) {
                job.kill().await;
            } else {
                let most = context.files()?.command_time.most();
                job.wait(Duration::from_secs(wait_seconds.unwrap_or(0)).min(most))
                    .await;
            }
            Ok(ToolContent::Text(look(number, &job, context)))
        })
    }
}

/// Lists the jobs, a line for each.
async fn list(context: Context<'_>) -> Result<String, ToolError> {
    let workspace = context.files()?.workspace.lock().await;
    let mut lines = String::new();
    for (number, job) in workspace.jobs().into_iter().flat_map(AllJobs::all) {
        // Writing to a String cannot fail.
        let _ = writeln!(
            lines,
            "job {number} {}; {} bytes of new output; {}",
            status(job),
            text::grouped(job.unseen_bytes()),
            command_line(job)
        );
    }
    if lines.is_empty() {
        lines.push_str("[there are no jobs]\n");
    }
    Ok(lines)
}

async fn find(number: u32, context: Context<'_>) -> Result<Job, ToolError> {
    let workspace = context.files()?.workspace.lock().await;
    let job = workspace.jobs().and_then(|jobs| jobs.get(number)).cloned();
    job.ok_or_else(|| {
        ToolError::ToModel(format!(
            "there is no job {number}. Jobs end when their sandbox is lost, and when the run goes on after its worker \
             was restarted; their logs stay."
        ))
    })
}

/// The status of a job, and its output since the last look.
fn look(number: u32, job: &Job, context: Context<'_>) -> String {
    let mut out = format!("[job {number} {}]\n", status(job));
    let new = job.look();
    let kept = job.log.clone().map(|path| {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "[its log is {path}]");
        Kept {
            path,
            extent: Extent::Log,
        }
    });
    if new.total_bytes == 0 {
        out.push_str("[no new output]\n");
    } else {
        out.push_str("[new output]\n");
        let view = View::of(new, context.output_bytes, context.redactor);
        out.push_str(&view.text(kept.as_ref()));
    }
    out
}

/// The beginning of the first line of a job's command line.
fn command_line(job: &Job) -> String {
    let line = job.command.lines().next().unwrap_or_default();
    let shown = text::head(line, COMMAND_BYTES);
    let more = if shown.len() < job.command.trim_end().len() {
        " …"
    } else {
        ""
    };
    format!("{shown}{more}")
}

/// The status of a job, as the end of a sentence: `still runs, since 12 s`.
fn status(job: &Job) -> String {
    let age = job.age().as_secs();
    match job.end() {
        None => format!("still runs, since {age} s"),
        Some((end, _)) => {
            let rest = match job.rest() {
                Rest::Nothing => "",
                Rest::Left => "; it left processes in the background",
                Rest::Killed => "; the processes that it left were killed",
            };
            format!("{} after {age} s{rest}", how(&end))
        }
    }
}

/// Describes the end of a job, as the end of a sentence.
pub(super) fn how(end: &JobEnd) -> String {
    match end {
        JobEnd::Ended(exit) => ended(*exit),
        JobEnd::Killed => "was killed".to_owned(),
        JobEnd::Lost => "ended with its sandbox, which was lost".to_owned(),
    }
}
