//! Registry of the connections of all listeners of a node: counts them by client, and selects one to close at the limit.
//!
//! Connections get a share of the file descriptors of the process; the rest is reserved for runs, storage and the
//! database. One client address gets at most half of that share, except trusted proxies, because they forward many clients. A
//! new connection beyond either limit replaces one without an active request: first one that never sent a complete
//! request, then one that waits for its next request; the oldest first. If there is no such connection, the new one is closed.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use ipnet::IpNet;
use parking_lot::{Mutex, MutexGuard};
use sortie_base::network;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::metrics::ConnectionMetrics;

/// Connections of a node.
#[derive(Clone)]
pub(crate) struct Connections(Arc<Shared>);

struct Shared {
    /// Maximum number of connections.
    most: usize,
    trusted_proxies: Vec<IpNet>,
    /// Time in which a write to a client makes progress.
    stall: Duration,
    metrics: ConnectionMetrics,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    /// Counter of stage changes.
    clock: u64,
    entries: HashMap<u64, Entry>,
    /// Connections without an active request, in the order in which they are closed.
    idle: BTreeMap<(Stage, u64), u64>,
    /// Number of connections by network, without those of trusted proxies.
    networks: HashMap<IpAddr, usize>,
}

struct Entry {
    /// `None` for a trusted proxy.
    network: Option<IpAddr>,
    stage: Stage,
    /// [`Open::clock`] at the start of the stage.
    since: u64,
    close: CancellationToken,
}

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// The client has not sent a complete request yet.
    New,
    /// The last request was answered, and the next has not arrived.
    Answered,
    /// A request is active.
    Busy,
}

impl Open {
    fn enter(&mut self, id: u64, stage: Stage) {
        self.clock += 1;
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        if entry.stage != Stage::Busy {
            self.idle.remove(&(entry.stage, entry.since));
        }
        entry.stage = stage;
        entry.since = self.clock;
        if stage != Stage::Busy {
            self.idle.insert((stage, entry.since), id);
        }
    }

    fn remove(&mut self, id: u64) -> Option<Entry> {
        let entry = self.entries.remove(&id)?;
        self.idle.remove(&(entry.stage, entry.since));
        if let Some(network) = entry.network
            && let Some(count) = self.networks.get_mut(&network)
        {
            *count -= 1;
            if *count == 0 {
                self.networks.remove(&network);
            }
        }
        Some(entry)
    }

    /// Finds the connection to close: any one, or one of a network.
    fn gives_way(&self, network: Option<IpAddr>) -> Option<u64> {
        let mut idle = self.idle.values().copied();
        match network {
            None => idle.next(),
            network => idle.find(|id| self.entries.get(id).is_some_and(|entry| entry.network == network)),
        }
    }
}

impl Connections {
    /// Creates a registry of at most `most` connections. `trusted_proxies` have no limit per address. A connection is closed if a
    /// write to it makes no progress within `stall`.
    pub(crate) fn new(
        most: usize,
        trusted_proxies: Vec<IpNet>,
        stall: Duration,
        metrics: ConnectionMetrics,
    ) -> Self {
        Self(Arc::new(Shared {
            most,
            trusted_proxies,
            stall,
            metrics,
            open: Mutex::default(),
        }))
    }

    /// Admits a connection from `peer`, and at the limit closes another connection for it. Returns `None` if no other can be
    /// closed. The connection is notified when it has to close for another one, and at `stop`.
    pub(super) fn admit(&self, peer: IpAddr, stop: &CancellationToken) -> Option<Connection> {
        let address = peer.to_canonical();
        let is_proxy = self
            .0
            .trusted_proxies
            .iter()
            .any(|proxies| proxies.contains(&address));
        let network = (!is_proxy).then(|| network(address));
        let mut open = self.open();
        let of_network = network.and_then(|network| open.networks.get(&network)).copied();
        let crowded = if of_network.unwrap_or(0) >= (self.0.most / 2).max(1) {
            Some(network)
        } else if open.entries.len() >= self.0.most {
            Some(None)
        } else {
            None
        };
        if let Some(of) = crowded {
            let Some(removed) = open.gives_way(of).and_then(|id| open.remove(id)) else {
                self.0.metrics.refused();
                return None;
            };
            removed.close.cancel();
            self.0.metrics.gave_way();
        }
        open.clock += 1;
        let id = open.clock;
        let close = stop.child_token();
        let entry = Entry {
            network,
            stage: Stage::New,
            since: id,
            close: close.clone(),
        };
        open.entries.insert(id, entry);
        open.idle.insert((Stage::New, id), id);
        if let Some(network) = network {
            *open.networks.entry(network).or_default() += 1;
        }
        self.0.metrics.set_open(open.entries.len());
        drop(open);
        Some(Connection(Arc::new(Registration {
            connections: self.clone(),
            id,
            close,
        })))
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.open.lock()
    }
}

