//! Webhooks: signed, sent at least once, and dropped, delayed, repeated and reordered as the test configures.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::{HeaderValue, Method};
use parking_lot::{Mutex, MutexGuard};
use sha2::Sha256;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{sleep, timeout},
};
use url::{Position, Url};

use crate::{Client, PATIENCE};

/// Attempts at a delivery, and the pause after the first. Stripe doubles its pauses for three days.
const ATTEMPTS: u32 = 6;
const PAUSE: Duration = Duration::from_millis(50);

/// Treatment of events from now on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WebhookMode {
    /// Each is sent at once.
    #[default]
    Sent,
    /// Each is sent this often.
    Repeated(usize),
    /// Each is sent after this time.
    Delayed(Duration),
    /// Each waits for [`release_webhooks`](super::StripeDouble::release_webhooks).
    Held,
    /// None is sent.
    Dropped,
}

/// Order in which held events are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookOrder {
    /// The oldest first.
    AsMade,
    /// The newest first.
    Reversed,
    /// Any order, which the seed decides.
    Shuffled(u64),
}

/// Attempt to deliver an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookDelivery {
    /// Identifier of the event.
    pub event: String,
    /// Type of the event.
    pub kind: String,
    /// Status of the answer, if there was one.
    pub status: Option<u16>,
    /// Time until the answer.
    pub took: Duration,
}

/// Signed request that waits to be sent.
#[derive(Clone, Debug)]
pub(super) struct Webhook {
    pub(super) event: String,
    pub(super) kind: String,
    pub(super) body: Bytes,
}

/// Receiver of events.
#[derive(Clone, Debug)]
struct Endpoint {
    url: Url,
    secrets: Vec<String>,
}

#[derive(Debug, Default)]
struct Settings {
    endpoint: Option<Endpoint>,
    /// Types of events that the endpoint wants; `None` for every type.
    kinds: Option<Vec<String>>,
    mode: WebhookMode,
    held: Vec<Webhook>,
}

impl Settings {
    fn wants(&self, kind: &str) -> bool {
        let kinds = self.kinds.as_ref();
        kinds.is_none_or(|kinds| kinds.iter().any(|wanted| wanted == kind))
    }
}

/// Sender of webhooks.
#[derive(Debug)]
pub(super) struct Webhooks {
    settings: Mutex<Settings>,
    /// Batches; a batch is sent in order.
    queue: mpsc::UnboundedSender<Batch>,
    delivered: watch::Sender<Vec<WebhookDelivery>>,
}

#[derive(Debug)]
struct Batch {
    endpoint: Endpoint,
    delay: Duration,
    webhooks: Vec<Webhook>,
}

/// Batches that are still to be sent.
#[derive(Debug)]
pub(super) struct Queue(mpsc::UnboundedReceiver<Batch>);

/// Returns the value of the header `Stripe-Signature` for a body, with a signature for each secret.
pub fn signature(secrets: &[&str], at: i64, body: &[u8]) -> Result<String> {
    let mut header = format!("t={at}");
    for secret in secrets {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes())?;
        mac.update(format!("{at}.").as_bytes());
        mac.update(body);
        header.push_str(",v1=");
        for byte in mac.finalize().into_bytes() {
            write!(header, "{byte:02x}")?;
        }
    }
    Ok(header)
}

/// Shuffles values by a seed.
pub(super) fn shuffle<T>(values: &mut [T], seed: u64) {
    let mut state = seed | 1;
    for last in (1..values.len()).rev() {
        // Xorshift: the order must only be the same on each machine.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let bound = u64::try_from(last + 1).unwrap_or(u64::MAX);
        values.swap(last, usize::try_from(state % bound).unwrap_or_default());
    }
}

impl Webhooks {
    pub(super) fn new() -> (Self, Queue) {
        let (queue, receiver) = mpsc::unbounded_channel();
        let webhooks = Self {
            settings: Mutex::default(),
            queue,
            delivered: watch::Sender::new(Vec::new()),
        };
        (webhooks, Queue(receiver))
    }

    fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock()
    }

    pub(super) fn send_to(&self, url: &str, secrets: &[&str]) -> Result<()> {
        let endpoint = Endpoint {
            url: url.parse().with_context(|| format!("{url} is no address"))?,
            secrets: secrets.iter().map(ToString::to_string).collect(),
        };
        self.settings().endpoint = Some(endpoint);
        Ok(())
    }

    pub(super) fn limit_to(&self, kinds: &[&str]) {
        self.settings().kinds = Some(kinds.iter().map(ToString::to_string).collect());
    }

    /// Whether the endpoint wants events of this type.
    pub(super) fn wants(&self, kind: &str) -> bool {
        self.settings().wants(kind)
    }

    pub(super) fn set_mode(&self, mode: WebhookMode) {
        self.settings().mode = mode;
    }

    /// Takes new events.
    pub(super) fn take(&self, webhooks: Vec<Webhook>) {
        let mut settings = self.settings();
        for webhook in webhooks {
            if !settings.wants(&webhook.kind) {
                continue;
            }
            let (times, delay) = match settings.mode {
                WebhookMode::Sent => (1, Duration::ZERO),
                WebhookMode::Repeated(times) => (times, Duration::ZERO),
                WebhookMode::Delayed(delay) => (1, delay),
                WebhookMode::Held => {
                    settings.held.push(webhook);
                    continue;
                }
                WebhookMode::Dropped => continue,
            };
            for _ in 0..times {
                self.enqueue(settings.endpoint.clone(), delay, vec![webhook.clone()]);
            }
        }
    }

    fn enqueue(&self, endpoint: Option<Endpoint>, delay: Duration, webhooks: Vec<Webhook>) {
        if let Some(endpoint) = endpoint {
            // An error would mean that the double was dropped.
            let _sent = self.queue.send(Batch {
                endpoint,
                delay,
                webhooks,
            });
        }
    }

    /// Sends the held events, each `times`.
    pub(super) fn release(&self, order: WebhookOrder, times: usize) {
        let (endpoint, mut held) = {
            let mut settings = self.settings();
            (settings.endpoint.clone(), std::mem::take(&mut settings.held))
        };
        held = held
            .iter()
            .flat_map(|webhook| std::iter::repeat_n(webhook.clone(), times))
            .collect();
        match order {
            WebhookOrder::AsMade => {}
            WebhookOrder::Reversed => held.reverse(),
            WebhookOrder::Shuffled(seed) => shuffle(&mut held, seed),
        }
        self.enqueue(endpoint, Duration::ZERO, held);
    }

    /// Sends one event again, whatever the mode.
    pub(super) fn resend(&self, webhook: Webhook) {
        let endpoint = self.settings().endpoint.clone();
        self.enqueue(endpoint, Duration::ZERO, vec![webhook]);
    }

    pub(super) fn deliveries(&self) -> Vec<WebhookDelivery> {
        self.delivered.borrow().clone()
    }

    pub(super) async fn wait_for(
        &self,
        enough: impl Fn(&[WebhookDelivery]) -> bool + Send + Sync,
    ) -> Result<Vec<WebhookDelivery>> {
        let mut delivered = self.delivered.subscribe();
        let waited = timeout(PATIENCE, delivered.wait_for(|all| enough(all))).await;
        let all = waited.with_context(|| format!("only {:?} were delivered", self.deliveries()))??;
        Ok(all.clone())
    }

    /// Sends batches until the double is gone.
    pub(super) async fn run(&self, mut queue: Queue, now: impl Fn() -> i64) {
        let mut batches = JoinSet::new();
        while let Some(batch) = queue.0.recv().await {
            while batches.try_join_next().is_some() {}
            let (delivered, now) = (self.delivered.clone(), now());
            let begun = Instant::now();
            batches.spawn(async move {
                sleep(batch.delay).await;
                for webhook in &batch.webhooks {
                    let at = now + i64::try_from(begun.elapsed().as_secs()).unwrap_or_default();
                    deliver_until_taken(&batch.endpoint, webhook, at, &delivered).await;
                }
            });
        }
    }

    /// Sends events to the addresses in turn, at this rate per second, and waits for every answer.
    pub(super) async fn storm(
        &self,
        urls: &[String],
        webhooks: Vec<Webhook>,
        (per_second, now): (u32, i64),
    ) -> Result<Vec<WebhookDelivery>> {
        let endpoint = self.settings().endpoint.clone().context("no endpoint")?;
        let urls: Vec<Url> = urls
            .iter()
            .map(|url| Url::parse(url))
            .collect::<Result<_, _>>()
            .context("a storm needs addresses")?;
        ensure!(
            per_second > 0 && !urls.is_empty(),
            "a storm needs a rate and addresses"
        );
        let mut ticks = tokio::time::interval(Duration::from_secs(1) / per_second);
        let begun = Instant::now();
        let mut sent = JoinSet::new();
        for (webhook, url) in webhooks.into_iter().zip(urls.into_iter().cycle()) {
            ticks.tick().await;
            let endpoint = Endpoint {
                url,
                ..endpoint.clone()
            };
            let at = now + i64::try_from(begun.elapsed().as_secs()).unwrap_or_default();
            sent.spawn(async move { deliver(&endpoint, &webhook, at).await });
        }
        Ok(sent.join_all().await)
    }
}

/// Delivers until an answer is good, or until Stripe would stop retrying.
async fn deliver_until_taken(
    endpoint: &Endpoint,
    webhook: &Webhook,
    at: i64,
    delivered: &watch::Sender<Vec<WebhookDelivery>>,
) {
    let mut pause = PAUSE;
    for _ in 0..ATTEMPTS {
        let delivery = deliver(endpoint, webhook, at).await;
        let is_taken = delivery.status.is_some_and(|status| (200..300).contains(&status));
        delivered.send_modify(|all| all.push(delivery));
        if is_taken {
            return;
        }
        sleep(pause).await;
        pause *= 2;
    }
}

async fn deliver(endpoint: &Endpoint, webhook: &Webhook, at: i64) -> WebhookDelivery {
    let begun = Instant::now();
    let answer = send(endpoint, webhook, at).await;
    WebhookDelivery {
        event: webhook.event.clone(),
        kind: webhook.kind.clone(),
        status: answer.ok(),
        took: begun.elapsed(),
    }
}

async fn send(endpoint: &Endpoint, webhook: &Webhook, at: i64) -> Result<u16> {
    let secrets: Vec<_> = endpoint.secrets.iter().map(String::as_str).collect();
    let header = HeaderValue::try_from(signature(&secrets, at, &webhook.body)?)?;
    let addresses = endpoint.url.socket_addrs(|| None)?;
    let address = addresses.first().context("the endpoint has no address")?;
    let path = &endpoint.url[Position::BeforePath..Position::AfterQuery];
    let client = Client::new(*address, None).with_header("stripe-signature", header);
    let answer = client.send(Method::POST, path, webhook.body.clone()).await?;
    Ok(answer.status)
}
