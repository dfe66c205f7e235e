//! Helpers: this binary, executed again for one piece of work on untrusted bytes.
//!
//! A helper limits itself before it reads: memory, processor time, descriptors and system calls. It can then compute, read its
//! input and write its answer, and nothing else. The engine limits the size of the answer and the time, and kills a helper that
//! it has stopped waiting for. Content that breaks a helper breaks nothing else.

use std::{
    ffi::OsStr,
    fs,
    io::{self, Read, Write},
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::{
    process::{getpriority_process, setpriority_process, setsid},
    thread::set_no_new_privs,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, Command},
    task::spawn_blocking,
    time::timeout,
};

use crate::{
    seccomp,
    sys::{self, Resource},
};

/// Exit code of a helper that could not limit itself.
const NOT_CONFINED: i32 = 125;
/// Stack of a helper, in bytes.
const STACK_BYTES: u64 = 8 << 20;
/// Address space beyond the memory limit: the binary, its libraries and the stack.
const MAPPED_BYTES: u64 = 1 << 30;
/// Lowered priority: the engine comes first.
const NICE: i32 = 5;
/// OOM score adjustment of a helper, so that the kernel kills it first; 1000 is the maximum.
const OUT_OF_MEMORY_SCORE: &[u8] = b"1000";

/// Resources of one piece of work.
#[derive(Clone, Copy, Debug)]
pub struct HelperLimits {
    /// Memory of the helper, in bytes.
    pub memory_bytes: u64,
    /// Processor time, in seconds.
    pub cpu_seconds: u64,
    /// Time from start to end.
    pub time: Duration,
    /// Longest answer, in bytes.
    pub answer_bytes: usize,
}

/// Reason why a helper gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum HelperError {
    /// The process could not be started.
    #[error("cannot start a helper process: {0}")]
    Start(#[source] io::Error),
    /// The host refused the helper one of its limits.
    #[error("cannot confine a helper process on this host")]
    NotConfined,
    /// The helper ended without an answer.
    #[error("the helper process ended with {0}")]
    Ended(String),
    /// The helper took too long and was killed.
    #[error("the helper process was killed after {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The answer was too long, and the helper was killed.
    #[error("the helper process answered with more than {0} bytes")]
    TooLong(usize),
}

/// A kind of helper: a binary, and the argument that makes it one.
#[derive(Clone, Debug)]
pub struct Helper {
    binary: PathBuf,
    argument: &'static str,
}

impl Helper {
    /// A helper of `binary`, which calls [`helper_main`] with `argument` first in its `main`.
    pub fn new(binary: impl Into<PathBuf>, argument: &'static str) -> Self {
        Self {
            binary: binary.into(),
            argument,
        }
    }

    /// A helper of the running binary, even if its file was replaced.
    pub fn of_this_binary(argument: &'static str) -> Self {
        Self::new("/proc/self/exe", argument)
    }

    /// Path of the binary.
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// Does one piece of work in a new process. `input` is sent part by part. Dropping the future kills the process.
    pub async fn work(&self, input: &[&[u8]], limits: HelperLimits) -> Result<Vec<u8>, HelperError> {
        let helper = self.clone();
        // The thread that starts a process blocks until the process is executed.
        let started = spawn_blocking(move || helper.start(limits)).await;
        let started = started.unwrap_or_else(|error| Err(io::Error::other(error)));
        let mut process = started.map_err(HelperError::Start)?;
        timeout(limits.time, converse(&mut process, input, limits.answer_bytes))
            .await
            .unwrap_or(Err(HelperError::TimedOut(limits.time)))
    }

    fn start(&self, limits: HelperLimits) -> io::Result<Child> {
        Command::new(&self.binary)
            .arg(self.argument)
            .arg(limits.memory_bytes.to_string())
            .arg(limits.cpu_seconds.to_string())
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
    }
}

/// Sends the input and reads the answer concurrently: either pipe may be full.
async fn converse(process: &mut Child, input: &[&[u8]], answer_bytes: usize) -> Result<Vec<u8>, HelperError> {
    let (stdin, stdout) = (process.stdin.take(), process.stdout.take());
    let send = async {
        if let Some(mut stdin) = stdin {
            for part in input {
                // A helper that stops reading explains this with its exit status.
                if stdin.write_all(part).await.is_err() {
                    break;
                }
            }
        }
    };
    let receive = async {
        let mut answer = Vec::new();
        if let Some(stdout) = stdout {
            let most = u64::try_from(answer_bytes).unwrap_or(u64::MAX).saturating_add(1);
            stdout.take(most).read_to_end(&mut answer).await?;
        }
        Ok(answer)
    };
    let ((), answer) = tokio::join!(send, receive);
    let answer: Vec<u8> = answer.map_err(|error: io::Error| HelperError::Ended(error.to_string()))?;
    if answer.len() > answer_bytes {
        return Err(HelperError::TooLong(answer_bytes));
    }
    let status = process.wait().await;
    match status.map_err(|error| HelperError::Ended(error.to_string()))? {
        status if status.success() => Ok(answer),
        status if status.code() == Some(NOT_CONFINED) => Err(HelperError::NotConfined),
        status => Err(HelperError::Ended(end_of(status))),
    }
}

fn end_of(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "no status".to_owned(),
    }
}

/// Becomes a helper, and then never returns, if the first argument is `argument`; otherwise does nothing. Call it first in
/// `main`: before any thread, runtime or output. `work` computes the answer from the input.
pub fn helper_main(argument: &str, work: fn(&[u8]) -> Vec<u8>) {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_none_or(|first| first != OsStr::new(argument)) {
        return;
    }
    let mut number = || arguments.next()?.to_str()?.parse().ok();
    let limits = number().zip(number());
    if limits.is_none_or(|(memory, cpu)| confine(memory, cpu).is_err()) {
        sys::exit_now(NOT_CONFINED);
    }
    let mut input = Vec::new();
    let answered = io::stdin()
        .read_to_end(&mut input)
        .and_then(|_| io::stdout().write_all(&work(&input)))
        .and_then(|()| io::stdout().flush());
    sys::exit_now(i32::from(answered.is_err()));
}

/// Drops all rights except computing, reading open descriptors and writing to them.
fn confine(memory_bytes: u64, cpu_seconds: u64) -> rustix::io::Result<()> {
    // Signals of the engine's terminal are not for helpers. Fails only if the process already leads a group.
    let _leader_already = setsid();
    // Both only give way to others: without them the limits still hold.
    let _priority = getpriority_process(None).and_then(|now| setpriority_process(None, now + NICE));
    let _score = fs::write("/proc/self/oom_score_adj", OUT_OF_MEMORY_SCORE);
    sys::close_from(3)?;
    for (resource, value) in [
        (Resource::DataBytes, memory_bytes),
        (Resource::AddressSpace, memory_bytes.saturating_add(MAPPED_BYTES)),
        (Resource::StackBytes, STACK_BYTES),
        (Resource::CpuSeconds, cpu_seconds),
        (Resource::OpenFiles, 3),
        (Resource::FileBytes, 0),
        (Resource::LockedBytes, 0),
        // A limit of 1 also prevents a core dump collector from being started.
        (Resource::CoreBytes, 1),
    ] {
        sys::limit(resource, value)?;
    }
    set_no_new_privs(true)?;
    sys::install_filter(&seccomp::helper_filter())
}
