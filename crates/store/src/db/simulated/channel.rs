//! The channel between nodes: what one says is heard by the others after a while, or never.

use std::time::Duration;

use tokio::sync::mpsc;

use super::{SimulatedLink, SimulatedServer};
use crate::{
    channel::{Heard, Said},
    types::Error,
};

/// Texts that wait to be heard, and to be said: see `PostgreSQL`.
const HEARD: usize = 1_024;
const SAID: usize = 16;

/// Opens the channel of a node.
pub(in crate::db) fn open(link: &SimulatedLink) -> (mpsc::Sender<Said>, mpsc::Receiver<Heard>) {
    let (say, mut said) = mpsc::channel::<Said>(SAID);
    let (ears, heard) = mpsc::channel(HEARD);
    link.listens(ears.clone());
    if let Some(server) = link.server() {
        let link = link.clone();
        server.spawn(async move {
            hear(&ears, Heard::Gap);
            while let Some(said) = said.recv().await {
                let Some((way, is_lost)) = link.server().map(|server| server.draw_message()) else {
                    return;
                };
                tokio::time::sleep(way).await;
                if link.is_cut() {
                    std::future::pending::<()>().await;
                }
                if is_lost || !link.is_reachable() {
                    said.answer(Err(Error::Unavailable("nobody was told".to_owned())));
                    hear(&ears, Heard::Gap);
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

/// A node that does not listen misses it.
fn hear(ears: &mpsc::Sender<Heard>, heard: Heard) {
    let _missed = ears.try_send(heard);
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
            if let Some(ears) = link.ears() {
                hear(&ears, Heard::Text(text.to_owned()));
            }
        }
    }
}
