//! A run that resumes after its worker died: nothing is repeated that must not be, nothing is forgotten, and the model is not
//! asked anything again.

use std::collections::VecDeque;

use proptest::prelude::*;
use sortie_agent::{Egress, Workspace};
use sortie_sandbox::{Backend, Limits};
use sortie_testkit::list;

use crate::{
    prelude::*,
    support::{asks_for_notes, run_ruled, thinks},
};

/// Tools with each effect, shared by the attempts at a run.
fn probes() -> Vec<Arc<Probe>> {
    vec![
        Arc::new(Probe::new("get", Order::SideBySide, Effect::Nothing)),
        Arc::new(Probe::new("look", Order::SideBySide, Effect::Directory)),
        Arc::new(Probe::new("post", Order::OneByOne, Effect::Outside)),
        Arc::new(Probe::new("send", Order::SideBySide, Effect::Outside)),
        Arc::new(Probe::new("run", Order::OneByOne, Effect::DirectoryAndOutside)),
    ]
}

fn with(probes: &[Arc<Probe>], journal: Option<Vec<Entry>>) -> RunSpec {
    let tools = probes.iter().map(|probe| Arc::clone(probe) as Arc<dyn Tool>);
    RunSpec {
        tools: tools.collect(),
        resume: journal.map(Journal::new),
        ..with_schema("Go.", &json!({"type": "object"}))
    }
}

/// A model that follows its script from a given position, and remembers the last request that it got.
struct Follower {
    info: ModelInfo,
    script: Mutex<VecDeque<Reply>>,
    shown: Mutex<String>,
}

impl Follower {
    fn new(script: &[Reply], said: usize, window: u64) -> Self {
        Self {
            info: ModelInfo {
                id: "follower".to_owned(),
                provider: "test".to_owned(),
                name: "Follower".to_owned(),
                context_window: window,
                max_output_tokens: window / 4,
                prices: ModelPrices::default(),
                capabilities: Vec::new(),
            },
            script: Mutex::new(script[said..].iter().cloned().collect()),
            shown: Mutex::default(),
        }
    }

    fn left(&self) -> usize {
        self.script.lock().len()
    }
}

impl Model for Follower {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn binds_thinking(&self) -> bool {
        true
    }

    fn call<'a>(
        &'a self,
        request: Request<'a>,
        _deltas: &'a dyn Deltas,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        let reply = if asks_for_notes(&request) {
            says("What was done so far.")
        } else {
            *self.shown.lock() = format!("{:?}", request.transcript);
            self.script.lock().pop_front().expect("the script goes on")
        };
        Box::pin(async { Ok(reply) })
    }
}

/// Turn of a script.
#[derive(Clone, Debug)]
enum Says {
    /// Calls of the probe with this number, and whether they fail.
    Calls(Vec<(usize, bool)>),
    Unknown,
    Malformed,
    NoJson,
    Nothing,
}

fn script() -> impl Strategy<Value = Vec<Says>> {
    let calls =
        || proptest::collection::vec((0_usize..5, prop::bool::weighted(0.2)), 1..5).prop_map(Says::Calls);
    let turn = prop_oneof![
        8 => calls(),
        1 => Just(Says::Unknown),
        1 => Just(Says::Malformed),
        1 => Just(Says::NoJson),
        1 => Just(Says::Nothing),
    ];
    proptest::collection::vec(turn, 0..7)
}

