//! Connections of a node. Each is a task that takes jobs, as a thread does on `PostgreSQL`.

use std::{
    sync::Arc,
    time::{Duration, Instant as StdInstant},
};

use parking_lot::Mutex;
use tokio::time::{Instant, sleep, sleep_until};

use super::{
    SimulatedLink,
    faults::Fate,
    session::{ConnectionState, Drawn, SimulatedDial},
};
use crate::{
    Backend, Context, Error, Link, Result,
    job::{Access, Job, Next, Queue, Turn},
    sessions::{Pool, Worker},
    tx::Tx,
};

/// Time limit for the answer to a command: see `ANSWER` of `PostgreSQL`.
const ROUND_TRIP: Duration = Duration::from_secs(8);

/// Answers on their way back.
type Answers = Arc<Mutex<Vec<(Box<dyn Job>, Result<()>)>>>;

/// Job with a delayed answer.
struct Answered {
    job: Box<dyn Job>,
    answers: Answers,
}

impl Job for Answered {
    fn access(&self) -> Access {
        self.job.access()
    }

    fn turn(&self) -> Turn {
        self.job.turn()
    }

    fn bytes(&self) -> usize {
        self.job.bytes()
    }

    fn queued_at(&self) -> StdInstant {
        self.job.queued_at()
    }

    fn is_wanted(&self) -> bool {
        self.job.is_wanted()
    }

    fn run(&mut self, tx: &mut dyn Tx) -> Result<()> {
        self.job.run(tx)
    }

    fn answer(self: Box<Self>, outcome: Result<()>) {
        let mut answers = self.answers.lock();
        answers.push((self.job, outcome));
    }
}

/// Starts the connections of a node: one for urgent commands, and `connections` for the others.
pub(super) fn open(link: &SimulatedLink, connections: usize, context: &Context) -> Backend {
    let (queue, urgent) = (Arc::<Queue>::default(), Arc::<Queue>::default());
    let pool = Arc::<Pool>::default();
    for number in 0..=connections {
        let drawn = Drawn::default();
        let dial = SimulatedDial {
            link: link.clone(),
            drawn: Arc::clone(&drawn),
        };
        let worker = Worker::new(dial, Arc::clone(&pool), context.clone());
        let connection = Connection {
            link: link.clone(),
            drawn,
            worker,
            is_urgent: number == 0,
        };
        let queue = Arc::clone(if number == 0 { &urgent } else { &queue });
        if let Some(server) = link.server() {
            server.spawn(connection.serve(queue));
        }
    }
    Backend {
        urgent,
        writes: Arc::clone(&queue),
        reads: Arc::clone(&queue),
        lists: Arc::clone(&queue),
        scans: queue,
        threads: Vec::new(),
        link: Some(Link::Simulated(link.clone())),
        wal: None,
        space: None,
    }
}

struct Connection {
    link: SimulatedLink,
    drawn: Drawn,
    worker: Worker<SimulatedDial>,
    is_urgent: bool,
}

impl Connection {
    /// Serves the queue until it is closed. Jobs of a dead node stay unanswered.
    async fn serve(mut self, queue: Arc<Queue>) {
        while !queue.arrived().await {
            self.while_alive().await;
            let Next::Jobs(jobs) = Worker::<SimulatedDial>::take(&queue) else {
                return;
            };
            let answers = Answers::default();
            let jobs: Vec<Box<dyn Job>> = jobs
                .into_iter()
                .map(|job| {
                    let answers = Arc::clone(&answers);
                    Box::new(Answered { job, answers }) as Box<dyn Job>
                })
                .collect();
            let back = self.go().await;
            // A commit is visible when it is done, so its time passes first. Further commits are counted on
            // the way back.
            let commit = self
                .link
                .server()
                .map(|server| server.state().faults.commit)
                .unwrap_or_default();
            if jobs.iter().any(|job| job.access() != Access::Read) {
                sleep(commit).await;
            }
            self.worker.serve(jobs, &queue);
            sleep(back + commit * self.commits().saturating_sub(1)).await;
            let is_lost = self.come_back().await;
            self.while_alive().await;
            let answered = std::mem::take(&mut *answers.lock());
            for (job, outcome) in answered {
                let outcome = if is_lost {
                    outcome.and_then(|()| Err(Error::Unavailable("the answer was lost".to_owned())))
                } else {
                    outcome
                };
                job.answer(outcome);
            }
        }
    }

    /// Passes the time of the way to the server. Returns the time of the way back.
    async fn go(&mut self) -> Duration {
        let (mut fate, there, back) = self.link.draw();
        sleep(there).await;
        if let Some(until) = self.link.hangs_until() {
            let given_up = Instant::now() + ROUND_TRIP;
            sleep_until(until.min(given_up)).await;
            if until > given_up {
                fate = Fate::Cut;
            }
        }
        self.while_alive().await;
        if fate.is_outage() && self.is_urgent {
            self.link.record_outage(Duration::ZERO);
        }
        let mut state = self.drawn.lock();
        *state = ConnectionState { fate, commits: 0 };
        back
    }

    /// Number of commits that were requested.
    fn commits(&self) -> u32 {
        self.drawn.lock().commits
    }

    /// Waits for the time by which the answer is delayed. Returns true if the answer is lost.
    async fn come_back(&self) -> bool {
        let Some(until) = self.link.hangs_until() else {
            return false;
        };
        let given_up = Instant::now() + ROUND_TRIP;
        sleep_until(until.min(given_up)).await;
        until > given_up
    }

    /// Waits for ever if the node is dead.
    async fn while_alive(&self) {
        if self.link.is_cut() {
            std::future::pending::<()>().await;
        }
    }
}
