//! `GET /v1/me` (`docs/API.md#organizations`).

use crate::prelude::*;

both_databases![me_is_the_organization_behind_the_key];

async fn me_is_the_organization_behind_the_key(database: Database) -> Checked {
    let node = node(database).await?;
    let me = node.client()?.get("/v1/me").json(200).await?;
    assert!(
        me["organization_id"]
            .as_str()
            .is_some_and(|id| id.starts_with("org_")),
        "{me}"
    );
    assert_eq!(me["role"], "admin");
    assert_eq!(me["mode"], "self-hosted");
    assert_eq!(me["compute_micros_per_second"], 0);
    assert_eq!(me["default_max_cost_micros"], 1_000_000);
    node.client()?
        .anonymous()
        .get("/v1/me")
        .refused("unauthorized")
        .await?;
    Ok(())
}
