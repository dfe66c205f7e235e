//! A PostgreSQL server for a single test, for tests that stop it. It is started from the installed programs in a
//! temporary folder. All tests share the one of `scripts/test-postgres`, which never stops.
//!
//! Commits are written to the system before they are acknowledged, so that they survive the death of the server's
//! processes; they are not synced to the disk, because no test simulates a power cut.

use std::{
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tempfile::TempDir;

use crate::postgres_statements::{execute, rows};

/// Way to stop a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Open transactions are rolled back, everything is written, and then the server ends.
    Fast,
    /// The processes end at once, as after a crash: the next start recovers from the log.
    Immediate,
}

/// The server. Dropping it ends it and removes its data.
#[derive(Debug)]
pub struct PostgresServer {
    programs: PathBuf,
    folder: TempDir,
    address: SocketAddr,
    /// Additional settings, each as `name=value`.
    settings: Vec<String>,
}

/// Attempts, in case another process takes the port between the check and the start.
const TRIES: usize = 10;

impl PostgresServer {
    /// Makes an empty cluster and starts the server.
    pub async fn start() -> Result<Self> {
        Self::start_with(&[]).await
    }

    /// Starts a server with settings such as `fsync=on`, which override those of [`start`](Self::start).
    pub async fn start_with(settings: &[&str]) -> Result<Self> {
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let started = tokio::task::spawn_blocking(|| {
            let server = Self::new(settings)?;
            let folder = server.data();
            let folder = folder.to_str().context("a path that is no text")?;
            let arguments = ["-D", folder, "-U", "postgres", "-A", "trust", "-E", "UTF8"];
            server.run(
                "initdb",
                &[&arguments[..], &["--locale=C.UTF-8", "--no-sync"]].concat(),
            )?;
            server.up_somewhere()
        });
        started.await?
    }

    /// Starts a standby that follows this server by streaming replication.
    pub async fn standby(&self) -> Result<Self> {
        let primary = format!("host=127.0.0.1 port={} user=postgres", self.address.port());
        let started = tokio::task::spawn_blocking(move || {
            let server = Self::new(Vec::new())?;
            let folder = server.data();
            let folder = folder.to_str().context("a path that is no text")?;
            let arguments = ["-R", "-X", "stream", "-c", "fast", "--no-sync"];
            server.run(
                "pg_basebackup",
                &[&["-D", folder, "-d", &primary], &arguments[..]].concat(),
            )?;
            server.up_somewhere()
        });
        started.await?
    }

    /// Promotes a standby, and returns when it accepts writes.
    pub fn promote(&self) -> Result<()> {
        self.control(&["-w", "promote"])
    }

    /// Turns a stopped server into a standby from its next start on: it accepts sessions and refuses writes.
    pub fn demote(&self) -> Result<()> {
        std::fs::write(self.data().join("standby.signal"), "")?;
        give_to_owner(&self.data())
    }

    /// The rows of a query on its first database.
    pub async fn rows(&self, sql: &str) -> Result<Vec<Value>> {
        rows(&self.url(), sql).await
    }

    /// Runs statements on its first database, each in a separate transaction.
    pub async fn execute(&self, statements: &[&str]) -> Result<()> {
        for statement in statements {
            execute(&self.url(), (*statement).to_owned()).await?;
        }
        Ok(())
    }

    /// An empty folder for a server.
    fn new(settings: Vec<String>) -> Result<Self> {
        let server = Self {
            programs: programs()?,
            folder: tempfile::Builder::new().prefix("sortie-postgres-").tempdir()?,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            settings,
        };
        give_to_owner(server.folder.path())?;
        Ok(server)
    }

