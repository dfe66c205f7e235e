//! Documents for operators about the metrics: the page with the table, the dashboard and the alerts. They name only
//! series that exist, and the table names all of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use super::Reading;
use crate::prelude::*;

fn file(path: &str) -> Result<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).with_context(|| path.display().to_string())
}

/// A family as the node announces it: its type and its help text.
#[derive(Debug, Default, PartialEq, Eq)]
struct Family {
    kind: String,
    help: String,
    labels: BTreeSet<String>,
}

/// Returns the metrics of a node, by the names that queries use. A request is sent first, so that request metrics
/// exist.
async fn shown() -> Result<(Reading, BTreeMap<String, Family>)> {
    shown_by(&node(Database::Sqlite).await?).await
}

async fn shown_by(node: &Node) -> Result<(Reading, BTreeMap<String, Family>)> {
    let client = node.client()?;
    client.get("/v1/models").expect(200).await?;
    let reading = Reading::of(&client).await?;
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    for line in reading.text.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            families.entry(name.to_owned()).or_default().help = help.to_owned();
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            families.entry(name.to_owned()).or_default().kind = kind.to_owned();
        }
    }
    for series in reading.series.keys() {
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let found = ["", "_total", "_info", "_bucket", "_sum", "_count"]
            .iter()
            .find_map(|suffix| families.get_key_value(name.strip_suffix(suffix)?));
        let family = found
            .with_context(|| format!("{name} is not announced"))?
            .0
            .clone();
        let labels = labels.trim_end_matches('}').split(',').filter_map(|label| {
            let (name, _) = label.split_once("=\"")?;
            (name != "le").then(|| name.to_owned())
        });
        families.entry(family).or_default().labels.extend(labels);
    }
    let named = families
        .into_iter()
        .map(|(name, family)| {
            let name = match &*family.kind {
                "counter" => name + "_total",
                "info" => name + "_info",
                _ => name,
            };
            (name, family)
        })
        .collect();
    Ok((reading, named))
}

/// The naming conventions of `promtool check metrics`.
#[tokio::test]
async fn names_follow_the_conventions_and_every_family_is_explained() -> Checked {
    let (_, families) = shown().await?;
    ensure!(families.len() > 50, "{families:?}");
    for (name, family) in &families {
        ensure!(
            name.starts_with("sortie_") || name.starts_with("process_"),
            "{name}"
        );
        ensure!(
            name.bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_'),
            "{name}"
        );
        ensure!(
            family.help.len() > 20 && family.help.ends_with('.') && !family.help.ends_with(".."),
            "{name}: {}",
            family.help
        );
        let base = name.trim_end_matches("_total").trim_end_matches("_info");
        for reserved in ["_total", "_info", "_bucket", "_count", "_sum", "_created"] {
            ensure!(
                !base.ends_with(reserved),
                "{name} ends with a suffix of another type"
            );
        }
        for unit in [
            "milliseconds",
            "_ms",
            "minutes",
            "hours",
            "kilobytes",
            "megabytes",
            "percent",
            "dollars",
        ] {
            ensure!(!name.contains(unit), "{name}: not a base unit");
        }
        for kind in ["counter", "gauge", "histogram"] {
            ensure!(!base.ends_with(kind), "{name} names its type");
        }
        ensure!(
            ["counter", "gauge", "histogram", "info"].contains(&&*family.kind),
            "{name}: {}",
            family.kind
        );
        if family.kind == "histogram" {
            ensure!(
                name.ends_with("_seconds") || name.ends_with("_commands"),
                "{name} has no unit"
            );
        }
        for label in &family.labels {
            ensure!(!base.ends_with(&format!("_by_{label}")), "{name}: {label}");
        }
    }
    Ok(())
}

/// A node of a hosted deployment that takes payments, although no server answers for Stripe.
async fn hosted() -> Result<HostedNode> {
    let options = NodeOptions::default()
        .env("SORTIE_STRIPE_SECRET_KEY", "sk_test_x")
        .env("SORTIE_STRIPE_WEBHOOK_SECRETS", "whsec_x")
        .env("SORTIE_STRIPE_API_URL", "http://127.0.0.1:1");
    crate::hosted_with(Database::Sqlite, options).await
}

/// Returns the metrics of a hosted node, a superset of those of a self-hosted one.
async fn shown_hosted() -> Result<(Reading, BTreeMap<String, Family>)> {
    shown_by(&hosted().await?.node).await
}

/// Types and labels of series, by the names.
type Series = BTreeMap<String, (String, BTreeSet<String>)>;

fn series(families: BTreeMap<String, Family>) -> Series {
    families
        .into_iter()
        .map(|(name, family)| (name, (family.kind, family.labels)))
        .collect()
}

/// Reads the tables of series in a page.
fn documented(page: &str) -> Result<Series> {
    let mut documented = BTreeMap::new();
    for line in file(page)?
        .lines()
        .filter(|line| line.starts_with("| `sortie_") || line.starts_with("| `process_"))
    {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [name, kind, labels, _] = cells[..] else {
            continue;
        };
        let labels: BTreeSet<String> = labels
            .split(',')
            .map(|label| label.trim().trim_matches('`').to_owned())
            .filter(|label| !label.is_empty())
            .collect();
        documented.insert(name.trim_matches('`').to_owned(), (kind.to_owned(), labels));
    }
    Ok(documented)
}

/// Compares the existing series with those in the tables of a page.
fn compare(there: &Series, page: &str) -> Checked {
    let documented = documented(page)?;
    let missing: Vec<_> = there
        .iter()
        .filter(|(name, of)| documented.get(*name) != Some(of))
        .collect();
    let invented: Vec<_> = documented
        .iter()
        .filter(|(name, of)| there.get(*name) != Some(of))
        .collect();
    ensure!(
        missing.is_empty() && invented.is_empty(),
        "not as in {page}: {missing:#?}\nnot as in the metrics: {invented:#?}"
    );
    Ok(())
}

