//! Physical limits to compare the main figures with: durable commits, processes and messages of event streams, as fast as this
//! program can do them without the engine.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use axum::{Router, body::Body, response::Response, routing::get};
use bytes::Bytes;
use futures_util::{StreamExt, future::join_all, stream};
use http::header;
use sortie_testkit::{Records, serve::Serving};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::broadcast,
    task::JoinSet,
};
use tokio_postgres::NoTls;

use crate::{
    Bench,
    process::run,
    report::{Limit, Report},
};

/// Duration of each measurement.
const TRIED: Duration = Duration::from_secs(2);

/// Rows per commit on `SQLite`: four for each of the 64 commands in a full group.
const GROUP: i64 = 256;

/// Rows per transaction on `PostgreSQL`, and connections: those of one create on more connections than a node has, and those of
/// the maximum of 16 commands per transaction on the connections of a node.
const TRANSACTIONS: [(i64, i64); 2] = [(4, 8), (64, 4)];

/// Number of readers of the bare server's streams.
const READERS: usize = 1_000;

/// Data of a row, as long as that of a run's event.
const DATA: &str = r#"{"status":"running","attempt":1,"note":"as long as the data of an event is on the average, which is about a hundred bytes"}"#;

/// Measures the limits of the machine.
pub(crate) async fn of_the_machine(report: &mut Report) -> Result<()> {
    if report.wants("spawn") || report.wants("limit") {
        let rate = processes()?;
        report.add("processes of /bin/true, two at once", format!("{rate:.0}/s"));
        report.limit(Limit::Processes, rate);
    }
    if report.wants("fan-out") || report.wants("limit") {
        let rate = fan_out().await?;
        report.add(
            "messages of a bare event stream to 1,000 readers",
            format!("{rate:.0}/s"),
        );
        report.limit(Limit::Messages, rate);
    }
    Ok(())
}

/// Measures the limit of the current database.
pub(crate) async fn of_the_database(bench: &Bench, report: &mut Report) -> Result<()> {
    if !report.wants("limit") {
        return Ok(());
    }
    let mut most: f64 = 0.0;
    let mut add = |size: i64, rows: f64, how: &str| -> Result<()> {
        let commits = rows / f64::from(i32::try_from(size)?);
        report.add(
            format!(
                "{} alone: durable rows, commits of {size}{how}",
                bench.database.as_str()
            ),
            format!("{rows:.0}/s in {commits:.0} commits/s"),
        );
        most = most.max(rows);
        Ok(())
    };
    match bench.database.fresh().await? {
        Records::InDataFolder { .. } => add(GROUP, sqlite()?, "")?,
        Records::Shared(database) => {
            for (size, connections) in TRANSACTIONS {
                let rows = postgres(database.url(), size, connections).await?;
                add(size, rows, &format!(" on {connections} connections"))?;
            }
        }
    }
    report.limit(Limit::Rows, most);
    Ok(())
}

/// Returns the rate since `begun`.
fn rate(count: u64, begun: Instant) -> Result<f64> {
    Ok(f64::from(u32::try_from(count)?) / begun.elapsed().as_secs_f64())
}

fn processes() -> Result<f64> {
    let begun = Instant::now();
    let threads: Vec<_> = (0..2)
        .map(|_| {
            thread::spawn(move || {
                let mut count = 0;
                while begun.elapsed() < TRIED {
                    run("/bin/true", &[])?;
                    count += 1;
                }
                anyhow::Ok(count)
            })
        })
        .collect();
    let mut total = 0;
    for thread in threads {
        total += thread
            .join()
            .map_err(|_| anyhow::anyhow!("a thread panicked"))??;
    }
    rate(total, begun)
}

/// Measures rows per second into one file with the engine's settings, by one writer in commits of [`GROUP`].
fn sqlite() -> Result<f64> {
    let folder = tempfile::tempdir()?;
    let mut file = rusqlite::Connection::open(folder.path().join("limit.db"))?;
    file.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 4000; \
         PRAGMA cache_size = -16384; PRAGMA temp_store = MEMORY; \
         CREATE TABLE row (run_id TEXT NOT NULL, seq INTEGER NOT NULL, data TEXT NOT NULL, \
         PRIMARY KEY (run_id, seq)) WITHOUT ROWID",
    )?;
    let (begun, mut commits) = (Instant::now(), 0_u64);
    while begun.elapsed() < TRIED {
        let group = file.transaction()?;
        {
            let mut insert = group.prepare_cached("INSERT INTO row VALUES (?1, ?2, ?3)")?;
            for seq in 0..GROUP {
                insert.execute((format!("run_{commits:026}"), seq, DATA))?;
            }
        }
        group.commit()?;
        commits += 1;
    }
    rate(commits * GROUP.unsigned_abs(), begun)
}

