//! The client of `OpenAI`'s Responses protocol, used without the provider's storage: everything a turn needs goes along
//! with it, the encrypted reasoning of the turns before it included.
//!
//! An answer counts as whole when its last event has come; one that broke off before is an error that carries what it
//! has cost.

mod reply;
mod request;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use sortie_agent::model::{Deltas, Model, ModelError, Reply, Request};
use sortie_api::model::ModelInfo;

use crate::{
    answer, openai,
    provider::{Entry, InvalidSettings, Provider},
    transport::Transport,
};
use reply::Answer;
use request::Body;

/// The client of one model. An unusable address or key is refused.
pub(crate) fn client(provider: &Provider, entry: Entry) -> Result<Arc<dyn Model>, InvalidSettings> {
    Ok(Arc::new(ResponsesModel {
        transport: openai::transport(provider, &["responses"])?,
        entry,
    }))
}

struct ResponsesModel {
    transport: Transport,
    entry: Entry,
}

impl Model for ResponsesModel {
    fn info(&self) -> &ModelInfo {
        &self.entry.info
    }

    fn call<'a>(
        &'a self,
        request: Request<'a>,
        deltas: &'a dyn Deltas,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(async move {
            let body = Body::new(&self.entry, &request)?;
            let answer = Answer::new(&body, request.transcript.len());
            answer::call(&self.transport, &body, answer, deltas).await
        })
    }
}
