//! `OpenAI`, and the shared parts of its two protocols: the address and the key, failures inside of a stream, and the calculation
//! of usage.

mod chat;
mod effort;
mod models;
mod responses;
#[cfg(test)]
pub(crate) mod testing;
mod usage;

use std::{
    borrow::Cow,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use http::{HeaderMap, HeaderValue, StatusCode, header::AUTHORIZATION};
use serde::Deserialize;
use serde_json::value::RawValue;
use sortie_agent::model::{Content, ModelError, Request, ToolCall, ToolDefinition, ToolUse, Turn};
use url::Url;

use crate::{
    answer::{Failure, parse},
    known::{Api, KnownProvider, Protocol},
    media::{Counting, patches},
    provider::{Entry, InvalidSettings, Provider},
    transport::Transport,
    wire::{Object, Text},
};

pub(crate) use effort::level;
pub(crate) use usage::{Counted, Figures};

/// `OpenAI`. Servers at other addresses rarely support more than Chat Completions.
pub(crate) const PROVIDER: KnownProvider = KnownProvider {
    name: "openai",
    apis: &[
        Api(&Protocol {
            name: "openai-responses",
            home: HOME,
            client: responses::client,
            list,
            cache_write_percent: 100,
        }),
        Api(&Protocol {
            name: "openai-chat",
            home: HOME,
            client: chat::client,
            list,
            cache_write_percent: 100,
        }),
    ],
    models: models::MODELS,
};

const HOME: &str = "https://api.openai.com/v1";

/// Pictures for models since GPT-6 with `detail` `high`: patches of 32 pixels, up to 2,500, times 1.2.
pub(crate) const SINCE_6: Counting = Counting {
    largest: 3_000,
    picture: |width, height| {
        let tokens = patches(width, height, 32).saturating_mul(120).div_ceil(100);
        tokens.min(3_000)
    },
};
/// Pictures for earlier models: a factor of at most 2.46, or at most eight tiles of 170 tokens plus 85.
pub(crate) const BEFORE_6: Counting = Counting {
    largest: 6_150,
    picture: |width, height| {
        let tokens = patches(width, height, 32).saturating_mul(246).div_ceil(100);
        tokens.clamp(85 + 8 * 170, 6_150)
    },
};

/// Creates the transport for the list of models.
fn list(provider: &Provider) -> Result<Transport, InvalidSettings> {
    transport(provider, &["models"])
}

/// Creates the transport for the endpoint `path` below the provider's base address.
pub(crate) fn transport(provider: &Provider, path: &[&str]) -> Result<Transport, InvalidSettings> {
    let unusable = |why: &str| InvalidSettings(format!("provider {:?}: {why}", provider.name));
    let mut url = provider.base.clone();
    url.path_segments_mut()
        .map_err(|()| unusable("base_url must begin with http:// or https://"))?
        .pop_if_empty()
        .extend(path);
    let mut headers = HeaderMap::new();
    if let Some(key) = &provider.key {
        let value = HeaderValue::try_from(format!("Bearer {}", key.expose()));
        let mut value = value.map_err(|_| unusable("its key has a character that no HTTP header takes"))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(Transport::new(provider, url, headers))
}

/// Whether the address is `OpenAI`'s own service or Azure's version of it. Some fields exist only there, and some only elsewhere.
pub(crate) fn is_openai(url: &Url) -> bool {
    url.host_str().is_some_and(|host| {
        host == "api.openai.com" || host.ends_with(".api.openai.com") || host.ends_with(".openai.azure.com")
    })
}

/// Returns the tools for the request: none if the model cannot call tools, because servers reject them. If the server does not
/// support `tool_choice` and calls are forbidden, the tools are omitted, unless the conversation contains calls.
pub(crate) fn tools<'a>(
    entry: &Entry,
    request: &Request<'a>,
    takes_choice: bool,
) -> &'a [ToolDefinition<'a>] {
    let is_useless = request.tool_use == ToolUse::Never && !takes_choice && !has_calls(request.transcript);
    if entry.can("tools") && !is_useless {
        request.tools
    } else {
        &[]
    }
}

/// Whether the request has tools but forbids calling them.
pub(crate) fn forbids_tools(entry: &Entry, request: &Request<'_>) -> bool {
    request.tool_use == ToolUse::Never && entry.can("tools") && !request.tools.is_empty()
}

fn has_calls(transcript: &[Turn]) -> bool {
    let is_call = |piece: &Content| matches!(piece, Content::ToolCall(_));
    transcript.iter().any(|turn| match turn {
        Turn::Assistant(pieces) => pieces.iter().any(is_call),
        Turn::ToolResults(_) | Turn::User(_) => false,
    })
}

/// Whether a refusal is about the effort.
pub(crate) fn is_about_effort(said: &str) -> bool {
    ["reasoning_effort", "reasoning.effort", "reasoning effort"]
        .iter()
        .any(|name| said.contains(name))
}

/// Returns the method to count pictures at this address.
pub(crate) fn counting(is_own: bool, upstream: &str) -> Counting {
    let is_since_6 = || effort::version(upstream).is_some_and(|version| version >= (6, 0));
    match is_own {
        true if is_since_6() => SINCE_6,
        true => BEFORE_6,
        false => Counting::UNKNOWN,
    }
}

/// Returns the key by which the provider routes the calls of a run to one cache. Only `OpenAI` is known to accept the field.
pub(crate) fn cache_key<'a>(is_own: bool, request: &Request<'a>) -> Option<&'a str> {
    (is_own && !request.cache_key.is_empty()).then_some(request.cache_key)
}

