//! `GET /v1/runs` as a stream of server-sent events: the changes of the runs of a list.

use std::sync::Arc;

use axum::{extract::FromRequestParts, response::Response};
use http::{HeaderMap, header::ACCEPT, request::Parts};
use sortie_api::{ErrorCode, OrgId, Refusal};
use sortie_store::runs::RunFilter;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema, schema::Type},
};

use super::{
    event_stream::{Ends, EventStream, Messages, names},
    events::LAST_EVENT_ID,
};
use crate::{
    app::App,
    kit::{ApiError, ApiResult, Opener},
};

/// Message of the feed, for the API document. The stream writes its messages without this type, so it is never built.
pub(super) enum FeedMessage {}

impl PartialSchema for FeedMessage {
    fn schema() -> RefOr<Schema> {
        let text = |description: &str| {
            ObjectBuilder::new()
                .schema_type(Type::String)
                .description(Some(description))
        };
        ObjectBuilder::new()
            .schema_type(Type::Object)
            .description(Some("Message of the feed of a list of runs."))
            .property("id", text("Position for `Last-Event-ID`."))
            .property("event", text("`run`, or `reset`: load the list again."))
            .property(
                "data",
                text("The run as JSON without its output (`Run`); on `reset` an empty object.")
                    .content_media_type("application/json"),
            )
            .required("id")
            .required("event")
            .required("data")
            .into()
    }
}

impl ToSchema for FeedMessage {}

/// Headers of a request for a list that may ask for the feed instead.
pub(crate) struct FeedHeaders {
    /// Whether the client asks for the feed.
    pub(super) wants_feed: bool,
    /// `Last-Event-ID`. `None` without the header. A text that is not one is no known position.
    last_event: Option<String>,
}

impl<S: Send + Sync> FromRequestParts<S> for FeedHeaders {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> ApiResult<Self> {
        Ok(Self::of(&parts.headers))
    }
}

impl FeedHeaders {
    /// A list is JSON unless the client asks for an event stream and not for JSON.
    fn of(headers: &HeaderMap) -> Self {
        let position = headers.get(LAST_EVENT_ID).and_then(|value| value.to_str().ok());
        Self {
            wants_feed: names(headers, ACCEPT, "text/event-stream")
                && !names(headers, ACCEPT, "application/json"),
            last_event: position.map(str::to_owned),
        }
    }
}

/// Parameters of a list that matter to its feed.
pub(super) struct FeedQuery {
    pub(super) filter: RunFilter,
    /// Whether the client asks for a page.
    pub(super) is_page: bool,
    /// `lastEventId`.
    pub(super) last_event: Option<String>,
}

/// Streams the changes of the runs of an organization that the filter admits.
pub(super) fn follow_list(
    app: &Arc<App>,
    org: OrgId,
    headers: FeedHeaders,
    query: FeedQuery,
    opener: Opener,
) -> ApiResult<Response> {
    if query.is_page {
        let rule = "limit and cursor: not with Accept: text/event-stream, the feed has no pages";
        return Err(ErrorCode::InvalidRequest.because(rule).into());
    }
    let after = headers.last_event.or(query.last_event);
    let batches = app.engine.follow_list(org, query.filter, after.as_deref())?;
    let ends = Ends {
        stop: app.stop.clone(),
        credential: app.watch.watch(opener),
    };
    let messages = Messages {
        batches,
        texts: app.texts.clone(),
        org,
    };
    Ok(EventStream::new(messages, ends, app.heartbeat, app.http.stream()).respond())
}

/// Refuses the position of a feed in the request of a list.
pub(super) fn refuse_position(last_event: Option<&str>) -> Result<(), Refusal> {
    match last_event {
        None => Ok(()),
        Some(_) => Err(ErrorCode::InvalidRequest.because("lastEventId: only with Accept: text/event-stream")),
    }
}
