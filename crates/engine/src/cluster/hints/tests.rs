use sortie_api::Timestamp;

use super::*;

fn run(number: u16) -> RunId {
    let [high, low] = number.to_be_bytes();
    RunId::new(
        Timestamp::from_micros(1_700_000_000_000_000),
        [0, 0, 0, 0, 0, 0, 0, 0, high, low],
    )
}

/// The sender of a node that has received hints from another node.
fn with_a_peer() -> HintSender {
    let hints = HintSender::default();
    hints.record_peer();
    hints
}

fn sent(hints: &HintSender) -> HintBatch {
    let text = hints.take().expect("there are hints").text().unwrap();
    assert!(text.len() <= LONGEST_HINT, "{}", text.len());
    serde_json::from_str(&text).unwrap()
}

#[test]
fn hints_that_come_together_are_one_batch() {
    let hints = with_a_peer();
    for (number, last) in [(1, 3), (2, 1), (1, 5), (1, 4)] {
        hints.events(run(number), last);
    }
    hints.ended(run(3));
    hints.work();
    hints.work();
    hints.workflows();
    let batch = sent(&hints);
    assert_eq!(batch.events, BTreeMap::from([(run(1), 5), (run(2), 1)]));
    assert_eq!(batch.ended, BTreeSet::from([run(3)]));
    assert_eq!(batch.topics, BTreeSet::from([Topic::Work, Topic::Workflows]));
    assert!(hints.take().is_none(), "it is sent once");
}

#[tokio::test]
async fn hints_that_come_while_nobody_waits_are_sent_by_the_next_who_waits() {
    let hints = with_a_peer();
    hints.events(run(1), 1);
    hints.added().await;
    assert!(futures_util::poll!(std::pin::pin!(hints.added())).is_pending());
}

#[test]
fn without_a_peer_nothing_is_gathered() {
    let hints = HintSender::default();
    hints.events(run(1), 1);
    hints.ended(run(1));
    hints.work();
    assert!(hints.take().is_none());
    // The sign-off is the exception: another node may just have begun to listen.
    hints.nodes();
    assert_eq!(sent(&hints).topics, BTreeSet::from([Topic::Nodes]));
}

#[test]
fn other_nodes_are_forgotten_a_lease_after_the_last_batch() {
    let hints = with_a_peer();
    hints.announce(Duration::from_hours(1));
    hints.work();
    assert_eq!(sent(&hints).topics, BTreeSet::from([Topic::Here, Topic::Work]));
    hints.announce(Duration::ZERO);
    hints.work();
    assert_eq!(sent(&hints).topics, BTreeSet::from([Topic::Here]));
}

#[test]
fn more_runs_than_can_be_named_concern_those_who_follow_runs_alone() {
    let hints = with_a_peer();
    for number in 0..3_000 {
        hints.events(run(number), i64::from(number));
        hints.ended(run(number));
    }
    hints.callbacks();
    let runs = HintBatch {
        topics: BTreeSet::from([Topic::Callbacks, Topic::Runs]),
        ..HintBatch::default()
    };
    assert_eq!(sent(&hints), runs);
    // Few runs, but too long for one batch.
    for number in 0..RUNS {
        hints.events(run(u16::try_from(number).unwrap()), i64::MAX);
    }
    assert_eq!(sent(&hints).topics, BTreeSet::from([Topic::Runs]));
    for number in 0..150 {
        hints.events(run(number), 100_000);
    }
    assert_eq!(sent(&hints).events.len(), 150);
}

#[test]
fn a_lost_batch_is_sent_as_everything() {
    let hints = with_a_peer();
    hints.events(run(1), 1);
    drop(hints.take());
    hints.mark_lost();
    hints.events(run(2), 1);
    assert_eq!(sent(&hints).topics, BTreeSet::from([Topic::Everything]));
}

#[test]
fn topics_of_a_later_version_are_no_error() {
    let text = r#"{"topics":["work","weather"],"more":{"x":1}}"#;
    let batch: HintBatch = serde_json::from_str(text).unwrap();
    assert_eq!(batch.topics, BTreeSet::from([Topic::Work, Topic::Later]));
}

#[test]
fn jobs_are_left_to_others_by_who_does_none() {
    let hints = HintSender::of(Serves::Nothing);
    hints.record_peer();
    TimerBell::new(hints.clone()).ring();
    assert_eq!(sent(&hints).topics, BTreeSet::from([Topic::Schedules]));
    let hints = HintSender::of(Serves::Everyone);
    hints.record_peer();
    let bell = TimerBell::new(hints.clone());
    bell.ring();
    assert!(hints.take().is_none(), "its own timer does it");
    hints.leave_jobs();
    bell.ring();
    assert_eq!(sent(&hints).topics, BTreeSet::from([Topic::Schedules]));
}

/// Whether `whom` has been notified.
fn is_woken(whom: &Notify) -> bool {
    let mut woken = std::pin::pin!(whom.notified());
    woken.as_mut().enable()
}

#[tokio::test]
async fn runs_that_are_not_named_wake_the_watch_and_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    let options = crate::kit::options::Options {
        data_dir: dir.path().to_owned(),
        ..crate::kit::options::Options::default()
    };
    let store = crate::testing::store_in(&dir).await;
    let engine = crate::testing::engine(options, store).await;
    // After the shutdown no task of the engine consumes the notifications that this test checks.
    engine.shutdown().await;
    let wake = &engine.0.cluster.wake;
    for whom in [&wake.work, &wake.watch, &wake.nodes] {
        is_woken(whom);
    }
    engine.apply_hints(r#"{"topics":["runs"]}"#);
    assert_eq!(
        [&wake.work, &wake.watch, &wake.nodes].map(|whom| is_woken(whom)),
        [false, true, false]
    );
    engine.apply_hints(r#"{"topics":["everything"]}"#);
    assert_eq!(
        [&wake.work, &wake.watch, &wake.nodes].map(|whom| is_woken(whom)),
        [true; 3]
    );
}

#[test]
fn other_nodes_get_a_hint_about_a_callback_that_only_they_may_have() {
    let org = sortie_api::OrgId::new(Timestamp::from_micros(1), [1; 10]);
    let hints = HintSender::of(Serves::Everyone);
    hints.record_peer();
    let delivery = crate::callbacks::DeliveryHints::new(hints.clone());
    delivery.due(org, "a:1");
    assert!(hints.take().is_none(), "its own callback worker does it");
    delivery.due_anywhere(org, "a:1");
    assert_eq!(sent(&hints).topics, BTreeSet::from([Topic::Callbacks]));
}
