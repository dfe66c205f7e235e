//! The folders below `examples/`: each `run.sh` is run in an empty folder against a fresh node with a scripted model of
//! Anthropic. The tests also compare what the runs cost with the table in `docs/COSTS.md`.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::Arc,
};

use axum::{Router, response::Html, routing::get};
use sortie_testkit::{
    ForwardProxy, ScriptedAnthropic,
    model::{Driver, Turn},
    node::DefaultModel,
    serve::Serving,
};
use tempfile::TempDir;

use crate::prelude::*;

/// Makes a test for each example; `EXAMPLES` lists them, so that none is forgotten.
macro_rules! examples {
    ($($test:ident = $name:literal),+ $(,)?) => {
        const EXAMPLES: &[&str] = &[$($name),+];

        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $test() -> Checked {
                $test::check($name).await
            }
        )+
    };
}

examples![
    report = "report",
    extraction = "extract",
    mcp_servers = "mcp",
    rest = "rest",
    research = "research",
    schedule = "schedule",
    zero_retention = "zero-retention",
    budgets = "budgets",
];

/// Folder of `examples/` with the programs of the clients' guides, which the tests of the clients run.
const CLIENTS: &str = "clients";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

#[test]
fn every_example_has_a_test_a_page_and_a_script() -> Checked {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder())? {
        let entry = entry?;
        let name = entry
            .file_name()
            .into_string()
            .map_err(|name| anyhow::anyhow!("{name:?}"))?;
        if entry.file_type()?.is_dir() && name != CLIENTS {
            for file in ["README.md", "run.sh"] {
                ensure!(
                    entry.path().join(file).is_file(),
                    "examples/{name}/{file} is missing"
                );
            }
            found.insert(name);
        }
    }
    let tested: BTreeSet<String> = EXAMPLES.iter().map(ToString::to_string).collect();
    assert_eq!(found, tested);
    Ok(())
}

/// A node with a scripted model, and an empty folder for the results.
struct Rig {
    node: Node,
    model: ScriptedAnthropic,
    results: TempDir,
}

impl Rig {
    /// Starts a node. `answer` maps the number of the model's earlier turns in a run, and the request, to a turn.
    async fn start(answer: impl FnMut(usize, &Value) -> Turn + Send + 'static) -> Result<Self> {
        Self::start_with(answer, NodeOptions::default()).await
    }

    async fn start_with(
        mut answer: impl FnMut(usize, &Value) -> Turn + Send + 'static,
        options: NodeOptions,
    ) -> Result<Self> {
        let driver: Driver = Box::new(move |request| answer(turns(request), request));
        let model = ScriptedAnthropic::driven(driver).await?;
        let options = NodeOptions {
            default_model: DefaultModel::Unset,
            ..options
                .env("ANTHROPIC_API_KEY", "sk-ant-scripted")
                .env("ANTHROPIC_BASE_URL", &model.base_url())
        };
        let node = node_with(Database::Sqlite, options).await?;
        let results = TempDir::new()?;
        Ok(Self { node, model, results })
    }

    /// Runs the script of an example. Returns its standard output.
    async fn run(&self, example: &str) -> Result<String> {
        let script = folder().join(example).join("run.sh").canonicalize()?;
        let programs = Path::new(env!("CARGO_BIN_EXE_sortie"))
            .parent()
            .context("a folder")?;
        let mut shell = bash();
        shell
            .arg(&script)
            .current_dir(self.results.path())
            .env_clear()
            .env(
                "PATH",
                format!("{}:/usr/local/bin:/usr/bin:/bin", programs.display()),
            )
            .env("HOME", self.results.path())
            .env("LANG", "C.UTF-8")
            .env("SORTIE_URL", self.node.url()?)
            .env("SORTIE_API_KEY", self.node.key());
        // The peers of the script answer while it runs.
        let output: Output = tokio::task::spawn_blocking(move || shell.output()).await??;
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        ensure!(
            output.status.success(),
            "{example}: {}\n{out}\n{err}",
            output.status
        );
        Ok(out)
    }

