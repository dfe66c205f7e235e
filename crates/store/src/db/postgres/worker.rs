//! A thread with its connection: takes a job, runs it, commits, answers; connects again where the connection went.

use std::{
    hash::{BuildHasher, RandomState},
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
        while let Next::Jobs(jobs) = queue.take(1, usize::MAX, None) {
            let _busy = metrics.took(&jobs);
            for mut job in jobs {
                let outcome = self.one(job.as_mut());
                job.answer(outcome);
            }
        }
    }

    fn one(&mut self, job: &mut dyn Job) -> Result<()> {
        let mut tries = 1;
        loop {
            match self.once(job)? {
                Ok(()) => return Ok(()),
                Err(trouble) => {
                    if tries == TRIES || trouble.kind == TroubleKind::Refused {
                        return Err(trouble.error);
                    }
                    tries += 1;
                    self.metrics.retried();
                    std::thread::sleep(pause(tries));
                }
            }
        }
    }

    /// Runs the job once. The outer error is final; the inner one says whether another try may help.
    fn once(&mut self, job: &mut dyn Job) -> Result<std::result::Result<(), Trouble>> {
        let mut session = match self.session.take() {
            Some(session) if session.is_open(&self.runtime) => session,
            Some(_) | None => self.link.connect(&self.runtime)?,
        };
        let mut pipeline = match job.access() {
            Access::Read => Pipeline::reader(&mut session, &self.runtime),
            Access::Write => Pipeline::writer(&mut session, &self.runtime),
        };
        let outcome = job.run(&mut pipeline);
        let (open, trouble) = (pipeline.open, pipeline.trouble.take());
        // A command that goes on after a failed statement has failed all the same.
        let outcome = match (&trouble, outcome) {
            (Some(trouble), _) => Err(trouble.error.clone()),
            (None, outcome) => outcome,
        };
        if trouble
            .as_ref()
            .is_some_and(|trouble| trouble.kind == TroubleKind::Lost)
        {
            // The server rolls back what it was told.
            return trouble.map_or(outcome.map(Ok), |trouble| Ok(Err(trouble)));
        }
        if !open {
            self.session = Some(session);
            return trouble.map_or(outcome.map(Ok), |trouble| Ok(Err(trouble)));
        }
        match outcome {
            Ok(()) => self.commit(session),
            Err(error) => {
                if session.end(&self.runtime, "ROLLBACK").is_ok() {
                    self.session = Some(session);
                }
                trouble.map_or(Err(error), |trouble| Ok(Err(trouble)))
            }
        }
    }

    fn commit(&mut self, mut session: Session) -> Result<std::result::Result<(), Trouble>> {
        #[cfg(test)]
        if let Err(error) = self.faults.at_commit() {
            if session.end(&self.runtime, "ROLLBACK").is_ok() {
                self.session = Some(session);
            }
            return Err(error);
        }
        let began = Instant::now();
        match session.end(&self.runtime, "COMMIT") {
            Ok(()) => {
                self.metrics.committed(1, began.elapsed());
                self.session = Some(session);
                Ok(Ok(()))
            }
            // Nobody knows whether it was done: the caller has to look.
            Err(trouble) if trouble.kind == TroubleKind::Lost => Err(Error::Unavailable(
                "the connection was lost during the commit".to_owned(),
            )),
            Err(trouble) => Ok(Err(trouble)),
        }
    }
}

/// How long to wait before the next try: longer each time, and not the same on two threads.
fn pause(tries: u32) -> Duration {
    let jitter = RandomState::new().hash_one(tries) % 10;
    Duration::from_millis(u64::from(tries) * 5 + jitter)
}
