//! Third-party programs, in the versions that `scripts/peers` installs.

use std::{
    env,
    ffi::OsStr,
    io::{BufRead, BufReader, Write as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;

use crate::{
    Client,
    ports::{free_ports, listens},
};

/// Time for which a peer may be silent: Python is slow on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// Interval of checks whether a peer listens, because there is no notification.
const LOOK: Duration = Duration::from_millis(20);

/// Number of ports to try, in case other processes take one first.
const TRIES: usize = 5;

/// Returns the folder of the peers.
pub fn folder() -> PathBuf {
    #[expect(
        clippy::disallowed_methods,
        reason = "where the peers are is no setting of the node"
    )]
    let given = env::var_os("SORTIE_PEERS");
    let folder = given.map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers"),
        PathBuf::from,
    );
    // Resolves the folder only: Python's program is a link that depends on its location.
    folder.canonicalize().unwrap_or(folder)
}

/// Returns the path of a peer's file, or fails with the command that installs it.
pub fn installed(path: &str) -> Result<PathBuf> {
    let path = folder().join(path);
    ensure!(path.exists(), "{} is missing: run scripts/peers", path.display());
    Ok(path)
}

/// Makes a command of a peer. `scripts/node` provides the programs that the peer starts by name, such as `node`.
pub fn command(program: impl AsRef<OsStr>) -> Result<Command> {
    #[expect(
        clippy::disallowed_methods,
        reason = "a peer is no process of the node, and has the tests' environment"
    )]
    let (mut command, path) = (Command::new(program), env::var_os("PATH"));
    let path = path.unwrap_or_default();
    let folders = std::iter::once(installed("node/bin")?).chain(env::split_paths(&path));
    command.env("PATH", env::join_paths(folders)?);
    Ok(command)
}

/// A running peer that writes lines to its standard output. Dropping it ends it.
#[derive(Debug)]
pub struct Peer {
    child: Child,
    input: Option<ChildStdin>,
    lines: Mutex<Receiver<String>>,
}

impl Peer {
    /// Starts a program.
    pub fn start(program: &Path, arguments: &[&str]) -> Result<Self> {
        Self::spawn(command(program)?.args(arguments))
    }

    /// Starts a command.
    pub fn spawn(command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .with_context(|| format!("{command:?}: run scripts/peers"))?;
        let input = child.stdin.take();
        let out = child.stdout.take().context("the peer has no standard output")?;
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                // The receiver may be gone. The output is still read, so that the peer never blocks.
                let _told = tell.send(line);
            }
        });
        let lines = Mutex::new(lines);
        Ok(Self { child, input, lines })
    }

    fn lines(&self) -> MutexGuard<'_, Receiver<String>> {
        self.lines.lock()
    }

    /// Waits for the next line. Fails if the peer ends or stays silent.
    pub fn line(&self) -> Result<String> {
        self.lines()
            .recv_timeout(PATIENCE)
            .context("the peer says no more")
    }

    /// Waits for the next line, which is JSON.
    pub fn json(&self) -> Result<Value> {
        let line = self.line()?;
        serde_json::from_str(&line).with_context(|| format!("a line that is no JSON: {line}"))
    }

    /// Waits until the peer listens on a port. Returns false if it exits first.
    pub fn listens_on(&mut self, port: u16) -> Result<bool> {
        let begun = Instant::now();
        while self.child.try_wait()?.is_none() {
            if listens(self.child.id(), port) {
                return Ok(true);
            }
            ensure!(begun.elapsed() < PATIENCE, "the peer does not listen on {port}");
            std::thread::sleep(LOOK);
        }
        Ok(false)
    }

    /// Whether all output of the peer was read.
    pub fn is_quiet(&self) -> bool {
        self.lines().try_recv().is_err()
    }

    /// Writes a line of JSON to the standard input of the peer.
    pub fn tell(&mut self, line: &Value) -> Result<()> {
        let input = self.input.as_mut().context("the peer has no standard input")?;
        writeln!(input, "{line}")?;
        Ok(input.flush()?)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The process may have exited already.
        let _killed = self.child.kill();
        let _waited = self.child.wait();
    }
}

/// The mail server maildev with one user, and a list of the mails that it has accepted.
#[derive(Debug)]
pub struct Maildev {
    peer: Peer,
    smtp: u16,
    web: u16,
}

impl Maildev {
    /// Starts the server and waits until it is ready.
    pub fn start() -> Result<Self> {
        let program = installed("npm/node_modules/.bin/maildev")?;
        let mut ports = free_ports();
        for _ in 0..TRIES {
            let mut port = || ports.next().context("no free port");
            let (smtp, web) = (port()?, port()?);
            let (smtp_text, web_text) = (smtp.to_string(), web.to_string());
            let arguments = [
                "--ip",
                "127.0.0.1",
                "--smtp",
                &smtp_text,
                "--web",
                &web_text,
                "--web-ip",
                "127.0.0.1",
                "--incoming-user",
                "sortie",
                "--incoming-pass",
                "p:ss",
                // Logs each mail.
                "--verbose",
            ];
            let peer = Peer::start(&program, &arguments)?;
            let mut ready = 0;
            while ready < 2
                && let Ok(line) = peer.line()
            {
                ready += usize::from(line.contains("running at"));
            }
            if ready == 2 {
                return Ok(Self { peer, smtp, web });
            }
        }
        anyhow::bail!("maildev is not ready")
    }

    /// Returns the address of the server for a configuration, with the user and the password.
    pub fn smtp_url(&self) -> String {
        self.smtp_url_of("p%3Ass")
    }

    /// Returns the address of the server with another password, percent-encoded.
    pub fn smtp_url_of(&self, password: &str) -> String {
        format!("smtp://sortie:{password}@127.0.0.1:{}", self.smtp)
    }

    /// Waits for the next mail to an address with a subject that begins with `subject`. Mails to others are skipped.
    pub async fn next_mail(&self, address: &str, subject: &str) -> Result<Value> {
        let mut passed_over = Vec::new();
        loop {
            let line = self.peer.line();
            let line = line.with_context(|| format!("no {subject} to {address} among {passed_over:?}"))?;
            let Some((_, id)) = line
                .rsplit_once(", id: ")
                .filter(|_| line.contains("Saving email"))
            else {
                continue;
            };
            let mail = mails_at(self.web).await?;
            let mail = mail.into_iter().find(|mail| text(mail, "/id") == Some(id.trim()));
            let mail = mail.with_context(|| format!("maildev has no mail {id}"))?;
            let of = text(&mail, "/subject").unwrap_or_default();
            if text(&mail, "/to/0/address") == Some(address) && of.starts_with(subject) {
                return Ok(mail);
            }
            passed_over.push(of.to_owned());
        }
    }
}

/// Returns the mails that maildev lists on this port, oldest first.
async fn mails_at(port: u16) -> Result<Vec<Value>> {
    let client = Client::new(SocketAddr::from(([127, 0, 0, 1], port)), None);
    client.get("/email").read(200).await
}

fn text<'a>(mail: &'a Value, pointer: &str) -> Option<&'a str> {
    mail.pointer(pointer)?.as_str()
}
