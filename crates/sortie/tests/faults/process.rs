//! Faults of the nodes' own processes: killed, stopped for longer than their lease, out of descriptors.

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use sortie_testkit::Signal;

use crate::{load::Load, prelude::*};

both_databases![
    nodes_are_killed,
    nodes_are_stopped_for_longer_than_their_lease,
    descriptors_run_out,
];

/// Number of times that a node is killed.
const KILLS: usize = 3;

const LOST: Excuse = Excuse {
    lost_workers: true,
    failures: &[],
    skipped_artifacts: false,
    moved_clock: false,
    cut_answer: None,
};

async fn nodes_are_killed(database: Database) -> Checked {
    let (mut world, mut load) = begin(database, "nodes_are_killed", Setup::default()).await?;
    for _ in 0..KILLS {
        let pause = world.moment(300..1_500);
        tokio::time::sleep(pause).await;
        load.follow();
        let nth = world.some_node();
        world.kill(nth)?;
        // Some nodes come back at once and resume their runs, others later.
        let pause = world.moment(0..800);
        tokio::time::sleep(pause).await;
        world.restart(nth).await?;
    }
    if database == Database::Postgres {
        taken_over(&mut world, &load).await?;
    }
    end(world, load, LOST).await
}

/// Checks the loss of a node that stays down: other nodes resume all of its runs, as the events of each run show, or
/// end them.
async fn taken_over(world: &mut World, load: &Load) -> Checked {
    let (nth, held) = stopped_at_work(world, load).await?;
    world.kill(nth)?;
    let killed = Instant::now();
    let mut left = held.clone();
    while !left.is_empty() {
        // Twice the limit for an idle machine. The load program measures the time there.
        ensure!(
            killed.elapsed() < Duration::from_secs(30),
            "neither resumed nor final: {left:?}"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
        let ids = quoted(&left);
        let ended = format!("SELECT id, last_event FROM run WHERE id IN ({ids}) AND outcome IS NOT NULL");
        let ended = positions(world, &ended).await?;
        let resumed = format!(
            "SELECT run_id AS id, MAX(seq) AS last_event FROM event WHERE run_id IN ({ids}) AND kind = 'resumed' \
             GROUP BY run_id"
        );
        let resumed = positions(world, &resumed).await?;
        // A run that was taken over before has such an event from then.
        left.retain(|id, last| !ended.contains_key(id) && resumed.get(id).is_none_or(|at| at <= last));
    }
    println!(
        "{} runs of a killed node were resumed or final after {:.1} s",
        held.len(),
        killed.elapsed().as_secs_f64()
    );
    world.restart(nth).await
}

/// Stops a node that holds runs which end without a cancel; draws one of several such nodes. Returns its number and its
/// runs.
async fn stopped_at_work(world: &mut World, load: &Load) -> Result<(usize, BTreeMap<String, i64>)> {
    let is_wanted = |held: &BTreeMap<String, i64>| held.keys().any(|run| load.ends(run));
    let look = async || {
        let nth = world.some_node();
        world.nodes[nth].signal(Signal::STOP)?;
        let held = holds(world, nth).await?;
        if !is_wanted(&held) {
            world.nodes[nth].signal(Signal::CONT)?;
        }
        Ok((nth, held))
    };
    until("a node that holds a run that ends", look, |(_, held)| {
        is_wanted(held)
    })
    .await
}

fn quoted(runs: &BTreeMap<String, i64>) -> String {
    let ids: Vec<String> = runs.keys().map(|id| format!("'{id}'")).collect();
    ids.join(", ")
}

/// The runs that a node holds, each with its last event.
async fn holds(world: &World, nth: usize) -> Result<BTreeMap<String, i64>> {
    let name = world.nodes[nth].name()?;
    positions(
        world,
        &format!(
            "SELECT run.id, run.last_event FROM queue JOIN node ON node.id = queue.node_id \
             JOIN run ON run.id = queue.run_id WHERE node.name = '{name}'"
        ),
    )
    .await
}

async fn positions(world: &World, sql: &str) -> Result<BTreeMap<String, i64>> {
    let rows = world.nodes[0].rows(sql).await?;
    let pair = |row: &Value| Some((row["id"].as_str()?.to_owned(), row["last_event"].as_i64()?));
    rows.iter()
        .map(|row| pair(row).context("not an id and a number"))
        .collect()
}

async fn nodes_are_stopped_for_longer_than_their_lease(database: Database) -> Checked {
    let (mut world, mut load) = begin(database, "nodes_are_stopped", Setup::default()).await?;
    load.follow();
    let (nth, held) = stopped_at_work(&mut world, &load).await?;
    world.close(nth);
    match database {
        Database::Sqlite => {
            let pause = world.moment(12_000..14_000);
            tokio::time::sleep(pause).await;
            world.nodes[nth].signal(Signal::CONT)?;
        }
        Database::Postgres => fenced(&world, nth, &held).await?,
    }
    world.reopen(nth)?;
    end(world, load, LOST).await
}

/// Others have taken over and ended all its runs; when the node wakes, it writes to none.
async fn fenced(world: &World, nth: usize, held: &BTreeMap<String, i64>) -> Checked {
    let name = world.nodes[nth].name()?;
    let left = format!(
        "SELECT queue.run_id FROM queue JOIN node ON node.id = queue.node_id WHERE node.name = '{name}'"
    );
    let look = async || world.nodes[0].rows(&left).await;
    until("the takeover", look, Vec::is_empty).await?;
    // Runs that wait to be cancelled continue; all others end.
    let done = format!(
        "SELECT id, last_event FROM run WHERE id IN ({}) AND outcome IS NOT NULL",
        quoted(held)
    );
    let waited = Instant::now();
    let look = async || positions(world, &done).await;
    let have_ended = |ended: &BTreeMap<String, i64>| {
        ended.len() == held.len() || (!ended.is_empty() && waited.elapsed() > Duration::from_secs(6))
    };
    until("an end of a run", look, have_ended).await?;
    let silent = positions(world, &done).await?;
    world.nodes[nth].signal(Signal::CONT)?;
    // The node has noticed once it is registered under a new identity.
    let alive = format!("SELECT name FROM node WHERE name = '{name}' AND ended_at IS NULL");
    let look = async || world.nodes[0].rows(&alive).await;
    until("the node to come back", look, |rows| !rows.is_empty()).await?;
    // Wait until pending writes would be done.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let after = positions(world, &done).await?;
    for (id, last) in &silent {
        ensure!(after.get(id) == Some(last), "{id} was written to behind its end");
    }
    println!(
        "{} runs were with a node that was stopped, {} of them had ended when it woke",
        held.len(),
        silent.len()
    );
    Ok(())
}

async fn descriptors_run_out(database: Database) -> Checked {
    let (mut world, mut load) = begin(database, "descriptors_run_out", Setup::default()).await?;
    let pause = world.moment(500..1_500);
    tokio::time::sleep(pause).await;
    load.follow();
    let nth = world.some_node();
    let pid = world.nodes[nth].pid()?;
    let room = world.random.usize(0..6);
    let mut limit = limit_with(pid, room)?;
    let before = set_limit(pid, Some(limit))?;
    let lasts = world.moment(3_000..6_000);
    let (begun, mut looks, mut full) = (Instant::now(), 0, 0);
    while begun.elapsed() < lasts || full == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        looks += 1;
        if limit_with(pid, 0)? >= limit {
            full += 1;
        } else if full == 0 && begun.elapsed() > lasts / 2 {
            // The file descriptors are still free: now use them up.
            limit = limit_with(pid, 0)?;
            set_limit(pid, Some(limit))?;
        }
    }
    set_limit(pid, before)?;
    println!(
        "the table of node {nth} was full at {full} of {looks} looks, with room for {room} more at first"
    );
    // A run waits for a descriptor, and then ends normally.
    end(world, load, Excuse::default()).await
}

/// The limit with which a process can open this many more files. It is above all open numbers, because the kernel
/// assigns the lowest free one.
fn limit_with(pid: u32, room: usize) -> Result<u64> {
    let mut open = BTreeSet::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd"))? {
        open.insert(entry?.file_name().to_string_lossy().parse::<u64>()?);
    }
    let mut free = (0..).filter(|number| !open.contains(number));
    free.nth(room).context("no number is free")
}

/// Sets the maximum number of open files of a process; returns the previous one. `None` is unlimited.
fn set_limit(pid: u32, files: Option<u64>) -> Result<Option<u64>> {
    let limit = Rlimit {
        current: files,
        // The node has inherited it from this process.
        maximum: getrlimit(Resource::Nofile).maximum,
    };
    let before = prlimit(Pid::from_raw(i32::try_from(pid)?), Resource::Nofile, limit)?;
    Ok(before.current)
}
