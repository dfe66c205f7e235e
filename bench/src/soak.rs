//! Mixed work for a long time at about half of what the machine can do: memory, open files, times, what waits and what
//! is done, each second, as CSV and as pictures.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use sortie_testkit::Node;

use crate::{
    Bench,
    chart::{Line, draw},
    connection::Connection,
    mixed::{Mix, Paced, lock},
    process::{cpu, open_files, resident},
    samples::Samples,
};

/// For so long it is tried first what the machine can do, in seconds.
const TRIED: u64 = 10;

/// What is asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct Soak {
    /// How long.
    #[arg(long, default_value_t = 30.0)]
    pub(crate) minutes: f64,
    /// Runs a second; half of what was found out otherwise.
    #[arg(long)]
    pub(crate) rate: Option<f64>,
    /// Where the CSV files and the pictures go.
    #[arg(long, default_value = "bench/soak")]
    pub(crate) directory: PathBuf,
}

/// What one second showed.
struct Second {
    resident: u64,
    open_files: usize,
    cpu: Duration,
    begun: usize,
    done: usize,
    /// Runs that wait for a worker, as the node says.
    queued: usize,
    total: Samples,
    dispatch: Samples,
}

/// Loads one node and writes what it was like.
pub(crate) async fn soak(bench: &Bench, soak: &Soak) -> Result<()> {
    let node = bench.node().await?;
    let mix = Mix::start().await?;
    let rate = match soak.rate {
        Some(rate) => rate,
        None => mix.capacity(&[&node], TRIED).await? / 2.0,
    };
    let name = bench.database.as_str();
    eprintln!("== {name}: {rate:.0} runs a second for {} minutes", soak.minutes);
    let paced = Paced::new();
    let lasts = Duration::from_secs_f64(soak.minutes * 60.0);
    let mut seconds = Vec::new();
    tokio::select! {
        done = paced.run(&node, &mix, rate, lasts) => done?,
        failed = sample(&node, &paced, &mut seconds) => failed?,
    }
    ensure!(!seconds.is_empty(), "a soak takes longer than a second");
    fs::create_dir_all(&soak.directory)
        .with_context(|| format!("cannot make {}", soak.directory.display()))?;
    let stem = name.to_lowercase();
    fs::write(soak.directory.join(format!("{stem}.csv")), table(&seconds)?)?;
    pictures(
        &soak.directory,
        &stem,
        &format!("{name}, {rate:.0} runs/s"),
        &seconds,
    )?;
    say(name, &seconds)
}

/// Looks once a second until it is dropped.
async fn sample(node: &Node, paced: &Paced, seconds: &mut Vec<Second>) -> Result<()> {
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    tick.tick().await;
    let mut used = cpu(node)?;
    let mut connection = Connection::to(node)?;
    loop {
        tick.tick().await;
        let begun = Instant::now();
        let (moments, begun_runs, done) = {
            let mut state = lock(&paced.state);
            (std::mem::take(&mut state.moments), state.begun, state.done)
        };
        let (mut total, mut dispatch) = (Samples::default(), Samples::default());
        for moment in &moments {
            total.add(moment.done);
            dispatch.add(moment.starting.saturating_sub(moment.acknowledged));
        }
        let now = cpu(node)?;
        let queued = queue_depth(&mut connection).await?;
        seconds.push(Second {
            resident: resident(node)?,
            open_files: open_files(node)?,
            cpu: now.saturating_sub(used),
            begun: begun_runs,
            done,
            queued,
            total,
            dispatch,
        });
        used = now;
        ensure!(
            begun.elapsed() < Duration::from_secs(1),
            "a look takes longer than a second"
        );
    }
}

/// What the node says in its metrics.
async fn queue_depth(connection: &mut Connection) -> Result<usize> {
    let answer = connection.send(Method::GET, "/metrics", Bytes::new()).await?;
    let body = answer.into_body().collect().await?.to_bytes();
    std::str::from_utf8(&body)?
        .lines()
        .find_map(|line| line.strip_prefix("sortie_queue_depth "))
        .context("no sortie_queue_depth in the metrics")?
        .parse()
        .context("sortie_queue_depth")
}

