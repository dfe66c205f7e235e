//! Anthropic's Messages API, and servers that speak it.
//!
//! Every call streams. The fixed part of a conversation and all that is said in it are marked for the provider's cache,
//! so that each call reads what the one before wrote. Thinking is sent back as it came.

mod request;
mod schema;
mod stream;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue};
use sortie_agent::{
    Model,
    model::{Deltas, ModelError, Reply, Request},
};
use sortie_api::model::ModelInfo;

use crate::{
    answer, endpoint,
    provider::{Entry, InvalidSettings, Provider},
    transport::Transport,
};

/// The version of the API that is spoken here.
const VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");

/// A client of one model.
pub(crate) fn client(provider: &Provider, entry: Entry) -> Result<Arc<dyn Model>, InvalidSettings> {
    let url = endpoint::url(provider, "v1", &["messages"])?;
    let headers = headers(provider)?;
    Ok(Arc::new(Anthropic {
        transport: Transport::new(provider.http.clone(), url, headers, provider.key.clone()),
        entry,
    }))
}

/// The key, and the version of the API.
pub(crate) fn headers(provider: &Provider) -> Result<HeaderMap, InvalidSettings> {
    let mut headers = endpoint::keyed(provider, "x-api-key")?;
    headers.insert("anthropic-version", VERSION);
    Ok(headers)
}

struct Anthropic {
    transport: Transport,
    entry: Entry,
}

impl Model for Anthropic {
    fn info(&self) -> &ModelInfo {
        &self.entry.info
    }

    fn call<'a>(
        &'a self,
        request: Request<'a>,
        deltas: &'a dyn Deltas,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(async move {
            let body = request::Body::new(&self.entry, &request);
            answer::call(&self.transport, &body, stream::Message::default(), deltas).await
        })
    }
}
