//! The task that sends this node's hints and applies those of others.

use std::time::Duration;

use sortie_store::nodes::{ChannelMessage, Speaker};
use tokio::{sync::mpsc, time::MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::{HintBatch, PERIOD, Topic};
use crate::Engine;

/// Pause after a batch that could not be sent.
const AFTER_FAILURE: Duration = Duration::from_millis(500);

/// Both directions of the channel to other nodes.
pub(crate) type Channel = (Speaker, mpsc::Receiver<ChannelMessage>);

/// Sends and receives hints until `stop`. Hints that were gathered by then are still sent.
pub(crate) async fn exchange(engine: Engine, (speaker, heard): Channel, stop: CancellationToken) {
    tokio::join!(send(&engine, &speaker, &stop), receive(&engine, heard, &stop));
}

async fn send(engine: &Engine, speaker: &Speaker, stop: &CancellationToken) {
    let (hints, options) = (&engine.0.cluster.hints, &engine.0.options);
    let mut beat = tokio::time::interval(options.heartbeat);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let is_last = tokio::select! {
            biased;
            () = stop.cancelled() => true,
            () = hints.added() => false,
            _ = beat.tick() => {
                hints.announce(options.lease);
                false
            }
        };
        let pause = match hints.take().map(HintBatch::text) {
            None => Duration::ZERO,
            Some(Ok(text)) => match speaker.say(text).await {
                Ok(()) => PERIOD,
                Err(error) => {
                    tracing::debug!(%error, "sending hints to other nodes failed");
                    hints.mark_lost();
                    AFTER_FAILURE
                }
            },
            Some(Err(error)) => {
                tracing::error!(%error, "serializing hints for other nodes failed");
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

async fn receive(engine: &Engine, mut heard: mpsc::Receiver<ChannelMessage>, stop: &CancellationToken) {
    loop {
        let next = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            next = heard.recv() => next,
        };
        match next {
            None => return,
            Some(ChannelMessage::Gap) => {
                engine.0.cluster.hints.announce_join();
                engine.wake_all();
            }
            Some(ChannelMessage::Text(text)) => engine.apply_hints(&text),
        }
    }
}

impl Engine {
    /// Wakes every task that reads data of other nodes, because hints may have been lost.
    fn wake_all(&self) {
        for topic in [
            Topic::Work,
            Topic::Callbacks,
            Topic::Schedules,
            Topic::Nodes,
            Topic::Workflows,
            Topic::Runs,
        ] {
            self.wake_for(topic);
        }
    }

    /// Wakes the tasks that a batch of another node concerns.
    pub(super) fn apply_hints(&self, text: &str) {
        let node = &self.0;
        node.cluster.hints.record_peer();
        let Ok(batch) = serde_json::from_str::<HintBatch>(text) else {
            tracing::debug!("received hints of a later version");
            self.wake_all();
            return;
        };
        for (run, last) in batch.events {
            node.work.hub.hint(run, last);
        }
        for run in batch.ended {
            node.work.hub.ended_elsewhere(run);
            if node.work.active.contains(run) {
                // The watch checks in the store that the run has ended.
                node.cluster.wake.watch.notify_one();
            }
        }
        for org in batch.changed {
            node.work.hub.feeds().signal(org);
        }
        for topic in batch.topics {
            self.wake_for(topic);
        }
    }

    fn wake_for(&self, topic: Topic) {
        let node = &self.0;
        match topic {
            // The other node was recorded already.
            Topic::Here | Topic::Later => {}
            Topic::Joined => node.cluster.hints.topic(Topic::Here),
            Topic::Work => node.cluster.wake.work.notify_one(),
            Topic::Callbacks => node.work.due.look_here(),
            Topic::Schedules => node.work.timer.ring_here(),
            Topic::Nodes => node.cluster.wake.nodes.notify_one(),
            Topic::Workflows => node.cluster.wake.workflows.send_replace(()),
            Topic::Runs => {
                node.cluster.wake.watch.notify_one();
                node.work.hub.feeds().signal_all();
            }
            Topic::Everything => self.wake_all(),
        }
    }
}
