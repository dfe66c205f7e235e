//! Connection: prepared statements cached by the address of their text, and batches sent as a whole.

use std::{
    borrow::Cow, collections::HashMap, future::poll_fn, pin::Pin, sync::Arc, task::Poll, time::Duration,
};

use bytes::BytesMut;
use futures_util::{
    TryStreamExt,
    future::{join_all, maybe_done},
};
use tokio::runtime::Runtime;
use tokio_postgres::{
    Client, SimpleQueryMessage, Statement,
    error::SqlState,
    types::{IsNull, ToSql, Type, to_sql_checked},
};

use super::connect::describe;
use crate::{
    Dialect, Error, Result,
    sessions::{Failure, FailureKind, Sent, Session, error_of},
    tx::{Answer, Stmt},
    value::{Row, Val},
};

type Driver<T> = std::result::Result<T, tokio_postgres::Error>;

/// Connection with its prepared statements.
pub(super) struct PgSession {
    client: Client,
    /// The runtime that drives the connection.
    runtime: Arc<Runtime>,
    /// Time limit for an answer.
    answer: Duration,
    prepared: Prepared,
}

/// Prepared statements by the address and length of their text.
#[derive(Default)]
struct Prepared(HashMap<(usize, usize), Statement>);

impl PgSession {
    pub(super) fn new(client: Client, runtime: Arc<Runtime>, answer: Duration) -> Self {
        Self {
            client,
            runtime,
            answer,
            prepared: Prepared::default(),
        }
    }

    /// Returns the session with another time limit for an answer.
    pub(super) fn with_limit(mut self, answer: Duration) -> Self {
        self.answer = answer;
        self
    }

    pub(super) fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    /// Runs statements without parameters, and ignores their rows.
    pub(super) fn control(&mut self, sql: &str) -> Result<()> {
        self.runtime
            .block_on(self.client.batch_execute(sql))
            .map_err(|error| failure(&error))
    }

    /// Returns the process id of the server's end of the session.
    pub(super) fn backend(&mut self) -> Result<String> {
        self.value("SELECT pg_backend_pid()")
    }

    /// Returns the only value of a statement without parameters, as text.
    pub(super) fn value(&mut self, sql: &str) -> Result<String> {
        let answer = self.runtime.block_on(self.client.simple_query(sql));
        let messages = answer.map_err(|error| failure(&error))?;
        let mut rows = messages.iter().filter_map(|message| {
            if let SimpleQueryMessage::Row(row) = message {
                row.get(0)
            } else {
                None
            }
        });
        rows.next()
            .map(str::to_owned)
            .ok_or_else(|| Error::Database(format!("the server answers {sql} with nothing")))
    }

    /// Runs statements as [`control`](Self::control) does. Returns false if waiting for a lock took too long.
    pub(super) fn unless_locked(&mut self, sql: &str) -> Result<bool> {
        match self.runtime.block_on(self.client.batch_execute(sql)) {
            Ok(()) => Ok(true),
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => Ok(false),
            Err(error) => Err(failure(&error)),
        }
    }
}

impl Session for PgSession {
    fn is_open(&mut self) -> bool {
        // Lets the connection see messages of the server that have arrived since: the first pause looks for them, and
        // during the second one the connection reads them.
        self.runtime.block_on(async {
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
        });
        !self.client.is_closed()
    }

    fn send(&mut self, begin: Option<&'static str>, statements: &[Stmt<'_>]) -> Sent {
        let (client, prepared) = (&self.client, &mut self.prepared);
        self.runtime.block_on(async {
            let sent = prepared.send(client, begin, statements);
            tokio::time::timeout(self.answer, sent)
                .await
                .unwrap_or_else(|_elapsed| Err(Failure::silent()))
        })
    }

    fn end(&mut self, sql: &'static str) -> std::result::Result<(), Failure> {
        self.runtime.block_on(async {
            match tokio::time::timeout(self.answer, self.client.batch_execute(sql)).await {
                Ok(ended) => ended.map_err(|error| Failure::of(&error)),
                Err(_elapsed) => Err(Failure::silent()),
            }
        })
    }
}

impl Prepared {
    async fn prepare(&mut self, client: &Client, statements: &[Stmt<'_>]) -> Driver<()> {
        let mut missing: Vec<&'static str> = statements
            .iter()
            .map(|statement| statement.sql)
            .filter(|sql| !self.0.contains_key(&address(sql)))
            .collect();
        missing.sort_by_key(|sql| address(sql));
        missing.dedup_by_key(|sql| address(sql));
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
            self.0.insert(address, statement);
        }
        Ok(())
    }

    /// Sends `begin`, if given, and `statements`, and reads the answers. This takes one round trip if all
    /// statements are prepared.
    async fn send(&mut self, client: &Client, begin: Option<&'static str>, statements: &[Stmt<'_>]) -> Sent {
        self.prepare(client, statements)
            .await
            .map_err(|error| Failure::of(&error))?;
        let mut opening = Box::pin(maybe_done(async {
            match begin {
                Some(begin) => client.batch_execute(begin).await,
                None => Ok(()),
            }
        }));
        // A request is sent when its future is first polled. Polling the futures in turn puts the requests in
        // order.
        sent(opening.as_mut()).await;
        let mut waiting = Vec::with_capacity(statements.len());
        for statement in statements {
            let Some(prepared) = self.0.get(&address(statement.sql)) else {
                continue;
            };
            let mut answer = Box::pin(maybe_done(one(client, prepared, statement)));
            sent(answer.as_mut()).await;
            waiting.push(answer);
        }
        opening.as_mut().await;
        if let Some(Err(error)) = opening.as_mut().take_output() {
            return Err(Failure::of(&error).of_begin(error.code().map(SqlState::code)));
        }
        let mut answers = Vec::with_capacity(waiting.len());
        for mut answer in waiting {
            answer.as_mut().await;
            let answer = answer.as_mut().take_output();
            answers.extend(answer.map(|answer| answer.map_err(|error| Failure::of(&error))));
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
        // Awaiting a future also detects that it was ready already.
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

/// Parameter, sent as the type that the server asks for.
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

impl Failure {
    fn of(error: &tokio_postgres::Error) -> Self {
        Self {
            error: failure(error),
            kind: match error.code() {
                Some(code) => FailureKind::of(code.code()),
                None if error.is_closed() || is_io(error) => FailureKind::Disconnected,
                None => FailureKind::Refused,
            },
        }
    }
}

fn is_io(error: &tokio_postgres::Error) -> bool {
    std::error::Error::source(error).is_some_and(<dyn std::error::Error>::is::<std::io::Error>)
}

/// Converts an error of the driver. It is [`Error::Unavailable`] if another try may succeed.
pub(super) fn failure(error: &tokio_postgres::Error) -> Error {
    let Some(answer) = error.as_db_error() else {
        let text = describe(error);
        return if error.is_closed() || is_io(error) {
            Error::Unavailable(text)
        } else {
            Error::Database(text)
        };
    };
    let code = answer.code().code();
    error_of(code, format!("{} ({code})", answer.message()))
}
