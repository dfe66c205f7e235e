//! The artifacts of runs, and content on its way.

use bytes::Bytes;
use reqwest::{Method, Response};
use sortie_api::{Artifact, RunId};

use super::Client;
use crate::failure::{Failure, Result};

/// Content on its way, which is not held in memory.
pub(crate) struct Content(pub(super) Response);

impl Content {
    /// The next piece; none at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>> {
        let chunk = self.0.chunk().await;
        chunk.map_err(|error| Failure::unavailable(format!("the download broke off: {error}")))
    }
}

impl Client {
    pub(crate) async fn run_artifacts(&self, id: RunId) -> Result<Vec<Artifact>> {
        self.get(&format!("v1/runs/{id}/artifacts")).await
    }

    /// The content of an artifact, piece by piece.
    pub(crate) async fn run_artifact(&self, id: RunId, path: &str) -> Result<Content> {
        let mut url = self
            .base
            .join(&format!("v1/runs/{id}/artifacts"))
            .map_err(|error| Failure::usage(format!("{}: {error}", self.base)))?;
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.extend(path.split('/'));
        }
        let request = self.request(Method::GET, url.as_str())?;
        Ok(Content(self.send(request).await?))
    }
}
