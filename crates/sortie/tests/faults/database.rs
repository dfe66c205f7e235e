//! Faults of the database that three nodes share: it stops and starts, and the connections to it break.

use sortie_testkit::{Passage, Shutdown};

use crate::prelude::*;

/// An outage ends no attempt, but a run that lost its worker during it may resume on another node without its
/// directory.
const AWAY: Excuse = Excuse {
    lost_workers: true,
    failures: &[],
    skipped_artifacts: false,
    moved_clock: false,
    cut_answer: None,
};

#[tokio::test]
async fn postgres_restarts_and_crashes() -> Checked {
    let setup = Setup {
        own_server: true,
        ..Setup::default()
    };
    let (mut world, mut load) = begin(Database::Postgres, "postgres_restarts", setup).await?;
    for _ in 0..4 {
        let pause = world.moment(500..2_000);
        tokio::time::sleep(pause).await;
        load.follow();
        let how = if world.random.bool() {
            Shutdown::Fast
        } else {
            Shutdown::Immediate
        };
        let away = world.moment(0..2_500);
        let server = world.server.take().context("no server of its own")?;
        let server = tokio::task::spawn_blocking(move || {
            let stopped = server.stop(how);
            std::thread::sleep(away);
            stopped.and_then(|()| server.up()).map(|()| server)
        });
        world.server = Some(server.await??);
        println!("{how:?}, away for {away:?}");
    }
    end(world, load, AWAY).await
}

#[tokio::test]
async fn the_way_to_postgres_breaks() -> Checked {
    let (mut world, mut load) = begin(Database::Postgres, "the_way_to_postgres", Setup::default()).await?;
    for _ in 0..5 {
        let pause = world.moment(300..1_200);
        tokio::time::sleep(pause).await;
        load.follow();
        let nth = world.some_node();
        let slow = world.moment(20..150);
        let lasts = world.moment(500..3_000);
        let passage = match world.random.u8(0..5) {
            0 => Passage::Slow(slow),
            1 => Passage::Swallowed,
            2 => Passage::Deaf,
            3 => Passage::Refused,
            _ => {
                let part = world.random.u64(1..3);
                world.database_proxies[nth].cut(part);
                println!("node {nth}: every {part}. connection is cut");
                continue;
            }
        };
        println!("node {nth}: {passage:?} for {lasts:?}");
        world.database_proxies[nth].set(passage);
        tokio::time::sleep(lasts).await;
        world.database_proxies[nth].set(Passage::Open);
        // Swallowed data is lost for good: without a reset both sides would wait for the rest.
        world.database_proxies[nth].cut(1);
    }
    end(world, load, AWAY).await
}

/// A node that cannot reach the database for longer than its lease is lost, and other nodes resume its runs.
#[tokio::test]
async fn one_node_is_cut_off_from_postgres_for_longer_than_its_lease() -> Checked {
    let (mut world, mut load) = begin(Database::Postgres, "one_node_is_cut_off", Setup::default()).await?;
    load.follow();
    let nth = world.some_node();
    let passage = if world.random.bool() {
        Passage::Swallowed
    } else {
        Passage::Refused
    };
    println!("node {nth}: {passage:?}");
    world.database_proxies[nth].set(passage);
    let lasts = world.moment(14_000..18_000);
    tokio::time::sleep(lasts).await;
    world.database_proxies[nth].set(Passage::Open);
    world.database_proxies[nth].cut(1);
    end(world, load, AWAY).await
}
