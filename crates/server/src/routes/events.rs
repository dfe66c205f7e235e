//! `GET /v1/runs/{id}/events`: the run as a stream of server-sent events, or a range of its events as JSON.

use std::{str::FromStr, sync::Arc};

use axum::{
    Extension,
    body::Body,
    extract::{FromRequestParts, State},
    response::Response,
};
use http::{HeaderMap, HeaderName, header::ACCEPT, request::Parts};
use sortie_api::{
    ErrorCode, Event, OrgId, Refusal, RunId,
    event::kind,
    live::{MessageDelta, MessageStart, ToolOutput},
};
use sortie_engine::{Deltas, Hop};
use sortie_store::{
    Found,
    access::Caller,
    runs::{EventSelection, ListedEvent},
};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema, schema::Type},
};

use super::{
    event_encoder::event_entry,
    event_stream::{Ends, EventStream, Messages, names},
    listing::{Form as ListForm, Listing},
};
use crate::{
    app::App,
    kit::{
        ApiError, ApiResult, FromQuery, Opener, Pairs, Path, Pieces, Query, RunReader, integer, json_response,
    },
};

/// Header in which a client sends the last message that it got.
pub(super) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Parameter in which replacements of the browser's `EventSource` send the last event: a header of theirs would need a
/// preflight request.
pub(super) const LAST_EVENT_PARAMETER: &str = "lastEventId";

/// Events in one JSON answer, at most.
const MOST_EVENTS: u32 = 1_000;

/// Memory of an answer that is passed on from another node: what the connections to it and to the client hold, in bytes.
const PASSED_BYTES: usize = 1024 * 1024;

/// Form of the answer.
enum Form {
    Stream,
    Json,
}

/// Message of the stream, for the API document. The stream writes its messages without this type, so it is never built.
enum StreamMessage {}

impl PartialSchema for StreamMessage {
    fn schema() -> RefOr<Schema> {
        let text = |description: &str| {
            ObjectBuilder::new()
                .schema_type(Type::String)
                .description(Some(description))
        };
        ObjectBuilder::new()
            .schema_type(Type::Object)
            .description(Some("Message of the stream."))
            .property(
                "id",
                text("The event's id; absent on `done` and on live messages.").pattern(Some("^[1-9][0-9]*$")),
            )
            .property("event", text("The event's type, `done`, or with `deltas=true` `message_start`, `message_delta` or `tool_output`."))
            .property(
                "data",
                text("The event as JSON (`Event`); on `done` the run (`Run`), and of a live message its data.")
                    .content_media_type("application/json"),
            )
            .property(
                "retry",
                ObjectBuilder::new()
                    .schema_type(Type::Integer)
                    .description(Some("Milliseconds to wait before reconnecting; sent once.")),
            )
            .required("event")
            .required("data")
            .into()
    }
}

impl ToSchema for StreamMessage {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        let live = [
            (MessageStart::name(), MessageStart::schema()),
            (MessageDelta::name(), MessageDelta::schema()),
            (ToolOutput::name(), ToolOutput::schema()),
        ];
        schemas.extend(live.map(|(name, schema)| (name.into_owned(), schema)));
    }
}

/// Form of the answer, and the position it starts from.
pub(crate) struct Reading {
    form: Form,
    /// `Last-Event-ID`, which a reconnecting client sends.
    last_event: Option<i64>,
}

impl<S: Send + Sync> FromRequestParts<S> for Reading {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> ApiResult<Self> {
        Ok(Self {
            form: wanted(&parts.headers),
            last_event: last_event(&parts.headers)?,
        })
    }
}

/// JSON only for who asks for it and not for a stream: `*/*` is a stream.
fn wanted(headers: &HeaderMap) -> Form {
    let names = |kind| names(headers, ACCEPT, kind);
    if names("application/json") && !names("text/event-stream") {
        Form::Json
    } else {
        Form::Stream
    }
}

fn last_event(headers: &HeaderMap) -> Result<Option<i64>, Refusal> {
    let mut values = headers.get_all(LAST_EVENT_ID).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    value
        .to_str()
        .ok()
        .and_then(integer)
        .filter(|id| *id >= 0 && values.next().is_none())
        .map(Some)
        .ok_or_else(|| {
            ErrorCode::InvalidRequest
                .because("Last-Event-ID: must be an integer from 0 to 9223372036854775807")
        })
}

