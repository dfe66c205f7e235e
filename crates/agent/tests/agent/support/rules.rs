//! The rules that providers enforce. Every model of these tests is called through [`Ruled`], which checks each request and ends
//! the test if one breaks a rule.
//!
//! Two answers are not rule violations, because a provider gives them too: a request beyond the window, and a thinking block that
//! is bound to a different conversation. Usage that a script leaves at zero is counted by real bytes.

mod canonical;
mod check;

use std::{collections::VecDeque, ops::Deref};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::value::RawValue;
use sortie_agent::{
    Media, Model,
    model::{Content, Deltas, ErrorKind, Kind, ModelError, Reply, Request, Retry, Usage},
};
use sortie_api::model::ModelInfo;

use self::{canonical::Canonical, check::Said};

/// Requests of which a provider still has the prefix.
const CACHED: usize = 2;

/// The counting of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counting {
    /// Bytes per ten tokens: 35 is ordinary text, 10 is a token for each byte.
    pub(crate) bytes_per_ten_tokens: u64,
    pub(crate) cache: Cache,
}

/// The treatment of a prefix that was read before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cache {
    /// Nothing is kept: all is input.
    None,
    /// The prefix is read from the cache, the rest is input.
    Implicit,
    /// The prefix is read from the cache, the rest is written to it.
    Marked,
}

impl Default for Counting {
    fn default() -> Self {
        Self {
            bytes_per_ten_tokens: 35,
            cache: Cache::Marked,
        }
    }
}

impl Counting {
    fn tokens(self, bytes: usize) -> u64 {
        (bytes as u64 * 10).div_ceil(self.bytes_per_ten_tokens.max(1))
    }
}

/// A model with checked requests.
pub(crate) struct Ruled<M> {
    model: M,
    counting: Option<Counting>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The newest requests, as bytes.
    before: VecDeque<Vec<u8>>,
    said: Said,
    bound: u32,
}

impl<M> Ruled<M> {
    pub(crate) fn new(model: M) -> Self {
        Self::counting(model, Some(Counting::default()))
    }

    /// A model of a provider that counts in this way, or not at all.
    pub(crate) fn counting(model: M, counting: Option<Counting>) -> Self {
        Self {
            model,
            counting,
            state: Mutex::default(),
        }
    }

    /// The number of requests that were refused because a thinking block is bound to another conversation.
    pub(crate) fn bound(&self) -> u32 {
        self.state().bound
    }

    fn state(&self) -> parking_lot::MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl<M: Deref<Target: Model> + Send + Sync> Ruled<M> {
    /// Checks a request; returns the provider's count of it, or its error.
    fn look(&self, request: &Request<'_>) -> Result<Usage, ModelError> {
        let mut state = self.state();
        if let Err(broken) = check::request(request).and_then(|()| state.said.holds(request)) {
            drop(state);
            panic!("the request breaks a rule of the providers: {broken}");
        }
        if self.model.kind() == Kind::Program {
            return Ok(Usage::default());
        }
        let canonical = Canonical::of(request);
        if self.model.binds_thinking()
            && let Some(place) = canonical.unbound(&self.model.info().id)
        {
            state.bound += 1;
            return Err(refused(
                format!(
                    "{place}: Invalid `signature` in `thinking` block. The block is bound to a different conversation."
                ),
                Retry::WithoutThinking,
            ));
        }
        let usage = self.counting.map_or_else(Usage::default, |counting| {
            self.count(counting, &state.before, &canonical, request)
        });
        let tokens = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens;
        let window = self.model.info().context_window;
        if tokens > window {
            let message = format!("prompt is too long: {tokens} tokens > {window} maximum");
            return Err(ModelError {
                kind: ErrorKind::TooLarge,
                ..refused(message, Retry::Smaller)
            });
        }
        state.before.push_front(canonical.bytes);
        state.before.truncate(CACHED);
        Ok(usage)
    }

    fn count(
        &self,
        counting: Counting,
        before: &VecDeque<Vec<u8>>,
        canonical: &Canonical,
        request: &Request<'_>,
    ) -> Usage {
        let media = canonical::media(request).filter_map(|media| self.model.media_tokens(media));
        let all = counting.tokens(canonical.bytes.len());
        let media = media.sum::<u64>();
        let common = before.iter().map(|bytes| common(bytes, &canonical.bytes)).max();
        let read = match counting.cache {
            Cache::None => 0,
            Cache::Implicit | Cache::Marked => counting.tokens(common.unwrap_or(0)).min(all),
        };
        let new = all - read + media;
        match counting.cache {
            Cache::None | Cache::Implicit => Usage {
                input_tokens: new,
                cache_read_tokens: read,
                ..Usage::default()
            },
            Cache::Marked => Usage {
                cache_write_tokens: new,
                cache_read_tokens: read,
                ..Usage::default()
            },
        }
    }

    /// Signs the thinking of a reply, counts it, and remembers it.
    fn replied(&self, reply: &mut Reply, usage: Usage, request: &Request<'_>) {
        if self.model.binds_thinking() {
            Canonical::of(request).sign(&self.model.info().id, &mut reply.content);
        }
        if let Some(counting) = self.counting
            && reply.usage == Usage::default()
            && self.model.kind() == Kind::Language
        {
            let written = reply.content.iter().map(canonical::written).sum();
            reply.usage = Usage {
                output_tokens: counting.tokens(written),
                ..usage
            };
        }
        self.state().said.say(&reply.content);
    }
}

fn refused(message: String, retry: Retry) -> ModelError {
    ModelError {
        retry,
        ..ModelError::fatal(message)
    }
}

/// Length of the beginning that two requests share. Pieces are compared before single bytes.
fn common(one: &[u8], other: &[u8]) -> usize {
    const PIECE: usize = 1_024;
    let pieces = one.chunks(PIECE).zip(other.chunks(PIECE));
    let same = PIECE * pieces.take_while(|(one, other)| one == other).count();
    let rest = one.iter().skip(same).zip(other.iter().skip(same));
    same.min(one.len()) + rest.take_while(|(one, other)| one == other).count()
}

impl<M: Deref<Target: Model> + Send + Sync> Model for Ruled<M> {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    fn kind(&self) -> Kind {
        self.model.kind()
    }

    fn tool_output_bytes(&self) -> usize {
        self.model.tool_output_bytes()
    }

    fn binds_thinking(&self) -> bool {
        self.model.binds_thinking()
    }

    fn media_tokens(&self, media: &Media) -> Option<u64> {
        self.model.media_tokens(media)
    }

    fn call<'a>(
        &'a self,
        request: Request<'a>,
        deltas: &'a dyn Deltas,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(async move {
            let usage = self.look(&request)?;
            let mut reply = self.model.call(request, deltas).await?;
            self.replied(&mut reply, usage, &request);
            Ok(reply)
        })
    }
}

/// A thinking block that the model signs when it says it.
pub(crate) fn thinks(text: &str) -> Content {
    let block = format!(r#"{{"type":"thinking","thinking":{text:?},"signature":""}}"#);
    Content::Opaque(RawValue::from_string(block).unwrap())
}
