//! Schedules of engines with a stopped clock, which the test sets. The nodes work on no runs, so runs stay as they are, and the
//! test calls the timers.

mod many_nodes;
mod refusals;
mod replaced;

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};
use sortie_api::{ActorKind, ErrorCode, Refusal, RunId, RunStatus, schedule::FireOutcome};
use sortie_store::{
    Store,
    access::Caller,
    nodes::{NewNode, NodeId},
    runs::{Finish, NewEvent},
};
use sortie_testkit::{postgres::TestDatabase, rows};

use super::*;
use crate::{
    kit::options::Options,
    testing::{bootstrapped, engine, idle, new_node},
};
use sortie_base::Clock;

/// Engines on one database with one clock, and an organization with the workflow `w`.
struct Rig {
    engines: Vec<Engine>,
    clock: Clock,
    caller: Caller,
    database: TestDatabase,
    _dir: tempfile::TempDir,
}

fn at(text: &str) -> Timestamp {
    let at: jiff::Timestamp = text.parse().unwrap();
    Timestamp::from_micros(at.as_microsecond())
}

const BEGIN: &str = "2026-01-01T00:00:30Z";

impl Rig {
    async fn sqlite() -> Self {
        Self::on(TestDatabase::sqlite().unwrap(), 1).await
    }

    async fn on(database: TestDatabase, nodes: usize) -> Self {
        let clock = Clock::manual(at(BEGIN));
        let dir = tempfile::tempdir().unwrap();
        let mut engines: Vec<Engine> = Vec::new();
        for node in 0..nodes {
            // SQLite allows one process, and the engines of this test share one store.
            let store = match engines.first() {
                Some(first) if database.url().starts_with("sqlite") => first.store().clone(),
                _ => Store::open(database.url()).await.unwrap(),
            };
            let options = Options {
                node_name: format!("node-{node}"),
                ..idle(&clock, &dir.path().join(node.to_string()))
            };
            engines.push(engine(options, store).await);
        }
        let caller = bootstrapped(&engines[0]).await;
        let rig = Self {
            engines,
            clock,
            caller,
            database,
            _dir: dir,
        };
        rig.put("w", json!({"prompt": "x", "shell": false})).await;
        rig
    }

    fn engine(&self) -> &Engine {
        &self.engines[0]
    }

    async fn put(&self, name: &str, definition: Value) {
        let definition = serde_json::from_value(definition).unwrap();
        self.engine()
            .put_workflow(&self.caller, name, definition)
            .await
            .unwrap();
    }

    async fn create(&self, fields: Value) -> Result<Schedule, Refusal> {
        let mut whole = json!({"workflow": "w", "cron": "*/10 * * * *"});
        for (name, value) in fields.as_object().unwrap() {
            whole[name] = value.clone();
        }
        let request = serde_json::from_value(whole).unwrap();
        self.engine().create_schedule(&self.caller, request).await
    }

    async fn patch(&self, id: ScheduleId, fields: Value) -> Result<Schedule, Refusal> {
        let patch = serde_json::from_value(fields).unwrap();
        self.engine().update_schedule(&self.caller, id, patch).await
    }

    async fn made(&self, fields: Value) -> Schedule {
        self.create(fields).await.unwrap()
    }

    async fn patched(&self, id: ScheduleId, fields: Value) -> Schedule {
        self.patch(id, fields).await.unwrap()
    }

    async fn get(&self, id: ScheduleId) -> Schedule {
        self.engine().get_schedule(self.caller.org, id).await.unwrap()
    }

    /// Sets the clock and makes the first node process the due schedules.
    async fn go(&self, to: &str) {
        self.clock.set(at(to));
        self.engine().fire_due(self.clock.now()).await.unwrap();
    }

    /// The whole history, oldest first.
    async fn fires(&self, id: ScheduleId) -> Vec<Fire> {
        let mut all: Vec<Fire> = Vec::new();
        loop {
            let before = all.last().map(|last| (last.instant, String::new()));
            let some = self
                .engine()
                .list_fires(self.caller.org, id, before, 500)
                .await
                .unwrap();
            if some.is_empty() {
                all.reverse();
                return all;
            }
            all.extend(some);
        }
    }

    /// The history in short form: the time of day and the outcome.
    async fn told(&self, id: ScheduleId) -> Vec<String> {
        let told = |fire: Fire| {
            let time = fire.instant.to_string()[11..16].to_owned();
            let became = fire.reason.unwrap_or_else(|| fire.outcome.as_str().to_owned());
            format!("{time} {became}")
        };
        self.fires(id).await.into_iter().map(told).collect()
    }

