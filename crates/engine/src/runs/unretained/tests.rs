use proptest::prelude::*;
use sortie_api::Refusal;

use super::*;

fn at() -> Timestamp {
    Timestamp::from_micros(1_700_000_000_000_000)
}

fn org(number: u8) -> OrgId {
    OrgId::new(at(), [number; 10])
}

fn run(number: u8) -> RunId {
    RunId::new(at(), [number; 10])
}

fn request(bytes: usize) -> Request {
    Request {
        definition: "x".repeat(bytes).into(),
        inline: BTreeMap::new(),
    }
}

fn registry(limit: usize, active: &Active) -> Unretained {
    Unretained::new(limit, Clock::manual(at()), active.clone(), Arc::default())
}

fn admit(unretained: &Unretained, of: u8, number: u8, bytes: usize) -> Result<Admission, Refusal> {
    let output = Output::of(Reader::Get);
    unretained.admit(
        (org(of), run(number)),
        request(bytes),
        output,
        (sortie_store::money::Payment::Free, at()),
    )
}

fn event(seq: i64, bytes: usize) -> EventRow {
    EventRow {
        seq,
        kind: "message".to_owned(),
        data: "x".repeat(bytes),
        created_at: at(),
    }
}

#[test]
fn waiting_runs_are_taken_in_turn_by_organization_and_those_put_back_wait_on() {
    let unretained = registry(1 << 30, &Active::default());
    for (of, number) in [(1, 1), (1, 2), (1, 3), (2, 4), (3, 5)] {
        drop(admit(&unretained, of, number, 1).unwrap());
    }
    assert_eq!(
        unretained.take_waiting(9, Share::OneOfEach),
        [run(1), run(4), run(5)]
    );
    unretained.put_back([run(4)]);
    assert_eq!(unretained.take_waiting(2, Share::All), [run(2), run(4)]);
    unretained.close(run(4), RunStatus::Cancelled).unwrap();
    unretained.put_back([run(4)]);
    assert_eq!(unretained.take_waiting(9, Share::All), [run(3)]);
}

#[test]
fn runs_that_are_put_back_go_before_those_that_came_after_them() {
    let unretained = registry(1 << 30, &Active::default());
    for (of, number) in [(1, 1), (1, 2), (1, 3), (2, 4), (1, 5), (2, 6)] {
        drop(admit(&unretained, of, number, 1).unwrap());
    }
    assert_eq!(
        unretained.take_waiting(4, Share::All),
        [run(1), run(4), run(2), run(6)]
    );
    unretained.put_back([run(1), run(4), run(2), run(6)]);
    assert_eq!(
        unretained.take_waiting(9, Share::All),
        [run(1), run(4), run(2), run(6), run(3), run(5)]
    );
    assert!(!unretained.has_waiting());
}

#[test]
fn one_that_has_ended_does_not_take_the_turn_of_the_next() {
    let unretained = registry(1 << 30, &Active::default());
    for number in [1, 2] {
        drop(admit(&unretained, 1, number, 1).unwrap());
    }
    unretained.close(run(1), RunStatus::Cancelled).unwrap();
    assert_eq!(unretained.take_waiting(1, Share::OneOfEach), [run(2)]);
}

#[test]
fn one_that_is_closed_while_it_is_recorded_stays_closed() {
    let unretained = registry(1 << 30, &Active::default());
    let admission = admit(&unretained, 1, 1, 1).unwrap();
    unretained.close(run(1), RunStatus::Cancelled).unwrap();
    drop(admission);
    assert!(!unretained.is_open(run(1)));
    assert!(!unretained.has_waiting());
    let Lookup::Here(progress) = unretained.progress(org(1), run(1)) else {
        panic!("it is here")
    };
    assert_eq!(progress.status, RunStatus::Cancelled);
}

#[test]
fn what_was_not_recorded_leaves_nothing() {
    let unretained = registry(3 << 20, &Active::default());
    for _ in 0..10 {
        admit(&unretained, 1, 1, 2 << 20).unwrap().refuse();
    }
    assert!(!unretained.holds(run(1)));
    assert!(unretained.take_waiting(9, Share::All).is_empty());
    assert!(admit(&unretained, 1, 1, 4 << 20).is_err());
}

