//! Headers of rate limits (`docs/API.md#rate-limits`). A test of the server covers the effect of the limits, because it
//! can move the clock.

use crate::prelude::*;

/// The three numbers, after checking that every header says the same.
fn limits(answer: &Answer) -> Result<(u64, u64, u64)> {
    let number = |name: &str| -> Result<u64> { Ok(answer.header(name)?.parse()?) };
    let (limit, remaining, reset) = (
        number("x-ratelimit-limit")?,
        number("x-ratelimit-remaining")?,
        number("x-ratelimit-reset")?,
    );
    assert_eq!(
        answer.header("ratelimit-policy")?,
        format!(r#""default";q={limit};w=60"#)
    );
    assert_eq!(
        answer.header("ratelimit")?,
        format!(r#""default";r={remaining};t={reset}"#)
    );
    ensure!(remaining <= limit && reset <= 60, "{:?}", answer.headers);
    Ok((limit, remaining, reset))
}

#[tokio::test]
async fn every_engine_answer_carries_the_rate_limit_headers() -> Checked {
    let (_node, client) = started(Database::Sqlite).await?;
    let run = client.create(&plain("x")).await?;
    for (method, path, status) in [
        (Method::GET, "/v1/me".to_owned(), 200),
        (Method::GET, format!("/v1/runs/{}", run.id), 200),
        (Method::POST, format!("/v1/runs/{}/cancel", run.id), 200),
        (Method::GET, format!("/v1/runs/{}/definition", run.id), 200),
        (Method::GET, "/v1/runs?limit=0".to_owned(), 400),
        (Method::GET, "/v1/runs/x".to_owned(), 404),
        (Method::GET, "/v1/nothing".to_owned(), 404),
        (Method::DELETE, "/v1/runs".to_owned(), 405),
        (Method::POST, "/v1/runs".to_owned(), 400),
    ] {
        let answer = client.send(method, &path, Bytes::new()).await?.expect(status)?;
        limits(&answer).with_context(|| path.clone())?;
    }
    let nobody = client.anonymous();
    limits(&nobody.get("/v1/me").expect(401).await?)?;
    limits(&nobody.get("/v1/models").expect(200).await?)?;
    Ok(())
}

/// A credential has the configured limit, and without one an address has 120 requests a minute.
#[tokio::test]
async fn the_limits_are_those_of_the_configuration() -> Checked {
    let options = NodeOptions::default().env("SORTIE_RATE_LIMIT_PER_MINUTE", "5");
    let (_node, client) = started_with(Database::Sqlite, options).await?;
    assert_eq!(limits(&client.get("/v1/me").expect(200).await?)?.0, 5);
    assert_eq!(
        limits(&client.anonymous().get("/v1/models").expect(200).await?)?.0,
        120
    );
    Ok(())
}
