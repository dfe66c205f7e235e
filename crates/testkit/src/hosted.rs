//! A node of a hosted deployment: the binary with both of its listeners.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context as _, Result};
use sortie_api::limits;

use crate::{Client, Database, Node, NodeOptions, database::Records, ports::free_ports};

/// Attempts to start a node, in case another process takes a port first.
const STARTS: usize = 3;

/// A node of a hosted deployment.
#[derive(Debug)]
pub struct HostedNode {
    /// The node; its address is that of the engine API.
    pub node: Node,
    /// Address of the organization API on this node.
    pub org_address: SocketAddr,
    /// Public addresses of the deployment, the same on all its nodes.
    urls: Urls,
}

/// Addresses of a deployment for clients and pages: those of its first node.
#[derive(Clone, Debug)]
struct Urls {
    engine: String,
    org: String,
}

/// Addresses of a node's own listeners.
#[derive(Clone, Copy, Debug)]
struct Listeners {
    engine: SocketAddr,
    org: SocketAddr,
}

impl Listeners {
    fn free() -> Result<Self> {
        let mut ports = free_ports();
        let mut address = || {
            let port = ports.next().context("no free port")?;
            anyhow::Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        };
        Ok(Self {
            engine: address()?,
            org: address()?,
        })
    }

    fn urls(self) -> Urls {
        Urls {
            engine: format!("http://{}", self.engine),
            org: format!("http://{}", self.org),
        }
    }

    fn options(self, options: NodeOptions, urls: &Urls) -> NodeOptions {
        let mut options = options
            .env("SORTIE_MODE", "hosted")
            .env("SORTIE_ORG_LISTEN", &self.org.to_string())
            .env("SORTIE_ORG_URL", &urls.org)
            .env("SORTIE_ADVERTISE_URL", &urls.engine);
        options.listen = Some(self.engine);
        options
    }
}

impl HostedNode {
    /// Starts the binary with options on a database of the kind without rows, and waits until it is ready.
    pub async fn start_with(binary: &str, database: Database, options: NodeOptions) -> Result<Self> {
        let mut last = None;
        for _ in 0..STARTS {
            match Self::on(binary, database.migrated(binary).await?, options.clone()).await {
                Ok(node) => return Ok(node),
                Err(error) => last = Some(error),
            }
        }
        last.map_or_else(|| anyhow::bail!("no start"), Err)
    }

    /// Starts a node with a fresh data folder on these records.
    pub async fn on(binary: &str, records: Records, options: NodeOptions) -> Result<Self> {
        let listeners = Listeners::free()?;
        let urls = listeners.urls();
        let options = listeners.options(options, &urls);
        // A hosted node makes no admin key.
        let node = Node::on(binary, records, options, Some(String::new())).await?;
        Ok(Self {
            node,
            org_address: listeners.org,
            urls,
        })
    }

    /// Starts another node of this deployment: on the same records, with the same public addresses.
    pub async fn beside(&self, options: NodeOptions) -> Result<Self> {
        let listeners = Listeners::free()?;
        let options = listeners.options(options, &self.urls);
        Ok(Self {
            node: self.node.beside_with(options).await?,
            org_address: listeners.org,
            urls: self.urls.clone(),
        })
    }

    /// Gives credits to an organization, as the operator of the deployment. The operator's key must come from this
    /// node. An amount above the limit of a single grant is split.
    pub async fn give_credits(&self, organization: &str, micros: i64) -> Result<()> {
        let key = std::fs::read_to_string(self.node.data_dir().join("operator.key"))?;
        let operator = self.client(key.trim());
        let path = format!("/v1/operator/organizations/{organization}/credits");
        let mut left = micros;
        while left > 0 {
            let amount = left.min(limits::MOVEMENT_MICROS_MAX);
            let movement = serde_json::json!({
                "amount_micros": amount,
                "reason": "for tests",
                "reference": format!("{organization} {left}"),
            });
            operator.post(&path, &movement).expect(201).await?;
            left -= amount;
        }
        Ok(())
    }

    /// Address of the organization API as pages know it: `http://127.0.0.1:PORT`.
    pub fn org_url(&self) -> String {
        self.urls.org.clone()
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
