//! One connection: prepared statements by the address of their text, and batches sent as a whole.

use std::{borrow::Cow, collections::HashMap, future::poll_fn, pin::Pin, task::Poll, time::Duration};

use bytes::BytesMut;
use futures_util::{
    TryStreamExt,
    future::{join_all, maybe_done},
};
use tokio::runtime::Runtime;
use tokio_postgres::{
    Client, Statement,
    error::SqlState,
    types::{IsNull, ToSql, Type, to_sql_checked},
};

use super::connect::describe;
use crate::{
    db::{
        Dialect,
        tx::{Answer, Stmt, Tx},
        value::{Row, Val},
    },
    types::{Error, Result},
};

/// How long the answer to a batch may take. The server gives up earlier; this is for one that is not there any more.
const ROUND_TRIP: Duration = Duration::from_secs(8);

type Driver<T> = std::result::Result<T, tokio_postgres::Error>;

/// A connection with its prepared statements.
pub(super) struct Session {
    client: Client,
    /// By the address and length of the text.
    statements: HashMap<(usize, usize), Statement>,
}

impl Session {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            statements: HashMap::new(),
        }
    }

    /// Whether the connection still stands, as far as is known after looking at what the server sent meanwhile.
    pub(super) fn is_open(&self, runtime: &Runtime) -> bool {
        runtime.block_on(tokio::task::yield_now());
        !self.client.is_closed()
    }

    /// Runs statements that take no parameters and return nothing of interest.
    pub(super) fn control(&mut self, runtime: &Runtime, sql: &str) -> Result<()> {
        runtime
            .block_on(self.client.batch_execute(sql))
            .map_err(|error| failure(&error))
    }

    /// As [`control`](Self::control); false where it has waited too long for a lock.
    pub(super) fn unless_locked(&mut self, runtime: &Runtime, sql: &str) -> Result<bool> {
        match runtime.block_on(self.client.batch_execute(sql)) {
            Ok(()) => Ok(true),
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => Ok(false),
            Err(error) => Err(failure(&error)),
        }
    }

    /// As [`control`](Self::control), given up after a while.
    pub(super) fn end(&mut self, runtime: &Runtime, sql: &str) -> std::result::Result<(), Trouble> {
        runtime.block_on(async {
            match tokio::time::timeout(ROUND_TRIP, self.client.batch_execute(sql)).await {
                Ok(outcome) => outcome.map_err(|error| Trouble::from(&error)),
                Err(_) => Err(Trouble::silent()),
            }
        })
    }

    async fn prepare(&mut self, statements: &[Stmt<'_>]) -> Driver<()> {
        let mut missing: Vec<&'static str> = statements
            .iter()
            .map(|statement| statement.sql)
            .filter(|sql| !self.statements.contains_key(&address(sql)))
            .collect();
        missing.sort_by_key(|sql| address(sql));
        missing.dedup_by_key(|sql| address(sql));
        let client = &self.client;
        let prepared = join_all(missing.iter().map(|sql| async move {
            let text = Dialect::Postgres.translate(sql);
            client
                .prepare(&text)
                .await
                .map(|statement| (address(sql), statement))
        }))
        .await;
        for statement in prepared {
            let (address, statement) = statement?;
            self.statements.insert(address, statement);
        }
        Ok(())
    }

    /// Sends `statements`, after `begin` where there is one, and takes the answers: one round trip where all are prepared.
    async fn send(&mut self, begin: Option<&str>, statements: &[Stmt<'_>]) -> Driver<Vec<Driver<Answer>>> {
        self.prepare(statements).await?;
        let client = &self.client;
        let mut opening = Box::pin(maybe_done(async {
            match begin {
                Some(begin) => client.batch_execute(begin).await,
                None => Ok(()),
            }
        }));
        // A request is sent when its future is first polled: this is what puts them in order.
        sent(opening.as_mut()).await;
        let mut waiting = Vec::with_capacity(statements.len());
        for statement in statements {
            let Some(prepared) = self.statements.get(&address(statement.sql)) else {
                continue;
            };
            let mut answer = Box::pin(maybe_done(one(client, prepared, statement)));
            sent(answer.as_mut()).await;
            waiting.push(answer);
        }
        opening.as_mut().await;
        opening.as_mut().take_output().unwrap_or(Ok(()))?;
        let mut answers = Vec::with_capacity(waiting.len());
        for mut answer in waiting {
            answer.as_mut().await;
            answers.extend(answer.as_mut().take_output());
        }
        Ok(answers)
    }
}

fn address(sql: &str) -> (usize, usize) {
    (sql.as_ptr().addr(), sql.len())
}

/// Polls a future once.
async fn sent<F: Future>(mut future: Pin<&mut F>) {
    poll_fn(|context| {
        // Whether it is ready already is seen when it is awaited.
        let _: Poll<F::Output> = future.as_mut().poll(context);
        Poll::Ready(())
    })
    .await;
}

async fn one(client: &Client, prepared: &Statement, statement: &Stmt<'_>) -> Driver<Answer> {
    let params = statement.params.iter().map(Param);
    if prepared.columns().is_empty() {
        return Ok(Answer {
            affected: client.execute_raw(prepared, params).await?,
            rows: Vec::new(),
        });
    }
    let mut stream = std::pin::pin!(client.query_raw(prepared, params).await?);
    let mut rows = Vec::new();
    while let Some(row) = stream.try_next().await? {
        rows.push(row_from(&row)?);
    }
    Ok(Answer {
        affected: u64::try_from(rows.len()).unwrap_or(u64::MAX),
        rows,
    })
}

fn row_from(row: &tokio_postgres::Row) -> Driver<Row> {
    let mut values = Vec::with_capacity(row.len());
    for (position, column) in row.columns().iter().enumerate() {
        let value = if *column.type_() == Type::INT8 {
            row.try_get::<_, Option<i64>>(position)?.map(Val::Int)
        } else if *column.type_() == Type::INT4 {
            row.try_get::<_, Option<i32>>(position)?
                .map(|number| Val::Int(number.into()))
        } else if *column.type_() == Type::BYTEA {
            row.try_get::<_, Option<Vec<u8>>>(position)?
                .map(|bytes| Val::Blob(Cow::Owned(bytes)))
        } else {
            row.try_get::<_, Option<String>>(position)?
                .map(|text| Val::Text(Cow::Owned(text)))
        };
        values.push(value.unwrap_or(Val::Null));
    }
    Ok(Row(values))
}

/// A parameter, sent in the type the server asks for.
#[derive(Debug)]
struct Param<'a>(&'a Val<'a>);

impl ToSql for Param<'_> {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> std::result::Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self.0.checked()? {
            Val::Null => Ok(IsNull::Yes),
            Val::Int(number) if *ty == Type::INT4 => i32::try_from(*number)?.to_sql(ty, out),
            Val::Int(number) if *ty == Type::INT8 => number.to_sql(ty, out),
            Val::Text(text) if [Type::TEXT, Type::VARCHAR, Type::NAME].contains(ty) => {
                text.as_ref().to_sql(ty, out)
            }
            // The binary form of `json` is its text.
            Val::Text(text) if *ty == Type::JSON => text.as_ref().to_sql(&Type::TEXT, out),
            Val::Blob(bytes) if *ty == Type::BYTEA => bytes.as_ref().to_sql(ty, out),
            Val::Int(_) | Val::Text(_) | Val::Blob(_) => Err(format!("not a value for {ty}").into()),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// Statements of one job on a session: BEGIN goes out with the first of them.
pub(super) struct Pipeline<'a> {
    session: &'a mut Session,
    runtime: &'a Runtime,
    /// What the next batch has to begin the transaction with.
    begin: Option<&'static str>,
    /// Whether a transaction may be open on the server.
    pub(super) open: bool,
    /// Whether the transaction takes locks that others wait for.
    pub(super) contends: bool,
    /// What went wrong below the statements.
    pub(super) trouble: Option<Trouble>,
}

