//! A store with the S3 API: moto's server, which `scripts/peers` installs, with one bucket.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result};
use bytes::Bytes;
use http::Method;

use crate::{Client, peers::installed};

/// The bucket that there is.
pub const BUCKET: &str = "bucket";

/// The server. Dropping it ends it and removes its data.
#[derive(Debug)]
pub struct S3 {
    child: Child,
    address: SocketAddr,
}

impl S3 {
    /// Starts the server and makes the bucket.
    pub async fn start() -> Result<Self> {
        let program = installed("venv/bin/moto_server")?;
        #[expect(clippy::disallowed_methods, reason = "a peer is no process of the node")]
        let mut child = Command::new(&program)
            .args(["-H", "127.0.0.1", "-p", "0"])
            .env("PYTHONUNBUFFERED", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("{}: run scripts/peers", program.display()))?;
        let said = child.stderr.take();
        let mut lines = BufReader::new(said.context("the server has no standard error")?).lines();
        let mut store = Self {
            child,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
        };
        // The server takes a free port, and logs the number.
        let mut before = String::new();
        store.address = loop {
            let line = lines
                .next()
                .with_context(|| format!("the server ended:\n{before}"))??;
            match line.split_once("Running on http://") {
                Some((_, address)) => break address.trim().parse().context(line.clone())?,
                None => before.extend([line.as_str(), "\n"]),
            }
        };
        // Read on, so that it never blocks.
        std::thread::spawn(move || lines.for_each(drop));
        store
            .client()
            .send(Method::PUT, &format!("/{BUCKET}"), Bytes::new())
            .expect(200)
            .await?;
        Ok(store)
    }

    fn client(&self) -> Client {
        Client::new(self.address, None)
    }

    /// Returns the address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The variables that it is reached with.
    pub fn variables(&self) -> [(&'static str, String); 4] {
        [
            ("AWS_ACCESS_KEY_ID", "test".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "test".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ENDPOINT_URL", format!("http://{}", self.address)),
        ]
    }

    /// The keys in the bucket.
    pub async fn keys(&self) -> Result<Vec<String>> {
        self.listed("list-type=2", "Key").await
    }

    /// The ids of uploads in parts that are neither complete nor aborted.
    pub async fn uploads(&self) -> Result<Vec<String>> {
        self.listed("uploads", "UploadId").await
    }

    async fn listed(&self, list: &str, element: &str) -> Result<Vec<String>> {
        let list = self
            .client()
            .get(&format!("/{BUCKET}?{list}"))
            .expect(200)
            .await?;
        let (begin, end) = (format!("<{element}>"), format!("</{element}>"));
        Ok(list
            .text()
            .split(&begin)
            .skip(1)
            .filter_map(|rest| rest.split(&end).next())
            .map(str::to_owned)
            .collect())
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        // The process may have exited already, and the test has noticed by then.
        let _killed = self.child.kill();
        let _waited = self.child.wait();
    }
}
