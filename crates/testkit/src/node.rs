//! The real binary as a child process: it uses a free port, waits until the binary reports ready, and kills it on drop.
//!
//! The log is kept, and shown if the test fails.

mod history;
mod log;
mod options;

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use sortie_api::{
    KeyId, OrgId, Role, RunId, Timestamp,
    secret::{SELF_HOSTED_KEY, Secret},
};
use tempfile::TempDir;
use tokio::time::timeout;

use self::log::Log;
pub use self::{
    history::History,
    options::{DefaultModel, LogOnDrop, NodeOptions},
};
use crate::{
    PATIENCE,
    client::Client,
    database::{Database, Records, SQLITE_FILE},
    postgres_statements::execute,
    sqlite_file::file_rows,
    until,
};

/// Variable with the model of runs that name none.
const DEFAULT_MODEL: &str = "SORTIE_DEFAULT_MODEL";

/// Number of lines that are printed from the end of a log.
const PRINTED_LINES: usize = 300;

/// A node: a data folder, a database, and the process on them, if one is up.
#[derive(Debug)]
pub struct Node {
    binary: PathBuf,
    options: NodeOptions,
    data: TempDir,
    records: Records,
    key: String,
    process: Option<Process>,
    /// Log of earlier processes of this node.
    earlier_log: String,
}

#[derive(Debug)]
struct Process {
    child: Child,
    address: SocketAddr,
    log: Log,
}

impl Node {
    /// Starts the binary on an empty, migrated database of this kind, and waits until it is ready.
    pub async fn start(binary: &str, database: Database) -> Result<Self> {
        Self::start_with(binary, database, NodeOptions::default()).await
    }

    /// Starts a node with options.
    pub async fn start_with(binary: &str, database: Database, options: NodeOptions) -> Result<Self> {
        Self::on(binary, database.migrated(binary).await?, options, None).await
    }

    /// Every value in every table, if the records are in PostgreSQL; empty if they are in the data folder.
    pub async fn dump(&self) -> Result<Vec<(String, Vec<u8>)>> {
        match &self.records {
            Records::InDataFolder { .. } => Ok(Vec::new()),
            Records::Shared(database) => database.dump().await,
        }
    }

    /// Another node on the same PostgreSQL database, with a separate data folder.
    pub async fn beside(&self) -> Result<Self> {
        ensure!(
            matches!(self.records, Records::Shared(_)),
            "two nodes cannot share one SQLite file"
        );
        self.beside_with(self.options.clone()).await
    }

    /// Starts another node on the same database with options.
    pub async fn beside_with(&self, options: NodeOptions) -> Result<Self> {
        let (binary, key) = (self.binary.to_string_lossy(), self.key.clone());
        Self::on(&binary, self.records.clone(), options, Some(key)).await
    }

    /// A node with a separate data folder on these records. `key` is the first admin key if another node has made it.
    pub async fn on(
        binary: &str,
        records: Records,
        options: NodeOptions,
        key: Option<String>,
    ) -> Result<Self> {
        let parent = options.data_parent.clone().unwrap_or_else(std::env::temp_dir);
        let data = tempfile::Builder::new()
            .prefix("sortie-test-")
            .tempdir_in(parent)?;
        if let Records::InDataFolder { copy_of: Some(file) } = &records {
            fs::copy(file, data.path().join(SQLITE_FILE))
                .with_context(|| format!("cannot copy {}", file.display()))?;
        }
        let mut node = Self {
            binary: binary.into(),
            options,
            data,
            records,
            key: String::new(),
            process: None,
            earlier_log: String::new(),
        };
        node.restart().await?;
        node.key = match key {
            Some(key) => key,
            None => fs::read_to_string(node.data_dir().join("admin.key"))
                .context("the node wrote no admin.key")?
                .trim()
                .to_owned(),
        };
        Ok(node)
    }

    /// Starts the process again, on the same data, after [`kill`](Self::kill) or [`stop`](Self::stop), and waits
    /// until it is ready. Returns how long that took.
    pub async fn restart(&mut self) -> Result<Duration> {
        let begun = Instant::now();
        self.restart_unready().await?;
        self.wait_until_ready().await?;
        Ok(begun.elapsed())
    }

