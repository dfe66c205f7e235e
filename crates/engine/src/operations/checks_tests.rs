use serde_json::{Value, json};
use sortie_api::{RunId, Timestamp};
use sortie_store::{access::Caller, runs::Created};
use tempfile::TempDir;

use super::*;
use crate::{
    credentials::master_keys::SEAL_CHECK,
    testing::{bootstrapped, engine, idle, store_in},
};
use sortie_base::{Clock, MasterKey, Sealer};

const BEGIN: Timestamp = Timestamp::from_micros(1_767_225_630_000_000);

/// An engine that works on no runs, and a clock that a test moves.
struct Rig {
    engine: Engine,
    caller: Caller,
    clock: Clock,
    _dir: TempDir,
}

impl Rig {
    async fn start() -> Self {
        let (dir, clock) = (tempfile::tempdir().unwrap(), Clock::manual(BEGIN));
        let store = store_in(&dir).await;
        let engine = engine(idle(&clock, dir.path()), store).await;
        let caller = bootstrapped(&engine).await;
        Self {
            engine,
            caller,
            clock,
            _dir: dir,
        }
    }

    async fn run(&self, request: Value) -> RunId {
        let request = serde_json::from_value(request).unwrap();
        match self.engine.create_run(&self.caller, request, None).await.unwrap() {
            Created::New(run) | Created::Existing(run) => run.id,
        }
    }

    /// Result of the check of this name.
    async fn check(&self, name: &str) -> Check {
        let found = self.engine.checks(Some(self.caller.org), Providers::Left).await;
        found.checks.into_iter().find(|check| check.name == name).unwrap()
    }
}

#[tokio::test]
async fn a_database_that_fails_is_told_with_its_cause() {
    let cause = "no space left on the disk with data/sortie.db";
    let full = async { Err::<Check, _>(sortie_store::Error::Unavailable(cause.to_owned())) };
    let check = limited("readiness", full).await;
    assert_eq!(check.verdict, Verdict::Fault);
    assert_eq!(check.found, format!("the database is unavailable: {cause}"));
}

#[tokio::test]
async fn what_is_stuck_is_told() {
    let rig = Rig::start().await;
    let engine = &rig.engine;
    rig.run(json!({"prompt": "x", "shell": false})).await;
    let told = json!({"prompt": "x", "shell": false,
        "callback": {"url": "http://receiver.example/", "secret": "s"}});
    let told = rig.run(told).await;
    engine.cancel_run(rig.caller.org, told).await.unwrap();
    let workflow = serde_json::from_value(json!({"prompt": "x", "shell": false})).unwrap();
    engine.put_workflow(&rig.caller, "w", workflow).await.unwrap();
    let schedule = serde_json::from_value(json!({"workflow": "w", "cron": "*/10 * * * *"})).unwrap();
    engine.create_schedule(&rig.caller, schedule).await.unwrap();
    for name in ["queue", "callbacks", "schedules"] {
        assert_eq!(rig.check(name).await.verdict, Verdict::Ok, "{name}");
    }

    rig.clock.set(BEGIN + Duration::from_mins(15));
    let queue = rig.check("queue").await;
    assert_eq!(queue.verdict, Verdict::Warning);
    assert!(
        queue.found.starts_with("1 runs wait, the longest for 900 s"),
        "{}",
        queue.found
    );
    // By this clock the node's own lease has expired.
    assert!(
        queue
            .hints
            .iter()
            .any(|hint| hint.starts_with("1 nodes are gone")),
        "{:?}",
        queue.hints
    );
    let callbacks = rig.check("callbacks").await;
    assert!(
        callbacks.found.contains("receiver.example:80"),
        "{}",
        callbacks.found
    );
    let schedules = rig.check("schedules").await;
    assert_eq!(schedules.verdict, Verdict::Warning);
    assert!(
        schedules.found.starts_with("1 instants are overdue"),
        "{}",
        schedules.found
    );
}

/// Restoring a backup under a running node may bring back a database that was sealed with another key.
#[tokio::test]
async fn a_master_key_that_fits_no_more_is_told() {
    let rig = Rig::start().await;
    assert_eq!(rig.check("master key").await.verdict, Verdict::Ok);
    let other = MasterKey::new([2; 32]);
    let sealed = Sealer::new(vec![other.clone()])
        .seal(SEAL_CHECK, b"sortie", [9; 24])
        .unwrap();
    rig.engine.store().seal_check(sealed).await.unwrap();
    let told = rig.check("master key").await;
    assert_eq!(told.verdict, Verdict::Fault);
    assert!(told.found.contains(&other.id()), "{}", told.found);
}

#[tokio::test]
async fn a_node_without_a_sandbox_says_why() {
    let rig = Rig::start().await;
    let sandbox = rig.check("sandbox").await;
    assert_eq!(sandbox.verdict, Verdict::Fault);
    assert!(sandbox.found.contains("this test has none"), "{}", sandbox.found);
}

#[test]
fn little_space_is_told_before_there_is_none() {
    let verdict = |free| space_verdict(Check::new("disk", Verdict::Ok, ""), free).verdict;
    assert_eq!(verdict(LITTLE_SPACE), Verdict::Ok);
    assert_eq!(verdict(LITTLE_SPACE - 1), Verdict::Warning);
    assert_eq!(verdict(NO_SPACE - 1), Verdict::Fault);
}

#[tokio::test(start_paused = true)]
async fn a_check_that_does_not_answer_is_a_fault() {
    let check = limited("database", std::future::pending::<Result<Check, Refusal>>()).await;
    assert_eq!((check.name.as_str(), check.verdict), ("database", Verdict::Fault));
    assert!(check.found.contains("10 seconds"));
}

#[test]
fn a_long_log_of_the_database_is_told_with_its_cause() {
    let info = DatabaseInfo {
        kind: "SQLite".to_owned(),
        version: "3".to_owned(),
        migration: 1,
        known_migration: 1,
    };
    let of = |log| database_check(&info, Duration::ZERO, log);
    for log in [None, Some(0), Some(LONG_LOG)] {
        assert_eq!(
            (of(log).verdict, of(log).hints.len()),
            (Verdict::Ok, 0),
            "{log:?}"
        );
    }
    let long = of(Some(3 << 30));
    assert_eq!(long.verdict, Verdict::Warning);
    assert!(long.found.ends_with("a log of 3072 MiB"), "{}", long.found);
    assert!(
        long.hints[0].contains("another program reads"),
        "{:?}",
        long.hints
    );
}
