//! The task that sends this node's bulletins and acts on those of others.

use std::time::Duration;

use sortie_store::{Heard, Speaker};
use tokio::{sync::mpsc, time::MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::{Bulletin, PERIOD, Topic};
use crate::Engine;

/// Pause after a bulletin that could not be sent.
const AFTER_FAILURE: Duration = Duration::from_millis(500);

/// Both directions of the channel to other nodes.
pub(crate) type Channel = (Speaker, mpsc::Receiver<Heard>);

/// Tells and hears until `stop`; what has come together by then is still told.
pub(crate) async fn exchange(engine: Engine, (speaker, heard): Channel, stop: CancellationToken) {
    tokio::join!(tell(&engine, &speaker, &stop), hear(&engine, heard, &stop));
}

async fn tell(engine: &Engine, speaker: &Speaker, stop: &CancellationToken) {
    let (news, options) = (&engine.0.cluster.news, &engine.0.options);
    let mut beat = tokio::time::interval(options.heartbeat);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let is_last = tokio::select! {
            biased;
            () = stop.cancelled() => true,
            () = news.arrived() => false,
            _ = beat.tick() => {
                news.greet(options.lease);
                false
            }
        };
        let pause = match news.take().map(Bulletin::text) {
            None => Duration::ZERO,
            Some(Ok(text)) => match speaker.say(text).await {
                Ok(()) => PERIOD,
                Err(error) => {
                    tracing::debug!(%error, "other nodes were not told what is new");
                    news.missed();
                    AFTER_FAILURE
                }
            },
            Some(Err(error)) => {
                tracing::error!(%error, "what is new cannot be written down for other nodes");
                PERIOD
            }
        };
        if is_last {
            return;
        }
        tokio::select! {
            biased;
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => {}
        }
    }
}

async fn hear(engine: &Engine, mut heard: mpsc::Receiver<Heard>, stop: &CancellationToken) {
    loop {
        let next = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            next = heard.recv() => next,
        };
        match next {
            None => return,
            Some(Heard::Gap) => {
                engine.0.cluster.news.join();
                engine.look_at_everything();
            }
            Some(Heard::Text(text)) => engine.act_on(&text),
        }
    }
}

impl Engine {
    /// Another node may have written anything.
    fn look_at_everything(&self) {
        for topic in [
            Topic::Work,
            Topic::Callbacks,
            Topic::Schedules,
            Topic::Nodes,
            Topic::Runs,
        ] {
            self.turn_to(topic);
        }
    }

    /// Wakes whom a bulletin of another node concerns.
    pub(super) fn act_on(&self, text: &str) {
        let node = &self.0;
        node.cluster.news.met();
        let Ok(bulletin) = serde_json::from_str::<Bulletin>(text) else {
            tracing::debug!("a bulletin of another node is of a later version");
            self.look_at_everything();
            return;
        };
        for (run, last) in bulletin.events {
            node.work.hub.hint(run, last);
        }
        for run in bulletin.ended {
            node.work.hub.ended_elsewhere(run);
            if node.work.active.contains(run) {
                // Whether it was is for the store to say.
                node.cluster.wake.watch.notify_one();
            }
        }
        for topic in bulletin.topics {
            self.turn_to(topic);
        }
    }

    fn turn_to(&self, topic: Topic) {
        let node = &self.0;
        match topic {
            // That another node is there is all there is to know.
            Topic::Here | Topic::Later => {}
            Topic::Joined => node.cluster.news.topic(Topic::Here),
            Topic::Work => node.cluster.wake.work.notify_one(),
            Topic::Callbacks => node.work.due.look_here(),
            Topic::Schedules => node.work.timer.ring_here(),
            Topic::Nodes => node.cluster.wake.nodes.notify_one(),
            Topic::Runs => node.cluster.wake.watch.notify_one(),
            Topic::Everything => self.look_at_everything(),
        }
    }
}
