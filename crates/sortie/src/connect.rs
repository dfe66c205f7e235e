//! Choice of a command's engine: the named one, else that of the data folder, else one of its own.

use std::path::Path;

use sortie_engine::Traces;
use sortie_sandbox::Capabilities;
use url::{Host, Url};

use crate::{
    args::EngineArgs,
    client::Client,
    config::{Config, Environment},
    data_dir::{DataDir, Purpose, RunningEngine, no_key},
    failure::{Exit, Failure, Result},
    node::Node,
    terminal,
};

/// Kind of engine that a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// To work on a run to its end.
    Work,
    /// To take a run and keep it when this command has left.
    Keep,
    /// To read or change what is recorded.
    Records,
}

/// An engine, and the client that talks to it.
pub(crate) struct Connection {
    pub(crate) client: Client,
    /// The data folder, where the engine is on this machine: its admin key may be shown to that engine.
    pub(crate) folder: Option<DataDir>,
    node: Option<Node>,
}

impl Connection {
    /// Finds or starts an engine.
    pub(crate) async fn open(
        args: &EngineArgs,
        config: &Config,
        environment: &Environment,
        need: Need,
    ) -> Result<Self> {
        let data_dir = DataDir::new(&config.data_dir);
        let given_key = environment.get("SORTIE_API_KEY").map(ToOwned::to_owned);
        if let Some((url, from)) = told_engine(args, environment) {
            let folder = is_this_machine(url).then_some(data_dir);
            let key = given_key.or_else(|| folder.as_ref().and_then(DataDir::admin_key));
            let client = Client::new(url, from, key)?;
            return if client.has_key() {
                Ok(Self::remote(client, folder))
            } else {
                Err(Failure::new(
                    Exit::Denied,
                    format!("no API key for {url}: set SORTIE_API_KEY"),
                ))
            };
        }
        if let Some(engine) = data_dir.running_engine()?.filter(|engine| serves(engine, need)) {
            let key = given_key.or_else(|| data_dir.admin_key());
            let key = key.ok_or_else(|| no_key(&data_dir))?;
            let client = Client::new(&engine.url, "engine.json", Some(key))?;
            return Ok(Self::remote(client, Some(data_dir)));
        }
        Self::own(config, data_dir, given_key, need).await
    }

    /// An engine or a deployment that runs already.
    pub(crate) fn remote(client: Client, folder: Option<DataDir>) -> Self {
        Self {
            client,
            folder,
            node: None,
        }
    }

    /// Starts an engine in this process, for this command alone.
    async fn own(config: &Config, data_dir: DataDir, given_key: Option<String>, need: Need) -> Result<Self> {
        let purpose = match need {
            Need::Work => Purpose::OneRun,
            Need::Records => Purpose::OneCommand,
            Need::Keep => {
                return Err(Failure::usage(
                    "--detach needs an engine that stays: start one with `sortie serve`, or name one by --url",
                ));
            }
        };
        if need == Need::Records {
            database_exists(config)?;
        }
        let node = Node::start(config, ([127, 0, 0, 1], 0).into(), purpose, Traces::default()).await?;
        if node.has_new_folder() {
            terminal::note(&data_dir.made());
        }
        let first_key = node.first_key().map(|key| key.secret.clone());
        let key = first_key.or(given_key).or_else(|| data_dir.admin_key());
        let Some(key) = key else {
            node.shutdown().await;
            return Err(no_key(&data_dir));
        };
        Ok(Self {
            folder: Some(data_dir),
            client: Client::new(&node.url(), "engine", Some(key))?,
            node: Some(node),
        })
    }

    /// Returns the confinement of commands, where the engine is this process's own; the error is the reason why there
    /// is none.
    pub(crate) fn own_sandbox(&self) -> Option<std::result::Result<&Capabilities, &str>> {
        self.node.as_ref().map(Node::sandbox)
    }

    /// Stops the engine where it is this process's own.
    pub(crate) async fn close(self) {
        if let Some(node) = self.node {
            node.shutdown().await;
        }
    }
}

/// Refuses a command on a `SQLite` database that no engine has made yet.
pub(crate) fn database_exists(config: &Config) -> Result<()> {
    let url = &config.database_url;
    match url.sqlite_path().map(Path::try_exists) {
        None | Some(Ok(true)) => Ok(()),
        Some(Ok(false)) => Err(Failure::unavailable(format!(
            "no engine is running and {url} does not exist yet: start one with `sortie serve`, or name one by --url"
        ))),
        Some(Err(error)) => Err(Failure::unavailable(format!(
            "the database {url} cannot be read: {error}"
        ))),
    }
}

/// Whether a running engine will do. One that belongs to a single run does not take a second one: it would leave
/// with its own.
fn serves(engine: &RunningEngine, need: Need) -> bool {
    match engine.purpose {
        Purpose::Serve => true,
        Purpose::OneRun => need == Need::Records,
        Purpose::OneCommand => false,
    }
}

/// The engine that a command is told to talk to, and where it was told.
pub(crate) fn told_engine<'a>(
    args: &'a EngineArgs,
    environment: &'a Environment,
) -> Option<(&'a str, &'static str)> {
    match (&args.url, environment.get("SORTIE_URL")) {
        (Some(url), _) => Some((url.as_str(), "--url")),
        (None, Some(url)) => Some((url, "SORTIE_URL")),
        (None, None) => None,
    }
}

/// Whether an address is on this machine: only there is the key of the data folder meant to go.
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
