//! Requests of a careful client: each is repeated until a node answers it. The broken attempts are counted, because
//! each of them may have taken effect.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicU32, AtomicUsize, Ordering},
};

use anyhow::bail;
use parking_lot::Mutex;
use sortie_testkit::{
    Browser, PATIENCE,
    browser::{FORM, encoded},
};

use crate::{prelude::*, world::Doors};

/// Pause before the next attempt.
const PAUSE: Duration = Duration::from_millis(20);

/// Figures of all requests of a test.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// Answers.
    pub(crate) answered: AtomicUsize,
    /// Attempts that broke because the node was killed.
    pub(crate) lost: AtomicUsize,
    networks: AtomicU32,
}

/// Addresses of the running nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ways {
    /// Doors of the organization API.
    pub(crate) org: Doors,
    /// Doors of the engine API.
    pub(crate) engine: Doors,
    /// Address of the organization API as pages know it.
    pub(crate) org_url: String,
    pub(crate) figures: Arc<Figures>,
}

/// Client of the deployment with its own source of randomness.
#[derive(Debug)]
pub(crate) struct Requests {
    ways: Ways,
    random: Mutex<fastrand::Rng>,
}

/// A request to either API.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    method: Method,
    path: String,
    credential: Option<String>,
    body: Bytes,
    /// `Idempotency-Key`.
    name: Option<String>,
    is_form: bool,
    is_engine: bool,
    may_be_unavailable: bool,
}

/// An answer, and the number of attempts before it that broke.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) answer: Answer,
    pub(crate) lost: usize,
}

impl Call {
    fn new(method: Method, path: impl Into<String>, body: Bytes) -> Self {
        Self {
            method,
            path: path.into(),
            credential: None,
            body,
            name: None,
            is_form: false,
            is_engine: false,
            may_be_unavailable: false,
        }
    }

    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path, Bytes::new())
    }

    pub(crate) fn delete(path: impl Into<String>) -> Self {
        Self::new(Method::DELETE, path, Bytes::new())
    }

    pub(crate) fn post(path: impl Into<String>, body: &Value) -> Self {
        Self::new(Method::POST, path, body.to_string().into())
    }

    pub(crate) fn put(path: impl Into<String>, body: &Value) -> Self {
        Self::new(Method::PUT, path, body.to_string().into())
    }

    pub(crate) fn patch(path: impl Into<String>, body: &Value) -> Self {
        Self::new(Method::PATCH, path, body.to_string().into())
    }

    /// A form to an endpoint of the OAuth server.
    pub(crate) fn form(path: &str, fields: &[(&str, &str)]) -> Self {
        let mut call = Self::new(Method::POST, path, encoded(fields).into());
        call.is_form = true;
        call
    }

    /// Sends the request with this credential.
    pub(crate) fn by(mut self, credential: &str) -> Self {
        self.credential = Some(credential.to_owned());
        self
    }

    /// Sends the request with this `Idempotency-Key`.
    pub(crate) fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Accepts 503 as an answer: a service that the node calls may be unavailable.
    pub(crate) fn or_unavailable(mut self) -> Self {
        self.may_be_unavailable = true;
        self
    }

    /// Sends the request to the engine API.
    pub(crate) fn at_engine(mut self) -> Self {
        self.is_engine = true;
        self
    }
}

impl Answered {
    /// This answer, if it has the status.
    pub(crate) fn expect(self, status: u16) -> Result<Answer> {
        self.answer.expect(status)
    }

    /// Whether it has one of two statuses: `done`, or `gone` if a lost attempt had succeeded.
    pub(crate) fn is_done(&self, done: u16, gone: u16) -> Result<bool> {
        let status = self.answer.status;
        let excused = status == gone && self.lost > 0;
        ensure!(
            status == done || excused,
            "expected {done}, got {status} after {} lost attempts: {}",
            self.lost,
            self.answer.text()
        );
        Ok(status == done)
    }
}

