//! Anthropic's Messages API, and servers that speak it.
//!
//! Every call streams. The fixed part of a conversation and all that is said in it are marked for the provider's cache,
//! so that each call reads what the one before wrote. Thinking is sent back as it came.
//!
//! Preserved thinking, by Anthropic's pages of that name as read on 2026-11-22: a thinking block is valid while `system`,
//! `tools` and the messages before it have the same values. The form of the JSON, the order of its keys and
//! `cache_control` do not count, nor does any other field of the request: `tool_choice`, `max_tokens`, `output_config`,
//! `thinking`. Thinking blocks may be left out at the front, at the end or all of them, but not in the middle. So this
//! client derives `system`, `tools` and each message from the conversation alone, in its order, and marks only
//! `cache_control` differently from call to call. Accounts made since 2026-08-31 are held to the rule, older ones where a
//! request sets `prefix_mismatch_behavior`. With `drop_block` a mistake costs that reasoning and not the run.

mod claude;
mod request;
mod schema;
mod stream;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue};
use sortie_agent::{
    Media, Model,
    model::{Deltas, ModelError, Reply, Request},
};
use sortie_api::model::ModelInfo;

use self::{claude::Claude, request::Extras};
use crate::{
    answer, endpoint,
    media::{self, Counting},
    optional::Optional,
    provider::{Entry, InvalidSettings, Provider},
    transport::Transport,
};

/// The version of the API that is spoken here.
const VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");

/// Allows a request to say what becomes of thinking whose conversation has changed, and tells what became of it.
const BINDING_CONTROLS: HeaderValue = HeaderValue::from_static("thinking-binding-controls-2026-08-01");

/// A client of one model.
pub(crate) fn client(provider: &Provider, entry: Entry) -> Result<Arc<dyn Model>, InvalidSettings> {
    let url = endpoint::url(provider, "v1", &["messages"])?;
    let transport =
        |headers| Transport::new(provider.http.clone(), url.clone(), headers, provider.key.clone());
    let plain = headers(provider)?;
    let mut with_controls = plain.clone();
    with_controls.insert("anthropic-beta", BINDING_CONTROLS);
    Ok(Arc::new(Anthropic {
        plain: transport(plain),
        with_controls: transport(with_controls),
        claude: Claude::of(&entry.upstream),
        extras: Optional::new("thinking.block_binding, thinking.display", is_about_extras),
        entry,
    }))
}

/// Whether a refusal names what only newer servers know of `thinking`. One that speaks of a bound block names the field
/// too, as a way out: it is no refusal of the field.
fn is_about_extras(said: &str) -> bool {
    let names = [
        "block_binding",
        "prefix_mismatch",
        "thinking-binding-controls",
        "anthropic-beta",
    ];
    let is_display = said.contains("thinking") && said.contains("display");
    !said.contains("bound to a different conversation")
        && (is_display || names.iter().any(|name| said.contains(name)))
}

/// The key, and the version of the API.
pub(crate) fn headers(provider: &Provider) -> Result<HeaderMap, InvalidSettings> {
    let mut headers = endpoint::keyed(provider, "x-api-key")?;
    headers.insert("anthropic-version", VERSION);
    Ok(headers)
}

struct Anthropic {
    /// For requests without extras.
    plain: Transport,
    /// For those with the controls of bound thinking.
    with_controls: Transport,
    entry: Entry,
    /// What its name says about the model.
    claude: Option<Claude>,
    extras: Optional,
}

impl Anthropic {
    async fn attempt(
        &self,
        request: &Request<'_>,
        extras: Extras,
        deltas: &dyn Deltas,
    ) -> Result<Reply, ModelError> {
        let body = request::Body::new(&self.entry, request, extras);
        let transport = match extras {
            Extras::None | Extras::Display => &self.plain,
            Extras::Controls => &self.with_controls,
        };
        answer::call(transport, &body, stream::Message::default(), deltas).await
    }

    /// The extras that the model has, while the server takes them.
    fn extras(&self) -> Extras {
        let thinks = self.entry.can("thinking") && self.extras.is_sent();
        match self.claude.filter(|_| thinks) {
            Some(claude) if claude.binds_thinking() => Extras::Controls,
            Some(claude) if claude.hides_thinking() => Extras::Display,
            Some(_) | None => Extras::None,
        }
    }
}

impl Model for Anthropic {
    fn info(&self) -> &ModelInfo {
        &self.entry.info
    }

    fn binds_thinking(&self) -> bool {
        self.entry.can("thinking") && self.claude.is_some_and(Claude::binds_thinking)
    }

    fn media_tokens(&self, media: &Media) -> Option<u64> {
        let kind = media::taken(&self.entry.info, media)?;
        // A server of unknown models may count like the newest of this protocol.
        let sharp = self.claude.is_none_or(Claude::sees_sharply);
        Some(Counting::Claude { sharp }.most_tokens(kind, media))
    }

    fn call<'a>(
        &'a self,
        request: Request<'a>,
        deltas: &'a dyn Deltas,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(async move {
            let extras = self.extras();
            let outcome = self.attempt(&request, extras, deltas).await;
            if extras != Extras::None && self.extras.is_refused_by(&outcome) {
                return self.attempt(&request, Extras::None, deltas).await;
            }
            outcome
        })
    }
}
