//! Jobs on their way to the threads that own the connections: a closure, its answer, and the queue between
//! them.
//!
//! A job runs to completion even if its caller has dropped the answer. A queue holds a bounded number of jobs and
//! refuses further ones at once, so an overload causes errors and not ever longer waits. Urgent jobs go ahead of all
//! others and are never refused. An urgent job is dropped if its caller has stopped waiting.
//!
//! Lists and sums take turns: each organization that has any waiting gets one job done before the next one of another
//! organization. However many an organization sends, those of the others wait for one of its jobs only.

use std::{
    collections::VecDeque,
    fmt, mem,
    panic::{AssertUnwindSafe, catch_unwind},
    thread::{self, Thread},
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};
use sortie_api::OrgId;
use tokio::sync::oneshot;

use crate::{Error, Result, tx::Tx};

/// Maximum number of jobs that wait in one queue.
const MAX_WAITING: usize = 20_000;

/// Approximate maximum of the bytes that waiting jobs write, together.
const MAX_WAITING_BYTES: usize = 256 << 20;

/// Maximum number of jobs that wait for the turns of one organization.
const MAX_OF_ONE: usize = 1_000;

/// Order in which a waiting job is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// In the order of arrival.
    Arrival,
    /// In turn with the organizations, as a task of the node.
    System,
    /// In turn with the other organizations.
    Organization(OrgId),
}

/// Database access that a job needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Queries only. No transaction is needed.
    Read,
    /// A transaction.
    Write,
    /// A transaction that may be shared with other jobs of this kind. The job writes only rows that few
    /// other commands touch, unless it calls [`Tx::contend`].
    Own,
}

/// Closure on its way to a thread. It may run several times before it is answered.
pub(crate) trait Job: Send {
    /// Access that the job needs.
    fn access(&self) -> Access;

    /// Order in which the job is taken.
    fn turn(&self) -> Turn;

    /// Approximate number of bytes that the job writes.
    fn bytes(&self) -> usize;

    /// Time at which the job was queued.
    fn queued_at(&self) -> Instant;

    /// Whether a caller still waits for the answer.
    fn is_wanted(&self) -> bool;

    /// Runs the closure and keeps its value. A panic becomes an error.
    fn run(&mut self, tx: &mut dyn Tx) -> Result<()>;

    /// Sends the kept value, or the error in `outcome`, to the caller.
    fn answer(self: Box<Self>, outcome: Result<()>);
}

/// The only implementation of [`Job`].
pub(super) struct Task<T, F> {
    pub(super) access: Access,
    pub(super) turn: Turn,
    pub(super) bytes: usize,
    pub(super) queued_at: Instant,
    pub(super) work: F,
    pub(super) value: Option<T>,
    pub(super) reply: oneshot::Sender<Result<T>>,
}

impl<T, F> Job for Task<T, F>
where
    T: Send,
    F: Fn(&mut dyn Tx) -> Result<T> + Send,
{
    fn access(&self) -> Access {
        self.access
    }

    fn turn(&self) -> Turn {
        self.turn
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn queued_at(&self) -> Instant {
        self.queued_at
    }

    fn is_wanted(&self) -> bool {
        !self.reply.is_closed()
    }

    fn run(&mut self, tx: &mut dyn Tx) -> Result<()> {
        self.value = None;
        // The transaction is rolled back after a panic, so no half-done work is seen afterwards.
        let value = catch_unwind(AssertUnwindSafe(|| (self.work)(tx)))
            .map_err(|_| Error::Database("the command panicked".to_owned()))??;
        self.value = Some(value);
        Ok(())
    }

    fn answer(self: Box<Self>, outcome: Result<()>) {
        let Self { value, reply, .. } = *self;
        let answer =
            outcome.and_then(|()| value.ok_or_else(|| Error::Database("the command was not run".to_owned())));
        // The caller may be gone. A commit stays in effect.
        drop(reply.send(answer));
    }
}

/// Number of jobs at the front of the queue among which jobs for a shared transaction are searched.
const SEARCHED: usize = 128;

/// Waiting jobs, oldest first, or in turns.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    /// Wakes a simulated connection, which is a task and not a thread, when a job waits.
    #[cfg(feature = "simulation")]
    arrived: tokio::sync::Notify,
}

