//! Connections to `PostgreSQL`: address, TLS, session settings.

use std::{sync::Arc, time::Duration};

use rustls::{ClientConfig, RootCertStore};
use sortie_api::plain;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{
    Client, Config, Connection, NoTls, Socket,
    config::{SslMode, TargetSessionAttrs},
    tls::{MakeTlsConnect, TlsConnect},
};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{
    channel::{HintConnection, Listener},
    session::{PgSession, failure},
};
use crate::{
    Error, Result,
    sessions::{Pool, read_only},
};

/// Time limit for opening a connection, from the socket to the settings of the session, if the URL has no
/// `connect_timeout`.
const CONNECT: Duration = Duration::from_secs(5);

/// Time limit for each of several hosts, so that an unresponsive host leaves time for the others.
const CONNECT_EACH: Duration = Duration::from_secs(2);

/// Time limit for an answer. The server times out earlier; this limit covers a server that has vanished.
const ANSWER: Duration = Duration::from_secs(8);

/// Idle time after which the system probes the connection, if the URL has no `keepalives_idle`. Firewalls and balancers
/// drop idle connections after minutes.
const KEEPALIVE: Duration = Duration::from_mins(1);

/// The driver's default. A URL with this value counts as one without any.
const KEEPALIVE_OF_DRIVER: Duration = Duration::from_hours(2);

/// Settings of every session. A command that waits longer than these limits has hit a fault; it ends well before the
/// lease of its node does. Every statement has an index in its order. The settings make the planner use it, so that a
/// plan made while a table was small is also right when it is large. A session is read-only outside of a transaction
/// that says that it writes: see `BEGIN` of the pipeline.
pub(crate) const SETTINGS: &str = "SET statement_timeout = '5s'; SET lock_timeout = '4s'; \
    SET idle_in_transaction_session_timeout = '5s'; SET default_transaction_read_only = on; \
    SET default_transaction_isolation = 'read committed'; \
    SET plan_cache_mode = force_generic_plan; SET jit = off; SET enable_seqscan = off; \
    SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; \
    SET enable_sort = off";

/// Address of the server, with the settings of its connections.
#[derive(Clone)]
pub(crate) struct Link {
    config: Config,
    /// Settings of each session.
    settings: &'static str,
    timeout: Duration,
    /// Time limit for an answer to a batch or a commit.
    answer: Duration,
    /// Pool that counts the sessions opened here.
    pool: Arc<Pool>,
    tls: Option<MakeRustlsConnect>,
}

