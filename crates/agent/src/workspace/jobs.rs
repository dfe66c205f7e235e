//! Jobs: commands that go on in the background of a run's sandbox. The output of each goes to a log file of bounded size,
//! and its newest part is kept for the model's next look.
//!
//! A job is part of the sandbox: it ends with it, also when the run goes on after a restart of its worker.

use std::{
    collections::BTreeMap,
    io::{self, SeekFrom},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sortie_sandbox::{Capture, Error, ExitKind, ProcessEnd, Released, StreamOutput};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncSeekExt, AsyncWriteExt},
    task::JoinSet,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use crate::text;

/// Jobs that run at once at most.
const RUNNING: usize = 16;
/// Jobs that are remembered at most; those that ended first are forgotten first.
const REMEMBERED: usize = 64;
/// Maximum size of a log, in bytes. A full log loses its older half.
pub(super) const LOG_BYTES: u64 = 4 << 20;
/// Length of the output since the last look that is kept, in bytes.
const UNSEEN_BYTES: usize = 64 << 10;
/// Length of a piece that is read at once, in bytes.
const PIECE: usize = 64 << 10;
/// The pause after a piece that was full: a job that floods its log is slowed down to some 13 MB/s.
const PAUSE: Duration = Duration::from_millis(5);

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
    /// The path of its log; none where no log could be made.
    pub(crate) log: Option<String>,
    started: Instant,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    kill: CancellationToken,
    over: CancellationToken,
}

struct State {
    unseen: Capture,
    end: Option<(JobEnd, Instant)>,
    /// Whether the model has been told of the end.
    told: bool,
}

/// The end of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JobEnd {
    /// The job ended by itself, or a limit was reached.
    Ended(ExitKind),
    /// The model ended it.
    Killed,
    /// The sandbox was lost.
    Lost,
}

impl Jobs {
    /// Whether one more may run.
    pub(crate) fn have_room(&self) -> bool {
        self.jobs.values().filter(|job| job.end().is_none()).count() < RUNNING
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Job> {
        self.jobs.get(&number)
    }

    /// The jobs that are remembered, oldest first.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, &Job)> {
        self.jobs.iter().map(|(number, job)| (*number, job))
    }

