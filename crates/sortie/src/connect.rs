//! Choice of a command's engine: the named one, else that of the data folder, else a new one in this process.
//!
//! Commands that work on runs share the engine of the first of them. That engine stays until the others have ended. If
//! it dies, one of the others starts the next engine and continues its run there.

use std::time::Duration;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use sortie_api::{Mode, Run, RunId};
use sortie_engine::{Engine, Traces};
use sortie_sandbox::Capabilities;
use tokio::time::Instant;
use url::{Host, Url};

use crate::{
    client::{Client, ClientKey, KeySource},
    config::{Config, Environment},
    data_dir::{
        DataDir, HOSTED_KEYS, NodeKey, Occupancy, Owner, Purpose, RunningEngine, Sharing, failed, no_key,
    },
    failure::{Exit, Failure, Result},
    interruption::interruption,
    named_engine::{API_KEY, NamedEngine, given_key},
    node::Node,
    terminal,
};

/// Kind of engine that a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// To work on a run to its end.
    Work,
    /// To start a run that continues after this command has exited.
    Keep,
    /// To read or change records.
    Records,
    /// To show its console after this command has exited.
    Console,
}

/// Pause between checks of a data folder that is in use.
const POLL: Duration = Duration::from_millis(100);

/// Time after which a command reports that it waits for a data folder, and the time after which it fails.
const PATIENCE: [Duration; 2] = [Duration::from_secs(1), Duration::from_mins(1)];

/// Remedies if there is neither an engine nor a database.
pub(crate) const NAME_AN_ENGINE: &str = "start one with `sortie serve`, or name one by --url";

/// An engine, and the client that talks to it.
pub(crate) struct Connection {
    pub(crate) client: Client,
    /// The data folder, if the engine is on this machine: only then may its admin key be sent.
    pub(crate) folder: Option<DataDir>,
    engine: EngineOwner,
    /// Source of the engine; `None` if the command was given its address.
    home: Option<Home>,
    asked: Option<Asked>,
}

/// The engine of a connection.
enum EngineOwner {
    /// An engine that stays, or one that was named by its address.
    Others {
        /// The entry of the data folder.
        running: Option<RunningEngine>,
    },
    /// The engine of another command, which does not end before this one.
    Shared {
        running: RunningEngine,
        sharing: Sharing,
    },
    /// The engine of this process.
    Own(Box<Node>),
}

/// A requested run. If the request is repeated with the same key, an engine answers with the run that it has already
/// created, and an engine of one command resumes it.
struct Asked {
    request: Box<RawValue>,
    idempotency_key: String,
    /// Whether the engine in use has received the request.
    is_known: bool,
}

/// A data folder, in which an engine is found or started.
struct Home {
    config: Config,
    data_dir: DataDir,
    given_key: Option<ClientKey>,
    need: Need,
    /// Reason why an engine of this configuration would refuse the command. Then no engine is started.
    refusal: Option<String>,
}

impl Connection {
    /// Finds or starts an engine.
    pub(crate) async fn open(
        named: Option<&NamedEngine>,
        config: &Config,
        environment: &Environment,
        need: Need,
    ) -> Result<Self> {
        Self::open_unless(None, named, config, environment, need).await
    }

    /// Finds an engine, or starts one unless it would refuse the command for the reason `refusal`.
    pub(crate) async fn open_unless(
        refusal: Option<String>,
        named: Option<&NamedEngine>,
        config: &Config,
        environment: &Environment,
        need: Need,
    ) -> Result<Self> {
        let data_dir = DataDir::new(&config.data_dir);
        if let Some(named) = named {
            let key = named.key(environment, &data_dir)?;
            let NamedEngine { url, from, .. } = named;
            let client = Client::new(url, from, key)?;
            return if client.has_key() {
                Ok(Self::remote(client, is_this_machine(url).then_some(data_dir)))
            } else {
                Err(Failure::new(
                    Exit::Denied,
                    format!(
                        "no API key for {url} (from {from}): set {API_KEY}, or save the key with `sortie login {url}`; a \
                         self-hosted engine makes keys by `sortie keys create`, {HOSTED_KEYS}"
                    ),
                ))
            };
        }
        let home = Home {
            config: config.clone(),
            data_dir,
            given_key: given_key(environment),
            need,
            refusal,
        };
        let (client, engine) = home.wait_for_engine().await?;
        Ok(Self {
            client,
            folder: Some(home.data_dir.clone()),
            engine,
            home: Some(home),
            asked: None,
        })
    }

