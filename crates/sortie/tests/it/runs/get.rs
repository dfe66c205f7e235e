//! `GET /v1/runs/{id}` (`docs/RUNS.md#wait-and-read`).

use crate::prelude::*;

both_databases![an_unknown_or_malformed_id_is_not_found];

/// `docs/API.md#values`: a malformed id in a path is 404 as well.
async fn an_unknown_or_malformed_id_is_not_found(database: Database) -> Checked {
    let (_node, client) = started(database).await?;
    let ids = [
        "run_01hf7yat31e4ar9bcdefghjkmn",
        "run_01HF7YAT31E4AR9BCDEFGHJKMN",
        "org_01hf7yat31e4ar9bcdefghjkmn",
        "run_",
        "run_01hf7yat31e4ar9bcdefghjkmnn",
        "x",
        "%00",
        "%ff",
        "..%2f..",
        "run_01hf7yat31e4ar9bcdefghjkm%27",
    ];
    for id in ids {
        for (method, rest) in [
            (Method::GET, ""),
            (Method::GET, "/events"),
            (Method::GET, "/definition"),
            (Method::POST, "/cancel"),
        ] {
            let path = format!("/v1/runs/{id}{rest}");
            let answer = client.send(method, &path, Bytes::default()).await?;
            answer.refused("not_found").map_err(|error| error.context(path))?;
        }
    }
    Ok(())
}
