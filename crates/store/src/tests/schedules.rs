use sortie_api::schedule::{FireOutcome, Overlap};

use super::prelude::*;
use crate::schedules::{
    FireRow, Fires, NextOccurrence, SaveSchedule, ScheduleRow, ScheduleSpec, ScheduleState, SealedCallback,
};

impl Fixture {
    /// Creates a schedule of the workflow `w` that is due a minute after its creation, and every minute from
    /// there.
    pub(super) fn new_schedule(&self, org: OrgId) -> SaveSchedule {
        let at = self.now();
        let mut random = [0; 10];
        random[2..].copy_from_slice(&self.number().to_be_bytes());
        SaveSchedule {
            id: ScheduleId::new(at, random),
            org,
            spec: ScheduleSpec {
                name: Some("a name".to_owned()),
                workflow: "w".to_owned(),
                cron: "* * * * *".to_owned(),
                timezone: "UTC".to_owned(),
                input: Some("{}".to_owned()),
                overlap: Overlap::QueueOne,
                catch_up_window_seconds: 60,
                jitter_seconds: 5,
                paused_until: Some(at),
                max_consecutive_failures: Some(3),
                max_cost: None,
                callback: Some(SealedCallback {
                    url: "https://example.com".to_owned(),
                    secret: b"sealed\0secret".to_vec(),
                }),
            },
            state: ScheduleState {
                enabled: true,
                next: Some(minute_after(at)),
                handled: at,
                waiting: None,
                failures_since: at,
                last_run_at: None,
                last_run: None,
                last_error: None,
            },
            at,
        }
    }

    /// Saves a schedule and its workflow.
    pub(super) async fn schedule(&self, org: OrgId) -> ScheduleRow {
        self.put_workflow(org, "w", "x").await.unwrap();
        let new = self.new_schedule(org);
        self.create_schedule(new.clone()).await.unwrap();
        self.store.get_schedule(org, new.id).await.unwrap()
    }

    pub(super) async fn create_schedule(&self, new: SaveSchedule) -> crate::Result<()> {
        let audit = self.audit_of(new.org, "schedule.create", "x");
        self.store.create_schedule(new, 3, audit).await
    }

    /// Returns the next occurrence of a schedule, as it starts a run.
    pub(super) fn start_next(&self, row: &ScheduleRow) -> Fires {
        let next = row.state.next.unwrap();
        let run = NewRun {
            labels: crate::runs::Labels {
                schedule: Some(row.id),
                ..crate::runs::Labels::default()
            },
            ..self.new_run(row.org)
        };
        Fires {
            org: row.org,
            schedule: row.id,
            revision: row.revision,
            state: ScheduleState {
                next: Some(minute_after(next.instant)),
                handled: next.instant,
                last_run: Some(run.id),
                last_run_at: Some(run.created_at),
                ..row.state.clone()
            },
            rows: vec![FireRow {
                outcome: FireOutcome::Started,
                run: Some(run.id),
                ..skipped(next.instant)
            }],
            released: None,
            run: Some(run),
            replaces: false,
            audit: None,
        }
    }

    async fn row(&self, row: &ScheduleRow) -> ScheduleRow {
        self.store.get_schedule(row.org, row.id).await.unwrap()
    }
}

fn minute_after(instant: Timestamp) -> NextOccurrence {
    let instant = instant + Duration::from_mins(1);
    NextOccurrence {
        instant,
        due_at: instant + Duration::from_secs(5),
    }
}

pub(super) fn skipped(instant: Timestamp) -> FireRow {
    FireRow {
        instant,
        last_instant: instant,
        instants: 1,
        occasion: String::new(),
        outcome: FireOutcome::Skipped,
        reason: None,
        run: None,
        recorded_at: instant,
    }
}