/// The replies of a script that a run survives: at most two answers that do not match, no two empty ones in a row.
fn replies(script: &[Says], bytes: usize) -> Vec<Reply> {
    let (mut replies, mut rejected, mut broken, mut number) = (Vec::new(), 0, 0, 0);
    let mut was_empty = false;
    for says in script {
        let content = match says {
            Says::Calls(calls) => {
                let call = |(index, (probe, fails)): (usize, &(usize, bool))| {
                    number += 1;
                    let arguments = json!({"n": number, "fails": fails, "bytes": bytes});
                    call(
                        &format!("call_{index}"),
                        ["get", "look", "post", "send", "run"][*probe],
                        &arguments,
                    )
                };
                broken = 0;
                let thought = thinks(&format!("What do {} calls bring?", calls.len()));
                std::iter::once(thought)
                    .chain(calls.iter().enumerate().map(call))
                    .collect()
            }
            Says::Unknown | Says::Malformed if broken == 3 => continue,
            Says::Unknown => {
                broken += 1;
                vec![call("x", "launch", &json!({}))]
            }
            Says::Malformed => {
                broken += 1;
                vec![call("x", "get", &json!("not an object"))]
            }
            Says::NoJson if rejected == 2 => continue,
            Says::NoJson => {
                rejected += 1;
                vec![Content::Text("no".to_owned())]
            }
            Says::Nothing if was_empty => continue,
            Says::Nothing => Vec::new(),
        };
        was_empty = content.is_empty();
        replies.push(Reply {
            content,
            thinking: String::new(),
            stop_reason: StopReason::EndTurn,
            usage: Usage::default(),
        });
    }
    replies.push(says("{\"done\": true}"));
    replies
}

/// Returns the number of replies of the script in the journal: replies, and empty ones, which have only a correction.
fn said(entries: &[Entry]) -> usize {
    let replied = |entry: &&Entry| match &entry.what {
        What::Reply { .. } => true,
        What::Correction { text } => text.starts_with("Your last message was empty"),
        What::Began { .. }
        | What::Intent { .. }
        | What::CallTask { .. }
        | What::Result(_)
        | What::Compacted { .. }
        | What::Trimmed { .. }
        | What::Note { .. }
        | What::ThinkingDropped
        | What::FellBack => false,
    };
    entries.iter().filter(replied).count()
}

struct Ran {
    outcome: Outcome,
    recorder: Recorder,
    shown: String,
    left: usize,
}

/// An attempt in a new folder.
async fn attempt(
    probes: &[Arc<Probe>],
    script: &[Reply],
    journal: Option<Vec<Entry>>,
    crash_at: Option<usize>,
    window: u64,
) -> Ran {
    let root = tempfile::tempdir().unwrap();
    attempt_in(root.path(), probes, script, (journal, crash_at), window).await
}

