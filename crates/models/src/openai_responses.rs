//! The client of `OpenAI`'s Responses protocol, used without the provider's storage: everything a turn needs goes along
//! with it, the encrypted reasoning of the turns before it included.
//!
//! An answer counts as whole when its last event has come; one that broke off before is an error that carries what it
//! has cost.

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
use request::Body;

/// How long the end of a stream is waited for after its last event: a connection that has been read to its end can be
/// used again.
const END: Duration = Duration::from_millis(50);

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
            let mut events = self.transport.stream(&body).await?;
            let mut answer = Answer::default();
            let read = self.read(&mut events, &mut answer, deltas).await;
            let usage = answer.usage(&body);
            let replied = read.and_then(|()| answer.into_reply(usage, request.transcript.len()));
            replied.map_err(|error| ModelError { usage, ..error })
        })
    }
}

impl ResponsesModel {
    /// Reads the answer to its end.
    async fn read(
        &self,
        events: &mut Events<'_>,
        answer: &mut Answer,
        deltas: &dyn Deltas,
    ) -> Result<(), ModelError> {
        while !answer.is_whole() {
            let event = events.next().await?.ok_or_else(openai::cut_off)?;
            answer.take(&self.transport, &event.data, deltas)?;
        }
        // What still comes, or does not, is of no matter.
        let _ = timeout(END, events.next()).await;
        Ok(())
    }
}
