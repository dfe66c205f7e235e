//! Jobs: commands that run on in the background of a run's sandbox. The output of each goes to a log file of bounded size, and
//! its newest part is kept for the model's next look.
//!
//! A job is part of the sandbox: it ends with it, even if the run resumes after a restart of its worker.

mod streams;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use sortie_sandbox::{Capture, Error, ExitKind, Process, Released, StreamOutput};
use tokio::{task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

use self::streams::Streams;
use super::log::Log;

/// Maximum number of jobs that run or have output that is still read.
const FOLLOWED: usize = 16;
/// Maximum number of jobs that are remembered; the first to end are forgotten first.
const REMEMBERED: usize = 64;
/// Length of the output since the last look that is kept, in bytes.
const UNSEEN_BYTES: usize = 64 << 10;

/// The jobs of a sandbox, by number.
#[derive(Default)]
pub(crate) struct Jobs {
    jobs: BTreeMap<u32, Job>,
    tasks: JoinSet<()>,
}

/// A command in the background.
#[derive(Clone)]
pub(crate) struct Job {
    /// The command line.
    pub(crate) command: String,
    /// The path of its log; `None` if no log could be created.
    pub(crate) log: Option<String>,
    started: Instant,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    kill: CancellationToken,
    /// Cancelled when the job has ended.
    over: CancellationToken,
    /// Cancelled when reading of its output has ended. Processes that it left may write long after its end.
    unfollowed: CancellationToken,
}

struct State {
    unseen: Capture,
    end: Option<(JobEnd, Instant)>,
    /// Whether the model knows of the end.
    told: bool,
    left: Left,
}

/// Processes in the session of an ended job.
enum Left {
    Nothing,
    Alive(Box<dyn Process>),
    Killed,
}

/// Processes that an ended job left in the background, as reported to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// There were none, or the job runs.
    Nothing,
    /// There were some at its end.
    Left,
    /// They were killed.
    Killed,
}

/// The end of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JobEnd {
    /// The job ended normally, or a limit was reached.
    Ended(ExitKind),
    /// The model killed it.
    Killed,
    /// The sandbox was lost.
    Lost,
}

impl Jobs {
    /// Whether one more may run.
    pub(crate) fn have_room(&self) -> bool {
        self.jobs.values().filter(|job| job.is_followed()).count() < FOLLOWED
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Job> {
        self.jobs.get(&number)
    }

    /// The jobs that are remembered, oldest first.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, &Job)> {
        self.jobs.iter().map(|(number, job)| (*number, job))
    }

    /// Follows a command from now on. `started` is the start time of the command.
    pub(super) fn adopt(
        &mut self,
        number: u32,
        (command, started): (String, Instant),
        released: Released,
        log: Option<(String, Log)>,
    ) {
        let (path, log) = log.unzip();
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                unseen: Capture::new(UNSEEN_BYTES),
                end: None,
                told: false,
                left: Left::Nothing,
            }),
            kill: CancellationToken::new(),
            over: CancellationToken::new(),
            unfollowed: CancellationToken::new(),
        });
        while self.tasks.try_join_next().is_some() {}
        self.tasks.spawn(follow(released, log, Arc::clone(&shared)));
        while self.jobs.len() >= REMEMBERED {
            let Some(ended) = self.all().find(|(_, job)| !job.is_followed()) else {
                break;
            };
            self.jobs.remove(&ended.0);
        }
        let job = Job {
            command,
            log: path,
            started,
            shared,
        };
        self.jobs.insert(number, job);
    }

    /// Takes the ends that have not been reported to the model.
    pub(crate) fn take_ended(&self) -> Vec<(u32, JobEnd)> {
        let untold = |(number, job): (u32, &Job)| {
            let mut state = job.shared.state();
            let (end, _) = state.end.clone()?;
            (!std::mem::replace(&mut state.told, true)).then_some((number, end))
        };
        self.all().filter_map(untold).collect()
    }
}

impl Job {
    /// The end of the job, and the time that it ran.
    pub(crate) fn end(&self) -> Option<(JobEnd, Duration)> {
        let (end, at) = self.shared.state().end.clone()?;
        Some((end, at.duration_since(self.started)))
    }

    /// The time since its start, up to its end.
    pub(crate) fn age(&self) -> Duration {
        self.end().map_or_else(|| self.started.elapsed(), |(_, age)| age)
    }