    async fn run(&self, id: RunId) -> Run {
        self.engine().store().get_run(self.caller.org, id).await.unwrap()
    }

    /// Ends a queued run as a worker would.
    async fn end(&self, id: RunId, status: RunStatus) {
        let store = self.engine().store();
        let now = self.clock.now();
        let node = NodeId(77);
        let _known = store
            .register_node(NewNode {
                name: "worker".to_owned(),
                lease_until: now + Duration::from_hours(24 * 365 * 9),
                ..new_node(node, &Options::default(), now)
            })
            .await;
        let claims = store.claim_named(node, vec![id], None, now).await.unwrap();
        let fence = claims[0].fence;
        let event = |status| NewEvent::new(&sortie_api::EventType::status(status), now).unwrap();
        store
            .start_run(fence, vec![event(RunStatus::Running)])
            .await
            .unwrap();
        let fence = sortie_store::runs::Fence {
            last_event: fence.last_event + 1,
            ..fence
        };
        let finish = Finish {
            status,
            output: None,
            error: (status == RunStatus::Failed).then(|| "it broke".to_owned()),
            cost: sortie_api::Micros::ZERO,
            usage: sortie_api::RunUsage::default(),
            events: vec![event(status)],
            journal: sortie_store::runs::Journal::Empty,
            stored_credentials: sortie_store::runs::StoredCredentials::Absent,
            receiver: sortie_store::runs::Receiver::Nobody,
            artifacts: None,
            at: now,
        };
        store.finish_run(fence, finish).await.unwrap();
    }

    async fn end_last(&self, id: ScheduleId, status: RunStatus) -> RunId {
        let run = self.get(id).await.last_run_id.unwrap();
        self.end(run, status).await;
        run
    }
}