    /// Returns a file that the script has left.
    fn left(&self, name: &str) -> Result<String> {
        fs::read_to_string(self.results.path().join(name)).with_context(|| name.to_owned())
    }

    /// Compares the runs of an example with its row in the table of `docs/COSTS.md`: runs, calls of the model, tokens
    /// of input and output, and dollars, of all runs together. They may differ by a tenth, because the agent is shown
    /// the programs of the host.
    async fn costs_as_documented(&self, example: &str) -> Checked {
        let page = fs::read_to_string(folder().join("../docs/COSTS.md"))?;
        let start = format!("| [{example}](");
        let row = page.lines().find(|line| line.starts_with(&start));
        let row = row.with_context(|| format!("docs/COSTS.md has no row for {example}"))?;
        // Dollars have four decimal places.
        let documented: Vec<i64> = row
            .split('|')
            .filter_map(|cell| {
                let unit = if cell.contains('$') { 100 } else { 1 };
                let digits = cell.trim().replace(['$', ',', '.'], "");
                digits.parse().ok().map(|figure: i64| figure * unit)
            })
            .collect();
        let runs = self.node.client()?.list("").await?;
        let mut measured = [0; 5];
        for run in &runs {
            let usage = run.usage.context("a run without usage")?;
            let input = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens;
            let figures = [
                1,
                usage.model_calls,
                input,
                usage.output_tokens,
                run.cost_micros.get(),
            ];
            for (sum, figure) in measured.iter_mut().zip(figures) {
                *sum += figure;
            }
        }
        let is_near = |(found, expected): (&i64, &i64)| (found - expected).abs() * 10 <= *expected;
        ensure!(
            documented.len() == measured.len() && measured.iter().zip(&documented).all(is_near),
            "docs/COSTS.md has {row}; measured: {measured:?}"
        );
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "a reader has a shell")]
fn bash() -> Command {
    Command::new("bash")
}

/// Returns the number of turns that the model has taken in the conversation of a request.
fn turns(request: &Value) -> usize {
    let messages = request["messages"].as_array().map_or(&[][..], Vec::as_slice);
    messages
        .iter()
        .filter(|message| message["role"] == "assistant")
        .count()
}

/// Returns the output of the newest tool results, as the model reads it.
fn newest_result(request: &Value) -> String {
    let messages = request["messages"].as_array();
    messages
        .and_then(|messages| messages.last())
        .map(Value::to_string)
        .unwrap_or_default()
}

mod report {
    use super::*;

    const WORK: &str = r#"awk -F, 'NF != 6 || seen[$2]++ { exit 1 }' orders.csv || exit 1
mkdir -p outputs
awk -F, 'NR > 1 { orders[$3]++; revenue[$3] += $5 * $6 }
  END { for (region in orders) printf "%s,%d,%.2f\n", region, orders[region], revenue[region] }' orders.csv |
  sort -t, -k3,3nr >outputs/rows
{ echo region,orders,revenue; cat outputs/rows; } >outputs/revenue-by-region.csv
{ echo '# Sales'; awk -F, '{ sum += $3; printf "| %s | %d | %.2f |\n", $1, $2, $3 } END { printf "Total: %.2f\n", sum }' outputs/rows
} >outputs/report.md
rm outputs/rows
tail -n 1 outputs/report.md"#;

    pub(super) async fn check(name: &str) -> Checked {
        let rig = Rig::start(|turn, request| {
            if turn == 0 {
                return Turn::calls("shell", json!({"command": WORK}));
            }
            let read = newest_result(request);
            let total = read
                .split("Total: ")
                .nth(1)
                .map(|rest| rest.chars().take_while(|c| !"\\\"".contains(*c)).collect());
            Turn::says([total.unwrap_or_else(|| read.clone())])
        })
        .await?;
        let out = rig.run(name).await?;
        assert_contains!(out, "Total: ");
        let table = rig.left("report/revenue-by-region.csv")?;
        ensure!(
            table.starts_with("region,orders,revenue\n") && table.lines().count() > 3,
            "{table}"
        );
        let runs = rig.node.client()?.list("").await?;
        let total = out.split("Total: ").nth(1).context("a total")?.trim();
        assert_eq!(
            runs[0].output.as_deref(),
            Some(total),
            "the model has read the output of the command"
        );
        rig.costs_as_documented(name).await
    }
}

