//! The real binary with its content in an S3 store, which `scripts/peers` installs.

use anyhow::bail;
use sortie_testkit::{
    Gateway, GatewayFault,
    http::StatusCode,
    prelude::*,
    s3::{BUCKET, S3},
};

pub(crate) fn options(store: &S3) -> NodeOptions {
    let url = format!("s3://{BUCKET}/files");
    store.variables().iter().fold(
        NodeOptions::default().env("SORTIE_BLOB_URL", &url),
        |options, (name, value)| options.env(name, value),
    )
}

#[tokio::test]
async fn nodes_share_files_in_a_store_that_speaks_s3() -> Result<()> {
    let store = S3::start().await?;
    let binary = env!("CARGO_BIN_EXE_sortie");
    let node = Node::start_with(binary, Database::Postgres, options(&store)).await?;
    let content: Vec<u8> = (0..9_000_000_u32).map(|at| at.to_le_bytes()[1]).collect();
    let file = node.client()?.upload("large.bin", &content).await?;
    let small = node.client()?.upload("small.txt", "small\n").await?;
    let keys = store.keys().await?;
    ensure!(
        keys.len() == 2 && keys.iter().all(|key| key.starts_with("files/org_")),
        "{keys:?}"
    );

    let other = node.beside().await?;
    let client = other.client()?;
    let whole = client.get("/v1/files/large.bin/content").expect(200).await?;
    ensure!(whole.body == content, "another content");
    let ranged = client.with_header("range", "bytes=8388600-8388619");
    let part = ranged.get("/v1/files/large.bin/content").expect(206).await?;
    ensure!(part.body == content[8_388_600..8_388_620], "other bytes");

    let request = json!({
        "prompt": "```sh\nsha256sum < a; cat b\n```",
        "files": [{"path": "a", "file": file.id}, {"path": "b", "file": "small.txt"}],
    });
    let (_, run) = client.complete(&request).await?;
    assert_ended!(run, Succeeded);
    assert_eq!(run.output, Some(format!("{}  -\nsmall\n", file.sha256)));
    let path = format!("/v1/files/{}", small.id);
    client.delete(&path).expect(204).await?;
    Ok(())
}

#[tokio::test]
async fn a_store_that_is_away_is_a_503_and_leaves_no_file() -> Result<()> {
    let store = S3::start().await?;
    let binary = env!("CARGO_BIN_EXE_sortie");
    let node = Node::start_with(binary, Database::Sqlite, options(&store)).await?;
    let client = node.client()?;
    client.upload("kept", "kept").await?;
    drop(store);
    let form = [("form-data; name=\"file\"; filename=\"lost\"", &b"lost"[..])];
    client.send_form(&form).refused("unavailable").await?;
    client
        .get("/v1/files/kept/content")
        .refused("unavailable")
        .await?;
    let files = client.get("/v1/files").await?.json()?;
    assert_eq!(files.as_array().map(Vec::len), Some(1), "{files}");
    Ok(())
}

#[tokio::test]
async fn the_files_of_a_deleted_organization_go_from_a_store_that_speaks_s3() -> Result<()> {
    const PASSWORD: &str = "plum-anchor-violet-42";
    let store = S3::start().await?;
    let binary = env!("CARGO_BIN_EXE_sortie");
    let node = HostedNode::start_with(binary, Database::Sqlite, options(&store)).await?;
    let ann = json!({"email": "ann@example.com", "name": "Ann", "password": PASSWORD});
    let signed_up = node.anybody().post("/v1/auth/signup", &ann).expect(201).await?;
    let token = signed_up.json()?["token"].clone();
    let client = node.client(token.as_str().context("no token")?);
    let mut organizations = Vec::new();
    for name in ["gone", "kept"] {
        let made = client.post("/v1/organizations", &json!({"name": name})).await?;
        let id = made.expect(201)?.json()?["id"].clone();
        let id = id.as_str().context("no ID")?.to_owned();
        let path = format!("/v1/organizations/{id}/keys");
        let key = client.post(&path, &json!({"name": "k"})).json(201).await?;
        let key = node.engine_client(key["key"].as_str().context("no key")?)?;
        // One of them is sent in parts.
        key.upload("large.bin", vec![7; 9_000_000]).await?;
        key.upload("small.txt", name).await?;
        organizations.push(id);
    }
    let keys = async |id: &str| {
        let keys = store.keys().await?;
        anyhow::Ok(keys.iter().filter(|key| key.contains(id)).count())
    };
    let [gone, kept] = &organizations[..] else {
        bail!("two organizations")
    };
    assert_eq!((keys(gone).await?, keys(kept).await?), (2, 2));
    let body = json!({"name": "gone", "password": PASSWORD}).to_string();
    let path = format!("/v1/organizations/{gone}");
    client
        .send(Method::DELETE, &path, body.into())
        .expect(204)
        .await?;
    until(
        "the deletion of the content",
        async || keys(gone).await,
        |left| *left == 0,
    )
    .await?;
    assert_eq!(keys(kept).await?, 2);
    Ok(())
}

/// Number of failed requests after which a run without retries would have failed: four for each operation.
const TRIED_AGAIN: u64 = 20;

