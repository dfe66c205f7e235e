//! A PostgreSQL server and its nodes are lost; only last night's dump, the bucket and the master key are left. The test
//! executes the procedure of `docs/OPERATIONS.md` literally.

use std::{
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use anyhow::bail;
use axum::{Router, routing::get};
use sortie_api::{Event, Run};
use sortie_testkit::{Records, postgres_server, prelude::*, s3::S3, serve::Serving};
use tempfile::TempDir;
use tokio::sync::Notify;

use crate::{storage, succeeds};

const MASTER_KEY: &str = "0303030303030303030303030303030303030303030303030303030303030303";
const BINARY: &str = env!("CARGO_BIN_EXE_sortie");

/// The blocks of the section, in order: the dump, the restore, the check of the result.
fn blocks() -> Result<[String; 3]> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/OPERATIONS.md");
    let page = std::fs::read_to_string(page)?;
    let (_, section) = page
        .split_once("\n## Backup and restore: PostgreSQL and S3\n")
        .context("the section is gone")?;
    let section = section.split("\n## ").next().unwrap_or_default();
    let blocks: Vec<String> = section
        .split("\n```console\n")
        .skip(1)
        .filter_map(|rest| Some(rest.split_once("\n```")?.0.to_owned()))
        .collect();
    let found = blocks.len();
    blocks
        .try_into()
        .ok()
        .with_context(|| format!("{found} blocks of commands instead of 3"))
}

/// Operator at a shell: a folder, the programs, and the location of everything.
struct Operator {
    folder: TempDir,
    path: String,
}

impl Operator {
    /// `None` if PostgreSQL's own tools are not installed.
    fn new() -> Result<Option<Self>> {
        let postgres = postgres_server::programs()?;
        let tools = ["psql", "pg_dump", "pg_restore"];
        if let Some(missing) = tools.iter().find(|tool| !postgres.join(tool).exists()) {
            let folder = postgres.display();
            println!(
                "NOT CHECKED: recovery from a dump of PostgreSQL: {missing} is not installed in {folder}"
            );
            return Ok(None);
        }
        let sortie = Path::new(BINARY).parent().context("a binary lies in a folder")?;
        let path = format!(
            "{}:{}:/usr/local/bin:/usr/bin:/bin",
            postgres.display(),
            sortie.display()
        );
        Ok(Some(Self {
            folder: TempDir::new()?,
            path,
        }))
    }

    /// Runs a block, and returns its output.
    async fn does(&self, block: &str, variables: &[(&str, &str)]) -> Result<String> {
        #[expect(clippy::disallowed_methods, reason = "an operator has a shell")]
        let mut shell = Command::new("bash");
        shell
            .args(["-euo", "pipefail", "-c", block])
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", &self.path)
            .env("HOME", self.folder.path())
            .envs(variables.iter().copied());
        tokio::task::spawn_blocking(move || succeeds(&mut shell)).await?
    }
}

/// An API that answers every `GET`, and leaves every `POST` without an answer.
struct Api {
    serving: Serving,
    posts: Arc<AtomicU32>,
    came: Arc<Notify>,
}

impl Api {
    async fn start() -> Result<Self> {
        let (posts, came) = (Arc::new(AtomicU32::new(0)), Arc::new(Notify::new()));
        let (count, tell) = (Arc::clone(&posts), Arc::clone(&came));
        let hang = move || async move {
            count.fetch_add(1, Ordering::SeqCst);
            tell.notify_one();
            std::future::pending::<()>().await;
        };
        let router = Router::new().route("/api", get(|| async { "read" }).post(hang));
        Ok(Self {
            serving: Serving::start(router).await?,
            posts,
            came,
        })
    }
}

async fn put(client: &Client, path: &str, body: &Value) -> Result<Answer> {
    client.put(path, body).expect(201).await
}

/// A run that calls the API through a saved connection.
fn call(method: &str) -> Value {
    let prompt = format!("```tool crm__request\n{}\n```\n", json!({"method": method}));
    json!({"prompt": prompt, "shell": false, "connections": {"crm": {"ref": "crm"}}})
}

/// A run that waits for longer than a test takes, after these blocks.
fn waits(before: &str) -> Value {
    json!({"prompt": format!("{before}```wait 600000\n```\n"), "timeout_seconds": 900})
}

/// State at the moment of the dump.
struct Before {
    finished: (Vec<Event>, Run),
    definition: Value,
    /// Saved resources, by their path.
    saved: Vec<(String, Value)>,
    member: String,
    /// Active runs: one that only waits, one that has used its working directory, one in the middle of a call.
    waiting: String,
    working: String,
    calling: String,
    queued: Vec<String>,
}

