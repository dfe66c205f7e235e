use std::{sync::Arc, time::Duration};

use sortie_api::Micros;
use sortie_store::runs::StoredCredentials;
use tokio::time::{Instant, sleep};

use super::{
    Worker,
    attempt::Attempt,
    ended::Ended,
    recorder::Recorder,
    resume::{AttemptState, Files},
    storing::Waited,
};
use crate::{
    files::Standing,
    runs::{active::StopReason, run_log::RunLog},
    testing::{Held, held},
};

/// An attempt at the run of `held` with a time limit of a minute.
fn attempt<'a>(held: &'a Held, worker: &'a Worker) -> Attempt<'a> {
    let (claim, run) = (&held.claim, held.claim.fence.run);
    let log = RunLog::new(worker.records.clone(), run, claim.retention());
    let (hub, clock) = (worker.hub.clone(), worker.clock.clone());
    Attempt {
        worker,
        claim,
        recorder: Recorder::new(run, log.clone(), hub, clock, Arc::clone(&worker.metrics)),
        log,
        active_run: worker.active.enter(run),
        started: Instant::now(),
        deadline: Instant::now() + Duration::from_mins(1),
        spent: Micros::ZERO,
        stored_credentials: StoredCredentials::Possible,
        resumed: None,
        charged_until: None,
        workspace: None,
        left_tasks: None,
    }
}

/// Whether two times on the paused clock are equal. Timers have a resolution of milliseconds.
fn is(found: Duration, wanted: Duration) -> bool {
    found.abs_diff(wanted) < Duration::from_millis(20)
}

#[tokio::test]
async fn a_run_that_waits_for_its_files_keeps_half_of_its_time_and_fails_when_the_storage_stays_away() {
    let held = held().await;
    let worker = held.worker().await;
    tokio::time::pause();
    let mut attempt = attempt(&held, &worker);
    let (begun, why) = (Instant::now(), || "why".to_owned());
    let standing = worker.contents.standing();
    standing.set(Standing::Away, None);
    let waited = attempt.wait_for_files(begun, Duration::ZERO, why()).await;
    assert!(matches!(waited, Waited::Again));
    assert!(is(begun.elapsed(), Duration::from_secs(30)));
    assert_eq!(worker.active.taken_slots(1), 1);
    let up = async {
        sleep(Duration::from_mins(10)).await;
        assert_eq!(worker.active.taken_slots(1), 0);
        standing.set(Standing::Up, None);
    };
    let (waited, ()) = tokio::join!(attempt.wait_for_files(begun, Duration::ZERO, why()), up);
    assert!(matches!(waited, Waited::Again));
    assert_eq!(worker.active.taken_slots(1), 1);
    // The wait does not count as run time.
    let left = attempt.deadline.saturating_duration_since(Instant::now());
    assert!(is(left, Duration::from_secs(30)), "{left:?}");
    assert!(is(attempt.started.elapsed(), Duration::from_secs(30)));
    standing.set(Standing::Away, None);
    let waited = attempt.wait_for_files(begun, Duration::ZERO, why()).await;
    assert!(matches!(waited, Waited::Ended(Ended::Failed(reason)) if reason == "why"));
    assert!(is(begun.elapsed(), Duration::from_mins(62)));
}

#[tokio::test]
async fn a_set_up_that_fails_at_the_deadline_is_the_time_limit() {
    let mut held = held().await;
    held.claim.definition = Some(r#"{"prompt":"x","shell":false,"model":"gone"}"#.to_owned());
    let worker = held.worker().await;
    let mut attempt = attempt(&held, &worker);
    let run = held.claim.fence.run;
    for (time, is_late) in [(Duration::from_mins(1), false), (Duration::ZERO, true)] {
        attempt.deadline = Instant::now() + time;
        let mut state = AttemptState {
            workspace: worker.workspace(run, held.claim.retention()),
            files: Files::NotStaged,
            journal: None,
        };
        match attempt.prepare(&mut state).await {
            Err(Ended::TimedOut) if is_late => {}
            Err(Ended::Failed(reason)) if !is_late => {
                assert_eq!(reason, "model \"gone\" is no longer available");
            }
            Err(other) => panic!("{other:?} {time:?}"),
            Ok(_) => panic!("the set-up does not fail"),
        }
    }
}

#[tokio::test]
async fn a_run_that_waits_for_its_files_is_stopped_at_once() {
    let held = held().await;
    let worker = held.worker().await;
    tokio::time::pause();
    let mut attempt = attempt(&held, &worker);
    worker.contents.standing().set(Standing::Away, None);
    worker.active.stop(held.claim.fence.run, StopReason::NotOurs);
    let waited = attempt
        .wait_for_files(Instant::now(), Duration::ZERO, "why".to_owned())
        .await;
    assert!(matches!(
        waited,
        Waited::Ended(Ended::Stopped(StopReason::NotOurs))
    ));
}
