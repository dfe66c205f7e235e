//! The metrics, read by the Prometheus project's own parsers: the strict one of `OpenMetrics`, and that of the older
//! text format, which many agents still use. `promtool` checks the latter.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use sortie_testkit::{peers::installed, prelude::*};
use tempfile::TempDir;

use crate::{peer, succeeds};

/// Prints every family with its type and its number of samples, and the samples of one family.
const SCRIPT: &str = "
import json, sys
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client import parser as text
written = open('metrics.txt').read()
families = {}
for family in openmetrics.text_string_to_metric_families(written):
    assert family.name not in families, family.name
    assert family.documentation, family.name
    families[family.name] = [family.type, len(family.samples)]
    for sample in family.samples:
        if sample.name == 'sortie_http_requests_total':
            families.setdefault('requests', []).append([sample.labels, sample.value])

def all_samples(parser, name):
    families = parser.text_string_to_metric_families(open(name).read())
    return {(s.name, tuple(sorted(s.labels.items()))) for f in families for s in f.samples}

older, newer = all_samples(text, 'metrics.prom'), all_samples(openmetrics, 'metrics.txt')
assert len(older) > 60, len(older)
assert older == newer, older ^ newer
for family in text.text_string_to_metric_families(open('metrics.prom').read()):
    assert family.documentation, family.name
    assert family.type not in ('unknown', 'info'), family.name
json.dump(families, sys.stdout)
";

#[tokio::test]
async fn the_metrics_are_what_prometheus_reads() -> Result<()> {
    let node = Node::start(env!("CARGO_BIN_EXE_sortie"), Database::Sqlite).await?;
    let client = node.client()?;
    let request = json!({"prompt": "x", "shell": false});
    client.complete(&request).await?;
    let folder = TempDir::new()?;
    let (open_metrics, prometheus) = tokio::try_join!(
        metrics(
            &client,
            "application/openmetrics-text; version=1.0.0",
            "application/openmetrics-text; version=1.0.0; charset=utf-8"
        ),
        metrics(&client, "*/*", "text/plain; version=0.0.4; charset=utf-8"),
    )?;
    std::fs::write(folder.path().join("metrics.txt"), &open_metrics)?;
    std::fs::write(folder.path().join("metrics.prom"), &prometheus)?;
    let printed = succeeds(peer("venv/bin/python", &folder)?.args(["-c", SCRIPT]))?;
    let families: Value = serde_json::from_str(&printed)?;
    for (name, kind) in [
        ("sortie_build", "info"),
        ("sortie_runs_finished", "counter"),
        ("sortie_queue_depth", "gauge"),
        ("sortie_dispatch_delay_seconds", "histogram"),
        ("sortie_model_call_duration_seconds", "histogram"),
        ("process_cpu_seconds", "counter"),
        ("process_open_fds", "gauge"),
    ] {
        ensure!(families[name][0] == kind, "{name}: {}", families[name]);
    }
    let created = json!([{"method": "POST", "route": "/v1/runs", "status": "2xx"}, 1]);
    let requests = families["requests"].as_array();
    ensure!(
        requests.is_some_and(|requests| requests.contains(&created)),
        "{}",
        families["requests"]
    );
    Ok(())
}

/// Returns the answer to this `Accept`, which must have this media type.
async fn metrics(client: &Client, accept: &'static str, media_type: &str) -> Result<String> {
    let client = client.anonymous().with_header("accept", accept);
    let answer = client.get("/metrics").expect(200).await?;
    ensure!(
        answer.header("content-type")? == media_type,
        "{accept}: {answer:?}"
    );
    ensure!(answer.header("vary")? == "accept", "{answer:?}");
    Ok(answer.text())
}

/// Runs `promtool check metrics` on a text. Returns its complaints.
fn complaints(text: &str) -> Result<String> {
    #[expect(clippy::disallowed_methods, reason = "a test starts what others wrote")]
    let mut check = Command::new(installed("deb/usr/bin/promtool")?)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    check
        .stdin
        .take()
        .context("no standard input")?
        .write_all(text.as_bytes())?;
    let output = check.wait_with_output()?;
    let said = [output.stdout, output.stderr].concat();
    Ok(format!(
        "{}{}",
        if output.status.success() { "" } else { "failed: " },
        String::from_utf8_lossy(&said)
    ))
}

#[tokio::test]
async fn promtool_has_no_complaint_about_the_metrics() -> Result<()> {
    let node = Node::start(env!("CARGO_BIN_EXE_sortie"), Database::Sqlite).await?;
    let client = node.client()?;
    client.complete(&json!({"prompt": "x", "shell": false})).await?;
    let text = metrics(&client, "*/*", "text/plain; version=0.0.4; charset=utf-8").await?;
    let said = complaints(&text)?;
    ensure!(said.is_empty(), "{said}");
    let said = complaints(&text.replace("_total", "_sum"))?;
    ensure!(said.starts_with("failed: "), "promtool takes anything: {said}");
    Ok(())
}
