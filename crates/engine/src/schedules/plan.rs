//! Decisions about the due occurrences of a schedule: a pure function of the stored schedule and the time.
//!
//! Missed occurrences are neither lost nor do they pile up. The latest one within the catch-up window starts a run. The
//! earlier ones are recorded as skipped, and a long series of them shares one row.

use sha2::{Digest as _, Sha256};
use sortie_api::{ScheduleId, Timestamp, schedule::FireOutcome};
use sortie_store::schedules::{FireRow, NextOccurrence, ScheduleRow, ScheduleSpec};
use std::time::Duration;

use super::timetable::Timetable;

/// Lateness up to which an occurrence is on time, regardless of the catch-up window.
const ON_TIME: Duration = Duration::from_secs(10);

/// Most occurrences that one transaction processes.
const AT_ONCE: usize = 5_000;

/// Maximum length of a series of skipped occurrences that have a row each. A longer series shares one row.
const ROWS: usize = 100;

/// Due occurrences of a schedule, with their outcomes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Occurrences that start no run.
    pub(super) skipped: Vec<FireRow>,
    /// Occurrence that starts a run.
    pub(super) start: Option<Timestamp>,
    /// Last of these occurrences.
    pub(super) handled: Timestamp,
    /// Next occurrence after them. It may be due as well.
    pub(super) next: Option<NextOccurrence>,
}

/// Returns the delay between the occurrences of a schedule and the start of their runs. It is fixed for each schedule.
fn jitter(id: ScheduleId, seconds: i64) -> Duration {
    let hash = Sha256::digest(id.to_string());
    let number = hash.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
    let most = u64::try_from(seconds).unwrap_or(0).saturating_mul(1_000);
    Duration::from_millis(number.checked_rem(most + 1).unwrap_or(0))
}

/// Returns the first occurrence of a schedule after `after`.
pub(super) fn next_occurrence(
    timetable: &Timetable,
    (id, spec): (ScheduleId, &ScheduleSpec),
    after: Timestamp,
) -> Option<NextOccurrence> {
    timetable.next(after).map(|instant| NextOccurrence {
        instant,
        due_at: instant + jitter(id, spec.jitter_seconds),
    })
}

/// Reason why an occurrence starts no run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Skip {
    Paused,
    Missed,
    Coalesced,
}

impl Skip {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Paused => "paused",
            Self::Missed => "missed",
            Self::Coalesced => "coalesced",
        }
    }
}

/// Returns the plan at `now`, or `None` if no occurrence is due.
pub(super) fn plan(row: &ScheduleRow, timetable: &Timetable, now: Timestamp) -> Option<Plan> {
    let mut next = row.state.next;
    let mut due = Vec::new();
    while due.len() < AT_ONCE
        && let Some(first) = next.filter(|next| next.due_at <= now)
    {
        due.push(first);
        next = next_occurrence(timetable, (row.id, &row.spec), first.instant);
    }
    let last = due.last().copied()?;
    // False if more occurrences are due after these: the latest is then among those.
    let is_all = next.is_none_or(|next| next.due_at > now);
    let window = u64::try_from(row.spec.catch_up_window_seconds).unwrap_or(0);
    let window = Duration::from_secs(window).max(ON_TIME);
    let skip = |next: &NextOccurrence| {
        if row.spec.paused_until.is_some_and(|until| next.instant < until) {
            Some(Skip::Paused)
        } else if now.since(next.due_at) > window {
            Some(Skip::Missed)
        } else if is_all && *next == last {
            None
        } else {
            Some(Skip::Coalesced)
        }
    };
    let mut skipped = Vec::new();
    for alike in due.chunk_by(|a, b| skip(a) == skip(b)) {
        let reason = alike.first().and_then(skip);
        if let Some(reason) = reason {
            rows(alike, reason, now, &mut skipped);
        }
    }
    Some(Plan {
        skipped,
        start: Some(last.instant).filter(|_| skip(&last).is_none()),
        handled: last.instant,
        next,
    })
}

/// Adds the rows of a series of occurrences that were skipped for the same reason.
fn rows(alike: &[NextOccurrence], reason: Skip, now: Timestamp, rows: &mut Vec<FireRow>) {
    let size = if alike.len() > ROWS { alike.len() } else { 1 };
    for some in alike.chunks(size) {
        if let [first, ..] = some
            && let Some(last) = some.last()
        {
            rows.push(FireRow {
                last_instant: last.instant,
                instants: i64::try_from(some.len()).unwrap_or(i64::MAX),
                ..skipped(first.instant, reason.as_str(), now)
            });
        }
    }
}

/// Returns the row of a skipped occurrence.
pub(super) fn skipped(instant: Timestamp, reason: impl Into<String>, now: Timestamp) -> FireRow {
    FireRow {
        instant,
        last_instant: instant,
        instants: 1,
        occasion: String::new(),
        outcome: FireOutcome::Skipped,
        reason: Some(reason.into()),
        run: None,
        recorded_at: now,
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
