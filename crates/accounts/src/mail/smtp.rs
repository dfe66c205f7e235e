//! Connections to the mail server.
//!
//! A connection is reused for the next mail only after a complete exchange. A connection that was cut off in the middle is
//! closed: the answer to an earlier command must never be taken for the answer to a later one.

use std::{io, time::Duration};

use lettre::transport::smtp::{
    Error as SmtpError,
    authentication::{Credentials, Mechanism},
    client::{AsyncSmtpConnection, Certificate, TlsParameters},
    commands::{Data, Mail, Rcpt, Rset},
    extension::ClientId,
};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use super::{
    message::Envelope,
    server::{MailServer, Security},
};

/// Time limit of a connection, up to the greeting.
const CONNECT: Duration = Duration::from_secs(10);

/// Time limit of an attempt to send a mail.
pub(super) const ATTEMPT: Duration = Duration::from_secs(30);

/// Time for which an idle connection is kept. Servers close idle connections after some minutes.
const IDLE: Duration = Duration::from_secs(20);

/// Most idle connections.
const KEPT: usize = 4;

/// Authentication mechanisms, in the order of preference.
const MECHANISMS: [Mechanism; 2] = [Mechanism::Plain, Mechanism::Login];

/// Reason why a mail was not accepted. Texts of the server are dropped, because they may repeat the address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSent {
    /// The server refused the mail permanently.
    #[error("the mail server refused the mail with {0}")]
    Refused(u16),
    /// The server refused the mail for now.
    #[error("the mail server answered {1} to {0}")]
    Answered(&'static str, u16),
    /// The server offers no TLS.
    #[error("the mail server does not offer STARTTLS: mail is not sent unencrypted to another machine")]
    NoTls,
    /// The server refused the user or the password, or does not support authentication.
    #[error("the mail server does not accept the user and the password{}", .0.map(|code| format!(": it answered {code}")).unwrap_or_default())]
    Credentials(Option<u16>),
    /// The connection failed.
    #[error("the connection to the mail server failed: {0}")]
    Connection(String),
    /// The mail expired before a server accepted it.
    #[error("the mail was not sent before its end")]
    Late,
    /// The server took too long.
    #[error("the mail server did not answer in time")]
    TimedOut,
}

impl MailServer {
    /// Connects and signs in as a deployment that serves its pages at `org_url`, and sends no mail.
    pub async fn greet(&self, org_url: &str) -> Result<(), NotSent> {
        let smtp = Smtp::new(self.clone(), &super::host_of(org_url));
        let mut connection = timeout(CONNECT, smtp.connect())
            .await
            .map_err(|_| NotSent::TimedOut)??;
        connection.abort().await;
        Ok(())
    }
}

/// Client of one mail server.
pub(super) struct Smtp {
    server: MailServer,
    hello: ClientId,
    idle: Mutex<Vec<(AsyncSmtpConnection, Instant)>>,
}

impl Smtp {
    /// Creates a client that calls itself `host`.
    pub(super) fn new(server: MailServer, host: &str) -> Self {
        Self {
            server,
            hello: ClientId::Domain(host.to_owned()),
            idle: Mutex::default(),
        }
    }

    /// Sends a mail.
    pub(super) async fn send(&self, envelope: &Envelope) -> Result<(), NotSent> {
        timeout(ATTEMPT, self.attempt(envelope))
            .await
            .unwrap_or(Err(NotSent::TimedOut))
    }

    async fn attempt(&self, envelope: &Envelope) -> Result<(), NotSent> {
        let mut connection = self.connection().await?;
        let sent = exchange(&mut connection, envelope).await;
        if sent.is_ok() {
            self.keep(connection);
        } else {
            connection.abort().await;
        }
        sent
    }

    /// Returns a working connection: an idle one, or a new one.
    async fn connection(&self) -> Result<AsyncSmtpConnection, NotSent> {
        while let Some(mut connection) = self.take() {
            if connection.command(Rset).await.is_ok() {
                return Ok(connection);
            }
        }
        timeout(CONNECT, self.connect())
            .await
            .map_err(|_| NotSent::TimedOut)?
    }

    fn take(&self) -> Option<AsyncSmtpConnection> {
        let mut idle = self.idle.lock();
        idle.retain(|(_, since)| since.elapsed() < IDLE);
        idle.pop().map(|(connection, _)| connection)
    }