#[tokio::test]
async fn the_page_has_a_line_for_every_series() -> Checked {
    let (_, mut families) = shown().await?;
    // Each database has additional series.
    families.extend(shown_by(&node(Database::Postgres).await?).await?.1);
    compare(&series(families), "docs/METRICS.md")
}

#[tokio::test]
async fn the_page_of_hosted_deployments_has_a_line_for_every_series_that_only_they_have() -> Checked {
    let (_, families) = shown_hosted().await?;
    let general = documented("docs/METRICS.md")?;
    let mut own = series(families);
    own.retain(|name, _| !general.contains_key(name));
    compare(&own, "docs/HOSTED.md")
}

/// Words of a query that look like series.
fn series_of(query: &str) -> impl Iterator<Item = &str> {
    query
        .split(|character: char| !character.is_ascii_alphanumeric() && character != '_')
        .filter(|word| word.starts_with("sortie_") || word.starts_with("process_"))
}

/// Checks that a query uses existing series and groups by their labels. Returns the number of series.
fn check(query: &str, reading: &Reading, families: &BTreeMap<String, Family>) -> Result<usize> {
    let names: BTreeSet<&str> = reading.names().collect();
    let mut labels: BTreeSet<&str> = ["instance", "job", "le"].into();
    let mut count = 0;
    for name in series_of(query) {
        ensure!(names.contains(name), "{name} of `{query}` is not there");
        let family = ["", "_bucket", "_sum", "_count"]
            .iter()
            .find_map(|suffix| families.get(name.strip_suffix(suffix)?));
        labels.extend(family.context(name.to_owned())?.labels.iter().map(String::as_str));
        count += 1;
    }
    for part in query.split("by (").skip(1) {
        let grouped = part.split(')').next().unwrap_or_default();
        for label in grouped.split(',').map(str::trim) {
            ensure!(labels.contains(label), "`{query}` groups by {label}");
        }
    }
    for part in query.split('{').skip(1) {
        let selected = part.split('}').next().unwrap_or_default();
        for label in selected.split(',').filter(|label| !label.is_empty()) {
            let label = label.split(['=', '!']).next().unwrap_or_default().trim();
            ensure!(labels.contains(label), "`{query}` selects by {label}");
        }
    }
    Ok(count)
}

/// Every query of a panel, and of the panels in it.
fn queries<'a>(panel: &'a Value, found: &mut Vec<&'a str>) {
    for target in panel["targets"].as_array().into_iter().flatten() {
        found.extend(target["expr"].as_str());
    }
    for inner in panel["panels"].as_array().into_iter().flatten() {
        queries(inner, found);
    }
}

#[tokio::test]
async fn the_dashboard_asks_for_what_is_there() -> Checked {
    let (reading, families) = shown_hosted().await?;
    let dashboard: Value = serde_json::from_str(&file("deploy/grafana/sortie.json")?)?;
    let mut found = Vec::new();
    let (mut ids, mut rows) = (BTreeSet::new(), Vec::new());
    for panel in dashboard["panels"].as_array().context("no panels")? {
        ensure!(
            ids.insert(panel["id"].as_u64().context("no id")?),
            "an id is there twice: {panel}"
        );
        if panel["type"] == "row" {
            rows.push(panel["title"].as_str().context("no title")?);
            continue;
        }
        let before = found.len();
        queries(panel, &mut found);
        ensure!(found.len() > before, "nothing is asked: {panel}");
        ensure!(
            panel["datasource"]["uid"] == "${datasource}",
            "another source: {panel}"
        );
        ensure!(
            panel["description"].as_str().is_some_and(|text| text.len() > 20),
            "not explained: {panel}"
        );
    }
    let wanted = [
        "Overview",
        "Queue and dispatch",
        "Runs",
        "Models and cost",
        "Tools and sandbox",
        "Callbacks",
        "Store",
        "Cluster",
        "Process",
        "Credits",
        "Payments",
    ];
    assert_eq!(rows, wanted);
    let source = &dashboard["templating"]["list"][0];
    assert_has!(source, {"name": "datasource", "type": "datasource", "query": "prometheus"});
    ensure!(found.len() > 40, "{found:?}");
    for query in found {
        ensure!(
            check(query, &reading, &families).with_context(|| query.to_owned())? > 0,
            "{query}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn the_alerts_ask_for_what_is_there() -> Checked {
    let (reading, families) = shown_hosted().await?;
    let alerts: Value = serde_saphyr::from_str(&file("deploy/prometheus/alerts.yml")?)?;
    let mut names = BTreeSet::new();
    for group in alerts["groups"].as_array().context("no groups")? {
        for rule in group["rules"].as_array().context("no rules")? {
            let name = rule["alert"].as_str().context("no name")?;
            ensure!(names.insert(name), "{name} is there twice");
            let query = rule["expr"].as_str().context("no query")?;
            // `up` is Prometheus' own.
            let own = check(query, &reading, &families).with_context(|| name.to_owned())?;
            ensure!(own > 0 || query.contains("up{"), "{query}");
            for text in ["summary", "description"] {
                ensure!(rule["annotations"][text].is_string(), "{name} has no {text}");
            }
            let severity = rule["labels"]["severity"].as_str();
            ensure!(
                matches!(severity, Some("critical" | "warning")),
                "{name}: {severity:?}"
            );
        }
    }
    ensure!(names.len() >= 8, "{names:?}");
    Ok(())
}
