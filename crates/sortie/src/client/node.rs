//! State of a node, seen from outside.

use reqwest::{Method, header};
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

    /// Checks that the node takes runs now. The error has the reason why it does not. Needs no key.
    pub(crate) async fn ready(&self) -> Result<()> {
        let request = self.request(Method::GET, "readyz")?;
        self.send(request).await.map(drop)
    }

    /// Returns the checks that the node makes of itself.
    pub(crate) async fn checks(&self, query: &[(&'static str, String)]) -> Result<NodeChecks> {
        self.get(&path_of("v1/admin/checks", query)).await
    }
}
