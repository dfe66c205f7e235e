//! Completion callbacks (`docs/CALLBACKS.md`): the signed request that tells a receiver that its run is over.
//!
//! The store makes a delivery due in the transaction that ends its run; [`Courier`] is the task of a node that claims what
//! is due and sends it, at least once, until a receiver has taken it or 72 hours are over. [`Hints`] wake it; what is true
//! it reads in the store. [`Callbacks`] checks, seals and opens where a callback goes: URL and secret are sealed together,
//! for a URL may hold a credential as well, and are never logged or shown.
//!
//! What is sent is made in [`attempt`] alone ([`attempt::Sender::body`]), from the run as [`Records`](crate::runs::run_log::Records)
//! has it: the output of a run without retention is added from the memory of this node, which alone may claim its delivery
//! while it has it, and goes when a receiver has taken it.

mod attempt;
mod courier;
mod lanes;
mod shares;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use reqwest::Method;
use serde::{Deserialize, Serialize};
use sortie_api::{DeliveryAttempt, OrgId, Redelivery, RunId, limits, request::Callback};
use sortie_net::{Client, Timeouts};
use sortie_store::NewCallback;
use tokio::sync::Notify;
use url::Url;

pub(crate) use self::courier::Courier;
use crate::{
    Engine, cluster::news::News, connections::Connections, credentials::sealing::Place, error::Error,
    kit::options::Options,
};

/// How long one attempt may take, from the resolution of the name to the answer.
const ATTEMPT: Duration = Duration::from_secs(15);

/// How long its connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);

/// Where a callback goes, as it is sealed. It has no `Debug`: it is never shown.
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
    hints: Hints,
}

impl Callbacks {
    pub(crate) fn new(options: &Options, connections: Connections, hints: Hints) -> Result<Self, Error> {
        let timeouts = Timeouts {
            connect: CONNECT,
            read: ATTEMPT,
            total: Some(ATTEMPT),
        };
        let client = Client::on(crate::kit::web::network(options.callbacks_reach)?, timeouts)
            .map_err(|error| Error::Internal(format!("callbacks cannot be made: {error}")))?;
        Ok(Self {
            client,
            connections,
            hints,
        })
    }

    /// Checks every rule of a request's `callback`. An address in the URL is judged now, a name whenever it is resolved.
    pub(crate) fn check(&self, callback: &Callback) -> Result<(), Error> {
        let broken = |field: &str, rule: String| Err(Error::Invalid(format!("callback.{field}: {rule}")));
        let longest = limits::CALLBACK_URL_CHARS;
        if callback.url.chars().count() > longest {
            return broken("url", format!("must be at most {longest} characters"));
        }
        let url = match Url::parse(&callback.url) {
            Ok(url) => url,
            Err(error) => return broken("url", error.to_string()),
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

    /// A callback that has passed every rule, as it is stored with its run.
    pub(crate) async fn seal(
        &self,
        (org, run): (OrgId, RunId),
        callback: Callback,
    ) -> Result<NewCallback, Error> {
        let Callback { url, secret } = callback;
        let host = Url::parse(&url)
            .ok()
            .as_ref()
            .and_then(host_of)
            .ok_or_else(|| Error::Internal("the URL of a callback has no host".to_owned()))?;
        let row = run.to_string();
        let target = self
            .connections
            .seal(target_at(&row, org), &Target { url, secret })
            .await?;
        Ok(NewCallback { host, target })
    }

    /// What was sealed for a run.
    fn open(&self, (org, run): (OrgId, RunId), sealed: &[u8]) -> Result<Target, Error> {
        self.connections.open(target_at(&run.to_string(), org), sealed)
    }
}

/// Host and port of a receiver: what is bounded, and held up, together.
fn host_of(url: &Url) -> Option<String> {
    let host = url.host_str()?;
    let host = host.strip_suffix('.').unwrap_or(host);
    Some(format!("{host}:{}", url.port_or_known_default()?))
}

fn target_at(row: &str, org: OrgId) -> Place<'_> {
    Place {
        table: "delivery",
        column: "target",
        row,
        org: Some(org),
    }
}

/// What wakes the courier of this node, or those of others where it has none. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Hints {
    waiting: Arc<Waiting>,
    news: News,
}

