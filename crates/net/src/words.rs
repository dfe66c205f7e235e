//! Messages for HTTP failures that the person who configured the address understands.

use std::{error::Error, io};

use rustls::{CertificateError, OtherError};

use crate::{connecting::ThroughProxy, trust::Untrusted};

/// Prefixes of the library's messages for a truncated response.
const CUT_OFF: [&str; 3] = ["unexpected EOF", "end of file before", "error reading a body"];

/// Prefixes of the library's messages about proxies, and our messages.
const PROXY: [(&str, &str); 10] = [
    (
        "tunnel error: proxy authorization required",
        "it asks for a user and a password, or for others (407)",
    ),
    ("tunnel error: unsuccessful", "it refuses to connect to this host"),
    ("tunnel error: failed to create", "it cannot be reached"),
    ("tunnel error", "it does not speak HTTP, or closed the connection"),
    ("SOCKS error: failed to create", "it cannot be reached"),
    (
        "SOCKS error: credentials not accepted",
        "it refuses the user and the password",
    ),
    (
        "SOCKS error: server does not support user/pass",
        "it takes no user and password, or asks for them",
    ),
    ("SOCKS error: io error", "it closed the connection"),
    ("SOCKS error: failed parsing", "it does not speak SOCKS5"),
    ("SOCKS error", "it cannot connect to this host"),
];