    /// Starts the process again as [`restart`](Self::restart) does, and waits until it logs its address.
    pub async fn restart_unready(&mut self) -> Result<()> {
        let (child, log) = self.begin()?;
        let listening = log.wait_for(address_in).await;
        // From here on the process has an owner, which kills it and shows its log on any failure.
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let address = listening.as_ref().ok().copied().unwrap_or(nowhere);
        self.process = Some(Process { child, address, log });
        listening.context("the node tells no address").map(drop)
    }

    /// Starts the process again, on the same data, and waits until it exits unprompted.
    pub async fn restart_until_ended(&mut self) -> Result<ExitStatus> {
        let (child, log) = self.begin()?;
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        self.process = Some(Process { child, address, log });
        self.ended().await
    }

    /// Starts the process.
    fn begin(&self) -> Result<(Child, Log)> {
        ensure!(self.process.is_none(), "the node is up");
        let mut child = self
            .command()
            .spawn()
            .with_context(|| format!("cannot start {}", self.binary.display()))?;
        let log = Log::of(&mut child);
        Ok((child, log))
    }

    async fn wait_until_ready(&self) -> Result<()> {
        let client = Client::new(self.address()?, None);
        until(
            "the node to be ready",
            async || Ok(client.get("/readyz").await),
            |answer| answer.as_ref().is_ok_and(|answer| answer.status == 200),
        )
        .await??;
        Ok(())
    }

