//! Limits of the machine, measured with the same tools, to put all other figures into context.

use std::{
    fs::{self, File},
    io::Write as _,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use axum::{Router, routing::get};
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use sortie_testkit::{Database, Records, serve::Serving};
use tokio::task::JoinSet;
use tokio_postgres::NoTls;

use crate::{
    connection::Connection,
    limits,
    process::run,
    report::{Limit, Report},
    samples::Samples,
};

/// Duration of each measurement.
const TRIED: Duration = Duration::from_secs(2);

/// Measures and describes the machine.
pub(crate) async fn measure(report: &mut Report) -> Result<()> {
    let cores = thread::available_parallelism()?;
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .unwrap_or_default();
    report.add(
        "processor",
        format!("{cores} cores, {}", model.trim_start_matches([' ', '\t', ':'])),
    );
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    report.add("kernel", release.trim());
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    report.add("memory", memory.unwrap_or_default().trim());
    report.add("file system of the data folders", file_system()?);
    if report.wants("hello") || report.wants("limit") {
        let rate = hello().await?;
        report.add("axum hello, 64 connections", format!("{rate:.0} requests/s"));
        report.limit(Limit::Requests, rate);
    }
    if report.wants("fdatasync") || report.wants("limit") {
        let flushes = fdatasync()?;
        report.add("fdatasync of 4 KiB, p50 / p99", flushes.to_string());
        report.limit(Limit::Flush, flushes.percentile(50).as_secs_f64());
    }
    if report.wants("spawn") {
        report.add(
            "spawn and wait of /bin/true, p50 / p99",
            spawns("/bin/true", &[])?.to_string(),
        );
        report.add(
            "spawn and wait of `sh -c true`, p50 / p99",
            spawns("/bin/sh", &["-c", "true"])?.to_string(),
        );
    }
    limits::of_the_machine(report).await
}

/// Returns the file system of temporary folders, which contain the data of nodes and of PostgreSQL, with its options.
fn file_system() -> Result<String> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path().canonicalize()?;
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let holding = mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            Some((fields.next()?, fields.next()?, fields.next()?))
        })
        .filter(|(at, _, _)| folder.starts_with(at))
        // Of several mounts at one path the last one is visible.
        .max_by_key(|(at, _, _)| at.len());
    let (_, kind, options) = holding.context("no mount holds the temporary folders")?;
    Ok(format!("{kind} ({options})"))
}

/// Reports the version of the database, and its flush settings.
pub(crate) async fn database(database: Database, report: &mut Report) -> Result<()> {
    let what = match database.fresh().await? {
        // The engine uses the same library with these settings.
        Records::InDataFolder { .. } => format!("{}, WAL, synchronous=FULL", rusqlite::version()),
        Records::Shared(database) => {
            let (client, connection) = tokio_postgres::connect(database.url(), NoTls).await?;
            let mut driver = JoinSet::new();
            driver.spawn(connection);
            let settings = "SELECT string_agg(name || '=' || setting, ', ' ORDER BY name) FROM pg_settings \
                            WHERE name IN ('fsync', 'synchronous_commit', 'full_page_writes', 'wal_sync_method')";
            let version = client.query_one("SHOW server_version", &[]).await?;
            let settings = client.query_one(settings, &[]).await?;
            format!(
                "{}, {}",
                version.try_get::<_, &str>(0)?,
                settings.try_get::<_, &str>(0)?
            )
        }
    };
    report.add("version and durability of the database", what);
    Ok(())
}

async fn hello() -> Result<f64> {
    let server = Serving::start(Router::new().route("/", get(|| async { "hello" }))).await?;
    let address = server.base_url().trim_start_matches("http://").parse()?;
    let deadline = Instant::now() + TRIED;
    let mut clients = JoinSet::new();
    for _ in 0..64 {
        clients.spawn(async move {
            let mut connection = Connection::at(address, "");
            let mut count = 0_u32;
            while Instant::now() < deadline {
                connection
                    .send(Method::GET, "/", Bytes::new())
                    .await?
                    .into_body()
                    .collect()
                    .await?;
                count += 1;
            }
            Ok::<_, anyhow::Error>(count)
        });
    }
    let mut total = 0;
    while let Some(count) = clients.join_next().await {
        total += count??;
    }
    Ok(f64::from(total) / TRIED.as_secs_f64())
}

fn fdatasync() -> Result<Samples> {
    let folder = tempfile::tempdir()?;
    let mut file = File::create(folder.path().join("log"))?;
    let mut samples = Samples::default();
    let deadline = Instant::now() + TRIED;
    while Instant::now() < deadline {
        file.write_all(&[1; 4096])?;
        let begun = Instant::now();
        file.sync_data()?;
        samples.add(begun.elapsed());
    }
    Ok(samples)
}

/// Measures a program from start to end without a sandbox.
fn spawns(program: &str, arguments: &[&str]) -> Result<Samples> {
    let mut samples = Samples::default();
    for _ in 0..300 {
        let begun = Instant::now();
        run(program, arguments)?;
        samples.add(begun.elapsed());
    }
    Ok(samples)
}

/// Measures a shell that does nothing, without a sandbox.
pub(crate) fn bare_spawn() -> Result<Duration> {
    Ok(spawns("/bin/sh", &["-c", "true"])?.percentile(50))
}