    /// Starts it on some free port.
    fn up_somewhere(mut self) -> Result<Self> {
        let mut last = None;
        for _ in 0..TRIES {
            self.address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
            match self.up() {
                Ok(()) => return Ok(self),
                Err(error) => last = Some(error),
            }
        }
        Err(last.context("no try")?)
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The address of its first database.
    pub fn url(&self) -> String {
        format!("postgres://postgres@{}/postgres", self.address)
    }

    /// Returns the address of the server, also while it is down.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops the server, and returns when it is gone.
    pub fn stop(&self, how: Shutdown) -> Result<()> {
        let mode = match how {
            Shutdown::Fast => "fast",
            Shutdown::Immediate => "immediate",
        };
        self.control(&["-m", mode, "-w", "stop"])
    }

    /// Starts it again, on the same address and data, and returns when it accepts connections.
    pub fn up(&self) -> Result<()> {
        // A killed server would leave its shared memory in `/dev/shm` for good. In a file, it is removed with the
        // folder.
        let mut settings = format!(
            "-p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off -c max_connections=100 \
             -c shared_buffers=32MB -c log_min_messages=warning -c dynamic_shared_memory_type=mmap",
            self.address.port()
        );
        for setting in &self.settings {
            settings.push_str(" -c ");
            settings.push_str(setting);
        }
        let log = self.folder.path().join("server.log");
        let log = log.to_str().context("a path that is no text")?;
        self.control(&["-w", "-t", "60", "-l", log, "-o", &settings, "start"])
    }

    fn control(&self, arguments: &[&str]) -> Result<()> {
        let folder = self.data();
        let folder = folder.to_str().context("a path that is no text")?;
        self.run("pg_ctl", &[&["-D", folder], arguments].concat())
    }

    /// Runs one of the server's programs to its end. The programs refuse to run as root, so this uses another user.
    fn run(&self, program: &str, arguments: &[&str]) -> Result<()> {
        let path = self.programs.join(program);
        let mut command = as_owner(&path);
        // The output goes to a file: a pipe that the server inherits and keeps open would block this test.
        let said = tempfile::tempfile()?;
        let status = command
            .args(arguments)
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(said.try_clone()?)
            .stderr(said.try_clone()?)
            .status()
            .with_context(|| format!("{} does not start", path.display()))?;
        if !status.success() {
            let log = std::fs::read_to_string(self.folder.path().join("server.log")).unwrap_or_default();
            bail!("{program} {arguments:?}: {status}\n{log}");
        }
        Ok(())
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // An error is ignored: the server may be down already.
        let _stopped = self.stop(Shutdown::Immediate);
    }
}

/// User of the server if the tests run as root: the user of its package.
pub(crate) const OWNER: &str = "postgres";

/// A command that does not run as root, which the programs of PostgreSQL refuse.
pub(crate) fn as_owner(program: &Path) -> Command {
    if !rustix::process::geteuid().is_root() {
        #[expect(clippy::disallowed_methods, reason = "a peer is no process of the node")]
        return Command::new(program);
    }
    let ids = [format!("--reuid={OWNER}"), format!("--regid={OWNER}")];
    #[expect(clippy::disallowed_methods, reason = "a peer is no process of the node")]
    let mut command = Command::new("setpriv");
    command.args(ids).arg("--clear-groups").arg("--").arg(program);
    command
}

/// Makes the user of [`as_owner`] the owner of a folder and its files.
pub(crate) fn give_to_owner(folder: &Path) -> Result<()> {
    if rustix::process::geteuid().is_root() {
        #[expect(clippy::disallowed_methods, reason = "a peer is no process of the node")]
        let chown = Command::new("chown")
            .args(["-R", &format!("{OWNER}:")])
            .arg(folder)
            .status()?;
        ensure!(chown.success(), "the folder cannot be given to {OWNER}");
    }
    Ok(())
}

/// Returns the folder with the programs of the newest installed server and of its clients (`pg_dump`, `psql`).
pub fn programs() -> Result<PathBuf> {
    let of = |folder: &str| -> Vec<PathBuf> {
        let Ok(versions) = std::fs::read_dir(folder) else {
            return Vec::new();
        };
        versions
            .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
            .filter(|bin| bin.join("initdb").exists() && bin.join("pg_ctl").exists())
            .collect()
    };
    let mut found = of("/usr/lib/postgresql");
    found.sort_by_key(|bin| version(bin));
    found
        .pop()
        .context("PostgreSQL's server programs (initdb, pg_ctl) are needed in /usr/lib/postgresql: install the package postgresql")
}

/// The number in `/usr/lib/postgresql/15/bin`.
fn version(bin: &Path) -> u32 {
    bin.parent()
        .and_then(Path::file_name)
        .and_then(|name| name.to_str()?.parse().ok())
        .unwrap_or_default()
}