impl<'a> Pipeline<'a> {
    /// Statements in a transaction.
    pub(super) fn writer(session: &'a mut Session, runtime: &'a Runtime) -> Self {
        Self {
            begin: Some("BEGIN"),
            ..Self::reader(session, runtime)
        }
    }

    /// Statements of several jobs in a transaction. It waits for a lock as long as for another's commit, and then fails.
    pub(super) fn group(session: &'a mut Session, runtime: &'a Runtime) -> Self {
        Self {
            begin: Some("BEGIN; SET LOCAL lock_timeout = '50ms'"),
            ..Self::reader(session, runtime)
        }
    }

    /// Statements each by itself.
    pub(super) fn reader(session: &'a mut Session, runtime: &'a Runtime) -> Self {
        Self {
            session,
            runtime,
            begin: None,
            open: false,
            contends: false,
            trouble: None,
        }
    }

    fn failed(&mut self, trouble: Trouble) -> Error {
        let error = trouble.error.clone();
        self.trouble = Some(trouble);
        error
    }
}

impl Tx for Pipeline<'_> {
    fn contend(&mut self) {
        self.contends = true;
    }

    fn batch(&mut self, statements: &[Stmt<'_>]) -> Result<Vec<Answer>> {
        if let Some(trouble) = &self.trouble {
            return Err(trouble.error.clone());
        }
        let begin = self.begin.take();
        self.open |= begin.is_some();
        let sent = self
            .runtime
            .block_on(async { tokio::time::timeout(ROUND_TRIP, self.session.send(begin, statements)).await });
        let answers = match sent {
            Ok(Ok(answers)) => answers,
            Ok(Err(error)) => return Err(self.failed(Trouble::from(&error))),
            Err(_) => return Err(self.failed(Trouble::silent())),
        };
        let mut checked = Vec::with_capacity(answers.len());
        for (statement, answer) in statements.iter().zip(answers) {
            let answer = answer.map_err(|error| self.failed(Trouble::from(&error)))?;
            statement.check(&answer)?;
            checked.push(answer);
        }
        Ok(checked)
    }
}

