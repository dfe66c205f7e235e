//! Session on the simulated server, and its opening.

use std::{sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};

use super::{
    SimulatedLink, SimulatedServer,
    database::{Done, reported},
    faults::Fate,
    rows,
};
use crate::{
    Error, Result,
    postgres::SETTINGS,
    sessions::{Failure, FailureKind, Sent, Server, Session, error_of, read_only},
    tx::{Answer, Stmt},
};

/// First words of the statements that write.
const WRITES: [&str; 3] = ["INSERT", "UPDATE", "DELETE"];

/// Fate that a connection has drawn, and the commits that it has requested.
#[derive(Default)]
pub(super) struct ConnectionState {
    /// Fate of the next command, which uses it up.
    pub(super) fate: Fate,
    /// Number of commits that were requested.
    pub(super) commits: u32,
}

pub(super) type Drawn = Arc<Mutex<ConnectionState>>;

/// Server as one connection reaches it.
pub(super) struct SimulatedDial {
    pub(super) link: SimulatedLink,
    pub(super) drawn: Drawn,
}

impl Server for SimulatedDial {
    type Session = SimulatedSession;

    fn connect(&mut self) -> Result<SimulatedSession> {
        let away = || Error::Unavailable("the database cannot be reached".to_owned());
        let server = self
            .link
            .server()
            .filter(|_| self.link.is_reachable())
            .ok_or_else(away)?;
        let primary = {
            let state = server.state();
            if state.moved_at.is_some_and(|at| at > tokio::time::Instant::now()) {
                return Err(read_only());
            }
            state.primary
        };
        Ok(SimulatedSession {
            link: self.link.clone(),
            drawn: Arc::clone(&self.drawn),
            primary,
            resets: self.link.resets(),
            is_lost: false,
            reads_only: SETTINGS.contains("default_transaction_read_only = on"),
            transaction: None,
        })
    }

    // The connection is busy for a drawn time anyway.
    fn pause(&mut self, _: Duration) {}
}

/// Session on the server that was the primary when it was opened.
pub(super) struct SimulatedSession {
    link: SimulatedLink,
    drawn: Drawn,
    primary: u32,
    resets: u32,
    is_lost: bool,
    /// Whether transactions are read-only by default.
    reads_only: bool,
    transaction: Option<Transaction>,
}

/// An open transaction.
struct Transaction {
    done: Vec<Done>,
    /// Rows that the transaction locks.
    rows: Vec<u64>,
    reads_only: bool,
    /// Fate that COMMIT meets.
    ending: Fate,
}

/// Failure that the server reports by this code.
fn refused(code: &str, text: &str) -> Failure {
    Failure {
        error: error_of(code, format!("{text} ({code})")),
        kind: FailureKind::of(code),
    }
}

/// A failure of the simulation itself.
fn broken(error: &Error) -> Failure {
    refused("XX000", &error.to_string())
}

impl SimulatedSession {
    fn server(&mut self) -> Result<SimulatedServer, Failure> {
        let server = self.link.server().filter(|_| self.is_open());
        server.ok_or_else(|| self.lose())
    }

    /// Drops the connection. The open transaction is rolled back.
    fn lose(&mut self) -> Failure {
        self.is_lost = true;
        self.transaction = None;
        if let Some(server) = self.link.server()
            && let Err(error) = server.database().end("ROLLBACK")
        {
            tracing::error!(%error, "the simulated server cannot roll back");
        }
        Failure::silent()
    }

