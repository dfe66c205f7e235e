//! Commands of the model test.

use proptest::prelude::*;

use crate::tests::prelude::*;

/// Command of a client, a worker or a node. Indexes are taken modulo the number of objects.
#[derive(Clone, Debug)]
pub(super) enum Command {
    Create {
        org: usize,
        key: Option<u8>,
    },
    Claim {
        node: usize,
        limit: u32,
        cap: Option<u32>,
    },
    Start {
        run: usize,
        stale: Stale,
    },
    Append {
        run: usize,
        events: usize,
        entries: usize,
        stale: Stale,
    },
    Finish {
        run: usize,
        status: RunStatus,
        stale: Stale,
    },
    Cancel {
        run: usize,
    },
    Settle {
        run: usize,
        stale: Stale,
        /// Number of events that came too late for the cancellation.
        events: usize,
    },
    Abandon {
        node: usize,
        run: usize,
    },
    Lose {
        node: usize,
    },
    Sweep {
        node: usize,
        limit: u32,
        places: u32,
    },
    Restart {
        node: usize,
    },
}

/// Difference between the fence of a worker and the right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stale {
    No,
    Attempt,
    Event,
}

impl Stale {
    pub(super) fn of(self, fence: Fence) -> Fence {
        match self {
            Self::No => fence,
            Self::Attempt => Fence {
                attempt: fence.attempt - 1,
                ..fence
            },
            Self::Event => after(fence, -1),
        }
    }
}

/// Any command. Most of them have the right fence.
pub(super) fn command() -> impl Strategy<Value = Command> {
    let stale = || prop_oneof![6 => Just(Stale::No), 1 => Just(Stale::Attempt), 1 => Just(Stale::Event)];
    let status = prop::sample::select(RunStatus::ALL.to_vec());
    prop_oneof![
        6 => (0..3_usize, prop::option::weighted(0.3, 0..4_u8)).prop_map(|(org, key)| Command::Create { org, key }),
        5 => (0..2_usize, 0..5_u32, prop::option::of(1..4_u32))
            .prop_map(|(node, limit, cap)| Command::Claim { node, limit, cap }),
        5 => (any::<usize>(), stale()).prop_map(|(run, stale)| Command::Start { run, stale }),
        3 => (any::<usize>(), 0..4_usize, 0..6_usize, stale())
            .prop_map(|(run, events, entries, stale)| Command::Append { run, events, entries, stale }),
        4 => (any::<usize>(), status, stale())
            .prop_map(|(run, status, stale)| Command::Finish { run, status, stale }),
        3 => any::<usize>().prop_map(|run| Command::Cancel { run }),
        3 => (any::<usize>(), stale(), 0_usize..4)
            .prop_map(|(run, stale, events)| Command::Settle { run, stale, events }),
        3 => (0..2_usize, any::<usize>()).prop_map(|(node, run)| Command::Abandon { node, run }),
        1 => (0..2_usize).prop_map(|node| Command::Lose { node }),
        2 => (0..2_usize, 0..5_u32, 0..5_u32)
            .prop_map(|(node, limit, places)| Command::Sweep { node, limit, places }),
        1 => (0..2_usize).prop_map(|node| Command::Restart { node }),
    ]
}
