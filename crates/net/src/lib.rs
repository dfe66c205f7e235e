//! The only outgoing HTTP: where a request may go, by which way, and how much of an answer is taken.
//!
//! [`Client`] is for addresses that strangers name: it refuses what [`Reach`] forbids, after resolution and for
//! literal addresses alike, follows no redirect and bounds time and size. [`Policy`] narrows that to what one run may
//! reach on the web. [`EngineClient`] is for addresses that the operator chose. [`Outbound`] has the operator's proxies and
//! certificates for both. Nobody else builds an HTTP client.

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

/// Failure to make a request or to take its answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The URL is not one this client goes to: its scheme, its user info or its missing host.
    #[error("{0}")]
    Url(&'static str),
    /// The host is, or resolves to, an address that must not be reached.
    #[error("{host} is not a public address")]
    Refused {
        /// The host as the URL names it.
        host: String,
    },
    /// The run may not go there.
    #[error(transparent)]
    Policy(#[from] Refused),
    /// The answer is larger than the caller takes.
    #[error("the answer is larger than {limit} bytes")]
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The body is in a content coding that is not decoded here.
    #[error("the answer is compressed as `{0}`, which was not asked for")]
    Coding(String),
    /// The body ends before its compressed content does.
    #[error("the compressed answer ends early")]
    CutOff,
    /// The body is not in the form of its content coding.
    #[error("the compressed answer cannot be unpacked")]
    Undecodable,
    /// The server switched protocols, which no request here asks for.
    #[error("the server switched protocols, which was not asked for")]
    Switched,
    /// No client can be made with the settings of TLS.
    #[error("TLS cannot be set up: {0}")]
    Setup(String),
    /// The request failed on its way: connection, TLS, time or protocol.
    #[error("{}", words::of(.0))]
    Http(#[source] reqwest::Error),
}

impl From<reqwest::Error> for Error {
    /// Takes the URL out first: it may hold what must not be logged.
    fn from(error: reqwest::Error) -> Self {
        Self::Http(error.without_url())
    }
}
