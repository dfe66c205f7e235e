//! Amounts for rows that many commands share.
//!
//! A command hands these amounts over by [`Tx::tail`](super::Tx::tail) and does not write them itself. The thread that runs
//! the command writes them last before the commit. Commands that share a transaction share one write of each row: their
//! amounts are added up. Rows are written in the order of their keys, so transactions cannot wait for each other in a circle.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    fmt,
};

use sortie_api::{OrgId, RunId, Timestamp};

use crate::{Result, Tx, error::MonthlyRuns};

/// Writer of the rows that many commands share. A thread that runs commands hands it the tails of a transaction.
pub trait SharedRows: fmt::Debug + Send + Sync {
    /// Writes the sums of the tails of several commands, in the order of locks.
    fn write(&self, tx: &mut dyn Tx, sums: &Sums) -> Result<Written>;

    /// Writes the tails of a lone command. An error if a row has no room.
    fn write_of_one(&self, tx: &mut dyn Tx, tails: &[Tail]) -> Result<Written>;

    /// The row that the statement after `answered` statements of [`write`](Self::write) is about, on a server.
    fn row_after(&self, answered: usize, sums: &Sums) -> Option<SharedRow>;

    /// Takes note of a commit: its tails, and the organizations that their writes have left low.
    fn committed(&self, tails: &[Tail], low: Vec<OrgId>);
}

/// Result of a write of tails.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Rows where a limit is reached or that are missing. If there is one, the transaction must be rolled back.
    pub missed: Vec<SharedRow>,
    /// Organizations whose available credits are below the threshold of their automatic purchases now.
    pub low: Vec<OrgId>,
}

/// Write that a command leaves to the end of its transaction. A further kind of row becomes a further variant, and
/// is locked after those listed before it.
#[derive(Clone, Debug)]
pub enum Tail {
    /// Cost of a settled run, to enter into the ledger. Another tail of its command takes the amount from the balance.
    Charge(Charge),
    /// Amounts to add to a window of a budget.
    Window(WindowKey, WindowChange),
    /// Run to count in the allowance of a license.
    Allowance(MonthlyRuns),
    /// Amounts to add to the credit of an organization.
    Credit(OrgId, CreditChange),
}

/// Row that many commands share, and that may have no room for a write. The order is that of locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SharedRow {
    /// Window of a budget.
    Window(WindowKey),
    /// Allowance of the month that begins then.
    Allowance(Timestamp),
    /// Credit of an organization.
    Credit(OrgId),
}

/// Cost of a settled run that is paid with credits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    pub run: RunId,
    /// Cost in micros, more than 0.
    pub amount: i64,
    /// Micros by which the cost exceeded the reservation. They are not part of the amount.
    pub excess: i64,
}

/// Change of an organization's credit. The amounts of several commands add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreditChange {
    /// Micros to add to the balance; negative if more is taken.
    pub added: i64,
    /// Micros to reserve. They must be available.
    pub held: i64,
    /// Micros that are released from the reservation.
    pub released: i64,
}

impl CreditChange {
    /// Reserves an amount.
    pub fn hold(amount: i64) -> Self {
        Self {
            held: amount,
            ..Self::default()
        }
    }

    /// Releases the reservation and takes the cost.
    pub fn settle(reserved: i64, cost: i64) -> Self {
        Self {
            added: cost.saturating_neg(),
            held: 0,
            released: reserved,
        }
    }

    /// Adds the amount of an entry of the ledger.
    pub fn entry(amount: i64) -> Self {
        Self {
            added: amount,
            ..Self::default()
        }
    }

    /// Adds the change of another command.
    fn add(&mut self, other: Self) {
        self.added = self.added.saturating_add(other.added);
        self.held = self.held.saturating_add(other.held);
        self.released = self.released.saturating_add(other.released);
    }
}

/// Primary key of a window of a budget. The order of keys is the order of locks, in every version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WindowKey {
    pub org: OrgId,
    /// Text of the scope.
    pub scope: String,
    pub since: i64,
    pub starts_at: Timestamp,
}

/// Change of a window. The amounts of several commands add up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WindowChange {
    /// Micros to hold; negative if more is given back.
    pub held: i64,
    /// Micros that were spent.
    pub spent: i64,
    /// Limit of the window, if an amount is to be held.
    pub room: Option<Room>,
    /// Whether an amount is given back, so that the window must exist.
    pub gives_back: bool,
}

