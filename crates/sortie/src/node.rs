//! A node: builds configuration, store, sandbox, engine and server, and shuts them down gracefully.
//!
//! Nothing here is global. A node has one stop signal for its server and one tracker for its tasks.

mod first_key;

use std::{future::Future, io, net::SocketAddr, path::Path, process, sync::Arc, time::Duration};

use sortie_accounts::ApiDeprecation;
use sortie_api::{ErrorCode, Mode, Refusal, plain};
use sortie_base::{Clock, spawn_lasting};
use sortie_engine::{Engine, LicenseOptions, MasterKey, Serves, Traces, check_master_keys};
use sortie_sandbox::{Backend, Capabilities};
use sortie_server::{ConsoleFiles, Listeners};
use sortie_store::{OpenOptions, Store};
use tokio::{
    net::{TcpListener, TcpSocket},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(crate) use self::first_key::FirstKey;
use self::first_key::{KeyHolder, first_key};
use crate::{
    config::{Config, HostedSettings, PrivateFeature},
    core_dumps,
    data_dir::{DataDir, Owner, Purpose, RunningEngine},
    failure::{Exit, Failure, Result},
    open_files,
    organization_side::{organization_side, people},
};

/// Time limit for the tasks of a stopping node. Connections, which end last, have ten seconds.
const TASKS_END: Duration = Duration::from_secs(15);

/// A running node.
pub(crate) struct Node {
    engine: Engine,
    address: SocketAddr,
    sandbox: std::result::Result<Capabilities, String>,
    first_key: Option<FirstKey>,
    stop: CancellationToken,
    tasks: TaskTracker,
    /// Time for which a stopping node continues to serve.
    drain: Duration,
    /// Held until the node is gone: the lock on its data folder.
    owner: Owner,
}

impl Node {
    /// Starts a node that listens on `listen`. `owner` owns the data folder of the configuration. The node answers
    /// requests as soon as this returns.
    pub(crate) async fn start(
        config: &Config,
        owner: Owner,
        listen: SocketAddr,
        purpose: Purpose,
        traces: Traces,
    ) -> Result<Self> {
        open_files::raise_limit();
        core_dumps::forbid();
        let data_dir = DataDir::new(&config.data_dir);
        let node_name = match &config.node_name {
            Some(name) => name.clone(),
            None => data_dir.node_name()?,
        };
        let work = data_dir.work()?;
        let (api, address) = bind(listen, "--listen")?;
        let metrics = bind_metrics(config, purpose)?;
        let organization = bind_organization(config, purpose)?;
        let (store, sandbox) = tokio::join!(
            open_store(config),
            detect_sandbox(config, &work, Some(&config.data_dir))
        );
        let capabilities = sandbox
            .as_ref()
            .map(|backend| backend.capabilities().clone())
            .map_err(Clone::clone);
        let store = store?;
        let master_keys = master_keys(config, &data_dir, &store).await?;
        // All parts of the node use the same clock: the database's, once the engine has read it.
        let clock = Clock::system();
        let listeners = Listeners {
            api,
            metrics,
            people: people(config, purpose, (&store, &master_keys, &clock)),
            organization: organization
                .map(|(listener, settings)| {
                    organization_side(config, (listener, settings), (&store, &master_keys, &clock))
                })
                .transpose()?,
        };
        let side = listeners.organization.as_ref();
        let org_address = side.and_then(|side| side.listener.local_addr().ok());
        let options = sortie_engine::Options {
            master_keys,
            base_url: Some(advertised(config).unwrap_or_else(|| url_of(address))),
            node_address: node_address(config, address),
            traces,
            clock,
            ..engine_options(config, node_name, purpose)
        };
        let started = Engine::start(options, store.clone(), sandbox).await;
        let engine = match started {
            Ok(engine) => engine,
            Err(error) => return Err(cause(&store).await.unwrap_or_else(|| not_started(error))),
        };
        drop(store);
        let holder = match config.mode {
            Mode::SelfHosted => Some(KeyHolder::Engine(&engine)),
            Mode::Hosted => side.map(|side| KeyHolder::Accounts(&side.accounts)),
        };
        let first_key = match holder {
            Some(holder) => first_key(holder, &data_dir).await?,
            None => None,
        };
        let node = Self {
            engine,
            address,
            sandbox: capabilities,
            first_key,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            drain: match purpose {
                Purpose::Serve => config.drain,
                // No other client uses these engines.
                Purpose::OneRun | Purpose::OneCommand => Duration::ZERO,
            },
            owner,
        };
        node.serve(listeners, config, purpose);
        node.owner.announce(&RunningEngine {
            url: node.url(),
            org_url: org_address.map(url_of),
            purpose,
            pid: process::id(),
        })?;
        Ok(node)
    }

    fn serve(&self, listeners: Listeners, config: &Config, purpose: Purpose) {
        let options = sortie_server::Options {
            console: console_files(config, purpose),
            trace_url: config.console_trace_url.clone(),
            requests_per_minute: config.rate_limit_per_minute,
            anonymous_requests_per_minute: config.anonymous_rate_limit_per_minute,
            trusted_proxies: config.trusted_proxies.clone(),
            allowed_origins: config.allowed_origins.clone(),
            base_url: advertised(config),
            deprecation: config.deprecation.clone(),
            ..sortie_server::Options::default()
        };
        if let Some(accounts) = listeners.people.clone() {
            let stop = self.stop.clone();
            spawn_lasting(&self.tasks, "people", async move {
                stop.run_until_cancelled(accounts.keep_clean()).await;
            });
        }
        if let Some(side) = &listeners.organization {
            let deprecation = config.deprecation.clone().map(|deprecation| ApiDeprecation {
                version: "v1",
                since: deprecation.since,
                sunset: deprecation.sunset,
                successor: deprecation.successor,
            });
            let mailer = side.accounts.clone().run_mailer(deprecation, self.stop.clone());
            spawn_lasting(&self.tasks, "mailer", mailer);
            if let Some(billing) = side.billing.clone() {
                let stop = self.stop.clone();
                spawn_lasting(&self.tasks, "billing", async move { billing.run(stop).await });
            }
            let (accounts, stop) = (side.accounts.clone(), self.stop.clone());
            spawn_lasting(&self.tasks, "accounts", async move {
                let work = async { tokio::join!(accounts.run_jobs(), accounts.keep_clean()) };
                stop.run_until_cancelled(work).await;
            });
        }
        let serving = sortie_server::serve(
            listeners,
            self.engine.clone(),
            Arc::new(options),
            self.stop.clone(),
        );
        let stop = self.stop.clone();
        spawn_lasting(&self.tasks, "server", async move {
            if let Err(error) = serving.await {
                tracing::error!(%error, "server stopped");
            }
            stop.cancel();
        });
    }

    /// Returns the address of the API, seen from this machine.
    pub(crate) fn url(&self) -> String {
        url_of(self.address)
    }

    /// Returns the address of the console, if it is enabled.
    pub(crate) fn console(&self, config: &Config) -> Option<String> {
        let hosted = config.hosted.as_ref().map(|hosted| hosted.org_url.clone());
        let address = hosted
            .or_else(|| advertised(config))
            .unwrap_or_else(|| self.url());
        config
            .console
            .then(|| format!("{}/console/", address.trim_end_matches('/')))
    }

    /// Returns the confinement of the runs' commands, or the reason why there is none.
    pub(crate) fn sandbox(&self) -> std::result::Result<&Capabilities, &str> {
        self.sandbox.as_ref().map_err(String::as_str)
    }

    /// The admin key, if this start has created it.
    pub(crate) fn first_key(&self) -> Option<&FirstKey> {
        self.first_key.as_ref()
    }

    /// Returns the engine.
    pub(crate) const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Resolves when the server ends, which happens unprompted only after a serious fault.
    pub(crate) fn server_ended(&self) -> impl Future<Output = ()> {
        self.stop.clone().cancelled_owned()
    }

    /// Shuts down gracefully: reports not ready and serves on until load balancers have noticed, then claims no more
    /// runs, gives active runs their grace period, and ends streams and connections.
    pub(crate) async fn shutdown(self) {
        tokio::join!(self.engine.drain(), tokio::time::sleep(self.drain));
        self.engine.shutdown().await;
        self.end().await;
    }

    /// Stops without a grace period for active runs.
    pub(crate) async fn shutdown_at_once(self) {
        self.engine.shutdown_within(Duration::ZERO).await;
        self.end().await;
    }

    async fn end(self) {
        self.stop.cancel();
        self.tasks.close();
        wait_for(&self.tasks).await;
        self.engine.settle_storage().await;
    }
}

/// Waits for the tasks to end, for at most [`TASKS_END`]: a task that ignores the stop must not block the node.
async fn wait_for(tasks: &TaskTracker) {
    if timeout(TASKS_END, tasks.wait()).await.is_err() {
        tracing::warn!(
            tasks = tasks.len(),
            "tasks do not end; the node stops without them"
        );
    }
}

/// Returns the reason why the database could not be written at the start, if the database knows it.
async fn cause(store: &Store) -> Option<Failure> {
    let error = store.ping().await.err()?;
    Some(Failure::unavailable(format!(
        "the engine cannot start: the database is unavailable: {}",
        error.cause()
    )))
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` takes")]
fn not_started(error: Refusal) -> Failure {
    let exit = if error.code == ErrorCode::InvalidRequest {
        Exit::Configuration
    } else {
        Exit::Unavailable
    };
    Failure::new(exit, format!("the engine cannot start: {error}"))
}

/// The keys of the configuration, else that of the data folder. A new key is made only if nothing is sealed yet: with a
/// database that was restored without its key, a new one would only hide the loss.
async fn master_keys(config: &Config, data_dir: &DataDir, store: &Store) -> Result<Vec<MasterKey>> {
    if let Some(keys) = held_master_keys(config, data_dir)? {
        return Ok(keys);
    }
    check_master_keys(store, &[]).await.map_err(not_started)?;
    Ok(vec![data_dir.make_master_key()?])
}

/// The master keys that a node with this configuration uses: those of the configuration, else those of the data folder.
pub(crate) fn held_master_keys(config: &Config, data_dir: &DataDir) -> Result<Option<Vec<MasterKey>>> {
    if let Some(keys) = &config.master_keys {
        return Ok(Some(keys.clone()));
    }
    data_dir.master_keys()
}

/// Returns the address at which other nodes reach this one. The listening address is used only if it is a single
/// address.
fn node_address(config: &Config, listens: SocketAddr) -> Option<String> {
    let own = (!listens.ip().is_unspecified()).then(|| url_of(listens));
    let configured = config.node_url.as_ref().map(ToString::to_string);
    configured.or(own).or_else(|| advertised(config))
}

/// Returns the address that clients use, if the configuration names one.
fn advertised(config: &Config) -> Option<String> {
    config.advertise_url.as_ref().map(ToString::to_string)
}

/// Files of the console. An engine that does not stay has none.
fn console_files(config: &Config, purpose: Purpose) -> ConsoleFiles {
    match &config.console_dir {
        _ if !config.console || purpose != Purpose::Serve => ConsoleFiles::Disabled,
        Some(folder) => ConsoleFiles::Folder(folder.clone()),
        None => ConsoleFiles::BuiltIn,
    }
}

/// Returns the address of a listener, seen from this machine.
fn url_of(mut address: SocketAddr) -> String {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        });
    }
    format!("http://{address}")
}

/// The listener for metrics, if one is configured. An engine of a single command has none, because nothing scrapes it.
fn bind_metrics(config: &Config, purpose: Purpose) -> Result<Option<TcpListener>> {
    let Some(listen) = config.metrics_listen.filter(|_| purpose == Purpose::Serve) else {
        return Ok(None);
    };
    let (listener, address) = bind(listen, "metrics_listen")?;
    tracing::info!(%address, "listening for /metrics");
    Ok(Some(listener))
}

/// The listener of the organization API of a hosted deployment.
fn bind_organization(config: &Config, purpose: Purpose) -> Result<Option<(TcpListener, &HostedSettings)>> {
    let Some(settings) = config.hosted.as_ref().filter(|_| purpose == Purpose::Serve) else {
        return Ok(None);
    };
    let (listener, address) = bind(settings.listen, "org_listen")?;
    tracing::info!(%address, "listening for the organization API");
    Ok(Some((listener, settings)))
}

/// Listens on the address from the setting `named`.
fn bind(listen: SocketAddr, named: &str) -> Result<(TcpListener, SocketAddr)> {
    let listener = listen_on(listen).map_err(|error| {
        Failure::unavailable(format!(
            "cannot listen on {listen}: {}; name another address by {named}",
            plain::io(&error)
        ))
    })?;
    let address = listener
        .local_addr()
        .map_err(|error| Failure::internal(error.to_string()))?;
    Ok((listener, address))
}

/// Listens with the longest queue that the system allows (`net.core.somaxconn`). `TcpListener::bind` queues 128. If
/// more clients connect at once, as they do when a node comes back, the others would retry only after a second.
fn listen_on(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(u32::MAX)
}

/// Failure to open the database of a configuration.
pub(crate) fn unopened(config: &Config, error: &sortie_store::Error) -> Failure {
    Failure::unavailable(format!(
        "cannot open the database {}: {}",
        config.database_url,
        error.cause()
    ))
}

/// Opens the database of a configuration, and migrates it to this version.
pub(crate) async fn open_store(config: &Config) -> Result<Store> {
    let options = OpenOptions {
        connections: config.database_connections,
        ..OpenOptions::default()
    };
    Store::open_with(config.database_url.expose(), options)
        .await
        .map_err(|error| unopened(config, &error))
}

/// The strongest sandbox that the host allows, determined by trying it in `root`. The error says why there is none and
/// how to fix that. If runs need it, their users get search permission on `data_dir`: the files in it have private
/// modes anyway.
pub(crate) async fn detect_sandbox(
    config: &Config,
    root: &Path,
    data_dir: Option<&Path>,
) -> std::result::Result<Arc<dyn Backend>, String> {
    let options = sortie_sandbox::Options {
        minimum: config.sandbox.minimum,
        readable: config.sandbox.readable_paths.clone(),
        passable: data_dir.map(Path::to_owned).into_iter().collect(),
        ..sortie_sandbox::Options::new(root)
    };
    sortie_sandbox::detect(&options)
        .await
        .map_err(|error| format!("{error}."))
}

/// Returns the engine's options, as far as the configuration has them.
pub(crate) fn engine_options(config: &Config, node_name: String, purpose: Purpose) -> sortie_engine::Options {
    sortie_engine::Options {
        mode: config.mode,
        data_dir: config.data_dir.clone(),
        blob_url: config.blob_url.clone(),
        aws: config.aws.clone(),
        max_file_bytes: config.max_file_bytes,
        node_name,
        // Only a node that stays claims waiting runs: other nodes should work on them.
        serves: match purpose {
            Purpose::Serve => Serves::Everyone,
            Purpose::OneRun => Serves::OwnRuns,
            Purpose::OneCommand => Serves::Nothing,
        },
        license: LicenseOptions {
            public_keys: config.license.public_keys.clone(),
            machine_id: config.license.machine_id.clone(),
        },
        concurrency: config.concurrency,
        organization_concurrency: config.organization_concurrency,
        organization_storage_bytes: config.organization_storage_bytes,
        compute_micros_per_second: config.compute_micros_per_second,
        default_max_cost: config.default_max_cost,
        sandbox_limits: config.sandbox.limits,
        models: config.models.clone(),
        robots: config.web.robots,
        search: config.search.clone(),
        outbound: config.outbound.clone(),
        connections_reach: config.reach(PrivateFeature::Connections),
        callbacks_reach: config.reach(PrivateFeature::Callbacks),
        shutdown_grace: config.shutdown_grace,
        surcharge_percent: config.surcharge_percent,
        memory_bytes: config.zero_data_retention.memory_bytes,
        memory_dir: config.zero_data_retention.work_dir.clone(),
        retention: config.retention,
        retention_clock_checked: config.retention_clock_checked,
        ..sortie_engine::Options::default()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn clients_that_connect_at_once_wait_as_the_system_allows() {
        let allowed = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
        let count = allowed.trim().parse::<usize>().unwrap().min(512);
        let (_nobody_accepts, address) = bind("127.0.0.1:0".parse().unwrap(), "listen").unwrap();
        // A client that finds no room gets no answer, and retries after a second.
        let patience = Duration::from_millis(900);
        let waiting: Vec<_> = (0..count)
            .map_while(|_| TcpStream::connect_timeout(&address, patience).ok())
            .collect();
        assert_eq!(waiting.len(), count);
    }
}
