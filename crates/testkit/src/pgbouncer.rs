//! PgBouncer for a single test, in front of a PostgreSQL server.

use std::{
    net::{SocketAddr, TcpListener},
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result};
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::{
    postgres_server::{OWNER, as_owner, give_to_owner},
    until,
};

/// Time for which a session keeps a connection to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolMode {
    /// For the length of the session.
    Session,
    /// For one transaction.
    Transaction,
}

/// The pooler. Dropping it ends it.
#[derive(Debug)]
pub struct Pgbouncer {
    process: Child,
    address: SocketAddr,
    _folder: TempDir,
}

impl Pgbouncer {
    /// Starts a pooler in front of the server; `None` if the program is not installed.
    pub async fn start(server: SocketAddr, mode: PoolMode) -> Result<Option<Self>> {
        let Some(program) = program() else {
            return Ok(None);
        };
        let folder = tempfile::Builder::new().prefix("sortie-pgbouncer-").tempdir()?;
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let mode = match mode {
            PoolMode::Session => "session",
            PoolMode::Transaction => "transaction",
        };
        let settings = folder.path().join("pgbouncer.ini");
        let text = format!(
            "[databases]\n* = host={} port={} user={OWNER}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {}\n\
             unix_socket_dir =\nauth_type = any\npool_mode = {mode}\ndefault_pool_size = 50\n\
             ignore_startup_parameters = extra_float_digits\n",
            server.ip(),
            server.port(),
            address.port()
        );
        std::fs::write(&settings, text)?;
        give_to_owner(folder.path())?;
        let process = as_owner(program.as_ref())
            .arg(&settings)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("{program} does not start"))?;
        let pooler = Self {
            process,
            address,
            _folder: folder,
        };
        let connect = async || Ok(TcpStream::connect(address).await);
        until("pgbouncer to take connections", connect, Result::is_ok).await??;
        Ok(Some(pooler))
    }

    /// Address on which the pooler listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Pgbouncer {
    fn drop(&mut self) {
        // Already gone is as good.
        let _killed = self.process.kill();
        let _reaped = self.process.wait();
    }
}

/// Path of the program; Debian installs it outside the usual `PATH`.
fn program() -> Option<&'static str> {
    ["pgbouncer", "/usr/sbin/pgbouncer"].into_iter().find(|program| {
        #[expect(clippy::disallowed_methods, reason = "a peer is no process of the node")]
        let mut command = Command::new(program);
        command
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    })
}