/// The parameters: which events, and whether with the text that is being written.
pub(crate) struct EventsQuery {
    selection: EventSelection,
    /// Number of events of a JSON answer.
    limit: Option<u32>,
    deltas: Deltas,
}

/// Type of a recorded event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EventKind(&'static str);

impl FromStr for EventKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = kind::ALL.iter().find(|kind| **kind == text);
        let known = known.map(|kind| Self(kind));
        known.ok_or_else(|| format!("must be one of {}", kind::ALL.join(", ")))
    }
}

impl FromQuery for EventsQuery {
    fn from_query(pairs: &Pairs<'_>) -> Result<Self, Refusal> {
        let deltas = if pairs.boolean("deltas")?.unwrap_or(false) {
            Deltas::Live
        } else {
            Deltas::Off
        };
        let last_event = pairs.integer(LAST_EVENT_PARAMETER, 0, i64::MAX)?;
        let after = pairs.integer("after", 0, i64::MAX)?;
        let kinds = pairs.list::<EventKind>("types", kind::ALL.len())?;
        let limit = pairs.integer("limit", 1, i64::from(MOST_EVENTS))?;
        Ok(Self {
            selection: EventSelection {
                after: last_event.or(after).unwrap_or(0),
                before: pairs.integer("before", 1, i64::MAX)?.unwrap_or(i64::MAX),
                kinds: kinds.into_iter().map(|EventKind(kind)| kind).collect(),
            },
            limit: limit.and_then(|limit| u32::try_from(limit).ok()),
            deltas,
        })
    }
}

/// Follow a run's events
///
/// Streams server-sent events: every recorded event, then new ones as they happen. When the run is final, a message
/// `done` has the run as its data, and the stream closes. Comments are heartbeats. A disconnected client does not
/// cancel the run; reconnect with `Last-Event-ID`. The stream closes without `done` when the credential that opened it ends. With `Accept: application/json` the answer is an array of
/// recorded events instead, in order: the first `limit` after `after`, or with `before` the last `limit` before that event.
///
/// The final `status` is the last event, but for a cancelled run: while its `billing_pending` is true, `model_call` and
/// `tool_end` events may follow it. A stream that is open at the cancel may end without them.
///
/// The events of a run with zero data retention are held while the run works and for five minutes afterwards. Its
/// `done` has no output; the `result` event has it.
#[utoipa::path(
    get, path = "/v1/runs/{id}/events", tag = "runs",
    params(
        ("id" = RunId, Path, description = "The run's id.", example = "run_01kafs6w1cefkstv6qr1ptb0mp"),
        ("Last-Event-ID" = Option<i64>, Header, minimum = 0, nullable = false, description = "Resume after this event.", example = 3),
        ("deltas" = Option<bool>, Query, nullable = false, description = "Also send live messages without an id, which are not recorded: `message_start` `{model, step}` when a model call begins, `message_delta` `{text, step}` with text that the model is writing (the whole text follows as `message`, and after a `retry` the text restarts), and `tool_output` `{id, text}` with output of a running command. A slow client misses some of them.", example = true),
        ("lastEventId" = Option<i64>, Query, minimum = 0, nullable = false, description = "Event to resume after, for replacements of `EventSource` that send no header. `Last-Event-ID` comes before it.", example = 3),
        ("after" = Option<i64>, Query, minimum = 0, nullable = false, description = "Only events after this one; `Last-Event-ID` and `lastEventId` come before it.", example = 0),
        ("before" = Option<i64>, Query, minimum = 1, nullable = false, description = "Only events before this one, and of these the last; as JSON only. `last_event_id` of the run plus 1 gives the newest.", example = 9),
        ("limit" = Option<i32>, Query, minimum = 1, maximum = 1_000, nullable = false, description = "Maximum number of events; as JSON only. Default 1000.", example = 100),
        ("types" = Option<Vec<String>>, Query, style = Form, explode = false, nullable = false, description = "Only events of these types, separated by commas; as JSON only.", example = json!(["model_call", "retry"])),
    ),
    responses((status = 200, description = "The stream, or the array.", content(
        (StreamMessage = "text/event-stream", example = json!({
            "id": "1", "event": "status",
            "data": "{\"id\":1,\"type\":\"status\",\"data\":{\"status\":\"queued\"},\"created_at\":\"2026-11-20T21:30:00.000Z\"}"
        })),
        (Vec<Event> = "application/json", example = json!([
            {"id": 1, "type": "status", "data": {"status": "queued"}, "created_at": "2026-11-20T21:30:00.000Z"}
        ])),
    )), (status = 410, description = "The run has zero data retention, and its events have expired.", body = sortie_api::ErrorBody)),
)]
pub(crate) async fn follow_run(
    State(app): State<Arc<App>>,
    who: RunReader,
    Path(id): Path<RunId>,
    reading: Reading,
    Query(mut query): Query<EventsQuery>,
    (Extension(hop), opener): (Extension<Hop>, Opener),
) -> ApiResult<Response> {
    if let Some(last_event) = reading.last_event {
        query.selection.after = last_event;
    }
    match reading.form {
        Form::Json => match recorded(&app, who.org, id, &query).await {
            Err(error) if error.code == ErrorCode::Gone => {
                events_elsewhere(&app, &who, id, &query, hop).await
            }
            begun => begun?.respond(&app.bodies).await,
        },
        Form::Stream => {
            let after = query.selection.after;
            if query.selection != EventSelection::after(after) || query.limit.is_some() {
                let rule = "before, limit and types: only with Accept: application/json";
                return Err(ErrorCode::InvalidRequest.because(rule).into());
            }
            let deltas = query.deltas;
            let batches = app.engine.follow(&who, id, (after, deltas), hop).await?;
            let ends = Ends {
                stop: app.stop.clone(),
                credential: app.watch.watch(opener),
            };
            let messages = Messages {
                batches,
                texts: app.texts.clone(),
                org: who.org,
            };
            Ok(EventStream::new(messages, ends, app.heartbeat, app.http.stream()).respond())
        }
    }
}

