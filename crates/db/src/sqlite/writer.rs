//! Writing thread: takes the waiting jobs, runs them in one transaction, commits once, then answers.
//!
//! A lone job is committed at once. Under load up to 64 jobs share one wait for the disk. A job that fails or
//! panics is rolled back alone. No answer is sent before the commit. If the commit fails, every job of the
//! group is answered with that error.
//!
//! Most jobs succeed or are refused before they write anything. A job that fails after a write spoils its
//! group: the group is rolled back and runs again, each job in a savepoint. Savepoints are not the rule,
//! because `SQLite` copies every page that a job changes in one: a quarter of the processor time of a create.
//!
//! The tails of a group are added up and written last, so each shared row is written once. If a row has no room for the
//! sum, or the write fails, the group is rolled back and runs again. Each job then writes its own tail at the end of
//! its savepoint and succeeds or fails alone, as a lone job does.

use std::{
    collections::VecDeque,
    path::PathBuf,
    time::{Duration, Instant},
};

use sortie_api::OrgId;

use super::{checkpoint::Log, connection::Connection, space::Space};
use crate::{
    Context, Error, Result,
    hooks::HookPoints as _,
    job::{Access, Job, Next, Queue},
    tail::{SharedRows, Sums, Tail, Written},
    tx::Tx,
};

/// Maximum number of jobs in one commit.
const GROUP: usize = 64;

/// Approximate maximum of the bytes that a group writes, so that a small job does not wait for many large
/// ones.
const GROUP_BYTES: usize = 1 << 20;

/// Number of groups of several jobs that run in savepoints after one was spoiled. A client that keeps sending jobs that
/// fail late causes few groups to run twice.
const GUARDED: u32 = 256;

/// State of the writing thread.
pub(super) struct Writer {
    pub(super) connection: Connection,
    pub(super) path: PathBuf,
    pub(super) space: Space,
    pub(super) log: Log,
    pub(super) context: Context,
    /// Time without a job after which the write-ahead log is checkpointed.
    pub(super) checkpoint_after: Duration,
    /// Tails that were written in the open transaction.
    pub(super) written: Vec<Tail>,
    /// Organizations whose credits these tails have left low.
    pub(super) low: Vec<OrgId>,
    /// Number of further groups of several jobs that run in savepoints.
    pub(super) guarded: u32,
}

/// Main loop of the writing thread.
pub(super) fn run(mut writer: Writer, queue: &Queue) {
    let mut tidy_after = Some(writer.checkpoint_after);
    loop {
        match queue.take(GROUP, GROUP_BYTES, tidy_after) {
            Next::Jobs(jobs) => {
                let metrics = writer.context.metrics.clone();
                let _busy = metrics.took(&jobs);
                writer.commit_all(jobs.into());
                writer.log.keep(&mut writer.connection);
                tidy_after = Some(writer.checkpoint_after);
            }
            Next::Idle => {
                tidy_after = writer.log.tidy(&mut writer.connection).unwrap_or_else(|error| {
                    tracing::warn!(%error, "WAL checkpoint failed");
                    None
                });
                writer.context.hooks.checkpointed();
            }
            Next::Closed => return,
        }
    }
}

/// Outcome of a job inside its group.
enum JobOutcome {
    /// The job has succeeded or was refused. This holds once the group commits.
    Settled(Result<()>),
    /// The job has failed, and its writes are still in the transaction.
    Spoiled(Error),
    /// The job ended the whole transaction (disk full, for example).
    GroupLost(Error),
}

/// A job that has run in its group, and its outcome.
type Settled = (Box<dyn Job>, Result<()>);

/// Outcome of a group.
enum GroupOutcome {
    Committed,
    /// Nothing is committed: the sums of the tails cannot be written.
    Crowded,
    /// Nothing is committed: a job has failed after a write.
    Spoiled,
    /// Nothing is committed: the only job has failed after a write.
    Refused,
    /// Nothing is committed, or it is unknown whether the commit took place.
    Failed(Error),
}