both! {
    async fn a_schedule_is_read_back_by_its_organization_alone(fixture: &Fixture, org: OrgId, other: OrgId) {
        let row = fixture.schedule(org).await;
        let new = SaveSchedule { spec: ScheduleSpec { input: None, callback: None, ..row.spec.clone() },
            state: ScheduleState { next: None, enabled: false, ..row.state.clone() }, ..fixture.new_schedule(org) };
        assert_eq!(fixture.new_schedule(org).spec.callback, row.spec.callback);
        fixture.create_schedule(new.clone()).await.unwrap();
        let second = fixture.store.get_schedule(org, new.id).await.unwrap();
        assert_eq!((&second.spec, &second.state), (&new.spec, &new.state));
        let store = &fixture.store;
        let listed = async |before| {
            let listed = store.list_schedules(org, before, 5).await.unwrap();
            assert!(listed.iter().all(|listed| !listed.has_large_input));
            listed.into_iter().map(|listed| listed.schedule).collect::<Vec<_>>()
        };
        assert_eq!(listed(None).await, [second.clone(), row.clone()]);
        let before = Some((second.created_at, second.id));
        assert_eq!(listed(before).await, std::slice::from_ref(&row));
        assert!(store.list_schedules(other, None, 5).await.unwrap().is_empty());
        assert_eq!(store.get_schedule(other, row.id).await.unwrap_err(), Error::NotFound);
        assert_eq!(store.list_fires(other, row.id, None, 5).await.unwrap_err(), Error::NotFound);
        let audit = fixture.audit_of(other, "schedule.delete", "x");
        assert_eq!(store.delete_schedule(other, row.id, audit).await.unwrap_err(), Error::NotFound);
    }

    async fn the_number_of_schedules_has_a_limit_and_each_has_a_workflow(fixture: &Fixture, org: OrgId) {
        let refused = fixture.create_schedule(fixture.new_schedule(org)).await.unwrap_err();
        assert_eq!(refused, Error::Conflict("the workflow was deleted at the same time"));
        let row = fixture.schedule(org).await;
        let refused = fixture.delete_workflow(org, "w").await.unwrap_err();
        assert_eq!(refused, Error::Conflict("a schedule uses the workflow"));
        let more = join_all((0..5).map(|_| fixture.create_schedule(fixture.new_schedule(org)))).await;
        assert_eq!(more.iter().filter(|made| made.is_ok()).count(), 2, "three are as many as it may have");
        let full = Error::Conflict("the organization has reached its limit of schedules");
        assert!(more.iter().filter_map(|made| made.as_ref().err()).all(|error| *error == full));
        let moved = SaveSchedule { id: row.id, spec: ScheduleSpec { workflow: "none".to_owned(), ..row.spec },
            ..fixture.new_schedule(org) };
        let audit = fixture.audit_of(org, "schedule.update", "x");
        assert!(!fixture.store.update_schedule(moved, row.revision, audit).await.unwrap());
    }

    async fn a_change_counts_only_on_the_newest_revision(fixture: &Fixture, org: OrgId) {
        let row = fixture.schedule(org).await;
        let change = |name: &str| SaveSchedule { id: row.id, spec: ScheduleSpec { name: Some(name.to_owned()), ..row.spec.clone() },
            ..fixture.new_schedule(org) };
        let update = async |change: SaveSchedule| {
            let audit = fixture.audit_of(org, "schedule.update", "x");
            fixture.store.update_schedule(change, row.revision, audit).await.unwrap()
        };
        assert!(update(change("new")).await);
        assert!(!update(change("late")).await);
        assert_eq!(fixture.store.record_fires(fixture.start_next(&row)).await.unwrap_err(), Error::Fenced);
        let now = fixture.row(&row).await;
        assert_eq!((now.spec.name.as_deref(), now.created_at), (Some("new"), row.created_at));
        assert_eq!(fixture.count("SELECT COUNT(*) FROM run").await, 0);
        assert_eq!(fixture.count("SELECT COUNT(*) FROM audit WHERE action = 'schedule.update'").await, 1);
    }

    async fn an_instant_is_recorded_with_its_run_by_one_of_many(fixture: &Fixture, org: OrgId) {
        let mut row = fixture.schedule(org).await;
        for _ in 0..5 {
            let tries: Vec<Fires> = (0..6).map(|_| fixture.start_next(&row)).collect();
            let done = join_all(tries.into_iter().map(|fires| fixture.store.record_fires(fires))).await;
            let runs: Vec<_> = done.iter().flatten().flatten().collect();
            assert_eq!(runs.len(), 1);
            assert!(done.iter().all(|done| done.is_ok() || *done == Err(Error::Fenced)), "{done:?}");
            row = fixture.row(&row).await;
            assert_eq!(row.state.last_run, Some(runs[0].id));
        }
        assert_eq!(fixture.count("SELECT COUNT(*) FROM run").await, 5);
        let fires = fixture.store.list_fires(org, row.id, None, 10).await.unwrap();
        assert_eq!(fires.len(), 5);
        assert!(fires.is_sorted_by_key(|fire| std::cmp::Reverse(fire.instant)));
    }

    async fn the_history_of_all_schedules_is_read_by_time_and_page_by_page(fixture: &Fixture, org: OrgId, other: OrgId) {
        let store = &fixture.store;
        let mut expected = Vec::new();
        for org in [org, org, other] {
            let mut row = fixture.schedule(org).await;
            for _ in 0..3 {
                let fires = fixture.start_next(&row);
                expected.push((org, fires.rows[0].instant, row.id));
                store.record_fires(fires).await.unwrap();
                row = fixture.row(&row).await;
            }
        }
        expected.sort_unstable_by_key(|(_, instant, schedule)| std::cmp::Reverse((*instant, *schedule)));
        expected.retain(|(of, _, _)| *of == org);
        let all: Vec<_> = expected.iter().map(|(_, instant, schedule)| (*instant, *schedule)).collect();
        let (earliest, latest) = (all[5].0, all[0].0);
        let read = async |since: Timestamp, until: Timestamp| {
            let mut found = Vec::new();
            let mut before = (until, String::new(), String::new());
            loop {
                let page = store.list_all_fires(org, since, before, 2).await.unwrap();
                let Some(last) = page.last() else { return found };
                before = (last.fire.instant, last.schedule.to_string(), last.fire.occasion.clone());
                found.extend(page.iter().map(|row| (row.fire.instant, row.schedule)));
            }
        };
        assert_eq!(read(earliest, latest + Duration::from_micros(1)).await, all);
        let within = |(at, _): &&(Timestamp, ScheduleId)| *at > earliest && *at < latest;
        let inner: Vec<_> = all.iter().filter(within).copied().collect();
        assert!((2..=4).contains(&inner.len()), "{all:?}");
        assert_eq!(read(earliest + Duration::from_micros(1), latest).await, inner);
    }

    async fn what_is_due_is_found_in_order_and_page_by_page(fixture: &Fixture, org: OrgId, other: OrgId) {
        let (first, second) = (fixture.schedule(org).await, fixture.schedule(other).await);
        let store = &fixture.store;
        let due = |row: &ScheduleRow| row.state.next.unwrap().due_at;
        assert_eq!(store.next_due(Timestamp::from_micros(0)).await.unwrap(), Some(due(&first)));
        assert_eq!(store.next_due(due(&first)).await.unwrap(), Some(due(&second)));
        assert_eq!(store.next_due(due(&second)).await.unwrap(), None);
        let ids = async |at, after, limit| -> Vec<ScheduleId> {
            let due = store.due_schedules(at, after, limit).await.unwrap();
            due.items.into_iter().map(|due| due.schedule).collect()
        };
        assert_eq!(ids(due(&first), None, 5).await, [first.id]);
        assert_eq!(ids(due(&second), None, 5).await, [first.id, second.id]);
        assert_eq!(ids(due(&second), None, 1).await, [first.id]);
        assert_eq!(ids(due(&second), Some((due(&first), first.id.to_string())), 5).await, [second.id]);
    }

    async fn schedules_that_cannot_be_read_do_not_keep_those_behind_them(fixture: &Fixture, org: OrgId) {
        let mut last = fixture.schedule(org).await;
        for _ in 0..3 {
            let broken = last.id;
            last = fixture.schedule(org).await;
            fixture.sql("UPDATE schedule SET org_id = 'nobody', waiting_instant = 7 WHERE id = $1", vals![broken]).await;
        }
        let whole = last.id;
        fixture.sql("UPDATE schedule SET waiting_instant = 8 WHERE id = $1", vals![whole]).await;
        let at = last.state.next.unwrap().due_at;
        for waiting in [false, true] {
            let (mut found, mut after) = (Vec::new(), None);
            loop {
                let page = if waiting {
                    fixture.store.released_schedules(after, 1).await.unwrap()
                } else {
                    fixture.store.due_schedules(at, after, 1).await.unwrap()
                };
                found.extend(page.items.iter().map(|due| due.schedule));
                after = page.stopped_at;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(found, [whole], "{waiting}");
        }
    }

    async fn an_instant_that_waits_is_found_once_no_run_is_open(fixture: &Fixture, org: OrgId) {
        let row = fixture.schedule(org).await;
        let store = &fixture.store;
        let run = store.record_fires(fixture.start_next(&row)).await.unwrap().unwrap();
        let row = fixture.row(&row).await;
        assert_eq!(store.open_runs(org, (row.id, row.revision), 5).await.unwrap(), [run.id]);
        assert!(store.open_runs(org, (row.id, row.revision - 1), 5).await.unwrap().is_empty(), "seen too early");
        let mut waits = fixture.start_next(&row);
        let instant = waits.rows[0].instant;
        waits.run = None;
        waits.rows[0] = FireRow { outcome: FireOutcome::Waiting, ..skipped(instant) };
        waits.state = ScheduleState { waiting: Some(instant), last_run: Some(run.id), ..waits.state };
        store.record_fires(waits).await.unwrap();
        assert!(store.released_schedules(None, 5).await.unwrap().items.is_empty());
        store.cancel_run(org, run.id, fixture.now()).await.unwrap();
        let released = store.released_schedules(None, 5).await.unwrap().items;
        assert_eq!((released[0].schedule, released[0].org, released[0].since), (row.id, org, instant));
        let row = fixture.row(&row).await;
        let mut starts = fixture.start_next(&row);
        starts.state = ScheduleState { waiting: None, next: row.state.next, ..starts.state };
        starts.rows[0].instant = instant;
        starts.rows[0].last_instant = instant;
        let mut unknown = starts.clone();
        unknown.released = Some(fixture.now());
        assert!(matches!(store.record_fires(unknown).await, Err(Error::Corrupt(_))));
        starts.released = Some(instant);
        store.record_fires(starts).await.unwrap().unwrap();
        let told: Vec<_> = store.list_fires(org, row.id, None, 5).await.unwrap();
        assert!(told.iter().all(|fire| fire.outcome == FireOutcome::Started) && told.len() == 2, "{told:?}");
    }

    async fn the_open_runs_of_a_schedule_are_replaced_with_the_record_of_the_new_one(fixture: &Fixture, org: OrgId) {
        let row = fixture.schedule(org).await;
        let store = &fixture.store;
        let mut runs = Vec::new();
        for replaces in [false, false, false, true] {
            let row = fixture.row(&row).await;
            let fires = Fires { replaces, ..fixture.start_next(&row) };
            runs.push(store.record_fires(fires).await.unwrap().unwrap().id);
            if runs.len() == 1 {
                store.cancel_run(org, runs[0], fixture.now()).await.unwrap();
            }
        }
        let other = fixture.schedule(fixture.org().await).await;
        store.record_fires(fixture.start_next(&other)).await.unwrap();
        let replaced = async |after: Option<RunId>, limit| -> Vec<RunId> {
            let after = after.map(|run| run.to_string());
            let replaced = store.replaced_runs(after, limit).await.unwrap();
            replaced.items.into_iter().map(|replaced| replaced.run).collect()
        };
        assert_eq!(replaced(None, 5).await, runs[1..3]);
        assert_eq!(replaced(None, 1).await, runs[1..2]);
        assert_eq!(replaced(Some(runs[1]), 5).await, runs[2..3]);
        // A run that is replaced again is cancelled only once.
        let row = fixture.row(&row).await;
        store.record_fires(Fires { replaces: true, ..fixture.start_next(&row) }).await.unwrap();
        assert_eq!(replaced(None, 5).await, runs[1..4]);
        store.forget_replaced(&runs[1..3]).await.unwrap();
        assert_eq!(replaced(None, 5).await, runs[3..4]);
    }

    async fn how_recent_runs_ended_is_told_without_the_cancelled_and_the_open(fixture: &Fixture, org: OrgId, node: NodeId) {
        let mut row = fixture.schedule(org).await;
        let store = &fixture.store;
        let mut since = fixture.now();
        for status in [RunStatus::Succeeded, RunStatus::Failed, RunStatus::TimedOut] {
            store.record_fires(fixture.start_next(&row)).await.unwrap();
            row = fixture.row(&row).await;
            let fence = fixture.start(fixture.claim_one(node).await.fence).await.unwrap();
            store.finish_run(fence, fixture.finish(status, None, Some("why"))).await.unwrap();
            if status == RunStatus::Succeeded {
                since = fixture.now();
            }
        }
        assert_eq!(fixture.row(&row).await.last_run_error.as_deref(), Some("why"));
        let gone = store.record_fires(fixture.start_next(&row)).await.unwrap().unwrap();
        store.cancel_run(org, gone.id, fixture.now()).await.unwrap();
        row = fixture.row(&row).await;
        store.record_fires(fixture.start_next(&row)).await.unwrap();
        let recent = async |since, limit| store.recent_outcomes(org, row.id, (since, limit)).await.unwrap();
        let begin = Timestamp::from_micros(0);
        assert_eq!(recent(begin, 5).await, [RunStatus::TimedOut, RunStatus::Failed, RunStatus::Succeeded]);
        assert_eq!(recent(begin, 1).await, [RunStatus::TimedOut]);
        assert_eq!(recent(since, 5).await, [RunStatus::TimedOut, RunStatus::Failed]);
    }

    async fn starts_by_hand_stand_beside_the_timetable_and_go_with_the_schedule(fixture: &Fixture, org: OrgId) {
        let row = fixture.schedule(org).await;
        let store = &fixture.store;
        let at = fixture.now();
        let runs = join_all((0..4).map(|_| {
            let run = NewRun { created_at: at, ..fixture.new_run(org) };
            store.trigger_schedule(row.id, run)
        })).await;
        assert!(runs.iter().all(Result::is_ok), "{runs:?}");
        let mut seen = Vec::new();
        let mut before = None;
        while let Some(fire) = store.list_fires(org, row.id, before, 1).await.unwrap().pop() {
            assert_eq!((fire.instant, fire.occasion.clone()), (at, fire.run.unwrap().to_string()));
            before = Some((fire.instant, fire.occasion));
            seen.push(fire.run.unwrap());
        }
        assert_eq!(seen.len(), 4);
        let nobody = store.trigger_schedule(ScheduleId::new(at, [1; 10]), fixture.new_run(org)).await;
        assert_eq!(nobody.unwrap_err(), Error::NotFound);
        let audit = fixture.audit_of(org, "schedule.delete", "x");
        store.delete_schedule(org, row.id, audit).await.unwrap();
        assert_eq!(fixture.count("SELECT COUNT(*) FROM fire").await, 0);
        assert_eq!(fixture.count("SELECT COUNT(*) FROM run").await, 4);
    }

    async fn old_instants_are_forgotten_a_few_at_a_time_without_one_that_waits(fixture: &Fixture, org: OrgId, store: &Store) {
        let mut row = fixture.schedule(org).await;
        let waits = row.state.next.unwrap().instant;
        for number in 0..9 {
            let mut fires = fixture.start_next(&row);
            fires.run = None;
            fires.state.waiting = Some(waits);
            let instant = fires.rows[0].instant;
            fires.rows[0] = match number {
                0 => FireRow { outcome: FireOutcome::Waiting, ..skipped(instant) },
                // The occurrence was missed long ago and recorded just now.
                1 => FireRow { recorded_at: instant + Duration::from_hours(9), ..skipped(instant) },
                _ => skipped(instant),
            };
            store.record_fires(fires).await.unwrap();
            row = fixture.row(&row).await;
        }
        let other = fixture.new_schedule(org);
        fixture.create_schedule(other.clone()).await.unwrap();
        // The last two occurrences are younger.
        let before = waits + Duration::from_mins(7);
        assert_eq!(store.schedules_with_fires(None, before, 5).await.unwrap().items, [row.id]);
        assert_eq!(store.schedules_with_fires(Some(row.id.to_string()), before, 5).await.unwrap().items, []);
        assert_eq!(store.schedules_with_fires(None, waits, 5).await.unwrap().items, []);
        assert_eq!(store.delete_expired_fires(other.id, before, 5).await.unwrap(), 0);
        let mut deleted = Vec::new();
        while deleted.last() != Some(&0) {
            deleted.push(store.delete_expired_fires(row.id, before, 2).await.unwrap());
        }
        assert_eq!(deleted.iter().sum::<u64>(), 5);
        assert!(deleted.iter().all(|one| *one <= 3), "{deleted:?}");
        let left: Vec<_> = store.list_fires(org, row.id, None, 20).await.unwrap().iter().map(|fire| fire.instant).collect();
        assert_eq!(left, [8, 7, 1, 0].map(|minutes| waits + Duration::from_mins(minutes)));
    }
}
