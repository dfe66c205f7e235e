use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

use super::*;
use crate::{
    Context, Error,
    hooks::Hooks,
    job::{self, Access, Job, Queue, Turn},
    metrics::Metrics,
    tail::{Tail, WindowChange, WindowKey},
    testing::FakeRows,
    tx::Tx,
    vals,
    value::Val,
};

/// Fake servers at one address, and a record of the calls of clients.
#[derive(Default)]
struct World {
    /// Number of the server that new connections reach.
    server: u32,
    /// Servers below this number accept no writes.
    first_writable: u32,
    is_away: bool,
    connects: u32,
    /// Failures of the next statements that end a transaction.
    ends: Vec<FailureKind>,
    /// Number of the server of each commit.
    commits: Vec<u32>,
    reads: Vec<u32>,
    /// Texts that begin transactions or tails.
    begins: Vec<&'static str>,
    /// Scope of the window whose next writes fail, the kind of the failures, and their number.
    blocked: Option<(&'static str, FailureKind, u32)>,
}

impl World {
    /// Answers a statement. The write of a window affects its row.
    fn answer(&mut self, statement: &Stmt<'_>) -> Result<Answer, Failure> {
        if !statement.sql.contains("budget_window") {
            return Ok(Answer::default());
        }
        if let Some((scope, kind, left)) = &mut self.blocked
            && *left > 0
            && statement.params.contains(&Val::from(*scope))
        {
            *left -= 1;
            let error = Error::Unavailable(format!("{scope} is locked"));
            return Err(Failure { error, kind: *kind });
        }
        Ok(Answer {
            affected: 1,
            ..Answer::default()
        })
    }
}

#[derive(Clone, Default)]
struct Fake(Arc<Mutex<World>>);

impl Fake {
    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock()
    }

    /// Makes another server the primary. The one before becomes a standby.
    fn fail_over(&self) {
        let mut world = self.world();
        world.server += 1;
        world.first_writable = world.server;
    }

    fn worker(&self, pool: &Arc<Pool>) -> Worker<Self> {
        let context = Context {
            metrics: Metrics::default(),
            rows: Arc::new(FakeRows),
            hooks: Hooks::default(),
        };
        Worker::new(self.clone(), Arc::clone(pool), context)
    }
}

struct FakeSession {
    fake: Fake,
    server: u32,
}

impl Server for Fake {
    type Session = FakeSession;

    fn connect(&mut self) -> Result<FakeSession> {
        let mut world = self.world();
        if world.is_away {
            return Err(Error::Unavailable("away".to_owned()));
        }
        world.connects += 1;
        Ok(FakeSession {
            fake: self.clone(),
            server: world.server,
        })
    }

    fn pause(&mut self, _: Duration) {}
}

impl Session for FakeSession {
    fn is_open(&mut self) -> bool {
        true
    }

    fn send(&mut self, begin: Option<&'static str>, statements: &[Stmt<'_>]) -> Sent {
        let mut world = self.fake.world();
        world.begins.extend(begin);
        if begin.is_none() {
            world.reads.push(self.server);
        } else if self.server < world.first_writable {
            return Err(Failure {
                error: Error::Unavailable("read-only".to_owned()),
                kind: FailureKind::ReadOnly,
            });
        }
        Ok(statements
            .iter()
            .map(|statement| world.answer(statement))
            .collect())
    }

    fn end(&mut self, sql: &'static str) -> Result<(), Failure> {
        let mut world = self.fake.world();
        if let Some(kind) = world.ends.pop() {
            let error = Error::Unavailable("lost".to_owned());
            return Err(Failure { error, kind });
        }
        if sql == "COMMIT" {
            world.commits.push(self.server);
        }
        Ok(())
    }
}

/// Creates a job of one statement. Returns the job and the receiver of its answer.
fn command(access: Access) -> (Box<dyn Job>, oneshot::Receiver<Result<()>>) {
    let (reply, answer) = oneshot::channel();
    let task = job::Task {
        turn: Turn::Arrival,
        access,
        bytes: 0,
        queued_at: std::time::Instant::now(),
        work: |tx: &mut dyn Tx| tx.exec("", vals![]).map(drop),
        value: None,
        reply,
    };
    (Box::new(task), answer)
}