/// Limit of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Maximum of the held and spent amounts together, in micros.
    pub limit: i64,
    /// Start of the window before this one, if this one had no row when the command ran. Windows before that are deleted.
    pub begins_after: Option<Timestamp>,
    /// Start of the next window.
    pub resets_at: Timestamp,
}

impl Room {
    /// Limit for two amounts together: the lower one.
    fn and(self, other: Self) -> Self {
        Self {
            begins_after: self.begins_after.or(other.begins_after),
            ..if other.limit < self.limit { other } else { self }
        }
    }
}

impl WindowChange {
    /// Holds an amount within a limit.
    pub fn hold(amount: i64, room: Room) -> Self {
        Self {
            held: amount,
            room: Some(room),
            ..Self::default()
        }
    }

    /// Releases the hold and adds the cost.
    pub fn settle(held: i64, spent: i64) -> Self {
        Self {
            held: held.saturating_neg(),
            spent,
            room: None,
            gives_back: true,
        }
    }

    /// Adds the change of another command. The lower limit holds for both.
    fn add(&mut self, other: &Self) {
        self.held = self.held.saturating_add(other.held);
        self.spent = self.spent.saturating_add(other.spent);
        self.gives_back |= other.gives_back;
        self.room = match (self.room, other.room) {
            (Some(room), Some(other)) => Some(room.and(other)),
            (room, other) => room.or(other),
        };
    }
}

/// Runs to count in the allowance of a month.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllowanceChange {
    /// Number of runs.
    pub runs: i64,
    /// Allowance of the month.
    pub allowed: MonthlyRuns,
}

/// Sums of the tails of one transaction by row, in the order of locks.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    windows: BTreeMap<WindowKey, WindowChange>,
    charged: BTreeSet<RunId>,
    credits: BTreeMap<OrgId, CreditChange>,
    allowances: BTreeMap<Timestamp, AllowanceChange>,
}

impl Sums {
    /// Adds up these tails.
    pub fn of<'a>(tails: impl IntoIterator<Item = &'a Tail>) -> Self {
        let mut sums = Self::default();
        for tail in tails {
            match tail {
                Tail::Window(key, change) => match sums.windows.entry(key.clone()) {
                    Entry::Vacant(entry) => drop(entry.insert(change.clone())),
                    Entry::Occupied(mut entry) => entry.get_mut().add(change),
                },
                Tail::Charge(charge) => drop(sums.charged.insert(charge.run)),
                Tail::Credit(org, change) => sums.credits.entry(*org).or_default().add(*change),
                Tail::Allowance(allowed) => sums.count_run(*allowed),
            }
        }
        sums
    }

    /// Counts a run. The lower limit holds for all runs of a month.
    fn count_run(&mut self, allowed: MonthlyRuns) {
        let none = AllowanceChange { runs: 0, allowed };
        let sum = self.allowances.entry(allowed.month).or_insert(none);
        sum.runs = sum.runs.saturating_add(1);
        if allowed.most < sum.allowed.most {
            sum.allowed = allowed;
        }
    }

    /// Changes of windows.
    pub fn windows(&self) -> &BTreeMap<WindowKey, WindowChange> {
        &self.windows
    }

    /// Runs whose costs are entered into the ledger.
    pub fn charged(&self) -> &BTreeSet<RunId> {
        &self.charged
    }

    /// Changes of credits.
    pub fn credits(&self) -> &BTreeMap<OrgId, CreditChange> {
        &self.credits
    }

    /// Changes of allowances, by the start of their months.
    pub fn allowances(&self) -> &BTreeMap<Timestamp, AllowanceChange> {
        &self.allowances
    }
}

impl Tail {
    /// Whether this is for one of these rows.
    pub fn is_for(&self, rows: &[SharedRow]) -> bool {
        rows.iter().any(|row| match (row, self) {
            (SharedRow::Window(row), Self::Window(key, _)) => row == key,
            (SharedRow::Allowance(row), Self::Allowance(allowed)) => *row == allowed.month,
            (SharedRow::Credit(row), Self::Credit(org, _)) => row == org,
            (
                SharedRow::Window(_) | SharedRow::Allowance(_) | SharedRow::Credit(_),
                Self::Charge(_) | Self::Window(..) | Self::Allowance(_) | Self::Credit(..),
            ) => false,
        })
    }
}
