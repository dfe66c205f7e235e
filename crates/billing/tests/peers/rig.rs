//! Servers with Stripe's API, and plain requests to them.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use serde_json::Value;
use sortie_api::Credential;
use sortie_billing::{Stripe, StripeSettings};
use sortie_testkit::{
    Answer, Bytes, Client, StripeDouble,
    http::Method,
    peers::{Peer, installed},
    ports::free_ports,
};

/// Key that the peers accept.
pub(crate) const KEY: &str = "sk_test_peer";

/// Number of ports to try, because other processes may take one first.
const TRIES: usize = 5;

/// Server with Stripe's API.
pub(crate) struct Api {
    pub(crate) name: &'static str,
    address: SocketAddr,
    key: String,
    _peer: Option<Peer>,
}

impl Api {
    /// Returns the double as such a server.
    pub(crate) fn of_double(double: &StripeDouble) -> Self {
        Self {
            name: "double",
            address: double.address(),
            key: double.secret_key().to_owned(),
            _peer: None,
        }
    }

    /// Starts a server. `arguments` returns its arguments for a port.
    pub(crate) fn start(name: &'static str, program: &Path, arguments: impl Fn(u16) -> Vec<String>) -> Self {
        let mut ports = free_ports();
        for _ in 0..TRIES {
            let port = ports.next().unwrap();
            let arguments = arguments(port);
            let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
            let mut peer = Peer::start(program, &arguments).unwrap();
            if peer.listens_on(port).unwrap() {
                return Self {
                    name,
                    address: SocketAddr::from(([127, 0, 0, 1], port)),
                    key: KEY.to_owned(),
                    _peer: Some(peer),
                };
            }
        }
        panic!("{name} does not start")
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sortie's own client of this server.
    pub(crate) fn client(&self) -> Stripe {
        Stripe::new(StripeSettings {
            secret_key: Credential::new(self.key.as_str()),
            webhook_secrets: Vec::new(),
            api_url: self.url().parse().unwrap(),
            outbound: sortie_net::Outbound::default(),
        })
        .unwrap()
    }

    /// Sends a form, optionally with an idempotency key.
    pub(crate) async fn post(&self, path: &str, key: Option<&str>, form: &str) -> Answer {
        let mut client = Client::new(self.address, Some(self.key.clone()))
            .with_header("content-type", "application/x-www-form-urlencoded");
        if let Some(key) = key {
            client = client.with_header("idempotency-key", key);
        }
        let body = Bytes::copy_from_slice(form.as_bytes());
        client.send(Method::POST, path, body).await.unwrap()
    }

    /// Sends a form, and returns the identifier of the created object.
    pub(crate) async fn made(&self, path: &str, form: &str) -> String {
        let made: Value = self
            .post(path, None, form)
            .await
            .expect(200)
            .unwrap()
            .json()
            .unwrap();
        made["id"].as_str().unwrap().to_owned()
    }
}

/// Path of a script in the folder of these tests.
pub(crate) fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/peers/servers")
        .join(name)
}

/// Python with the packages of the peers.
pub(crate) fn python() -> PathBuf {
    installed("venv/bin/python").unwrap()
}
