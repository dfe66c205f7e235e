//! Persistent HTTP/1.1 connection, which reconnects after the server has closed it.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{HeaderName, Method, Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    client::conn::http1::{self, SendRequest},
};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use sortie_testkit::Node;
use tokio::{net::TcpStream, task::JoinSet};

/// Header for the authentication of a connection, and its value.
type Credential = (HeaderName, String);

/// A connection to one node with one credential or none.
pub(crate) struct Connection {
    address: SocketAddr,
    credential: Option<Credential>,
    /// `Idempotency-Key` of the next request.
    name: Option<String>,
    sender: Option<SendRequest<Full<Bytes>>>,
    driver: JoinSet<()>,
}

impl Connection {
    /// Returns a connection that opens with the first request.
    pub(crate) fn to(node: &Node) -> Result<Self> {
        Ok(Self::at(node.address()?, node.key()))
    }

    /// Returns a connection to an address, with a bearer credential.
    pub(crate) fn at(address: SocketAddr, key: &str) -> Self {
        Self::new(address, Some((header::AUTHORIZATION, format!("Bearer {key}"))))
    }

    /// Returns a connection to an address, with the cookie of a session.
    pub(crate) fn with_cookie(address: SocketAddr, token: &str) -> Self {
        Self::new(address, Some((header::COOKIE, format!("sortie={token}"))))
    }

    /// Returns a connection to an address without a credential.
    pub(crate) fn of_anybody(address: SocketAddr) -> Self {
        Self::new(address, None)
    }

    fn new(address: SocketAddr, credential: Option<Credential>) -> Self {
        Self {
            address,
            credential,
            name: None,
            sender: None,
            driver: JoinSet::new(),
        }
    }

    /// Sets the `Idempotency-Key` of the next request.
    pub(crate) fn name_next(&mut self, name: String) {
        self.name = Some(name);
    }

    /// Sends a request. The caller reads the body of the response.
    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>> {
        let usable = match &mut self.sender {
            Some(sender) => sender.ready().await.is_ok(),
            None => false,
        };
        if !usable {
            let stream = TcpStream::connect(self.address).await.context("cannot connect")?;
            stream.set_nodelay(true)?;
            let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
            self.driver.abort_all();
            self.driver.spawn(async move {
                // A broken connection also fails the request or its body.
                let _ended = connection.await;
            });
            self.sender = Some(sender);
        }
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, "application/json");
        if let Some((name, value)) = &self.credential {
            request = request.header(name, value);
        }
        if let Some(name) = self.name.take() {
            request = request.header("idempotency-key", name);
        }
        let request = request.body(Full::new(body))?;
        let sender = self.sender.as_mut().context("no connection")?;
        Ok(sender.send_request(request).await?)
    }

    /// Sends a request and reads the whole response.
    pub(crate) async fn call<T: DeserializeOwned>(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
        status: u16,
    ) -> Result<T> {
        let response = self.send(method, path, body).await?;
        let got = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        ensure!(got == status, "{path}: {got} {}", String::from_utf8_lossy(&body));
        Ok(serde_json::from_slice(&body)?)
    }
}