/// Returns in one line why a request failed or its response broke off.
pub(crate) fn of(error: &reqwest::Error) -> String {
    let mut cause: &(dyn Error + 'static) = error;
    let mut way = String::new();
    let root = loop {
        if let Some(through) = cause.downcast_ref::<ThroughProxy>() {
            way = format!("through the proxy {}: ", through.proxy);
        }
        if let Some(words) = of_cause(cause) {
            return way + &words;
        }
        match cause.source() {
            Some(next) => cause = next,
            None => break cause.to_string(),
        }
    };
    let words = if error.is_timeout() {
        "no answer in time".to_owned()
    } else if error.is_builder() {
        format!("the request cannot be made: {root}")
    } else if root.starts_with("invalid HTTP") {
        "the other side does not speak HTTP".to_owned()
    } else if root.starts_with("connection closed before") {
        "the connection was closed before the answer".to_owned()
    } else if CUT_OFF.iter().any(|begin| root.starts_with(begin)) {
        "the answer broke off".to_owned()
    } else if error.is_body() || error.is_decode() {
        format!("the answer cannot be read: {root}")
    } else {
        format!("the request failed: {root}")
    };
    way + &words
}

/// Returns the message for the first known cause, or else the last cause.
pub(crate) fn of_chain(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    loop {
        if let Some(words) = of_cause(cause) {
            return words;
        }
        match cause.source() {
            Some(next) => cause = next,
            None => return cause.to_string(),
        }
    }
}

/// Returns why a system connection or its TLS failed.
pub fn of_io(error: &io::Error) -> String {
    of_chain(error)
}

/// Message for a failure of a proxy.
fn of_proxy(cause: &(dyn Error + 'static)) -> Option<String> {
    // If the library names a cause, that cause is more specific.
    let text = cause.source().is_none().then(|| cause.to_string())?;
    let mut known = PROXY.iter();
    let (_, words) = known.find(|(begin, _)| text.starts_with(begin))?;
    Some((*words).to_owned())
}

/// Message for one cause, if its kind is specific enough.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the system has words of its own for the other kinds"
)]
fn of_cause(cause: &(dyn Error + 'static)) -> Option<String> {
    if let Some(tls) = cause.downcast_ref::<rustls::Error>() {
        return Some(of_tls(tls));
    }
    if let Some(words) = of_proxy(cause) {
        return Some(words);
    }
    let io = cause.downcast_ref::<io::Error>()?;
    // An error of this kind contains its cause, and does not return it as its source.
    if let Some(within) = io.get_ref() {
        return of_cause(within);
    }
    let words = match io.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused",
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted | io::ErrorKind::BrokenPipe => {
            "the connection was closed by the other side"
        }
        io::ErrorKind::UnexpectedEof => "the connection ended in the middle",
        io::ErrorKind::TimedOut => "no answer in time",
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => "no route leads there",
        _ => {
            let told = io.to_string();
            let words = told
                .split_once(" (os error ")
                .map_or(told.as_str(), |(words, _)| words);
            return Some(words.to_owned());
        }
    };
    Some(words.to_owned())
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the library has many kinds, and more with each version"
)]
fn of_tls(error: &rustls::Error) -> String {
    let certificate = match error {
        rustls::Error::InvalidCertificate(certificate) => certificate,
        rustls::Error::InvalidMessage(_) => return "the other side does not speak TLS".to_owned(),
        rustls::Error::AlertReceived(_) => {
            return "the other side refuses the TLS connection".to_owned();
        }
        _ => return format!("the TLS connection failed: {error}"),
    };
    match certificate {
        CertificateError::UnknownIssuer => {
            "its certificate is not trusted: unknown issuer; add the certificate of the issuer to ca_file"
                .to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for another name".to_owned()
        }
        CertificateError::Revoked => "its certificate has been revoked".to_owned(),
        CertificateError::BadSignature => "its certificate has a wrong signature".to_owned(),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "its certificate is not for a server".to_owned()
        }
        CertificateError::Other(OtherError(other)) => match other.downcast_ref::<Untrusted>() {
            Some(untrusted) => untrusted.to_string(),
            None => "its certificate is not valid".to_owned(),
        },
        _ => "its certificate is not valid".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    /// Sends a request to a server that sends this response and closes the connection. Returns the error message.
    async fn told(scheme: &str, answer: &[u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("{scheme}://{}/", listener.local_addr().unwrap());
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _request = stream.read(&mut [0; 4096]).await;
            stream.write_all(answer).await.unwrap();
        };
        let timeouts = crate::Timeouts {
            connect: std::time::Duration::from_secs(10),
            read: std::time::Duration::from_secs(10),
            total: None,
        };
        let client = crate::EngineClient::new(timeouts).unwrap();
        let ask = async {
            let request = client
                .request(reqwest::Method::GET, &url.parse().unwrap())
                .unwrap();
            match request.send().await {
                Ok(response) => response.bytes().await.unwrap_err(),
                Err(error) => error,
            }
        };
        let ((), error) = tokio::join!(serve, ask);
        crate::Error::from(error).to_string()
    }

    #[tokio::test]
    async fn a_failed_request_is_told_without_words_of_the_library() {
        assert_eq!(
            told("https", b"HTTP/1.1 400 Bad Request\r\n\r\n").await,
            "the other side does not speak TLS"
        );
        assert_eq!(
            told("http", b"SSH-2.0-x\r\n\r\n").await,
            "the other side does not speak HTTP"
        );
        assert_eq!(
            told("http", b"").await,
            "the connection was closed before the answer"
        );
        for cut in [
            "content-length: 9\r\n\r\nx",
            "transfer-encoding: chunked\r\n\r\n9\r\nx",
        ] {
            let answer = format!("HTTP/1.1 200 OK\r\n{cut}");
            assert_eq!(
                told("http", answer.as_bytes()).await,
                "the answer broke off",
                "{cut}"
            );
        }
    }

    #[test]
    fn causes_of_the_system_and_of_tls_have_words() {
        let of = |error: io::Error| of_cause(&error).unwrap();
        assert_eq!(of(io::Error::from_raw_os_error(111)), "connection refused");
        assert_eq!(of(io::Error::from_raw_os_error(113)), "no route leads there");
        assert_eq!(
            of(io::Error::from_raw_os_error(99)),
            "Cannot assign requested address"
        );
        let tls = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        assert_eq!(
            of(io::Error::new(io::ErrorKind::InvalidData, tls)),
            "its certificate is not trusted: unknown issuer; add the certificate of the issuer to ca_file"
        );
    }

    #[test]
    fn a_bad_certificate_is_told_without_words_of_the_library() {
        use CertificateError as Bad;
        for (bad, told) in [
            (
                Bad::UnknownIssuer,
                "its certificate is not trusted: unknown issuer; add the certificate of the issuer to ca_file",
            ),
            (Bad::Expired, "its certificate has expired"),
            (Bad::NotValidYet, "its certificate is not valid yet"),
            (Bad::NotValidForName, "its certificate is for another name"),
            (Bad::Revoked, "its certificate has been revoked"),
            (Bad::BadSignature, "its certificate has a wrong signature"),
            (Bad::InvalidPurpose, "its certificate is not for a server"),
            (Bad::BadEncoding, "its certificate is not valid"),
            (Bad::UnhandledCriticalExtension, "its certificate is not valid"),
            (
                Bad::ApplicationVerificationFailure,
                "its certificate is not valid",
            ),
        ] {
            assert_eq!(of_tls(&rustls::Error::InvalidCertificate(bad)), told);
        }
    }
}
