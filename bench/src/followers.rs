//! Thousands of followers of one run, or of one run each. We measure the delay until they read the end.

use std::{
    io::Read as _,
    net::{SocketAddr, TcpStream},
    sync::Arc,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, ensure};
use rustix::{
    buffer::spare_capacity,
    event::{
        Timespec,
        epoll::{self, CreateFlags, EventData, EventFlags},
    },
    process::{Resource, getrlimit},
};
use sortie_testkit::{Node, NodeOptions};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::Semaphore,
    task::JoinSet,
};

use crate::{
    Bench,
    load::contains,
    memory::{mebibytes, start_waiting},
    process::{highest, open_files, resident},
    report::{Limit, Report},
    run::Run,
    samples::Samples,
};

/// Number of concurrent followers.
const FEW: usize = 1_000;
const MANY: usize = 10_000;

/// Number of open files that a node needs per follower: it uses half of its limit for connections.
const FILES_EACH: u64 = 2;

/// Maximum number of streams that are being opened.
const OPENING: usize = 200;

/// Interval of the checks for followers with something to read.
const LOOK: Duration = Duration::from_millis(1);

/// Duration of the runs of few followers, and of many, in milliseconds.
const SHORT: u64 = 8_000;
const LONG: u64 = 40_000;

/// Time over which the runs of many followers end, in milliseconds.
const SPREAD: u64 = 20_000;

/// Runs all measurements.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) -> Result<()> {
    if report.wants("1,000 followers") {
        on_one_run(bench, report, FEW, SHORT).await?;
        each_on_its_own(bench, report, FEW, (SHORT, 0)).await?;
    }
    if !report.wants("10,000 followers") {
        return Ok(());
    }
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let needed = u64::try_from(MANY)? * FILES_EACH;
    if most < needed {
        let why = format!("needs a limit of {needed} open files; it is {most}");
        report.add("lag of the last event, 10,000 followers", why);
        return Ok(());
    }
    on_one_run(bench, report, MANY, LONG / 2).await?;
    each_on_its_own(bench, report, MANY, (LONG, SPREAD)).await
}

/// Starts a node that treats this machine as a trusted proxy. The followers share one address and would otherwise be limited to
/// half of the connections.
async fn node(bench: &Bench) -> Result<Node> {
    bench
        .node_with(NodeOptions::default().env("SORTIE_TRUSTED_PROXIES", "127.0.0.1"))
        .await
}

fn name(count: usize) -> String {
    format!("{},000 followers", count / 1_000)
}

fn prompt(millis: u64) -> String {
    format!("```wait {millis}\n```\n")
}

/// Measures one run with `count` followers.
async fn on_one_run(bench: &Bench, report: &mut Report, count: usize, lasts: u64) -> Result<()> {
    let node = node(bench).await?;
    let before = resident(&node)?;
    let run = start_waiting(&node, 1, &prompt(lasts))
        .await?
        .pop()
        .context("no run")?;
    let followers = Followers::open(node.address()?, node.key(), vec![run; count]).await?;
    let (held, files) = (resident(&node)?.saturating_sub(before), open_files(&node)?);
    let lag = followers.lags().await?;
    let name = format!("lag of the last event, {} on one run", name(count));
    let late = lag.percentile(99).as_secs_f64();
    let figure = format!("{name}, p99");
    report.against(
        Limit::Messages,
        figure.clone(),
        f64::from(u32::try_from(count)?) / late,
    );
    report.reach(figure, late);
    report.add(format!("{name}, p50 / p99"), lag.to_string());
    report.add(
        format!("… memory of all {count} streams, and open files of the node"),
        format!("{}, {files}", mebibytes(held)?),
    );
    Ok(())
}

/// Measures one run per follower. The runs end at about the same time, or over some time.
async fn each_on_its_own(
    bench: &Bench,
    report: &mut Report,
    count: usize,
    (lasts, spread): (u64, u64),
) -> Result<()> {
    let node = node(bench).await?;
    let parts = if spread == 0 { 1 } else { 20 };
    let mut runs = Vec::with_capacity(count);
    for part in 0..parts {
        let lasts = lasts + spread * part / parts;
        let share = count / usize::try_from(parts)?;
        runs.extend(start_waiting(&node, share, &prompt(lasts)).await?);
    }
    let followers = Followers::open(node.address()?, node.key(), runs).await?;
    let lag = followers.lags().await?;
    let when = if spread == 0 { "at once" } else { "over 20 s" };
    let name = format!(
        "lag of the last event, {} on a run each, ending {when}",
        name(count)
    );
    report.reach(format!("{name}, p99"), lag.percentile(99).as_secs_f64());
    report.add(format!("{name}, p50 / p99"), lag.to_string());
    report.add(
        format!("… highest memory of the node, {count} runs and streams"),
        mebibytes(highest(&node)?)?,
    );
    Ok(())
}