#[tokio::test]
async fn a_store_that_is_away_for_seconds_costs_no_run_its_files_and_stops_none_without() -> Result<()> {
    let store = S3::start().await?;
    let gateway = Gateway::start(store.address()).await?;
    let options = options(&store).env("AWS_ENDPOINT_URL", &gateway.base_url());
    let node = Node::start_with(env!("CARGO_BIN_EXE_sortie"), Database::Sqlite, options).await?;
    // The checks of the first start also use the store.
    node.until_logged("`sortie doctor` finds").await?;
    let client = node.client()?;
    let saved = client.upload("a.txt", "saved").await?;
    gateway.set([GatewayFault::Fails(StatusCode::SERVICE_UNAVAILABLE)]);
    let leaves = json!({"prompt": "```sh\nmkdir outputs && echo made > outputs/b.txt\n```"});
    let reads = json!({"prompt": "```sh\ncat a.txt\n```", "files": [{"path": "a.txt", "file": saved.id}]});
    let (leaves, reads) = (client.create(&leaves).await?, client.create(&reads).await?);
    let (_, other) = client
        .complete(&json!({"prompt": "```sh\necho other\n```"}))
        .await?;
    assert_ended!(other, Succeeded);
    let tries = async || Ok(gateway.faulted());
    until("more tries", tries, |tries| *tries >= TRIED_AGAIN).await?;
    let state = client.get("/readyz").json(200).await?;
    assert_eq!(state, json!({"status": "ok", "degraded": ["storage"]}));
    gateway.set([]);
    for (run, output) in [(&leaves, None), (&reads, Some("saved"))] {
        let path = format!("/v1/runs/{}?wait=30", run.id);
        let ended = client.get(&path).json(200).await?;
        assert_eq!(ended["status"], "succeeded", "{ended}");
        assert!(output.is_none_or(|output| ended["output"] == output), "{ended}");
    }
    let path = format!("/v1/runs/{}/artifacts/b.txt", leaves.id);
    assert_eq!(client.get(&path).expect(200).await?.text(), "made\n");
    Ok(())
}

/// Uploads of a node through a gateway to a store. The second part of the next upload hangs.
struct Hanging {
    store: S3,
    gateway: Gateway,
    node: Node,
}

impl Hanging {
    async fn start() -> Result<Self> {
        let store = S3::start().await?;
        let gateway = Gateway::start(store.address()).await?;
        let options = options(&store).env("AWS_ENDPOINT_URL", &gateway.base_url());
        let node = Node::start_with(env!("CARGO_BIN_EXE_sortie"), Database::Sqlite, options).await?;
        // The checks of the first start also use the store.
        node.until_logged("`sortie doctor` finds").await?;
        // Requests that pass: the check whether the content exists, the start of the upload, and its first part.
        gateway.set([
            GatewayFault::None,
            GatewayFault::None,
            GatewayFault::None,
            GatewayFault::Hangs,
        ]);
        Ok(Self { store, gateway, node })
    }

    /// Returns once the second part hangs; from then on requests go through.
    async fn hangs(&self) -> Result<()> {
        let parts = async || Ok(self.gateway.faulted());
        until("the second part", parts, |parts| *parts > 0).await?;
        self.gateway.set([]);
        assert_eq!(self.store.uploads().await?.len(), 1);
        Ok(())
    }

    async fn is_aborted(&self) -> Result<()> {
        let uploads = async || self.store.uploads().await;
        until("the end of the upload", uploads, Vec::is_empty).await?;
        ensure!(self.store.keys().await?.is_empty(), "there is content");
        Ok(())
    }
}

#[tokio::test]
async fn a_client_that_goes_away_in_the_middle_of_an_upload_leaves_no_parts() -> Result<()> {
    let hanging = Hanging::start().await?;
    let client = hanging.node.client()?;
    let content = vec![7; 20_000_000];
    tokio::select! {
        uploaded = client.upload("large.bin", &content) => {
            uploaded.context("the upload ended")?;
        }
        hangs = hanging.hangs() => hangs?,
    }
    // The client is gone.
    hanging.is_aborted().await
}

#[tokio::test]
async fn a_run_that_is_cancelled_while_its_files_are_kept_leaves_no_parts() -> Result<()> {
    let hanging = Hanging::start().await?;
    let client = hanging.node.client()?;
    let prompt = "```sh\nmkdir outputs && head -c 20000000 /dev/zero > outputs/large.bin\n```\n";
    let run = client.create(&json!({"prompt": prompt})).await?;
    hanging.hangs().await?;
    client.cancel(&run.id.to_string()).await?;
    hanging.is_aborted().await
}

#[tokio::test]
async fn a_node_that_stops_in_the_middle_of_an_upload_leaves_no_parts() -> Result<()> {
    let mut hanging = Hanging::start().await?;
    let client = hanging.node.client()?;
    let content = vec![7; 20_000_000];
    let upload = async { client.upload("large.bin", &content).await };
    let stop = async {
        hanging.hangs().await?;
        hanging.node.terminate()
    };
    let (_uploaded, stopped) = tokio::join!(upload, stop);
    stopped?;
    hanging.node.ended().await?;
    assert!(hanging.store.uploads().await?.is_empty());
    Ok(())
}