/// Manner in which a group runs.
#[derive(Clone, Copy)]
struct Manner {
    /// The tails of the jobs are written together.
    adds_up: bool,
    /// Each job has a savepoint.
    guards: bool,
}

impl Writer {
    /// Runs jobs in groups until all are answered. More than one group is needed if a job ends the transaction
    /// of its group or spoils it, or if the tails cannot be written together.
    fn commit_all(&mut self, mut jobs: VecDeque<Box<dyn Job>>) {
        if let Some(groups) = self.context.hooks.take_guarded() {
            self.guarded = groups;
        }
        let are_several = jobs.len() > 1;
        let mut manner = Manner {
            adds_up: are_several,
            guards: are_several && self.guarded > 0,
        };
        if are_several {
            self.guarded = self.guarded.saturating_sub(1);
        }
        while !jobs.is_empty() {
            let mut settled = Vec::with_capacity(jobs.len());
            let outcome = self.group(&mut jobs, &mut settled, manner);
            let recovered = match &outcome {
                GroupOutcome::Committed => Ok(()),
                GroupOutcome::Crowded
                | GroupOutcome::Spoiled
                | GroupOutcome::Refused
                | GroupOutcome::Failed(_) => self.recover(),
            };
            match outcome {
                GroupOutcome::Committed | GroupOutcome::Refused => {
                    for (job, outcome) in settled {
                        job.answer(outcome);
                    }
                }
                GroupOutcome::Crowded => {
                    manner = Manner {
                        adds_up: false,
                        guards: true,
                    };
                    self.again(settled, &mut jobs);
                }
                GroupOutcome::Spoiled => {
                    manner.guards = true;
                    self.guarded = GUARDED;
                    self.again(settled, &mut jobs);
                }
                GroupOutcome::Failed(error) => {
                    for (job, _) in settled {
                        job.answer(Err(error.clone()));
                    }
                }
            }
            if let Err(error) = recovered {
                for job in jobs.drain(..) {
                    job.answer(Err(error.clone()));
                }
            }
        }
    }

    /// Puts jobs back in front of those that have not run.
    fn again(&self, settled: Vec<Settled>, jobs: &mut VecDeque<Box<dyn Job>>) {
        for (job, _) in settled.into_iter().rev() {
            self.context.metrics.retried();
            jobs.push_front(job);
        }
    }

    /// Runs one transaction: moves jobs from `jobs` to `settled` as they have run, then commits.
    fn group(
        &mut self,
        jobs: &mut VecDeque<Box<dyn Job>>,
        settled: &mut Vec<Settled>,
        manner: Manner,
    ) -> GroupOutcome {
        self.connection.tails.clear();
        self.written.clear();
        self.low.clear();
        if let Err(error) = self.connection.control("BEGIN IMMEDIATE") {
            // No transaction can begin now. All waiting jobs get the same error.
            settled.extend(jobs.drain(..).map(|job| (job, Ok(()))));
            return GroupOutcome::Failed(error);
        }
        while let Some(mut job) = jobs.pop_front() {
            // A command that is not `Own` may read shared rows. It sees what the jobs before it add to them.
            if job.access() == Access::Write && !self.write_sums() {
                jobs.push_front(job);
                return GroupOutcome::Crowded;
            }
            match self.one(job.as_mut(), manner) {
                JobOutcome::Settled(outcome) => settled.push((job, outcome)),
                JobOutcome::Spoiled(error) => {
                    let is_alone = settled.is_empty() && jobs.is_empty();
                    settled.push((job, Err(error)));
                    return if is_alone {
                        GroupOutcome::Refused
                    } else {
                        GroupOutcome::Spoiled
                    };
                }
                JobOutcome::GroupLost(error) => {
                    settled.push((job, Ok(())));
                    return GroupOutcome::Failed(error);
                }
            }
        }
        if !self.write_sums() {
            return GroupOutcome::Crowded;
        }
        let since = Instant::now();
        if let Err(error) = self.commit() {
            return GroupOutcome::Failed(error);
        }
        self.context.metrics.committed(settled.len(), since.elapsed());
        let low = std::mem::take(&mut self.low);
        self.context.rows.committed(&self.written, low);
        GroupOutcome::Committed
    }

