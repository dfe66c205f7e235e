//! The client of `OpenAI`'s Chat Completions protocol, which most other servers speak as well.
//!
//! The client accepts common deviations: calls without ids or in one piece, usage in any chunk or in no chunk, a stream without
//! its end marker. An answer is complete once it has a finish reason, or usage and the end marker. If the stream breaks before
//! that, the error carries the cost.

mod reasoning;
mod reply;
mod request;
#[cfg(test)]
mod tests;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures_util::future::BoxFuture;
use sortie_agent::{
    Media,
    model::{Content, Deltas, ErrorKind, Model, ModelError, Reply, Request},
};
use sortie_api::model::ModelInfo;

use crate::{
    answer, media, openai,
    optional::{self, Optional, Optionals},
    provider::{Entry, InvalidSettings, Provider},
    transport::Transport,
};
use reasoning::Returned;
use reply::Answer;
use request::{Body, Dialect, Form};

/// Creates the client of a model. Fails if the address or the key is not usable.
pub(super) fn client(provider: &Provider, entry: Entry) -> Result<Arc<dyn Model>, InvalidSettings> {
    let form = if openai::is_openai(&provider.base) {
        Form::Openai
    } else {
        Form::Compatible
    };
    Ok(Arc::new(ChatModel {
        transport: openai::transport(provider, &["chat", "completions"])?,
        entry,
        form,
        wants_reasoning: AtomicBool::new(false),
        optionals: Optionals::new([
            Optional::new("tool_choice", optional::is_about_tool_choice),
            Optional::new("reasoning_effort", openai::is_about_effort),
        ]),
    }))
}

struct ChatModel {
    transport: Transport,
    entry: Entry,
    form: Form,
    /// Whether the server has sent `reasoning_content`, or has rejected answers without it.
    wants_reasoning: AtomicBool,
    optionals: Optionals<2>,
}

impl ChatModel {
    async fn attempt(
        &self,
        request: &Request<'_>,
        [tool_choice, effort]: [bool; 2],
        deltas: &dyn Deltas,
    ) -> Result<Reply, ModelError> {
        let dialect = Dialect {
            form: self.form,
            tool_choice,
            effort,
            reasoning: self.wants_reasoning.load(Ordering::Relaxed),
        };
        let body = Body::new(&self.entry, dialect, request)?;
        let answer = Answer::new(&body, request.transcript.len());
        let reply = answer::call(&self.transport, &body, answer, deltas, request.max_tokens)
            .await
            .map_err(|error| self.explained(error))?;
        let has_content = |piece: &Content| match piece {
            Content::Opaque(raw) => Returned::of(raw).is_ok_and(|reasoning| reasoning.has_content()),
            Content::Text(_) | Content::ToolCall(_) => false,
        };
        if reply.content.iter().any(has_content) {
            self.wants_reasoning.store(true, Ordering::Relaxed);
        }
        Ok(reply)
    }

    /// Whether the server rejects answers that come back without `reasoning_content`. From then on we add it.
    fn misses_reasoning(&self, outcome: &Result<Reply, ModelError>) -> bool {
        let is_missed = outcome.as_ref().is_err_and(|error| {
            error.kind == ErrorKind::Request && error.message.contains("reasoning_content")
        });
        is_missed && !self.wants_reasoning.swap(true, Ordering::Relaxed)
    }

    /// Adds a remedy to the error if the provider serves the model only through its other protocol.
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
        let is_own = self.form == Form::Openai;
        Some(openai::counting(is_own, &self.entry.upstream).most_tokens(kind, media))
    }

    fn call<'a>(
        &'a self,
        request: Request<'a>,
        deltas: &'a dyn Deltas,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(async move {
            let needed = [
                openai::forbids_tools(&self.entry, &request),
                self.entry.effort_of(&request).is_some(),
            ];
            let mut sent = self.optionals.sent(needed);
            loop {
                let outcome = self.attempt(&request, sent, deltas).await;
                match self.optionals.without_refused(sent, &outcome) {
                    Some(rest) => sent = rest,
                    None if self.misses_reasoning(&outcome) => {}
                    None => return outcome,
                }
            }
        })
    }
}
