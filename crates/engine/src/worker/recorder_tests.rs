use std::future::Future;

use futures_util::{FutureExt, future::join3, poll};
use proptest::prelude::*;
use sortie_agent::journal::What;
use sortie_api::{OrgId, RunId};
use sortie_store::runs::FinalCost;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    testing::{Held, called, held},
    worker::spent::charged_calls,
};

fn entry(step: u32) -> Entry {
    Entry {
        step,
        spent_micros: Micros::ZERO,
        what: What::Correction {
            text: "again".to_owned(),
        },
    }
}

fn message(step: u32) -> EventType {
    EventType::Message {
        text: "said".to_owned(),
        step,
    }
}

struct Rig {
    held: Held,
    recorder: Recorder,
}

impl Rig {
    async fn new() -> Self {
        let held = held().await;
        let hub = Hub::new(
            held.records(),
            crate::cluster::hints::HintSender::default(),
            CancellationToken::new(),
        );
        let run = held.claim.fence.run;
        let log = RunLog::new(held.records(), run, held.claim.retention());
        Self {
            recorder: Recorder::new(run, log, hub, Clock::system(), Arc::default()),
            held,
        }
    }

    fn keep(&self) -> impl Future<Output = Result<Fence, Error>> {
        let status = NewEvent::new(&EventType::status(RunStatus::Running), Clock::system().now());
        let opening = Opening {
            org: self.held.claim.org,
            status: RunStatus::Starting,
            events: vec![status.unwrap()],
        };
        self.recorder.keep(self.held.claim.fence, opening)
    }

    async fn journal(&self) -> usize {
        let (_, run) = self.ids();
        self.held.store.journal(run).await.unwrap().len()
    }

    async fn cancel(&self) {
        let (org, run) = self.ids();
        let now = Clock::system().now();
        self.held.store.cancel_run(org, run, now).await.unwrap();
    }

    /// Settles the cancelled run with the rest of the recorder, as its worker does. Returns its cost, the sum of the costs in its
    /// events, and the numbers of these events.
    async fn settle(&self) -> (i64, i64, Vec<i64>) {
        let (org, run) = self.ids();
        let rest = self.recorder.cancelled_rest();
        let cost = FinalCost {
            calls: rest.calls,
            usage: rest.usage,
            ..FinalCost::default()
        };
        let store = &self.held.store;
        store.settle_run(run, 1, cost, rest.events).await.unwrap();
        let shown = charged_calls(store, org, run).await.unwrap();
        let events = store.events_after(org, run, 0, 1_000).await.unwrap();
        let settled = store.get_run(org, run).await.unwrap();
        let model_calls = events.iter().filter(|event| event.kind == "model_call").count();
        let counted = settled.usage.unwrap().model_calls;
        assert_eq!(
            counted,
            i64::try_from(model_calls).unwrap(),
            "each call has one event"
        );
        (
            settled.cost_micros.get(),
            shown.get(),
            events.iter().map(|event| event.seq).collect(),
        )
    }

    fn ids(&self) -> (OrgId, RunId) {
        (self.held.claim.org, self.held.claim.fence.run)
    }
}

#[tokio::test]
async fn what_was_said_is_stored_when_it_is_told_to_be_durable_to_all_who_wait() {
    let rig = Rig::new().await;
    let says = async {
        for step in 1..=3 {
            rig.recorder.record(message(step)).await.unwrap();
            rig.recorder.journal(entry(step)).await.unwrap();
            let waits = || rig.recorder.durable().map(Result::unwrap);
            join3(waits(), waits(), waits()).await;
            let steps = usize::try_from(step).unwrap();
            assert_eq!(rig.journal().await, steps);
            let (org, run) = rig.ids();
            let events = rig.held.store.events_after(org, run, 3, 100).await.unwrap();
            assert_eq!(events.len(), steps);
        }
        // There is nothing new to store.
        rig.recorder.durable().await.unwrap();
        rig.recorder.end();
    };
    let (kept, ()) = futures_util::join!(rig.keep(), says);
    assert_eq!(kept.unwrap().last_event, 6);
}

