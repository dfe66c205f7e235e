//! Outcomes of due occurrences, case by case and for any timetable.

use proptest::prelude::*;
use sortie_api::{OrgId, limits, schedule::Overlap};
use sortie_store::schedules::ScheduleState;

use super::*;

const MINUTE: i64 = 60_000_000;

fn at(minutes: i64) -> Timestamp {
    // A midnight.
    Timestamp::from_micros(1_798_761_600_000_000 + minutes * MINUTE)
}

fn id() -> ScheduleId {
    ScheduleId::new(at(0), [7; 10])
}

/// A schedule that was created at minute 0.
fn row(cron: &str, window: i64) -> (ScheduleRow, Timetable) {
    let timetable = Timetable::new(cron, "UTC").unwrap();
    let spec = ScheduleSpec {
        name: None,
        workflow: "w".to_owned(),
        cron: cron.to_owned(),
        timezone: "UTC".to_owned(),
        input: None,
        overlap: Overlap::Allow,
        catch_up_window_seconds: window,
        jitter_seconds: 0,
        paused_until: None,
        max_consecutive_failures: None,
        max_cost: None,
        callback: None,
    };
    let state = ScheduleState {
        enabled: true,
        next: next_occurrence(&timetable, (id(), &spec), at(0)),
        handled: at(0),
        waiting: None,
        failures_since: at(0),
        last_run_at: None,
        last_run: None,
        last_error: None,
    };
    let row = ScheduleRow {
        id: id(),
        org: OrgId::new(at(0), [1; 10]),
        spec,
        state,
        last_run_error: None,
        revision: 1,
        created_at: at(0),
        updated_at: at(0),
    };
    (row, timetable)
}

/// The rows in short form: first minute, number of occurrences, and the reason of the skip.
fn told(rows: &[FireRow]) -> Vec<(i64, i64, &str)> {
    let minute = |time: Timestamp| (time.as_micros() - at(0).as_micros()) / MINUTE;
    rows.iter()
        .map(|row| (minute(row.instant), row.instants, row.reason.as_deref().unwrap()))
        .collect()
}

#[test]
fn nothing_is_due_before_its_time() {
    let (row, timetable) = row("*/5 * * * *", 3_600);
    assert_eq!(plan(&row, &timetable, at(4)), None);
    let due = plan(&row, &timetable, at(5)).unwrap();
    assert_eq!(
        (due.start, due.handled, told(&due.skipped)),
        (Some(at(5)), at(5), vec![])
    );
    assert_eq!(due.next.unwrap().instant, at(10));
}

#[test]
fn missed_instants_within_the_window_become_one_run() {
    let (row, timetable) = row("*/5 * * * *", 600);
    let due = plan(&row, &timetable, at(23)).unwrap();
    assert_eq!(due.start, Some(at(20)));
    assert_eq!(
        told(&due.skipped),
        [(5, 1, "missed"), (10, 1, "missed"), (15, 1, "coalesced")]
    );
    assert_eq!(due.next.unwrap().instant, at(25));
}

#[test]
fn without_a_window_what_was_missed_is_missed() {
    let (row, timetable) = row("*/5 * * * *", 0);
    let due = plan(&row, &timetable, at(23)).unwrap();
    assert_eq!((due.start, due.skipped.len(), due.handled), (None, 4, at(20)));
    // A delay of a few seconds does not count as missed.
    let late = at(5) + Duration::from_secs(9);
    assert_eq!(plan(&row, &timetable, late).unwrap().start, Some(at(5)));
    assert_eq!(
        plan(&row, &timetable, late + Duration::from_secs(2))
            .unwrap()
            .start,
        None
    );
}

#[test]
fn instants_in_a_pause_are_skipped_and_those_after_it_are_not() {
    let (mut row, timetable) = row("* * * * *", 3_600);
    row.spec.paused_until = Some(at(3));
    let due = plan(&row, &timetable, at(4)).unwrap();
    assert_eq!(
        told(&due.skipped),
        [(1, 1, "paused"), (2, 1, "paused"), (3, 1, "coalesced")]
    );
    assert_eq!(due.start, Some(at(4)));
    row.spec.paused_until = Some(at(100));
    assert_eq!(plan(&row, &timetable, at(4)).unwrap().start, None);
}

