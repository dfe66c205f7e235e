//! Writing thread: takes the waiting jobs, runs each in a savepoint, commits once, then answers.
//!
//! A lone job is committed at once. Under load up to 64 jobs share one wait for the disk. The tail of a job
//! is written last in its savepoint. A job that fails or panics is rolled back alone. No answer is sent
//! before the commit. If the commit fails, every job of the group is answered with that error.

use std::{
    collections::VecDeque,
    path::PathBuf,
    time::{Duration, Instant},
};

use super::connection::Connection;
#[cfg(test)]
use crate::db::fault::FaultyTx;
use crate::{
    db::job::{Job, Next, Queue},
    metrics::Metrics,
    money::windows,
    types::{Error, Result},
};

/// Maximum number of jobs in one commit.
const GROUP: usize = 64;

/// Approximate maximum of the bytes that a group writes, so that a small job does not wait for many large
/// ones.
const GROUP_BYTES: usize = 1 << 20;

/// Time without a job after which the write-ahead log is checkpointed.
const IDLE: Duration = Duration::from_secs(1);

/// State of the writing thread.
pub(super) struct Writer {
    pub(super) connection: Connection,
    pub(super) path: PathBuf,
    pub(super) metrics: Metrics,
    #[cfg(test)]
    pub(super) faults: std::sync::Arc<crate::db::fault::Faults>,
}

/// Main loop of the writing thread.
pub(super) fn run(mut writer: Writer, queue: &Queue) {
    let mut log_has_pages = true;
    loop {
        match queue.take(GROUP, GROUP_BYTES, log_has_pages.then_some(IDLE)) {
            Next::Jobs(jobs) => {
                let metrics = writer.metrics.clone();
                let _busy = metrics.took(&jobs);
                writer.commit_all(jobs.into());
                log_has_pages = true;
            }
            Next::Idle => {
                if let Err(error) = writer.connection.checkpoint() {
                    tracing::warn!(%error, "WAL checkpoint failed");
                }
                log_has_pages = false;
            }
            Next::Closed => return,
        }
    }
}

/// Outcome of a job inside its group.
enum JobOutcome {
    /// The job has succeeded or was refused. This holds once the group commits.
    Settled(Result<()>),
    /// The job ended the whole transaction (disk full, for example).
    GroupLost(Error),
}

impl Writer {
    /// Runs jobs in groups until all are answered. More than one group is needed only if a job ends the
    /// transaction of its group.
    fn commit_all(&mut self, mut jobs: VecDeque<Box<dyn Job>>) {
        while !jobs.is_empty() {
            let mut settled = Vec::with_capacity(jobs.len());
            match self.group(&mut jobs, &mut settled) {
                Ok(()) => {
                    for (job, outcome) in settled {
                        job.answer(outcome);
                    }
                }
                Err(error) => {
                    for (job, _) in settled {
                        job.answer(Err(error.clone()));
                    }
                    if let Err(error) = self.recover() {
                        for job in jobs.drain(..) {
                            job.answer(Err(error.clone()));
                        }
                    }
                }
            }
        }
    }

    /// Runs one transaction: moves jobs from `jobs` to `settled` as they have run, then commits.
    fn group(
        &mut self,
        jobs: &mut VecDeque<Box<dyn Job>>,
        settled: &mut Vec<(Box<dyn Job>, Result<()>)>,
    ) -> Result<()> {
        let begun = self.connection.control("BEGIN IMMEDIATE");
        while let Some(mut job) = jobs.pop_front() {
            let ran = match &begun {
                Ok(()) => self.one(job.as_mut()),
                Err(error) => JobOutcome::GroupLost(error.clone()),
            };
            match ran {
                JobOutcome::Settled(outcome) => settled.push((job, outcome)),
                JobOutcome::GroupLost(error) => {
                    settled.push((job, Ok(())));
                    if begun.is_err() {
                        // No transaction can begin now. All waiting jobs get the same error.
                        settled.extend(jobs.drain(..).map(|job| (job, Ok(()))));
                    }
                    return Err(error);
                }
            }
        }
        let since = Instant::now();
        self.commit()?;
        self.metrics.committed(settled.len(), since.elapsed());
        Ok(())
    }

    fn one(&mut self, job: &mut dyn Job) -> JobOutcome {
        if let Err(error) = self.connection.control("SAVEPOINT job") {
            return JobOutcome::GroupLost(error);
        }
        let outcome = job.run(&mut self.connection).and_then(|()| self.write_tail());
        // Drops the tails of a job that has failed.
        self.connection.take_tails();
        if self.connection.is_idle() {
            return JobOutcome::GroupLost(
                outcome.err().unwrap_or_else(|| {
                    Error::Database("a command ended the transaction it ran in".to_owned())
                }),
            );
        }
        let kept = match &outcome {
            Ok(()) => Ok(()),
            Err(_) => self.connection.control("ROLLBACK TO job"),
        };
        match kept.and_then(|()| self.connection.control("RELEASE job")) {
            Ok(()) => JobOutcome::Settled(outcome),
            Err(error) => JobOutcome::GroupLost(error),
        }
    }

    /// Writes the tail of the job that has just run.
    fn write_tail(&mut self) -> Result<()> {
        let tails = self.connection.take_tails();
        #[cfg(test)]
        let tx = &mut FaultyTx::new(&mut self.connection, &self.faults);
        #[cfg(not(test))]
        let tx = &mut self.connection;
        windows::write_of_one(tx, &tails)
    }

    fn commit(&mut self) -> Result<()> {
        #[cfg(test)]
        self.faults.at_commit()?;
        self.connection.control("COMMIT")?;
        #[cfg(test)]
        self.faults.after_commit()?;
        Ok(())
    }

    /// Makes the connection usable again after a failed group: rolls back, or opens a new connection.
    fn recover(&mut self) -> Result<()> {
        if self.connection.is_idle() {
            return Ok(());
        }
        if self.connection.script("ROLLBACK").is_ok() && self.connection.is_idle() {
            return Ok(());
        }
        self.connection = Connection::writer(&self.path)?;
        Ok(())
    }
}