    /// An engine or a deployment that runs already.
    pub(crate) fn remote(client: Client, folder: Option<DataDir>) -> Self {
        Self {
            client,
            folder,
            engine: EngineOwner::Others { running: None },
            home: None,
            asked: None,
        }
    }

    /// Creates a run, or finds the one with the idempotency key. If the engine of another command dies before it answers,
    /// asks the next one. Without a key, a random one is used.
    pub(crate) async fn create_run(
        &mut self,
        request: &(impl Serialize + Sync),
        idempotency_key: Option<&str>,
    ) -> Result<Run> {
        let request = to_raw_value(request)
            .map_err(|error| Failure::internal(format!("the request cannot be written: {error}")))?;
        self.asked = Some(Asked {
            request,
            idempotency_key: idempotency_key.map_or_else(random_name, |key| Ok(key.to_owned()))?,
            is_known: false,
        });
        loop {
            let failure = match self.ask().await {
                Ok(Some(run)) => return Ok(run),
                Ok(None) => Failure::internal("no run was asked for"),
                Err(failure) => failure,
            };
            if failure.exit != Exit::Unavailable || !self.has_moved().await? {
                return Err(failure);
            }
        }
    }

    /// Sends the request for the run to the engine in use.
    async fn ask(&mut self) -> Result<Option<Run>> {
        let Some(asked) = &mut self.asked else {
            return Ok(None);
        };
        let run = self
            .client
            .create_run(&asked.request, &asked.idempotency_key)
            .await?;
        asked.is_known = true;
        if let EngineOwner::Own(node) = &self.engine {
            node.engine().end_with_engine(run.id);
        }
        Ok(Some(run))
    }

