//! State of a node, seen from outside.

use reqwest::{Method, header};
use serde::Deserialize;
use sortie_api::check::NodeChecks;

use super::{Client, path_of};
use crate::failure::Result;

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
            // Nodes of earlier versions do not send it.
            #[serde(default)]
            degraded: Vec<String>,
        }
        let Readiness { degraded } = self.get("readyz").await?;
        Ok(degraded)
    }

    /// Returns the checks that the node makes of itself.
    pub(crate) async fn checks(&self, query: &[(&'static str, String)]) -> Result<NodeChecks> {
        self.get(&path_of("v1/admin/checks", query)).await
    }
}