fn number(count: usize) -> Result<f64> {
    Ok(f64::from(u32::try_from(count)?))
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

fn table(seconds: &[Second]) -> Result<String> {
    let mut csv = String::from(
        "second,resident_bytes,open_files,cpu_seconds,runs_begun,runs_done,runs_under_way,queue_depth,\
         post_to_done_p50_ms,post_to_done_p99_ms,dispatch_p50_ms,dispatch_p99_ms\n",
    );
    for (at, second) in seconds.iter().enumerate() {
        writeln!(
            csv,
            "{},{},{},{:.2},{},{},{},{},{:.3},{:.3},{:.3},{:.3}",
            at + 1,
            second.resident,
            second.open_files,
            second.cpu.as_secs_f64(),
            second.begun,
            second.done,
            second.begun - second.done,
            second.queued,
            millis(second.total.percentile(50)),
            millis(second.total.percentile(99)),
            millis(second.dispatch.percentile(50)),
            millis(second.dispatch.percentile(99)),
        )?;
    }
    Ok(csv)
}

fn pictures(directory: &Path, stem: &str, what: &str, seconds: &[Second]) -> Result<()> {
    let line = |name, value: &dyn Fn(&Second) -> Result<f64>| -> Result<Line<'_>> {
        Ok(Line {
            name,
            values: seconds.iter().map(value).collect::<Result<_>>()?,
        })
    };
    let memory = line("resident", &|second| {
        Ok(f64::from(u32::try_from(second.resident / 1024)?) / 1024.0)
    })?;
    let files = line("open files", &|second| number(second.open_files))?;
    let under_way = line("begun and not done", &|second| number(second.begun - second.done))?;
    let queued = line("waiting for a worker", &|second| number(second.queued))?;
    let total = |percent| move |second: &Second| Ok(millis(second.total.percentile(percent)));
    let dispatch = |percent| move |second: &Second| Ok(millis(second.dispatch.percentile(percent)));
    let done = Line {
        name: "done a second",
        values: std::iter::once(0)
            .chain(seconds.iter().map(|second| second.done))
            .zip(seconds)
            .map(|(before, second)| number(second.done - before))
            .collect::<Result<_>>()?,
    };
    for (name, title, unit, lines) in [
        ("memory", "Resident memory of the node", "MiB", vec![memory]),
        (
            "open-files",
            "Open files of the node",
            "files and sockets",
            vec![files],
        ),
        ("queue", "Runs that wait or work", "runs", vec![under_way, queued]),
        ("throughput", "Runs done", "runs each second", vec![done]),
        (
            "latency",
            "POST to done",
            "ms",
            vec![line("p50", &total(50))?, line("p99", &total(99))?],
        ),
        (
            "dispatch",
            "202 read to starting read",
            "ms",
            vec![line("p50", &dispatch(50))?, line("p99", &dispatch(99))?],
        ),
    ] {
        let svg = draw(&format!("{title} ({what})"), unit, &lines)?;
        fs::write(directory.join(format!("{stem}-{name}.svg")), svg)?;
    }
    Ok(())
}

/// The first and the last tenth beside each other: what is flat is the same in both.
#[expect(clippy::print_stdout, reason = "what came of it is this program's output")]
fn say(name: &str, seconds: &[Second]) -> Result<()> {
    let tenth = seconds.len().div_ceil(10);
    let early = seconds.iter().skip(tenth).take(tenth);
    let late = seconds.iter().skip(seconds.len() - tenth);
    let most = |part: &mut dyn Iterator<Item = &Second>| {
        part.fold((0, 0), |(memory, files), second| {
            (memory.max(second.resident), files.max(second.open_files))
        })
    };
    let ((early_memory, early_files), (late_memory, late_files)) =
        (most(&mut early.into_iter()), most(&mut late.into_iter()));
    let (mut total, mut dispatch) = (Samples::default(), Samples::default());
    for second in seconds {
        total.extend(second.total.clone());
        dispatch.extend(second.dispatch.clone());
    }
    println!(
        "| {name} | {} s, {} runs | {} then {} | {early_files} then {late_files} | {total} | {dispatch} |",
        seconds.len(),
        seconds.last().map_or(0, |second| second.done),
        crate::memory::mebibytes(early_memory)?,
        crate::memory::mebibytes(late_memory)?,
    );
    Ok(())
}
