//! A receiver of completion callbacks: checks the signature (`docs/CALLBACKS.md#what-is-sent`) as a careful client
//! would, counts the deliveries of each run, and answers as the test configures it.

use std::{
    collections::VecDeque,
    io,
    net::SocketAddr,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, ensure};
use axum::{Router, extract::State, routing::post};
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use serde_json::Value;
use sha2::Sha256;
use tokio::{sync::watch, time::timeout};

use crate::{PATIENCE, serve::Serving};

/// Maximum age of a signature, in seconds.
const OLDEST_SECONDS: u64 = 300;

/// Request that reached the receiver.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// `X-Service-Run`.
    pub run: String,
    /// The run object in the body.
    pub body: Value,
    /// The body as it came.
    pub raw: Bytes,
    /// The headers.
    pub headers: HeaderMap,
    /// Reason why the delivery is not genuine, if it is not.
    pub refused: Option<String>,
}

/// A running receiver.
#[derive(Debug)]
pub struct CallbackReceiver {
    server: Serving,
    received: watch::Receiver<Vec<Delivery>>,
    answers: Arc<Mutex<VecDeque<StatusCode>>>,
    held: Arc<watch::Sender<bool>>,
}

struct Shared {
    secret: String,
    received: watch::Sender<Vec<Delivery>>,
    answers: Arc<Mutex<VecDeque<StatusCode>>>,
    held: Arc<watch::Sender<bool>>,
}

impl CallbackReceiver {
    /// Starts a receiver that shares `secret` with the sender.
    pub async fn start(secret: &str) -> io::Result<Self> {
        let (sender, received) = watch::channel(Vec::new());
        let answers = Arc::new(Mutex::new(VecDeque::new()));
        let held = Arc::new(watch::Sender::new(false));
        let shared = Shared {
            secret: secret.to_owned(),
            received: sender,
            answers: Arc::clone(&answers),
            held: Arc::clone(&held),
        };
        let router = Router::new()
            .route("/", post(receive))
            .with_state(Arc::new(shared));
        Ok(Self {
            server: Serving::start(router).await?,
            received,
            answers,
            held,
        })
    }

    /// Returns the value for `callback.url`.
    pub fn url(&self) -> String {
        format!("{}/", self.server.base_url())
    }

    /// Returns the address of the receiver.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Deliveries so far, genuine or not.
    pub fn all(&self) -> Vec<Delivery> {
        self.received.borrow().clone()
    }

    /// Answers the next deliveries with these statuses, one each; then with 204 again.
    pub fn answer_with(&self, statuses: impl IntoIterator<Item = StatusCode>) {
        self.answers.lock().extend(statuses);
    }

    /// Holds back all answers until [`release`](Self::release).
    pub fn hold(&self) {
        self.held.send_replace(true);
    }

    /// Answers the held deliveries and all later ones.
    pub fn release(&self) {
        self.held.send_replace(false);
    }

    /// Waits until there were `count` deliveries in all.
    pub async fn wait_for_all(&self, count: usize) -> Result<Vec<Delivery>> {
        let mut received = self.received.clone();
        let waited = timeout(PATIENCE, received.wait_for(|all| all.len() >= count)).await;
        let all = waited.with_context(|| format!("there were not {count} deliveries"))??;
        Ok(all.clone())
    }

    /// The deliveries of a run so far, genuine or not.
    pub fn deliveries(&self, run: &str) -> Vec<Delivery> {
        self.received
            .borrow()
            .iter()
            .filter(|delivery| delivery.run == run)
            .cloned()
            .collect()
    }

    /// Waits until a run was delivered `count` times.
    pub async fn wait_for(&self, run: &str, count: usize) -> Result<Vec<Delivery>> {
        let mut received = self.received.clone();
        let enough =
            received.wait_for(|all| all.iter().filter(|delivery| delivery.run == run).count() >= count);
        let waited = timeout(PATIENCE, enough).await;
        waited.with_context(|| format!("{run} was not delivered {count} times"))??;
        Ok(self.deliveries(run))
    }
}

