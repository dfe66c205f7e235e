//! Thread with a session: takes jobs, runs them, commits, answers. It connects again after it has lost its
//! session.
//!
//! Under load it runs several jobs in one transaction, if no two of them write the same row. A refused job is answered
//! with its error. A job that fails in the database is retried alone later. The other jobs of the transaction are then
//! run again. No answer is sent before the commit. A transaction of several jobs does not wait long for a lock: it
//! locks rows in no particular order, so it may be part of a deadlock with a command that locks many rows. Other
//! commands must not wait for the rows that it has locked.
//!
//! Tails are written last, added up over all jobs of the transaction. If a row has no room for the sum, the
//! transaction is rolled back. The jobs that use that row are then run one by one, and the others share a
//! transaction again.

use std::{
    hash::{BuildHasher, RandomState},
    slice,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use super::{Failure, FailureKind, Pipeline, Pool, Server, Session};
use crate::{
    Context, Error, Result,
    hooks::HookPoints as _,
    job::{Access, Job, Next, Queue},
    tail::{SharedRow, SharedRows, Sums, Tail, Written},
};

/// Maximum number of attempts at a job that meets deadlocks or loses its session before the commit.
const TRIES: u32 = 5;

/// Maximum number of jobs in one transaction.
const GROUP: usize = 64;

/// Maximum of the bytes that a group writes, so that a small job does not wait for many large ones.
const GROUP_BYTES: usize = 1 << 20;

/// Time without an answer to a commit after which the server is assumed to commit nothing. An urgent command
/// times out long before.
const SILENCE: Duration = Duration::from_secs(5);

/// Outcome of jobs that were run together.
enum GroupOutcome {
    Done,
    /// Rolled back: the last job refused with this error.
    Refused(Error),
    /// Rolled back: these jobs cannot write a shared row together.
    Crowded(Vec<usize>),
    /// Rolled back: the database failed the write of a shared row of these jobs, after the wait of a lone command.
    Blocked(Vec<usize>, Error),
    /// Rolled back: the database failed the last job.
    Failed(Failure),
    /// No session could be opened.
    Away(Error),
    /// The answer to COMMIT was lost. It is unknown whether the commit took place.
    InDoubt(Error),
}

/// Job that runs alone in its transaction.
struct LoneJob {
    job: Box<dyn Job>,
    /// Number of failed attempts.
    tries: u32,
}

/// Open session, counted in its pool.
struct OpenSession<S> {
    session: S,
    generation: u64,
    pool: Arc<Pool>,
}

impl<S> Drop for OpenSession<S> {
    fn drop(&mut self) {
        self.pool.open.fetch_sub(1, Ordering::SeqCst);
    }
}

/// State of a thread that owns a session.
pub(crate) struct Worker<S: Server> {
    server: S,
    session: Option<OpenSession<S::Session>>,
    pool: Arc<Pool>,
    context: Context,
}

impl<S: Server> Worker<S> {
    pub(crate) fn new(server: S, pool: Arc<Pool>, context: Context) -> Self {
        Self {
            server,
            session: None,
            pool,
            context,
        }
    }

    /// Runs jobs until the queue is closed.
    pub(crate) fn run(mut self, queue: &Queue) {
        while let Next::Jobs(jobs) = Self::take(queue) {
            self.serve(jobs, queue);
        }
    }

    /// Waits for jobs to [`serve`](Self::serve).
    pub(crate) fn take(queue: &Queue) -> Next {
        queue.take_share(GROUP, GROUP_BYTES)
    }

    /// Runs and answers jobs that were taken from `queue`. If the server cannot be reached and no thread has a session,
    /// the queued jobs also fail at once: each would wait in vain for a connection.
    pub(crate) fn serve(&mut self, mut jobs: Vec<Box<dyn Job>>, queue: &Queue) {
        let metrics = self.context.metrics.clone();
        let _busy = metrics.took(&jobs);
        let mut lone = Vec::new();
        while !jobs.is_empty() {
            self.some(&mut jobs, &mut lone, queue);
        }
        // Last, because a lone job may wait for a lock.
        for LoneJob { mut job, tries } in lone {
            let outcome = self.one(&mut job, tries, queue);
            job.answer(outcome);
        }
    }

    /// Runs the first of the jobs, or several in one transaction. Removes from `jobs` those that are answered and those
    /// that move to `lone`. The remaining jobs run without them.
    fn some(&mut self, jobs: &mut Vec<Box<dyn Job>>, lone: &mut Vec<LoneJob>, queue: &Queue) {
        // Even the first job of a group had a shorter lock timeout than a lone command has.
        let was_group = jobs.len() > 1;
        let (count, ran) = self.once(jobs);
        let outcome = match ran {
            GroupOutcome::Done => Ok(()),
            GroupOutcome::InDoubt(error) => Err(error),
            GroupOutcome::Away(error) => {
                self.refuse_waiting(queue, &error);
                Err(error)
            }
            GroupOutcome::Failed(failure) if was_group || failure.may_pass() => {
                let job = jobs.remove(count - 1);
                lone.push(LoneJob { job, tries: 1 });
                return;
            }
            GroupOutcome::Crowded(crowd) => {
                let first = lone.len();
                for at in crowd.into_iter().rev() {
                    let job = jobs.remove(at);
                    lone.insert(first, LoneJob { job, tries: 0 });
                }
                return;
            }
            GroupOutcome::Blocked(blocked, error) => {
                for at in blocked.into_iter().rev() {
                    jobs.remove(at).answer(Err(error.clone()));
                }
                return;
            }
            GroupOutcome::Refused(error) | GroupOutcome::Failed(Failure { error, .. }) => {
                jobs.remove(count - 1).answer(Err(error));
                return;
            }
        };
        for job in jobs.drain(..count) {
            job.answer(outcome.clone());
        }
    }

    /// Runs a job alone until it is done or another try cannot help. `tries` is the number of failed attempts.
    fn one(&mut self, job: &mut Box<dyn Job>, mut tries: u32, queue: &Queue) -> Result<()> {
        loop {
            self.context.metrics.retried();
            tries += 1;
            if tries > 1 {
                self.server.pause(pause(tries));
            }
            match self.once(slice::from_mut(job)).1 {
                GroupOutcome::Done => return Ok(()),
                GroupOutcome::Failed(failure) if tries < TRIES && failure.may_pass() => {}
                GroupOutcome::Away(error) => {
                    self.refuse_waiting(queue, &error);
                    return Err(error);
                }
                // If the tail of a lone job does not fit, the job is refused with an error instead.
                GroupOutcome::Crowded(_) => {
                    return Err(Error::Database("a lone command is crowded".to_owned()));
                }
                GroupOutcome::Refused(error)
                | GroupOutcome::Blocked(_, error)
                | GroupOutcome::InDoubt(error)
                | GroupOutcome::Failed(Failure { error, .. }) => {
                    return Err(error);
                }
            }
        }
    }

    /// Answers every waiting job with `error`, if no thread has a session that could run it.
    fn refuse_waiting(&self, queue: &Queue, error: &Error) {
        if self.pool.open.load(Ordering::SeqCst) == 0 {
            queue.refuse_waiting(error);
        }
    }

    /// Runs jobs once in one transaction, up to the first that fails or contends. Returns the number of jobs
    /// that ran, and their outcome.
    fn once(&mut self, jobs: &mut [Box<dyn Job>]) -> (usize, GroupOutcome) {
        let mut open = match self.open() {
            Ok(open) => open,
            Err(error) => return (jobs.len(), GroupOutcome::Away(error)),
        };
        let is_group = jobs.len() > 1;
        let mut pipeline = match jobs.first().map(|job| job.access()) {
            Some(Access::Write | Access::Own) if is_group => Pipeline::group(&mut open.session),
            Some(Access::Write | Access::Own) => Pipeline::writer(&mut open.session),
            Some(Access::Read) | None => Pipeline::reader(&mut open.session),
        };
        let (mut ends, mut outcome) = (Vec::with_capacity(jobs.len()), Ok(()));
        for job in jobs {
            outcome = job.run(&mut pipeline);
            ends.push(pipeline.tails.len());
            if outcome.is_err() || pipeline.failure.is_some() || pipeline.contends {
                break;
            }
        }
        let (mut crowd, mut blamed, mut low) = (Vec::new(), None, Vec::new());
        let tails = std::mem::take(&mut pipeline.tails);
        if outcome.is_ok() && pipeline.failure.is_none() {
            match write_tails(&self.context, &mut pipeline, &tails, is_group) {
                Ok(written) => {
                    crowd = jobs_of(&written.missed, &tails, &ends);
                    low = written.low;
                }
                Err(error) => {
                    blamed = is_group.then(|| blame(&*self.context.rows, pipeline.answered(), &tails, &ends));
                    outcome = Err(error);
                }
            }
        }
        let (is_begun, failure) = (pipeline.open, pipeline.failure.take());
        let ran = match (failure, outcome) {
            // A command that ignores the failure of a statement has still failed.
            (Some(failure), _) => {
                self.give_up(open, is_begun, &failure);
                GroupOutcome::Failed(failure)
            }
            (None, Ok(())) if !crowd.is_empty() => {
                self.roll_back(open, is_begun);
                GroupOutcome::Crowded(crowd)
            }
            (None, Ok(())) if is_begun => {
                let ran = self.commit(open, ends.len());
                if matches!(ran, GroupOutcome::Done) {
                    self.context.rows.committed(&tails, low);
                }
                ran
            }
            (None, Ok(())) => {
                self.session = Some(open);
                GroupOutcome::Done
            }
            (None, Err(error)) => {
                self.roll_back(open, is_begun);
                GroupOutcome::Refused(error)
            }
        };
        (ends.len(), of_blamed(blamed, ran))
    }

    /// Returns the current session, or opens a new one.
    fn open(&mut self) -> Result<OpenSession<S::Session>> {
        let generation = self.pool.generation();
        if let Some(mut open) = self.session.take()
            && open.generation == generation
            && open.session.is_open()
        {
            return Ok(open);
        }
        let session = self.server.connect()?;
        self.pool.open.fetch_add(1, Ordering::SeqCst);
        Ok(OpenSession {
            session,
            generation,
            pool: Arc::clone(&self.pool),
        })
    }

    /// Keeps the session after a failure if it can be used again. Otherwise the session is closed, and the
    /// server rolls back its transaction.
    fn give_up(&mut self, open: OpenSession<S::Session>, is_begun: bool, failure: &Failure) {
        if failure.kind == FailureKind::ReadOnly {
            self.pool.retire(open.generation);
        }
        if failure.keeps_session() {
            self.roll_back(open, is_begun);
        }
    }

    fn roll_back(&mut self, mut open: OpenSession<S::Session>, is_begun: bool) {
        if !is_begun || open.session.end("ROLLBACK").is_ok() {
            self.session = Some(open);
        }
    }

    fn commit(&mut self, mut open: OpenSession<S::Session>, jobs: usize) -> GroupOutcome {
        if let Err(error) = self.context.hooks.at_commit() {
            self.roll_back(open, true);
            return GroupOutcome::InDoubt(error);
        }
        let began = Instant::now();
        match open.session.end("COMMIT") {
            Ok(()) => {
                if let Err(error) = self.context.hooks.after_commit() {
                    // Drops the session, as a lost connection would be.
                    return GroupOutcome::InDoubt(error);
                }
                self.context.metrics.committed(jobs, began.elapsed());
                self.session = Some(open);
                GroupOutcome::Done
            }
            Err(Failure {
                kind: kind @ (FailureKind::Disconnected | FailureKind::Silent),
                ..
            }) => {
                // The server may be a primary that waits for a standby which was promoted: the next commits
                // would be lost there as well. A commit that is only slow says nothing about the other
                // sessions.
                if kind == FailureKind::Disconnected || began.elapsed() >= SILENCE {
                    self.pool.retire(open.generation);
                }
                GroupOutcome::InDoubt(Error::Unavailable(
                    "the connection was lost during the commit".to_owned(),
                ))
            }
            Err(failure) => {
                // The transaction has ended: there is nothing to roll back.
                self.give_up(open, false, &failure);
                GroupOutcome::Failed(failure)
            }
        }
    }
}

/// Writes the tails of the jobs of a transaction, after all other statements. A lone job without room fails.
fn write_tails<S: Session>(
    context: &Context,
    pipeline: &mut Pipeline<'_, S>,
    tails: &[Tail],
    is_group: bool,
) -> Result<Written> {
    if tails.is_empty() {
        return Ok(Written::default());
    }
    if is_group {
        pipeline.begin_tails();
    }
    context.hooks.run(pipeline, |tx| {
        if is_group {
            context.rows.write(tx, &Sums::of(tails))
        } else {
            context.rows.write_of_one(tx, tails)
        }
    })
}

/// Jobs of a group for which the tails could not be written.
struct Blamed {
    jobs: Vec<usize>,
    /// Whether the row that failed is theirs. Otherwise they are all the jobs with tails.
    by_row: bool,
}

/// Finds the jobs that use the row of the failed write. `answered` is the number of statements of the tails that
/// succeeded before.
fn blame(rows: &dyn SharedRows, answered: usize, tails: &[Tail], ends: &[usize]) -> Blamed {
    let sums = Sums::of(tails);
    if let Some(row) = rows.row_after(answered, &sums) {
        return Blamed {
            jobs: jobs_of(slice::from_ref(&row), tails, ends),
            by_row: true,
        };
    }
    let mut jobs: Vec<usize> = (0..tails.len()).map(|at| job_of(at, ends)).collect();
    jobs.dedup();
    Blamed { jobs, by_row: false }
}

/// The outcome of a group if the failure of a tail concerns only the jobs with that tail.
fn of_blamed(blamed: Option<Blamed>, ran: GroupOutcome) -> GroupOutcome {
    match (blamed, ran) {
        (Some(Blamed { jobs, by_row: true }), GroupOutcome::Failed(failure)) if !failure.may_pass() => {
            GroupOutcome::Blocked(jobs, failure.error)
        }
        (Some(Blamed { jobs, .. }), GroupOutcome::Failed(_) | GroupOutcome::Refused(_)) => {
            GroupOutcome::Crowded(jobs)
        }
        (_, ran) => ran,
    }
}

/// Index of the job that handed over the tail at this place.
fn job_of(at: usize, ends: &[usize]) -> usize {
    ends.partition_point(|end| *end <= at)
}

/// Returns the indexes of the jobs that have a tail for one of these rows. `ends` has the end of each
/// job's tails.
fn jobs_of(missed: &[SharedRow], tails: &[Tail], ends: &[usize]) -> Vec<usize> {
    let mut crowd: Vec<usize> = (0..)
        .zip(tails)
        .filter(|(_, tail)| tail.is_for(missed))
        .map(|(at, _)| job_of(at, ends))
        .collect();
    crowd.dedup();
    crowd
}

/// Pause before try number `tries`: longer each time, and different on two threads.
fn pause(tries: u32) -> Duration {
    let jitter = RandomState::new().hash_one(tries) % 10;
    Duration::from_millis(u64::from(tries) * 5 + jitter)
}
