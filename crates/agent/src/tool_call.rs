//! The tool calls of one turn: in order, those that change nothing side by side; each recorded before and after.

use futures_util::{FutureExt, StreamExt, TryStreamExt, future::BoxFuture, stream};
use serde_json::value::{RawValue, to_raw_value};
use sortie_api::{
    EventType,
    event::{TOOL_OUTPUT_BYTES, ToolEnd},
};
use tokio::time::Instant;

use crate::{
    Sink,
    compact::compact_object,
    content::ToolContent,
    meter::Meter,
    model::{ToolCall, ToolResult},
    model_call::millis,
    text,
    tools::{Context, Order, Tool, ToolError},
    turn::Stop,
};

/// Calls that run side by side at most.
const SIDE_BY_SIDE: usize = 8;

/// Runs tool calls.
pub(crate) struct ToolRunner<'a> {
    pub(crate) toolbox: &'static [&'static dyn Tool],
    pub(crate) context: Context<'a>,
    pub(crate) sink: &'a dyn Sink,
    pub(crate) meter: &'a Meter<'a>,
}

impl ToolRunner<'_> {
    /// Runs the calls of one turn; the results are in the order of the calls.
    pub(crate) async fn run(&self, calls: &[ToolCall]) -> Result<Vec<ToolResult>, Stop> {
        let mut results = Vec::with_capacity(calls.len());
        for group in calls.chunk_by(|a, b| self.is_free(a) && self.is_free(b)) {
            // Boxed as what they are: `Send` is not seen through a stream of borrowing closures.
            let group: Vec<BoxFuture<'_, _>> = group.iter().map(|call| self.call(call).boxed()).collect();
            let ended = stream::iter(group).buffered(SIDE_BY_SIDE).try_collect::<Vec<_>>();
            results.extend(self.meter.while_funded(ended).await??);
            self.meter.report().await?;
        }
        Ok(results)
    }

    /// Whether a call may run beside others like it. An unknown tool runs nothing.
    fn is_free(&self, call: &ToolCall) -> bool {
        self.find(&call.name)
            .is_none_or(|tool| tool.order() == Order::SideBySide)
    }

    fn find(&self, name: &str) -> Option<&'static dyn Tool> {
        self.toolbox
            .iter()
            .copied()
            .find(|tool| tool.definition().name == name)
    }

    async fn call(&self, call: &ToolCall) -> Result<ToolResult, Stop> {
        let arguments = compact_object(&call.arguments);
        let began = Instant::now();
        let shown = match &arguments {
            Ok(arguments) => arguments.clone(),
            Err(_) => malformed(&call.arguments)?,
        };
        let start = EventType::ToolStart {
            tool: call.name.clone(),
            id: call.id.clone(),
            arguments: shown,
        };
        self.sink.record(start).await?;
        let ran = match (self.find(&call.name), arguments) {
            (None, _) => Err(ToolError::ToModel(self.unknown(&call.name))),
            (Some(_), Err(why)) => Err(ToolError::ToModel(format!("bad arguments: {why}"))),
            (Some(tool), Ok(arguments)) => tool.call(arguments, self.context).await,
        };
        let (content, is_error, fatal) = match ran {
            Ok(content) => {
                let failed = matches!(&content, ToolContent::Command(command) if !command.succeeded());
                (content, failed, None)
            }
            Err(ToolError::ToModel(told)) => (ToolContent::Text(text::clean(told)), true, None),
            Err(ToolError::Fatal(why)) => (ToolContent::Text(text::clean(why.clone())), true, Some(why)),
        };
        self.sink
            .record(EventType::ToolEnd(tool_end(call, &content, is_error, began)))
            .await?;
        match fatal {
            Some(why) => Err(Stop::Failed(why)),
            None => Ok(ToolResult {
                id: call.id.clone(),
                name: call.name.clone(),
                content,
                is_error,
            }),
        }
    }

    fn unknown(&self, name: &str) -> String {
        let names: Vec<&str> = self.toolbox.iter().map(|tool| tool.definition().name).collect();
        format!("there is no tool `{name}`; there are: {}", names.join(", "))
    }
}

/// What the event shows of arguments that are not a JSON object.
fn malformed(arguments: &str) -> Result<Box<RawValue>, Stop> {
    let shown = serde_json::json!({ "malformed": text::bounded(arguments, TOOL_OUTPUT_BYTES) });
    to_raw_value(&shown).map_err(|error| Stop::Failed(error.to_string()))
}

fn tool_end(call: &ToolCall, content: &ToolContent, is_error: bool, began: Instant) -> ToolEnd {
    let output = content.text();
    ToolEnd {
        tool: call.name.clone(),
        id: call.id.clone(),
        is_error,
        output: text::bounded(&output, TOOL_OUTPUT_BYTES).into_owned(),
        output_bytes: output.len() as u64,
        duration_ms: millis(began.elapsed()),
    }
}
