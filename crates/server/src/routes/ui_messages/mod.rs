//! `GET /v1/runs/{id}/ui-messages`: the run as a UI message stream of the AI SDK.

mod chunks;
mod stream;

use std::sync::Arc;

use axum::{
    Extension,
    extract::{FromRequestParts, State},
    response::Response,
};
use http::{HeaderName, HeaderValue, request::Parts};
use sortie_api::{ErrorCode, Refusal, RunId};
use sortie_engine::{Deltas, Hop};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema, schema::Type},
};

use self::stream::{Position, UiMessageStream};
use super::{
    event_stream::{Ends, EventStream, Messages},
    events::{LAST_EVENT_ID, LAST_EVENT_PARAMETER},
};
use crate::{
    app::App,
    kit::{ApiError, ApiResult, FromQuery, Opener, Pairs, Path, Query, RunReader},
};

/// Header that names the protocol and its version.
const PROTOCOL: HeaderName = HeaderName::from_static("x-vercel-ai-ui-message-stream");

/// Message of the stream, for the API document. The stream writes its messages without this type, so it is never built.
enum UiStreamMessage {}

impl PartialSchema for UiStreamMessage {
    fn schema() -> RefOr<Schema> {
        let text = |description: &str| {
            ObjectBuilder::new()
                .schema_type(Type::String)
                .description(Some(description))
        };
        ObjectBuilder::new()
            .schema_type(Type::Object)
            .description(Some("Message of the UI message stream."))
            .property(
                "id",
                text("Number of the event and of the chunk; absent on live chunks and `[DONE]`.")
                    .pattern(Some(r"^[1-9][0-9]*\.[1-9][0-9]*$")),
            )
            .property("data", text("A chunk as JSON, or `[DONE]` at the end."))
            .property(
                "retry",
                ObjectBuilder::new()
                    .schema_type(Type::Integer)
                    .description(Some("Milliseconds to wait before reconnecting; sent once.")),
            )
            .required("data")
            .into()
    }
}

impl ToSchema for UiStreamMessage {}

/// `Last-Event-ID`, which an interrupted client sends.
pub(crate) struct LastChunk(Option<Position>);

impl<S: Send + Sync> FromRequestParts<S> for LastChunk {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> ApiResult<Self> {
        let mut values = parts.headers.get_all(LAST_EVENT_ID).iter();
        let Some(value) = values.next() else {
            return Ok(Self(None));
        };
        let text = value.to_str().unwrap_or_default();
        let invalid = |rule| ErrorCode::InvalidRequest.because(format!("Last-Event-ID: {rule}"));
        if values.next().is_some() {
            return Err(invalid("must be sent once").into());
        }
        Ok(Self(Some(text.parse().map_err(invalid)?)))
    }
}

/// The parameters: the position, and whether with live messages.
pub(crate) struct UiMessagesQuery {
    after: Position,
    deltas: Deltas,
}

impl FromQuery for UiMessagesQuery {
    fn from_query(pairs: &Pairs<'_>) -> Result<Self, Refusal> {
        let deltas = if pairs.boolean("deltas")?.unwrap_or(false) {
            Deltas::Live
        } else {
            Deltas::Off
        };
        Ok(Self {
            after: pairs.parse(LAST_EVENT_PARAMETER)?.unwrap_or_default(),
            deltas,
        })
    }
}

/// Follow a run as a UI message
///
/// Streams the run in the UI message stream protocol (version 1) of the Vercel AI SDK, for `useChat` and other readers of this
/// protocol. The run is one assistant message with the run's id. Each chunk is made from recorded events and has an `id`;
/// reconnect with `Last-Event-ID` and the stream continues with the next chunk, also after a restart and on another node. The stream
/// ends with `[DONE]`. It closes without it when the credential that opened it ends.
#[utoipa::path(
    get, path = "/v1/runs/{id}/ui-messages", tag = "runs",
    params(
        ("id" = RunId, Path, description = "The run's id.", example = "run_01kafs6w1cefkstv6qr1ptb0mp"),
        ("Last-Event-ID" = Option<String>, Header, nullable = false, description = "Resume after the chunk with this id.", example = "3.1"),
        ("deltas" = Option<bool>, Query, nullable = false, description = "Also send the live messages of the event stream, as transient parts without an id: `data-message-start`, `data-message-delta` and `data-tool-output`.", example = true),
        ("lastEventId" = Option<String>, Query, nullable = false, description = "Chunk to resume after, for clients that send no header. `Last-Event-ID` comes before it.", example = "3.1"),
    ),
    responses((status = 200, description = "The stream.", content(
        (UiStreamMessage = "text/event-stream", example = json!({
            "id": "7.2", "data": "{\"type\":\"text-start\",\"id\":\"text-1\"}"
        })),
    )), (status = 410, description = "The run has zero data retention, and its events have expired.", body = sortie_api::ErrorBody)),
)]
pub(crate) async fn follow_ui_messages(
    State(app): State<Arc<App>>,
    who: RunReader,
    Path(id): Path<RunId>,
    LastChunk(last): LastChunk,
    Query(query): Query<UiMessagesQuery>,
    (Extension(hop), opener): (Extension<Hop>, Opener),
) -> ApiResult<Response> {
    let after = last.unwrap_or(query.after);
    let position = after.to_string();
    let batches = app
        .engine
        .follow_ui_messages(&who, id, (after.event, &position), query.deltas, hop)
        .await?;
    let chunks = UiMessageStream::new(batches, (who.org, id), after, app.texts.clone());
    let messages = Messages {
        batches: chunks.pieces(),
        texts: app.texts.clone(),
        org: who.org,
    };
    let ends = Ends {
        stop: app.stop.clone(),
        credential: app.watch.watch(opener),
    };
    let mut response = EventStream::new(messages, ends, app.heartbeat, app.http.stream()).respond();
    response
        .headers_mut()
        .insert(PROTOCOL, HeaderValue::from_static("v1"));
    Ok(response)
}
