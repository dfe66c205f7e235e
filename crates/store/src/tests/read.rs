use sortie_api::Run;

use super::prelude::*;
use crate::runs::{EventRow, EventSelection, ListedRun};

async fn listed(
    fixture: &Fixture,
    org: OrgId,
    status: Option<RunStatus>,
    before: Option<(Timestamp, RunId)>,
    limit: u32,
) -> Vec<RunId> {
    let filter = RunFilter {
        statuses: status.into_iter().collect(),
        before,
        limit,
        ..RunFilter::default()
    };
    let runs = fixture.store.list_runs(org, filter).await.unwrap().items;
    runs.iter().map(|listed| listed.run.id).collect()
}

/// Reads the events of a finished run, and each of its texts separately.
pub(super) async fn read_events_and_texts(fixture: &Fixture, org: OrgId, run: RunId) {
    let some = EventSelection {
        after: 0,
        before: 9,
        kinds: vec!["status"],
    };
    for selection in [EventSelection::after(0), some] {
        fixture
            .store
            .list_events(org, run, selection.clone(), 10)
            .await
            .unwrap();
        fixture
            .store
            .newest_events(org, run, selection, 10)
            .await
            .unwrap();
    }
    for text in [
        LargeText::Output(run),
        LargeText::Definition(run),
        LargeText::Event(run, 1),
    ] {
        fixture.store.large_text(org, text).await.unwrap();
    }
}

