//! Streams of the content of files and artifacts.

use bytes::Bytes;
use reqwest::{Method, Response};

use super::Client;
use crate::failure::{Failure, Result};

/// A stream of content, which is not held in memory.
pub(crate) struct Content(pub(super) Response);

impl Content {
    /// Returns the next piece; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>> {
        let chunk = self.0.chunk().await;
        chunk.map_err(|error| Failure::unavailable(format!("the download broke off: {error}")))
    }
}

impl Client {
    /// Begins to read content. The caller reads it piece by piece.
    pub(crate) async fn content(&self, path: &str) -> Result<Content> {
        let request = self.request(Method::GET, path)?;
        self.send(request).await.map(Content)
    }
}
