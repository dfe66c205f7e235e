//! Google's Gemini API.
//!
//! The API rejects a conversation without thought signatures, so each signature goes back with the part that carried it. In the
//! transcript, a signature is an opaque piece before the piece that it belongs to.

mod models;
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
    known::{Api, KnownProvider, Protocol},
    media::{self, Counting, Kind, patches},
    provider::{Entry, InvalidSettings, Provider},
    transport::Transport,
};

pub(crate) const PROVIDER: KnownProvider = KnownProvider {
    name: "gemini",
    apis: &[Api(&Protocol {
        name: "gemini",
        home: "https://generativelanguage.googleapis.com",
        client,
        list,
        cache_write_percent: 100,
    })],
    models: models::MODELS,
};

/// Pictures for models since version 3.
pub(crate) const SINCE_3: Counting = Counting {
    largest: 2_240,
    picture: |_, _| 2_240,
};
/// Pictures for earlier models: 258 tokens per tile of 256 to 768 pixels.
pub(crate) const BEFORE_3: Counting = Counting {
    // A page is scaled to at most 3,072 pixels: sixteen tiles.
    largest: 16 * 258,
    picture: |width, height| {
        // Two thirds of the shorter edge, clamped.
        let tile = (width.min(height) / 3 * 2).clamp(256, 768);
        258 * patches(width, height, tile).max(1)
    },
};

/// Creates the transport for the list of models.
fn list(provider: &Provider) -> Result<Transport, InvalidSettings> {
    let url = endpoint::url(provider, "v1beta", &["models"])?;
    let headers = endpoint::keyed(provider, "x-goog-api-key")?;
    Ok(Transport::new(provider, url, headers))
}

/// Creates the client of a model.
fn client(provider: &Provider, entry: Entry) -> Result<Arc<dyn Model>, InvalidSettings> {
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
        let counting = if thinking::is_since_3(&self.entry.upstream) {
            SINCE_3
        } else {
            BEFORE_3
        };
        Some(counting.most_tokens(kind, media))
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

/// Returns the kind of this file if the model accepts it. The API does not accept GIF.
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

/// Prefix of an id that we assign to a call without one. The id is unique in the conversation, and we never send it.
const OWN_ID: &str = "own_call_";

/// A signature in the transcript.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Signature {
    thought_signature: String,
    /// Present if the signature arrived on a part without text. Then we return it as a separate part.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}
