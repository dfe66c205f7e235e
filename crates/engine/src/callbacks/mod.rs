//! Completion callbacks (`docs/CALLBACKS.md`): the signed request that notifies a receiver of the end of its run.
//!
//! The store makes a delivery due in the transaction that ends its run. [`CallbackWorker`] claims due deliveries and
//! sends each at least once, until a receiver has accepted it or 72 hours have passed. [`DeliveryHints`] wake the
//! worker, which reads the state from the store. [`Callbacks`] checks, seals and opens the target of a callback: URL
//! and secret are sealed together, because a URL may hold a credential as well, and are never logged.
//!
//! Request bodies are built in [`attempt`] alone ([`attempt::Sender::body`]), from the run as
//! [`Records`](crate::runs::run_log::Records) returns it. The output of a run without retention is in the memory of one
//! node: that node alone claims the delivery, and it removes the output once a receiver has accepted the callback.

mod attempt;
mod delays;
mod lanes;
mod shares;
mod worker;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use reqwest::Method;
use serde::{Deserialize, Serialize};
use sortie_api::{DeliveryAttempt, ErrorCode, OrgId, Redelivery, Refusal, RunId, limits, request::Callback};
use sortie_net::{Client, Timeouts};
use sortie_store::runs::NewCallback;
use tokio::sync::Notify;
use url::Url;

pub(crate) use self::worker::CallbackWorker;
use crate::{Engine, cluster::hints::HintSender, connections::Connections, kit::options::Options};
use sortie_base::SealContext;

/// Timeout of one attempt, from the resolution of the name to the response.
const ATTEMPT: Duration = Duration::from_secs(15);

/// Timeout of the connection to the receiver.
const CONNECT: Duration = Duration::from_secs(5);

/// URL and signing secret of a callback, in the form that is sealed. No `Debug`: they are never logged.
#[derive(Serialize, Deserialize)]
struct Target {
    url: String,
    secret: String,
}

/// The callbacks of every organization, as one node handles them. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Callbacks {
    client: Client,
    connections: Connections,
    hints: DeliveryHints,
}

impl Callbacks {
    pub(crate) fn new(
        options: &Options,
        connections: Connections,
        hints: DeliveryHints,
    ) -> Result<Self, Refusal> {
        let timeouts = Timeouts {
            connect: CONNECT,
            read: ATTEMPT,
            total: Some(ATTEMPT),
        };
        let client = Client::on(
            crate::kit::web::network(options.callbacks_reach, options)?,
            timeouts,
        )
        .map_err(|error| Refusal::internal(format!("callbacks cannot be made: {error}")))?;
        Ok(Self {
            client,
            connections,
            hints,
        })
    }

    /// Checks every rule of a request's `callback`. An IP address in the URL is checked now, a host name each time it is
    /// resolved.
    pub(crate) fn check(&self, callback: &Callback) -> Result<(), Refusal> {
        let broken = |field: &str, rule: String| {
            Err(ErrorCode::InvalidRequest.because(format!("callback.{field}: {rule}")))
        };
        let longest = limits::CALLBACK_URL_CHARS;
        if callback.url.chars().count() > longest {
            return broken("url", format!("must be at most {longest} characters"));
        }
        let Ok(url) = Url::parse(&callback.url) else {
            return broken(
                "url",
                "must be a URL such as https://hooks.example.com/runs".to_owned(),
            );
        };
        if !matches!(url.scheme(), "http" | "https") {
            return broken("url", "must be http or https".to_owned());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return broken("url", "must not contain user info".to_owned());
        }
        if let Err(error) = self.client.request(Method::POST, &url) {
            return broken("url", error.to_string());
        }
        let longest = limits::CALLBACK_SECRET_CHARS;
        if !(1..=longest).contains(&callback.secret.chars().count()) {
            return broken("secret", format!("must be 1 to {longest} characters"));
        }
        Ok(())
    }