/// A failure of the database, with what it means for another try.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    pub(super) error: Error,
    pub(super) kind: TroubleKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TroubleKind {
    /// Another try may pass: a deadlock, a serialization failure.
    Again,
    /// The connection is gone.
    Lost,
    /// The statement is refused.
    Refused,
}

impl Trouble {
    /// Whether another try may help.
    pub(super) fn may_pass(&self) -> bool {
        self.kind != TroubleKind::Refused
    }

    fn silent() -> Self {
        Self {
            error: Error::Unavailable("the database does not answer".to_owned()),
            kind: TroubleKind::Lost,
        }
    }
}

impl From<&tokio_postgres::Error> for Trouble {
    fn from(error: &tokio_postgres::Error) -> Self {
        let kind = match error.code() {
            Some(code)
                if *code == SqlState::T_R_SERIALIZATION_FAILURE
                    || *code == SqlState::T_R_DEADLOCK_DETECTED =>
            {
                TroubleKind::Again
            }
            Some(code) if is_server_away(code) => TroubleKind::Lost,
            None if error.is_closed() || is_io(error) => TroubleKind::Lost,
            Some(_) | None => TroubleKind::Refused,
        };
        Self {
            error: failure(error),
            kind,
        }
    }
}

/// The server ends the session, or does not take a new one for now.
fn is_server_away(code: &SqlState) -> bool {
    // Class 57P: operator intervention; class 08: connection exception.
    code.code().starts_with("57P") || code.code().starts_with("08")
}

fn is_io(error: &tokio_postgres::Error) -> bool {
    std::error::Error::source(error).is_some_and(<dyn std::error::Error>::is::<std::io::Error>)
}

/// What the driver says, in the store's words: what another try may cure is [`Error::Unavailable`].
pub(super) fn failure(error: &tokio_postgres::Error) -> Error {
    let Some(answer) = error.as_db_error() else {
        let text = describe(error);
        return if error.is_closed() || is_io(error) {
            Error::Unavailable(text)
        } else {
            Error::Database(text)
        };
    };
    let code = answer.code();
    let text = format!("{} ({})", answer.message(), code.code());
    // 53: out of resources; 55P03: lock timeout; 57014: statement timeout; 25006: a read-only standby;
    // 40: rolled back by a conflict.
    let passing = ["53", "40", "55P03", "57014", "25006"]
        .iter()
        .any(|class| code.code().starts_with(class));
    if passing || is_server_away(code) {
        Error::Unavailable(text)
    } else {
        Error::Database(text)
    }
}