/// Creates a job that adds to the window of a scope at the end of its transaction; of none with an empty scope.
fn with_tail(scope: &'static str) -> (Box<dyn Job>, oneshot::Receiver<Result<()>>) {
    let (reply, answer) = oneshot::channel();
    let task = job::Task {
        turn: Turn::Arrival,
        access: Access::Own,
        bytes: 0,
        queued_at: std::time::Instant::now(),
        work: move |tx: &mut dyn Tx| {
            tx.exec("", vals![])?;
            if !scope.is_empty() {
                let at = sortie_api::Timestamp::from_micros(0);
                let key = WindowKey {
                    org: sortie_api::OrgId::new(at, [0; 10]),
                    scope: scope.to_owned(),
                    since: 1,
                    starts_at: at,
                };
                tx.tail(Tail::Window(key, WindowChange::settle(1, 1)));
            }
            Ok(())
        },
        value: None,
        reply,
    };
    (Box::new(task), answer)
}

/// Runs jobs of these scopes in one group. Returns the scopes of the jobs that failed.
fn run_group(worker: &mut Worker<Fake>, scopes: &[&'static str]) -> Vec<&'static str> {
    let (jobs, answers): (Vec<_>, Vec<_>) = scopes.iter().map(|scope| with_tail(scope)).unzip();
    worker.serve(jobs, &Queue::default());
    scopes
        .iter()
        .zip(answers)
        .filter_map(|(scope, mut answer)| answer.try_recv().unwrap().is_err().then_some(*scope))
        .collect()
}

/// Runs a command on a worker.
fn run(worker: &mut Worker<Fake>, access: Access) -> Result<()> {
    let (job, mut answer) = command(access);
    worker.serve(vec![job], &Queue::default());
    answer.try_recv().unwrap()
}

#[test]
fn after_a_fail_over_no_session_with_the_old_server_is_used_again() {
    let (fake, pool) = (Fake::default(), Arc::<Pool>::default());
    let mut workers = [fake.worker(&pool), fake.worker(&pool)];
    for worker in &mut workers {
        run(worker, Access::Write).unwrap();
    }
    fake.fail_over();
    // The first write detects it and is retried on a new session. A read alone would not detect it.
    run(&mut workers[0], Access::Write).unwrap();
    run(&mut workers[1], Access::Read).unwrap();
    let world = fake.world();
    assert_eq!((&world.commits[..], &world.reads[..]), (&[0, 0, 1][..], &[1][..]));
    assert_eq!(world.connects, 4);
}

#[test]
fn a_session_whose_transaction_the_server_has_ended_is_replaced_and_the_command_run_again() {
    let (fake, pool) = (Fake::default(), Arc::<Pool>::default());
    let mut worker = fake.worker(&pool);
    fake.world().ends.push(FailureKind::Unusable);
    run(&mut worker, Access::Write).unwrap();
    let world = fake.world();
    assert_eq!((world.commits.len(), world.connects), (1, 2));
}

#[test]
fn a_commit_whose_answer_is_lost_is_in_doubt_and_not_repeated() {
    let (fake, pool) = (Fake::default(), Arc::<Pool>::default());
    let mut worker = fake.worker(&pool);
    fake.world().ends.push(FailureKind::Disconnected);
    let told = run(&mut worker, Access::Write).unwrap_err();
    assert_eq!(
        told,
        Error::Unavailable("the connection was lost during the commit".to_owned())
    );
    assert!(fake.world().commits.is_empty());
    run(&mut worker, Access::Write).unwrap();
    assert_eq!(fake.world().connects, 2);
}

#[test]
fn a_commit_whose_answer_is_lost_ends_every_session_of_that_age() {
    let (fake, pool) = (Fake::default(), Arc::<Pool>::default());
    let (mut first, mut second) = (fake.worker(&pool), fake.worker(&pool));
    for worker in [&mut first, &mut second] {
        run(worker, Access::Write).unwrap();
    }
    // The address moves; the previous server keeps running.
    fake.world().server += 1;
    fake.world().ends.push(FailureKind::Disconnected);
    run(&mut first, Access::Write).unwrap_err();
    run(&mut second, Access::Write).unwrap();
    assert_eq!(fake.world().commits, [0, 0, 1]);
}

#[test]
fn a_commit_that_is_only_slow_ends_no_other_session() {
    let (fake, pool) = (Fake::default(), Arc::<Pool>::default());
    let (mut first, mut second) = (fake.worker(&pool), fake.worker(&pool));
    for worker in [&mut first, &mut second] {
        run(worker, Access::Write).unwrap();
    }
    fake.world().ends.push(FailureKind::Silent);
    run(&mut first, Access::Write).unwrap_err();
    run(&mut second, Access::Write).unwrap();
    assert_eq!(fake.world().connects, 2);
}

#[test]
fn a_failed_connect_answers_all_that_wait_unless_another_thread_has_a_session() {
    let (fake, pool) = (Fake::default(), Arc::<Pool>::default());
    let (mut connected, mut other) = (fake.worker(&pool), fake.worker(&pool));
    run(&mut connected, Access::Write).unwrap();
    fake.world().is_away = true;
    let queue = Queue::default();
    let (waits, mut waiting) = command(Access::Write);
    queue.push(waits).unwrap();
    let (fails, mut failing) = command(Access::Write);
    other.serve(vec![fails], &queue);
    assert!(matches!(failing.try_recv(), Ok(Err(Error::Unavailable(_)))));
    assert!(waiting.try_recv().is_err(), "the other thread can still run it");
    drop(connected);
    let (fails, mut failing) = command(Access::Read);
    other.serve(vec![fails], &queue);
    assert!(matches!(failing.try_recv(), Ok(Err(Error::Unavailable(_)))));
    assert!(matches!(waiting.try_recv(), Ok(Err(Error::Unavailable(_)))));
    assert_eq!(queue.waiting(), 0);
}

#[test]
fn a_shared_row_that_stays_locked_fails_the_jobs_that_want_it_and_no_others() {
    let (fake, pool) = (Fake::default(), Arc::<Pool>::default());
    let mut worker = fake.worker(&pool);
    fake.world().blocked = Some(("b", FailureKind::Refused, u32::MAX));
    let failed = run_group(&mut worker, &["a", "b", "", "c", "b", "a", ""]);
    assert_eq!(failed, ["b", "b"]);
    let world = fake.world();
    assert_eq!(world.commits.len(), 1, "the others share a transaction");
    let waits = |text: &&&str| text.contains("lock_timeout = '4s'");
    assert_eq!(world.begins.iter().filter(waits).count(), 2, "{:?}", world.begins);
}

#[test]
fn a_deadlock_over_a_shared_row_sends_the_jobs_that_want_it_back_and_no_others() {
    let (fake, pool) = (Fake::default(), Arc::<Pool>::default());
    let mut worker = fake.worker(&pool);
    fake.world().blocked = Some(("b", FailureKind::Retry, 2));
    let failed = run_group(&mut worker, &["a", "b", "", "c", "b"]);
    assert_eq!(failed, [""; 0]);
    // The three others, and the two of the row one by one, of which the first fails once more.
    assert_eq!(fake.world().commits.len(), 3);
}

#[test]
fn a_job_without_a_tail_is_not_blamed_for_the_row_of_others() {
    let (fake, pool) = (Fake::default(), Arc::<Pool>::default());
    let mut worker = fake.worker(&pool);
    fake.world().blocked = Some(("a", FailureKind::Disconnected, 1));
    let failed = run_group(&mut worker, &["a", "", ""]);
    assert_eq!(failed, [""; 0]);
    let world = fake.world();
    assert_eq!((world.commits.len(), world.connects), (2, 2));
}