    /// Seals a callback that has passed every rule, for storage with its run.
    pub(crate) async fn seal(
        &self,
        (org, run): (OrgId, RunId),
        callback: Callback,
    ) -> Result<NewCallback, Refusal> {
        let Callback { url, secret } = callback;
        let host = Url::parse(&url)
            .ok()
            .as_ref()
            .and_then(host_of)
            .ok_or_else(|| Refusal::internal("the URL of a callback has no host"))?;
        let row = run.to_string();
        let target = self
            .connections
            .seal(target_at(&row, org), &Target { url, secret })
            .await?;
        Ok(NewCallback { host, target })
    }

    /// Opens the sealed target of a run's callback.
    fn open(&self, (org, run): (OrgId, RunId), sealed: &[u8]) -> Result<Target, Refusal> {
        self.connections.open(target_at(&run.to_string(), org), sealed)
    }
}

/// Returns the host and port of a receiver. The limits on concurrent deliveries apply to these.
fn host_of(url: &Url) -> Option<String> {
    let host = url.host_str()?;
    let host = host.strip_suffix('.').unwrap_or(host);
    Some(format!("{host}:{}", url.port_or_known_default()?))
}

fn target_at(row: &str, org: OrgId) -> SealContext<'_> {
    SealContext {
        table: "delivery",
        column: "target",
        row,
        org: Some(org),
    }
}

/// Hints that wake the callback worker of this node, or of other nodes if this one delivers nothing. Cheap to
/// clone.
#[derive(Clone, Default)]
pub(crate) struct DeliveryHints {
    waiting: Arc<Waiting>,
    hints: HintSender,
}

#[derive(Default)]
struct Waiting {
    hinted: Mutex<Hinted>,
    woken: Notify,
}

#[derive(Default)]
struct Hinted {
    hosts: BTreeSet<(String, OrgId)>,
    poll: bool,
}

impl DeliveryHints {
    pub(crate) fn new(hints: HintSender) -> Self {
        Self {
            waiting: Arc::default(),
            hints,
        }
    }

    fn hinted(&self) -> MutexGuard<'_, Hinted> {
        self.waiting.hinted.lock()
    }

    /// A delivery of this organization to this host is due.
    pub(crate) fn due(&self, org: OrgId, host: &str) {
        self.hinted().hosts.insert((host.to_owned(), org));
        self.waiting.woken.notify_one();
        self.leave_to_others();
    }

    /// A delivery is due that perhaps only another node can claim: the run's content may be in that node's memory.
    pub(crate) fn due_anywhere(&self, org: OrgId, host: &str) {
        self.due(org, host);
        self.hints.callbacks();
    }

    /// Hints that a delivery may be due.
    pub(crate) fn look(&self) {
        self.look_here();
        self.leave_to_others();
    }

    /// Wakes the worker of this node after a hint of another node: a delivery may be due.
    pub(crate) fn look_here(&self) {
        self.hinted().poll = true;
        self.waiting.woken.notify_one();
    }

    /// Sends a hint to other nodes if this node delivers nothing.
    fn leave_to_others(&self) {
        if self.hints.leaves_jobs() {
            self.hints.callbacks();
        }
    }

    /// Takes the hints that have come since the last call.
    fn take(&self) -> Hinted {
        std::mem::take(&mut self.hinted())
    }

    /// Waits until a hint comes.
    async fn given(&self) {
        self.waiting.woken.notified().await;
    }
}

impl Engine {
    /// Returns the attempts to deliver a run's callback.
    pub async fn list_deliveries(&self, org: OrgId, run: RunId) -> Result<Vec<DeliveryAttempt>, Refusal> {
        Ok(self.store().list_deliveries(org, run).await?)
    }

    /// Sends the callback of a run in a terminal status again, at once. If an attempt is under way, no second one is started.
    /// `Conflict` if the run has no callback or its status is not terminal.
    pub async fn redeliver_run(&self, org: OrgId, run: RunId) -> Result<Redelivery, Refusal> {
        let now = self.0.options.clock.now();
        let (attempt, host) = self.store().redeliver(org, run, now).await?;
        self.0.work.callbacks.hints.due_anywhere(org, &host);
        Ok(Redelivery { attempt })
    }
}

#[cfg(test)]
mod tests {
    use sortie_api::{Mode, Timestamp};
    use sortie_net::Reach;
    use tokio_util::task::TaskTracker;

    use super::*;
    use sortie_base::MasterKey;