#[test]
fn a_pause_holds_for_instants_whatever_their_jitter() {
    let (mut row, timetable) = row("0 * * * *", 3_600);
    row.spec.jitter_seconds = limits::JITTER_SECONDS;
    row.state.next = next_occurrence(&timetable, (id(), &row.spec), at(0));
    let next = row.state.next.unwrap();
    row.spec.paused_until = Some(next.instant + Duration::from_micros(1));
    assert!(
        row.spec.paused_until.unwrap() < next.due_at,
        "or it shows nothing"
    );
    let due = plan(&row, &timetable, next.due_at).unwrap();
    assert_eq!((due.start, told(&due.skipped)), (None, vec![(60, 1, "paused")]));
    row.spec.paused_until = Some(next.instant);
    assert_eq!(
        plan(&row, &timetable, next.due_at).unwrap().start,
        Some(next.instant)
    );
}

#[test]
fn many_that_were_missed_at_once_share_rows() {
    let (row, timetable) = row("* * * * *", 3_600);
    // A week later.
    let now = at(7 * 24 * 60);
    let first = plan(&row, &timetable, now).unwrap();
    assert_eq!(first.start, None, "there are later ones");
    assert_eq!(told(&first.skipped), [(1, 5_000, "missed")]);
    assert_eq!(first.skipped[0].last_instant, first.handled);
    let mut row = row;
    row.state.next = first.next;
    let second = plan(&row, &timetable, now).unwrap();
    assert_eq!(told(&second.skipped), [(5_001, 5_000, "missed")]);
    row.state.next = second.next;
    let rest = plan(&row, &timetable, now).unwrap();
    assert_eq!((rest.start, rest.handled), (Some(now), now));
    // A short series has one row for each occurrence. Occurrences of the last hour are still within the window.
    assert_eq!(
        told(&rest.skipped)[18..20],
        [(10_019, 1, "missed"), (10_020, 1, "coalesced")]
    );
    assert_eq!(rest.skipped.len(), 19 + 60);
}

#[test]
fn jitter_is_the_same_for_every_instant_of_a_schedule_and_within_its_limit() {
    let (mut row, timetable) = row("0 * * * *", 3_600);
    row.spec.jitter_seconds = 900;
    let first = next_occurrence(&timetable, (row.id, &row.spec), at(0)).unwrap();
    let later = next_occurrence(&timetable, (row.id, &row.spec), at(600)).unwrap();
    let late = |next: NextOccurrence| next.due_at.since(next.instant);
    assert_eq!(late(first), late(later));
    assert!(late(first) > Duration::ZERO && late(first) <= Duration::from_mins(15));
    row.state.next = Some(first);
    assert_eq!(plan(&row, &timetable, first.instant), None);
    assert_eq!(
        plan(&row, &timetable, first.due_at).unwrap().start,
        Some(first.instant)
    );
    let other = ScheduleId::new(at(0), [9; 10]);
    assert_ne!(
        late(next_occurrence(&timetable, (other, &row.spec), at(0)).unwrap()),
        late(first)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// For any steps of the time, forward or back, each occurrence is processed once, in order, and no occurrence is left out.
    #[test]
    fn every_instant_has_one_row(
        cron in prop::sample::select(vec!["* * * * *", "*/7 * * * *", "3 */2 * * *", "@daily"]),
        window in 0_i64..10_000,
        jitter in 0_i64..600,
        paused in prop::option::of(0_i64..20_000),
        moves in prop::collection::vec(-500_i64..2_000, 1..8),
    ) {
        let (mut row, timetable) = row(cron, window);
        row.spec.jitter_seconds = jitter;
        row.spec.paused_until = paused.map(at);
        row.state.next = next_occurrence(&timetable, (row.id, &row.spec), at(0));
        let (mut now, mut latest, mut dealt, mut started) = (0, 0, Vec::new(), 0);
        for step in moves {
            now = (now + step).max(0);
            latest = latest.max(now);
            while let Some(due) = plan(&row, &timetable, at(now)) {
                for skipped in &due.skipped {
                    dealt.push((skipped.instant, skipped.last_instant, skipped.instants));
                }
                started += i64::from(due.start.is_some());
                dealt.extend(due.start.map(|instant| (instant, instant, 1)));
                row.state.handled = due.handled;
                row.state.next = due.next;
            }
        }
        let mut expected = next_occurrence(&timetable, (row.id, &row.spec), at(0));
        for (first, last, count) in dealt {
            prop_assert_eq!(expected.map(|next| next.instant), Some(first));
            for _ in 1..count {
                expected = expected.and_then(|next| next_occurrence(&timetable, (row.id, &row.spec), next.instant));
            }
            prop_assert_eq!(expected.map(|next| next.instant), Some(last));
            expected = next_occurrence(&timetable, (row.id, &row.spec), last);
        }
        prop_assert!(expected.is_some_and(|next| next.due_at > at(latest)));
        prop_assert!(started <= 8);
    }
}
