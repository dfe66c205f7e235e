//! Google's Gemini API.
//!
//! Thought signatures go back with the very part they came with: the API refuses a conversation without them. A part's
//! signature stands in the transcript as an opaque piece before the piece that it belongs to.

mod request;
mod stream;
#[cfg(test)]
mod tests;
mod thinking;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use sortie_agent::{
    Media, Model,
    model::{Content, Deltas, ModelError, Reply, Request, Turn},
};
use sortie_api::model::ModelInfo;

use crate::{
    answer, endpoint,
    media::{self, Counting, Kind},
    provider::{Entry, InvalidSettings, Provider},
    transport::Transport,
};

/// A client of one model.
pub(crate) fn client(provider: &Provider, entry: Entry) -> Result<Arc<dyn Model>, InvalidSettings> {
    let name = entry.upstream.strip_prefix("models/").unwrap_or(&entry.upstream);
    let method = format!("{name}:streamGenerateContent");
    let mut url = endpoint::url(provider, "v1beta", &["models", &method])?;
    url.set_query(Some("alt=sse"));
    let headers = endpoint::keyed(provider, "x-goog-api-key")?;
    Ok(Arc::new(Gemini {
        transport: Transport::new(provider, url, headers),
        entry,
    }))
}

struct Gemini {
    transport: Transport,
    entry: Entry,
}

impl Model for Gemini {
    fn info(&self) -> &ModelInfo {
        &self.entry.info
    }

    fn media_tokens(&self, media: &Media) -> Option<u64> {
        let kind = taken(&self.entry, media)?;
        let since_3 = thinking::is_since_3(&self.entry.upstream);
        Some(Counting::Gemini { since_3 }.most_tokens(kind, media))
    }

    fn call<'a>(
        &'a self,
        request: Request<'a>,
        deltas: &'a dyn Deltas,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(async move {
            let body = request::Body::new(&self.entry, &request);
            let decoder = stream::Candidate::new(calls(request.transcript));
            answer::call(&self.transport, &body, decoder, deltas, request.max_tokens).await
        })
    }
}

/// Kind of this file, where the model takes it; the API takes no GIF.
fn taken(entry: &Entry, media: &Media) -> Option<Kind> {
    media::taken(&entry.info, media).filter(|_| media.media_type != "image/gif")
}

/// Counts the tool calls of a conversation.
fn calls(transcript: &[Turn]) -> usize {
    let calls = |turn: &Turn| match turn {
        Turn::Assistant(pieces) => pieces
            .iter()
            .filter(|piece| matches!(piece, Content::ToolCall(_)))
            .count(),
        Turn::ToolResults(_) | Turn::User(_) => 0,
    };
    transcript.iter().map(calls).sum()
}

/// Beginning of an id that we gave to a call which came without one. The id is unique in the conversation, and not sent.
const OWN_ID: &str = "own_call_";

/// A signature in the transcript.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Signature {
    thought_signature: String,
    /// Given where the signature came with a part that had no text: then it is a part of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}