#[tokio::test]
async fn entries_without_events_are_stored_and_numbered_on() {
    let rig = Rig::new().await;
    let says = async {
        rig.recorder.journal(entry(1)).await.unwrap();
        rig.recorder.durable().await.unwrap();
        for step in 2..=80 {
            rig.recorder.journal(entry(step)).await.unwrap();
        }
        rig.recorder.durable().await.unwrap();
        rig.recorder.end();
    };
    let (kept, ()) = futures_util::join!(rig.keep(), says);
    assert_eq!(kept.unwrap().last_event, 3);
    assert_eq!(rig.journal().await, 80);
    assert_eq!(rig.recorder.rest().journal, Journal::Written);
}

#[tokio::test]
async fn what_is_gathered_at_the_end_is_left_to_it() {
    let rig = Rig::new().await;
    let says = async {
        rig.recorder.record(message(1)).await.unwrap();
        rig.recorder.journal(entry(1)).await.unwrap();
        rig.recorder.end();
        assert_eq!(rig.recorder.durable().await, Err(Stopped));
    };
    let (kept, ()) = futures_util::join!(rig.keep(), says);
    let rest = rig.recorder.rest();
    assert_eq!((rest.new.events.len(), rest.new.journal.data.len()), (1, 1));
    assert_eq!((rest.journal, rig.journal().await), (Journal::Empty, 0));
    // After the hand-over it is appended.
    rig.recorder.append(kept.unwrap(), rest.new).await.unwrap();
    assert_eq!(rig.journal().await, 1);
}

#[tokio::test]
async fn a_model_call_and_its_cost_are_stored_together_also_when_it_is_given_up() {
    let rig = Rig::new().await;
    let cost = async || {
        let (org, run) = rig.ids();
        rig.held.store.get_run(org, run).await.unwrap().cost_micros.get()
    };
    let says = async {
        rig.recorder.record(called(7)).await.unwrap();
        rig.recorder.durable().await.unwrap();
        assert_eq!(cost().await, 7);
        rig.recorder.end();
        rig.recorder.charged(called(4));
    };
    let (kept, ()) = futures_util::join!(rig.keep(), says);
    let rest = rig.recorder.rest();
    assert_eq!((rest.new.events.len(), rest.new.cost.get()), (1, 11));
    assert_eq!((rest.new.usage.model_calls, rest.new.usage.input_tokens), (2, 10));
    rig.recorder.append(kept.unwrap(), rest.new).await.unwrap();
    let (org, run) = rig.ids();
    let shown = charged_calls(&rig.held.store, org, run).await.unwrap();
    assert_eq!((shown.get(), cost().await), (11, 11));
}