    /// Runs a job, in a savepoint if the manner `guards`. Leaves its tail to the end of the group if the manner
    /// `adds_up`.
    fn one(&mut self, job: &mut dyn Job, manner: Manner) -> JobOutcome {
        if manner.guards
            && let Err(error) = self.connection.control("SAVEPOINT job")
        {
            return JobOutcome::GroupLost(error);
        }
        let (tails, changes) = (self.connection.tails.len(), self.connection.changes());
        let mut outcome = job.run(&mut self.connection);
        if outcome.is_err() {
            self.connection.tails.truncate(tails);
        } else if !manner.adds_up {
            outcome = self.write_tail();
        }
        if self.connection.is_idle() {
            return JobOutcome::GroupLost(
                outcome.err().unwrap_or_else(|| {
                    Error::Database("a command ended the transaction it ran in".to_owned())
                }),
            );
        }
        if !manner.guards {
            return match outcome {
                Err(error) if self.connection.changes() != changes => JobOutcome::Spoiled(error),
                outcome => JobOutcome::Settled(outcome),
            };
        }
        let kept = if outcome.is_err() {
            self.connection.budgets.clear();
            self.connection.control("ROLLBACK TO job")
        } else {
            Ok(())
        };
        match kept.and_then(|()| self.connection.control("RELEASE job")) {
            Ok(()) => JobOutcome::Settled(outcome),
            Err(error) => JobOutcome::GroupLost(error),
        }
    }

    /// Writes the tail of the job that has just run.
    fn write_tail(&mut self) -> Result<()> {
        let tails = std::mem::take(&mut self.connection.tails);
        let written = self.on_tails(|rows, tx| rows.write_of_one(tx, &tails))?;
        self.low.extend(written.low);
        self.written.extend(tails);
        Ok(())
    }

    /// Writes the tails that jobs have left to the end of the group, added up by row. Returns false if that is
    /// not possible, and the group must be rolled back.
    fn write_sums(&mut self) -> bool {
        let tails = std::mem::take(&mut self.connection.tails);
        let written = if tails.is_empty() {
            Ok(Written::default())
        } else {
            self.on_tails(|rows, tx| rows.write(tx, &Sums::of(&tails)))
        };
        self.written.extend(tails);
        written.is_ok_and(|written| {
            self.low.extend(written.low);
            written.missed.is_empty()
        })
    }

    /// Runs the statements of tails. Tests can make them fail.
    fn on_tails<T>(&mut self, write: impl FnOnce(&dyn SharedRows, &mut dyn Tx) -> T) -> T {
        let Context { rows, hooks, .. } = &self.context;
        hooks.run(&mut self.connection, |tx| write(&**rows, tx))
    }

    fn commit(&mut self) -> Result<()> {
        self.context.hooks.at_commit()?;
        self.connection.control("COMMIT")?;
        self.context.hooks.after_commit()?;
        Ok(())
    }

    /// Makes the connection usable again after a failed group: rolls back, or opens a new connection.
    fn recover(&mut self) -> Result<()> {
        self.connection.budgets.clear();
        if self.connection.is_idle() {
            return Ok(());
        }
        if self.connection.script("ROLLBACK").is_ok() && self.connection.is_idle() {
            return Ok(());
        }
        self.connection = Connection::writer(&self.path, &self.space, &mut self.log)?;
        self.connection.hooks = self.context.hooks.clone();
        Ok(())
    }
}