/// An attempt that resumes from a journal and may die at one of its new entries.
async fn attempt_in(
    root: &Path,
    probes: &[Arc<Probe>],
    script: &[Reply],
    (journal, crash_at): (Option<Vec<Entry>>, Option<usize>),
    window: u64,
) -> Ran {
    let model = Follower::new(script, journal.as_deref().map_or(0, said), window);
    let recorder = crash_at.map_or_else(Recorder::default, Recorder::refusing_entries_from);
    let backend: Arc<dyn Backend> = untouched();
    let mut workspace = Workspace::new(root.to_owned(), "run".to_owned(), backend, Limits::default());
    let ruled = Ruled::new(&model as &dyn Model);
    let outcome = run_ruled(with(probes, journal), &ruled, &mut workspace, &recorder).await;
    workspace.close().await.unwrap();
    assert_eq!(ruled.bound(), 0, "thinking was sent behind a change");
    let shown = model.shown.lock().clone();
    Ran {
        outcome,
        recorder,
        shown,
        left: model.left(),
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(work)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn a_run_that_dies_anywhere_goes_on_as_if_it_had_not(
        script in script(),
        crashes in proptest::collection::vec(0_usize..12, 1..4),
        tight in any::<bool>(),
    ) {
        // In the tight window outputs of this size are dropped, and turns summarized.
        let (window, bytes) = if tight { (6_000, 1_500) } else { (200_000, 0) };
        let script = replies(&script, bytes);
        // Thinking is also bound to the working directory.
        let root = tempfile::tempdir().unwrap();
        let undisturbed = block_on(attempt_in(root.path(), &probes(), &script, (None, None), window));
        prop_assert_eq!(succeeded(&undisturbed.outcome), "{\"done\": true}");
        prop_assert_eq!(undisturbed.left, 0);

        let probes = probes();
        let mut journal: Vec<Entry> = Vec::new();
        let mut last = None;
        for (number, crash) in crashes.iter().map(Some).chain([None]).enumerate() {
            let resumed = (number > 0).then(|| journal.clone());
            let uncertain = Journal::new(journal.clone()).uncertain_call();
            let before: usize = probes.iter().map(|probe| probe.calls().len()).sum();
            let from = (resumed, crash.copied());
            let ran = block_on(attempt_in(root.path(), &probes, &script, from, window));
            if let Some(call) = uncertain {
                prop_assert_eq!(&ran.outcome, &Outcome::Uncertain(call));
                prop_assert_eq!(ran.left, script.len() - said(&journal), "the model is not asked");
                let after: usize = probes.iter().map(|probe| probe.calls().len()).sum();
                prop_assert_eq!(before, after, "no call is made");
                last = None;
                break;
            }
            journal.extend(ran.recorder.entries());
            let ended = matches!(ran.outcome, Outcome::Succeeded(_));
            last = Some(ran);
            if ended { break }
        }
        for probe in &probes {
            let mut calls = probe.calls();
            let made = calls.len();
            calls.sort_unstable();
            calls.dedup();
            prop_assert!(!probe.effect.is_outside() || calls.len() == made, "{} twice", probe.name);
        }
        if let Some(ran) = last {
            prop_assert_eq!(succeeded(&ran.outcome), "{\"done\": true}");
            prop_assert_eq!(ran.left, 0, "every reply was asked for, none again");
            prop_assert_eq!(ran.shown, undisturbed.shown);
        }
    }
}

#[tokio::test]
async fn every_step_is_journaled_and_an_effect_outside_waits_until_its_intent_is_durable() {
    let probes = probes();
    let script = list! {
        reply(vec![call("a", "post", &json!({"n": 1})), call("b", "nothing", &json!({})), call("c", "get", &json!({"n": 2}))]),
        says("no"), says("{}"),
    };
    let ran = attempt(&probes, &script, None, None, 200_000).await;
    assert_eq!(
        ran.recorder.steps(),
        list! {
            "1 reply", "1 intent a", "1 result a", "1 result b", "1 intent c", "1 result c", "2 reply",
            "2 correction",
        }
    );
    assert_eq!(ran.recorder.made_durable(), [3]);
    let journal = Journal::new(ran.recorder.entries());
    assert_eq!((journal.last_step(), journal.uncertain_call()), (2, None));
}

#[tokio::test]
async fn a_change_of_the_directory_waits_until_the_one_before_it_is_durable() {
    let write = |name| ("write_file", json!({"path": name, "content": "x"}));
    let look = ("read_file", json!({"path": "a"}));
    let changes = calls(&[write("a"), look.clone(), write("b"), look, write("c")]);
    let model = scripted![changes, says("ok")];
    let (_, recorder) = run_in(spec("Go."), &model, &untouched(), &[]).await;
    // A reply, then an intent and a result of each call: the second and the third change wait with their intent.
    assert_eq!(recorder.made_durable(), [7, 11]);

    // A command with network waits as an effect outside, and the change after it waits for the command's changes.
    let backend = Pretended::new(&["bash"], |_| prints(""));
    let model = scripted![calls(&[shell("x"), write("a")]), says("ok")];
    let run = RunSpec {
        egress: Egress::Open,
        ..spec("Go.")
    };
    let (_, recorder) = run_in(run, &model, &backend, &[]).await;
    assert_eq!(recorder.made_durable(), [3, 5]);
}

#[tokio::test]
async fn a_run_without_tools_has_no_journal() {
    let model = scripted![says("Hello.")];
    let (_, recorder) = run_in(spec("Greet."), &model, &untouched(), &[]).await;
    assert!(recorder.entries().is_empty() && recorder.made_durable().is_empty());
}

#[tokio::test]
async fn a_half_done_turn_is_finished_without_telling_again_what_was_told() {
    let probes = probes();
    let two = vec![
        call("a", "get", &json!({"n": 1})),
        call("b", "get", &json!({"n": 2})),
    ];
    let mut first = vec![Content::Text("I look.".to_owned())];
    first.extend(two);
    let script = [reply(first), says("{}")];
    let ran = attempt(&probes, &script, None, None, 200_000).await;
    // The journal when the worker died: the reply, both intents, the first result.
    let mut journal = ran.recorder.entries();
    journal.retain(|entry| !matches!(&entry.what, What::Result(result) if result.id == "b"));
    let again = attempt(&probes, &script, Some(journal), None, 200_000).await;
    assert_eq!(succeeded(&again.outcome), "{}");
    assert_eq!(again.shown, ran.shown);
    assert_eq!(probes[0].calls(), [1, 2, 2]);
    assert_eq!(
        again.recorder.kinds(),
        ["tool_start", "tool_end", "model_call", "message"]
    );
    assert_eq!(again.recorder.data("tool_start")[0]["id"], "b");
    assert_eq!(again.recorder.data("message")[0]["step"], 2);
}

#[tokio::test]
async fn a_call_in_doubt_ends_the_run_and_names_the_call() {
    let probes = probes();
    let script = [reply(vec![call("a", "post", &json!({"n": 1}))]), says("{}")];
    let ran = attempt(&probes, &script, None, Some(3), 200_000).await;
    assert_eq!(failed(&ran.outcome), "the run was taken over by another worker");
    let again = attempt(&probes, &script, Some(ran.recorder.entries()), None, 200_000).await;
    let Outcome::Uncertain(call) = &again.outcome else {
        panic!("{:?}", again.outcome)
    };
    assert_eq!((call.step, &*call.id, &*call.tool), (1, "a", "post"));
    assert_eq!(probes[2].calls(), [1]);
}

fn priced(script: Vec<Reply>) -> Scripted {
    let prices = ModelPrices {
        input_micros_per_mtok: micros(3_000_000),
        output_micros_per_mtok: micros(15_000_000),
        ..ModelPrices::default()
    };
    Scripted::priced(prices, script.into_iter().map(Into::into).collect())
}

fn used(reply: Reply, input_tokens: u64) -> Reply {
    Reply {
        usage: Usage {
            input_tokens,
            ..Usage::default()
        },
        ..reply
    }
}

#[tokio::test]
async fn what_was_spent_counts_and_the_interrupted_model_call_is_charged_once() {
    let backend = Pretended::new(&["bash"], |_| prints(""));
    let first = priced(vec![used(calls(&[shell("ls")]), 1_000), used(says("ok"), 1_000)]);
    let (_, recorder) = run_in(spec("Go."), &first, &backend, &[]).await;
    assert_eq!(recorder.last_spent(), 6_000);
    let entries = recorder.entries();
    assert!(!entries.is_empty());
    assert!(entries.iter().all(|entry| entry.spent_micros == micros(3_000)));

    let resume = |entries: Vec<Entry>, spent| {
        let mut spec = spec("Go.");
        spec.budget.spent = micros(spent);
        RunSpec {
            resume: Some(Journal::new(entries)),
            ..spec
        }
    };
    // The second call was under way: its input is charged, then the call that is made instead of it.
    let model = priced(vec![used(says("ok"), 1_000)]);
    let (outcome, recorder) = run_in(resume(entries.clone(), 0), &model, &backend, &[]).await;
    assert_eq!(succeeded(&outcome), "ok");
    let given_up = recorder.spent()[0] - 3_000;
    assert!(given_up > 500 && given_up < 10_000, "{given_up}");
    assert_eq!(recorder.last_spent(), 6_000 + given_up);
    // The events show both.
    let shown: Vec<_> = recorder
        .data("model_call")
        .into_iter()
        .map(|call| (call["stop_reason"].clone(), call["cost_micros"].clone()))
        .collect();
    assert_eq!(
        shown,
        [
            (json!("given_up"), json!(given_up)),
            (json!("end_turn"), json!(3_000))
        ]
    );

    // No model was asked: the reply exists, and its call was under way.
    let model = priced(vec![used(says("ok"), 1_000)]);
    let (_, recorder) = run_in(resume(entries[..2].to_vec(), 0), &model, &backend, &[]).await;
    assert_eq!(recorder.last_spent(), 6_000);

    // The store has a higher figure than the journal.
    let model = priced(vec![used(says("ok"), 1_000)]);
    let (_, recorder) = run_in(resume(entries.clone(), 5_000), &model, &backend, &[]).await;
    assert_eq!(recorder.last_spent(), 8_000 + given_up);

    // Handed over in order: the reported cost is complete.
    let model = priced(vec![used(says("ok"), 1_000)]);
    let mut handed = resume(entries, 5_000);
    handed.resume = handed.resume.map(Journal::handed_over);
    let (_, recorder) = run_in(handed, &model, &backend, &[]).await;
    assert_eq!(recorder.last_spent(), 8_000);
}

#[tokio::test]
async fn a_directory_that_was_kept_is_taken_over_with_its_input() {
    let backend = untouched();
    let write = calls(&[(
        "write_file",
        json!({"path": "made.txt", "content": "by the first"}),
    )]);
    let model = scripted![write, says("late")];
    let (mut first, root) = workspace(&backend);
    let go = |resume| RunSpec {
        input: Some(raw(&json!({"rows": 3}))),
        resume,
        ..spec("Go.")
    };
    let recorder = Recorder::refusing_from(3);
    failed(&run_agent(go(None), &model, &mut first, &recorder).await);
    let (stopped_workspace, stopped) = first.stop().await;
    stopped.unwrap();
    drop(stopped_workspace);
    let journal = Journal::new(recorder.entries());
    assert_eq!(journal.last_step(), 1);

    let backend: Arc<dyn Backend> = backend;
    let (folder, name) = (root.path().to_owned(), "run".to_owned());
    let reopened = Workspace::reopen(folder, name, Arc::clone(&backend), Limits::default()).await;
    let mut second = reopened.unwrap().unwrap();
    std::fs::write(root.path().join("run/input.json"), "changed by the agent").unwrap();
    let look = calls(&[
        ("read_file", json!({"path": "made.txt"})),
        ("read_file", json!({"path": "input.json"})),
    ]);
    let model = scripted![look, says("ok")];
    let recorder = Recorder::default();
    let outcome = run_agent(go(Some(journal)), &model, &mut second, &recorder).await;
    assert_eq!(succeeded(&outcome), "ok");
    assert_eq!(model.asked()[1].last, "by the first|changed by the agent");
    assert!(model.asked()[0].first_message.contains("`input.json`"));
    second.close().await.unwrap();
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);

    let gone = Workspace::reopen(
        root.path().to_owned(),
        "run".to_owned(),
        backend,
        Limits::default(),
    );
    assert!(gone.await.unwrap().is_none());
}