fn invalid(refused: Result<Schedule, Refusal>) -> String {
    match refused {
        Err(refused) if refused.code == ErrorCode::InvalidRequest => refused.text.into_owned(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_schedule_starts_its_workflow_at_its_instants() {
    let rig = Rig::sqlite().await;
    let made = rig
        .made(json!({"name": "n", "input": {"a": 1}, "max_cost_micros": 77, "timezone": "europe/berlin"}))
        .await;
    assert_eq!(made.timezone, "Europe/Berlin");
    assert_eq!(made.next_run_at, Some(at("2026-01-01T00:10:00Z")));
    rig.go("2026-01-01T00:09:59Z").await;
    assert_eq!(rig.told(made.id).await, [""; 0]);
    rig.go("2026-01-01T00:10:00Z").await;
    rig.go("2026-01-01T00:10:01Z").await;
    assert_eq!(rig.told(made.id).await, ["00:10 started"]);
    let now = rig.get(made.id).await;
    assert_eq!(now.next_run_at, Some(at("2026-01-01T00:20:00Z")));
    assert_eq!(now.last_run_at, Some(at("2026-01-01T00:10:00Z")));
    let run = rig.run(now.last_run_id.unwrap()).await;
    assert_eq!(
        (run.schedule_id, run.workflow.as_deref()),
        (Some(made.id), Some("w"))
    );
    assert_eq!(run.max_cost_micros.get(), 77);
    let used = rig
        .engine()
        .store()
        .run_definition(rig.caller.org, run.id)
        .await
        .unwrap();
    let used = used.request.unwrap();
    assert!(used.contains(r#""input":{"a":1}"#), "{used}");
    assert_eq!(now.updated_at, made.updated_at, "nobody has changed it");
}

#[tokio::test]
async fn what_a_run_would_be_refused_for_is_refused_when_it_is_saved_and_skipped_when_it_is_due() {
    let rig = Rig::sqlite().await;
    let schema = json!({"type": "object", "required": ["day"]});
    rig.put(
        "strict",
        json!({"prompt": "x", "shell": false, "input_schema": schema}),
    )
    .await;
    for (fields, told) in rows! {
        json!({"workflow": "none"}), "workflow: no workflow";
        json!({"workflow": "A B"}), "workflow: a name is";
        json!({"workflow": "strict"}), "input: required";
        json!({"workflow": "strict", "input": {}}), "input.day: required";
        json!({"cron": "0 0 31 2 *"}), "cron: no month";
        json!({"cron": "* * * * * *"}), "cron: must be five fields";
        json!({"timezone": "Berlin"}), "timezone: no IANA time zone";
        json!({"max_cost_micros": 0}), "max_cost_micros: must be from 1";
        json!({"jitter_seconds": 3_601}), "jitter_seconds: must be from 0 to 3600";
        json!({"catch_up_window_seconds": -1}), "catch_up_window_seconds: must be from 0";
        json!({"max_consecutive_failures": 0}), "max_consecutive_failures: must be from 1 to 100";
        json!({"name": " "}), "name: must be 1 to 200";
    } {
        let rule = invalid(rig.create(fields).await);
        assert!(rule.starts_with(told), "{rule}");
    }
    let made = rig.made(json!({"workflow": "strict", "input": {"day": 1}})).await;
    assert_eq!(
        invalid(rig.patch(made.id, json!({"input": null})).await),
        "input: required by input_schema"
    );
    let stricter = json!({"type": "object", "required": ["week"]});
    rig.put(
        "strict",
        json!({"prompt": "x", "shell": false, "input_schema": stricter}),
    )
    .await;
    rig.go("2026-01-01T00:10:00Z").await;
    assert_eq!(rig.told(made.id).await, ["00:10 invalid: input.week: required"]);
    let now = rig.get(made.id).await;
    assert_eq!(now.last_error.as_deref(), Some("input.week: required"));
    assert_eq!(now.last_run_id, None);
    rig.patched(made.id, json!({"input": {"week": 1}})).await;
    rig.go("2026-01-01T00:20:00Z").await;
    assert_eq!(rig.told(made.id).await[1], "00:20 started");
    assert_eq!(rig.get(made.id).await.last_error, None);
}

#[tokio::test]
async fn a_schedule_that_fails_does_not_keep_the_others() {
    let rig = Rig::sqlite().await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(rig.made(json!({})).await.id);
    }
    let broken = format!("UPDATE schedule SET timezone = 'nowhere' WHERE id = '{}'", ids[1]);
    rig.database.change(&broken).await.unwrap();
    rig.clock.set(at("2026-01-01T00:10:00Z"));
    rig.engine().fire_due(rig.clock.now()).await.unwrap_err();
    for id in [ids[0], ids[2]] {
        assert_eq!(rig.told(id).await, ["00:10 started"]);
    }
    assert_eq!(rig.fires(ids[1]).await.len(), 0);
}

#[tokio::test]
async fn overlap_allow_starts_another_run_and_skip_does_not() {
    let rig = Rig::sqlite().await;
    let allow = rig.made(json!({})).await.id;
    let skip = rig.made(json!({"overlap": "skip"})).await.id;
    rig.go("2026-01-01T00:10:00Z").await;
    rig.go("2026-01-01T00:20:00Z").await;
    assert_eq!(rig.told(allow).await, ["00:10 started", "00:20 started"]);
    assert_eq!(rig.told(skip).await, ["00:10 started", "00:20 overlap"]);
    rig.end_last(skip, RunStatus::Succeeded).await;
    rig.go("2026-01-01T00:30:00Z").await;
    assert_eq!(rig.told(skip).await[2], "00:30 started");
}

#[tokio::test]
async fn overlap_queue_one_keeps_one_instant_waiting_for_the_run_before_it() {
    let rig = Rig::sqlite().await;
    let id = rig.made(json!({"overlap": "queue_one"})).await.id;
    rig.go("2026-01-01T00:10:00Z").await;
    rig.go("2026-01-01T00:20:00Z").await;
    rig.go("2026-01-01T00:30:00Z").await;
    assert_eq!(
        rig.told(id).await,
        ["00:10 started", "00:20 waiting", "00:30 overlap"]
    );
    let first = rig.end_last(id, RunStatus::Failed).await;
    rig.go("2026-01-01T00:31:00Z").await;
    assert_eq!(
        rig.told(id).await,
        ["00:10 started", "00:20 started", "00:30 overlap"]
    );
    let second = rig.get(id).await.last_run_id.unwrap();
    assert_ne!(first, second);
    rig.go("2026-01-01T00:40:00Z").await;
    assert_eq!(rig.told(id).await[3], "00:40 waiting");
    // An occurrence that waits when the schedule is disabled does not start.
    rig.patched(id, json!({"enabled": false})).await;
    rig.end(second, RunStatus::Succeeded).await;
    rig.go("2026-01-01T00:41:00Z").await;
    assert_eq!(rig.told(id).await[3], "00:40 disabled");
}

#[tokio::test]
async fn overlap_cancel_other_cancels_what_is_still_open() {
    let rig = Rig::sqlite().await;
    let id = rig.made(json!({"overlap": "cancel_other"})).await.id;
    rig.go("2026-01-01T00:10:00Z").await;
    let first = rig.get(id).await.last_run_id.unwrap();
    rig.go("2026-01-01T00:20:00Z").await;
    assert_eq!(rig.told(id).await, ["00:10 started", "00:20 started"]);
    assert_eq!(rig.run(first).await.status, RunStatus::Cancelled);
    let second = rig.get(id).await.last_run_id.unwrap();
    assert_eq!(rig.run(second).await.status, RunStatus::Queued);
}

#[tokio::test]
async fn too_many_failures_in_a_row_switch_a_schedule_off_until_somebody_switches_it_on() {
    let rig = Rig::sqlite().await;
    let id = rig.made(json!({"max_consecutive_failures": 2})).await.id;
    for (to, ended) in [
        ("00:10", RunStatus::Failed),
        ("00:20", RunStatus::Succeeded),
        ("00:30", RunStatus::TimedOut),
        ("00:40", RunStatus::Interrupted),
    ] {
        rig.go(&format!("2026-01-01T{to}:00Z")).await;
        rig.end_last(id, ended).await;
    }
    assert!(rig.get(id).await.enabled);
    rig.go("2026-01-01T00:50:00Z").await;
    assert_eq!(rig.told(id).await[4], "00:50 failures");
    let filter = sortie_store::access::AuditFilter {
        action: Some("schedule.pause".to_owned()),
        limit: 10,
        ..sortie_store::access::AuditFilter::default()
    };
    let paused = rig
        .engine()
        .store()
        .list_audit(rig.caller.org, filter)
        .await
        .unwrap()
        .items;
    assert_eq!(paused.len(), 1);
    assert_eq!(paused[0].target, id.to_string());
    assert_eq!(paused[0].actor_kind, Some(ActorKind::Schedule));
    assert_eq!(paused[0].actor_id, Some(id.to_string()));
    let off = rig.get(id).await;
    assert_eq!((off.enabled, off.next_run_at), (false, None));
    assert!(
        off.last_error
            .unwrap()
            .starts_with("switched off: 2 runs in a row")
    );
    rig.go("2026-01-01T02:00:00Z").await;
    assert_eq!(rig.told(id).await.len(), 5, "it has no instants");
    let on = rig.patched(id, json!({"enabled": true})).await;
    assert_eq!(
        (on.enabled, on.next_run_at),
        (true, Some(at("2026-01-01T02:10:00Z")))
    );
    rig.go("2026-01-01T02:10:00Z").await;
    assert_eq!(rig.told(id).await[5], "02:10 started");
}

#[tokio::test]
async fn a_node_that_was_away_catches_up_with_one_run_and_a_row_for_every_instant() {
    let rig = Rig::sqlite().await;
    let id = rig.made(json!({"catch_up_window_seconds": 1_200})).await.id;
    let never = rig.made(json!({"catch_up_window_seconds": 0})).await.id;
    rig.go("2026-01-01T00:55:00Z").await;
    assert_eq!(
        rig.told(id).await,
        [
            "00:10 missed",
            "00:20 missed",
            "00:30 missed",
            "00:40 coalesced",
            "00:50 started"
        ]
    );
    assert_eq!(rig.told(never).await.len(), 5);
    assert!(rig.told(never).await.iter().all(|told| told.ends_with("missed")));
    // The clock is set back: no occurrence is processed twice.
    rig.go("2026-01-01T00:30:00Z").await;
    rig.patched(id, json!({"cron": "5 * * * *"})).await;
    rig.patched(id, json!({"cron": "*/10 * * * *"})).await;
    rig.go("2026-01-01T00:56:00Z").await;
    assert_eq!(rig.told(id).await.len(), 5);
    assert_eq!(rig.get(id).await.next_run_at, Some(at("2026-01-01T01:00:00Z")));
}

#[tokio::test]
async fn a_pause_skips_its_instants_and_a_change_deals_first_with_what_is_due() {
    let rig = Rig::sqlite().await;
    let id = rig.made(json!({"paused_until": "2026-01-01T00:15:00Z"})).await.id;
    rig.go("2026-01-01T00:10:00Z").await;
    assert_eq!(rig.told(id).await, ["00:10 paused"]);
    rig.clock.set(at("2026-01-01T00:20:05Z"));
    let changed = rig
        .patched(id, json!({"cron": "0 * * * *", "paused_until": null}))
        .await;
    assert_eq!(rig.told(id).await, ["00:10 paused", "00:20 started"]);
    assert_eq!(
        (changed.paused_until, changed.next_run_at),
        (None, Some(at("2026-01-01T01:00:00Z")))
    );
}

#[tokio::test]
async fn a_start_by_hand_asks_nobody_and_is_in_the_history() {
    let rig = Rig::sqlite().await;
    let id = rig.made(json!({"enabled": false, "overlap": "skip"})).await.id;
    let first = rig.engine().trigger_schedule(&rig.caller, id).await.unwrap();
    let second = rig.engine().trigger_schedule(&rig.caller, id).await.unwrap();
    assert_eq!(first.schedule_id, Some(id));
    let fires = rig.fires_by_hand(id).await;
    assert_eq!(fires, BTreeSet::from([first.id, second.id]));
    assert_eq!(rig.get(id).await.last_run_id, Some(second.id));
    let unknown = ScheduleId::new(rig.clock.now(), [9; 10]);
    let refused = rig.engine().trigger_schedule(&rig.caller, unknown).await;
    assert!(matches!(&refused, Err(refused) if refused.code == ErrorCode::NotFound));
}

impl Rig {
    async fn fires_by_hand(&self, id: ScheduleId) -> BTreeSet<RunId> {
        let fires = self
            .engine()
            .list_fires(self.caller.org, id, None, 100)
            .await
            .unwrap();
        assert!(fires.iter().all(|fire| fire.trigger == FireTrigger::Manual));
        fires.iter().map(|fire| fire.run_id.unwrap()).collect()
    }
}

#[tokio::test]
async fn a_preview_has_the_instants_that_come_also_of_a_schedule_that_is_off() {
    let rig = Rig::sqlite().await;
    let id = rig.made(json!({"enabled": false, "jitter_seconds": 60})).await.id;
    let next = rig.engine().next_fires(rig.caller.org, id, 3).await.unwrap();
    let instants: Vec<String> = next.iter().map(|next| next.instant.to_string()).collect();
    assert_eq!(
        instants,
        ["10", "20", "30"].map(|minute| format!("2026-01-01T00:{minute}:00.000Z"))
    );
    assert!(next.iter().all(|next| next.run_at >= next.instant));
    // An occurrence that is due but not processed yet comes first.
    rig.patched(id, json!({"enabled": true, "jitter_seconds": null}))
        .await;
    rig.clock.set(at("2026-01-01T00:25:00Z"));
    let next = rig.engine().next_fires(rig.caller.org, id, 2).await.unwrap();
    assert_eq!(next[0].instant, at("2026-01-01T00:10:00Z"));
}

#[tokio::test]
async fn a_deleted_schedule_leaves_its_runs_and_nothing_else() {
    let rig = Rig::sqlite().await;
    let id = rig.made(json!({})).await.id;
    rig.go("2026-01-01T00:10:00Z").await;
    let run = rig.get(id).await.last_run_id.unwrap();
    rig.engine().delete_schedule(&rig.caller, id).await.unwrap();
    rig.go("2026-01-01T00:20:00Z").await;
    assert_eq!(rig.run(run).await.schedule_id, Some(id));
    let gone = rig.engine().list_fires(rig.caller.org, id, None, 10).await;
    assert!(matches!(&gone, Err(refused) if refused.code == ErrorCode::NotFound));
    assert!(
        matches!(rig.engine().delete_schedule(&rig.caller, id).await, Err(refused) if refused.code == ErrorCode::NotFound)
    );
}

#[tokio::test]
async fn instants_are_forgotten_when_their_retention_is_over_and_start_nothing_again() {
    let rig = Rig::sqlite().await;
    let id = rig.made(json!({"overlap": "skip"})).await.id;
    for time in [
        "2026-01-01T00:10:00Z",
        "2026-01-01T00:20:00Z",
        "2026-01-01T00:30:00Z",
    ] {
        rig.go(time).await;
    }
    assert_eq!(
        rig.told(id).await,
        ["00:10 started", "00:20 overlap", "00:30 overlap"]
    );
    rig.clock.set(at("2026-01-02T00:25:00Z"));
    let day = Duration::from_hours(24);
    let deleted = crate::operations::retention::delete_expired(rig.engine().store(), &rig.clock, day).await;
    assert_eq!(deleted.unwrap().fires, 2);
    assert_eq!(rig.told(id).await, ["00:30 overlap"]);
    rig.go("2026-01-01T00:20:00Z").await;
    assert_eq!(rig.told(id).await, ["00:30 overlap"], "they were processed");
}
