//! The metrics, read by the Prometheus project's own parsers: the strict one of `OpenMetrics`, and that of the text format before
//! it, which many agents still read everything with.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sortie_testkit::{Database, Node};
use tempfile::TempDir;

use crate::{peer, succeeds};

/// Prints every family with its type and how many samples it has, and those of one of them.
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
older = {sample.name: sample.value for family in text.text_string_to_metric_families(written) for sample in family.samples}
assert len(older) > 60, len(older)
json.dump(families, sys.stdout)
";

#[tokio::test]
async fn the_metrics_are_what_prometheus_reads() -> Result<()> {
    let node = Node::start(env!("CARGO_BIN_EXE_sortie"), Database::Sqlite).await?;
    let client = node.client()?;
    let request = json!({"prompt": "x", "shell": false});
    client.complete(&request).await?;
    let answer = client.anonymous().get("/metrics").await?.expect(200)?;
    let folder = TempDir::new()?;
    std::fs::write(folder.path().join("metrics.txt"), &answer.body)?;
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
