//! The record of a schedule, and the rules that it must not break.
//!
//! - A node that reaches the database within a lease is never declared lost.
//! - One worker begins each attempt at a run, and one node that reaches the database works on a run.
//! - Every run that was stored ends, exactly once, and as clients were told.
//! - An effect takes place at most once.
//! - Nothing is held in a budget once every run has ended, and what was spent is what the runs cost.
//! - The output of a run that is not retained is lost with the process that had it, and in no other way.
//! - A client never hears of an internal error.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};
use sortie_api::{RunId, RunStatus};
use sortie_store::runs::Fence;
use tokio::time::Instant;

/// The record of a schedule. Cheap to clone.
#[derive(Clone)]
pub(super) struct Witness(Arc<Inner>);

struct Inner {
    began: Instant,
    record: Mutex<Record>,
}

#[derive(Default)]
struct Record {
    /// The first rule that was broken.
    broken: Option<String>,
    attempts: BTreeSet<(RunId, i64)>,
    effects: BTreeMap<(RunId, u32), i64>,
    /// Final states that clients were told.
    told: BTreeMap<RunId, RunStatus>,
    /// Runs that clients were told of, by idempotency key.
    keys: BTreeMap<String, RunId>,
}

impl Witness {
    pub(super) fn new() -> Self {
        Self(Arc::new(Inner {
            began: Instant::now(),
            record: Mutex::default(),
        }))
    }

    /// Time since the schedule began.
    pub(super) fn elapsed(&self) -> std::time::Duration {
        self.0.began.elapsed()
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.0.record.lock()
    }

    /// A rule is broken.
    pub(super) fn breaks(&self, rule: impl std::fmt::Display) {
        let at = self.elapsed();
        tracing::error!(?at, %rule, "a rule is broken");
        self.record()
            .broken
            .get_or_insert_with(|| format!("after {at:?}: {rule}"));
    }

    /// The first rule that was broken.
    pub(super) fn broken(&self) -> Option<String> {
        self.record().broken.clone()
    }

    /// A worker begins an attempt.
    pub(super) fn attempt(&self, Fence { run, attempt, .. }: Fence) {
        if !self.record().attempts.insert((run, attempt)) {
            self.breaks(format_args!("two workers begin attempt {attempt} at {run}"));
        }
    }

    /// An effect takes place.
    pub(super) fn effect(&self, Fence { run, attempt, .. }: Fence, number: u32) {
        let before = self.record().effects.insert((run, number), attempt);
        if let Some(before) = before {
            self.breaks(format_args!(
                "effect {number} of {run} takes place in attempt {before} and in attempt {attempt}"
            ));
        }
    }

    /// A client is told of a run, which has this key.
    pub(super) fn created(&self, key: Option<&str>, run: RunId) {
        let Some(key) = key else {
            return;
        };
        let before = self.record().keys.insert(key.to_owned(), run);
        if let Some(before) = before.filter(|before| *before != run) {
            self.breaks(format_args!("the key {key} is of {before} and of {run}"));
        }
    }

    /// A client is told the status of a run.
    pub(super) fn told(&self, run: RunId, status: RunStatus) {
        if !status.is_final() {
            return;
        }
        let before = self.record().told.insert(run, status);
        if let Some(before) = before.filter(|before| *before != status) {
            self.breaks(format_args!(
                "{run} ends as {} and as {}",
                before.as_str(),
                status.as_str()
            ));
        }
    }

    /// Runs that clients were told of by their key.
    pub(super) fn acknowledged(&self) -> Vec<RunId> {
        self.record().keys.values().copied().collect()
    }
}
