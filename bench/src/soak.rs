//! Mixed work for a long time at about half of the capacity, on one node or on several. Samples memory and open files of each
//! node, times, queued and finished runs every second, and writes them as CSV and as charts.

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
use sortie_testkit::{Database, Node};
use tokio::time::MissedTickBehavior;

use crate::{
    Bench,
    chart::{Line, draw},
    connection::Connection,
    mixed::{Mix, Paced, lock},
    process::{cpu, open_files, resident},
    samples::Samples,
};

/// Duration of the initial measurement of the capacity, in seconds.
const TRIED: u64 = 10;

/// Options of the soak.
#[derive(Debug, clap::Args)]
pub(crate) struct Soak {
    /// Duration in minutes.
    #[arg(long, default_value_t = 30.0)]
    pub(crate) minutes: f64,
    /// Number of nodes on one PostgreSQL; on SQLite there is one.
    #[arg(long, default_value_t = 1)]
    pub(crate) nodes: usize,
    /// Runs per second on all nodes together. Default: half of the measured capacity.
    #[arg(long)]
    pub(crate) rate: Option<f64>,
    /// Folder for the CSV files and the charts.
    #[arg(long, default_value = "bench/soak")]
    pub(crate) directory: PathBuf,
}

/// Figures of a node in one second.
struct Seen {
    /// Resident memory, in bytes.
    resident: u64,
    open_files: usize,
    /// CPU time since the last sample.
    cpu: Duration,
}

/// Figures of a second, or of several if the sample was late.
struct Second {
    /// Seconds since the start.
    at: f64,
    /// Figures of each node.
    nodes: Vec<Seen>,
    begun: usize,
    done: usize,
    /// Number of queued runs. A node reports it from the database, so it is the same on all.
    queued: usize,
    total: Samples,
    dispatch: Samples,
}

/// Applies the load to the nodes and writes the results.
pub(crate) async fn soak(bench: &Bench, soak: &Soak) -> Result<()> {
    let count = match bench.database {
        Database::Sqlite => 1,
        Database::Postgres => soak.nodes,
    };
    let nodes = bench.cluster(count).await?;
    let nodes: Vec<&Node> = nodes.iter().collect();
    let mix = Mix::start().await?;
    let rate = match soak.rate {
        Some(rate) => rate,
        None => mix.capacity(&nodes, TRIED).await? / 2.0,
    };
    let mut name = bench.database.as_str().to_owned();
    if nodes.len() > 1 {
        write!(name, ", {} nodes", nodes.len())?;
    }
    eprintln!("== {name}: {rate:.0} runs a second for {} minutes", soak.minutes);
    let paced = Paced::on(&nodes);
    let lasts = Duration::from_secs_f64(soak.minutes * 60.0);
    let mut seconds = Vec::new();
    tokio::select! {
        done = paced.run(&mix, rate, lasts) => done?,
        failed = sample(&nodes, &paced, &mut seconds) => failed?,
    }
    ensure!(!seconds.is_empty(), "a soak takes longer than a second");
    fs::create_dir_all(&soak.directory)
        .with_context(|| format!("cannot make {}", soak.directory.display()))?;
    let stem = name.to_lowercase().replace(", ", "-").replace(' ', "-");
    fs::write(soak.directory.join(format!("{stem}.csv")), table(&seconds)?)?;
    pictures(
        &soak.directory,
        &stem,
        &format!("{name}, {rate:.0} runs/s"),
        &seconds,
    )?;
    say(&name, &seconds)
}

/// Samples once per second until it is dropped.
async fn sample(nodes: &[&Node], paced: &Paced<'_>, seconds: &mut Vec<Second>) -> Result<()> {
    let begun = Instant::now();
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    // A late sample covers the missed seconds and carries its actual time.
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    tick.tick().await;
    let mut used = nodes.iter().map(|node| cpu(node)).collect::<Result<Vec<_>>>()?;
    let mut connection = Connection::to(nodes.first().context("no node")?)?;
    loop {
        tick.tick().await;
        let at = begun.elapsed().as_secs_f64();
        let (moments, begun_runs, done) = {
            let mut state = lock(&paced.state);
            (std::mem::take(&mut state.moments), state.begun, state.done)
        };
        let (mut total, mut dispatch) = (Samples::default(), Samples::default());
        for moment in &moments {
            total.add(moment.done);
            dispatch.add(moment.starting.saturating_sub(moment.acknowledged));
        }
        let mut seen = Vec::with_capacity(nodes.len());
        for (node, used) in nodes.iter().zip(&mut used) {
            let now = cpu(node)?;
            seen.push(Seen {
                resident: resident(node)?,
                open_files: open_files(node)?,
                cpu: now.saturating_sub(*used),
            });
            *used = now;
        }
        seconds.push(Second {
            at,
            nodes: seen,
            begun: begun_runs,
            done,
            queued: queue_depth(&mut connection).await?,
            total,
            dispatch,
        });
    }
}