#[derive(Default)]
struct Waiting {
    hinted: Mutex<Hinted>,
    woken: Notify,
}

#[derive(Default)]
struct Hinted {
    hosts: BTreeSet<(String, OrgId)>,
    look: bool,
}

impl Hints {
    pub(crate) fn new(news: News) -> Self {
        Self {
            waiting: Arc::default(),
            news,
        }
    }

    fn hinted(&self) -> MutexGuard<'_, Hinted> {
        self.waiting.hinted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A delivery of this organization to this host is due.
    pub(crate) fn due(&self, org: OrgId, host: &str) {
        self.hinted().hosts.insert((host.to_owned(), org));
        self.waiting.woken.notify_one();
        self.leave_to_others();
    }

    /// The same of one that only another node may be able to claim: the content of its run can be in the memory of that one.
    pub(crate) fn due_anywhere(&self, org: OrgId, host: &str) {
        self.due(org, host);
        self.news.callbacks();
    }

    /// Some delivery may be due.
    pub(crate) fn look(&self) {
        self.look_here();
        self.leave_to_others();
    }

    /// Some delivery may be due, as another node says.
    pub(crate) fn look_here(&self) {
        self.hinted().look = true;
        self.waiting.woken.notify_one();
    }

    /// Where this node delivers nothing, others are to.
    fn leave_to_others(&self) {
        if self.news.leaves_jobs() {
            self.news.callbacks();
        }
    }

    /// The hosts since the last time, and whether anything else may be due.
    fn take(&self) -> Hinted {
        std::mem::take(&mut self.hinted())
    }

    /// Waits until there are any.
    async fn given(&self) {
        self.waiting.woken.notified().await;
    }
}

impl Engine {
    /// The attempts to deliver a run's callback.
    pub async fn list_deliveries(&self, org: OrgId, run: RunId) -> Result<Vec<DeliveryAttempt>, Error> {
        Ok(self.store().list_deliveries(org, run).await?)
    }

    /// Sends the callback of a final run again, at once; an attempt that is under way counts as that. `Conflict` where the
    /// run has no callback or is not final.
    pub async fn redeliver_run(&self, org: OrgId, run: RunId) -> Result<Redelivery, Error> {
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
    use sortie_store::Store;
    use tokio_util::task::TaskTracker;

    use super::*;
    use crate::credentials::sealing::MasterKey;

    /// Callbacks as an engine of this mode and reach has them.
    async fn callbacks(mode: Mode, callbacks_reach: Reach) -> (Callbacks, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&format!("sqlite:{}", dir.path().join("test.db").display()))
            .await
            .unwrap();
        let options = Options {
            mode,
            callbacks_reach,
            master_keys: vec![MasterKey::new([7; 32])],
            ..Options::default()
        };
        let no_sandbox = Err("a test".to_owned());
        let connections = Connections::new(&options, store, TaskTracker::new(), &no_sandbox).unwrap();
        (
            Callbacks::new(&options, connections, Hints::default()).unwrap(),
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
        let hints = Hints::default();
        let org = |number| OrgId::new(Timestamp::from_micros(1), [number; 10]);
        hints.due(org(1), "b:1");
        hints.due(org(2), "a:1");
        hints.due(org(1), "b:1");
        hints.due(org(2), "b:1");
        hints.look();
        let Hinted { hosts, look } = hints.take();
        assert_eq!(
            (hosts.into_iter().collect::<Vec<_>>(), look),
            (
                vec![
                    ("a:1".to_owned(), org(2)),
                    ("b:1".to_owned(), org(1)),
                    ("b:1".to_owned(), org(2))
                ],
                true
            )
        );
        let Hinted { hosts, look } = hints.take();
        assert!(hosts.is_empty() && !look);
    }
}
