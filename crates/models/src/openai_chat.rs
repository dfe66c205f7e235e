//! The client of `OpenAI`'s Chat Completions protocol, which most other servers speak as well.
//!
//! It lives with what those servers make of the protocol: calls without ids or in one piece, usage in any chunk or in
//! none, a stream without its last mark. An answer counts as whole when a reason for its end has come; one that broke
//! off before is an error that carries what it has cost.

mod reasoning;
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
use request::{Body, Dialect};

/// The client of one model. An unusable address or key is refused.
pub(crate) fn client(provider: &Provider, entry: Entry) -> Result<Arc<dyn Model>, InvalidSettings> {
    let dialect = if openai::is_openai(&provider.base) {
        Dialect::Openai
    } else {
        Dialect::Compatible
    };
    Ok(Arc::new(ChatModel {
        transport: openai::transport(provider, &["chat", "completions"])?,
        entry,
        dialect,
    }))
}

struct ChatModel {
    transport: Transport,
    entry: Entry,
    dialect: Dialect,
}

impl Model for ChatModel {
    fn info(&self) -> &ModelInfo {
        &self.entry.info
    }

    fn call<'a>(
        &'a self,
        request: Request<'a>,
        deltas: &'a dyn Deltas,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(async move {
            let body = Body::new(&self.entry, self.dialect, &request)?;
            let answer = Answer::new(&body, request.transcript.len());
            answer::call(&self.transport, &body, answer, deltas).await
        })
    }
}