/// Open connection.
#[derive(Clone)]
pub(super) struct Connection(Arc<Registration>);

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connection").field(&self.0.id).finish()
    }
}

struct Registration {
    connections: Connections,
    id: u64,
    close: CancellationToken,
}

impl Connection {
    /// Completes when the connection has to close for another one, or at the stop.
    pub(super) fn closes(&self) -> WaitForCancellationFutureOwned {
        self.0.close.clone().cancelled_owned()
    }

    /// Time in which a write to the client makes progress.
    pub(super) fn stall(&self) -> Duration {
        self.0.connections.0.stall
    }

    /// Begins a request. The request ends when the returned guard is dropped.
    pub(super) fn begin_request(&self) -> AtRequest {
        self.0.connections.open().enter(self.0.id, Stage::Busy);
        AtRequest(self.clone())
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut open = self.connections.open();
        open.remove(self.id);
        self.connections.0.metrics.set_open(open.entries.len());
    }
}

/// Active request of a connection, until its answer is sent.
#[derive(Debug)]
pub(super) struct AtRequest(Connection);

impl Drop for AtRequest {
    fn drop(&mut self) {
        let place = &self.0.0;
        place.connections.open().enter(place.id, Stage::Answered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections(most: usize) -> Connections {
        let proxies = vec!["10.0.0.0/8".parse().unwrap()];
        Connections::new(
            most,
            proxies,
            Duration::from_secs(30),
            ConnectionMetrics::default(),
        )
    }

    fn peer(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn gave_way(connection: &Connection) -> bool {
        connection.0.close.is_cancelled()
    }

    #[test]
    fn the_oldest_connection_without_a_request_gives_way() {
        let (all, stop) = (connections(4), CancellationToken::new());
        let admit = |last| all.admit(peer(last), &stop).unwrap();
        let (busy, answered, first, second) = (admit(1), admit(2), admit(3), admit(4));
        let request = busy.begin_request();
        drop(answered.begin_request());
        let third = admit(5);
        assert!(gave_way(&first), "it never sent a request");
        let fourth = admit(6);
        assert!(gave_way(&second));
        let requests = (third.begin_request(), fourth.begin_request());
        let fifth = admit(7);
        assert!(gave_way(&answered), "it waits for its next request");
        let more = fifth.begin_request();
        assert!(all.admit(peer(8), &stop).is_none(), "all are at work");
        assert!(![&busy, &third, &fourth, &fifth].into_iter().any(gave_way));
        drop((request, requests, more));
        drop((busy, answered, first, second, third, fourth, fifth));
        assert!(
            all.open().entries.is_empty() && all.open().networks.is_empty() && all.open().idle.is_empty()
        );
    }

    #[test]
    fn one_address_has_half_of_the_connections_and_a_trusted_proxy_all() {
        let (all, stop) = (connections(8), CancellationToken::new());
        let of_one: Vec<Connection> = (0..4).map(|_| all.admit(peer(1), &stop).unwrap()).collect();
        let other = all.admit(peer(2), &stop).unwrap();
        let fifth = all.admit(peer(1), &stop).unwrap();
        assert!(gave_way(&of_one[0]) && !gave_way(&other), "its own oldest");
        let requests: Vec<AtRequest> = of_one[1..]
            .iter()
            .chain([&fifth])
            .map(Connection::begin_request)
            .collect();
        assert!(all.admit(peer(1), &stop).is_none());
        let proxy = IpAddr::from([10, 1, 2, 3]);
        let of_proxy: Vec<Connection> = (0..3).map(|_| all.admit(proxy, &stop).unwrap()).collect();
        assert!(!gave_way(&other));
        let _another = all.admit(proxy, &stop).unwrap();
        assert!(gave_way(&other), "the oldest that is not at a request");
        assert!(!of_proxy.iter().any(gave_way));
        drop(requests);
    }
}
