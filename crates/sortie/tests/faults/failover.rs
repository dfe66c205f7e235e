//! The database fails over to a standby that follows it by streaming replication, and its address moves there.

use futures_util::future::join_all;
use sortie_testkit::{PostgresServer, Shutdown};

use crate::{load::Load, prelude::*};

/// Maximum time from the move of the address to the first write on every node.
const WRITES_AGAIN: Duration = Duration::from_secs(5);
/// Maximum time until a node notices that its server is read-only by a setting: it checks every five seconds.
const NOTICED: Duration = Duration::from_secs(10);
/// Time after which the test stops waiting for a first write.
const GIVEN_UP: Duration = Duration::from_secs(30);
/// Longest answer to a probe.
const PROBE: Duration = Duration::from_secs(2);

/// A run that lost its worker during the failover may resume on another node without its directory.
const FAILED_OVER: Excuse = Excuse {
    lost_workers: true,
    failures: &[],
    skipped_artifacts: false,
    moved_clock: false,
    cut_answer: None,
};

/// A world under load, with a server that has a synchronous standby.
async fn replicated(name: &str) -> Result<(World, Load, PostgresServer)> {
    let setup = Setup {
        own_server: true,
        ..Setup::default()
    };
    let (mut world, load) = begin(Database::Postgres, name, setup).await?;
    let primary = world.server.as_ref().context("no server of its own")?;
    let standby = primary.standby().await?;
    primary
        .execute(&[
            "ALTER SYSTEM SET synchronous_commit = on",
            "ALTER SYSTEM SET synchronous_standby_names = '*'",
            "SELECT pg_reload_conf()",
        ])
        .await?;
    let pause = world.moment(500..2_000);
    tokio::time::sleep(pause).await;
    Ok((world, load, standby))
}

/// The primary dies; its sessions end with it.
#[tokio::test]
async fn the_primary_dies_and_its_standby_is_promoted() -> Checked {
    let (mut world, mut load, standby) = replicated("the_primary_dies").await?;
    load.follow();
    let primary = world.server.take().context("no server of its own")?;
    let (primary, standby) = tokio::task::spawn_blocking(move || {
        primary.stop(Shutdown::Immediate)?;
        standby.promote()?;
        anyhow::Ok((primary, standby))
    })
    .await??;
    moved(&mut world, &standby, WRITES_AGAIN).await?;
    end_on(standby, primary, world, load).await
}

/// The primary comes back as a standby before the address moves: nodes reach a server that refuses their writes.
#[tokio::test]
async fn the_primary_becomes_a_standby_and_the_address_moves_later() -> Checked {
    let (mut world, mut load, standby) = replicated("the_primary_becomes_a_standby").await?;
    load.follow();
    let primary = world.server.take().context("no server of its own")?;
    let primary = tokio::task::spawn_blocking(move || {
        primary.stop(Shutdown::Fast)?;
        primary.demote()?;
        primary.up()?;
        anyhow::Ok(primary)
    })
    .await??;
    not_ready(&world).await?;
    let standby = promoted(standby).await?;
    moved(&mut world, &standby, WRITES_AGAIN).await?;
    end_on(standby, primary, world, load).await
}

/// The primary becomes read-only by its settings and stays up: nodes drop their sessions there before the address
/// moves.
#[tokio::test]
async fn the_primary_becomes_read_only_and_stays_up() -> Checked {
    let (mut world, mut load, standby) = replicated("the_primary_becomes_read_only").await?;
    load.follow();
    let primary = world.server.take().context("no server of its own")?;
    primary
        .execute(&[
            "ALTER SYSTEM SET default_transaction_read_only = on",
            "SELECT pg_reload_conf()",
        ])
        .await?;
    let begun = Instant::now();
    for node in &world.nodes {
        let client = node.client()?;
        while status(client.get("/readyz")).await == Some(200) {
            ensure!(begun.elapsed() < NOTICED, "ready on a server that is read-only");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    not_ready(&world).await?;
    let standby = promoted(standby).await?;
    moved(&mut world, &standby, WRITES_AGAIN).await?;
    end_on(standby, primary, world, load).await
}

async fn promoted(standby: PostgresServer) -> Result<PostgresServer> {
    tokio::task::spawn_blocking(move || standby.promote().map(|()| standby)).await?
}

/// Ends the load on the standby. The old primary keeps running if it is up.
async fn end_on(standby: PostgresServer, _primary: PostgresServer, mut world: World, load: Load) -> Checked {
    world.server = Some(standby);
    end(world, load, FAILED_OVER).await
}

/// No node reports ready, or writes, while it reaches a read-only server.
async fn not_ready(world: &World) -> Checked {
    for _ in 0..10 {
        for node in &world.nodes {
            let client = node.client()?;
            let ready = status(client.get("/readyz")).await;
            ensure!(ready != Some(200), "ready on a server that is read-only");
            ensure!(!writes(&client).await, "it has written");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// Moves the address: every node writes again within the time `within`, and is ready.
async fn moved(world: &mut World, standby: &PostgresServer, within: Duration) -> Checked {
    let front = world.front.as_ref().context("no address that moves")?;
    front.move_to(standby.address());
    let begun = Instant::now();
    let clients: Vec<Client> = world
        .nodes
        .iter()
        .map(sortie_testkit::Node::client)
        .collect::<Result<_>>()?;
    let took = join_all(clients.iter().map(|client| async move {
        while !writes(client).await || status(client.get("/readyz")).await != Some(200) {
            if begun.elapsed() > GIVEN_UP {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        begun.elapsed()
    }))
    .await;
    println!("writes again behind the move after {took:?}");
    ensure!(
        took.iter().all(|took| *took < within),
        "writes again after {took:?}"
    );
    // The load continues there.
    let pause = world.moment(1_000..3_000);
    tokio::time::sleep(pause).await;
    Ok(())
}

/// Whether a write through this node succeeds now.
async fn writes(client: &Client) -> bool {
    // Only a change is written.
    let probe = json!({"prompt": format!("never run {}", fastrand::u64(..))});
    let put = client.send(Method::PUT, "/v1/workflows/probe", probe.to_string().into());
    matches!(status(put).await, Some(200 | 201))
}

/// Status of an answer that arrives within [`PROBE`].
async fn status(answer: impl Future<Output = Result<sortie_testkit::Answer>>) -> Option<u16> {
    let answer = tokio::time::timeout(PROBE, answer).await;
    Some(answer.ok()?.ok()?.status)
}
