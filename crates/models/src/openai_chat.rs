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
use sortie_agent::{
    Media,
    model::{Deltas, ErrorKind, Model, ModelError, Reply, Request, ToolUse},
};
use sortie_api::model::ModelInfo;

use crate::{
    answer, media, openai,
    optional::Optional,
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
        tool_choice: Optional::new("tool_choice", |said| said.contains("tool_choice")),
    }))
}

struct ChatModel {
    transport: Transport,
    entry: Entry,
    dialect: Dialect,
    tool_choice: Optional,
}

impl ChatModel {
    async fn attempt(
        &self,
        request: &Request<'_>,
        takes_choice: bool,
        deltas: &dyn Deltas,
    ) -> Result<Reply, ModelError> {
        let body = Body::new(&self.entry, (self.dialect, takes_choice), request)?;
        let answer = Answer::new(&body, request.transcript.len());
        answer::call(&self.transport, &body, answer, deltas)
            .await
            .map_err(|error| self.explained(error))
    }

    /// Says what to do where the provider serves the model in its other protocol alone.
    fn explained(&self, error: ModelError) -> ModelError {
        if error.kind != ErrorKind::Request || !error.message.contains("v1/responses") {
            return error;
        }
        let message = format!(
            "model {:?} needs the Responses API: set api = \"openai-responses\" for its provider ({})",
            self.entry.info.id, error.message
        );
        ModelError { message, ..error }
    }
}

impl Model for ChatModel {
    fn info(&self) -> &ModelInfo {
        &self.entry.info
    }

    fn media_tokens(&self, media: &Media) -> Option<u64> {
        let kind = media::taken(&self.entry.info, media)?;
        let is_own = self.dialect == Dialect::Openai;
        Some(openai::counting(is_own, &self.entry.upstream).most_tokens(kind, media))
    }

    fn call<'a>(
        &'a self,
        request: Request<'a>,
        deltas: &'a dyn Deltas,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(async move {
            let takes_choice = self.tool_choice.is_sent();
            let outcome = self.attempt(&request, takes_choice, deltas).await;
            let has_choice = takes_choice && request.tool_use == ToolUse::Never;
            if has_choice && self.tool_choice.is_refused_by(&outcome) {
                return self.attempt(&request, false, deltas).await;
            }
            outcome
        })
    }
}
