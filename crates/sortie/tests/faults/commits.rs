//! Commits are slow, as with a distant synchronous standby, and many commands wait for theirs.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::task::JoinSet;

use crate::prelude::*;

/// Number of commands that wait for one node at any time.
const WAITING: usize = 1_000;
/// Least remaining time of every lease.
const LEAST_LEASE: Duration = Duration::from_secs(5);

/// Remaining leases of the running nodes, in micros, by the clock of the database.
const LEASES: &str = "SELECT name, lease_until - CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT) AS rest \
     FROM node WHERE ended_at IS NULL";
const ENDED: &str = "SELECT name FROM node WHERE ended_at IS NOT NULL";
const TAKEN_OVER: &str = "SELECT id FROM run WHERE attempt > 1";

#[tokio::test]
async fn slow_commits_for_twenty_seconds() -> Checked {
    slow_commits("slow_commits_for_twenty_seconds", Duration::from_secs(20)).await
}

#[tokio::test]
async fn slow_commits_for_a_minute() -> Checked {
    slow_commits("slow_commits_for_a_minute", Duration::from_mins(1)).await
}

/// A commit takes 100 ms, and a thousand commands wait for one node: no node is declared lost, and no lease gets short.
async fn slow_commits(name: &str, lasts: Duration) -> Checked {
    let setup = Setup {
        own_server: true,
        // The delay is part of the sync.
        server_settings: &["fsync=on"],
        ..Setup::default()
    };
    let (mut world, mut load) = begin(Database::Postgres, name, setup).await?;
    load.follow();
    set_delay(&world, Some(100)).await?;
    let nth = world.some_node();
    let crowd = Crowd::begin(&world.nodes[nth].client()?);
    let least = least_lease(&world, lasts).await?;
    let (waiting, done) = (crowd.waiting(), crowd.done());
    set_delay(&world, None).await?;
    crowd.end().await;
    println!(
        "{waiting} commands waited, {done} were done; least lease {:.1} s",
        least.as_secs_f64()
    );
    ensure!(done > 0, "no command was done");
    ensure!(waiting >= WAITING / 2, "hardly any command waited: {waiting}");
    ensure!(least >= LEAST_LEASE, "a lease had {least:?} left");
    for (sql, meaning) in [(ENDED, "declared lost"), (TAKEN_OVER, "taken over")] {
        let rows = world.nodes[0].rows(sql).await?;
        ensure!(rows.is_empty(), "{meaning}: {rows:?}");
    }
    end(world, load, Excuse::default()).await
}

/// Makes every commit take this many milliseconds, or removes the delay.
async fn set_delay(world: &World, delay: Option<u32>) -> Checked {
    let server = world.server.as_ref().context("no server of its own")?;
    let delay = delay.map_or(0, |delay| delay * 1_000);
    server
        .execute(&[
            "ALTER SYSTEM SET commit_siblings = 0",
            &format!("ALTER SYSTEM SET commit_delay = {delay}"),
            "SELECT pg_reload_conf()",
        ])
        .await
}

/// Reads the leases ten times a second. Returns the shortest remaining time of any lease.
async fn least_lease(world: &World, lasts: Duration) -> Result<Duration> {
    let begun = Instant::now();
    let mut least = BTreeMap::new();
    while begun.elapsed() < lasts {
        for row in world.nodes[0].rows(LEASES).await? {
            let rest = row["rest"].as_i64().context("no lease")?;
            let known: &mut i64 = least.entry(row["name"].to_string()).or_insert(rest);
            *known = rest.min(*known);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    ensure!(
        least.len() == world.nodes.len(),
        "not all nodes were at work: {least:?}"
    );
    let least = least.into_values().min().unwrap_or_default();
    Ok(Duration::from_micros(u64::try_from(least).unwrap_or_default()))
}

/// Clients of one node, each with one command at a time.
struct Crowd {
    clients: JoinSet<()>,
    stop: Arc<AtomicBool>,
    waiting: Arc<AtomicUsize>,
    done: Arc<AtomicUsize>,
}

impl Crowd {
    fn begin(client: &Client) -> Self {
        let mut crowd = Self {
            clients: JoinSet::new(),
            stop: Arc::default(),
            waiting: Arc::default(),
            done: Arc::default(),
        };
        for nth in 0..WAITING {
            let (client, stop) = (client.clone(), Arc::clone(&crowd.stop));
            let (waiting, done) = (Arc::clone(&crowd.waiting), Arc::clone(&crowd.done));
            crowd.clients.spawn(async move {
                let path = format!("/v1/workflows/w{nth}");
                for count in 0.. {
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                    waiting.fetch_add(1, Ordering::SeqCst);
                    // Only a change is written.
                    let workflow = json!({"prompt": format!("never run {count}")});
                    let answer = client.send(Method::PUT, &path, workflow.to_string().into()).await;
                    waiting.fetch_sub(1, Ordering::SeqCst);
                    if answer.is_ok_and(|answer| matches!(answer.status, 200 | 201)) {
                        done.fetch_add(1, Ordering::SeqCst);
                    } else {
                        // A refused command is retried after a while.
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                }
            });
        }
        crowd
    }

    fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    fn done(&self) -> usize {
        self.done.load(Ordering::SeqCst)
    }

    async fn end(mut self) {
        self.stop.store(true, Ordering::SeqCst);
        while self.clients.join_next().await.is_some() {}
    }
}