    fn keep(&self, connection: AsyncSmtpConnection) {
        let mut idle = self.idle.lock();
        if idle.len() < KEPT {
            idle.push((connection, Instant::now()));
        }
    }

    async fn connect(&self) -> Result<AsyncSmtpConnection, NotSent> {
        let wrapped = match self.server.security {
            Security::Wrapped => Some(self.tls()?),
            Security::StartTls | Security::Opportunistic => None,
        };
        let address = (self.server.host.as_str(), self.server.port);
        let mut connection =
            AsyncSmtpConnection::connect_tokio1(address, Some(CONNECT), &self.hello, wrapped, None)
                .await
                .map_err(|error| failed("the connection", &error))?;
        if connection.can_starttls() {
            connection
                .starttls(self.tls()?, &self.hello)
                .await
                .map_err(|error| failed("STARTTLS", &error))?;
        } else if self.server.security == Security::StartTls {
            return Err(NotSent::NoTls);
        }
        if let Some((user, password)) = &self.server.credentials {
            let credentials = Credentials::new(user.clone(), password.clone());
            connection
                .auth(&MECHANISMS, &credentials)
                .await
                .map_err(|error| not_signed_in(&error))?;
        }
        Ok(connection)
    }

    /// Parameters of TLS. The certificate of a server on this machine is not checked: such servers use self-signed certificates,
    /// and the connection does not leave the machine.
    fn tls(&self) -> Result<TlsParameters, NotSent> {
        let mut builder = TlsParameters::builder(self.server.host.clone());
        for certificate in self.server.trusted.certificates() {
            let certificate =
                Certificate::from_der(certificate.to_vec()).map_err(|error| failed("TLS", &error))?;
            builder = builder.add_root_certificate(certificate);
        }
        builder
            .dangerous_accept_invalid_certs(self.server.is_on_this_machine())
            .dangerous_accept_invalid_hostnames(self.server.is_on_this_machine())
            .build_rustls()
            .map_err(|error| failed("TLS", &error))
    }
}

impl std::fmt::Debug for Smtp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Smtp({})", self.server)
    }
}

/// Sends one mail over a connection.
async fn exchange(connection: &mut AsyncSmtpConnection, envelope: &Envelope) -> Result<(), NotSent> {
    let from = Mail::new(Some(envelope.from.clone()), Vec::new());
    // A refused sender is a configuration error, regardless of the mail.
    connection
        .command(from)
        .await
        .map_err(|error| failed("MAIL FROM", &error))?;
    connection
        .command(Rcpt::new(envelope.to.clone(), Vec::new()))
        .await
        .map_err(|error| refused("RCPT TO", &error))?;
    connection
        .command(Data)
        .await
        .map_err(|error| refused("DATA", &error))?;
    connection
        .message(&envelope.bytes)
        .await
        .map_err(|error| refused("the mail", &error))?;
    Ok(())
}

/// Temporary failure of a command: the mail may be retried.
fn failed(command: &'static str, error: &SmtpError) -> NotSent {
    match error.status() {
        Some(code) => NotSent::Answered(command, code.into()),
        None => NotSent::Connection(cause(error)),
    }
}

/// Permanent refusal of a mail by a server.
fn refused(command: &'static str, error: &SmtpError) -> NotSent {
    match error.status() {
        Some(code) if error.is_permanent() => NotSent::Refused(code.into()),
        Some(_) | None => failed(command, error),
    }
}

fn not_signed_in(error: &SmtpError) -> NotSent {
    match error.status() {
        Some(code) if error.is_permanent() => NotSent::Credentials(Some(code.into())),
        Some(code) => NotSent::Answered("AUTH", code.into()),
        None if error.is_client() => NotSent::Credentials(None),
        None => NotSent::Connection(cause(error)),
    }
}

/// Root cause of an error if it occurred on this machine. Texts of the server are not repeated.
fn cause(error: &SmtpError) -> String {
    if error.is_response() {
        return "the server does not speak SMTP, or closed the connection".to_owned();
    }
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if let Some(inner) = inner.downcast_ref::<io::Error>() {
            return sortie_net::of_io(inner);
        }
        source = inner.source();
    }
    error.to_string()
}