/// Measures rows per second with this number of connections and rows per transaction. Transactions take two round trips, as in
/// the engine.
async fn postgres(url: &str, size: i64, connections: i64) -> Result<f64> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    client
        .batch_execute(
            "DROP TABLE IF EXISTS row; CREATE TABLE row (run_id text NOT NULL, seq bigint NOT NULL, \
             data text NOT NULL, PRIMARY KEY (run_id, seq))",
        )
        .await?;
    let begun = Instant::now();
    let mut writers = JoinSet::new();
    for writer in 0..connections {
        writers.spawn(write_rows(url.to_owned(), writer, size, begun));
    }
    let mut commits = 0;
    while let Some(written) = writers.join_next().await {
        commits += written??;
    }
    rate(commits * size.unsigned_abs(), begun)
}

async fn write_rows(url: String, writer: i64, size: i64, begun: Instant) -> Result<u64> {
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    let insert = client.prepare("INSERT INTO row VALUES ($1, $2, $3)").await?;
    let mut commits = 0;
    while begun.elapsed() < TRIED {
        let run = format!("run_{writer}_{commits:026}");
        let inserts = join_all((0..size).map(|seq| {
            let (client, insert, run) = (&client, &insert, &run);
            async move { client.execute(insert, &[run, &seq, &DATA]).await }
        }));
        // Both are sent in this order without waiting in between.
        let (opened, inserted) = tokio::join!(biased; client.batch_execute("BEGIN"), inserts);
        opened?;
        for inserted in inserted {
            inserted?;
        }
        client.batch_execute("COMMIT").await?;
        commits += 1;
    }
    Ok(commits)
}

/// Measures a bare server with event streams and readers on bare sockets: messages per second that all readers have received.
async fn fan_out() -> Result<f64> {
    let (sender, _) = broadcast::channel::<Bytes>(64);
    let source = sender.clone();
    let streaming = move || {
        let receiver = source.subscribe();
        async move {
            let messages = stream::unfold(receiver, |mut receiver| async {
                let message = receiver.recv().await.ok()?;
                Some((Ok::<_, Infallible>(message), receiver))
            });
            let opening = stream::iter([Ok(Bytes::from_static(b": connected\n"))]);
            let mut response = Response::new(Body::from_stream(opening.chain(messages)));
            let kind = header::HeaderValue::from_static("text/event-stream");
            response.headers_mut().insert(header::CONTENT_TYPE, kind);
            response
        }
    };
    let server = Serving::start(Router::new().route("/", get(streaming))).await?;
    let address = server.base_url().trim_start_matches("http://").to_owned();
    let read = Arc::new(AtomicU64::new(0));
    let mut readers = JoinSet::new();
    for _ in 0..READERS {
        let mut socket = TcpStream::connect(&address).await?;
        socket
            .write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await?;
        let mut opening = [0; 512];
        let opened = socket.read(&mut opening).await?;
        anyhow::ensure!(opened > 0, "the bare server closed a stream");
        let read = Arc::clone(&read);
        readers.spawn(async move {
            let mut buffer = [0; 4096];
            while let Ok(count) = socket.read(&mut buffer).await
                && count > 0
            {
                let bytes = buffer.get(..count).unwrap_or_default();
                let messages = bytes
                    .split(|byte| *byte == b'\n')
                    .filter(|line| line.starts_with(b"data:"));
                read.fetch_add(messages.count() as u64, Ordering::Relaxed);
            }
        });
    }
    while sender.receiver_count() < READERS {
        tokio::task::yield_now().await;
    }
    let message = Bytes::from(format!("id: 1\nevent: status\ndata: {DATA}\n\n"));
    let begun = Instant::now();
    let mut sent = 0_u64;
    while begun.elapsed() < TRIED {
        sender.send(message.clone()).context("no reader is left")?;
        sent += READERS as u64;
        // We wait until every reader has received a message before we send the next, to measure the fan-out of one event.
        while read.load(Ordering::Relaxed) < sent {
            tokio::task::yield_now().await;
        }
    }
    rate(sent, begun)
}
