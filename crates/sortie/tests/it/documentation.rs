//! Tests the documentation: every block marked `sh` of a page is run, in order, in one shell, against a fresh node.
//! Blocks that only show something are marked otherwise (`console`, `json`).
//!
//! A page fails where a block is not whole, runs no command or does not reach its end, where a command fails, and where
//! the API refuses a request.

use std::{
    fmt::Write as _,
    ops::Deref,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use sortie_base::LicenseSigner;
use sortie_testkit::{
    ScriptedAnthropic, ScriptedGemini, ScriptedModel, ScriptedServer, model::Turn, node::DefaultModel,
};
use tempfile::TempDir;

use crate::prelude::*;

/// Makes a test for each page; `PAGES` lists them, so that none is forgotten.
macro_rules! pages {
    ($($test:ident = $page:literal),+ $(,)?) => {
        const PAGES: &[&str] = &[$($page),+];

        $(
            #[tokio::test]
            async fn $test() -> Checked {
                works($page).await
            }
        )+
    };
}

pages![
    the_readme_works = "README.md",
    the_page_of_curl_works = "docs/HTTP.md",
    the_quick_start_of_claude_works = "docs/quickstarts/CLAUDE.md",
    the_quick_start_of_openai_works = "docs/quickstarts/OPENAI.md",
    the_quick_start_of_gemini_works = "docs/quickstarts/GEMINI.md",
    the_quick_start_of_ollama_works = "docs/quickstarts/OLLAMA.md",
    the_quick_start_of_vllm_works = "docs/quickstarts/VLLM.md",
    the_quick_start_of_cron_works = "docs/quickstarts/CRON.md",
    the_quick_start_of_github_actions_works = "docs/quickstarts/GITHUB-ACTION.md",
    the_quick_start_of_n8n_works = "docs/quickstarts/N8N.md",
    the_page_of_troubleshooting_works = "docs/TROUBLESHOOTING.md",
    the_page_of_the_command_line_works = "docs/CLI.md",
    the_page_of_programs_works = "docs/PROGRAMS.md",
    the_page_of_the_api_works = "docs/API.md",
    the_page_of_runs_works = "docs/RUNS.md",
    the_page_of_runs_on_the_command_line_works = "docs/CLI-RUNS.md",
    the_page_of_engines_works = "docs/ENGINES.md",
    the_page_of_workflows_works = "docs/WORKFLOWS.md",
    the_page_of_schedules_works = "docs/SCHEDULES.md",
    the_page_of_files_works = "docs/FILES.md",
    the_page_of_callbacks_works = "docs/CALLBACKS.md",
    the_page_of_browsers_works = "docs/BROWSER.md",
    the_page_of_the_mcp_server_works = "docs/MCP.md",
    the_page_of_zero_data_retention_works = "docs/ZERO-DATA-RETENTION.md",
    the_page_of_administration_works = "docs/ADMINISTRATION.md",
    the_page_of_budgets_works = "docs/BUDGETS.md",
    the_page_of_metrics_works = "docs/METRICS.md",
    the_page_of_operations_works = "docs/OPERATIONS.md",
    the_page_of_hosted_deployments_works = "docs/HOSTED.md",
    the_page_of_oauth_works = "docs/OAUTH.md",
    the_page_of_accounts_works = "docs/ACCOUNTS.md",
    the_page_of_billing_works = "docs/BILLING.md",
    the_page_of_licenses_works = "docs/LICENSES.md",
];

/// Page with commands that read the admin key from the data folder.
const README: &str = "README.md";

/// Other pages with agents that use a language model.
const WITH_MODEL: [&str; 2] = ["docs/HTTP.md", "docs/CLI.md"];

/// Pages with commands for a node of a hosted deployment.
const HOSTED: [&str; 4] = [
    "docs/HOSTED.md",
    "docs/OAUTH.md",
    "docs/ACCOUNTS.md",
    "docs/BILLING.md",
];

/// Page with commands for a self-hosted engine, next to a hosted deployment that issues licenses.
const LICENSES: &str = "docs/LICENSES.md";

/// Folder of the quick starts. Their reader has no engine, except on the page below.
const QUICK_STARTS: &str = "docs/quickstarts/";

/// Quick start with commands for an engine.
const QUICK_START_WITH_ENGINE: &str = "docs/quickstarts/N8N.md";

/// Scripted model server of any protocol.
type Server = dyn Deref<Target = ScriptedServer> + Send + Sync;

/// Scripted provider of the language model that the agents of a page use.
struct Provider {
    /// Environment of the reader, and of the engine.
    environment: Vec<(&'static str, String)>,
    /// Address of the reader's own model server in the page, and that of the scripted one.
    address: Option<(&'static str, String)>,
    server: Box<Server>,
}

impl Provider {
    /// Starts the provider of a page, if its agents use a language model.
    async fn start(page: &str) -> Result<Option<Self>> {
        let with_key = |key, address, server: Box<Server>| Self {
            environment: vec![(key, "scripted".to_owned()), (address, server.base_url())],
            address: None,
            server,
        };
        let own = |address, server: ScriptedModel| Self {
            environment: Vec::new(),
            address: Some((address, server.base_url())),
            server: Box::new(server),
        };
        Ok(Some(match page {
            "docs/quickstarts/OPENAI.md" => {
                let server = ScriptedModel::driven(Box::new(late_orders)).await?;
                with_key("OPENAI_API_KEY", "OPENAI_BASE_URL", Box::new(server))
            }
            "docs/quickstarts/GEMINI.md" => {
                let server = ScriptedGemini::driven(Box::new(late_orders)).await?;
                with_key("GEMINI_API_KEY", "GEMINI_BASE_URL", Box::new(server))
            }
            "docs/quickstarts/OLLAMA.md" => own(
                "http://127.0.0.1:11434/v1",
                ScriptedModel::driven(Box::new(late_orders)).await?,
            ),
            "docs/quickstarts/VLLM.md" => own(
                "http://127.0.0.1:8000/v1",
                ScriptedModel::driven(Box::new(late_orders)).await?,
            ),
            _ if page == README || WITH_MODEL.contains(&page) || page.starts_with(QUICK_STARTS) => {
                let server = ScriptedAnthropic::driven(Box::new(late_orders)).await?;
                with_key("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", Box::new(server))
            }
            _ => return Ok(None),
        }))
    }
}

/// Plays the model: reads the file of the run with a command, and answers with what the command has found.
fn late_orders(request: &Value) -> Turn {
    let seen = request.to_string();
    if seen.contains("1002,Grace,2026-11-03,2026-11-05") {
        Turn::says(["Order 1004 is 4 days late, order 1002 is 2 days late."])
    } else if seen.contains("1002,2026-11-03,2026-11-05") {
        Turn::says(["Order 1002 is 2 days late."])
    } else if seen.contains("change.diff") {
        Turn::calls("shell", json!({"command": "cat change.diff"}))
    } else if seen.contains("orders.csv") {
        Turn::calls(
            "shell",
            json!({"command": "awk -F, 'NR > 1 && $NF > $(NF - 1)' orders.csv"}),
        )
    } else {
        Turn::says(["There is no file."])
    }
}

/// Nodes that the commands of a page reach.
struct Nodes {
    /// Node of `SORTIE_URL`.
    engine: Node,
    /// Node of `ACCOUNTS_URL`, next to a self-hosted engine.
    hosted: Option<HostedNode>,
    /// Address of the organization API of the engine's own deployment.
    org_url: Option<String>,
}

impl Nodes {
    async fn start(page: &str, provider: Option<&Provider>) -> Result<Self> {
        let mut options = NodeOptions {
            default_model: DefaultModel::Unset,
            ..NodeOptions::default().env("SORTIE_SANDBOX_MINIMUM", "landlock")
        };
        for (name, value) in provider.iter().flat_map(|provider| &provider.environment) {
            options = options.env(name, value);
        }
        if page == LICENSES {
            let seed = "5c".repeat(32);
            let signer: LicenseSigner = seed.parse()?;
            let issues = options.clone().env("SORTIE_LICENSE_SIGNING_KEY", &seed);
            let hosted = crate::hosted_with(Database::Sqlite, issues).await?;
            let verifies = options.env("SORTIE_LICENSE_PUBLIC_KEYS", &signer.public().to_string());
            return Ok(Self {
                engine: node_with(Database::Sqlite, verifies).await?,
                org_url: None,
                hosted: Some(hosted),
            });
        }
        if HOSTED.contains(&page) {
            let hosted = crate::hosted_with(Database::Sqlite, options).await?;
            return Ok(Self {
                org_url: Some(hosted.org_url()),
                engine: hosted.node,
                hosted: None,
            });
        }
        Ok(Self {
            engine: node_with(Database::Sqlite, options).await?,
            hosted: None,
            org_url: None,
        })
    }

    /// Lets a shell reach the nodes.
    fn name_to(&self, shell: &mut Command) -> Checked {
        shell
            .env("SORTIE_URL", self.engine.url()?)
            .env("SORTIE_DATA_DIR", self.engine.data_dir())
            .env("SORTIE_API_KEY", self.engine.key());
        if let Some(hosted) = &self.hosted {
            let key = std::fs::read_to_string(hosted.node.data_dir().join("operator.key"))?;
            shell
                .env("ACCOUNTS_URL", hosted.org_url())
                .env("SORTIE_OPERATOR_KEY", key.trim());
        } else if let Some(org_url) = &self.org_url {
            shell.env("SORTIE_ORG_URL", org_url);
        }
        Ok(())
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Fenced block of a page.
struct Block {
    /// Number of its first line in the page.
    line: usize,
    /// Language of the block after the fence, such as `sh`.
    mark: String,
    is_indented: bool,
    text: String,
}

/// Mark of the blocks that are run.
const RUN: &str = "sh";

/// Languages by which a page could name a shell, although the test does not run such blocks.
const OTHER_SHELLS: [&str; 5] = ["bash", "shell", "shell-session", "zsh", "shellscript"];

/// Languages of the blocks that a reader pastes into a shell.
const PASTED: [&str; 3] = [RUN, "console", ""];

/// Returns the fence at the start of a line and its language, by the rules of `CommonMark`: at least three backticks or
/// tildes.
fn fence(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    let sign = line.chars().next().filter(|sign| "`~".contains(*sign))?;
    let mark = line.trim_start_matches(sign);
    let fence = line.strip_suffix(mark)?;
    (fence.len() >= 3 && !(sign == '`' && mark.contains(sign))).then(|| (fence, mark.trim()))
}

/// Finds the blocks of a page. A block ends at a fence that is at least as long as its first one: a block with a longer
/// fence may show a shorter one.
fn blocks(page: &str, text: &str) -> Result<Vec<Block>> {
    let mut found = Vec::new();
    let mut open: Option<(&str, Block)> = None;
    for (number, line) in (1..).zip(text.lines()) {
        match (&mut open, fence(line)) {
            (None, None) => {}
            (None, Some((opening, mark))) => {
                let block = Block {
                    line: number + 1,
                    mark: mark.to_owned(),
                    is_indented: line.starts_with(' '),
                    text: String::new(),
                };
                open = Some((opening, block));
            }
            (Some((opening, _)), Some((closing, ""))) if closing.starts_with(*opening) => {
                found.extend(open.take().map(|(_, block)| block));
            }
            (Some((_, block)), _) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
        }
    }
    ensure!(open.is_none(), "{page}: the last block has no end");
    Ok(found)
}

/// Finds the blocks of a page that are run.
fn commands(page: &str, text: &str) -> Result<Vec<Block>> {
    let mut found = blocks(page, text)?;
    for Block { line, mark, .. } in &found {
        ensure!(
            !OTHER_SHELLS.contains(&mark.as_str()),
            "{page}:{line}: mark the block `sh` to run it, or `console` to show it"
        );
    }
    found.retain(|block| block.mark == RUN);
    for Block {
        line, is_indented, ..
    } in &found
    {
        ensure!(!is_indented, "{page}:{line}: a block in a list is not run");
    }
    Ok(found)
}

#[expect(clippy::disallowed_methods, reason = "a reader has a shell")]
fn bash() -> Command {
    Command::new("bash")
}

/// Makes the shell script of a page. The script prints on standard error where each block begins, and at the end of
/// each the number of its commands.
fn script(page: &str, blocks: &[Block]) -> Result<String> {
    let mut script = "set -euo pipefail\n_ran=0\ntrap '_ran=$((_ran + 1))' DEBUG\n".to_owned();
    for Block { line, text, .. } in blocks {
        // Each block must be complete: an open quotation or here-document would swallow the next ones.
        let read = bash().args(["-nc", text]).output()?;
        let said = String::from_utf8_lossy(&read.stderr);
        ensure!(
            read.status.success() && said.is_empty(),
            "{page}:{line}: the block is not whole: {said}"
        );
        // The command of the end marker is counted too.
        let end = end(page, *line);
        write!(
            script,
            "echo '== {page}:{line}' >&2\n_ran=0\n{text}\necho \"{end} $((_ran - 1))\" >&2\n"
        )?;
    }
    Ok(script)
}

/// Returns the words at the end of a block, before the number of its commands.
fn end(page: &str, line: usize) -> String {
    format!("== {page}:{line} ended, commands:")
}

/// Checks the output of the script of a page.
fn check(page: &str, blocks: &[Block], output: &Output) -> Checked {
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    ensure!(output.status.success(), "{page}: {}\n{out}\n{err}", output.status);
    // An error of the API is a normal answer for curl.
    ensure!(
        !out.contains("\"code\":\""),
        "{page}: a request was refused\n{out}\n{err}"
    );
    // A shell that the page starts only warns about this, and its exit status stays 0.
    ensure!(
        !err.contains("delimited by end-of-file"),
        "{page}: a here-document has no end\n{err}"
    );
    for Block { line, .. } in blocks {
        let end = end(page, *line);
        let ran = err.lines().find_map(|said| said.strip_prefix(&end));
        let ran = ran.with_context(|| format!("{page}:{line}: the block did not reach its end\n{err}"))?;
        ensure!(ran.trim() != "0", "{page}:{line}: the block ran no command");
    }
    Ok(())
}

/// Runs a page against a fresh node, in a folder with the files that a reader has after a fresh clone.
async fn works(page: &str) -> Checked {
    let mut text = std::fs::read_to_string(root().join(page)).with_context(|| page.to_owned())?;
    let provider = Provider::start(page).await?;
    if let Some((readers, scripted)) = provider.as_ref().and_then(|provider| provider.address.as_ref()) {
        ensure!(text.contains(readers), "{page} does not have {readers}");
        text = text.replace(readers, scripted);
    }
    let blocks = commands(page, &text)?;
    ensure!(!blocks.is_empty(), "{page} has no block to run");
    let script = script(page, &blocks)?;
    let nodes = Nodes::start(page, provider.as_ref()).await?;
    let folder = TempDir::new()?;
    std::os::unix::fs::symlink(
        root().join("examples").canonicalize()?,
        folder.path().join("examples"),
    )?;
    std::fs::copy(root().join("README.md"), folder.path().join("README.md"))?;
    let binary = Path::new(env!("CARGO_BIN_EXE_sortie"));
    let programs = binary.parent().context("a binary lies in a folder")?;
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", programs.display());
    let mut shell = bash();
    shell
        .args(["-c", &script])
        .current_dir(folder.path())
        .env_clear()
        .env("PATH", path)
        .env("HOME", folder.path());
    if page.starts_with(QUICK_STARTS) && page != QUICK_START_WITH_ENGINE {
        shell.env("SORTIE_SANDBOX_MINIMUM", "landlock");
    } else {
        nodes.name_to(&mut shell)?;
    }
    shell.envs(provider.iter().flat_map(|provider| provider.environment.clone()));
    if page == README {
        // The reader of this page has the key only in the data folder.
        shell.env_remove("SORTIE_API_KEY");
        std::os::unix::fs::symlink(nodes.engine.data_dir(), folder.path().join("data"))?;
    }
    // The provider and the peers of a page answer while its commands run.
    let output = tokio::task::spawn_blocking(move || shell.output()).await??;
    check(page, &blocks, &output)?;
    if let Some(provider) = provider {
        let out = String::from_utf8_lossy(&output.stdout);
        ensure!(
            out.contains("rder 1002 is 2 days late"),
            "{page}: no agent has answered\n{out}"
        );
        ensure!(!provider.server.requests().is_empty(), "{page}");
    }
    Ok(())
}

/// Returns the name and the text of each page for users.
fn pages() -> Result<Vec<(String, String)>> {
    let mut paths = vec![root().join(README)];
    for folder in ["docs", QUICK_STARTS] {
        for entry in std::fs::read_dir(root().join(folder))? {
            paths.push(entry?.path());
        }
    }
    for entry in std::fs::read_dir(root().join("examples"))? {
        let page = entry?.path().join(README);
        if page.is_file() {
            paths.push(page);
        }
    }
    paths.retain(|path| path.extension().is_some_and(|kind| kind == "md"));
    let read = |path: PathBuf| {
        let name = path.strip_prefix(root())?.display().to_string();
        Ok((name, std::fs::read_to_string(path)?))
    };
    paths.into_iter().map(read).collect()
}

#[test]
fn every_page_with_commands_is_run() -> Result<()> {
    for (page, text) in pages()? {
        let has_commands = !commands(&page, &text)?.is_empty();
        ensure!(
            !has_commands || PAGES.contains(&page.as_str()),
            "{page} has commands that no test runs"
        );
    }
    Ok(())
}

/// An interactive shell such as zsh may not support comments: it would treat their words as commands or arguments.
#[test]
fn no_block_that_is_pasted_into_a_shell_has_a_comment() -> Result<()> {
    for (page, text) in pages()? {
        let mut pasted = blocks(&page, &text)?;
        pasted.retain(|block| PASTED.contains(&block.mark.as_str()));
        for Block { line, text, .. } in pasted {
            for (number, command) in (line..).zip(text.lines()) {
                let has_comment = command.split_whitespace().any(|word| word.starts_with('#'));
                ensure!(!has_comment, "{page}:{number}: {command}");
            }
        }
    }
    Ok(())
}

/// Runs a page that needs no node.
fn run_alone(text: &str) -> Checked {
    let blocks = commands("page", text)?;
    let script = script("page", &blocks)?;
    let output = bash().args(["-c", &script]).output()?;
    check("page", &blocks, &output)
}

#[test]
fn a_page_that_does_not_run_as_it_is_written_fails() -> Result<()> {
    run_alone("```sh\ntrue\n```\n````sh\ncat >/dev/null <<'END'\n```answer\nhello\n```\nEND\n````\n")?;
    for (text, expected) in rows! {
        // If lines are wrapped, the end of a here-document is lost, and the next lines become its content.
        "```sh\ncat >/dev/null <<'END'\na END true\n```\n\n```sh\nfalse\n```\n", "delimited by end-of-file";
        "```sh\nbash -c 'cat >/dev/null <<END'\n```\n", "a here-document has no end";
        "```sh\necho 'a\n```\n\n```sh\nfalse '\n```\n", "not whole";
        "```sh\n# true\n```\n", "ran no command";
        "```sh\ntrue\n```\n\n```sh\n\n```\n", "page:6: the block ran no command";
        "```sh\ntrue\nexit 0\n```\n\n```sh\nfalse\n```\n", "did not reach its end";
        "```sh\ntrue\n```\n\n```sh\nfalse\n```\n", "exit status: 1";
        "```sh\ntrue\n", "has no end";
        "```bash\ntrue\n```\n", "mark the block `sh`";
        "- a\n\n  ```sh\n  true\n  ```\n", "in a list";
    } {
        let failure = run_alone(text).err().with_context(|| format!("works: {text}"))?;
        ensure!(format!("{failure:#}").contains(expected), "{text}: {failure:#}");
    }
    Ok(())
}