    /// The callbacks of an engine with this mode and reach.
    async fn callbacks(mode: Mode, callbacks_reach: Reach) -> (Callbacks, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let store = crate::testing::store_in(&dir).await;
        let options = Options {
            mode,
            callbacks_reach,
            master_keys: vec![MasterKey::new([7; 32])],
            ..Options::default()
        };
        let no_sandbox = Err("a test".to_owned());
        let connections = Connections::new(&options, store, TaskTracker::new(), &no_sandbox).unwrap();
        (
            Callbacks::new(&options, connections, DeliveryHints::default()).unwrap(),
            dir,
        )
    }

    fn to(url: &str) -> Callback {
        Callback {
            url: url.to_owned(),
            secret: "geheim".to_owned(),
        }
    }

    #[tokio::test]
    async fn the_hosted_service_takes_no_address_that_is_not_public() {
        let (hosted, _dir) = callbacks(Mode::Hosted, Reach::Public).await;
        let (own, _dir) = callbacks(Mode::SelfHosted, Reach::Private).await;
        for url in [
            "http://127.0.0.1:8080/",
            "http://0x7f.1/",
            "http://[::ffff:10.0.0.1]/",
            "https://192.168.1.1/hook",
        ] {
            let refused = hosted.check(&to(url)).unwrap_err().to_string();
            assert!(
                refused.starts_with("callback.url: ") && refused.ends_with("is not a public address"),
                "{refused}"
            );
            assert!(own.check(&to(url)).is_ok(), "{url}");
        }
        for url in ["http://169.254.169.254/latest", "http://[fd00:ec2::254]/"] {
            assert!(
                hosted.check(&to(url)).is_err() && own.check(&to(url)).is_err(),
                "{url}"
            );
        }
        assert!(hosted.check(&to("https://example.com:8443/hook?x=1")).is_ok());
    }

    #[tokio::test]
    async fn a_sealed_callback_opens_for_its_own_run_alone() {
        let (callbacks, _dir) = callbacks(Mode::SelfHosted, Reach::Private).await;
        let at = Timestamp::from_micros(1_700_000_000_000_000);
        let (org, run) = (OrgId::new(at, [1; 10]), RunId::new(at, [2; 10]));
        let sealed = callbacks
            .seal((org, run), to("https://Example.com/?token=hush"))
            .await
            .unwrap();
        assert_eq!(sealed.host, "example.com:443");
        let target = callbacks.open((org, run), &sealed.target).unwrap();
        assert_eq!(
            (target.url.as_str(), target.secret.as_str()),
            ("https://Example.com/?token=hush", "geheim")
        );
        assert!(
            callbacks
                .open((org, RunId::new(at, [3; 10])), &sealed.target)
                .is_err()
        );
        assert!(
            callbacks
                .open((OrgId::new(at, [3; 10]), run), &sealed.target)
                .is_err()
        );
    }

    fn host(url: &str) -> Option<String> {
        host_of(&url.parse().unwrap())
    }

    #[test]
    fn a_receiver_is_a_host_and_a_port() {
        for (url, expected) in [
            ("https://Example.com/a?b=c", "example.com:443"),
            ("http://example.com.:8080/", "example.com:8080"),
            ("http://[::1]/", "[::1]:80"),
            ("http://0x7f.1:9/", "127.0.0.1:9"),
        ] {
            assert_eq!(host(url).as_deref(), Some(expected), "{url}");
        }
    }

    #[test]
    fn hints_are_gathered_until_they_are_taken() {
        let hints = DeliveryHints::default();
        let org = |number| OrgId::new(Timestamp::from_micros(1), [number; 10]);
        hints.due(org(1), "b:1");
        hints.due(org(2), "a:1");
        hints.due(org(1), "b:1");
        hints.due(org(2), "b:1");
        hints.look();
        let Hinted { hosts, poll } = hints.take();
        assert_eq!(
            (hosts.into_iter().collect::<Vec<_>>(), poll),
            (
                vec![
                    ("a:1".to_owned(), org(2)),
                    ("b:1".to_owned(), org(1)),
                    ("b:1".to_owned(), org(2))
                ],
                true
            )
        );
        let Hinted { hosts, poll } = hints.take();
        assert!(hosts.is_empty() && !poll);
    }
}
