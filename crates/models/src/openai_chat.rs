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

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use sortie_agent::model::{Deltas, Model, ModelError, Reply, Request};
use sortie_api::model::ModelInfo;
use tokio::time::timeout;

use crate::{
    openai,
    provider::{Entry, InvalidSettings, Provider},
    transport::{Events, Transport},
};
use reply::Answer;
use request::{Body, Dialect};

/// How long the end of a stream is waited for after its last mark: a connection that has been read to its end can be
/// used again.
const END: Duration = Duration::from_millis(50);
/// The mark that ends a stream.
const DONE: &str = "[DONE]";

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
            let mut events = self.transport.stream(&body).await?;
            let mut answer = Answer::default();
            let read = self.read(&mut events, &mut answer, deltas).await;
            let usage = answer.usage(&body);
            let replied = read.and_then(|()| answer.into_reply(usage, request.transcript.len()));
            replied.map_err(|error| ModelError { usage, ..error })
        })
    }
}

impl ChatModel {
    /// Reads the answer to its end.
    async fn read(
        &self,
        events: &mut Events<'_>,
        answer: &mut Answer,
        deltas: &dyn Deltas,
    ) -> Result<(), ModelError> {
        loop {
            let event = match events.next().await {
                Ok(Some(event)) => event,
                Ok(None) if answer.is_whole() => return Ok(()),
                Ok(None) => return Err(openai::cut_off()),
                // Only the figures can be missing.
                Err(_) if answer.is_whole() => return Ok(()),
                Err(error) => return Err(error),
            };
            if event.data.trim() == DONE {
                // What still comes, or does not, is of no matter.
                let _ = timeout(END, events.next()).await;
                return if answer.is_whole() {
                    Ok(())
                } else {
                    Err(openai::cut_off())
                };
            }
            answer.take(&self.transport, &event.data, deltas)?;
        }
    }
}
