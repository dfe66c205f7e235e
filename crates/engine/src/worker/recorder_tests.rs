use std::future::Future;

use futures_util::{FutureExt, future::join3, poll};
use sortie_agent::journal::What;
use sortie_api::{OrgId, RunId};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    testing::{Held, held},
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
            status: RunStatus::Starting,
            events: vec![status.unwrap()],
        };
        self.recorder.keep(self.held.claim.fence, opening)
    }

    async fn journal(&self) -> usize {
        let (_, run) = self.ids();
        self.held.store.journal(run).await.unwrap().len()
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
        // Nothing new was said.
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
    // Handed over, it is appended.
    rig.recorder.append(kept.unwrap(), rest.new).await.unwrap();
    assert_eq!(rig.journal().await, 1);
}

#[tokio::test]
async fn a_model_call_and_its_cost_are_stored_together_also_when_it_is_given_up() {
    let rig = Rig::new().await;
    let called = |cost| {
        EventType::ModelCall(sortie_api::event::ModelCall {
            model: "m".to_owned(),
            step: 1,
            input_tokens: 5,
            output_tokens: 0,
            cache_read_tokens: 0,
            cache_write_tokens: 0,
            cost_micros: Micros::new(cost).unwrap(),
            duration_ms: 1,
            stop_reason: "end_turn",
        })
    };
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
async fn who_waits_for_a_run_that_is_gone_is_told_to_stop() {
    let rig = Rig::new().await;
    let (org, run) = rig.ids();
    rig.held
        .store
        .cancel_run(org, run, Clock::system().now())
        .await
        .unwrap();
    let says = async {
        // It may be fenced before anything is said.
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