both! {
    async fn runs_are_listed_newest_first(fixture: &Fixture, org: OrgId, other: OrgId) {
        let mut ids = Vec::new();
        for _ in 0..5 {
            ids.insert(0, fixture.queued(org).await);
            fixture.queued(other).await;
        }
        assert_eq!(listed(fixture, org, None, None, 100).await, ids);
        assert_eq!(listed(fixture, org, None, None, 2).await, ids[..2]);
    }

    async fn pages_join_without_gap_or_repeat_even_at_the_same_time(fixture: &Fixture, org: OrgId, at: Timestamp) {
        for _ in 0..7 {
            let mut run = fixture.new_run(org);
            run.created_at = at;
            fixture.store.create_run(run).await.unwrap();
        }
        let all = listed(fixture, org, None, None, 100).await;
        let mut paged = Vec::new();
        let mut before = None;
        loop {
            let page = listed(fixture, org, None, before, 3).await;
            let Some(last) = page.last() else { break };
            before = Some((at, *last));
            paged.extend(page);
        }
        assert_eq!(paged, all);
        assert_eq!(all.len(), 7);
    }

    async fn runs_are_listed_by_status(fixture: &Fixture, org: OrgId, node: NodeId) {
        let done = fixture.finished(org, node).await.id;
        let cancelled = fixture.queued(org).await;
        fixture.store.cancel_run(org, cancelled, fixture.now()).await.unwrap();
        let running = fixture.running(org, node).await.run;
        let waiting = [fixture.queued(org).await, fixture.queued(org).await];
        let by = async |status| listed(fixture, org, Some(status), None, 100).await;
        assert_eq!(by(RunStatus::Succeeded).await, [done]);
        assert_eq!(by(RunStatus::Cancelled).await, [cancelled]);
        assert_eq!(by(RunStatus::Running).await, [running]);
        assert_eq!(by(RunStatus::Queued).await, [waiting[1], waiting[0]]);
        assert!(by(RunStatus::Failed).await.is_empty());
        assert!(by(RunStatus::Starting).await.is_empty());
        // The run was cancelled while its worker held it, and is not settled yet.
        fixture.store.cancel_run(org, running, fixture.now()).await.unwrap();
        assert_eq!(by(RunStatus::Cancelled).await, [running, cancelled]);
        assert!(by(RunStatus::Running).await.is_empty());
    }

    async fn open_runs_are_listed_page_by_page(fixture: &Fixture, org: OrgId, other: OrgId, node: NodeId, at: Timestamp) {
        for org in [org, other, org, org, other, org, org] {
            let mut run = fixture.new_run(org);
            run.created_at = at;
            fixture.store.create_run(run).await.unwrap();
        }
        for status in [RunStatus::Queued, RunStatus::Starting] {
            let all = listed(fixture, org, Some(status), None, 100).await;
            let mut paged = Vec::new();
            while paged.len() < all.len() {
                let before = paged.last().map(|last| (at, *last));
                paged.extend(listed(fixture, org, Some(status), before, 2).await);
            }
            assert_eq!((paged.len(), paged), (5, all));
            fixture.claim(node, 100).await;
        }
    }

    async fn runs_are_listed_by_tag_with_the_other_filters(fixture: &Fixture, org: OrgId, other: OrgId, node: NodeId) {
        let tagged = async |org, tags: &[&str], schedule: Option<ScheduleId>| {
            let mut run = fixture.new_run(org);
            run.labels.tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
            run.labels.schedule = schedule;
            fixture.store.create_run(run.clone()).await.unwrap();
            run.id
        };
        let schedule: ScheduleId = "sched_01hf7yat00e0080000000000aa".parse().unwrap();
        let first = tagged(org, &["nightly", "a b"], None).await;
        let second = tagged(org, &["nightly"], Some(schedule)).await;
        tagged(org, &["weekly"], Some(schedule)).await;
        tagged(other, &["nightly"], None).await;
        let claim = fixture.claim(node, 4).await.into_iter().find(|claim| claim.fence.run == first).unwrap();
        let fence = fixture.start(claim.fence).await.unwrap();
        fixture.store.finish_run(fence, fixture.succeeded("out")).await.unwrap();
        let third = tagged(org, &["nightly"], None).await;

        let by = async |tag: &str, status: Option<RunStatus>, schedule, before| {
            let filter = RunFilter { statuses: status.into_iter().collect(), schedule, tag: Some(tag.to_owned()), before, limit: 2, ..RunFilter::default() };
            let runs = fixture.store.list_runs(org, filter).await.unwrap().items;
            runs.iter().map(|listed| listed.run.id).collect::<Vec<_>>()
        };
        assert_eq!(by("nightly", None, None, None).await, [third, second]);
        let last = fixture.get(org, second).await;
        assert_eq!(by("nightly", None, None, Some((last.created_at, second))).await, [first]);
        assert_eq!(by("a b", None, None, None).await, [first]);
        assert_eq!(by("nightly", Some(RunStatus::Succeeded), None, None).await, [first]);
        assert_eq!(by("nightly", None, Some(schedule), None).await, [second]);
        assert!(by("nightly", Some(RunStatus::Succeeded), Some(schedule), None).await.is_empty());
        assert!(by("night", None, None, None).await.is_empty());
        assert_eq!(fixture.get(org, first).await.tags, ["nightly", "a b"]);
        assert_eq!(last.schedule_id, Some(schedule));
    }

    async fn runs_of_a_schedule_are_listed_by_status(fixture: &Fixture, org: OrgId, node: NodeId) {
        let done = fixture.finished(org, node).await.id;
        let running = fixture.running(org, node).await.run;
        let waiting = fixture.queued(org).await;
        let schedule: ScheduleId = "sched_01hf7yat00e0080000000000aa".parse().unwrap();
        fixture.sql("UPDATE run SET schedule_id = $1", vals![schedule]).await;
        fixture.queued(org).await;
        let by = async |status: Option<RunStatus>| {
            let filter = RunFilter { statuses: status.into_iter().collect(), schedule: Some(schedule), limit: 10, ..RunFilter::default() };
            let runs = fixture.store.list_runs(org, filter).await.unwrap().items;
            runs.iter().map(|listed| listed.run.id).collect::<Vec<_>>()
        };
        assert_eq!(by(None).await, [waiting, running, done]);
        assert_eq!(by(Some(RunStatus::Succeeded)).await, [done]);
        assert_eq!(by(Some(RunStatus::Running)).await, [running]);
        assert_eq!(by(Some(RunStatus::Queued)).await, [waiting]);
        assert!(by(Some(RunStatus::Reserving)).await.is_empty());
    }

    async fn a_listed_run_shows_its_output(fixture: &Fixture, org: OrgId, node: NodeId) {
        let fence = fixture.running(org, node).await;
        let run = fixture.store.finish_run(fence, fixture.succeeded("out")).await.unwrap();
        let filter = RunFilter { limit: 10, ..RunFilter::default() };
        let listed = ListedRun { run: run.clone(), has_large_output: false };
        assert_eq!(fixture.store.list_runs(org, filter.clone()).await.unwrap().items, [listed]);
        let large = "ü".repeat(9_000);
        let longer = fixture.running(org, node).await;
        let longer = fixture.store.finish_run(longer, fixture.succeeded(&large)).await.unwrap();
        assert_eq!(longer.output.as_deref(), Some(large.as_str()));
        let listed = fixture.store.list_runs(org, filter).await.unwrap().items;
        assert_eq!(listed[0], ListedRun { run: Run { output: None, ..longer.clone() }, has_large_output: true });
        assert_eq!(listed[1].run, run);
        let output = LargeText::Output(longer.id);
        assert_eq!(fixture.store.large_text(org, output.clone()).await.unwrap(), large);
        let other = fixture.org().await;
        assert_eq!(fixture.store.large_text(other, output).await, Err(Error::NotFound));
        let missing = LargeText::Output(fixture.queued(org).await);
        assert_eq!(fixture.store.large_text(org, missing).await, Err(Error::NotFound));
    }

    async fn no_run_is_listed_for_a_schedule_that_started_none(fixture: &Fixture, org: OrgId) {
        fixture.queued(org).await;
        for status in [None, Some(RunStatus::Queued)] {
            let schedule = Some("sched_01hf7yat00e0080000000000aa".parse().unwrap());
            let filter = RunFilter { statuses: status.into_iter().collect(), schedule, limit: 10, ..RunFilter::default() };
            assert!(fixture.store.list_runs(org, filter).await.unwrap().items.is_empty());
        }
    }

    async fn events_are_read_in_order_after_any_of_them(fixture: &Fixture, org: OrgId, node: NodeId) {
        let fence = fixture.running(org, node).await;
        let texts = (0..20).map(|number| fixture.message(&number.to_string())).collect();
        fixture.append(fence, texts, Micros::ZERO).await.unwrap();
        let read = async |after, limit| {
            let events = fixture.store.events_after(org, fence.run, after, limit).await.unwrap();
            events.into_iter().map(|event: EventRow| event.seq).collect::<Vec<_>>()
        };
        let selected = async |after, before, kinds: &[&'static str], limit| {
            let selection = EventSelection { after, before, kinds: kinds.to_vec() };
            let listed = fixture.store.list_events(org, fence.run, selection.clone(), limit).await.unwrap();
            let newest = fixture.store.newest_events(org, fence.run, selection, limit).await.unwrap();
            (listed.iter().map(|event| event.seq).collect::<Vec<_>>(), newest)
        };
        assert_eq!(selected(5, 9, &[], 2).await, (vec![6, 7], 6));
        assert_eq!(selected(5, 9, &[], 10).await, (vec![6, 7, 8], 5));
        let statuses = selected(0, i64::MAX, &["status", "retry"], 100).await;
        assert!(statuses.0.starts_with(&[1]) && statuses.0.len() < 6 && statuses.1 == 0, "{statuses:?}");
        assert_eq!(selected(900, i64::MAX, &["status"], 10).await, (Vec::new(), 900));
        let listed = fixture.store.list_events(org, fence.run, EventSelection::after(0), 100).await.unwrap();
        let listed = listed.into_iter().map(|event| EventRow {
            seq: event.seq,
            kind: event.kind,
            data: event.data.unwrap(),
            created_at: event.created_at,
        });
        assert!(listed.eq(fixture.store.events_after(org, fence.run, 0, 100).await.unwrap()));
        assert_eq!(read(0, 100).await, (1..=23).collect::<Vec<_>>());
        assert_eq!(read(20, 2).await, [21, 22]);
        assert_eq!(read(22, 100).await, [23]);
        assert!(read(23, 100).await.is_empty());
        assert!(read(i64::MAX, 100).await.is_empty());
        assert!(read(0, 0).await.is_empty());
    }

    async fn a_follower_is_told_at_once_how_far_a_run_is_what_is_new_and_the_run_at_its_end(fixture: &Fixture, org: OrgId, node: NodeId) {
        let fence = fixture.running(org, node).await;
        let follow = async |after, limit| {
            let told = fixture.store.follow(org, fence.run, after, limit).await.unwrap();
            let seqs: Vec<_> = told.events.iter().map(|event| event.seq).collect();
            (told.progress.status, told.progress.last_event, seqs, told.run.map(|listed| listed.run))
        };
        assert_eq!(follow(0, 10).await, (RunStatus::Running, 3, vec![1, 2, 3], None));
        assert_eq!(follow(2, 10).await, (RunStatus::Running, 3, vec![3], None));
        assert_eq!(follow(3, 10).await, (RunStatus::Running, 3, vec![], None));
        let run = fixture.store.finish_run(fence, fixture.succeeded("out")).await.unwrap();
        let last = fixture.count("SELECT last_event FROM run").await;
        let all: Vec<_> = (1..=last).collect();
        // Only the page with the last events includes the run, which may be large.
        let pages = [
            (0, 2, vec![1, 2], None),
            (0, u32::try_from(last).unwrap(), all, Some(run.clone())),
            (last - 1, 10, vec![last], Some(run.clone())),
            (last, 0, vec![], Some(run.clone())),
            (i64::MAX, 10, vec![], Some(run)),
        ];
        for (after, limit, seqs, run) in pages {
            assert_eq!(follow(after, limit).await, (RunStatus::Succeeded, last, seqs, run));
        }
    }
}

postgres! {
    async fn a_follower_is_told_of_an_event_that_comes_while_it_reads(fixture: &Fixture, org: OrgId, node: NodeId) {
        let fence = fixture.running(org, node).await;
        let (reached, go_on) = fixture.store.db.faults().pause(1);
        let (told, ()) = join(fixture.store.follow(org, fence.run, 0, 10), async {
            reached.await.unwrap();
            fixture.append(fence, vec![fixture.message("new")], Micros::ZERO).await.unwrap();
            go_on.send(()).unwrap();
        })
        .await;
        let told = told.unwrap();
        let seqs: Vec<_> = told.events.iter().map(|event| event.seq).collect();
        assert_eq!((told.progress.last_event, seqs), (4, vec![1, 2, 3, 4]));
    }
}
