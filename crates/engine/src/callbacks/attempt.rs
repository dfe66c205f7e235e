//! A single attempt to deliver a callback: reads the run, signs it, sends it and records the outcome.
//!
//! Request bodies in memory share one limit in bytes. An attempt has a time limit, and only the head of the response is
//! read. Redirects are not followed. Only the status of the response is stored. A body that can never be built abandons
//! the delivery at once. Any other failure to build it counts as a failed attempt, unless the database is unavailable.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use hmac::{Hmac, KeyInit, Mac};
use reqwest::{Method, header::CONTENT_TYPE};
use sha2::Sha256;
use sortie_api::{OrgId, Refusal, RunId, Timestamp, TraceContext};
use sortie_net::read_head;
use sortie_store::{
    Error as StoreError,
    outbox::{AfterAttempt, ClaimedDelivery, MadeAttempt},
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use url::Url;

use super::{ATTEMPT, Callbacks, Target, delays::delay, lanes::Health};
use crate::{
    cluster::lease_clock::LeaseClock,
    kit::{
        metrics::{Delivery, Metrics},
        random::random,
        traces::{Traces, delivered, with_trace},
    },
    runs::run_log::Records,
};
use sortie_base::{Clock, hex};

/// Memory limit of all request bodies together, in KiB.
const ROOM_KIB: u32 = 128 << 10;

/// Memory reserved for a body before its size is known, in KiB: 1 MiB of output, escaped at worst, and the rest of the
/// run.
const BODY_KIB: u32 = 8 << 10;

/// Minimum remaining lease for an attempt to begin. The outcome must be recorded before the lease expires.
const LATEST: Duration = Duration::from_secs(18);

/// Limits on reading a response, in bytes and in time. A response read to its end leaves the connection reusable.
const ANSWER_BYTES: usize = 4 << 10;
const ANSWER_TIME: Duration = Duration::from_secs(1);

/// Pause before the next try to store an outcome.
const AFTER_FAILURE: Duration = Duration::from_millis(500);

/// Sends callbacks.
pub(super) struct Sender {
    clock: Clock,
    /// Clock of due times.
    leases: LeaseClock,
    records: Records,
    callbacks: Callbacks,
    metrics: Arc<Metrics>,
    room: Arc<Semaphore>,
    traces: Traces,
}

/// Outcome of a request: the HTTP status, and the error of a failure.
struct Answer {
    status: Option<u16>,
    error: Option<String>,
}

/// Result of building a request body.
enum Body {
    /// The body, with its share of the memory for bodies.
    Made(Vec<u8>, OwnedSemaphorePermit),
    /// Too little of the lease is left, because there was no memory for the body earlier.
    Late,
    /// A failure that may be temporary.
    Failed(&'static str),
    /// A permanent failure.
    Impossible(&'static str),
}

impl Answer {
    fn none(error: String) -> Self {
        Self {
            status: None,
            error: Some(error),
        }
    }
}

impl Sender {
    pub(super) fn new(
        (clock, leases): (Clock, LeaseClock),
        records: Records,
        callbacks: Callbacks,
        metrics: Arc<Metrics>,
        traces: Traces,
    ) -> Self {
        Self {
            clock,
            leases,
            records,
            callbacks,
            metrics,
            room: Arc::new(Semaphore::new(ROOM_KIB as usize)),
            traces,
        }
    }

    /// Makes one attempt, records it, and returns the health of the host.
    pub(super) async fn deliver(self: Arc<Self>, delivery: ClaimedDelivery, lease_ends: Instant) -> Health {
        let spans = self.traces.deliver(&delivery);
        let trace = spans.context.clone();
        spans.around(self.tried(&delivery, lease_ends, trace)).await
    }

    async fn tried(
        &self,
        delivery: &ClaimedDelivery,
        lease_ends: Instant,
        trace: Option<TraceContext>,
    ) -> Health {
        let host = delivery.host.as_str();
        let (at, began) = (self.clock.now(), Instant::now());
        let attempt = AssertUnwindSafe(self.attempt(delivery, lease_ends, trace));
        let made = match attempt.catch_unwind().await {
            Ok(made) => made,
            Err(_panic) => {
                tracing::error!(host, "an attempt to deliver a callback panicked");
                let answer = Answer::none("the attempt failed within the engine".to_owned());
                let failed = self.write_down(delivery, answer, (at, began), lease_ends).await;
                failed.map(|_| Health::Bad)
            }
        };
        made.unwrap_or_else(|error| {
            // The delivery is due again when its lease expires.
            tracing::warn!(host, %error, "cannot make or record an attempt to deliver a callback");
            Health::Unknown
        })
    }

    async fn attempt(
        &self,
        delivery: &ClaimedDelivery,
        lease_ends: Instant,
        trace: Option<TraceContext>,
    ) -> Result<Health, Refusal> {
        let body = self.body((delivery.org, delivery.run), lease_ends).await?;
        let (at, began) = (self.clock.now(), Instant::now());
        let (body, _room) = match body {
            Body::Made(body, room) => (body, room),
            Body::Late => return Ok(Health::Unknown),
            Body::Failed(reason) => {
                let answer = Answer::none(reason.to_owned());
                self.write_down(delivery, answer, (at, began), lease_ends).await?;
                return Ok(Health::Unknown);
            }
            Body::Impossible(reason) => {
                let answer = Answer::none(reason.to_owned());
                let made = made(delivery, answer, (at, began), AfterAttempt::Abandoned);
                self.record(made, &delivery.host, lease_ends).await?;
                return Ok(Health::Unknown);
            }
        };
        let answer = match self
            .callbacks
            .open((delivery.org, delivery.run), &delivery.target)
        {
            Ok(target) => self.send(delivery.run, &target, (body, at), trace).await,
            Err(error) => Answer::none(format!("the callback cannot be read: {error}")),
        };
        let after = self.write_down(delivery, answer, (at, began), lease_ends).await?;
        if after == AfterAttempt::Delivered {
            self.records.unretained.delivered(delivery.run);
        }
        Ok(match after {
            AfterAttempt::Delivered => Health::Good,
            AfterAttempt::RetryAt(_) | AfterAttempt::Abandoned => Health::Bad,
        })
    }

    /// Records an attempt that began at `began`, and returns the next state of the delivery.
    async fn write_down(
        &self,
        delivery: &ClaimedDelivery,
        answer: Answer,
        began: (Timestamp, Instant),
        lease_ends: Instant,
    ) -> Result<AfterAttempt, Refusal> {
        let after = match answer.error {
            None => AfterAttempt::Delivered,
            Some(_) => after_failure(delivery, self.leases.now(), random()?),
        };
        let made = made(delivery, answer, began, after);
        self.record(made, &delivery.host, lease_ends).await?;
        Ok(after)
    }

    /// Builds the request body: the object that `GET /v1/runs/{id}` returns. Fails if the database is unavailable.
    async fn body(&self, (org, run): (OrgId, RunId), lease_ends: Instant) -> Result<Body, Refusal> {
        let room = Arc::clone(&self.room).acquire_many_owned(BODY_KIB).await;
        let mut room = room.map_err(|_| Refusal::internal("the room for callbacks is closed"))?;
        if lease_ends.saturating_duration_since(Instant::now()) < LATEST {
            return Ok(Body::Late);
        }
        let run = match self.records.to_deliver(org, run).await {
            Ok(run) => run,
            Err(error @ StoreError::Unavailable(_)) => return Err(error.into()),
            // Deleting a run also deletes its delivery, so the caller records no outcome.
            Err(StoreError::NotFound) => return Ok(Body::Impossible("the run is gone")),
            Err(error @ StoreError::Corrupt(_)) => {
                tracing::error!(%run, %error, "abandoned a callback: cannot read the run");
                return Ok(Body::Impossible("the stored run cannot be read"));
            }
            Err(error) => {
                tracing::error!(%run, %error, "cannot serialize the body of a callback");
                return Ok(Body::Failed("the run could not be read"));
            }
        };
        let body = match serde_json::to_vec(&run) {
            Ok(body) => body,
            Err(error) => {
                tracing::error!(run = %run.id, %error, "abandoned a callback: cannot serialize the run");
                return Ok(Body::Impossible("the run cannot be written as JSON"));
            }
        };
        // Returns the reserved memory that this body does not need.
        let taken = 1 + body.len() / 1024;
        drop(room.split((BODY_KIB as usize).saturating_sub(taken)));
        Ok(Body::Made(body, room))
    }

    /// Sends one signed request.
    async fn send(
        &self,
        run: RunId,
        target: &Target,
        (body, at): (Vec<u8>, Timestamp),
        trace: Option<TraceContext>,
    ) -> Answer {
        let Ok(url) = Url::parse(&target.url) else {
            return Answer::none("the callback's URL cannot be read".to_owned());
        };
        let timestamp = at.as_micros().div_euclid(1_000_000).to_string();
        let Some(signature) = signature(target.secret.as_bytes(), &timestamp, &body) else {
            return Answer::none("the callback cannot be signed".to_owned());
        };
        let client = &self.callbacks.client;
        let request = match client.request(Method::POST, &url) {
            Ok(request) => request,
            Err(error) => return Answer::none(error.to_string()),
        };
        let request = request
            .header(CONTENT_TYPE, "application/json")
            .header("X-Service-Run", run.to_string())
            .header("X-Service-Timestamp", timestamp)
            .header("X-Service-Signature", signature)
            .body(body);
        let request = with_trace(request, trace.as_ref());
        // The receiver recognizes a repeated request by its run.
        let response = match client.send_repeatable(request).await {
            Ok(response) => response,
            Err(sortie_net::Error::Http(error)) if error.is_timeout() => {
                return Answer::none(format!("no answer within {} s", ATTEMPT.as_secs()));
            }
            Err(error) => return Answer::none(error.to_string()),
        };
        let status = response.status();
        // Only the status counts, so a failure to read the rest of the answer is ignored.
        let _rest = tokio::time::timeout(ANSWER_TIME, read_head(response, ANSWER_BYTES)).await;
        let error = if status.is_success() {
            None
        } else if status.is_redirection() {
            Some(format!(
                "answered {}: redirects are not followed",
                status.as_u16()
            ))
        } else {
            Some(format!("answered {}", status.as_u16()))
        };
        Answer {
            status: Some(status.as_u16()),
            error,
        }
    }

    /// Records an attempt. Retries until the lease expires while the database is unavailable. Only a recorded attempt is counted:
    /// an attempt that is not recorded belongs to a delivery that another node has taken over, or to a deleted run.
    async fn record(&self, made: MadeAttempt, host: &str, lease_ends: Instant) -> Result<(), Refusal> {
        delivered(made.status, made.error.is_some());
        loop {
            match self.records.store.record_attempt(made.clone()).await {
                Ok(()) => {
                    self.report(&made, host);
                    return Ok(());
                }
                // Another node has taken the delivery over, or an earlier try was stored after all.
                Err(StoreError::Fenced) => return Ok(()),
                Err(StoreError::Unavailable(_)) if Instant::now() < lease_ends => {
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Counts and logs a recorded attempt.
    fn report(&self, made: &MadeAttempt, host: &str) {
        let took = Duration::from_millis(made.duration_ms.unsigned_abs());
        self.metrics.delivered(outcome(made.after), took);
        tracing::debug!(
            host,
            delivery.attempt = made.number,
            status = made.status,
            error = made.error,
            "callback"
        );
        if made.after == AfterAttempt::Abandoned {
            tracing::warn!(host, delivery.attempts = made.number, "abandoned a callback");
        }
    }
}

/// The metric's label for the outcome of an attempt.
fn outcome(after: AfterAttempt) -> Delivery {
    match after {
        AfterAttempt::Delivered => Delivery::Delivered,
        AfterAttempt::RetryAt(_) => Delivery::Failed,
        AfterAttempt::Abandoned => Delivery::Abandoned,
    }
}

/// Returns an attempt of this delivery that began at `began` and ends now.
fn made(
    delivery: &ClaimedDelivery,
    answer: Answer,
    (at, began): (Timestamp, Instant),
    after: AfterAttempt,
) -> MadeAttempt {
    MadeAttempt {
        run: delivery.run,
        claim: delivery.claim,
        number: delivery.attempts.saturating_add(1),
        at,
        status: answer.status,
        error: answer.error,
        duration_ms: i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX),
        after,
    }
}

/// `sha256=` and the HMAC-SHA256 of `<timestamp>.<body>` in lowercase hexadecimal.
fn signature(secret: &[u8], timestamp: &str, body: &[u8]) -> Option<String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).ok()?;
    mac.update(timestamp.as_bytes());
    mac.update(b".");
    mac.update(body);
    Some(format!("sha256={}", hex(&mac.finalize().into_bytes())))
}

/// Returns the next state of a delivery that failed at `now`.
fn after_failure(delivery: &ClaimedDelivery, now: Timestamp, random: [u8; 1]) -> AfterAttempt {
    let next = now + delay(delivery.failures, random);
    if next > delivery.give_up_at {
        AfterAttempt::Abandoned
    } else {
        AfterAttempt::RetryAt(next)
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::{encoding::text::encode, registry::Registry};
    use proptest::prelude::*;
    use sortie_api::limits;
    use sortie_store::{Store, nodes::NodeId, outbox::Order, runs::NewCallback};
    use tokio_util::task::TaskTracker;

    use super::*;
    use crate::{
        callbacks::DeliveryHints,
        connections::Connections,
        kit::options::Options,
        testing::{Held, held, queued_with},
    };

    const BEGAN: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

    fn delivery(failures: i64) -> ClaimedDelivery {
        ClaimedDelivery {
            run: RunId::new(BEGAN, [1; 10]),
            org: OrgId::new(BEGAN, [1; 10]),
            host: "a:1".to_owned(),
            target: Vec::new(),
            claim: 1,
            attempts: failures,
            failures,
            give_up_at: BEGAN + Duration::from_secs(limits::CALLBACK_SECONDS),
            trace: None,
        }
    }

    #[test]
    fn a_signature_made_elsewhere_is_the_same() {
        // printf '1700000000.{"id":"run_1"}' | openssl dgst -sha256 -hmac geheim
        assert_eq!(
            signature(b"geheim", "1700000000", br#"{"id":"run_1"}"#).as_deref(),
            Some("sha256=97807c459399a09625a0d46bc9da56c7e8be022f30f2f3ec11faa39df88e82d7")
        );
    }

    /// A sender over the records of `held`.
    async fn sender(held: &Held) -> Arc<Sender> {
        counting(held, Arc::default()).await
    }

    /// A sender over the records of `held` that counts in `metrics`.
    async fn counting(held: &Held, metrics: Arc<Metrics>) -> Arc<Sender> {
        let options = Options::default();
        let no_sandbox = Err("a test".to_owned());
        let connections =
            Connections::new(&options, held.store.clone(), TaskTracker::new(), &no_sandbox).unwrap();
        let callbacks = Callbacks::new(&options, connections, DeliveryHints::default()).unwrap();
        let clock = Clock::system();
        let leases = LeaseClock::begin(&held.store, clock.clone()).await.unwrap();
        Arc::new(Sender::new(
            (clock, leases),
            held.records(),
            callbacks,
            metrics,
            Traces::default(),
        ))
    }

    /// Number of attempts in the metrics, of any outcome.
    fn attempts_counted(metrics: &Metrics) -> u64 {
        let (mut registry, mut text) = (Registry::default(), String::new());
        metrics.register(&mut registry);
        encode(&mut text, &registry).unwrap();
        let counts = text
            .lines()
            .filter(|line| line.starts_with("callback_attempts_total{"));
        counts
            .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
            .sum()
    }

    /// A delivery that is due, and claimed until half a minute from now.
    async fn claimed(held: &Held) -> (ClaimedDelivery, Instant) {
        let callback = NewCallback {
            host: "a:1".to_owned(),
            target: b"not sealed by us".to_vec(),
        };
        let run = queued_with(held, Some(callback)).await;
        let now = Clock::system().now();
        held.store.cancel_run(held.claim.org, run, now).await.unwrap();
        let order = Order {
            host: "a:1".to_owned(),
            limit: 1,
            without: Vec::new(),
        };
        let lease = Duration::from_secs(30);
        let node = ("n".to_owned(), NodeId(1));
        let claim = held.store.claim_deliveries(node, vec![order], now, now + lease);
        (claim.await.unwrap().deliveries.remove(0), Instant::now() + lease)
    }

    /// Whether the delivery has a due time.
    async fn is_due(store: &Store) -> bool {
        let ever = Timestamp::from_micros(i64::MAX);
        !store.due_hosts(String::new(), ever, 5).await.unwrap().is_empty()
    }

    #[tokio::test]
    async fn a_callback_whose_body_can_never_be_made_is_given_up_with_the_reason() {
        let held = held().await;
        let (delivery, until) = claimed(&held).await;
        held.sql("UPDATE run SET status = 'lost its way' WHERE callback_host IS NOT NULL");
        let (org, run) = (delivery.org, delivery.run);
        let health = sender(&held).await.deliver(delivery, until).await;
        assert_eq!(health, Health::Unknown, "the receiver is not to blame");
        let attempts = held.store.list_deliveries(org, run).await.unwrap();
        let told: Vec<_> = attempts
            .iter()
            .map(|one| (one.attempt, one.error.as_deref(), one.next_at))
            .collect();
        assert_eq!(told, [(1, Some("the stored run cannot be read"), None)]);
        assert!(!is_due(&held.store).await);
    }

    #[tokio::test]
    async fn a_callback_without_its_run_is_not_claimed_again() {
        let held = held().await;
        let (delivery, until) = claimed(&held).await;
        held.sql("DELETE FROM run WHERE callback_host IS NOT NULL");
        let health = sender(&held).await.deliver(delivery, until).await;
        assert_eq!(health, Health::Unknown);
        assert!(!is_due(&held.store).await);
    }

    #[tokio::test]
    async fn a_run_that_was_deleted_meanwhile_is_no_callback_that_is_abandoned() {
        let held = held().await;
        let (delivery, until) = claimed(&held).await;
        held.sql("DELETE FROM run WHERE callback_host IS NOT NULL");
        held.sql("DELETE FROM delivery");
        let metrics = Arc::<Metrics>::default();
        let sender = counting(&held, Arc::clone(&metrics)).await;
        let health = sender.deliver(delivery, until).await;
        assert_eq!((health, attempts_counted(&metrics)), (Health::Unknown, 0));
    }

    #[tokio::test]
    async fn an_attempt_that_another_node_has_taken_over_is_not_counted() {
        let held = held().await;
        let (delivery, until) = claimed(&held).await;
        let metrics = Arc::<Metrics>::default();
        let sender = counting(&held, Arc::clone(&metrics)).await;
        held.sql("UPDATE delivery SET claim = claim + 1");
        Arc::clone(&sender).deliver(delivery.clone(), until).await;
        assert_eq!(attempts_counted(&metrics), 0);
        held.sql("UPDATE delivery SET claim = claim - 1");
        sender.deliver(delivery, until).await;
        assert_eq!(attempts_counted(&metrics), 1);
    }

    #[tokio::test]
    async fn a_target_that_cannot_be_opened_is_a_failure_that_is_tried_again() {
        let held = held().await;
        let (delivery, until) = claimed(&held).await;
        let (org, run) = (delivery.org, delivery.run);
        assert_eq!(sender(&held).await.deliver(delivery, until).await, Health::Bad);
        let attempts = held.store.list_deliveries(org, run).await.unwrap();
        assert!(attempts[0].next_at.is_some(), "{attempts:?}");
        assert!(
            attempts[0]
                .error
                .as_deref()
                .unwrap()
                .starts_with("the callback cannot be read")
        );
        assert!(is_due(&held.store).await);
    }

    proptest! {
        #[test]
        fn a_receiver_that_never_answers_is_tried_for_72_hours(random in prop::collection::vec(any::<u8>(), 200)) {
            let mut now = BEGAN;
            let mut failures = 0;
            let mut last = now;
            for random in random {
                match after_failure(&delivery(failures), now, [random]) {
                    AfterAttempt::RetryAt(next) => {
                        let waited = next.since(now);
                        prop_assert!(waited >= Duration::from_secs(10) && waited <= Duration::from_secs(2_816));
                        last = next;
                        now = next;
                        failures += 1;
                    }
                    AfterAttempt::Abandoned => break,
                    AfterAttempt::Delivered => prop_assert!(false),
                }
            }
            let tried_for = last.since(BEGAN).as_secs();
            prop_assert!(tried_for <= limits::CALLBACK_SECONDS);
            prop_assert!(tried_for > limits::CALLBACK_SECONDS - 2_816);
            prop_assert!((95..=120).contains(&failures), "{failures}");
        }

        #[test]
        fn no_count_makes_the_delay_panic(failures: i64, random: u8) {
            prop_assert!(delay(failures, [random]) <= Duration::from_secs(2_816));
        }
    }
}
