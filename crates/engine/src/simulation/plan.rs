//! The plan that a seed draws: the cluster, its clients, and the faults.

use std::time::Duration;

use fastrand::Rng;
use sortie_store::simulation::Faults;

/// A schedule.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) nodes: usize,
    /// Connections of each node for commands.
    pub(super) connections: u32,
    /// Maximum concurrent runs on each node.
    pub(super) concurrency: u32,
    /// Differences of the clocks of nodes, in microseconds.
    pub(super) clocks_off: i64,
    pub(super) faults: Faults,
    pub(super) clients: usize,
    /// Clients that start at the same time, on the first node.
    pub(super) burst: usize,
    pub(super) incidents: Vec<(Duration, Incident)>,
    /// Time during which clients start and faults occur.
    pub(super) busy: Duration,
}

/// A fault at a moment.
#[derive(Clone, Copy, Debug)]
pub(super) enum Incident {
    /// The process of a node crashes, and restarts after this time.
    Crash(usize, Duration),
    /// No data passes between a node and the database for this time.
    Hang(usize, Duration),
    /// Connections of a node are reset, and new ones are refused for this time.
    Refuse(usize, Duration),
    /// Another server takes over the database, and is reachable after this time.
    FailOver(Duration),
    /// The clock of the database is set.
    DatabaseClock(i64),
    /// The clock of a node is set.
    NodeClock(usize, i64),
}

/// A network without faults.
pub(super) const CALM: Faults = Faults {
    cut: 0,
    lost_before: 0,
    lost_after: 0,
    late: 0,
    begin_cancelled: 0,
    cancelled: 0,
    deadlock: 0,
    deaf: 0,
    way: Duration::from_millis(2),
    commit: Duration::from_millis(1),
};

impl Plan {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        let nodes = rng.usize(2..=3);
        let busy = Duration::from_millis(rng.u64(4_000..16_000));
        match rng.u32(0..16) {
            0..2 => return Self::crowded(rng, nodes),
            2 => return Self::slow(rng, nodes),
            _ => {}
        }
        let mut faults = CALM;
        faults.way = Duration::from_millis(rng.u64(1..40));
        faults.commit = Duration::from_millis(rng.u64(0..30));
        if rng.bool() {
            // Draws a few kinds of faults, each frequent enough that they coincide.
            for chance in [
                &mut faults.cut,
                &mut faults.lost_before,
                &mut faults.lost_after,
                &mut faults.late,
                &mut faults.begin_cancelled,
                &mut faults.cancelled,
                &mut faults.deadlock,
                &mut faults.deaf,
            ] {
                if rng.u32(0..3) == 0 {
                    *chance = rng.u32(1..80);
                }
            }
        }
        let mut incidents = Vec::new();
        for _ in 0..rng.u32(0..4) {
            let at = Duration::from_millis(rng.u64(500..4_000) * rng.u64(1..4));
            incidents.push((at, Incident::draw(rng, nodes)));
        }
        incidents.sort_by_key(|(at, _)| *at);
        Self {
            nodes,
            connections: rng.u32(1..=3),
            concurrency: rng.u32(1..=6),
            clocks_off: if rng.bool() { rng.i64(0..30_000_000) } else { 0 },
            faults,
            clients: rng.usize(2..9),
            burst: 0,
            incidents,
            busy,
        }
    }

    /// Commits take longer than some clients wait, and do not hold each other up.
    fn slow(rng: &mut Rng, nodes: usize) -> Self {
        let commit = Duration::from_millis(rng.u64(1_100..1_800));
        Self {
            nodes,
            connections: 4,
            concurrency: rng.u32(1..=6),
            clocks_off: 0,
            faults: Faults { commit, ..CALM },
            clients: rng.usize(3..9),
            burst: 0,
            incidents: Vec::new(),
            busy: Duration::from_millis(rng.u64(4_000..16_000)),
        }
    }

    /// Commits are slow, and many clients use one node at once: commands of that node wait longer than a lease.
    fn crowded(rng: &mut Rng, nodes: usize) -> Self {
        let commit = Duration::from_millis(rng.u64(400..900));
        let waits = Duration::from_millis(rng.u64(15_000..26_000));
        let burst = waits.as_millis() / commit.as_millis().max(1);
        Self {
            nodes,
            connections: 1,
            concurrency: rng.u32(1..=6),
            clocks_off: 0,
            faults: Faults { commit, ..CALM },
            clients: rng.usize(0..3),
            burst: usize::try_from(burst).unwrap_or(20),
            incidents: Vec::new(),
            busy: waits + Duration::from_secs(6),
        }
    }
}

impl Incident {
    fn draw(rng: &mut Rng, nodes: usize) -> Self {
        let node = rng.usize(0..nodes);
        let step = rng.i64(-90_000_000..90_000_000);
        match rng.u32(0..10) {
            0..3 => Self::Crash(node, Duration::from_millis(rng.u64(0..15_000))),
            3..5 => Self::Hang(node, Duration::from_millis(rng.u64(50..20_000))),
            5..7 => Self::Refuse(node, Duration::from_millis(rng.u64(0..6_000))),
            7 => Self::FailOver(Duration::from_millis(rng.u64(0..4_000))),
            8 => Self::DatabaseClock(step),
            _ => Self::NodeClock(node, step),
        }
    }
}