    fn command(&self) -> Command {
        let mut command = binary_command(&self.binary);
        let listen = self.options.listen.map(|address| address.to_string());
        command
            .args([
                "serve",
                "--listen",
                listen.as_deref().unwrap_or("127.0.0.1:0"),
                "--data-dir",
            ])
            .arg(self.data.path());
        if let Records::Shared(database) = &self.records {
            let url = self.options.database_url.as_deref();
            command.args(["--database-url", url.unwrap_or(database.url())]);
        }
        command.args(&self.options.arguments);
        let environment = &self.options.environment;
        let has_file = environment.iter().any(|(name, _)| name == "SORTIE_CONFIG");
        if has_file || self.options.default_model == DefaultModel::Unset {
            command.env_remove(DEFAULT_MODEL);
        }
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// The command line for this node: the binary with the environment of a test and this node's data folder.
    pub fn sortie(&self, arguments: &[&str]) -> Command {
        let mut command = binary_command(&self.binary);
        command.args(arguments).arg("--data-dir").arg(self.data.path());
        command
    }

    /// Replaces the binary for later starts.
    pub fn set_binary(&mut self, binary: &str) {
        self.binary = binary.into();
    }

    /// Sets a variable for later starts.
    pub fn set_env(&mut self, name: &str, value: &str) {
        let environment = &mut self.options.environment;
        environment.retain(|(known, _)| known != name);
        environment.push((name.to_owned(), value.to_owned()));
    }

    /// The folder of the node's data.
    pub fn data_dir(&self) -> &Path {
        self.data.path()
    }

    /// Returns the working folder of this node's runs without retention; `None` before its first start.
    pub fn memory_dir(&self) -> Option<PathBuf> {
        let name = self.name().ok()?;
        Some(Path::new("/dev/shm").join(format!("sortie-{name}")))
    }

    /// The first admin key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Sets the key of clients: on a hosted deployment, that of an organization.
    pub fn set_key(&mut self, key: &str) {
        key.clone_into(&mut self.key);
    }

    /// Returns the address of the node. Fails if the node is down.
    pub fn address(&self) -> Result<SocketAddr> {
        Ok(self.process.as_ref().context("the node is down")?.address)
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> Result<String> {
        Ok(format!("http://{}", self.address()?))
    }

    /// A client with the first admin key.
    pub fn client(&self) -> Result<Client> {
        Ok(Client::new(self.address()?, Some(self.key.clone())))
    }

    /// A client of another organization, which is added to the shared database. `nth` numbers such organizations.
    pub async fn foreign_client(&self, nth: u8) -> Result<Client> {
        let key = self.add_organization(nth).await?;
        Ok(self.client()?.with_key(&key))
    }

    /// Adds an organization directly to the database, because a self-hosted engine never creates a second one. Returns
    /// its admin key. `nth` numbers such organizations. If the records are in the node's data folder, the node must be
    /// down.
    pub async fn add_organization(&self, nth: u8) -> Result<String> {
        let at = Timestamp::from_micros(1_700_000_000_000_000);
        let (org, key) = (OrgId::new(at, [nth; 10]), KeyId::new(at, [nth; 10]));
        let secret = Secret::new(SELF_HOSTED_KEY, [nth; 32]);
        let hash = secret
            .hash()
            .iter()
            .fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
        let hash = match &self.records {
            Records::InDataFolder { .. } => format!("X'{hash}'"),
            Records::Shared(_) => format!("'\\x{hash}'"),
        };
        let (made, role) = (at.as_micros(), Role::Admin);
        let sql = format!(
            "INSERT INTO organization (id, name, created_at) VALUES ('{org}', 'another', {made}); \
             INSERT INTO api_key (id, org_id, name, role, hash, created_at) \
             VALUES ('{key}', '{org}', 'its key', '{role}', {hash}, {made})"
        );
        self.meddle(&sql).await?;
        Ok(secret.expose().to_owned())
    }

    /// Changes the database of the node directly. The node must be down if its records are in its data folder.
    pub async fn meddle(&self, sql: &str) -> Result<()> {
        match &self.records {
            Records::InDataFolder { .. } => {
                ensure!(self.process.is_none(), "the node is up");
                let file = rusqlite::Connection::open(self.data_dir().join(SQLITE_FILE))?;
                Ok(file.execute_batch(sql)?)
            }
            Records::Shared(database) => execute(database.url(), sql.to_owned()).await,
        }
    }

    /// Name of the node, which is stored in its data folder.
    pub fn name(&self) -> Result<String> {
        let name = fs::read_to_string(self.data_dir().join("node_name"))?;
        Ok(name.trim().to_owned())
    }

    /// Declares the node lost, as other nodes do once its lease has expired, so that a test need not wait for that. The
    /// next sweep of another node takes over its runs.
    pub async fn declare_lost(&self) -> Result<()> {
        let name = self.name()?;
        self.meddle(&format!(
            "UPDATE node SET ended_at = CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT) \
             WHERE name = '{name}' AND ended_at IS NULL"
        ))
        .await
    }

    /// Moves all times of a run into the past by this duration. The node must be down.
    pub async fn age(&self, run: &RunId, by: Duration) -> Result<()> {
        ensure!(self.process.is_none(), "the node is up");
        let micros = by.as_micros();
        let sql = format!(
            "UPDATE run SET created_at = created_at - {micros}, started_at = started_at - {micros}, \
             finished_at = finished_at - {micros}, clock_started_at = clock_started_at - {micros}, \
             clock_cancelled_at = clock_cancelled_at - {micros} WHERE id = '{run}'"
        );
        match &self.records {
            Records::InDataFolder { .. } => {
                let file = rusqlite::Connection::open(self.data_dir().join(SQLITE_FILE))?;
                ensure!(file.execute(&sql, ())? == 1, "{run} is not there");
                Ok(())
            }
            Records::Shared(database) => execute(database.url(), sql).await,
        }
    }

    /// Locks a table of the `PostgreSQL` database for this time, against reads as well.
    pub async fn lock_table(&self, table: &str, time: Duration) -> Result<()> {
        let Records::Shared(database) = &self.records else {
            bail!("only a table of PostgreSQL can be locked");
        };
        let sql = format!(
            "BEGIN; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep({}); COMMIT",
            time.as_secs_f64()
        );
        execute(database.url(), sql).await
    }

    /// The rows of a query on the records of this node, each as an object with its columns. The node may be up or down.
    pub async fn rows(&self, sql: &str) -> Result<Vec<Value>> {
        match &self.records {
            Records::InDataFolder { .. } => file_rows(&self.data_dir().join(SQLITE_FILE), sql),
            Records::Shared(database) => database.rows(sql).await,
        }
    }

    /// Returns the address of the records of this node: `sqlite:PATH` or `postgres://…`.
    pub fn records_address(&self) -> String {
        self.records.address(self.data_dir())
    }

    /// The process id. Fails if the node is down.
    pub fn pid(&self) -> Result<u32> {
        Ok(self.process.as_ref().context("the node is down")?.child.id())
    }

    /// The output of the node so far, over all its starts.
    pub fn log(&self) -> String {
        let now = self
            .process
            .as_ref()
            .map(|process| process.log.text())
            .unwrap_or_default();
        format!("{}{now}", self.earlier_log)
    }

    /// Waits until the process has logged a line with this text. The process may have written it before the test reads
    /// it.
    pub async fn until_logged(&self, text: &str) -> Result<()> {
        let log = &self.process.as_ref().context("the node is down")?.log;
        log.wait_for(|line| line.contains(text).then_some(()))
            .await
            .with_context(|| format!("the log does not say {text:?}"))
    }

    /// Changes what the next start is given.
    pub fn options_mut(&mut self) -> &mut NodeOptions {
        &mut self.options
    }

    /// Kills the process as a power cut would, and waits until it is gone.
    pub fn kill(&mut self) -> Result<()> {
        let mut process = self.process.take().context("the node is down")?;
        process.child.kill()?;
        process.child.wait()?;
        self.earlier_log.push_str(&process.log.text());
        Ok(())
    }

    /// Asks the process to stop (SIGTERM) and returns at once.
    pub fn terminate(&self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// Sends the process a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.pid()?)
            .ok()
            .and_then(Pid::from_raw)
            .context("no process id")?;
        Ok(kill_process(pid, signal)?)
    }

    /// Waits until the process has exited unprompted.
    pub async fn ended(&mut self) -> Result<ExitStatus> {
        let process = self.process.as_mut().context("the node is down")?;
        timeout(PATIENCE, process.log.ended())
            .await
            .context("the node does not end")?;
        let status = process.child.wait()?;
        self.earlier_log.push_str(&process.log.text());
        self.process = None;
        Ok(status)
    }

    /// Stops the process gracefully. Fails unless it exits with status 0.
    pub async fn stop(&mut self) -> Result<()> {
        self.terminate()?;
        let status = self.ended().await?;
        if !status.success() {
            bail!("the node stopped with {status}");
        }
        Ok(())
    }
}

#[expect(
    clippy::print_stderr,
    reason = "the log of a node belongs to the report of the test that failed with it"
)]
impl Drop for Node {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            // Already gone is as good.
            let _killed = process.child.kill();
            let _reaped = process.child.wait();
        }
        // A killed node's files in memory would stay until its next start, and this node has none.
        if let Some(folder) = self.memory_dir() {
            remove(&folder);
        }
        if self.options.log == LogOnDrop::Print {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let end = lines
                .get(lines.len().saturating_sub(PRINTED_LINES)..)
                .unwrap_or_default();
            eprintln!("--- end of the node's log ---\n{}", end.join("\n"));
        }
    }
}

