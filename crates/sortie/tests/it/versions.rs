//! The end of a version (`docs/API.md#versions`): `Deprecation`, `Sunset` and the answers after that.

use std::io::Write as _;

use tempfile::NamedTempFile;

use crate::prelude::*;

#[tokio::test]
async fn a_deprecated_version_says_when_it_ends() -> Checked {
    let mut config = NamedTempFile::new()?;
    write!(
        config,
        "[api.v1]\ndeprecated = \"2027-03-01\"\nsunset = \"2027-09-15\"\nsuccessor = \"https://docs.example.com/v2\"\n"
    )?;
    let path = config.path().to_str().context("a path that is no text")?;
    let node = node_with(
        Database::Sqlite,
        NodeOptions::default().env("SORTIE_CONFIG", path),
    )
    .await?;
    let client = node.client()?;
    // Also for error answers, and for answers that no handler gives.
    for (client, path, status) in [
        (&client, "/v1/me", 200),
        (&client, "/v1/runs?limit=0", 400),
        (&client.anonymous(), "/v1/me", 401),
        (&client, "/v1/nothing", 404),
    ] {
        let answer = client.get(path).await?.expect(status)?;
        assert_eq!(answer.header("deprecation")?, "@1803859200");
        assert_eq!(answer.header("sunset")?, "Wed, 15 Sep 2027 00:00:00 GMT");
        let links: Vec<_> = answer.headers.get_all("link").iter().collect();
        assert_eq!(
            links,
            [
                "<https://docs.example.com/v2>; rel=\"deprecation\"",
                "<https://docs.example.com/v2>; rel=\"successor-version\""
            ]
        );
    }
    // The health of the engine is not part of a version.
    let health = client.get("/healthz").expect(200).await?;
    assert!(!health.headers.contains_key("sunset"));
    Ok(())
}

#[tokio::test]
async fn the_current_version_says_nothing_of_an_end() -> Checked {
    let node = node(Database::Sqlite).await?;
    let answer = node.client()?.get("/v1/me").expect(200).await?;
    for name in ["deprecation", "sunset", "link"] {
        assert!(!answer.headers.contains_key(name), "{name}");
    }
    Ok(())
}