async fn live(client: &Client, api: &Api) -> Result<Before> {
    client.upload("some-known-file", "known\n").await?;
    client.upload("passing.txt", "passing\n").await?;
    let url = format!("{}/api", api.serving.base_url());
    let connection = json!({"type": "http", "url": url, "auth": {"type": "bearer", "token": "sealed"}});
    put(client, "/v1/connections/crm", &connection).await?;
    put(
        client,
        "/v1/workflows/report",
        &json!({"prompt": "reported", "shell": false}),
    )
    .await?;
    put(
        client,
        "/v1/budgets/workflow:report",
        &json!({"limit_micros": 5_000_000, "period": "month"}),
    )
    .await?;
    let schedule = json!({"workflow": "report", "cron": "@yearly", "timezone": "Europe/Berlin"});
    let schedule = client.post("/v1/schedules", &schedule).json(201).await?;
    let key = client
        .post("/v1/admin/keys", &json!({"name": "ci"}))
        .json(201)
        .await?;
    let member = key["key"].as_str().context("the secret")?.to_owned();
    let left = json!({"prompt": "```sh\nmkdir outputs && printf 'the report' >outputs/report.md\n```\n"});
    let finished = client.complete(&left).await?;
    let definition = format!("/v1/runs/{}/definition", finished.1.id);
    let definition = client.get(&definition).json(200).await?;
    let mut saved = Vec::new();
    for path in [
        "/v1/connections/crm".to_owned(),
        "/v1/workflows/report".to_owned(),
        format!("/v1/schedules/{}", schedule["id"].as_str().context("an id")?),
        "/v1/files/passing.txt".to_owned(),
        "/v1/budgets/workflow:report".to_owned(),
    ] {
        let answer = client.get(&path).expect(200).await?;
        saved.push((path, answer.json()?));
    }

    let [waiting, working, calling] = [
        waits(""),
        waits("```sh\necho begun >log; cat log\n```\n"),
        call("POST"),
    ];
    let waiting = client.create_id(&waiting).await?;
    let mut stream = client.follow(&waiting, None).await?;
    stream.until_status(RunStatus::Running).await?;
    let working = client.create_id(&working).await?;
    let mut stream = client.follow(&working, None).await?;
    stream.until(|event| event.kind == "tool_end").await?;
    let calling = client.create_id(&calling).await?;
    api.came.notified().await;
    // They have all the places there are.
    let mut queued = Vec::new();
    for number in 0..5 {
        let run = client
            .create(&json!({"prompt": format!("{number}"), "shell": false}))
            .await?;
        queued.push(run.id.to_string());
    }
    Ok(Before {
        finished,
        definition,
        saved,
        member,
        waiting,
        working,
        calling,
        queued,
    })
}

/// Makes runs, makes and deletes files, and changes a workflow until the stop flag is set. Returns the number of
/// rounds.
async fn load(client: &Client, stop: &AtomicBool) -> Result<u32> {
    let mut times = 0;
    while !stop.load(Ordering::SeqCst) {
        let run = client.create(&json!({"prompt": "load", "shell": false})).await?;
        client.cancel(&run.id.to_string()).await?;
        let file = client.upload("load.bin", format!("load {times}")).await?;
        let path = format!("/v1/files/{}", file.id);
        client.delete(&path).expect(204).await?;
        times += 1;
    }
    Ok(times)
}

fn options(bucket: &S3) -> NodeOptions {
    // As many slots as there are runs that do not end.
    storage::options(bucket).env("SORTIE_CONCURRENCY", "3")
}

fn url(records: &Records) -> Result<String> {
    match records {
        Records::Shared(database) => Ok(database.url().to_owned()),
        Records::InDataFolder { .. } => bail!("not a database of PostgreSQL"),
    }
}

/// Checks that everything finished or saved before the dump is unchanged.
async fn there(client: &Client, before: &Before) -> Checked {
    let (events, run) = &before.finished;
    let id = run.id.to_string();
    let (replayed, same) = client.finished(&id).await?;
    assert_eq!(&same, run);
    let told = |events: &[Event]| -> Vec<Value> { events.iter().map(data).collect() };
    assert_eq!(told(&replayed), told(events));
    let definition = client.get(&format!("/v1/runs/{id}/definition")).await?;
    assert_eq!(definition.expect(200)?.json()?, before.definition);
    let report = format!("/v1/runs/{id}/artifacts/report.md");
    assert_eq!(client.get(&report).expect(200).await?.body, "the report");
    for (path, saved) in &before.saved {
        assert_eq!(&client.get(path).json(200).await?, saved, "{path}");
    }
    // Deleted after the dump: its content outlives its last reference.
    let content = client.get("/v1/files/passing.txt/content").await?;
    assert_eq!(content.expect(200)?.body, "passing\n");
    let member = client.with_key(&before.member);
    let (_, reported) = member.complete(&json!({"workflow": "report"})).await?;
    assert_eq!(reported.output.as_deref(), Some("reported"));
    let (_, called) = member.complete(&call("GET")).await?;
    assert_ended!(called, Succeeded);
    Ok(())
}