mod extraction {
    use super::*;

    pub(super) async fn check(name: &str) -> Checked {
        let expected = fs::read_to_string(folder().join("extract/expected.csv"))?;
        let rows: Arc<str> = expected.as_str().into();
        let rig =
            Rig::start(move |_, request| Turn::says([read_invoice(&request.to_string(), &rows)])).await?;
        let out = rig.run(name).await?;
        assert_contains!(out, "51 invoices.csv");
        assert_eq!(rig.left("invoices.csv")?, expected);
        assert_eq!(rig.model.requests().len(), 50);
        rig.costs_as_documented(name).await?;
        // After an interruption, only the missing answers are read.
        fs::remove_file(rig.results.path().join("answers/007.json"))?;
        rig.run(name).await?;
        assert_eq!(rig.model.requests().len(), 51);
        assert_eq!(rig.left("invoices.csv")?, expected);
        Ok(())
    }

    /// Plays the model: finds the number of the invoice in the text that it was sent, and answers with its row.
    fn read_invoice(request: &str, rows: &str) -> String {
        let row = rows.lines().skip(1).map(|row| row.split(',').collect::<Vec<_>>());
        let mut of_request = row.filter(|row| request.contains(row[1]));
        let Some(row) = of_request.next() else {
            return "there is no invoice in the request".to_owned();
        };
        let total: f64 = row[4].parse().unwrap_or_default();
        json!({"number": row[1], "vendor": row[2], "date": row[3], "total": total, "currency": row[5]})
            .to_string()
    }
}

mod mcp_servers {
    use super::*;

    pub(super) async fn check(name: &str) -> Checked {
        let rig = Rig::start(|turn, request| {
            if turn == 0 {
                return ["espresso", "filter", "decaf"].iter().fold(
                    Turn::says(["I ask both warehouses."]),
                    |turn, product| {
                        let arguments = json!({"product": product});
                        turn.and_calls("berlin__stock", arguments.clone())
                            .and_calls("porto__stock", arguments)
                    },
                );
            }
            let read = newest_result(request);
            Turn::says([format!("140 is there: {} times", read.matches("140").count())])
        })
        .await?;
        let out = rig.run(name).await?;
        assert_contains!(out, "140 is there: 2 times");
        let token = "a-long-random-text";
        assert_lacks!(json!(rig.model.requests()).to_string(), token);
        rig.costs_as_documented(name).await
    }
}

mod rest {
    use super::*;

    pub(super) async fn check(name: &str) -> Checked {
        let rig = Rig::start(|turn, request| match turn {
            0 => Turn::calls("shop__request", json!({"method": "DELETE", "path": "orders"})),
            1 => Turn::calls(
                "shop__request",
                json!({"method": "GET", "path": "orders", "query": {"status": "open"}}),
            ),
            _ => {
                let read = newest_result(request);
                let is_right = read.contains("Edsger") && read.contains("Ada") && !read.contains("Grace");
                Turn::says([if is_right {
                    "3: 260.00\n1: 41.50\nSum: 301.50"
                } else {
                    "no orders"
                }])
            }
        })
        .await?;
        let out = rig.run(name).await?;
        assert_contains!(out, "Sum: 301.50");
        let requests = json!(rig.model.requests()).to_string();
        assert_lacks!(requests, "a-long-random-text");
        // The other method was refused to the model, before it was sent.
        assert_contains!(requests, "method must be one of");
        rig.costs_as_documented(name).await
    }
}

mod research {
    use super::*;

    const PAGE: &str = "<html><head><title>Releases</title></head><body><article><h1>Debian releases</h1><p>The current \
                        stable distribution of Debian is version 13, codenamed trixie. Security support ends on 2028-08-09.\
                        </p></article></body></html>";

