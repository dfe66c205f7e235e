//! A whole engine on a SQLite file: runs of the offline model from creation to their end.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt;
use prometheus_client::{encoding::text::encode, registry::Registry};
use serde_json::{Value, json};
use sortie_api::{
    ErrorCode, Micros, Run, RunRequest, RunStatus, Timestamp,
    key::{CreateKey, CreatedKey, RotateKey},
};
use sortie_engine::{Clock, Options, Serves};
use sortie_store::runs::Created;
use sortie_testkit::{list, until};

use crate::rig::{Rig, any_run, events_and_done, prompt, read};

mod left;

impl Rig {
    async fn new_key(&self, name: &str, expires_at: Option<Timestamp>) -> CreatedKey {
        let request = CreateKey {
            name: name.to_owned(),
            role: None,
            expires_at,
        };
        self.engine.create_key(&self.caller, request).await.unwrap()
    }

    async fn finished(&self, request: Value) -> (Vec<String>, Run) {
        let run = self.create(request).await.unwrap();
        let (events, done) = self.follow(&run, 0).await;
        let kinds = events.into_iter().map(|(_, kind)| kind).collect();
        (kinds, done.expect("the stream ends with done"))
    }
}

const WAITS: &str = "```wait 60000\n```";

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_without_blocks_is_answered_with_itself() {
    let rig = Rig::start().await;
    let (kinds, run) = rig.finished(prompt("say hello")).await;
    assert_eq!(run.status, RunStatus::Succeeded);
    assert_eq!(run.output.as_deref(), Some("say hello"));
    assert_eq!(run.cost_micros, Micros::ZERO);
    assert!(!run.billing_pending);
    assert!(run.started_at >= Some(run.created_at) && run.finished_at >= run.started_at);
    assert_eq!(
        kinds,
        list! {
            "status", "status", "status", "worker_started", "model_call", "message", "result", "status",
        }
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn event_ids_have_no_gap_and_a_stream_resumes_anywhere() {
    let rig = Rig::start().await;
    let run = rig.create(prompt("hello")).await.unwrap();
    let (whole, _) = rig.follow(&run, 0).await;
    let last = i64::try_from(whole.len()).unwrap();
    assert_eq!(
        whole.iter().map(|(id, _)| *id).collect::<Vec<_>>(),
        (1..=last).collect::<Vec<_>>()
    );
    for after in [1, last - 1, last, last + 7, i64::MAX] {
        let (rest, done) = rig.follow(&run, after).await;
        let expected = usize::try_from(after).unwrap_or(usize::MAX).min(whole.len());
        assert_eq!(rest, whole[expected..]);
        assert_eq!(done.map(|run| run.status), Some(RunStatus::Succeeded));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_readers_of_many_runs_all_see_every_event() {
    let rig = Arc::new(Rig::start().await);
    let mut readers = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let run = rig
            .create(prompt("```wait 30\n```\n```answer\nok\n```"))
            .await
            .unwrap();
        for _ in 0..5 {
            let (rig, run) = (Arc::clone(&rig), run.clone());
            readers.spawn(async move { rig.follow(&run, 0).await });
        }
    }
    while let Some(seen) = readers.join_next().await {
        let (events, done) = seen.unwrap();
        assert_eq!(done.and_then(|run| run.output).as_deref(), Some("ok"));
        assert!((1..).zip(&events).all(|(at, (id, _))| at == *id), "{events:?}");
        assert_eq!(events.last().map(|(_, kind)| kind.as_str()), Some("status"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_stops_a_working_run_and_ends_its_streams() {
    let rig = Rig::start().await;
    let run = rig.create(prompt(WAITS)).await.unwrap();
    rig.until_event(&run, "worker_started").await;
    let cancelled = rig.engine.cancel_run(rig.org, run.id).await.unwrap().run;
    assert_eq!(cancelled.status, RunStatus::Cancelled);
    let (_, done) = rig.follow(&run, 0).await;
    assert_eq!(done.map(|run| run.status), Some(RunStatus::Cancelled));
    let again = rig.engine.cancel_run(rig.org, run.id).await.unwrap().run;
    assert_eq!(
        (again.status, again.finished_at),
        (cancelled.status, cancelled.finished_at)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_ends_at_its_time_limit() {
    let rig = Rig::start().await;
    let (kinds, run) = rig
        .finished(json!({ "prompt": WAITS, "shell": false, "timeout_seconds": 1 }))
        .await;
    assert_eq!(run.status, RunStatus::TimedOut);
    assert_eq!(run.error.as_deref(), Some("timed out after 1 s"));
    assert_eq!(kinds.last().map(String::as_str), Some("status"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_time_costs_more_than_its_budget_ends_within_it() {
    let rig = Rig::start_with(|options| {
        options.compute_micros_per_second = Micros::new(1_000_000).unwrap();
    })
    .await;
    let (_, run) = rig
        .finished(json!({ "prompt": WAITS, "shell": false, "max_cost_micros": 20_000 }))
        .await;
    assert_eq!(run.status, RunStatus::Failed);
    assert!(run.error.unwrap().starts_with("budget exhausted"));
    assert_eq!(run.cost_micros, Micros::new(20_000).unwrap());
}

/// Starts a run that waits, shuts the engine down under it and returns the run as it is then.
async fn shut_down_under_a_run(rig: &Rig) -> Run {
    let run = rig.create(prompt(WAITS)).await.unwrap();
    shut_down_under(rig, run).await
}

async fn shut_down_under(rig: &Rig, run: Run) -> Run {
    let following = rig.follow(&run, 0);
    let shutdown = async {
        rig.until_at_work(&run).await;
        rig.engine.shutdown().await;
    };
    let _both = futures_util::join!(following, shutdown);
    assert!(
        matches!(rig.create(prompt("late")).await, Err(refused) if refused.code == ErrorCode::Unavailable)
    );
    rig.status(&run).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_outlives_the_grace_goes_on_after_the_next_start() {
    let rig = Rig::start().await;
    let run = shut_down_under_a_run(&rig).await;
    assert_eq!((run.status, run.finished_at), (RunStatus::Running, None));
    let rig = rig.restart(|_| {}).await;
    rig.until_event(&run, "resumed").await;
    rig.engine.cancel_run(rig.org, run.id).await.unwrap();
    let (kinds, done) = rig.follow(&run, 0).await;
    let kinds: Vec<&str> = kinds.iter().map(|(_, kind)| kind.as_str()).collect();
    let (before, rest) = kinds.split_at(7);
    assert_eq!(
        before,
        list! {
            "status", "status", "status", "worker_started", "model_call", "resumed", "worker_started",
        }
    );
    // A model call that was under way at the cancel may be recorded after the status.
    assert!(matches!(rest, ["status"] | ["status", "model_call"]), "{rest:?}");
    assert_eq!(done.map(|run| run.status), Some(RunStatus::Cancelled));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_of_one_command_ends_the_run_of_its_command_as_interrupted() {
    let rig = Rig::start_with(|options| options.serves = Serves::OwnRuns).await;
    let run = rig.create(prompt(WAITS)).await.unwrap();
    rig.engine.end_with_engine(run.id);
    let run = shut_down_under(&rig, run).await;
    assert_eq!(run.status, RunStatus::Interrupted);
    assert_eq!(run.error.as_deref(), Some("the node that ran it was stopped"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_of_one_command_leaves_lost_runs_to_a_node_that_stays() {
    let mut rig = Rig::start().await;
    let run = shut_down_under_a_run(&rig).await;
    for serves in [Serves::Nothing, Serves::OwnRuns] {
        rig = rig.restart(|options| options.serves = serves).await;
        assert_eq!(rig.status(&run).await.status, RunStatus::Running);
        rig.engine.shutdown().await;
    }
    let rig = rig.restart(|_| {}).await;
    let mut stream = rig.stream(run.id, 5).await.unwrap();
    let batch = stream.next().await.expect("it goes on").unwrap();
    assert_eq!(events_and_done(&batch).0[0].1, "resumed");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_available_is_refused_and_nothing_is_created() {
    let rig = Rig::start().await;
    for (request, message) in [
        (
            json!({ "prompt": "x", "shell": false, "web": { "search": true } }),
            "web.search: no search service is configured on this engine",
        ),
        (
            json!({ "prompt": "x" }),
            "shell: commands are unavailable on this engine",
        ),
    ] {
        match rig.create(request).await {
            Err(refused) if refused.code == ErrorCode::InvalidRequest => {
                assert!(refused.text.starts_with(message), "{refused}");
            }
            other => panic!("{other:?}"),
        }
    }
    let listed = rig
        .engine
        .store()
        .list_runs(rig.org, any_run(None))
        .await
        .unwrap();
    assert!(listed.items.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_key_is_refused_at_once() {
    let rig = Rig::start().await;
    let second = rig.new_key(" second ", None).await;
    assert_eq!(second.name, "second");
    assert!(rig.engine.authenticate(&second.key).await.unwrap().is_some());
    rig.engine.delete_key(&rig.caller, second.id).await.unwrap();
    assert!(rig.engine.authenticate(&second.key).await.unwrap().is_none());
    let first = rig.engine.authenticate(rig.key.expose()).await.unwrap().unwrap();
    assert!(
        matches!(rig.engine.delete_key(&rig.caller, first.by.key().unwrap()).await, Err(refused) if refused.code == ErrorCode::Conflict)
    );
    assert!(rig.dir.path().exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_expires_at_its_moment_though_its_look_up_is_kept() {
    let clock = Clock::manual(Timestamp::from_micros(1_700_000_000_000_000));
    let rig = Rig::start_with(|options| options.clock = clock.clone()).await;
    let ends = clock.now() + Duration::from_secs(2);
    let key = rig.new_key("short", Some(ends)).await.key;
    let works = async || rig.engine.authenticate(&key).await.unwrap().is_some();
    assert!(works().await);
    clock.set(Timestamp::from_micros(ends.as_micros() - 1));
    assert!(works().await);
    clock.set(ends);
    assert!(!works().await);
    let again = CreateKey {
        name: "late".to_owned(),
        role: None,
        expires_at: Some(ends),
    };
    let refused = rig.engine.create_key(&rig.caller, again).await;
    assert!(
        matches!(refused, Err(refused) if refused.code == ErrorCode::InvalidRequest && refused.text.starts_with("expires_at: "))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_is_rotated_out_works_for_its_grace_and_no_longer() {
    let clock = Clock::manual(Timestamp::from_micros(1_700_000_000_000_000));
    let rig = Rig::start_with(|options| options.clock = clock.clone()).await;
    let first = rig.new_key("rotated", None).await;
    let works = async |key: &str| {
        rig.engine
            .authenticate(key)
            .await
            .unwrap()
            .and_then(|principal| principal.by.key())
    };
    let rotate = async |grace_seconds| {
        let request = RotateKey { grace_seconds };
        rig.engine.rotate_key(&rig.caller, first.id, &request).await
    };
    assert_eq!(works(&first.key).await, Some(first.id));
    let second = rotate(Some(10)).await.unwrap();
    assert_eq!(second.previous_until, Some(clock.now() + Duration::from_secs(10)));
    assert_eq!(
        (works(&first.key).await, works(&second.key).await),
        (Some(first.id), Some(first.id))
    );
    clock.set(clock.now() + Duration::from_secs(10));
    assert_eq!(
        (works(&first.key).await, works(&second.key).await),
        (None, Some(first.id))
    );
    let third = rotate(None).await.unwrap();
    assert_eq!(third.previous_until, Some(clock.now() + Duration::from_hours(1)));
    let fourth = rotate(Some(0)).await.unwrap();
    for (key, id) in [
        (&second.key, None),
        (&third.key, None),
        (&fourth.key, Some(first.id)),
    ] {
        assert_eq!(works(key).await, id);
    }
    for wrong in [-1, 604_801, i64::MAX, i64::MIN] {
        let refused = rotate(Some(wrong)).await;
        assert!(
            matches!(refused, Err(refused) if refused.code == ErrorCode::InvalidRequest && refused.text.starts_with("grace_seconds: "))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_run_is_settled_by_its_worker() {
    let rig = Rig::start_with(|options| {
        options.compute_micros_per_second = Micros::new(1_000).unwrap();
    })
    .await;
    let run = rig.create(prompt(WAITS)).await.unwrap();
    rig.until_at_work(&run).await;
    assert!(
        rig.engine
            .cancel_run(rig.org, run.id)
            .await
            .unwrap()
            .run
            .billing_pending
    );
    let look = async || Ok(rig.status(&run).await);
    let settled = until("the settlement", look, |run| !run.billing_pending).await;
    let settled = settled.unwrap();
    assert_eq!(settled.status, RunStatus::Cancelled);
    assert!(settled.cost_micros > Micros::ZERO && settled.cost_micros <= settled.max_cost_micros);
    // The worker counts after its last write. It has finished when the node has stopped.
    rig.engine.shutdown().await;
    let (mut registry, mut text) = (Registry::default(), String::new());
    rig.engine.register_metrics(&mut registry);
    encode(&mut text, &registry).unwrap();
    for figure in [
        format!("run_cost_micros_total {}", settled.cost_micros.get()),
        "run_duration_seconds_count{status=\"cancelled\"} 1".to_owned(),
        "runs_finished_total{status=\"cancelled\"} 1".to_owned(),
    ] {
        assert!(
            text.lines().any(|line| line == figure),
            "there is no {figure} in\n{text}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_of_one_command_works_on_its_own_runs_only() {
    let rig = Rig::start_with(|options| options.serves = Serves::Nothing).await;
    let others = rig.create(prompt("somebody else's")).await.unwrap();
    rig.engine.shutdown().await;
    let rig = rig.restart(|options| options.serves = Serves::OwnRuns).await;
    let (_, own) = rig.finished(prompt("mine")).await;
    assert_eq!(own.output.as_deref(), Some("mine"));
    assert_eq!(rig.status(&others).await.status, RunStatus::Queued);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_known_idempotency_key_answers_its_run_whatever_the_body_says() {
    let rig = Rig::start().await;
    let request = serde_json::from_value(prompt("once")).unwrap();
    let key = Some("k".to_owned());
    let created = rig.engine.create_run(&rig.caller, request, key.clone()).await;
    let Created::New(run) = created.unwrap() else {
        panic!("the key is new");
    };
    let again = rig
        .engine
        .create_run(&rig.caller, RunRequest::default(), key)
        .await;
    let Created::Existing(again) = again.unwrap() else {
        panic!("the key is known");
    };
    assert_eq!(again.id, run.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_position_beyond_the_last_event_of_a_working_run_sees_what_follows() {
    let rig = Rig::start().await;
    let run = rig.create(prompt("```wait 60000\n```")).await.unwrap();
    rig.until_at_work(&run).await;
    let stream = rig.stream(run.id, 1_000).await.unwrap();
    rig.engine.cancel_run(rig.org, run.id).await.unwrap();
    let (seen, done) = read(stream).await;
    // A model call that was under way at the cancel may be recorded after the status.
    let last = seen.iter().rfind(|(_, kind)| kind != "model_call");
    assert_eq!(last.map(|(_, kind)| kind.as_str()), Some("status"));
    assert_eq!(done.map(|run| run.status), Some(RunStatus::Cancelled));
}
