//! Every failure in the one form (`docs/API.md#errors`).

use crate::prelude::*;

#[tokio::test]
async fn an_unknown_route_is_not_found_under_any_path() -> Checked {
    let (_node, client) = started(Database::Sqlite).await?;
    for path in [
        "/",
        "/v1",
        "/v1/",
        "/v1/nothing",
        "/v2/runs",
        "/v1/runs/",
        "/v1/runs/x/y/z",
        "//v1/runs",
        "/V1/me",
    ] {
        for client in [client.clone(), client.anonymous()] {
            client
                .get(path)
                .refused("not_found")
                .await
                .with_context(|| path.to_owned())?;
        }
    }
    Ok(())
}

/// `docs/API.md#errors`: `Allow` lists exactly the supported methods.
#[tokio::test]
async fn a_wrong_method_is_answered_with_405_and_the_right_ones() -> Checked {
    let (_node, client) = started(Database::Sqlite).await?;
    let id = "run_01hf7yat31e4ar9bcdefghjkmn";
    for (path, methods) in [
        ("/v1/me".to_owned(), vec!["GET"]),
        ("/v1/models".to_owned(), vec!["GET"]),
        ("/v1/runs".to_owned(), vec!["GET", "POST"]),
        (format!("/v1/runs/{id}"), vec!["GET"]),
        (format!("/v1/runs/{id}/cancel"), vec!["POST"]),
        (format!("/v1/runs/{id}/events"), vec!["GET"]),
        (format!("/v1/runs/{id}/definition"), vec!["GET"]),
        ("/healthz".to_owned(), vec!["GET"]),
        ("/readyz".to_owned(), vec!["GET"]),
        ("/openapi.json".to_owned(), vec!["GET"]),
        ("/metrics".to_owned(), vec!["GET"]),
    ] {
        for wrong in [Method::PUT, Method::DELETE, Method::PATCH] {
            let answer = client.send(wrong, &path, Bytes::new()).await?;
            answer
                .refused("method_not_allowed")
                .with_context(|| path.clone())?;
            let mut allowed: Vec<&str> = answer.header("allow")?.split(',').map(str::trim).collect();
            allowed.retain(|method| *method != "HEAD");
            allowed.sort_unstable();
            assert_eq!(allowed, methods, "{path}");
        }
    }
    Ok(())
}

/// `docs/API.md#authentication`.
#[tokio::test]
async fn a_missing_or_wrong_credential_is_unauthorized() -> Checked {
    let node = node(Database::Sqlite).await?;
    let nobody = node.client()?.anonymous();
    let key = node.key();
    let mut wrong_checksum = key.to_owned();
    wrong_checksum.pop();
    wrong_checksum.push(if key.ends_with('0') { '1' } else { '0' });
    let unknown = sortie_api::secret::Secret::new("sts_", [7; 32]);
    let values = [
        String::new(),
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        format!("Bearer {wrong_checksum}"),
        format!("Bearer {}", unknown.expose()),
        format!("Basic {key}"),
        key.to_owned(),
        format!("Bearer {key} {key}"),
        format!("Bearer {}", key.to_uppercase()),
        format!("Bearer {}", key.replacen("sts_", "sth_", 1)),
    ];
    nobody.get("/v1/me").refused("unauthorized").await?;
    for value in values {
        let client = nobody.with_header("authorization", &value);
        let answer = client.get("/v1/me").await?;
        answer.refused("unauthorized").with_context(|| value.clone())?;
        ensure!(answer.header("www-authenticate")?.starts_with("Bearer"));
        assert_lacks!(answer, key, "sts_");
    }
    // The scheme is case-insensitive, as HTTP requires.
    let client = nobody.with_header("authorization", format!("bearer {key}"));
    let me = client.get("/v1/me").json(200).await?;
    let features = json!({"console": true, "payments": false, "mail": false});
    assert_eq!(me["features"], features);
    Ok(())
}

/// `docs/API.md#request-ids`.
#[tokio::test]
async fn every_answer_carries_a_request_id_and_a_valid_one_is_kept() -> Checked {
    let (_node, client) = started(Database::Sqlite).await?;
    let mut seen = Vec::new();
    for path in [
        "/v1/me",
        "/v1/runs",
        "/v1/models",
        "/healthz",
        "/nothing",
        "/v1/runs?limit=0",
        "/openapi.json",
    ] {
        seen.push(
            client
                .get(path)
                .await?
                .header("x-request-id")
                .context(path)?
                .to_owned(),
        );
    }
    let count = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), count, "an id was given twice");
    let with = |id: &'static str| client.with_header("x-request-id", id.as_bytes());
    assert_eq!(
        with("trace-42.a_b").get("/v1/me").await?.header("x-request-id")?,
        "trace-42.a_b"
    );
    for hostile in ["", "a b", "\u{e9}"] {
        assert_ne!(
            with(hostile).get("/v1/me").await?.header("x-request-id")?,
            hostile
        );
    }
    let long = client.with_header("x-request-id", "x".repeat(5_000));
    ensure!(long.get("/v1/me").await?.header("x-request-id")?.len() < 200);
    Ok(())
}

#[tokio::test]
async fn liveness_and_readiness_need_no_key() -> Checked {
    let node = node(Database::Sqlite).await?;
    let nobody = node.client()?.anonymous();
    for path in ["/healthz", "/readyz", "/openapi.json", "/metrics"] {
        nobody.get(path).expect(200).await?;
    }
    Ok(())
}
