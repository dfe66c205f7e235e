//! Channel between nodes: a hint reaches the other nodes after a while, or never.

use std::time::Duration;

use tokio::sync::mpsc;

use super::{SimulatedLink, SimulatedServer};
use crate::{
    Error,
    channel::{ChannelMessage, OutgoingHint},
};

/// Capacity of the queue of received hints, as on `PostgreSQL`.
const INCOMING: usize = 1_024;
/// Capacity of the queue of hints to send, as on `PostgreSQL`.
const OUTGOING: usize = 16;

/// Opens the channel of a node.
pub(crate) fn open(link: &SimulatedLink) -> (mpsc::Sender<OutgoingHint>, mpsc::Receiver<ChannelMessage>) {
    let (say, mut said) = mpsc::channel::<OutgoingHint>(OUTGOING);
    let (hints, heard) = mpsc::channel(INCOMING);
    link.listens(hints.clone());
    if let Some(server) = link.server() {
        let link = link.clone();
        server.spawn(async move {
            hear(&hints, ChannelMessage::Gap);
            while let Some(said) = said.recv().await {
                let Some((way, is_lost)) = link.server().map(|server| server.draw_message()) else {
                    return;
                };
                tokio::time::sleep(way).await;
                if link.is_cut() {
                    std::future::pending::<()>().await;
                }
                if is_lost || !link.is_reachable() {
                    said.answer(Err(Error::Unavailable("the hint was lost".to_owned())));
                    hear(&hints, ChannelMessage::Gap);
                    continue;
                }
                if let Some(server) = link.server() {
                    server.tell_others(&link, &said.text);
                }
                said.answer(Ok(()));
            }
        });
    }
    (say, heard)
}

/// Passes a hint on. It is lost if the node does not listen.
fn hear(hints: &mpsc::Sender<ChannelMessage>, heard: ChannelMessage) {
    let _missed = hints.try_send(heard);
}

impl SimulatedServer {
    fn draw_message(&self) -> (Duration, bool) {
        let mut state = self.state();
        let faults = state.faults;
        let is_lost = state.rng.u32(0..1_000) < faults.deaf;
        (faults.way(&mut state.rng), is_lost)
    }

    fn tell_others(&self, from: &SimulatedLink, text: &str) {
        let links = self.state().links.clone();
        for link in links
            .iter()
            .filter(|link| link.name() != from.name() && link.is_reachable())
        {
            if let Some(hints) = link.hints() {
                hear(&hints, ChannelMessage::Text(text.to_owned()));
            }
        }
    }
}
