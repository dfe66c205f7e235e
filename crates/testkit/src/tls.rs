//! TLS before a peer that speaks without it, with certificates that no public authority has issued.
//!
//! The certificates in the folder next to this file are for `localhost`, `127.0.0.1` and the subdomains of
//! `example.test`, from 2020 to 2120. The key of the authority is not kept.

use std::{io, net::SocketAddr, sync::Arc};

use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use crate::serve::ANY;

/// Certificate of the authority `O=Example Inc., CN=Example Test Authority`.
pub const AUTHORITY: &str = include_str!("tls/authority.pem");

/// Key of every server.
const KEY: &str = include_str!("tls/server.key");

/// Certificate that a server shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerCertificate {
    /// Issued by [`AUTHORITY`].
    OfAuthority,
    /// Self-signed.
    SelfSigned,
    /// Self-signed as an authority, as `openssl req -x509` does.
    AuthorityAsServer,
}

impl ServerCertificate {
    /// The certificate in PEM.
    pub const fn pem(self) -> &'static str {
        match self {
            Self::OfAuthority => include_str!("tls/server.pem"),
            Self::SelfSigned => include_str!("tls/self_signed.pem"),
            Self::AuthorityAsServer => include_str!("tls/authority_as_server.pem"),
        }
    }
}

/// A running server of TLS; dropping it stops it.
#[derive(Debug)]
pub struct TlsFront {
    address: SocketAddr,
    _task: JoinSet<()>,
}

impl TlsFront {
    /// Accepts TLS on a free port and passes the decrypted data on to `upstream`.
    pub async fn start(upstream: SocketAddr, certificate: ServerCertificate) -> io::Result<Self> {
        let shown = CertificateDer::from_pem_slice(certificate.pem().as_bytes()).map_err(io::Error::other)?;
        let key = PrivateKeyDer::from_pem_slice(KEY.as_bytes()).map_err(io::Error::other)?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|config| config.with_no_client_auth().with_single_cert(vec![shown], key))
            .map_err(io::Error::other)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind(ANY).await?;
        let address = listener.local_addr()?;
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                connections.spawn(async move {
                    let mut inside = acceptor.accept(stream).await?;
                    let mut upstream = TcpStream::connect(upstream).await?;
                    copy_bidirectional(&mut inside, &mut upstream).await
                });
            }
        });
        Ok(Self { address, _task: task })
    }

    /// Returns the address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}