/// Open streams: bare sockets, so that reading them takes almost no CPU time from the node.
pub(crate) struct Followers(Vec<TcpStream>);

impl Followers {
    /// Opens a stream for each of these runs, and returns when all streams have started.
    pub(crate) async fn open(address: SocketAddr, key: &str, runs: Vec<String>) -> Result<Self> {
        let turns = Arc::new(Semaphore::new(OPENING));
        let mut opening = JoinSet::new();
        for run in runs {
            let (turns, request) = (
                Arc::clone(&turns),
                format!(
                    "GET /v1/runs/{run}/events HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\r\n"
                ),
            );
            opening.spawn(async move {
                let _turn = turns.acquire().await?;
                let mut socket = tokio::net::TcpStream::connect(address)
                    .await
                    .context("cannot connect")?;
                socket.write_all(request.as_bytes()).await?;
                let mut read = Vec::new();
                while !contains(&read, b"\"status\":\"running\"") {
                    let count = socket.read_buf(&mut read).await?;
                    ensure!(count > 0, "a stream ended: {}", String::from_utf8_lossy(&read));
                }
                ensure!(
                    !contains(&read, b"event: done"),
                    "a run ended before all had its stream"
                );
                Ok(socket)
            });
        }
        let mut open = Vec::new();
        while let Some(socket) = opening.join_next().await {
            open.push(socket??.into_std()?);
        }
        Ok(Self(open))
    }

    /// Returns the time from a run's `finished_at` until each follower reads `done`. Both clocks belong to this machine. The
    /// reported lag can be up to 1 ms too long because `finished_at` is truncated to milliseconds, and up to [`LOOK`] because of
    /// the polling interval.
    pub(crate) async fn lags(self) -> Result<Samples> {
        // Sockets are closed after all have finished, so that closing does not add to the lag.
        let ends = tokio::task::spawn_blocking(move || ends(self.0)).await??;
        // The data is parsed after all reading.
        let mut samples = Samples::default();
        for follower in ends {
            let text = std::str::from_utf8(&follower.read)?;
            let done = text
                .rsplit_once("event: done\ndata: ")
                .and_then(|(_, data)| data.lines().next())
                .context("no data of done")?;
            let run: Run = serde_json::from_str(done)?;
            let finished = run.finished_at.context("done without finished_at")?.as_micros();
            let ended = follower.ended.context("no end")?;
            samples.add(ended.saturating_sub(Duration::from_micros(u64::try_from(finished)?)));
        }
        Ok(samples)
    }
}

/// Follower that reads its stream to the end.
struct Follower {
    socket: TcpStream,
    read: Vec<u8>,
    /// Time since 1970 when the stream ended with `done`.
    ended: Option<Duration>,
}

/// Reads all sockets to their ends on one polling thread. Real followers wake up on other machines. If each follower woke up
/// here, they would take CPU time from the node at the moment that we measure.
fn ends(sockets: Vec<TcpStream>) -> Result<Vec<Follower>> {
    let ready = epoll::create(CreateFlags::CLOEXEC)?;
    let mut followers = Vec::with_capacity(sockets.len());
    for (index, socket) in (0_u64..).zip(sockets) {
        epoll::add(&ready, &socket, EventData::new_u64(index), EventFlags::IN)?;
        followers.push(Follower {
            socket,
            read: Vec::with_capacity(4_096),
            ended: None,
        });
    }
    let at_once = Timespec::default();
    let mut events = Vec::with_capacity(512);
    let mut left = followers.len();
    while left > 0 {
        epoll::wait(&ready, spare_capacity(&mut events), Some(&at_once))?;
        if events.is_empty() {
            thread::sleep(LOOK);
        }
        for event in events.drain(..) {
            let index = usize::try_from(event.data.u64())?;
            let follower = followers.get_mut(index).context("no such follower")?;
            left -= usize::from(follower.ended.is_none() && follower.read_on()?);
        }
    }
    Ok(followers)
}

impl Follower {
    /// Reads the available data. Returns whether the stream has ended.
    fn read_on(&mut self) -> Result<bool> {
        let mut piece = [0; 4_096];
        let count = self.socket.read(&mut piece)?;
        ensure!(count > 0, "the connection ended before the stream");
        self.read
            .extend_from_slice(piece.get(..count).unwrap_or_default());
        if self.read.ends_with(b"\r\n0\r\n\r\n") {
            #[expect(
                clippy::disallowed_methods,
                reason = "the lag is between two readings of the machine's clock"
            )]
            let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
            self.ended = Some(now);
        }
        Ok(self.ended.is_some())
    }
}