    /// Follows a command from now on. `started` is when it began.
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
            }),
            kill: CancellationToken::new(),
            over: CancellationToken::new(),
        });
        while self.tasks.try_join_next().is_some() {}
        self.tasks.spawn(follow(released, log, Arc::clone(&shared)));
        while self.jobs.len() >= REMEMBERED {
            let Some(ended) = self.all().find(|(_, job)| job.end().is_some()) else {
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

    /// Takes the ends of which the model was not told.
    pub(crate) fn news(&self) -> Vec<(u32, JobEnd)> {
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

    /// Takes the output since the last look. A model that looks at an ended job has been told of its end.
    pub(crate) fn look(&self) -> StreamOutput {
        let mut state = self.shared.state();
        state.told = state.end.is_some();
        std::mem::replace(&mut state.unseen, Capture::new(UNSEEN_BYTES)).finish()
    }

    /// Waits until it has ended, at most so long.
    pub(crate) async fn wait(&self, limit: Duration) {
        // Whether it has ended is asked afterwards.
        let _in_time = tokio::time::timeout(limit, self.shared.over.cancelled()).await;
    }

    /// Kills it with everything in its session; returns when that is done.
    pub(crate) async fn kill(&self) {
        self.shared.kill.cancel();
        self.shared.over.cancelled().await;
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves the state as it was before or after one change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ended(&self, end: JobEnd) {
        self.state().end = Some((end, Instant::now()));
        self.over.cancel();
    }
}

type Reader = Pin<Box<dyn AsyncRead + Send + Sync>>;

/// Reads what a job says, until its streams end, and notes its end.
async fn follow(released: Released, mut log: Option<Log>, shared: Arc<Shared>) {
    let Released {
        stdout,
        stderr,
        mut process,
    } = released;
    let mut streams: [Option<Reader>; 2] = [Some(Box::into_pin(stdout)), Some(Box::into_pin(stderr))];
    let mut pieces = [(); 2].map(|()| Vec::with_capacity(PIECE));
    loop {
        let [stdout, stderr] = &mut streams;
        let [out, err] = &mut pieces;
        let (stream, read) = tokio::select! {
            // Output comes before the end.
            biased;
            () = shared.kill.cancelled() => break,
            read = piece(stdout, out), if stdout.is_some() => (0, read),
            read = piece(stderr, err), if stderr.is_some() => (1, read),
            end = process.wait() => {
                shared.ended(end_of(end));
                break;
            }
        };
        take((&mut streams, &mut pieces), (stream, read), &mut log, &shared).await;
    }
    if shared.state().end.is_none() {
        let killed = match process.kill().await {
            Err(Error::Lost(_)) => JobEnd::Lost,
            Ok(_) | Err(_) => JobEnd::Killed,
        };
        shared.ended(killed);
    }
    // Processes that it left in the background may go on to write.
    while streams.iter().any(Option::is_some) {
        let [stdout, stderr] = &mut streams;
        let [out, err] = &mut pieces;
        let (stream, read) = tokio::select! {
            read = piece(stdout, out), if stdout.is_some() => (0, read),
            read = piece(stderr, err), if stderr.is_some() => (1, read),
        };
        take((&mut streams, &mut pieces), (stream, read), &mut log, &shared).await;
    }
}

/// Reads one piece; can be dropped at any moment without losing any.
async fn piece(stream: &mut Option<Reader>, piece: &mut Vec<u8>) -> io::Result<usize> {
    match stream {
        Some(stream) => stream.read_buf(piece).await,
        None => std::future::pending().await,
    }
}

/// Keeps a piece that was read of a stream.
async fn take(
    (streams, pieces): (&mut [Option<Reader>; 2], &mut [Vec<u8>; 2]),
    (number, read): (usize, io::Result<usize>),
    log: &mut Option<Log>,
    shared: &Shared,
) {
    let (Some(stream), Some(piece)) = (streams.get_mut(number), pieces.get_mut(number)) else {
        return;
    };
    // A stream that cannot be read has nothing more for us.
    if !matches!(read, Ok(1..)) {
        *stream = None;
        return;
    }
    shared.state().unseen.push(piece);
    if let Some(open) = log
        && open.write(piece).await.is_err()
    {
        *log = None;
    }
    let was_full = piece.len() == PIECE;
    piece.clear();
    if was_full {
        sleep(PAUSE).await;
    }
}

fn end_of(end: Result<ProcessEnd, Error>) -> JobEnd {
    match end {
        Ok(end) => JobEnd::Ended(end.exit),
        Err(_gone) => JobEnd::Lost,
    }
}

/// A file that holds the newest of what was written into it.
pub(super) struct Log {
    file: tokio::fs::File,
    bytes: u64,
    /// Length of the output that was dropped, in bytes.
    gone: u64,
    /// Length of the line that says so, in bytes.
    mark: u64,
}

impl Log {
    /// Begins with an empty file that can be read and written.
    pub(super) fn new(file: std::fs::File) -> Self {
        Self {
            file: tokio::fs::File::from_std(file),
            bytes: 0,
            gone: 0,
            mark: 0,
        }
    }

    /// Writes a piece behind what is there.
    pub(super) async fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        if self.bytes + piece.len() as u64 > LOG_BYTES {
            self.halve().await?;
        }
        self.file.write_all(piece).await?;
        self.file.flush().await?;
        self.bytes += piece.len() as u64;
        Ok(())
    }

    /// Writes what is left to read of a file.
    pub(super) async fn copy(&mut self, from: std::fs::File) -> io::Result<()> {
        let mut from = tokio::fs::File::from_std(from);
        let mut piece = Vec::with_capacity(PIECE);
        while from.read_buf(&mut piece).await? > 0 {
            self.write(&piece).await?;
            piece.clear();
        }
        Ok(())
    }

    /// Drops the older half, and says so in the first line.
    async fn halve(&mut self) -> io::Result<()> {
        let kept = self.bytes / 2;
        self.file.seek(SeekFrom::Start(self.bytes - kept)).await?;
        let mut newest = Vec::new();
        (&mut self.file).take(kept).read_to_end(&mut newest).await?;
        let line = newest
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        newest.drain(..line);
        self.gone += (self.bytes - self.mark).saturating_sub(newest.len() as u64);
        let mark = format!("[… {} bytes left out …]\n", text::grouped(self.gone));
        self.file.set_len(0).await?;
        self.file.seek(SeekFrom::Start(0)).await?;
        self.file.write_all(mark.as_bytes()).await?;
        self.file.write_all(&newest).await?;
        self.file.flush().await?;
        self.mark = mark.len() as u64;
        self.bytes = self.mark + newest.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[tokio::test]
    async fn a_log_holds_the_newest_lines_within_its_bound() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut log = Log::new(file.reopen().unwrap());
        let mut written = 0_u64;
        for number in 0..300 {
            let piece = format!("{number:0>8}\n").repeat(5_000);
            log.write(piece.as_bytes()).await.unwrap();
            written += piece.len() as u64;
        }
        let mut text = String::new();
        file.reopen().unwrap().read_to_string(&mut text).unwrap();
        assert!(text.len() as u64 <= LOG_BYTES && text.len() as u64 > LOG_BYTES / 2 - 100_000);
        let (mark, rest) = text.split_once('\n').unwrap();
        assert!(
            mark.starts_with("[… ") && mark.ends_with(" bytes left out …]"),
            "{mark}"
        );
        assert!(rest.lines().all(|line| line.len() == 8) && rest.ends_with("00000299\n"));
        let gone: u64 = mark
            .replace(',', "")
            .chars()
            .filter(char::is_ascii_digit)
            .collect::<String>()
            .parse()
            .unwrap();
        assert_eq!(gone, written - rest.len() as u64);
    }
}