    /// Length of the output since the last look, in bytes.
    pub(crate) fn unseen_bytes(&self) -> u64 {
        self.shared.state().unseen.total_bytes()
    }

    /// Takes the output since the last look. Looking at an ended job also reports its end to the model.
    pub(crate) fn look(&self) -> StreamOutput {
        let mut state = self.shared.state();
        state.told = state.end.is_some();
        std::mem::replace(&mut state.unseen, Capture::new(UNSEEN_BYTES)).finish()
    }

    /// Waits until it has ended, at most so long.
    pub(crate) async fn wait(&self, limit: Duration) {
        // The caller checks the end afterwards.
        let _in_time = tokio::time::timeout(limit, self.shared.over.cancelled()).await;
    }

    /// Kills the job with everything in its session, or the processes that it left there; returns when they are dead.
    pub(crate) async fn kill(&self) {
        self.shared.kill.cancel();
        self.shared.over.cancelled().await;
        self.shared.unfollowed.cancelled().await;
        let alive = {
            let mut state = self.shared.state();
            match std::mem::replace(&mut state.left, Left::Killed) {
                Left::Alive(process) => Some(process),
                none @ (Left::Nothing | Left::Killed) => {
                    state.left = none;
                    None
                }
            }
        };
        if let Some(process) = alive {
            // A lost sandbox has already killed them.
            let _may_be_lost = process.kill().await;
        }
    }

    /// Processes that it left in the background.
    pub(crate) fn rest(&self) -> Rest {
        let state = self.shared.state();
        match state.left {
            Left::Killed => Rest::Killed,
            Left::Alive(_) => Rest::Left,
            Left::Nothing if state.end.is_some() && self.is_followed() => Rest::Left,
            Left::Nothing => Rest::Nothing,
        }
    }

    /// Whether it runs, or its output is still read.
    fn is_followed(&self) -> bool {
        !self.shared.unfollowed.is_cancelled()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves the state as it was before or after one change.
        self.state.lock()
    }

    fn ended(&self, end: JobEnd, left: Left) {
        {
            let mut state = self.state();
            state.end = Some((end, Instant::now()));
            state.left = left;
        }
        self.over.cancel();
    }
}