/// The reason that an interrupted run tells.
fn reason(events: &[Event]) -> Value {
    let last = events.iter().rfind(|event| event.kind == "interrupted");
    last.map(|event| data(event)["reason"].clone())
        .unwrap_or_default()
}

/// Checks that runs that waited or ran continue, or end, as the table says.
async fn goes_on(client: &Client, before: &Before) -> Checked {
    for (id, why) in [
        (&before.working, "worker_lost"),
        (&before.calling, "uncertain_call"),
    ] {
        let (events, run) = client.finished(id).await?;
        assert_eq!(
            (run.status, reason(&events)),
            (RunStatus::Interrupted, json!(why))
        );
    }
    let mut stream = client.follow(&before.waiting, None).await?;
    stream.until(|event| event.kind == "resumed").await?;
    for (number, id) in before.queued.iter().enumerate() {
        let (_, run) = client.finished(id).await?;
        let is = (run.status, run.output);
        assert_eq!(is, (RunStatus::Succeeded, Some(number.to_string())));
    }
    client.cancel(&before.waiting).await?;
    // Made after the dump: the restored database does not know it, so it is made again.
    let again = client.with_header("idempotency-key", "after the dump");
    again.create(&json!({"prompt": "again", "shell": false})).await?;
    Ok(())
}

#[tokio::test]
async fn what_the_documentation_says_brings_everything_back_from_a_dump() -> Checked {
    let Some(operator) = Operator::new()? else {
        return Ok(());
    };
    let [dump, restore, look] = blocks()?;
    let (bucket, api) = (S3::start().await?, Api::start().await?);
    let records = Database::Postgres.fresh().await?;
    let database = url(&records)?;
    let sealing = options(&bucket).env("SORTIE_MASTER_KEY", MASTER_KEY);
    let node = Node::on(BINARY, records, sealing.clone(), None).await?;
    let (client, key) = (node.client()?, node.key().to_owned());
    let before = live(&client, &api).await?;

    let stop = AtomicBool::new(false);
    let dumping = async {
        let done = operator.does(&dump, &[("DATABASE_URL", &database)]).await;
        stop.store(true, Ordering::SeqCst);
        done
    };
    let (times, counted) = tokio::join!(load(&client, &stop), dumping);
    ensure!(times? > 0, "the node did nothing meanwhile");
    let counted: u32 = counted?.trim().parse()?;
    let later = client.with_header("idempotency-key", "after the dump");
    later.create(&json!({"prompt": "again", "shell": false})).await?;
    let passing = client.delete("/v1/files/passing.txt");
    passing.await?.expect(204)?;
    // The node, its data folder and its database.
    drop(node);

    let records = Database::Postgres.fresh().await?;
    let database = url(&records)?;
    operator.does(&restore, &[("DATABASE_URL", &database)]).await?;
    let without = Node::on(BINARY, records.clone(), options(&bucket), Some(key.clone())).await;
    let refused = format!("{:?}", without.err().context("it starts without the master key")?);
    ensure!(refused.contains("SORTIE_MASTER_KEY"), "{refused}");
    let node = Node::on(BINARY, records, sealing, Some(key)).await?;
    let engine = node.url()?;
    let variables = [
        ("DATABASE_URL", &*database),
        ("SORTIE_URL", &*engine),
        ("SORTIE_API_KEY", node.key()),
    ];
    let said = operator.does(&look, &variables).await?;
    let mut numbers = said.lines().map(|line| line.trim().parse::<u32>());
    let (known, runs) = (
        numbers.next().context("a migration")??,
        numbers.next().context("a count")??,
    );
    ensure!(known > 0 && runs >= counted, "{counted} runs, then\n{said}");
    // Of `known` and a line feed.
    let sum = "7cd8a27a42d4b0084bb6c6a6c47ee7a03e7aa22d64e950d676f9a7c7a68f04d9";
    ensure!(said.contains(sum), "{said}");

    let client = node.client()?;
    there(&client, &before).await?;
    goes_on(&client, &before).await?;
    assert_eq!(
        api.posts.load(Ordering::SeqCst),
        1,
        "a call in doubt was made again"
    );
    Ok(())
}
