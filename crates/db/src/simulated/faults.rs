//! Faults of the network and the server, and their random choice.

use std::time::Duration;

use fastrand::Rng;

/// Frequency of each fault, per thousand commands, and delays. The default is a network without faults.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// The connection is cut before the statements have arrived.
    pub cut: u32,
    /// The connection is cut while COMMIT is under way, before the commit took place.
    pub lost_before: u32,
    /// The commit took place, and its answer is lost.
    pub lost_after: u32,
    /// The commit takes place seconds after its connection was lost.
    pub late: u32,
    /// BEGIN is cancelled, and the statements after it arrive.
    pub begin_cancelled: u32,
    /// A statement is cancelled.
    pub cancelled: u32,
    /// The transaction is the victim of a deadlock.
    pub deadlock: u32,
    /// A hint between nodes is lost.
    pub deaf: u32,
    /// Longest time of a command on its way to the server, and of its answer on the way back.
    pub way: Duration,
    /// Time of each commit.
    pub commit: Duration,
}

/// The fate of a command, or of several that share a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fate {
    #[default]
    Fine,
    Cut,
    LostBefore,
    LostAfter,
    Late(Duration),
    BeginCancelled,
    Cancelled,
    Deadlock,
}

impl Fate {
    /// Number of the fate in the trace.
    pub(super) fn number(self) -> u64 {
        match self {
            Self::Fine => 0,
            Self::Cut => 1,
            Self::LostBefore => 2,
            Self::LostAfter => 3,
            Self::Late(time) => 8 + u64::from(time.subsec_micros()),
            Self::BeginCancelled => 4,
            Self::Cancelled => 5,
            Self::Deadlock => 6,
        }
    }

    /// Whether the fate keeps a command from being done in time.
    pub(super) fn is_outage(self) -> bool {
        self != Self::Fine
    }

    /// Code and text by which the server refuses each statement, if it does.
    pub(super) fn refusal(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Cancelled => Some(("57014", "canceling statement due to statement timeout")),
            Self::Deadlock => Some(("40P01", "deadlock detected")),
            Self::Fine
            | Self::Cut
            | Self::LostBefore
            | Self::LostAfter
            | Self::Late(_)
            | Self::BeginCancelled => None,
        }
    }

    /// Whether a commit takes place when it is requested.
    pub(super) fn commits(self) -> bool {
        !matches!(self, Self::LostBefore | Self::Late(_))
    }

    /// Whether the answer to a commit comes back.
    pub(super) fn answers(self) -> bool {
        self.commits() && self != Self::LostAfter
    }
}

impl Faults {
    pub(super) fn fate(&self, rng: &mut Rng) -> Fate {
        let mut drawn = rng.u32(0..1_000);
        let mut falls = |chance: u32| match drawn.checked_sub(chance) {
            Some(left) => {
                drawn = left;
                false
            }
            None => true,
        };
        if falls(self.cut) {
            Fate::Cut
        } else if falls(self.lost_before) {
            Fate::LostBefore
        } else if falls(self.lost_after) {
            Fate::LostAfter
        } else if falls(self.late) {
            Fate::Late(Duration::from_millis(rng.u64(50..700) * rng.u64(1..8)))
        } else if falls(self.begin_cancelled) {
            Fate::BeginCancelled
        } else if falls(self.cancelled) {
            Fate::Cancelled
        } else if falls(self.deadlock) {
            Fate::Deadlock
        } else {
            Fate::Fine
        }
    }

    /// Draws the time of one way.
    pub(super) fn way(&self, rng: &mut Rng) -> Duration {
        let longest = u64::try_from(self.way.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(rng.u64(100..=longest.max(200)))
    }
}