impl Requests {
    pub(crate) fn new(ways: Ways, random: fastrand::Rng) -> Self {
        Self {
            ways,
            random: Mutex::new(random),
        }
    }

    /// Returns something drawn from the seed.
    pub(crate) fn draw<T>(&self, draw: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
        draw(&mut self.random.lock())
    }

    /// Sends a request until a node answers with another status than 503.
    pub(crate) async fn ask(&self, call: &Call) -> Result<Answered> {
        let deadline = Instant::now() + PATIENCE;
        let mut lost = 0;
        loop {
            let answer = self.try_once(call).await?;
            if let Some(answer) = answer.filter(|answer| answer.status != 503) {
                return Ok(Answered { answer, lost });
            }
            lost += 1;
            ensure!(Instant::now() < deadline, "no answer to {}", call.path);
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Sends a request once. `None` if the answer was lost.
    pub(crate) async fn try_once(&self, call: &Call) -> Result<Option<Answer>> {
        let doors = if call.is_engine {
            &self.ways.engine
        } else {
            &self.ways.org
        };
        let client = Client::new(self.door(doors).await?, call.credential.clone());
        let mut client = client.with_header("x-forwarded-for", self.network()?);
        if call.is_form {
            client = client.with_header("content-type", FORM);
        }
        if let Some(name) = &call.name {
            client = client.with_header("idempotency-key", name);
        }
        let answer = client
            .send(call.method.clone(), &call.path, call.body.clone())
            .await;
        if let (Ok(answer), true) = (&answer, call.may_be_unavailable)
            && answer.status == 503
        {
            self.ways.figures.answered.fetch_add(1, Ordering::Relaxed);
            return Ok(Some(answer.clone()));
        }
        self.heard(answer, &call.path)
    }

    /// Opens a page as a person with a session, until a node answers.
    pub(crate) async fn open(&self, path: &str, token: &str) -> Result<Answer> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let page = self.browser(token).await?.get(path).await;
            if let Some(page) = self.heard(page, path)? {
                return page.expect(200);
            }
            ensure!(Instant::now() < deadline, "no answer to {path}");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Sends the form of a page once. `None` if the answer was lost.
    pub(crate) async fn submit(
        &self,
        path: &str,
        token: &str,
        fields: &[(&str, &str)],
    ) -> Result<Option<Answer>> {
        let answer = self.browser(token).await?.post(path, fields).await;
        self.heard(answer, path)
    }

    async fn browser(&self, token: &str) -> Result<Browser> {
        let address = self.door(&self.ways.org).await?;
        Ok(Browser::signed_in(address, &self.ways.org_url, token))
    }

    /// Waits until a node is up. Returns the address of some node.
    async fn door(&self, doors: &Doors) -> Result<SocketAddr> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(address) = self.draw(|random| doors.address(random)) {
                return Ok(address);
            }
            ensure!(Instant::now() < deadline, "no node is up");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Address of a new network: this test is not about the limits of networks.
    fn network(&self) -> Result<HeaderValue> {
        let [_, a, b, c] = self
            .ways
            .figures
            .networks
            .fetch_add(1, Ordering::Relaxed)
            .to_be_bytes();
        Ok(HeaderValue::try_from(format!("10.{a}.{b}.{c}"))?)
    }

    /// Counts an answer or a lost attempt. A node that answers at all must not answer with an internal error.
    fn heard(&self, answer: Result<Answer>, path: &str) -> Result<Option<Answer>> {
        let figures = &self.ways.figures;
        let Ok(answer) = answer else {
            figures.lost.fetch_add(1, Ordering::Relaxed);
            return Ok(None);
        };
        figures.answered.fetch_add(1, Ordering::Relaxed);
        if answer.status >= 500 || answer.status == 429 {
            bail!("{path}: {} {}", answer.status, answer.text());
        }
        Ok(Some(answer))
    }
}
