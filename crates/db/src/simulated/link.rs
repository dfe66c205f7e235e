//! Link of a node to the server, with its current faults.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::mpsc, time::Instant};

use super::{SimulatedServer, faults::Fate};
use crate::channel::ChannelMessage;

/// Number of outages that a link remembers.
const MOST_OUTAGES: usize = 64;

impl std::fmt::Debug for SimulatedLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.name)
    }
}

/// Link of a node to the server. Cheap to clone.
#[derive(Clone)]
pub struct SimulatedLink(Arc<Inner>);

struct Inner {
    name: String,
    server: std::sync::Weak<super::Shared>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Nothing passes before this time.
    hangs_until: Option<Instant>,
    /// Connections are refused before this time.
    refuses_until: Option<Instant>,
    /// Whether the node is dead. The link then drops all its messages.
    is_cut: bool,
    /// Increased when all connections are reset.
    resets: u32,
    /// Sender of the hints that other nodes send to this one.
    hints: Option<mpsc::Sender<ChannelMessage>>,
    outages: VecDeque<Outage>,
}

/// Outage in which the link may have kept the node from renewing its lease.
#[derive(Clone, Copy, Debug)]
pub struct Outage {
    /// Beginning of the outage.
    pub from: Instant,
    /// End of the outage.
    pub until: Instant,
}

impl SimulatedLink {
    pub(super) fn new(server: &SimulatedServer, name: &str) -> Self {
        Self(Arc::new(Inner {
            name: name.to_owned(),
            server: Arc::downgrade(&server.0),
            state: Mutex::default(),
        }))
    }

    /// Name of the node.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Whether both are the same link.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Lets nothing pass for this time. Connections stay open.
    pub fn hang(&self, time: Duration) {
        self.state().hangs_until = Some(Instant::now() + time);
        self.record_outage(time);
    }

    /// Resets every connection, and refuses new ones for this time.
    pub fn refuse(&self, time: Duration) {
        {
            let mut state = self.state();
            state.refuses_until = Some(Instant::now() + time);
            state.resets += 1;
        }
        self.record_outage(time);
    }

    /// Kills the node: its commands are neither served nor answered from now on.
    pub fn cut(&self) {
        self.state().is_cut = true;
    }

    /// Whether the node is dead.
    pub fn is_cut(&self) -> bool {
        self.state().is_cut
    }

    /// Ends the faults of the link. A dead node stays dead.
    pub fn heal(&self) {
        let mut state = self.state();
        state.hangs_until = None;
        state.refuses_until = None;
    }

    /// Whether the link had an outage within `time` before now.
    pub fn had_outage_within(&self, time: Duration) -> bool {
        let now = Instant::now();
        let state = self.state();
        state.outages.iter().any(|outage| outage.until + time >= now)
    }

    pub(super) fn record_outage(&self, time: Duration) {
        let from = Instant::now();
        let mut state = self.state();
        if state.outages.len() == MOST_OUTAGES {
            state.outages.pop_front();
        }
        state.outages.push_back(Outage {
            from,
            until: from + time,
        });
    }

    /// Time at which the link lets something pass again, if it is blocked now.
    pub(super) fn hangs_until(&self) -> Option<Instant> {
        self.state().hangs_until.filter(|until| *until > Instant::now())
    }

    /// Whether a connection can be opened now.
    pub(super) fn is_reachable(&self) -> bool {
        let state = self.state();
        let now = Instant::now();
        let is_over = |until: Option<Instant>| until.is_none_or(|until| until <= now);
        !state.is_cut && is_over(state.hangs_until) && is_over(state.refuses_until)
    }

    pub(super) fn resets(&self) -> u32 {
        self.state().resets
    }

    pub(super) fn listens(&self, hints: mpsc::Sender<ChannelMessage>) {
        self.state().hints = Some(hints);
    }

    pub(super) fn hints(&self) -> Option<mpsc::Sender<ChannelMessage>> {
        self.state().hints.clone()
    }

    /// The server, unless it was dropped.
    pub(super) fn server(&self) -> Option<SimulatedServer> {
        self.0.server.upgrade().map(SimulatedServer)
    }

    /// Draws the fate of the next command, and the times of its way and of its answer's way back.
    pub(super) fn draw(&self) -> (Fate, Duration, Duration) {
        let Some(server) = self.server() else {
            return (Fate::Cut, Duration::ZERO, Duration::ZERO);
        };
        let mut state = server.state();
        let faults = state.faults;
        let fate = faults.fate(&mut state.rng);
        let (there, back) = (faults.way(&mut state.rng), faults.way(&mut state.rng));
        (fate, there, back)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }
}