#[tokio::test]
async fn a_call_whose_event_a_cancel_kept_out_is_told_with_the_cost() {
    let rig = Rig::new().await;
    let says = async {
        rig.recorder.record(called(7)).await.unwrap();
        rig.recorder.durable().await.unwrap();
        rig.cancel().await;
        // The append is fenced, and recording the last call is refused.
        rig.recorder.record(called(4)).await.unwrap();
        rig.recorder.record(message(1)).await.unwrap();
        assert_eq!(rig.recorder.durable().await, Err(Stopped));
        assert_eq!(rig.recorder.record(called(2)).await, Err(Stopped));
        rig.recorder.charged(called(1));
    };
    let (kept, ()) = futures_util::join!(rig.keep(), says);
    assert_eq!(kept, Err(Error::Fenced));
    let (cost, shown, numbers) = rig.settle().await;
    assert_eq!((cost, shown), (14, 14));
    assert_eq!(numbers, (1..=8).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_call_is_told_where_the_run_ends_while_its_event_waits_for_room() {
    let rig = Rig::new().await;
    for step in 0..AHEAD {
        rig.recorder
            .record(message(u32::try_from(step).unwrap()))
            .await
            .unwrap();
    }
    {
        let mut waits = rig.recorder.record(called(5));
        assert!(poll!(&mut waits).is_pending());
    }
    rig.cancel().await;
    assert_eq!(rig.keep().await, Err(Error::Fenced));
    let (cost, shown, _) = rig.settle().await;
    assert_eq!((cost, shown), (5, 5));
}

#[tokio::test]
async fn a_call_whose_recording_is_in_doubt_when_the_run_is_cancelled_is_recorded_once() {
    let rig = Rig::new().await;
    let says = async {
        rig.recorder.record(called(3)).await.unwrap();
        rig.recorder.end();
    };
    let (kept, ()) = futures_util::join!(rig.keep(), says);
    let (fence, new) = (kept.unwrap(), Arc::new(rig.recorder.rest().new));
    assert_eq!(new.events.len(), 1);
    // The answer is lost, and the run is cancelled before the worker checks whether its write was stored.
    let append = async || {
        rig.held.store.append(fence, Arc::clone(&new)).await?;
        rig.cancel().await;
        Err(Error::Unavailable("the answer is lost".to_owned()))
    };
    rig.recorder.append_by(fence, &new, append).await.unwrap();
    let (cost, shown, numbers) = rig.settle().await;
    assert_eq!((cost, shown), (3, 3));
    assert_eq!(numbers, (1..=5).collect::<Vec<_>>());
}

#[derive(Clone, Copy, Debug)]
enum Said {
    Called(u64),
    GivenUp(u64),
    Message,
    Durable,
}

fn said() -> impl Strategy<Value = Said> {
    prop_oneof![
        3 => (0_u64..100).prop_map(Said::Called),
        1 => (1_u64..100).prop_map(Said::GivenUp),
        1 => Just(Said::Message),
        2 => Just(Said::Durable),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// For any records and any moment of the cancel, the cost is the sum of the costs in the events.
    #[test]
    fn a_cancelled_run_costs_what_its_events_show(
        said in proptest::collection::vec(said(), 0..12), cancelled_after in 0_usize..12,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let rig = Rig::new().await;
            let says = async {
                for (number, said) in said.iter().enumerate() {
                    if number == cancelled_after {
                        rig.cancel().await;
                    }
                    let _stopped = match said {
                        Said::Called(cost) => rig.recorder.record(called(*cost)).await,
                        Said::GivenUp(cost) => { rig.recorder.charged(called(*cost)); Ok(()) }
                        Said::Message => rig.recorder.record(message(1)).await,
                        Said::Durable => rig.recorder.durable().await,
                    };
                }
                if cancelled_after >= said.len() {
                    rig.cancel().await;
                }
                rig.recorder.end();
            };
            // Only the cancel ends the run, regardless of whether the recorder notices it.
            let (_fenced_or_ended, ()) = futures_util::join!(rig.keep(), says);
            let all: u64 = said
                .iter()
                .map(|said| match said {
                    Said::Called(cost) | Said::GivenUp(cost) => *cost,
                    Said::Message | Said::Durable => 0,
                })
                .sum();
            let (cost, shown, numbers) = rig.settle().await;
            let all = i64::try_from(all).unwrap();
            assert_eq!((cost, shown), (all, all));
            assert!((1..).zip(&numbers).all(|(due, number)| due == *number), "{numbers:?}");
        });
    }
}

#[tokio::test]
async fn who_waits_for_a_run_that_is_gone_is_told_to_stop() {
    let rig = Rig::new().await;
    rig.cancel().await;
    let says = async {
        // The recorder may be fenced before it accepts anything.
        rig.recorder.journal(entry(1)).await?;
        rig.recorder.durable().await
    };
    let (kept, told) = futures_util::join!(rig.keep(), says);
    assert_eq!((kept, told), (Err(Error::Fenced), Err(Stopped)));
}

#[tokio::test]
async fn entries_count_against_what_may_wait() {
    let rig = Rig::new().await;
    for step in 0..AHEAD {
        let step = u32::try_from(step).unwrap();
        if step % 2 == 0 {
            rig.recorder.journal(entry(step)).await.unwrap();
        } else {
            rig.recorder.record(message(step)).await.unwrap();
        }
    }
    let mut one_more = rig.recorder.journal(entry(0));
    assert!(poll!(&mut one_more).is_pending());
    let waits = async {
        one_more.await.unwrap();
        rig.recorder.durable().await.unwrap();
        rig.recorder.end();
    };
    futures_util::join!(rig.keep(), waits).0.unwrap();
    assert_eq!(rig.journal().await, AHEAD / 2 + 1);
}
