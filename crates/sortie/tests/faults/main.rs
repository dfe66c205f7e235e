//! Faults under load, each followed by the same audit: docs/FAULTS.md lists the faults and the checks.
//!
//! Everything random of a test is drawn from one seed, which it prints; `SORTIE_FAULT_SEED` repeats it.
#![cfg(test)]

mod audit;
mod clock;
mod commits;
mod database;
mod disk;
mod failover;
mod licenses;
mod load;
mod model;
mod peers;
mod people;
mod pooler;
mod prelude;
mod process;
mod purchases;
mod tasks;
mod world;

use crate::{load::Load, prelude::*};

/// A world under load, with a budget that covers every run.
async fn begin(database: Database, name: &str, setup: Setup) -> anyhow::Result<(World, Load)> {
    let mut world = World::start(database, name, setup).await?;
    let limit = serde_json::json!({"limit_micros": 900_000_000_000_u64, "period": "month"});
    let put = sortie_testkit::http::Method::PUT;
    world.nodes[0]
        .client()?
        .send(put, "/v1/budgets/organization", limit.to_string().into())
        .expect(201)
        .await?;
    let load = Load::begin(&mut world).await?;
    Ok((world, load))
}

/// The end of every fault: the load ends, and the audit runs.
async fn end(world: World, load: Load, excuse: Excuse) -> Checked {
    let before = load.acknowledged();
    anyhow::ensure!(before > 0, "hardly any load");
    let orders = load.end().await?;
    audit::audit(&world, &orders, excuse).await
}