#[tokio::test]
async fn what_a_model_got_wrong_before_is_counted_on() {
    let broken = || reply(vec![call("x", "launch", &json!({}))]);
    let good_and_broken = reply(vec![
        call("x", "launch", &json!({})),
        call("y", "get", &json!({"n": 1})),
    ]);
    for (first, ends) in [(broken(), true), (good_and_broken, false)] {
        let script = [broken(), broken(), first, says("{}")];
        let ran = attempt(&probes(), &script, None, None, 200_000).await;
        let model = scripted![broken(), says("{}")];
        let resumed = with(&probes(), Some(ran.recorder.entries()));
        let (outcome, _) = run_in(resumed, &model, &untouched(), &[]).await;
        assert_eq!(matches!(outcome, Outcome::Failed(_)), ends, "{outcome:?}");
    }
}

#[tokio::test]
async fn an_empty_answer_before_is_not_one_that_did_not_match() {
    let empty = reply(Vec::new());
    let script = [empty, says("no"), says("{}")];
    let ran = attempt(&probes(), &script, None, None, 200_000).await;
    let script = [says("no"), says("{}")];
    let journal = ran.recorder.entries();
    let model = Scripted::new(script.into_iter().map(Into::into).collect());
    let (outcome, recorder) = run_in(with(&probes(), Some(journal)), &model, &untouched(), &[]).await;
    assert_eq!(succeeded(&outcome), "{}");
    assert_eq!(recorder.data("output_rejected")[0]["attempt"], 2);
}

#[tokio::test]
async fn a_warning_that_an_earlier_attempt_recorded_is_not_recorded_again() {
    for (before, warnings) in [(900_000, 0), (0, 1)] {
        let mut run = spec("Go.");
        run.budget.spent = micros(before);
        let prices = ModelPrices {
            input_micros_per_mtok: micros(62_000_000),
            ..ModelPrices::default()
        };
        let model = Scripted::priced(prices, vec![used(says("ok"), 14_000).into()]);
        let (_, recorder) = run_in(run, &model, &untouched(), &[]).await;
        assert_eq!(recorder.data("budget_warning").len(), warnings, "{before}");
    }
}