#[derive(Default)]
struct State {
    urgent: VecDeque<Box<dyn Job>>,
    jobs: VecDeque<Box<dyn Job>>,
    /// Jobs that take turns, by turn. No queue in here is empty.
    turns: VecDeque<(Turn, VecDeque<Box<dyn Job>>)>,
    bytes: usize,
    /// Number of threads that wait for a job, or were woken for one and have not looked yet.
    idle: usize,
    /// Threads that wait and were not woken. The last one has waited for the shortest time and is woken first: it has a
    /// connection, and the statements prepared on it. With few jobs the other threads need no connection at all.
    asleep: Vec<Thread>,
    closed: bool,
}

impl State {
    fn is_empty(&self) -> bool {
        self.urgent.is_empty() && self.jobs.is_empty() && self.turns.is_empty()
    }

    /// Number of waiting jobs that are not urgent.
    fn len(&self) -> usize {
        let in_turns: usize = self.turns.iter().map(|(_, jobs)| jobs.len()).sum();
        self.jobs.len() + in_turns
    }

    /// Adds a job. Returns false if too many wait for the same turn.
    fn add(&mut self, job: Box<dyn Job>) -> bool {
        let turn = job.turn();
        if turn == Turn::Arrival {
            self.jobs.push_back(job);
            return true;
        }
        match self.turns.iter_mut().find(|(other, _)| *other == turn) {
            Some((_, jobs)) if jobs.len() >= MAX_OF_ONE => return false,
            Some((_, jobs)) => jobs.push_back(job),
            None => self.turns.push_back((turn, VecDeque::from([job]))),
        }
        true
    }

    /// Takes the first job of the next turn, and moves that turn to the end.
    fn take_turn(&mut self) -> Option<Box<dyn Job>> {
        let (turn, mut jobs) = self.turns.pop_front()?;
        let job = jobs.pop_front();
        if !jobs.is_empty() {
            self.turns.push_back((turn, jobs));
        }
        job
    }

    /// Takes up to `count` jobs that may share a transaction, with at most `bytes` together.
    fn take_own(&mut self, count: usize, mut bytes: usize) -> Vec<Box<dyn Job>> {
        let mut taken = Vec::with_capacity(count);
        let mut at = 0;
        while taken.len() < count
            && at < SEARCHED
            && let Some(job) = self.jobs.get(at)
        {
            let left = bytes.checked_sub(job.bytes());
            if let (Access::Own, Some(left)) = (job.access(), left) {
                bytes = left;
                taken.extend(self.jobs.remove(at));
            } else {
                at += 1;
            }
        }
        taken
    }
}