#[tokio::test]
async fn a_run_that_outgrows_its_bound_or_the_nodes_is_stopped() {
    for (limit, bytes) in [(1 << 30, RUN_BYTES), (2 << 20, 2 << 20)] {
        let active = Active::default();
        let unretained = registry(limit, &active);
        drop(admit(&unretained, 1, 1, 1).unwrap());
        let mut active_run = active.enter(run(1));
        unretained.add(run(1), &[event(2, bytes / 2)]);
        assert_eq!(active_run.stop_reason(), None);
        unretained.add(run(1), &[event(3, bytes / 2)]);
        assert_eq!(active_run.stopped().await, StopReason::TooLarge);
    }
}

#[test]
fn events_keep_their_numbers_and_the_end_closes_them_once() {
    let unretained = registry(1 << 30, &Active::default());
    drop(admit(&unretained, 1, 1, 1).unwrap());
    unretained.add(run(1), &[event(2, 1), event(3, 1)]);
    // A write is repeated because its answer was lost.
    unretained.add(run(1), &[event(3, 1), event(4, 1)]);
    for _ in 0..2 {
        unretained.close(run(1), RunStatus::Interrupted).unwrap();
    }
    let Lookup::Here(events) = unretained.list_events(
        (org(1), run(1)),
        &sortie_store::runs::EventSelection::after(1),
        100,
    ) else {
        panic!("it is here")
    };
    assert_eq!(
        events.iter().map(|event| event.seq).collect::<Vec<_>>(),
        [2, 3, 4, 5, 6]
    );
    let Lookup::Here(progress) = unretained.progress(org(1), run(1)) else {
        panic!("it is here")
    };
    assert_eq!(
        (progress.status, progress.last_event),
        (RunStatus::Interrupted, 6)
    );
    assert!(matches!(unretained.progress(org(2), run(1)), Lookup::Elsewhere));
    assert!(unretained.request(run(1)).is_none());
}

#[test]
fn an_answer_stays_with_a_run_that_succeeded_and_goes_with_one_that_somebody_else_has_ended() {
    let unretained = registry(1 << 30, &Active::default());
    for (number, status, is_held) in [
        (1, RunStatus::Succeeded, true),
        (2, RunStatus::Cancelled, false),
        (3, RunStatus::Interrupted, false),
    ] {
        drop(admit(&unretained, 1, number, 1).unwrap());
        unretained.put_output(run(number), "answer", at());
        // The worker does not know that the end is recorded.
        unretained.close(run(number), status).unwrap();
        assert_eq!(
            unretained.output(run(number), Reader::Get).is_some(),
            is_held,
            "{status}"
        );
    }
}

#[test]
fn an_answer_that_was_delivered_is_gone_here_and_told_to_the_store_once() {
    let unretained = registry(1 << 30, &Active::default());
    let output = Output::of(Reader::Callback);
    let admission = unretained.admit(
        (org(1), run(1)),
        request(1),
        output,
        (sortie_store::money::Payment::Free, at()),
    );
    drop(admission.unwrap());
    unretained.put_output(run(1), "answer", at());
    for _ in 0..2 {
        unretained.delivered(run(1));
        assert!(unretained.output(run(1), Reader::Callback).is_none());
    }
    assert_eq!(unretained.take_delivered(), [(run(1), at())]);
    assert!(unretained.take_delivered().is_empty());
}

proptest! {
    /// After any steps the counted bytes are those of the contents in memory.
    #[test]
    fn the_count_of_bytes_is_never_off(steps in prop::collection::vec((0_u8..6, 1_u8..5, 1_usize..3_000_000), 1..40)) {
        let unretained = registry(64 << 20, &Active::default());
        for (kind, number, bytes) in steps {
            let id = run(number);
            match kind {
                0 => if !unretained.holds(id) { let _refused = admit(&unretained, number, number, bytes); },
                1 => {
                    let last = unretained.runs().by_id.get(&id).map_or(0, Content::last_event);
                    unretained.add(id, &[event(last + 1, bytes)]);
                }
                2 => { unretained.put_output(id, &"y".repeat(bytes), at()); }
                3 => unretained.drop_output(id),
                4 => unretained.finish(id, None),
                _ => unretained.runs().remove(id),
            }
            let runs = unretained.runs();
            prop_assert_eq!(runs.bytes, runs.by_id.values().map(Content::counts).sum::<usize>());
        }
    }
}
