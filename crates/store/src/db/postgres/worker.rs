//! A thread with its connection: takes a job, runs it, commits, answers; connects again where the connection went.
//!
//! Under load it takes several jobs that write rows of their own alone, and runs them in one transaction. One that is refused is
//! answered, one that the database fails is kept for later, to be run by itself, and the others are run again. No answer goes out
//! before the commit. A transaction of several does not wait long for a lock: its rows are in no order, so that it may
//! be in a circle with a command that locks many, and what it has locked is not to wait for strangers.

use std::{
    hash::{BuildHasher, RandomState},
    slice,
    time::{Duration, Instant},
};

use tokio::runtime::Runtime;

use super::{
    connect::{self, Link},
    session::{Pipeline, Session, Trouble, TroubleKind},
};
use crate::{
    db::job::{Access, Job, Next, Queue},
    metrics::Metrics,
    types::{Error, Result},
};

/// How often a job is run that meets deadlocks or loses its connection before the commit.
const TRIES: u32 = 5;

/// Jobs of one commit.
const GROUP: usize = 16;

/// About how many bytes they may write together, so that a small job does not wait for many large ones.
const GROUP_BYTES: usize = 1 << 20;

/// What became of jobs that were run together.
enum Ran {
    Done,
    /// Rolled back, as the last of them failed with this.
    Refused(Error),
    /// Not done, for what the database says.
    Troubled(Trouble),
    /// The answer to all of them: nothing could be tried, or nobody knows whether it was done.
    Final(Error),
}

/// The thread's own.
pub(super) struct Worker {
    link: Link,
    runtime: Runtime,
    session: Option<Session>,
    metrics: Metrics,
    #[cfg(test)]
    faults: std::sync::Arc<crate::db::fault::Faults>,
}

impl Worker {
    pub(super) fn new(
        link: Link,
        metrics: Metrics,
        #[cfg(test)] faults: std::sync::Arc<crate::db::fault::Faults>,
    ) -> Result<Self> {
        Ok(Self {
            link,
            runtime: connect::runtime()?,
            session: None,
            metrics,
            #[cfg(test)]
            faults,
        })
    }

    /// The life of the thread.
    pub(super) fn run(mut self, queue: &Queue) {
        let metrics = self.metrics.clone();
        while let Next::Jobs(mut jobs) = queue.take_share(GROUP, GROUP_BYTES) {
            let _busy = metrics.took(&jobs);
            let mut failed = Vec::new();
            while !jobs.is_empty() {
                self.some(&mut jobs, &mut failed);
            }
            // After all others, as it may wait for a lock.
            for mut job in failed {
                let outcome = self.one(&mut job);
                job.answer(outcome);
            }
        }
    }

    /// Runs the first of the jobs, or several in one transaction. Takes those out that are answered, or one that is to be
    /// tried again by itself; the others go on without it.
    fn some(&mut self, jobs: &mut Vec<Box<dyn Job>>, failed: &mut Vec<Box<dyn Job>>) {
        // The first of several has not had the patience of a lone command either.
        let was_group = jobs.len() > 1;
        let (count, ran) = self.once(jobs);
        let outcome = match ran {
            Ran::Done => Ok(()),
            Ran::Final(error) => Err(error),
            Ran::Troubled(trouble) if was_group || trouble.may_pass() => {
                failed.push(jobs.remove(count - 1));
                return;
            }
            Ran::Refused(error) | Ran::Troubled(Trouble { error, .. }) => {
                jobs.remove(count - 1).answer(Err(error));
                return;
            }
        };
        for job in jobs.drain(..count) {
            job.answer(outcome.clone());
        }
    }

    /// Runs a job again by itself, until it has gone through or another try cannot help.
    fn one(&mut self, job: &mut Box<dyn Job>) -> Result<()> {
        let mut tries = 1;
        loop {
            tries += 1;
            self.metrics.retried();
            std::thread::sleep(pause(tries));
            match self.once(slice::from_mut(job)).1 {
                Ran::Done => return Ok(()),
                Ran::Troubled(trouble) if tries < TRIES && trouble.may_pass() => {}
                Ran::Refused(error) | Ran::Final(error) | Ran::Troubled(Trouble { error, .. }) => {
                    return Err(error);
                }
            }
        }
    }

    /// Runs jobs once in one transaction, up to one that fails or contends. How many were run, and what became of them.
    fn once(&mut self, jobs: &mut [Box<dyn Job>]) -> (usize, Ran) {
        let mut session = match self.session.take() {
            Some(session) if session.is_open(&self.runtime) => session,
            Some(_) | None => match self.link.connect(&self.runtime) {
                Ok(session) => session,
                Err(error) => return (jobs.len(), Ran::Final(error)),
            },
        };
        let mut pipeline = match jobs.first().map(|job| job.access()) {
            Some(Access::Write | Access::Own) if jobs.len() > 1 => {
                Pipeline::group(&mut session, &self.runtime)
            }
            Some(Access::Write | Access::Own) => Pipeline::writer(&mut session, &self.runtime),
            Some(Access::Read) | None => Pipeline::reader(&mut session, &self.runtime),
        };
        let (mut count, mut outcome) = (0, Ok(()));
        for job in jobs {
            count += 1;
            outcome = job.run(&mut pipeline);
            if outcome.is_err() || pipeline.trouble.is_some() || pipeline.contends {
                break;
            }
        }
        let (open, trouble) = (pipeline.open, pipeline.trouble.take());
        let ran = match (trouble, outcome) {
            // The server rolls back what it was told.
            (Some(trouble), _) if trouble.kind == TroubleKind::Lost => Ran::Troubled(trouble),
            (None, Ok(())) if open => self.commit(session, count),
            (trouble, outcome) => {
                if !open || session.end(&self.runtime, "ROLLBACK").is_ok() {
                    self.session = Some(session);
                }
                match (trouble, outcome) {
                    // A command that goes on after a failed statement has failed all the same.
                    (Some(trouble), _) => Ran::Troubled(trouble),
                    (None, Err(error)) => Ran::Refused(error),
                    (None, Ok(())) => Ran::Done,
                }
            }
        };
        (count, ran)
    }

    fn commit(&mut self, mut session: Session, jobs: usize) -> Ran {
        #[cfg(test)]
        if let Err(error) = self.faults.at_commit() {
            if session.end(&self.runtime, "ROLLBACK").is_ok() {
                self.session = Some(session);
            }
            return Ran::Final(error);
        }
        let began = Instant::now();
        match session.end(&self.runtime, "COMMIT") {
            Ok(()) => {
                #[cfg(test)]
                if let Err(error) = self.faults.after_commit() {
                    // Dropped with its session, as a lost connection is.
                    return Ran::Final(error);
                }
                self.metrics.committed(jobs, began.elapsed());
                self.session = Some(session);
                Ran::Done
            }
            // Nobody knows whether it was done: the caller has to look.
            Err(trouble) if trouble.kind == TroubleKind::Lost => Ran::Final(Error::Unavailable(
                "the connection was lost during the commit".to_owned(),
            )),
            Err(trouble) => Ran::Troubled(trouble),
        }
    }
}

/// How long to wait before the next try: longer each time, and not the same on two threads.
fn pause(tries: u32) -> Duration {
    let jitter = RandomState::new().hash_one(tries) % 10;
    Duration::from_millis(u64::from(tries) * 5 + jitter)
}