/// Result of waiting for jobs.
pub(super) enum Next {
    /// At least one job.
    Jobs(Vec<Box<dyn Job>>),
    /// No job came in time.
    Idle,
    /// The queue is closed and empty. The thread ends.
    Closed,
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under the lock.
        self.state.lock()
    }

    /// Number of waiting jobs.
    pub(crate) fn waiting(&self) -> usize {
        let state = self.lock();
        state.urgent.len() + state.len()
    }

    /// Wakes one thread for a job that was added to `state`.
    #[cfg_attr(
        not(feature = "simulation"),
        expect(clippy::unused_self, reason = "a simulated connection is woken by the queue")
    )]
    fn wake_one(&self, mut state: MutexGuard<'_, State>) {
        let woken = state.asleep.pop();
        drop(state);
        if let Some(thread) = woken {
            thread.unpark();
        }
        #[cfg(feature = "simulation")]
        self.arrived.notify_one();
    }

    /// Waits until this thread is woken, for at most `time` if given.
    fn sleep<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        time: Option<Duration>,
    ) -> MutexGuard<'a, State> {
        let thread = thread::current();
        let id = thread.id();
        state.asleep.push(thread);
        state.idle += 1;
        drop(state);
        match time {
            None => thread::park(),
            Some(time) => thread::park_timeout(time),
        }
        let mut state = self.lock();
        state.idle -= 1;
        // The thread is still listed if no job woke it: it timed out, or woke spuriously.
        state.asleep.retain(|other| other.id() != id);
        state
    }

    /// Waits until a job may be there or the queue is closed. Returns true if the queue is closed and empty.
    #[cfg(feature = "simulation")]
    pub(super) async fn arrived(&self) -> bool {
        loop {
            let arrived = self.arrived.notified();
            {
                let state = self.lock();
                if !state.is_empty() {
                    return false;
                }
                if state.closed {
                    return true;
                }
            }
            arrived.await;
        }
    }

    /// Adds a job. Returns [`Error::Unavailable`] if the queue is full or closed.
    pub(super) fn push(&self, job: Box<dyn Job>) -> Result<()> {
        let mut state = self.lock();
        if state.closed {
            return Err(Error::Unavailable("the store is closed".to_owned()));
        }
        let bytes = state.bytes.saturating_add(job.bytes());
        let too_many = || Error::Unavailable("too many commands are waiting".to_owned());
        if state.len() >= MAX_WAITING || (bytes > MAX_WAITING_BYTES && !state.jobs.is_empty()) {
            return Err(too_many());
        }
        if !state.add(job) {
            return Err(too_many());
        }
        state.bytes = bytes;
        self.wake_one(state);
        Ok(())
    }

    /// Adds a job to the urgent ones, which go ahead of all others.
    pub(super) fn push_urgent(&self, job: Box<dyn Job>) -> Result<()> {
        let mut state = self.lock();
        if state.closed {
            return Err(Error::Unavailable("the store is closed".to_owned()));
        }
        // While the threads are stuck, abandoned urgent jobs must not pile up.
        state.urgent.retain(|job| job.is_wanted());
        state.urgent.push_back(job);
        self.wake_one(state);
        Ok(())
    }

    /// Waits for jobs, for at most `idle` if given. Takes at most `count` jobs, urgent ones first. The other
    /// jobs write at most `bytes` together, unless the first one alone writes more.
    pub(super) fn take(&self, count: usize, bytes: usize, idle: Option<Duration>) -> Next {
        let mut state = self.lock();
        while state.is_empty() {
            if state.closed {
                return Next::Closed;
            }
            let began = Instant::now();
            state = self.sleep(state, idle);
            if state.is_empty() && idle.is_some_and(|time| began.elapsed() >= time) {
                return Next::Idle;
            }
        }
        let mut taken = Vec::new();
        while taken.len() < count
            && let Some(job) = state.urgent.pop_front()
        {
            taken.extend(job.is_wanted().then_some(job));
        }
        let mut total = 0_usize;
        while taken.len() < count
            && let Some(job) = state
                .jobs
                .pop_front_if(|job| taken.is_empty() || total.saturating_add(job.bytes()) <= bytes)
        {
            total = total.saturating_add(job.bytes());
            taken.push(job);
        }
        while taken.len() < count
            && let Some(job) = state.take_turn()
        {
            taken.push(job);
        }
        state.bytes = state.bytes.saturating_sub(total);
        Next::Jobs(taken)
    }

    /// Waits for the oldest job. If that job may share its transaction, the thread also takes a share of the other
    /// waiting jobs that may. These jobs are divided among this thread and the idle ones. A busy thread gets no share,
    /// because it would run them later. At most `count` jobs with at most `bytes` together are taken.
    pub(super) fn take_share(&self, count: usize, bytes: usize) -> Next {
        let Next::Jobs(mut taken) = self.take(1, usize::MAX, None) else {
            return Next::Closed;
        };
        let Some(first) = taken.first().filter(|job| job.access() == Access::Own) else {
            return Next::Jobs(taken);
        };
        let bytes = bytes.saturating_sub(first.bytes());
        let mut state = self.lock();
        let alike = state.jobs.iter().take(SEARCHED);
        let alike = alike.filter(|job| job.access() == Access::Own).count();
        let share = (alike / (1 + state.idle)).min(count.saturating_sub(1));
        let more = state.take_own(share, bytes);
        let total: usize = more.iter().map(|job| job.bytes()).sum();
        state.bytes = state.bytes.saturating_sub(total);
        taken.extend(more);
        Next::Jobs(taken)
    }

    /// Answers every waiting job with `error`.
    pub(super) fn refuse_waiting(&self, error: &Error) {
        let mut state = self.lock();
        let urgent = mem::take(&mut state.urgent);
        let jobs = mem::take(&mut state.jobs);
        let turns = mem::take(&mut state.turns);
        state.bytes = 0;
        drop(state);
        let in_turns = turns.into_iter().flat_map(|(_, jobs)| jobs);
        for job in urgent.into_iter().chain(jobs).chain(in_turns) {
            job.answer(Err(error.clone()));
        }
    }

    /// Closes the queue for new jobs. Waiting jobs still run.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let woken = mem::take(&mut state.asleep);
        drop(state);
        for thread in woken {
            thread.unpark();
        }
        #[cfg(feature = "simulation")]
        self.arrived.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};

    use super::*;

    fn job() -> Box<dyn Job> {
        in_turn(Turn::Arrival)
    }

    fn in_turn(turn: Turn) -> Box<dyn Job> {
        let (reply, _) = oneshot::channel();
        Box::new(Task {
            access: Access::Own,
            turn,
            bytes: 1,
            queued_at: Instant::now(),
            work: |_: &mut dyn Tx| Ok(()),
            value: None,
            reply,
        })
    }

    fn waiting(count: usize) -> Queue {
        let queue = Queue::default();
        for _ in 0..count {
            queue.push(job()).unwrap();
        }
        queue
    }

    fn taken(queue: &Queue) -> usize {
        let Next::Jobs(jobs) = queue.take_share(16, 1 << 20) else {
            panic!("the queue is closed");
        };
        jobs.len()
    }

    #[test]
    fn what_waits_is_shared_with_threads_that_wait_and_not_with_those_at_work() {
        assert_eq!(taken(&waiting(13)), 13);
        assert_eq!(taken(&waiting(40)), 16);
        let queue = waiting(13);
        queue.lock().idle = 3;
        // The first job, and a quarter of the twelve after it.
        assert_eq!(taken(&queue), 4);
    }

    #[test]
    fn each_organization_gets_its_turn_however_many_jobs_of_another_one_wait() {
        let [busy, other] = [1, 2].map(|number| {
            let at = sortie_api::Timestamp::from_micros(0);
            Turn::Organization(OrgId::new(at, [number; 10]))
        });
        let queue = Queue::default();
        for _ in 0..MAX_OF_ONE {
            queue.push(in_turn(busy)).unwrap();
        }
        let refused = queue.push(in_turn(busy)).unwrap_err();
        assert!(matches!(refused, Error::Unavailable(_)), "{refused}");
        for turn in [other, other, Turn::System] {
            queue.push(in_turn(turn)).unwrap();
        }
        let taken: Vec<Turn> = (0..7)
            .map(|_| match queue.take(1, usize::MAX, None) {
                Next::Jobs(jobs) => jobs[0].turn(),
                Next::Idle | Next::Closed => panic!("jobs wait"),
            })
            .collect();
        assert_eq!(taken, [busy, other, Turn::System, busy, other, busy, busy]);
        assert_eq!(queue.waiting(), MAX_OF_ONE - 4);
        queue.push(in_turn(busy)).unwrap();
    }

    #[test]
    fn the_thread_that_has_waited_for_the_shortest_time_is_woken_first_and_the_end_wakes_all() {
        let queue = Arc::new(Queue::default());
        let (done, numbers) = mpsc::channel();
        let threads: Vec<_> = (0..4)
            .map(|number| {
                let (ours, done) = (Arc::clone(&queue), done.clone());
                let thread = thread::spawn(move || {
                    // One job each, so that a thread that has worked does not wait again.
                    if let Next::Jobs(_) = ours.take(1, 1, None) {
                        done.send(number).unwrap();
                    }
                });
                while queue.lock().asleep.len() <= number {
                    thread::yield_now();
                }
                thread
            })
            .collect();
        for number in [3, 2, 1] {
            queue.push(job()).unwrap();
            assert_eq!(numbers.recv().unwrap(), number);
        }
        queue.close();
        drop(done);
        assert!(numbers.recv().is_err());
        for thread in threads {
            thread.join().unwrap();
        }
    }

    #[test]
    fn a_thread_that_was_not_woken_in_time_goes_on_and_is_not_woken_later() {
        let queue = Queue::default();
        let time = Some(Duration::from_millis(1));
        assert!(matches!(queue.take(1, 1, time), Next::Idle));
        let state = queue.lock();
        assert!(state.asleep.is_empty());
        assert_eq!(state.idle, 0);
    }
}
