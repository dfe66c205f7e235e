//! Each long-lived task and thread of a node panics once. The process then logs the name of the task, and exits with a
//! code after which a service manager restarts it: docs/FAULTS.md.

use std::fs;

use sortie_testkit::StripeDouble;
use tempfile::TempDir;

use crate::prelude::*;

/// Variable that names the task that is to panic. Only test builds read it.
const PANIC_IN: &str = "SORTIE_TEST_PANIC_IN";

/// Tasks and threads of a node of a hosted deployment on `SQLite`. The store has several threads of some kinds.
const HOSTED: [&str; 25] = [
    "accounts",
    "authorizations",
    "billing",
    "callbacks",
    "dispatcher",
    "erasure",
    "heartbeat",
    "keeper",
    "ledger",
    "leftovers",
    "mailer",
    "reconciler",
    "retention",
    "server",
    "storage-sweep",
    "storage-watch",
    "store-checkpoint",
    "store-list-1",
    "store-read-1",
    "store-scan-1",
    "store-write",
    "sweeper",
    "timer",
    "usage",
    "watch",
];

/// Tasks and threads that exist only on a self-hosted node on PostgreSQL where people sign in.
const SHARED: [&str; 7] = [
    "console",
    "hints",
    "license",
    "people",
    "store-0",
    "store-1",
    "store-channel",
];

/// Configuration of a node where people sign in.
const SIGN_IN: &str = "advertise_url = \"https://engine.example\"\n\
    [[sign_in.oidc]]\nname = \"okta\"\nissuer = \"https://idp.example/\"\nclient_id = \"c-1\"\n\
    client_secret = \"hush\"\ntrusted_domains = [\"example.com\"]\ndefault_role = \"member\"\n";

/// Options of a node that logs the name of each task.
fn options() -> NodeOptions {
    NodeOptions::default()
        .with_few_connections()
        .env("SORTIE_LOG_FILTER", "info,sortie_base=debug")
}

/// Names of the tasks that a node has started. For threads of one kind only the first is listed.
fn started(log: &str) -> BTreeSet<&str> {
    log.lines()
        .filter_map(|line| line.split_once("starting a ")?.1.split_once("task=\""))
        .filter_map(|(_, name)| name.split('"').next())
        .filter(|name| !name.ends_with(|last: char| ('2'..='9').contains(&last)))
        .collect()
}

async fn panics_end(mut node: Node, tasks: &[&str]) -> Checked {
    node.stop().await?;
    for task in tasks {
        node.set_env(PANIC_IN, task);
        let before = node.log().len();
        let status = node.restart_until_ended().await?;
        let log = node.log().split_off(before);
        ensure!(status.code() == Some(70), "{task} panicked, and then: {status}");
        let named = format!("task=\"{task}\"");
        let says = |line: &str| line.contains("a task of the node panicked") && line.contains(&named);
        ensure!(log.lines().any(says), "{task} panicked, and the log is:\n{log}");
    }
    node.set_env(PANIC_IN, "");
    node.restart().await?;
    node.stop().await
}

#[tokio::test]
async fn a_node_ends_when_any_of_its_tasks_panics_on_sqlite() -> Checked {
    let stripe = StripeDouble::start().await?;
    let options = options()
        .env("SORTIE_STRIPE_SECRET_KEY", stripe.secret_key())
        .env("SORTIE_STRIPE_WEBHOOK_SECRETS", "whsec_hush")
        .env("SORTIE_STRIPE_API_URL", &stripe.url());
    let binary = env!("CARGO_BIN_EXE_sortie");
    let hosted = HostedNode::start_with(binary, Database::Sqlite, options).await?;
    let log = hosted.node.log();
    assert_eq!(started(&log), BTreeSet::from(HOSTED));
    panics_end(hosted.node, &HOSTED).await
}

#[tokio::test]
async fn a_node_ends_when_any_of_its_tasks_panics_on_postgres() -> Checked {
    let folder = TempDir::new()?;
    let file = folder.path().join("sortie.toml");
    fs::write(&file, SIGN_IN)?;
    let options = options().env("SORTIE_CONFIG", &file.to_string_lossy());
    let node = Node::start_with(env!("CARGO_BIN_EXE_sortie"), Database::Postgres, options).await?;
    let log = node.log();
    let started = started(&log);
    let known: BTreeSet<&str> = HOSTED.into_iter().chain(SHARED).collect();
    let unknown: Vec<_> = started.difference(&known).collect();
    assert!(unknown.is_empty(), "no test kills {unknown:?}");
    assert!(SHARED.iter().all(|task| started.contains(task)), "{started:?}");
    panics_end(node, &SHARED).await
}
