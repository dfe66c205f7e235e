//! The client of `OpenAI`'s Responses protocol. We do not use the provider's storage: each request contains the whole
//! conversation, including the encrypted reasoning of earlier turns.
//!
//! An answer is complete once its last event has arrived. If the stream breaks before that, the error carries the cost.

mod reply;
mod request;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use sortie_agent::{
    Media,
    model::{Deltas, Model, ModelError, Reply, Request},
};
use sortie_api::model::ModelInfo;

use crate::{
    answer, media, openai,
    optional::{self, Optional, Optionals},
    provider::{Entry, InvalidSettings, Provider},
    transport::Transport,
};
use reply::Answer;
use request::{Body, Dialect};

/// Creates the client of a model. Fails if the address or the key is not usable.
pub(super) fn client(provider: &Provider, entry: Entry) -> Result<Arc<dyn Model>, InvalidSettings> {
    Ok(Arc::new(ResponsesModel {
        transport: openai::transport(provider, &["responses"])?,
        entry,
        is_own: openai::is_openai(&provider.base),
        optionals: optionals(),
    }))
}

const fn optionals() -> Optionals<3> {
    Optionals::new([
        Optional::new("reasoning.summary", is_about_summary),
        Optional::new("reasoning.effort", openai::is_about_effort),
        Optional::new("tool_choice", optional::is_about_tool_choice),
    ])
}

/// Whether a refusal is about reasoning summaries, which only verified accounts get.
fn is_about_summary(said: &str) -> bool {
    said.contains("reasoning.summary") || said.contains("reasoning summar")
}

struct ResponsesModel {
    transport: Transport,
    entry: Entry,
    /// Whether the address is `OpenAI`'s own service.
    is_own: bool,
    optionals: Optionals<3>,
}

impl ResponsesModel {
    async fn attempt(
        &self,
        request: &Request<'_>,
        [summary, effort, tool_choice]: [bool; 3],
        deltas: &dyn Deltas,
    ) -> Result<Reply, ModelError> {
        let dialect = Dialect {
            is_own: self.is_own,
            summary,
            effort,
            tool_choice,
        };
        let body = Body::new(&self.entry, dialect, request)?;
        let answer = Answer::new(&body, request.transcript.len());
        answer::call(&self.transport, &body, answer, deltas, request.max_tokens).await
    }
}

impl Model for ResponsesModel {
    fn info(&self) -> &ModelInfo {
        &self.entry.info
    }

    fn media_tokens(&self, media: &Media) -> Option<u64> {
        let kind = media::taken(&self.entry.info, media)?;
        Some(openai::counting(self.is_own, &self.entry.upstream).most_tokens(kind, media))
    }

    fn call<'a>(
        &'a self,
        request: Request<'a>,
        deltas: &'a dyn Deltas,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(async move {
            let needed = [
                // Other servers rarely support it.
                self.is_own && self.entry.can("thinking"),
                self.entry.effort_of(&request).is_some(),
                openai::forbids_tools(&self.entry, &request),
            ];
            let mut sent = self.optionals.sent(needed);
            loop {
                let outcome = self.attempt(&request, sent, deltas).await;
                match self.optionals.without_refused(sent, &outcome) {
                    Some(rest) => sent = rest,
                    None => return outcome,
                }
            }
        })
    }
}
