//! A node of a hosted deployment: the binary with both of its listeners.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context as _, Result};

use crate::{Client, Database, Node, NodeOptions, database::Records, ports::free_ports};

/// Attempts to start a node on ports that nobody has taken meanwhile.
const STARTS: usize = 3;

/// A node of a hosted deployment.
#[derive(Debug)]
pub struct HostedNode {
    /// The node; its address is that of the engine API.
    pub node: Node,
    /// Address of the organization API.
    pub org_address: SocketAddr,
}

impl HostedNode {
    /// Starts the binary on an empty database of the kind and waits until it is ready.
    pub async fn start(binary: &str, database: Database) -> Result<Self> {
        Self::start_with(binary, database, NodeOptions::default()).await
    }

    /// Starts a node with options.
    pub async fn start_with(binary: &str, database: Database, options: NodeOptions) -> Result<Self> {
        let mut last = None;
        for _ in 0..STARTS {
            match Self::on(binary, database.fresh().await?, options.clone()).await {
                Ok(node) => return Ok(node),
                Err(error) => last = Some(error),
            }
        }
        last.map_or_else(|| anyhow::bail!("no start"), Err)
    }

    /// Starts a node on these records, with a data folder of its own.
    pub async fn on(binary: &str, records: Records, options: NodeOptions) -> Result<Self> {
        let mut ports = free_ports();
        let mut address = || {
            let port = ports.next().context("no free port")?;
            anyhow::Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        };
        let (engine, org) = (address()?, address()?);
        let mut options = options
            .env("SORTIE_MODE", "hosted")
            .env("SORTIE_ORG_LISTEN", &org.to_string())
            .env("SORTIE_ORG_URL", &format!("http://{org}"))
            .env("SORTIE_ADVERTISE_URL", &format!("http://{engine}"));
        options.listen = Some(engine);
        // A hosted node makes no admin key.
        let node = Node::on(binary, records, options, Some(String::new())).await?;
        Ok(Self {
            node,
            org_address: org,
        })
    }

    /// Address of the organization API: `http://127.0.0.1:PORT`.
    pub fn org_url(&self) -> String {
        format!("http://{}", self.org_address)
    }

    /// A client of the organization API without a credential.
    pub fn anybody(&self) -> Client {
        Client::new(self.org_address, None)
    }

    /// A client of the organization API with this credential.
    pub fn client(&self, credential: &str) -> Client {
        Client::new(self.org_address, Some(credential.to_owned()))
    }

    /// A client of the engine API with this credential.
    pub fn engine_client(&self, credential: &str) -> Result<Client> {
        Ok(Client::new(self.node.address()?, Some(credential.to_owned())))
    }
}
