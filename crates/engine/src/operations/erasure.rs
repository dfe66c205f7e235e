//! The erasure job: deletes all data of organizations that their owners have deleted.
//!
//! An organization keeps its row, its audit log and its usage by day. Every node runs the job at its start and each minute, and
//! the node that received the deletion runs it at once. Each step is a small transaction, or may be repeated: concurrent jobs
//! share the work, and the next job continues one that was interrupted. A failure with one organization does not hold up the
//! others.

use std::time::Duration;

use sortie_api::{ErrorCode, OrgId, Refusal, Timestamp};
use sortie_store::{
    money::CountedPart,
    runs::{Expiry, OpenCallbacks, Undeletable},
};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::{retention::BATCH, usage::PART};
use crate::Engine;

/// Interval between two passes of the job.
const INTERVAL: Duration = Duration::from_mins(1);

/// Time after a deletion during which the job checks the organization again: a request that began before it may still add a run.
const MARGIN: Duration = Duration::from_mins(1);

/// Organizations, runs, schedules or files in one query.
const PAGE: u32 = 100;

/// Workflows that one transaction deletes; each may be some MiB.
const SETTINGS: u32 = 20;

/// Most occurrences of a schedule that one transaction deletes.
const FIRES: u32 = 1_000;

/// A time after every run, occurrence and callback.
const EVER: Timestamp = Timestamp::from_micros(i64::MAX);

impl Engine {
    /// Starts the erasure of organizations that were just deleted, on this node. Other nodes notice them within a minute.
    pub fn erase_deleted(&self) {
        self.0.work.deletions.notify_one();
    }

    /// Runs the job until the node stops.
    pub(crate) async fn keep_erasing(self, stop: CancellationToken) {
        let mut tick = tokio::time::interval(INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                () = self.0.work.deletions.notified() => {}
                () = stop.cancelled() => return,
            }
            if self.0.options.clock.fault().is_some() {
                continue;
            }
            tokio::select! {
                erased = self.erase() => if let Err(error) = erased {
                    tracing::error!(%error, "erasing deleted organizations failed");
                },
                () = stop.cancelled() => return,
            }
        }
    }

    /// Deletes the remaining data of each deleted organization, as far as possible now.
    pub(crate) async fn erase(&self) -> Result<(), Refusal> {
        let mut after = None;
        loop {
            let organizations = self.store().deleted_organizations(after, PAGE).await?;
            for org in &organizations.items {
                match self.erase_organization(*org).await {
                    Ok(true) => tracing::info!(organization = %org, "erased a deleted organization"),
                    Ok(false) => {}
                    Err(error) => {
                        tracing::error!(organization = %org, %error, "erasing a deleted organization failed");
                    }
                }
            }
            after = organizations.stopped_at;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Returns true once nothing is left of the organization.
    async fn erase_organization(&self, org: OrgId) -> Result<bool, Refusal> {
        self.cancel_all(org).await?;
        self.erase_runs(org).await?;
        self.erase_schedules(org).await?;
        while self
            .store()
            .erase_files(org, self.0.options.clock.now(), PAGE)
            .await?
            > 0
        {}
        while self.store().erase_settings(org, SETTINGS).await? > 0 {}
        // Swept even if this pass deleted nothing: an earlier pass may have ended before its sweep.
        self.0.stores.contents.sweep().await?;
        let now = self.0.options.clock.now();
        let margin = i64::try_from(MARGIN.as_micros()).unwrap_or(i64::MAX);
        let before = Timestamp::from_micros(now.as_micros().saturating_sub(margin));
        Ok(self.store().organization_erased(org, before, now).await?)
    }

    /// Cancels every run of an organization that is not settled. A run that a node works on is settled a moment later.
    async fn cancel_all(&self, org: OrgId) -> Result<(), Refusal> {
        let mut after = None;
        loop {
            let runs = self.store().unsettled_runs(org, after, PAGE).await?;
            for (_, run) in &runs {
                match self.cancel_run(org, *run).await {
                    Err(error) if error.code != ErrorCode::NotFound => return Err(error),
                    Ok(_) | Err(_) => {}
                }
            }
            if runs.len() < PAGE as usize {
                return Ok(());
            }
            after = runs.last().copied();
        }
    }

    /// Deletes the settled runs of an organization, once they are counted in its usage.
    async fn erase_runs(&self, org: OrgId) -> Result<(), Refusal> {
        let mut undeletable = Undeletable::default();
        loop {
            let due = self.store().uncounted_usage(org).await?;
            let expiry = Expiry {
                org,
                finished_before: EVER,
                created_before: due.map_or(EVER, |due| due.counted_until),
                check_at: self.0.options.clock.now(),
                open_callbacks: OpenCallbacks::Drop,
            };
            let deleted = async |undeletable: &mut Undeletable| {
                self.store().delete_expired_runs(expiry, BATCH, undeletable).await
            };
            while deleted(&mut undeletable).await?.more {}
            match due {
                Some(due) => match self.store().count_usage(due, PART).await? {
                    CountedPart::Counted(_) | CountedPart::Elsewhere => {}
                    // Runs of the next part are not settled yet.
                    CountedPart::Waits => return Ok(()),
                },
                None => return Ok(()),
            }
        }
    }

    async fn erase_schedules(&self, org: OrgId) -> Result<(), Refusal> {
        loop {
            let schedules = self.store().schedules_to_erase(org, PAGE).await?;
            for schedule in &schedules {
                while self.store().delete_expired_fires(*schedule, EVER, FIRES).await? > 0 {}
                self.store().erase_schedule(org, *schedule).await?;
            }
            if schedules.is_empty() {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
#[path = "erasure_tests.rs"]
mod tests;