/// Reads the queue's depth from the node's metrics.
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

/// Returns the number of sampled nodes.
fn nodes(seconds: &[Second]) -> usize {
    seconds.first().map_or(0, |second| second.nodes.len())
}

/// Returns the CSV table. With several nodes, column names end with the number of the node.
fn table(seconds: &[Second]) -> Result<String> {
    let mut csv = String::from("second");
    let count = nodes(seconds);
    for node in 1..=count {
        let of = if count > 1 {
            format!("_{node}")
        } else {
            String::new()
        };
        write!(csv, ",resident_bytes{of},open_files{of},cpu_seconds{of}")?;
    }
    csv.push_str(
        ",runs_begun,runs_done,runs_under_way,queue_depth,\
         post_to_done_p50_ms,post_to_done_p99_ms,dispatch_p50_ms,dispatch_p99_ms\n",
    );
    for second in seconds {
        write!(csv, "{:.1}", second.at)?;
        for node in &second.nodes {
            let used = node.cpu.as_secs_f64();
            write!(csv, ",{},{},{used:.2}", node.resident, node.open_files)?;
        }
        writeln!(
            csv,
            ",{},{},{},{},{:.3},{:.3},{:.3},{:.3}",
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

/// A line for each node.
fn of_each(seconds: &[Second], value: impl Fn(&Seen) -> Result<f64>) -> Result<Vec<Line>> {
    let line = |node: usize| {
        let seen = seconds
            .iter()
            .filter_map(|second| Some((second.at, second.nodes.get(node)?)));
        Ok(Line {
            name: format!("node {}", node + 1),
            points: seen
                .map(|(at, seen)| Ok((at, value(seen)?)))
                .collect::<Result<_>>()?,
        })
    };
    (0..nodes(seconds)).map(line).collect()
}

fn pictures(directory: &Path, stem: &str, what: &str, seconds: &[Second]) -> Result<()> {
    let line = |name: &str, value: &dyn Fn(&Second) -> Result<f64>| -> Result<Line> {
        Ok(Line {
            name: name.to_owned(),
            points: seconds
                .iter()
                .map(|second| Ok((second.at, value(second)?)))
                .collect::<Result<_>>()?,
        })
    };
    let memory = of_each(seconds, |seen| {
        Ok(f64::from(u32::try_from(seen.resident / 1024)?) / 1024.0)
    })?;
    let files = of_each(seconds, |seen| number(seen.open_files))?;
    let under_way = line("begun and not done", &|second| number(second.begun - second.done))?;
    let queued = line("waiting for a worker", &|second| number(second.queued))?;
    let total = |percent| move |second: &Second| Ok(millis(second.total.percentile(percent)));
    let dispatch = |percent| move |second: &Second| Ok(millis(second.dispatch.percentile(percent)));
    let done = Line {
        name: "done a second".to_owned(),
        points: std::iter::once((0.0, 0))
            .chain(seconds.iter().map(|second| (second.at, second.done)))
            .zip(seconds)
            .map(|((at, done), second)| Ok((second.at, number(second.done - done)? / (second.at - at))))
            .collect::<Result<_>>()?,
    };
    for (name, title, unit, lines) in [
        ("memory", "Resident memory of a node", "MiB", memory),
        ("open-files", "Open files of a node", "files and sockets", files),
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

/// Prints the second and the last tenth, each with the maximum of all nodes: a stable figure is the same in both.
#[expect(clippy::print_stdout, reason = "what came of it is this program's output")]
fn say(name: &str, seconds: &[Second]) -> Result<()> {
    let tenth = seconds.len().div_ceil(10);
    let early = seconds.iter().skip(tenth).take(tenth);
    let late = seconds.iter().skip(seconds.len() - tenth);
    let most = |part: &mut dyn Iterator<Item = &Second>| {
        part.flat_map(|second| &second.nodes)
            .fold((0, 0), |(memory, files), node| {
                (memory.max(node.resident), files.max(node.open_files))
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
        "| {name} | {:.0} s, {} runs | {} then {} | {early_files} then {late_files} | {total} | {dispatch} |",
        seconds.last().map_or(0.0, |second| second.at),
        seconds.last().map_or(0, |second| second.done),
        crate::memory::mebibytes(early_memory)?,
        crate::memory::mebibytes(late_memory)?,
    );
    Ok(())
}
