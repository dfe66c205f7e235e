//! Address of a mail server and sender of mails, as configured.

use std::{fmt, net::IpAddr, str::FromStr};

use lettre::message::Mailbox;
use percent_encoding::percent_decode_str;
use sortie_net::TrustedCertificates;
use url::Url;

/// Port of `smtp://`: submission.
const SUBMISSION: u16 = 587;
/// Port of `smtps://`: submission inside TLS.
const SUBMISSIONS: u16 = 465;

/// Mail server, with the credentials for it.
#[derive(Clone, PartialEq, Eq)]
pub struct MailServer {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) security: Security,
    pub(super) credentials: Option<(String, String)>,
    pub(super) trusted: TrustedCertificates,
}

/// Protection of the connection to a mail server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Security {
    /// TLS from the first byte.
    Wrapped,
    /// `STARTTLS`. Nothing is sent without it.
    StartTls,
    /// `STARTTLS` if the server on this machine offers it.
    Opportunistic,
}

/// Reason why a text is not an address of a mail server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidServer {
    /// The scheme or the host is missing, or text follows the port.
    #[error(
        "must be smtp://HOST:PORT or smtps://HOST:PORT, with USER:PASSWORD@ before the host if the server wants them"
    )]
    Form,
    /// The user or the password is missing or malformed.
    #[error("must have both a user and a password, percent-encoded")]
    Credentials,
}

impl FromStr for MailServer {
    type Err = InvalidServer;

    fn from_str(text: &str) -> Result<Self, InvalidServer> {
        let url = Url::parse(text).map_err(|_| InvalidServer::Form)?;
        let host = url
            .host_str()
            .filter(|host| !host.is_empty())
            .ok_or(InvalidServer::Form)?;
        let host = host.trim_matches(['[', ']']).to_ascii_lowercase();
        if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
            return Err(InvalidServer::Form);
        }
        let (security, port) = match url.scheme() {
            "smtps" => (Security::Wrapped, SUBMISSIONS),
            "smtp" if is_this_machine(&host) => (Security::Opportunistic, SUBMISSION),
            "smtp" => (Security::StartTls, SUBMISSION),
            _ => return Err(InvalidServer::Form),
        };
        let credentials = match (url.username(), url.password()) {
            ("", None) => None,
            ("", Some(_)) | (_, None | Some("")) => return Err(InvalidServer::Credentials),
            (user, Some(password)) => Some((decoded(user)?, decoded(password)?)),
        };
        Ok(Self {
            host,
            port: url.port().unwrap_or(port),
            security,
            credentials,
            trusted: TrustedCertificates::default(),
        })
    }
}

impl MailServer {
    /// Trusts these certificates in addition to the authorities of the binary.
    #[must_use]
    pub fn trusting(self, trusted: TrustedCertificates) -> Self {
        Self { trusted, ..self }
    }

    /// Whether the server is on this machine. Its certificate need not match its name then.
    pub(super) fn is_on_this_machine(&self) -> bool {
        is_this_machine(&self.host)
    }
}

fn is_this_machine(host: &str) -> bool {
    host.parse::<IpAddr>().map_or_else(
        |_| host == "localhost" || host.ends_with(".localhost"),
        |ip| ip.is_loopback(),
    )
}

fn decoded(text: &str) -> Result<String, InvalidServer> {
    let text = percent_decode_str(text)
        .decode_utf8()
        .map_err(|_| InvalidServer::Credentials)?;
    if text.chars().any(char::is_control) {
        return Err(InvalidServer::Credentials);
    }
    Ok(text.into_owned())
}

/// Shows only host and port.
impl fmt::Debug for MailServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MailServer({self})")
    }
}

impl fmt::Display for MailServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Sender of every mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender(pub(super) Mailbox);

/// Error for a text that is not a valid sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be an email address, or a name with an address: Sortie <sortie@example.com>")]
pub struct InvalidSender;

impl FromStr for Sender {
    type Err = InvalidSender;

    fn from_str(text: &str) -> Result<Self, InvalidSender> {
        if text.chars().any(char::is_control) {
            return Err(InvalidSender);
        }
        let mailbox: Mailbox = text.trim().parse().map_err(|_| InvalidSender)?;
        let email = super::address(mailbox.email.as_ref()).ok_or(InvalidSender)?;
        Ok(Self(Mailbox::new(mailbox.name, email)))
    }
}

#[cfg(test)]
mod tests {
    use sortie_testkit::{list, rows};

    use super::*;

    fn server(text: &str) -> MailServer {
        text.parse().unwrap()
    }

    #[test]
    fn a_server_has_the_port_and_the_protection_of_its_scheme() {
        for (text, shown, security) in rows! {
            "smtp://mail.example.com", "mail.example.com:587", Security::StartTls;
            "smtps://mail.example.com/", "mail.example.com:465", Security::Wrapped;
            "smtp://Mail.Example.com:25", "mail.example.com:25", Security::StartTls;
            "smtp://127.0.0.1:2525", "127.0.0.1:2525", Security::Opportunistic;
            "smtp://[::1]:2525", "[::1]:2525", Security::Opportunistic;
            "smtp://localhost", "localhost:587", Security::Opportunistic;
            "smtp://localhost.example.com", "localhost.example.com:587", Security::StartTls;
            "smtp://10.0.0.1", "10.0.0.1:587", Security::StartTls;
        } {
            let server = server(text);
            assert_eq!(
                (server.to_string().as_str(), server.security),
                (shown, security),
                "{text}"
            );
            assert_eq!(server.credentials, None);
        }
    }

    #[test]
    fn user_and_password_are_decoded_and_never_shown() {
        let server = server("smtps://user%40example.com:p%3A%2Fss%20w%C3%B6rd@mail.example.com:2465");
        assert_eq!(
            server.credentials,
            Some(("user@example.com".to_owned(), "p:/ss wörd".to_owned()))
        );
        for shown in [format!("{server:?}"), server.to_string()] {
            assert!(!shown.contains("user") && !shown.contains("rd"), "{shown}");
        }
    }

    #[test]
    fn anything_else_is_no_server() {
        for text in list! {
            "", "mail.example.com", "mail.example.com:25", "http://mail.example.com", "smtp://",
            "smtp://mail.example.com/path", "smtp://mail.example.com?tls=required", "smtp://mail.example.com#x",
            "smtp://mail.example.com:99999",
        } {
            assert_eq!(text.parse::<MailServer>(), Err(InvalidServer::Form), "{text}");
        }
        for text in [
            "smtp://user@mail.example.com",
            "smtp://:password@mail.example.com",
            "smtp://user:@mail.example.com",
            "smtp://user:%ff@mail.example.com",
            "smtp://user:a%0d%0ab@mail.example.com",
        ] {
            assert_eq!(
                text.parse::<MailServer>(),
                Err(InvalidServer::Credentials),
                "{text}"
            );
        }
    }

    #[test]
    fn a_sender_is_an_address_with_or_without_a_name() {
        for (text, shown) in [
            ("sortie@example.com", "sortie@example.com"),
            (" Sortie <sortie@example.com> ", "Sortie <sortie@example.com>"),
            (
                "Sortie <sortie@bücher.example>",
                "Sortie <sortie@xn--bcher-kva.example>",
            ),
        ] {
            assert_eq!(text.parse::<Sender>().unwrap().0.to_string(), shown);
        }
        for text in list! {
            "", "sortie", "a@b@c", "Sortie <x@example.com>\r\nBcc: y@example.com", "ünï@example.com",
        } {
            assert_eq!(text.parse::<Sender>(), Err(InvalidSender), "{text}");
        }
    }
}
