use sortie_api::Timestamp;

use super::*;

fn run(number: u16) -> RunId {
    let [high, low] = number.to_be_bytes();
    RunId::new(
        Timestamp::from_micros(1_700_000_000_000_000),
        [0, 0, 0, 0, 0, 0, 0, 0, high, low],
    )
}

/// The news of a node that has heard another.
fn in_company() -> News {
    let news = News::default();
    news.met();
    news
}

fn sent(news: &News) -> Bulletin {
    let text = news.take().expect("there is news").text().unwrap();
    assert!(text.len() <= LONGEST_SAID, "{}", text.len());
    serde_json::from_str(&text).unwrap()
}

#[test]
fn what_comes_together_is_one_bulletin() {
    let news = in_company();
    for (number, last) in [(1, 3), (2, 1), (1, 5), (1, 4)] {
        news.events(run(number), last);
    }
    news.ended(run(3));
    news.work();
    news.work();
    let bulletin = sent(&news);
    assert_eq!(bulletin.events, BTreeMap::from([(run(1), 5), (run(2), 1)]));
    assert_eq!(bulletin.ended, BTreeSet::from([run(3)]));
    assert_eq!(bulletin.topics, BTreeSet::from([Topic::Work]));
    assert!(news.take().is_none(), "it is told once");
}

#[tokio::test]
async fn news_that_comes_while_nobody_waits_is_told_to_who_waits_next() {
    let news = in_company();
    news.events(run(1), 1);
    news.arrived().await;
    assert!(futures_util::poll!(std::pin::pin!(news.arrived())).is_pending());
}

#[test]
fn nothing_is_gathered_for_nobody() {
    let news = News::default();
    news.events(run(1), 1);
    news.ended(run(1));
    news.work();
    assert!(news.take().is_none());
    // But for the goodbye: somebody may just have begun to listen.
    news.nodes();
    assert_eq!(sent(&news).topics, BTreeSet::from([Topic::Nodes]));
}

#[test]
fn other_nodes_are_forgotten_a_lease_after_the_last_was_heard() {
    let news = in_company();
    news.greet(Duration::from_hours(1));
    news.work();
    assert_eq!(sent(&news).topics, BTreeSet::from([Topic::Here, Topic::Work]));
    news.greet(Duration::ZERO);
    news.work();
    assert_eq!(sent(&news).topics, BTreeSet::from([Topic::Here]));
}

#[test]
fn more_runs_than_can_be_named_concern_those_who_follow_runs_alone() {
    let news = in_company();
    for number in 0..3_000 {
        news.events(run(number), i64::from(number));
        news.ended(run(number));
    }
    news.callbacks();
    let runs = Bulletin {
        topics: BTreeSet::from([Topic::Callbacks, Topic::Runs]),
        ..Bulletin::default()
    };
    assert_eq!(sent(&news), runs);
    // Few in number, and still too long.
    for number in 0..RUNS {
        news.events(run(u16::try_from(number).unwrap()), i64::MAX);
    }
    assert_eq!(sent(&news).topics, BTreeSet::from([Topic::Runs]));
    for number in 0..150 {
        news.events(run(number), 100_000);
    }
    assert_eq!(sent(&news).events.len(), 150);
}

#[test]
fn what_could_not_be_told_is_told_as_everything() {
    let news = in_company();
    news.events(run(1), 1);
    drop(news.take());
    news.missed();
    news.events(run(2), 1);
    assert_eq!(sent(&news).topics, BTreeSet::from([Topic::Everything]));
}

#[test]
fn what_a_later_version_tells_is_no_error() {
    let text = r#"{"topics":["work","weather"],"more":{"x":1}}"#;
    let bulletin: Bulletin = serde_json::from_str(text).unwrap();
    assert_eq!(bulletin.topics, BTreeSet::from([Topic::Work, Topic::Later]));
}

#[test]
fn jobs_are_left_to_others_by_who_does_none() {
    let news = News::of(Serves::Nothing);
    news.met();
    TimerBell::new(news.clone()).ring();
    assert_eq!(sent(&news).topics, BTreeSet::from([Topic::Schedules]));
    let news = News::of(Serves::Everyone);
    news.met();
    let bell = TimerBell::new(news.clone());
    bell.ring();
    assert!(news.take().is_none(), "its own timer does it");
    news.leave_jobs();
    bell.ring();
    assert_eq!(sent(&news).topics, BTreeSet::from([Topic::Schedules]));
}

/// Whether somebody was woken.
fn is_woken(whom: &Notify) -> bool {
    let mut woken = std::pin::pin!(whom.notified());
    woken.as_mut().enable()
}

#[tokio::test]
async fn runs_that_are_not_named_wake_the_watch_and_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", dir.path().join("test.db").display());
    let options = crate::kit::options::Options {
        data_dir: dir.path().to_owned(),
        ..crate::kit::options::Options::default()
    };
    let store = sortie_store::Store::open(&url).await.unwrap();
    let sandbox = Err("this test has none.".to_owned());
    let engine = crate::Engine::start(options, store, sandbox).await.unwrap();
    // Its own tasks are over: nobody else takes what is looked at here.
    engine.shutdown().await;
    let wake = &engine.0.cluster.wake;
    for whom in [&wake.work, &wake.watch, &wake.nodes] {
        is_woken(whom);
    }
    engine.act_on(r#"{"topics":["runs"]}"#);
    assert_eq!(
        [&wake.work, &wake.watch, &wake.nodes].map(|whom| is_woken(whom)),
        [false, true, false]
    );
    engine.act_on(r#"{"topics":["everything"]}"#);
    assert_eq!(
        [&wake.work, &wake.watch, &wake.nodes].map(|whom| is_woken(whom)),
        [true; 3]
    );
}

#[test]
fn other_nodes_are_told_of_a_callback_that_only_they_may_have() {
    let org = sortie_api::OrgId::new(Timestamp::from_micros(1), [1; 10]);
    let news = News::of(Serves::Everyone);
    news.met();
    let hints = crate::callbacks::Hints::new(news.clone());
    hints.due(org, "a:1");
    assert!(news.take().is_none(), "its own callback worker does it");
    hints.due_anywhere(org, "a:1");
    assert_eq!(sent(&news).topics, BTreeSet::from([Topic::Callbacks]));
}