impl Link {
    pub(super) fn new(url: &str) -> Result<Self> {
        let mut config: Config = url
            .parse()
            .map_err(|error: tokio_postgres::Error| Error::Database(describe(&error)))?;
        if config.get_application_name().is_none() {
            config.application_name("sortie");
        }
        if config.get_keepalives_idle() == KEEPALIVE_OF_DRIVER {
            config.keepalives_idle(KEEPALIVE);
        }
        let hosts = hosts(&config);
        let each =
            config
                .get_connect_timeout()
                .copied()
                .unwrap_or(if hosts == 1 { CONNECT } else { CONNECT_EACH });
        // The driver's limit is for the socket to one host.
        config.connect_timeout(each);
        let timeout = each.saturating_mul(hosts);
        // A standby is useless here. Of several hosts the driver picks the one that accepts writes.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        let tls = if config.get_ssl_mode() == SslMode::Require {
            Some(MakeRustlsConnect::new(public_roots()?))
        } else {
            None
        };
        Ok(Self {
            config,
            settings: SETTINGS,
            timeout,
            answer: ANSWER,
            pool: Arc::default(),
            tls,
        })
    }

    /// Returns the link with this time limit for connecting and for an answer, for urgent commands: a dead connection
    /// must not use up the lease.
    pub(super) fn urgent(&self, limit: Duration) -> Self {
        let mut link = self.clone();
        link.timeout = link.timeout.min(limit);
        link.answer = link.answer.min(limit);
        // Each of several hosts gets a share of the time, so that an unresponsive host leaves time for the others.
        link.config.connect_timeout(link.timeout / hosts(&link.config));
        link
    }

    /// Time limit for an answer.
    pub(super) fn answer(&self) -> Duration {
        self.answer
    }

    pub(super) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Returns the link for sessions that set nothing and may be read-only. With a pooler in transaction mode, a
    /// session would inherit the settings of another one.
    pub(super) fn without_settings(&self) -> Self {
        let mut link = self.clone();
        link.config.target_session_attrs(TargetSessionAttrs::Any);
        link.settings = "";
        link
    }

    /// Opens a session that is ready for commands.
    pub(super) fn connect(&self, runtime: &Arc<Runtime>) -> Result<PgSession> {
        // The driver's own limit covers only the socket. A server that accepts and stays silent would block
        // the thread.
        let client = runtime.block_on(async {
            let client = async {
                match &self.tls {
                    Some(tls) => self.client(runtime, tls.clone()).await,
                    None => self.client(runtime, NoTls).await,
                }
            };
            tokio::time::timeout(self.timeout, client)
                .await
                .map_err(|_| Error::Unavailable("the database does not answer".to_owned()))?
        })?;
        Ok(PgSession::new(client, Arc::clone(runtime), self.answer))
    }

    /// Makes a session ready for commands, regardless of its current settings. If its server accepts no writes, tries
    /// to replace it with a session on one of the other hosts.
    pub(super) fn prepared(&self, mut session: PgSession) -> Result<PgSession> {
        if session.value("SHOW transaction_read_only")? == "on" {
            return self.connect(session.runtime());
        }
        session.control(self.settings)?;
        Ok(session)
    }

    /// Opens a connection on this runtime and passes its messages to `listener`.
    pub(super) async fn listening(&self, runtime: &Runtime, listener: &Listener) -> Result<HintConnection> {
        let connection = async {
            if let Some(tls) = &self.tls {
                let (client, connection) = self.dial(tls.clone()).await?;
                Ok(HintConnection::new(
                    client,
                    runtime.spawn(listener.clone().listen(connection)),
                ))
            } else {
                let (client, connection) = self.dial(NoTls).await?;
                Ok(HintConnection::new(
                    client,
                    runtime.spawn(listener.clone().listen(connection)),
                ))
            }
        };
        tokio::time::timeout(self.timeout, connection)
            .await
            .map_err(|_| Error::Unavailable("the database does not answer".to_owned()))?
    }

    async fn dial<T>(&self, tls: T) -> Result<(Client, Connection<Socket, T::Stream>)>
    where
        T: MakeTlsConnect<Socket>,
    {
        self.config.connect(tls).await.map_err(|error| {
            if refuses_writes(&error) {
                read_only()
            } else {
                // A wrong password or database is for the operator. To the caller the database is
                // unavailable.
                Error::Unavailable(failure(&error).to_string())
            }
        })
    }

    async fn client<T>(&self, runtime: &Runtime, tls: T) -> Result<Client>
    where
        T: MakeTlsConnect<Socket>,
        T::Stream: Send + 'static,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        let (client, connection) = self.dial(tls).await?;
        runtime.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(error = %describe(&error), "a database connection ended");
            }
        });
        let away = |error: tokio_postgres::Error| Error::Unavailable(failure(&error).to_string());
        client.batch_execute(self.settings).await.map_err(away)?;
        Ok(client)
    }
}

/// Number of servers that the URL names.
fn hosts(config: &Config) -> u32 {
    u32::try_from(config.get_hosts().len()).unwrap_or(u32::MAX).max(1)
}

/// Whether the driver has rejected a server because it accepts no writes.
fn refuses_writes(error: &tokio_postgres::Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<std::io::Error>());
    cause.is_some_and(|cause| cause.kind() == std::io::ErrorKind::PermissionDenied)
}

/// Creates the runtime on which a thread drives its connection.
pub(super) fn runtime() -> Result<Runtime> {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::Unavailable(format!("cannot create a runtime for the database: {error}")))
}

fn public_roots() -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().cloned());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Database(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth())
}

/// Formats an error with its causes, which the driver's own text leaves out.
pub(super) fn describe(error: &dyn std::error::Error) -> String {
    let own = error.to_string();
    let mut text = match own.as_str() {
        "error connecting to server" => "cannot connect to the server",
        "error communicating with the server" => "the connection to the server broke off",
        "error performing TLS handshake" => "cannot agree on TLS with the server",
        "connection closed" => "the server closed the connection",
        "invalid connection string" => "the address is not valid",
        own => own,
    }
    .to_owned();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        match inner.downcast_ref::<std::io::Error>() {
            Some(io) => text.push_str(&plain::io(io)),
            None => text.push_str(&inner.to_string()),
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_kept_alive_each_minute_or_as_the_url_says() {
        let idle = |url: &str| Link::new(url).unwrap().config.get_keepalives_idle();
        assert_eq!(idle("postgres://a@127.0.0.1/x"), KEEPALIVE);
        let other = Duration::from_mins(5);
        assert_eq!(idle("postgres://a@127.0.0.1/x?keepalives_idle=300"), other);
    }
}