    pub(super) async fn check(name: &str) -> Checked {
        let site = Serving::start(
            Router::new()
                .route("/releases/", get(|| async { Html(PAGE) }))
                .route(
                    "/robots.txt",
                    get(|| async { "User-agent: *\nDisallow: /private/\n" }),
                ),
        )
        .await?;
        let proxy = ForwardProxy::start()
            .await?
            .leading("www.debian.org:80", site.address());
        let options = NodeOptions::default()
            .env("SORTIE_NETWORK_PROXY", &format!("http://{}", proxy.address()))
            .env("SORTIE_NETWORK_PROXY_RESOLVES", "true");
        let rig = Rig::start_with(
            |turn, request| match turn {
                0 => Turn::calls("web_fetch", json!({"url": "http://example.com/"})),
                1 => Turn::calls("web_fetch", json!({"url": "http://www.debian.org/releases/"})),
                _ => {
                    let until = newest_result(request)
                        .contains("2028-08-09")
                        .then_some("2028-08-09");
                    let sources = ["http://www.debian.org/releases/"];
                    Turn::says([
                        json!({"release": "13", "supported_until": until, "sources": sources}).to_string(),
                    ])
                }
            },
            options,
        )
        .await?;
        let out = rig.run(name).await?;
        assert_contains!(out, "2028-08-09");
        ensure!(
            proxy.asked().iter().all(|asked| asked.contains("www.debian.org")),
            "{:?}",
            proxy.asked()
        );
        rig.costs_as_documented(name).await
    }
}

mod schedule {
    use super::*;

    const WORK: &str = "awk -F, 'NR > 1 && $4 > $3 { print $1, $2 }' orders.csv";

    pub(super) async fn check(name: &str) -> Checked {
        let rig = Rig::start(|turn, request| {
            if turn == 0 {
                return Turn::calls("shell", json!({"command": WORK}));
            }
            let read = newest_result(request);
            let is_right =
                read.contains("1002 Grace") && read.contains("1004 Barbara") && !read.contains("1003");
            Turn::says([if is_right {
                "1004, Barbara: 4 days\n1002, Grace: 2 days"
            } else {
                "none"
            }])
        })
        .await?;
        let out = rig.run(name).await?;
        assert_contains!(out, " succeeded\n1004, Barbara: 4 days\n1002, Grace: 2 days");
        rig.costs_as_documented(name).await
    }
}

mod zero_retention {
    use super::*;

    fn files_below(folder: &Path, found: &mut Vec<PathBuf>) -> Checked {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            match entry.file_type()? {
                kind if kind.is_dir() => files_below(&entry.path(), found)?,
                kind if kind.is_file() => found.push(entry.path()),
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) async fn check(name: &str) -> Checked {
        let rig = Rig::start(|_, request| {
            let has_letter = request.to_string().contains("a fever of 39.2");
            Turn::says([if has_letter { "high" } else { "there is no letter" }])
        })
        .await?;
        let out = rig.run(name).await?;
        assert_eq!(out, "first read: high\nsecond read: none\n");
        let mut files = Vec::new();
        files_below(rig.node.data_dir(), &mut files)?;
        ensure!(files.iter().any(|file| file.ends_with("sortie.db")), "{files:?}");
        for file in files {
            let content = fs::read(&file)?;
            ensure!(
                !text(&content).contains("fever"),
                "{} has the letter",
                file.display()
            );
        }
        rig.costs_as_documented(name).await
    }
}

mod budgets {
    use super::*;

    pub(super) async fn check(name: &str) -> Checked {
        let rig = Rig::start(|_, _| Turn::says(["A budget says how much may be spent."])).await?;
        let out = rig.run(name).await?;
        assert_eq!(
            out.matches("A budget says how much may be spent.").count(),
            2,
            "{out}"
        );
        assert_contains!(out, "max_cost_micros is 3000000, and ");
        assert_contains!(out, "organization");
        rig.costs_as_documented(name).await
    }
}