    /// Looks for the engine again, after it did not answer. Returns whether another engine has the requested run and is
    /// in use from now on. If the engine of another command has ended, one of this process replaces it.
    pub(crate) async fn find_again(&mut self) -> Result<bool> {
        let has_moved = self.has_moved().await?;
        if self.asked.as_ref().is_none_or(|asked| asked.is_known) {
            return Ok(has_moved);
        }
        match self.ask().await {
            Ok(_) => Ok(true),
            // The next look tries again.
            Err(failure) if failure.exit == Exit::Unavailable => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    async fn has_moved(&mut self) -> Result<bool> {
        let Some(home) = &self.home else {
            return Ok(false);
        };
        let before = match &self.engine {
            EngineOwner::Others { running } => running.as_ref(),
            EngineOwner::Shared { running, .. } => Some(running),
            EngineOwner::Own(_) => return Ok(false),
        };
        match home.data_dir.occupancy()? {
            Occupancy::Engine(now) if Some(&now) == before => return Ok(false),
            // An engine that serves comes back. The engine of another command does not.
            Occupancy::Free if !self.is_of_another_command() => return Ok(false),
            Occupancy::Free | Occupancy::Starting | Occupancy::Engine(_) => {}
        }
        let found = match home.look().await {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(false),
            Err(failure) if failure.exit == Exit::Unavailable => return Ok(false),
            Err(failure) => return Err(failure),
        };
        (self.client, self.engine) = found;
        if let Some(asked) = &mut self.asked {
            asked.is_known = false;
        }
        Ok(true)
    }

    /// Returns the engine if it runs in this process.
    pub(crate) fn own_engine(&self) -> Option<&Engine> {
        match &self.engine {
            EngineOwner::Own(node) => Some(node.engine()),
            EngineOwner::Others { .. } | EngineOwner::Shared { .. } => None,
        }
    }

    /// Whether the engine is in this process and works on no runs.
    pub(crate) fn works_on_nothing(&self) -> bool {
        let reads = self.home.as_ref().is_some_and(|home| home.need == Need::Records);
        reads && matches!(self.engine, EngineOwner::Own(_))
    }

    /// Returns the abandoned runs among `runs`, as far as the own engine can tell.
    pub(crate) async fn unattended(&self, runs: Vec<RunId>) -> Result<Vec<RunId>> {
        match self.own_engine() {
            Some(engine) if !runs.is_empty() => engine.unattended(runs).await.map_err(|error| {
                Failure::unavailable(format!("cannot find out who works on the runs: {error}"))
            }),
            Some(_) | None => Ok(Vec::new()),
        }
    }

    /// Whether the engine works only on the runs of another command.
    pub(crate) fn is_of_another_command(&self) -> bool {
        match &self.engine {
            EngineOwner::Others { running } => running
                .as_ref()
                .is_some_and(|engine| engine.purpose == Purpose::OneRun),
            EngineOwner::Shared { .. } => true,
            EngineOwner::Own(_) => false,
        }
    }

    /// Returns the confinement of commands, if the engine is in this process. The error is the reason why there is
    /// none.
    pub(crate) fn own_sandbox(&self) -> Option<std::result::Result<&Capabilities, &str>> {
        match &self.engine {
            EngineOwner::Own(node) => Some(node.sandbox()),
            EngineOwner::Others { .. } | EngineOwner::Shared { .. } => None,
        }
    }

    /// Does `work` with the connection, then closes it.
    pub(crate) async fn during<T>(mut self, work: impl AsyncFnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let done = work(&mut self).await;
        match &done {
            Err(failure) if failure.exit == Exit::Left => self.leave().await,
            Ok(_) | Err(_) => self.close().await,
        }
        done
    }

    /// Stops an engine of this process as soon as no other command shares it.
    async fn close(self) {
        let node = match self.engine {
            EngineOwner::Own(node) => node,
            EngineOwner::Shared { sharing, .. } => return drop(sharing),
            EngineOwner::Others { .. } => return,
        };
        let Some(home) = self.home.filter(|home| home.need == Need::Work) else {
            return node.shutdown().await;
        };
        let mut interrupted = interruption();
        let mut is_told = false;
        // While this lock is held, no command can begin to share the engine. If the folder fails, there is no lock to
        // wait for.
        let _ended = loop {
            match home.data_dir.end_sharing() {
                Ok(Some(ended)) => break Some(ended),
                Ok(None) => {}
                Err(_) => break None,
            }
            if !is_told {
                is_told = true;
                terminal::note(
                    "this engine stays until the other commands that share it have ended; press Ctrl-C to leave it \
                     to them now",
                );
            }
            tokio::select! {
                () = tokio::time::sleep(POLL) => {}
                () = &mut interrupted => return at_once(node).await,
            }
        };
        tokio::select! {
            () = node.shutdown() => {}
            () = &mut interrupted => {}
        }
    }

    /// Stops an engine of this process at once. Another command that shares it then starts its own.
    async fn leave(self) {
        if let EngineOwner::Own(node) = self.engine {
            at_once(node).await;
        }
    }
}

/// Stops without a grace period. An interruption exits even before that is done.
async fn at_once(node: Box<Node>) {
    tokio::select! {
        () = node.shutdown_at_once() => {}
        () = interruption() => {}
    }
}

/// Returns a name that no other command creates.
pub(crate) fn random_name() -> Result<String> {
    let random = getrandom::u64()
        .and_then(|first| Ok((first, getrandom::u64()?)))
        .map_err(|error| Failure::internal(format!("the kernel gives no random bytes: {error}")))?;
    Ok(format!("sortie-{:016x}{:016x}", random.0, random.1))
}

impl Home {
    /// Waits while an engine that is useless to this command uses the folder; it is soon gone.
    async fn wait_for_engine(&self) -> Result<(Client, EngineOwner)> {
        let begun = Instant::now();
        let [patience, longest] = PATIENCE;
        let mut is_told = false;
        loop {
            if let Some(found) = self.look().await? {
                return Ok(found);
            }
            let waited = begun.elapsed();
            if waited > longest {
                return Err(self.data_dir.in_use(&self.data_dir.occupancy()?));
            }
            if waited > patience && !is_told {
                is_told = true;
                terminal::note("waiting for another command that works in the data folder");
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Returns the engine of the folder if it supports the command, or starts one if none runs.
    async fn look(&self) -> Result<Option<(Client, EngineOwner)>> {
        match self.data_dir.occupancy()? {
            Occupancy::Starting => Ok(None),
            Occupancy::Engine(running) => self.with(running),
            Occupancy::Free => {
                if matches!(self.need, Need::Keep | Need::Console) {
                    return Err(self.no_engine_that_stays());
                }
                if self.need == Need::Records {
                    database_exists(&self.config, NAME_AN_ENGINE)?;
                }
                if let Some(refusal) = &self.refusal {
                    return Err(Failure::usage(refusal));
                }
                match self.data_dir.take()? {
                    Some(owner) => self.own(owner).await.map(Some),
                    None => Ok(None),
                }
            }
        }
    }

    /// Connects with a running engine; `None` if it does not support the command.
    fn with(&self, running: RunningEngine) -> Result<Option<(Client, EngineOwner)>> {
        let sharing = match (running.purpose, self.need) {
            (Purpose::Serve, _) | (Purpose::OneRun, Need::Records) => None,
            (Purpose::OneRun | Purpose::OneCommand, Need::Keep | Need::Console) => {
                return Err(self.no_engine_that_stays());
            }
            (Purpose::OneCommand, Need::Work | Need::Records) => return Ok(None),
            (Purpose::OneRun, Need::Work) => {
                let sharing = self.data_dir.share()?;
                // The engine may have ended before this command shared it.
                if sharing.is_none() || self.data_dir.running_engine()?.as_ref() != Some(&running) {
                    return Ok(None);
                }
                sharing
            }
        };
        let mode = if running.org_url.is_some() {
            Mode::Hosted
        } else {
            Mode::SelfHosted
        };
        let client = Client::new(&running.url, "the data folder", Some(self.key(mode)?))?;
        let engine = match sharing {
            Some(sharing) => EngineOwner::Shared { running, sharing },
            None => EngineOwner::Others {
                running: Some(running),
            },
        };
        Ok(Some((client, engine)))
    }

    /// Returns the key that was given, else that of the folder.
    fn key(&self, mode: Mode) -> Result<ClientKey> {
        match &self.given_key {
            Some(key) => Ok(key.clone()),
            None => self
                .data_dir
                .api_key(NodeKey::Admin)?
                .ok_or_else(|| no_key(&self.data_dir, mode)),
        }
    }

    /// The folder has no engine that a command with this need can use.
    fn no_engine_that_stays(&self) -> Failure {
        let what = match self.need {
            Need::Console => "the console",
            Need::Work | Need::Keep | Need::Records => "--detach",
        };
        Failure::usage(format!("{what} needs an engine that stays: {NAME_AN_ENGINE}"))
    }

    /// Starts an engine in this process, for this command.
    async fn own(&self, owner: Owner) -> Result<(Client, EngineOwner)> {
        if owner.is_new_folder() {
            terminal::note(&self.data_dir.made());
        }
        let purpose = match self.need {
            Need::Work | Need::Keep => Purpose::OneRun,
            Need::Records | Need::Console => Purpose::OneCommand,
        };
        let listen = ([127, 0, 0, 1], 0).into();
        let node = Box::pin(Node::start(
            &self.config,
            owner,
            listen,
            purpose,
            Traces::default(),
        ))
        .await?;
        let key = match node.first_key() {
            Some(first) => Ok(ClientKey::new(first.secret.clone(), KeySource::Created)),
            None => self.key(self.config.mode),
        };
        let key = match key {
            Ok(key) => key,
            Err(failure) => {
                node.shutdown().await;
                return Err(failure);
            }
        };
        let client = Client::new(&node.url(), "this process", Some(key))?;
        Ok((client, EngineOwner::Own(Box::new(node))))
    }
}

/// Refuses a command if no engine has created the `SQLite` database yet. `way_out` is the remedy.
pub(crate) fn database_exists(config: &Config, way_out: &str) -> Result<()> {
    let Some(path) = config.database_url.sqlite_path() else {
        return Ok(());
    };
    match path.try_exists() {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::unavailable(format!(
            "no engine is running and {} does not exist yet: {way_out}",
            config.database_url
        ))),
        Err(error) => Err(failed("cannot read the database", path, &error)),
    }
}

/// Whether an address is on this machine: the key of the data folder is sent nowhere else.
pub(crate) fn is_this_machine(url: &str) -> bool {
    url.parse::<Url>().is_ok_and(|url| match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_the_data_folder_does_not_leave_the_machine() {
        for here in [
            "http://127.0.0.1:8080",
            "http://localhost:8080/",
            "http://[::1]:1",
            "https://127.9.9.9",
        ] {
            assert!(is_this_machine(here), "{here}");
        }
        for elsewhere in [
            "https://example.com",
            "http://127.0.0.1.example.com",
            "http://10.0.0.1",
            "localhost:8080",
            "",
        ] {
            assert!(!is_this_machine(elsewhere), "{elsewhere}");
        }
    }
}