/// Removes the files in memory that a killed node has left, as far as possible.
#[expect(clippy::disallowed_methods, reason = "a test lays no tree that this fails on")]
fn remove(folder: &Path) {
    // Most nodes have none.
    let _removed = fs::remove_dir_all(folder);
}

/// The binary with the environment of a test: no provider keys, no address of an engine or collector, a rate limit too
/// high to matter, and the offline model as the default.
#[expect(clippy::disallowed_methods, reason = "the tests run the real binary")]
pub fn binary_command(binary: &Path) -> Command {
    let mut command = Command::new(binary);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let is_ours = text.starts_with("SORTIE_") || text.starts_with("OTEL_");
        if is_ours || text.ends_with("_API_KEY") || text.ends_with("_BASE_URL") {
            command.env_remove(&name);
        }
    }
    // No test reads the settings of the developer, or writes into the state folder.
    for folder in ["XDG_CONFIG_HOME", "XDG_STATE_HOME"] {
        command.env(folder, "/dev/null/none");
    }
    command.env("SORTIE_RATE_LIMIT_PER_MINUTE", "10000000");
    command.env(DEFAULT_MODEL, "runbook");
    command.env("SORTIE_SANDBOX_MINIMUM", "landlock");
    command
}

/// The address in a line such as `listening on http://127.0.0.1:8080`.
fn address_in(line: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once("http://")?;
    let end = rest
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ':'))
        .unwrap_or(rest.len());
    rest.get(..end)?
        .trim_end_matches(['.', ':'])
        .parse()
        .ok()
        .filter(|address: &SocketAddr| address.port() != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_found_in_text_and_in_json() {
        let expected = Some(SocketAddr::from(([127, 0, 0, 1], 4711)));
        assert_eq!(address_in("Sortie listens on http://127.0.0.1:4711"), expected);
        assert_eq!(
            address_in(r#"{"message":"listening","url":"http://127.0.0.1:4711"}"#),
            expected
        );
        assert_eq!(address_in("listening on http://127.0.0.1:4711."), expected);
        assert_eq!(address_in("listen = http://127.0.0.1:0"), None);
    }
}
