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
    tool::{Context, Order, Tool, ToolError},
    turn::Stop,
};

/// Calls that run side by side at most.
const SIDE_BY_SIDE: usize = 8;

/// Runs tool calls.
pub(crate) struct ToolRunner<'a> {
    pub(crate) toolbox: &'a [&'a dyn Tool],
    pub(crate) context: Context<'a>,
    pub(crate) sink: &'a dyn Sink,
    pub(crate) meter: &'a Meter<'a>,
}

impl<'a> ToolRunner<'a> {
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

    fn find(&self, name: &str) -> Option<&'a dyn Tool> {
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

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, LazyLock, atomic::AtomicUsize, atomic::Ordering},
        time::Duration,
    };

    use futures_util::future::BoxFuture;
    use sortie_api::Micros;
    use sortie_sandbox::{Backend, Capabilities, Error, Limits, Sandbox, Spec, Workdir};
    use tokio::sync::{Barrier, Mutex};

    use super::*;
    use crate::{BudgetSpec, Stopped, Workspace, journal::Entry, model::ToolDefinition, tool::Effect};

    struct Nothing;

    impl Sink for Nothing {
        fn record(&self, _event: EventType) -> BoxFuture<'_, Result<(), Stopped>> {
            Box::pin(async { Ok(()) })
        }

        fn journal(&self, _entry: Entry) -> BoxFuture<'_, Result<(), Stopped>> {
            Box::pin(async { Ok(()) })
        }

        fn durable(&self) -> BoxFuture<'_, Result<(), Stopped>> {
            Box::pin(async { Ok(()) })
        }

        fn spent(&self, _cost: Micros) {}
    }

    impl Backend for Nothing {
        fn capabilities(&self) -> &Capabilities {
            unreachable!()
        }

        fn open<'a>(
            &'a self,
            _workdir: &'a Workdir,
            _spec: Spec,
        ) -> BoxFuture<'a, Result<Box<dyn Sandbox>, Error>> {
            unreachable!()
        }
    }

    /// Ends only when three of it run at once.
    struct Together(LazyLock<Barrier>);

    /// Fails when anything runs beside it.
    struct Alone(AtomicUsize);

    fn definition(name: &'static str) -> ToolDefinition<'static> {
        ToolDefinition {
            name,
            description: "",
            parameters: "{}",
        }
    }

    impl Tool for Together {
        fn definition(&self) -> ToolDefinition<'_> {
            definition("together")
        }

        fn order(&self) -> Order {
            Order::SideBySide
        }

        fn effect(&self, _arguments: &RawValue) -> Effect {
            Effect::Nothing
        }

        fn call<'a>(
            &'a self,
            arguments: Box<RawValue>,
            _context: Context<'a>,
        ) -> BoxFuture<'a, Result<ToolContent, ToolError>> {
            Box::pin(async move {
                self.0.wait().await;
                Ok(ToolContent::Text(arguments.get().to_owned()))
            })
        }
    }

    impl Tool for Alone {
        fn definition(&self) -> ToolDefinition<'_> {
            definition("alone")
        }

        fn order(&self) -> Order {
            Order::OneByOne
        }

        fn effect(&self, _arguments: &RawValue) -> Effect {
            Effect::Outside
        }

        fn call<'a>(
            &'a self,
            _arguments: Box<RawValue>,
            _context: Context<'a>,
        ) -> BoxFuture<'a, Result<ToolContent, ToolError>> {
            Box::pin(async {
                let beside = self.0.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                self.0.fetch_sub(1, Ordering::SeqCst);
                if beside == 0 {
                    Ok(ToolContent::Text("alone".to_owned()))
                } else {
                    Err(ToolError::Fatal("not".to_owned()))
                }
            })
        }
    }

    static TOGETHER: Together = Together(LazyLock::new(|| Barrier::new(3)));
    static ALONE: Alone = Alone(AtomicUsize::new(0));

    #[tokio::test]
    async fn calls_that_change_nothing_run_side_by_side_and_others_one_by_one() {
        let mut workspace = Workspace::new(
            "/none".into(),
            "run".to_owned(),
            Arc::new(Nothing),
            Limits::default(),
        );
        let workspace = Mutex::new(&mut workspace);
        let budget = BudgetSpec {
            max_cost: Micros::new(1).unwrap(),
            compute_micros_per_second: Micros::ZERO,
            spent: Micros::ZERO,
            started: Instant::now(),
        };
        let runner = ToolRunner {
            toolbox: &[&TOGETHER, &ALONE],
            context: Context {
                sink: &Nothing,
                output_bytes: 100,
                files: Some(crate::tool::Files {
                    workspace: &workspace,
                    input_file: None,
                    command_timeout: Duration::from_secs(1),
                }),
            },
            sink: &Nothing,
            meter: &Meter::new(&budget, &Nothing),
        };
        let call = |(index, name): (usize, &&str)| ToolCall {
            id: index.to_string(),
            name: (*name).to_owned(),
            arguments: format!("{{\"n\": {index}}}"),
        };
        let names = ["together", "together", "together", "alone", "alone", "none"];
        let calls: Vec<ToolCall> = names.iter().enumerate().map(call).collect();
        let results = runner.run(&calls).await.unwrap();
        let told: Vec<_> = results
            .iter()
            .map(|result| result.content.text().into_owned())
            .collect();
        assert_eq!(
            told,
            [
                "{\"n\":0}",
                "{\"n\":1}",
                "{\"n\":2}",
                "alone",
                "alone",
                "there is no tool `none`; there are: together, alone"
            ]
        );
    }
}
