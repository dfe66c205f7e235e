//! The record of a schedule, and the rules that it must not break.
//!
//! - A node that reaches the database within a lease is never declared lost.
//! - One worker begins each attempt at a run, and one node that reaches the database works on a run.
//! - Every stored run ends exactly once, with the status that clients saw.
//! - An effect takes place at most once.
//! - Once every run has ended, budgets hold no reservations, and the spent amount is the cost of the runs.
//! - The output of a run without retention is lost only with the process that had it.
//! - A client never gets an internal error.

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
    /// Terminal statuses that clients have seen.
    told: BTreeMap<RunId, RunStatus>,
    /// Runs that clients have been given, by idempotency key.
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

    /// Records that a rule is broken.
    pub(super) fn breaks(&self, rule: impl std::fmt::Display) {
        let at = self.elapsed();
        tracing::error!(?at, %rule, "a rule is broken");
        self.record()
            .broken
            .get_or_insert_with(|| format!("after {at:?}: {rule}"));
    }

    /// Returns the first rule that was broken.
    pub(super) fn broken(&self) -> Option<String> {
        self.record().broken.clone()
    }

    /// Records that a worker begins an attempt.
    pub(super) fn attempt(&self, Fence { run, attempt, .. }: Fence) {
        if !self.record().attempts.insert((run, attempt)) {
            self.breaks(format_args!("two workers begin attempt {attempt} at {run}"));
        }
    }

    /// Records that an effect takes place.
    pub(super) fn effect(&self, Fence { run, attempt, .. }: Fence, number: u32) {
        let before = self.record().effects.insert((run, number), attempt);
        if let Some(before) = before {
            self.breaks(format_args!(
                "effect {number} of {run} takes place in attempt {before} and in attempt {attempt}"
            ));
        }
    }

    /// Records that a client was given a run for this key.
    pub(super) fn created(&self, key: Option<&str>, run: RunId) {
        let Some(key) = key else {
            return;
        };
        let before = self.record().keys.insert(key.to_owned(), run);
        if let Some(before) = before.filter(|before| *before != run) {
            self.breaks(format_args!("the key {key} is of {before} and of {run}"));
        }
    }

    /// Records the status that a client has seen.
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

    /// Returns the runs that clients were given for a key.
    pub(super) fn acknowledged(&self) -> Vec<RunId> {
        self.record().keys.values().copied().collect()
    }
}