/// Reads the output of a job until its streams end, and records its end. The output of a killed job is not read further.
async fn follow(released: Released, log: Option<Log>, shared: Arc<Shared>) {
    let Released {
        stdout,
        stderr,
        mut process,
    } = released;
    let mut streams = Streams::new([stdout, stderr], log);
    let end = loop {
        tokio::select! {
            // The end takes precedence over output: a process that the job left may write without a pause.
            biased;
            () = shared.kill.cancelled() => break None,
            end = process.wait() => break Some(end),
            piece = streams.read() => streams.keep(piece, &shared).await,
        }
    };
    let (end, left) = match end {
        Some(Ok(end)) if end.left => (JobEnd::Ended(end.exit), Left::Alive(process)),
        Some(Ok(end)) => (JobEnd::Ended(end.exit), Left::Nothing),
        Some(Err(_gone)) => (JobEnd::Lost, Left::Nothing),
        None => match process.kill().await {
            Err(Error::Lost(_)) => (JobEnd::Lost, Left::Nothing),
            Ok(_) | Err(_) => (JobEnd::Killed, Left::Nothing),
        },
    };
    // A waiter for the end gets all output before it.
    streams.read_rest(&shared).await;
    if shared.kill.is_cancelled() || !streams.are_open() {
        drop(streams);
        shared.unfollowed.cancel();
        shared.ended(end, left);
        return;
    }
    shared.ended(end, left);
    while streams.are_open() {
        tokio::select! {
            () = shared.kill.cancelled() => break,
            piece = streams.read() => streams.keep(piece, &shared).await,
        }
    }
    drop(streams);
    shared.unfollowed.cancel();
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use futures_util::future::BoxFuture;
    use sortie_sandbox::ProcessEnd;
    use tokio::io::{AsyncRead, AsyncWriteExt, duplex, empty, repeat};

    use super::*;

    /// A command that has ended with status 0 and left a process. `killed` is cancelled when that process is killed.
    struct Ended {
        killed: CancellationToken,
    }

    impl Process for Ended {
        fn wait(&mut self) -> BoxFuture<'_, Result<ProcessEnd, Error>> {
            Box::pin(async {
                Ok(ProcessEnd {
                    exit: ExitKind::Code(0),
                    stderr: Vec::new(),
                    left: true,
                })
            })
        }

        fn kill(mut self: Box<Self>) -> BoxFuture<'static, Result<ProcessEnd, Error>> {
            self.killed.cancel();
            Box::pin(async move { self.wait().await })
        }
    }

    /// Adopts an ended command with standard output that is still open. Returns the token that is cancelled when the process that
    /// it left is killed.
    fn adopt(
        jobs: &mut Jobs,
        number: u32,
        stdout: impl AsyncRead + Send + Sync + Unpin + 'static,
    ) -> CancellationToken {
        adopt_both(jobs, number, stdout, empty())
    }

    fn adopt_both(
        jobs: &mut Jobs,
        number: u32,
        stdout: impl AsyncRead + Send + Sync + Unpin + 'static,
        stderr: impl AsyncRead + Send + Sync + Unpin + 'static,
    ) -> CancellationToken {
        let killed = CancellationToken::new();
        let released = Released {
            stdout: Box::new(stdout),
            stderr: Box::new(stderr),
            process: Box::new(Ended {
                killed: killed.clone(),
            }),
        };
        jobs.adopt(number, ("serve &".to_owned(), Instant::now()), released, None);
        killed
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_ends_while_a_process_that_it_left_writes_without_a_pause() {
        let mut jobs = Jobs::default();
        let killed = adopt(&mut jobs, 1, repeat(b'y'));
        let job = jobs.get(1).unwrap();
        job.wait(Duration::from_mins(1)).await;
        assert_eq!(job.end().unwrap().0, JobEnd::Ended(ExitKind::Code(0)));
        assert_eq!((job.rest(), killed.is_cancelled()), (Rest::Left, false));
        for _ in 0..2 {
            job.kill().await;
            assert_eq!((job.rest(), killed.is_cancelled()), (Rest::Killed, true));
        }
        assert_eq!(job.end().unwrap().0, JobEnd::Ended(ExitKind::Code(0)));
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_a_job_gets_all_output_before_its_end() {
        let mut jobs = Jobs::default();
        let (ours, mut theirs) = duplex(1 << 20);
        theirs.write_all(&vec![b'y'; 900_000]).await.unwrap();
        adopt(&mut jobs, 1, ours);
        let job = jobs.get(1).unwrap();
        job.wait(Duration::from_mins(1)).await;
        assert_eq!(job.look().total_bytes, 900_000);
        // The process that it left continues to write.
        theirs.write_all(b"later").await.unwrap();
        while job.unseen_bytes() < 5 {
            tokio::task::yield_now().await;
        }
        assert_eq!(job.look().head, b"later");
    }

    #[tokio::test(start_paused = true)]
    async fn standard_output_comes_first_and_does_not_hold_up_standard_error() {
        let mut jobs = Jobs::default();
        for number in 1..=8 {
            adopt_both(&mut jobs, number, Cursor::new(b"2\n"), Cursor::new(b"3\n"));
            let job = jobs.get(number).unwrap();
            job.wait(Duration::from_mins(1)).await;
            assert_eq!(job.look().head, b"2\n3\n");
        }
        adopt_both(&mut jobs, 9, repeat(b'y'), Cursor::new(b"error"));
        let job = jobs.get(9).unwrap();
        job.wait(Duration::from_mins(1)).await;
        let seen = job.look();
        assert!(seen.total_bytes % (64 << 10) == 5, "{}", seen.total_bytes);
    }

    #[tokio::test(start_paused = true)]
    async fn ended_jobs_whose_output_goes_on_take_up_room_until_they_are_killed() {
        let mut jobs = Jobs::default();
        let mut theirs = Vec::new();
        for number in 1..=16 {
            assert!(jobs.have_room(), "{number}");
            let (ours, writer) = duplex(100);
            theirs.push(writer);
            adopt(&mut jobs, number, ours);
            jobs.get(number).unwrap().wait(Duration::from_mins(1)).await;
        }
        assert!(jobs.all().all(|(_, job)| job.end().is_some()));
        assert!(!jobs.have_room());
        jobs.get(3).unwrap().kill().await;
        assert!(jobs.have_room());
        // The end of its streams frees a job as well.
        let (ours, _) = duplex(100);
        adopt(&mut jobs, 17, ours);
        jobs.get(17).unwrap().wait(Duration::from_mins(1)).await;
        assert!(jobs.have_room());
    }
}