/// Begins the list of the events of a run that this node has.
async fn recorded(app: &App, org: OrgId, run: RunId, query: &EventsQuery) -> Result<Pieces, Refusal> {
    let (mut selection, limit) = (query.selection.clone(), query.limit.unwrap_or(MOST_EVENTS));
    if selection.before < i64::MAX {
        selection.after = app.engine.newest_events(org, run, &selection, limit).await?;
    }
    let first = selection.after;
    let (engine, texts) = (app.engine.clone(), app.texts.clone());
    let read = move |after: Option<i64>, limit| {
        let (engine, texts) = (engine.clone(), texts.clone());
        let selection = EventSelection {
            after: after.unwrap_or_default(),
            ..selection.clone()
        };
        async move {
            let listed = engine.list_events(org, run, &selection, limit).await?;
            let entry = |event: ListedEvent| (event.seq, event_entry(&texts, (org, run), event));
            Ok(Found::all(listed.into_iter().map(entry).collect()))
        }
    };
    let list = Listing {
        stretch: 64,
        read,
        after: Some(first),
        limit,
        form: ListForm::Array,
    };
    list.pieces().begin().await
}

/// Answers with the events of a run with zero data retention, which are in the memory of another node.
async fn events_elsewhere(
    app: &App,
    caller: &Caller,
    run: RunId,
    query: &EventsQuery,
    hop: Hop,
) -> ApiResult<Response> {
    // Reserve memory before the request to the other node, so that no part of its answer is buffered without a reservation.
    let room = app.bodies.answer_room(PASSED_BYTES).await?;
    let events = (&query.selection, query.limit.unwrap_or(MOST_EVENTS));
    let pieces = app.engine.events_elsewhere(caller, run, events, hop).await?;
    let mut response = json_response(Body::from_stream(pieces));
    response.extensions_mut().insert(room);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[tokio::test]
    async fn the_last_event_may_come_as_a_parameter() {
        let after = async |query: &str| {
            let request = Request::get(format!("/v1/runs/x/events?{query}"))
                .body(())
                .unwrap();
            let (mut parts, ()) = request.into_parts();
            let read = Query::<EventsQuery>::from_request_parts(&mut parts, &()).await;
            read.ok().map(|Query(query)| query.selection.after)
        };
        for (query, expected) in [
            ("", Some(0)),
            ("after=2", Some(2)),
            ("lastEventId=3", Some(3)),
            ("after=2&lastEventId=3", Some(3)),
            ("lastEventId=0&after=2", Some(0)),
            ("lasteventid=3", None),
            ("lastEventId=-1", None),
            ("lastEventId=", None),
            ("lastEventId=x", None),
            ("lastEventId=1&lastEventId=1", None),
        ] {
            assert_eq!(after(query).await, expected, "{query}");
        }
    }
}
