//! Anthropic's Messages API, and servers that speak it.
//!
//! Every call streams. We mark the fixed part of a conversation and its end for the provider's cache, so that each call reads
//! the prefix that the previous call wrote. Thinking is returned unchanged.
//!
//! Preserved thinking, according to Anthropic's pages of that name as read on 2026-11-22: a thinking block is valid while
//! `system`, `tools` and the messages before it have the same values. The formatting of the JSON, the order of keys and
//! `cache_control` do not matter, nor does any other field of the request: `tool_choice`, `max_tokens`, `output_config`,
//! `thinking`. Thinking blocks can be omitted at the front, at the end, or altogether, but not in the middle. This client
//! therefore derives `system`, `tools` and each message only from the conversation, in order, and varies only `cache_control`
//! between calls. The rule is enforced for accounts created since 2026-08-31, and for older ones if a request sets
//! `prefix_mismatch_behavior`. With `drop_block` a mistake costs that reasoning, but not the run.

mod claude;
mod models;
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
    model::{Deltas, ModelError, Reply, Request, ToolUse},
};
use sortie_api::model::ModelInfo;

use self::{claude::Claude, request::Extras};
use crate::{
    answer, endpoint,
    known::{Api, KnownProvider, Protocol},
    media::{self, Counting, patches},
    optional::{self, Optional, Optionals},
    provider::{Entry, InvalidSettings, Provider},
    transport::Transport,
};

pub(crate) const PROVIDER: KnownProvider = KnownProvider {
    name: "anthropic",
    apis: &[Api(&Protocol {
        name: "anthropic",
        home: "https://api.anthropic.com",
        client,
        list,
        cache_write_percent: 125,
    })],
    models: models::MODELS,
};

/// Pictures for models since 4.7: one token per patch of 28 pixels.
pub(crate) const SHARP: Counting = Counting {
    largest: 4_784,
    picture: |width, height| patches(width, height, 28).min(4_784),
};
/// Pictures for earlier models.
pub(crate) const COARSE: Counting = Counting {
    largest: 1_600,
    picture: |width, height| patches(width, height, 28).min(1_600),
};

/// Version of the API.
const VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");

/// Lets a request choose how the provider treats thinking of a changed conversation. The response then reports dropped thinking.
const BINDING_CONTROLS: HeaderValue = HeaderValue::from_static("thinking-binding-controls-2026-08-01");

/// Creates the transport for the list of models.
fn list(provider: &Provider) -> Result<Transport, InvalidSettings> {
    let url = endpoint::url(provider, "v1", &["models"])?;
    Ok(Transport::new(provider, url, headers(provider)?))
}

/// Creates the client of a model.
fn client(provider: &Provider, entry: Entry) -> Result<Arc<dyn Model>, InvalidSettings> {
    let url = endpoint::url(provider, "v1", &["messages"])?;
    let transport = |headers| Transport::new(provider, url.clone(), headers);
    let plain = headers(provider)?;
    let mut with_controls = plain.clone();
    with_controls.insert("anthropic-beta", BINDING_CONTROLS);
    Ok(Arc::new(Anthropic {
        plain: transport(plain),
        with_controls: transport(with_controls),
        claude: Claude::of(&entry.upstream),
        optionals: Optionals::new([
            Optional::new("thinking.block_binding", is_about_controls),
            Optional::new("thinking.display", is_about_display),
            Optional::new("tool_choice", optional::is_about_tool_choice),
        ]),
        entry,
    }))
}

/// Whether a refusal is about the controls of bound thinking. A refusal of a bound block also mentions the field, as a remedy,
/// but does not reject it. Bedrock says only `invalid beta flag`.
fn is_about_controls(said: &str) -> bool {
    let names = [
        "block_binding",
        "prefix_mismatch",
        "thinking-binding-controls",
        "anthropic-beta",
        "anthropic_beta",
        "beta flag",
    ];
    !said.contains("bound to a different conversation") && names.iter().any(|name| said.contains(name))
}

/// Whether a refusal is about `display`, the form of readable thinking.
fn is_about_display(said: &str) -> bool {
    said.contains("thinking") && said.contains("display")
}

/// Headers with the key and the version of the API.
fn headers(provider: &Provider) -> Result<HeaderMap, InvalidSettings> {
    let mut headers = endpoint::keyed(provider, "x-api-key")?;
    headers.insert("anthropic-version", VERSION);
    Ok(headers)
}

struct Anthropic {
    /// For requests without extras.
    plain: Transport,
    /// For requests with the controls of bound thinking.
    with_controls: Transport,
    entry: Entry,
    /// Facts about the model that follow from its name.
    claude: Option<Claude>,
    optionals: Optionals<3>,
}

impl Anthropic {
    async fn attempt(
        &self,
        request: &Request<'_>,
        [controls, display, tool_choice]: [bool; 3],
        deltas: &dyn Deltas,
    ) -> Result<Reply, ModelError> {
        let extras = Extras {
            controls,
            display,
            tool_choice,
        };
        let body = request::Body::new(&self.entry, request, extras);
        let transport = if controls {
            &self.with_controls
        } else {
            &self.plain
        };
        let answer = stream::Message::new(self.claude.is_some());
        answer::call(transport, &body, answer, deltas, request.max_tokens).await
    }

    /// Optional parts that this request needs.
    fn needed(&self, request: &Request<'_>) -> [bool; 3] {
        let claude = self.claude.filter(|_| self.entry.can("thinking"));
        let has_tools = self.entry.can("tools") && !request.tools.is_empty();
        [
            claude.is_some_and(Claude::binds_thinking),
            claude.is_some_and(Claude::hides_thinking),
            has_tools && request.tool_use == ToolUse::Never,
        ]
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
        // A server with unknown models may count like the newest models of this protocol.
        let counting = if self.claude.is_none_or(Claude::sees_sharply) {
            SHARP
        } else {
            COARSE
        };
        Some(counting.most_tokens(kind, media))
    }

    fn call<'a>(
        &'a self,
        request: Request<'a>,
        deltas: &'a dyn Deltas,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(async move {
            let mut sent = self.optionals.sent(self.needed(&request));
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