/// Parses the text of a JSON Schema for a body.
pub(crate) fn schema(text: &str) -> Result<&RawValue, ModelError> {
    serde_json::from_str(text).map_err(|error| ModelError::fatal(format!("a schema is not JSON: {error}")))
}

/// Returns the output schema if providers can enforce it: they accept only schemas of objects.
pub(crate) fn object_schema(text: Option<&str>) -> Result<Option<&RawValue>, ModelError> {
    #[derive(Deserialize)]
    struct Root {
        #[serde(rename = "type")]
        kind: String,
    }
    let Some(text) = text else {
        return Ok(None);
    };
    let raw = schema(text)?;
    // A schema can also be `true`, or allow several types. Then its root does not have this form.
    let is_object = serde_json::from_str(raw.get()).is_ok_and(|root: Root| root.kind == "object");
    Ok(is_object.then_some(raw))
}

/// Returns the failure that a provider reports inside of its stream: `error` of a chunk, or a whole event.
pub(crate) fn failure(error: &RawValue) -> Failure {
    let (status, said) = told(error);
    Failure::Reported(status, said)
}

/// Returns the status and the message of such a failure.
pub(crate) fn told(error: &RawValue) -> (StatusCode, String) {
    #[derive(Deserialize)]
    struct Told<'a> {
        #[serde(borrow, default)]
        message: Text<'a>,
        #[serde(borrow, default)]
        code: Text<'a>,
        #[serde(borrow, default, rename = "type")]
        kind: Text<'a>,
        #[serde(borrow, default)]
        metadata: Object<Metadata<'a>>,
    }
    /// The message of the upstream provider, which `OpenRouter` forwards.
    #[derive(Deserialize)]
    struct Metadata<'a> {
        #[serde(borrow, default)]
        raw: Text<'a>,
    }
    let is_object = error.get().starts_with('{');
    let Some(told) = is_object.then(|| parse::<Told<'_>>(error.get()).ok()).flatten() else {
        let said = parse::<Text<'_>>(error.get()).unwrap_or_default();
        return (StatusCode::INTERNAL_SERVER_ERROR, said.0.into_owned());
    };
    let code = &*told.code;
    let number = code.parse().ok().filter(|code| (400..600).contains(code));
    let status = number
        .and_then(|code| StatusCode::from_u16(code).ok())
        .or_else(|| status_of(code))
        .or_else(|| status_of(&told.kind))
        .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut said = match (&*told.message, code) {
        ("", "") => "no reason given".to_owned(),
        (said, "") => said.to_owned(),
        (said, code) => format!("{said} ({code})"),
    };
    if let Some(metadata) = told.metadata.0.filter(|metadata| !metadata.raw.is_empty()) {
        said = format!("{said}: {}", &*metadata.raw);
    }
    (status, said)
}

/// Status of a response with this error name, for errors inside of a stream.
pub(crate) fn status_of(name: &str) -> Option<StatusCode> {
    Some(match name {
        "context_length_exceeded" | "BadRequestError" | "content_filter" | "content_policy_violation" => {
            StatusCode::BAD_REQUEST
        }
        "invalid_api_key" | "authentication_error" => StatusCode::UNAUTHORIZED,
        "insufficient_quota" => StatusCode::PAYMENT_REQUIRED,
        "permission_error" => StatusCode::FORBIDDEN,
        "model_not_found" | "not_found_error" => StatusCode::NOT_FOUND,
        "rate_limit_exceeded" | "rate_limit_error" => StatusCode::TOO_MANY_REQUESTS,
        "overloaded_error" => StatusCode::SERVICE_UNAVAILABLE,
        name if name.starts_with("invalid_") => StatusCode::BAD_REQUEST,
        _ => return None,
    })
}

/// Makes the ids of the calls in a reply unique, because results refer to them. `turn` keeps ids of different replies distinct.
pub(crate) fn tell_apart(content: &mut [Content], turn: usize) {
    let mut taken = std::collections::HashSet::new();
    let calls = content.iter_mut().filter_map(|piece| match piece {
        Content::ToolCall(call) => Some(call),
        Content::Text(_) | Content::Opaque(_) => None,
    });
    for (number, call) in calls.enumerate() {
        let mut tries = 0_usize;
        while call.id.is_empty() || taken.contains(&call.id) {
            call.id = match tries {
                // Mistral requires nine letters and digits.
                0 => format!("c{turn:05}{number:03}"),
                tries => format!("c{turn:05}{number:03}{tries}"),
            };
            tries += 1;
        }
        taken.insert(call.id.clone());
    }
}

/// Separates the id of a call from the thoughts of a Gemini model. `LiteLLM` appends the thoughts to the id and requires them
/// back.
const THOUGHTS: &str = "__thought__";

/// Shortens the id of a call to at most `most` bytes, identically for the call and its result. Ids of other providers can be
/// longer than `OpenAI` accepts.
pub(crate) fn call_id(id: &str, most: usize) -> Cow<'_, str> {
    if id.len() <= most || id.contains(THOUGHTS) {
        return Cow::Borrowed(id);
    }
    let mut hash = DefaultHasher::new();
    id.hash(&mut hash);
    Cow::Owned(format!("call_{:016x}", hash.finish()))
}

/// Creates a call. `None` for an empty one, which some servers send after their last call.
pub(crate) fn tool_call(id: String, name: String, arguments: String) -> Result<Option<ToolCall>, Failure> {
    match (name.is_empty(), arguments.is_empty()) {
        (true, true) => Ok(None),
        (true, false) => Err(Failure::Garbled(
            "the model called a tool without a name".to_owned(),
        )),
        (false, _) => Ok(Some(ToolCall { id, name, arguments })),
    }
}