async fn receive(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let refused = verify(&shared.secret, &headers, &body, now())
        .err()
        .map(|error| format!("{error:#}"));
    let delivery = Delivery {
        run: text(&headers, "x-service-run").unwrap_or_default().to_owned(),
        body: serde_json::from_slice(&body).unwrap_or_default(),
        raw: body,
        headers,
        refused,
    };
    let genuine = delivery.refused.is_none();
    shared.received.send_modify(|all| all.push(delivery));
    // An error would mean that the receiver was dropped, and with it the test that expects its answer.
    let mut held = shared.held.subscribe();
    drop(held.wait_for(|held| !held).await);
    let next = shared.answers.lock().pop_front();
    let good = if genuine {
        StatusCode::NO_CONTENT
    } else {
        StatusCode::UNAUTHORIZED
    };
    next.unwrap_or(good)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the receiver is another machine: it has a clock of its own"
)]
fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Result<&'a str> {
    Ok(headers
        .get(name)
        .with_context(|| format!("no {name}"))?
        .to_str()?)
}

/// Checks a delivery as `docs/CALLBACKS.md#what-is-sent` tells receivers to.
fn verify(secret: &str, headers: &HeaderMap, body: &[u8], now: u64) -> Result<()> {
    ensure!(
        text(headers, "content-type")?.starts_with("application/json"),
        "not JSON"
    );
    let timestamp = text(headers, "x-service-timestamp")?;
    ensure!(
        timestamp.bytes().all(|byte| byte.is_ascii_digit()),
        "the timestamp is not digits only"
    );
    let signed_at: u64 = timestamp.parse()?;
    ensure!(
        signed_at.abs_diff(now) <= OLDEST_SECONDS,
        "signed at {signed_at}, now is {now}"
    );
    let hex = text(headers, "x-service-signature")?
        .strip_prefix("sha256=")
        .context("not a sha256 signature")?;
    let lowercase = hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    ensure!(hex.len() == 64 && lowercase, "not 64 lowercase hex characters");
    let mut signature = [0_u8; 32];
    for (byte, digits) in signature.iter_mut().zip(hex.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits)?, 16)?;
    }
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes())?;
    mac.update(timestamp.as_bytes());
    mac.update(b".");
    mac.update(body);
    mac.verify_slice(&signature)
        .context("the signature does not match")?;
    let run: Value = serde_json::from_slice(body)?;
    ensure!(
        run.get("id").and_then(Value::as_str) == Some(text(headers, "x-service-run")?),
        "the header names another run"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    /// Computed with `printf '1700000000.{"id":"run_1"}' | openssl dgst -sha256 -hmac geheim`.
    const SIGNATURE: &str = "sha256=97807c459399a09625a0d46bc9da56c7e8be022f30f2f3ec11faa39df88e82d7";

    fn headers() -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        headers.insert("x-service-run", HeaderValue::from_static("run_1"));
        headers.insert("x-service-timestamp", HeaderValue::from_static("1700000000"));
        headers.insert("x-service-signature", HeaderValue::from_static(SIGNATURE));
        headers
    }

    fn refusal(headers: &HeaderMap, body: &str, now: u64) -> String {
        verify("geheim", headers, body.as_bytes(), now)
            .err()
            .map(|e| e.to_string())
            .unwrap_or_default()
    }

    #[test]
    fn a_signature_made_elsewhere_is_accepted() {
        assert_eq!(refusal(&headers(), r#"{"id":"run_1"}"#, 1_700_000_100), "");
    }

    #[test]
    fn another_body_an_old_time_and_an_uppercase_signature_are_refused() {
        let body = r#"{"id":"run_1"}"#;
        assert_eq!(
            refusal(&headers(), r#"{"id":"run_2"}"#, 1_700_000_000),
            "the signature does not match"
        );
        assert!(refusal(&headers(), body, 1_700_000_301).starts_with("signed at"));
        let mut loud = headers();
        let upper = format!("sha256={}", SIGNATURE["sha256=".len()..].to_uppercase());
        loud.insert("x-service-signature", HeaderValue::try_from(upper).unwrap());
        assert_eq!(
            refusal(&loud, body, 1_700_000_000),
            "not 64 lowercase hex characters"
        );
    }

    #[tokio::test]
    async fn a_forged_delivery_is_counted_and_answered_with_401() {
        let receiver = CallbackReceiver::start("geheim").await.unwrap();
        let address = receiver.server.base_url()["http://".len()..].parse().unwrap();
        let client = crate::Client::new(address, None)
            .with_header("x-service-run", "run_1")
            .with_header("x-service-timestamp", "1")
            .with_header("x-service-signature", SIGNATURE);
        let answer = client
            .post("/", &serde_json::json!({"id": "run_1"}))
            .await
            .unwrap();
        assert_eq!(answer.status, 401);
        let deliveries = receiver.wait_for("run_1", 1).await.unwrap();
        assert!(
            deliveries[0]
                .refused
                .as_deref()
                .unwrap()
                .starts_with("signed at 1")
        );
    }
}
