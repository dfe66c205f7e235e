use std::{
    sync::{Arc, LazyLock, atomic::AtomicUsize, atomic::Ordering},
    time::Duration,
};

use futures_util::future::BoxFuture;
use sortie_api::{OrgId, RunId, Timestamp};
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

    fn spent(&self, _cost: Micros, _at: tokio::time::Instant) {}
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

/// Ends only when three of them run at once.
struct Together(LazyLock<Barrier>);

/// Fails if another call runs concurrently.
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
    let (meter, redactor) = (Meter::new(&budget, &Nothing), Redactor::default());
    let journal_writer = JournalWriter::new(&Nothing, &meter);
    let runner = ToolRunner {
        owner: Owner {
            run: RunId::new(Timestamp::from_micros(0), [1; 10]),
            org: OrgId::new(Timestamp::from_micros(0), [1; 10]),
        },
        toolbox: &[&TOGETHER, &ALONE],
        context: Context {
            sink: &Nothing,
            output_bytes: 100,
            media_tokens: u64::MAX,
            model: None,
            redactor: None,
            files: Some(crate::tool::Files {
                workspace: &workspace,
                input_file: None,
                command_time: crate::tools::CommandTime {
                    kind: crate::model::Kind::Language,
                    longest: Duration::from_secs(1),
                    deadline: None,
                },
            }),
        },
        sink: &Nothing,
        meter: &meter,
        journal_writer: &journal_writer,
        redactor: &redactor,
    };
    let call = |(index, name): (usize, &&str)| ToolCall {
        id: index.to_string(),
        name: (*name).to_owned(),
        arguments: format!("{{\"n\": {index}}}"),
    };
    let names = ["together", "together", "together", "alone", "alone", "none"];
    let calls: Vec<ToolCall> = names.iter().enumerate().map(call).collect();
    let share = Share {
        bytes: 100,
        media_tokens: 0,
    };
    let results = runner.run(1, OpenCalls::new(calls), share).await.unwrap();
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
