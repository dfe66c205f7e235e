//! Calls that a server works on as a task: the task is journaled before the agent waits for it, and the next attempt waits for the
//! same task instead of repeating the call.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::value::RawValue;
use sortie_agent::{
    journal::OpenCall,
    model::ToolDefinition,
    tool::{Begun, Context, TaskError, ToolError},
};

use crate::prelude::*;

type Answer = fn() -> Result<ToolContent, TaskError>;

/// A tool that returns a task from each call, and has this answer to each wait.
struct Tasked {
    effect: Effect,
    answer: Answer,
    begun: AtomicUsize,
    waits: Mutex<Vec<String>>,
}

fn tasked(effect: Effect, answer: Answer) -> Arc<Tasked> {
    Arc::new(Tasked {
        effect,
        answer,
        begun: AtomicUsize::new(0),
        waits: Mutex::default(),
    })
}

const DONE: Answer = || Ok(ToolContent::Text("the task is done".to_owned()));
const UNKNOWN: Answer = || Err(TaskError::Unknown("nobody knows the task".to_owned()));

impl Tasked {
    /// The number of calls, and the tasks that were waited for.
    fn seen(&self) -> (usize, Vec<String>) {
        (self.begun.load(Ordering::SeqCst), self.waits.lock().clone())
    }
}

impl Tool for Tasked {
    fn definition(&self) -> ToolDefinition<'_> {
        ToolDefinition {
            name: "post",
            description: "",
            parameters: "{}",
        }
    }

    fn order(&self) -> Order {
        Order::OneByOne
    }

    fn effect(&self, _arguments: &RawValue) -> Effect {
        self.effect
    }

    fn call<'a>(&'a self, _: Box<RawValue>, _: Context<'a>) -> BoxFuture<'a, Result<ToolContent, ToolError>> {
        unreachable!("the agent begins a call and waits for its task")
    }

    fn begin<'a>(&'a self, _: Box<RawValue>, _: Context<'a>) -> BoxFuture<'a, Result<Begun, ToolError>> {
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        Box::pin(async move { Ok(Begun::Task(format!("task-{number}"))) })
    }

    fn wait<'a>(&'a self, task: String, _: Context<'a>) -> BoxFuture<'a, Result<ToolContent, TaskError>> {
        self.waits.lock().push(task);
        Box::pin(async { (self.answer)() })
    }
}

/// Number of entries before the result of the first call: the fixed part, the reply, the intent and the task.
const BEFORE_RESULT: usize = 4;

fn first_reply() -> Reply {
    calls(&[("post", json!({}))])
}

/// The entries of a run that was lost while it waited for the first task of `tool`.
async fn lost_in_task(tool: &Arc<Tasked>) -> Vec<Entry> {
    let recorder = Recorder::refusing_entries_from(BEFORE_RESULT);
    let model = scripted![first_reply()];
    let (mut workspace, _root) = workspace(&untouched());
    let spec = spec("Go.").with_tool(Arc::clone(tool) as Arc<dyn Tool>);
    let lost = run_agent(spec, &model, &mut workspace, &recorder).await;
    assert!(failed(&lost).contains("taken over by another worker"), "{lost:?}");
    workspace.close().await.unwrap();
    let entries = recorder.entries();
    let journal = Journal::new(entries.clone());
    assert_eq!(journal.uncertain_call(), None, "{:?}", recorder.steps());
    entries
}

#[tokio::test]
async fn a_task_is_durable_before_the_agent_waits_for_it() {
    let tool = tasked(Effect::Outside, DONE);
    let model = scripted![first_reply(), says("ok")];
    let run = spec("Go.").with_tool(Arc::clone(&tool) as Arc<dyn Tool>);
    let recorder = play(run, &model).await.succeeds("ok");
    let steps = recorder.steps();
    let [reply, intent, task, result] = &steps[..] else {
        panic!("{steps:?}")
    };
    assert_eq!((&**reply, &**task), ("1 reply", "1 task call_0 task-1"));
    assert!(
        intent.starts_with("1 intent") && result.starts_with("1 result"),
        "{steps:?}"
    );
    assert_eq!(recorder.made_durable(), [BEFORE_RESULT - 1, BEFORE_RESULT]);
    assert_eq!(tool.seen(), (1, vec!["task-1".to_owned()]));
}

#[tokio::test]
async fn the_next_attempt_waits_for_the_task_and_does_not_repeat_the_call() {
    for effect in [Effect::Outside, Effect::Nothing] {
        let tool = tasked(effect, DONE);
        let entries = lost_in_task(&tool).await;
        let model = scripted![says("ok")];
        let run = spec("Go.")
            .with_tool(Arc::clone(&tool) as Arc<dyn Tool>)
            .resuming(entries);
        let recorder = play(run, &model).await.succeeds("ok");
        let waits = vec!["task-1".to_owned(); 2];
        assert_eq!(tool.seen(), (1, waits), "{effect:?}");
        // The attempt before has recorded the start of the call.
        assert_eq!(recorder.data("tool_start"), Vec::<Value>::new());
        let [end] = &recorder.data("tool_end")[..] else {
            panic!("{:?}", recorder.kinds())
        };
        assert_eq!(
            (&end["output"], &end["is_error"]),
            (&json!("the task is done"), &json!(false))
        );
    }
}

#[tokio::test]
async fn a_lost_call_with_an_effect_and_an_unknown_task_is_uncertain_and_never_repeated() {
    let tool = tasked(Effect::Outside, UNKNOWN);
    let entries = lost_in_task(&tool).await;
    let call = Journal::new(entries.clone()).call_with_task();
    let expected = OpenCall {
        step: 1,
        id: "call_0".to_owned(),
        tool: "post".to_owned(),
    };
    assert_eq!(call.as_ref(), Some(&expected));
    let another: Arc<dyn Tool> = Arc::new(Probe::new("get", Order::SideBySide, Effect::Nothing));
    for offered in [Arc::clone(&tool) as Arc<dyn Tool>, another] {
        let run = spec("Go.").with_tool(offered).resuming(entries.clone());
        let (outcome, recorder) = run_in(run, &scripted![], &untouched(), &[]).await;
        assert_eq!(outcome, Outcome::Uncertain(expected.clone()));
        assert_eq!(recorder.data("tool_end"), Vec::<Value>::new());
    }
    assert_eq!(tool.seen().0, 1);
}

#[tokio::test]
async fn a_lost_call_that_may_be_repeated_is_repeated_if_its_task_is_unknown() {
    let tool = tasked(Effect::Nothing, UNKNOWN);
    let entries = lost_in_task(&tool).await;
    let run = spec("Go.")
        .with_tool(Arc::clone(&tool) as Arc<dyn Tool>)
        .resuming(entries);
    let recorder = play(run, &scripted![says("ok")]).await.succeeds("ok");
    let waits = ["task-1", "task-1", "task-2"].map(str::to_owned).to_vec();
    assert_eq!(tool.seen(), (2, waits));
    let [end] = &recorder.data("tool_end")[..] else {
        panic!("{:?}", recorder.kinds())
    };
    // The attempt that has begun the call tells the model.
    assert_eq!(
        (&end["output"], &end["is_error"]),
        (&json!("nobody knows the task"), &json!(true))
    );
}
