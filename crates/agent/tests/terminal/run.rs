//! Runs a case of the table: an agent with a model that makes the calls of the case.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use sortie_agent::{
    Model, RunSpec, Workspace,
    model::{Content, Deltas, ModelError, Reply, Request, StopReason, ToolCall, Turn, Usage},
    run,
};
use sortie_api::model::{ModelInfo, ModelPrices};
use sortie_sandbox::{Backend, Level, Limits, Options, detect};
use tokio::time::Instant;

use crate::{
    cases::{Call, Case},
    nowhere::Nowhere,
};

/// Makes one call a turn, and remembers the results.
struct Caller {
    info: ModelInfo,
    calls: Mutex<VecDeque<Call>>,
    told: Mutex<Vec<String>>,
}

impl Model for Caller {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn call<'a>(
        &'a self,
        request: Request<'a>,
        _deltas: &'a dyn Deltas,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        if let Some(Turn::ToolResults(results)) = request.transcript.last() {
            let told = results.iter().map(|result| result.content.text().into_owned());
            self.told.lock().extend(told);
        }
        let call = self.calls.lock().pop_front();
        let (content, stop_reason) = match call {
            None => (Content::Text("done".to_owned()), StopReason::EndTurn),
            Some(call) => (
                Content::ToolCall(ToolCall {
                    id: format!("call_{}", request.transcript.len()),
                    name: call.tool.to_owned(),
                    arguments: call.arguments.to_owned(),
                }),
                StopReason::ToolUse,
            ),
        };
        let reply = Reply {
            content: vec![content],
            thinking: String::new(),
            stop_reason,
            usage: Usage::default(),
        };
        Box::pin(async move { Ok(reply) })
    }
}

fn spec() -> RunSpec {
    let within = Duration::from_mins(10);
    RunSpec {
        deadline: Some(Instant::now() + within),
        command_timeout: within,
        ..crate::spec::spec("Go.")
    }
}

/// Makes the calls of a case, and compares the results with the table.
pub(crate) async fn check(case: &Case) {
    let root = tempfile::tempdir().unwrap();
    let options = Options {
        minimum: Level::Landlock,
        ..Options::new(root.path())
    };
    let backend = detect(&options).await.expect("a sandbox");
    let level = backend.capabilities().level;
    if let Some(need) = case.needs.iter().find(|need| !is_there(need, level)) {
        if *need == NETWORK {
            println!(
                "NOT CHECKED: {}: this host gives runs no network of their own",
                case.name
            );
        } else {
            println!("NOT CHECKED: {}: {need} is not installed", case.name);
        }
        return;
    }
    let told = told(case, backend, root.path()).await;
    assert_eq!(told.len(), case.calls.len());
    for (call, told) in std::iter::zip(case.calls, &told) {
        let mut rest = told.as_str();
        for wanted in call.told {
            match rest.split_once(wanted) {
                Some((_, after)) => rest = after,
                None => panic_over(case, call, wanted, told),
            }
        }
        for unwanted in call.not {
            if told.contains(unwanted) {
                panic_over(case, call, unwanted, told);
            }
        }
    }
    println!("ok");
}

#[expect(clippy::panic, reason = "a test fails by panicking")]
fn panic_over(case: &Case, call: &Call, about: &str, told: &str) -> ! {
    panic!(
        "{}: {} {}: {about:?}, and told was:\n{told}",
        case.name, call.tool, call.arguments
    )
}

async fn told(case: &Case, backend: Arc<dyn Backend>, root: &std::path::Path) -> Vec<String> {
    let model = Caller {
        info: ModelInfo {
            id: "caller".to_owned(),
            provider: "test".to_owned(),
            name: "Caller".to_owned(),
            context_window: 1_000_000,
            max_output_tokens: 8_000,
            prices: ModelPrices::default(),
            capabilities: vec!["tools".to_owned()],
        },
        calls: Mutex::new(case.calls.iter().copied().collect()),
        told: Mutex::default(),
    };
    let name = "run".to_owned();
    let mut workspace = Workspace::new(root.to_owned(), name, backend, Limits::default());
    let _answer = run(spec(), &model, &mut workspace, &Nowhere).await;
    workspace.close().await.unwrap();
    assert!(!root.join("run").exists(), "the directory is gone");
    model.told.into_inner()
}

/// Need of a case that only some levels of sandboxes give. Every other need is a program.
const NETWORK: &str = "network";

/// Whether a sandbox on this host has a program, or a private network.
fn is_there(need: &str, level: Level) -> bool {
    if need == NETWORK {
        return level == Level::Namespaces;
    }
    ["/usr/local/bin", "/usr/bin", "/bin"]
        .iter()
        .any(|folder| std::path::Path::new(folder).join(need).exists())
}
