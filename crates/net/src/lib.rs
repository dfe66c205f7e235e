//! The only outgoing HTTP: allowed targets, routes through proxies, and size limits of responses.
//!
//! [`Client`] is for untrusted addresses: it refuses addresses that [`Reach`] forbids, both literal and resolved ones, follows
//! no redirects and limits time and size. [`Policy`] restricts that to the web targets of one run. [`EngineClient`] is for
//! addresses of the operator. [`Outbound`] has the operator's proxies and certificates for both. No other crate builds an HTTP
//! client.

pub mod address;
mod body;
mod client;
mod connecting;
mod decoded;
pub mod network;
mod outbound;
mod own;
pub mod policy;
mod proxy;
mod refused;
pub mod sse;
mod stale;
mod trust;
mod tunnel;
mod words;

pub use address::{Reach, is_public};
pub use body::{BodyEnd, BodyHead, read_body, read_head};
pub use client::{Client, EngineClient, Timeouts, USER_AGENT, send_patiently, store_client};
pub use decoded::{DecodedBody, unknown_coding};
pub use network::Network;
pub use outbound::{InvalidVariable, Outbound};
pub use policy::{Policy, check_form};
pub use proxy::{NoProxy, ProxyKind, ProxyServer};
pub use refused::Refused;
pub use trust::TrustedCertificates;
pub use tunnel::{Connection, NoConnection, Stream};
pub use words::of_io;

/// Failure to send a request or to receive its response.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The client does not support the URL, because of its scheme, its user info or its missing host.
    #[error("{0}")]
    Url(&'static str),
    /// The host is, or resolves to, a forbidden address.
    #[error("{host} is not a public address")]
    Refused {
        /// Host in the URL.
        host: String,
    },
    /// The run's policy forbids the target.
    #[error(transparent)]
    Policy(#[from] Refused),
    /// The response exceeds the size limit of the caller.
    #[error("the answer is larger than {limit} bytes")]
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The body has an unsupported content coding.
    #[error("the answer is compressed as `{0}`, which was not asked for")]
    Coding(String),
    /// The body ends before its compressed content does.
    #[error("the compressed answer ends early")]
    CutOff,
    /// The body is not valid in its content coding.
    #[error("the compressed answer cannot be unpacked")]
    Undecodable,
    /// The server switched protocols, which we never request.
    #[error("the server switched protocols, which was not asked for")]
    Switched,
    /// The TLS settings do not allow a client.
    #[error("TLS cannot be set up: {0}")]
    Setup(String),
    /// The request failed: connection, TLS, time-out or protocol.
    #[error("{}", words::of(.0))]
    Http(#[source] reqwest::Error),
}

impl From<reqwest::Error> for Error {
    /// Removes the URL first, because it can contain secrets.
    fn from(error: reqwest::Error) -> Self {
        Self::Http(error.without_url())
    }
}