    fn state(&self) -> MutexGuard<'_, ConnectionState> {
        self.drawn.lock()
    }

    /// Whether the server of this session accepts writes.
    fn is_primary(&self, server: &SimulatedServer) -> bool {
        server.state().primary == self.primary
    }

    /// Begins a transaction. If that fails, the next statements run without one.
    fn begin(&mut self, server: &SimulatedServer, begin: &str, fate: Fate) -> Result<(), Failure> {
        if fate == Fate::BeginCancelled {
            let code = "57014";
            return Err(refused(code, "canceling statement due to user request").of_begin(Some(code)));
        }
        if begin.contains("READ WRITE") && !self.is_primary(server) {
            let code = "0A000";
            let text = "cannot set transaction read-write mode during recovery";
            return Err(refused(code, text).of_begin(Some(code)));
        }
        server
            .database()
            .begin(server.clock())
            .map_err(|error| broken(&error))?;
        self.transaction = Some(Transaction {
            done: Vec::new(),
            rows: Vec::new(),
            reads_only: self.reads_only && !begin.contains("READ WRITE"),
            ending: fate,
        });
        Ok(())
    }

    fn one(&mut self, server: &SimulatedServer, statement: &Stmt<'_>) -> Result<Answer, Failure> {
        let is_write = WRITES.iter().any(|word| statement.sql.starts_with(word));
        let reads_only = self
            .transaction
            .as_ref()
            .map_or(self.reads_only, |open| open.reads_only);
        if is_write && (reads_only || !self.is_primary(server)) {
            return Err(refused("25006", "cannot execute it in a read-only transaction"));
        }
        let answer = server.database().run(statement).map_err(|error| {
            let (code, text) = reported(&error);
            refused(code, &text)
        })?;
        server.note(answer.affected.wrapping_add((statement.sql.len() as u64) << 20));
        if let Some(transaction) = &mut self.transaction {
            if is_write && server.state().has_late_commits {
                rows::add(&mut transaction.rows, statement);
            }
            let owned = statement.params.iter().map(|value| value.clone().into_owned());
            transaction.done.push(Done {
                sql: statement.sql,
                params: if matches!(transaction.ending, Fate::Late(_)) {
                    owned.collect()
                } else {
                    Vec::new()
                },
                answer: answer.clone(),
            });
        }
        Ok(answer)
    }

    fn commit(&mut self, server: &SimulatedServer, transaction: Transaction) -> Result<(), Failure> {
        self.state().commits += 1;
        let ending = transaction.ending;
        let sql = if ending.commits() { "COMMIT" } else { "ROLLBACK" };
        server.database().end(sql).map_err(|error| broken(&error))?;
        if ending.commits() {
            server.state().locked.written(&transaction.rows);
            server.look_at_nodes(&self.link, &transaction.done);
        }
        if let Fate::Late(time) = ending {
            server.commit_later(self.link.clone(), transaction, time);
        }
        if ending.answers() {
            return Ok(());
        }
        self.is_lost = true;
        Err(Failure::silent())
    }
}

impl Session for SimulatedSession {
    fn is_open(&mut self) -> bool {
        !self.is_lost && self.link.resets() == self.resets
    }

    fn send(&mut self, begin: Option<&'static str>, statements: &[Stmt<'_>]) -> Sent {
        let server = self.server()?;
        let fate = std::mem::take(&mut self.state().fate);
        server.note(fate.number());
        if fate == Fate::Cut {
            return Err(self.lose());
        }
        let opened = match begin {
            Some(begin) if self.transaction.is_none() => self.begin(&server, begin, fate),
            // The simulation has no settings to change.
            Some(_) | None => Ok(()),
        };
        if begin.is_none() && self.transaction.is_none() {
            let clock = server.clock();
            server
                .database()
                .set_clock(clock)
                .map_err(|error| broken(&error))?;
        }
        let mut answers = Vec::with_capacity(statements.len());
        for statement in statements {
            let answer = match fate.refusal() {
                Some((code, text)) => Err(refused(code, text)),
                None => self.one(&server, statement),
            };
            let is_over = answer.is_err() && self.transaction.is_some();
            answers.push(answer);
            if is_over {
                break;
            }
        }
        opened.map(|()| answers)
    }

    fn end(&mut self, sql: &'static str) -> Result<(), Failure> {
        let server = self.server()?;
        match self.transaction.take() {
            Some(transaction) if sql == "COMMIT" => self.commit(&server, transaction),
            Some(_) => server.database().end("ROLLBACK").map_err(|error| broken(&error)),
            None => Ok(()),
        }
    }
}

impl SimulatedServer {
    /// Commits after the connection was lost. A real server would make others wait for the rows that the transaction
    /// has locked. Here the transaction is rolled back if others have written these rows by then.
    fn commit_later(&self, link: SimulatedLink, transaction: Transaction, time: Duration) {
        let shared = Arc::downgrade(&self.0);
        let since = self.state().locked.now();
        self.spawn(async move {
            tokio::time::sleep(time).await;
            let Some(server) = shared.upgrade().map(Self) else {
                return;
            };
            let Transaction { done, rows, .. } = transaction;
            if server.state().locked.were_written(&rows, since) {
                return;
            }
            let clock = server.clock();
            let repeated = server.database().repeat(&done, clock);
            match repeated {
                Ok(took_place) => {
                    server.note(u64::from(took_place));
                    if took_place {
                        server.state().locked.written(&rows);
                        server.look_at_nodes(&link, &done);
                    }
                }
                Err(error) => tracing::error!(%error, "a late commit cannot be repeated"),
            }
        });
    }
}
