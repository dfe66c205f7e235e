//! State of the nodes, seen from outside.

use reqwest::{Method, header};
use serde::Deserialize;
use sortie_api::{check::NodeChecks, node::Node};

use super::{Client, path_of};
use crate::failure::Result;

/// API with the operations on all nodes of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InstallationApi {
    /// Engine API, for the admins of a self-hosted engine.
    Engine,
    /// Organization API, for the operator of a hosted deployment.
    Organization,
}

impl InstallationApi {
    /// Returns the path of an operation.
    pub(crate) fn path(self, rest: &str) -> String {
        let root = match self {
            Self::Engine => "v1/admin",
            Self::Organization => "v1/operator",
        };
        format!("{root}/{rest}")
    }
}

impl Client {
    /// That the node answers, and the time that it says it is.
    pub(crate) async fn time(&self) -> Result<Option<String>> {
        let request = self.request(Method::GET, "healthz")?;
        let response = self.send(request).await?;
        let date = response.headers().get(header::DATE);
        Ok(date.and_then(|date| date.to_str().ok()).map(str::to_owned))
    }

    /// Checks that the node takes runs now. Returns the parts of it that do not work and without which it still takes runs.
    /// The error has the reason why it takes none. Needs no key.
    pub(crate) async fn ready(&self) -> Result<Vec<String>> {
        #[derive(Deserialize)]
        struct Readiness {
            degraded: Vec<String>,
        }
        let Readiness { degraded } = self.get("readyz").await?;
        Ok(degraded)
    }

    /// Returns the checks that the node makes of itself.
    pub(crate) async fn checks(
        &self,
        api: InstallationApi,
        query: &[(&'static str, String)],
    ) -> Result<NodeChecks> {
        self.get(&path_of(&api.path("checks"), query)).await
    }

    pub(crate) async fn list_nodes(&self, api: InstallationApi) -> Result<Vec<Node>> {
        self.get(&api.path("nodes")).await
    }
}
