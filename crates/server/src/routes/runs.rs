//! `/v1/runs`: create, list, get, cancel, and the definition a run used.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension,
    extract::{FromRequestParts, State},
    response::{IntoResponse as _, Response},
};
use http::{HeaderName, Method, StatusCode, request::Parts};
use sortie_api::{
    CancelledRuns, ErrorCode, KeyId, OrgId, Refusal, Run, RunDefinition, RunId, RunPage, RunRequest,
    RunStatus, ScheduleId, Timestamp, limits,
};
use sortie_engine::{CancelMode, Hop};
use sortie_store::{
    Found,
    runs::{Created, LargeText, ListedRun, RunFilter, StoredDefinition},
};

use super::{
    events::LAST_EVENT_PARAMETER,
    listing::{Entry, Form, Listing},
    run_feed::{FeedHeaders, FeedMessage, FeedQuery, follow_list, refuse_position},
    run_filter::parts,
};
use crate::{
    app::App,
    kit::{
        ApiError, ApiResult, FromQuery, Json, JsonBody, LargeTexts, Member, Once, Opener, PIECE_BYTES,
        PageQuery, Pairs, Path, Query, RunCanceller, RunReader, TextForm,
    },
};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The `Idempotency-Key` header: taken literally, quotes and all.
pub(crate) struct IdempotencyKey(Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> ApiResult<Self> {
        let mut values = parts.headers.get_all(IDEMPOTENCY_KEY).iter();
        let Some(value) = values.next() else {
            return Ok(Self(None));
        };
        let key = std::str::from_utf8(value.as_bytes()).ok();
        let key = key
            .filter(|key| (1..=limits::IDEMPOTENCY_KEY_CHARS).contains(&key.chars().count()))
            .filter(|_| values.next().is_none())
            .ok_or_else(|| {
                ErrorCode::InvalidRequest.because("Idempotency-Key: must be one text of 1 to 200 characters")
            })?;
        Ok(Self(Some(key.to_owned())))
    }
}

/// Create a run
///
/// Checks the request, records the run and answers at once; the run starts as soon as a worker is free. `prompt` is
/// required unless `workflow` is set. If a run of the organization already has the `Idempotency-Key`, that run is
/// returned and nothing is created; only the key is compared, not the body.
#[utoipa::path(
    post, path = "/v1/runs", tag = "runs",
    params(("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 200, nullable = false,
        description = "Key of this creation: the same key again returns the run that it created.", example = "5f0c1a52-8d3b-4c8e-9a53-6a0d5c1be1f7")),
    request_body(content = RunRequest, description = "The run request.", example = json!({
        "prompt": "Summarise sales.csv by region.", "model": "runbook",
        "files": [{"path": "sales.csv", "content": "region,amount\nnorth,12\n"}],
        "timeout_seconds": 120, "max_cost_micros": 200_000
    })),
    responses(
        (status = 202, description = "The new run, queued.", body = Run, links(
            ("get_run" = (operation_id = "get_run", parameters(("id" = "$response.body#/id")))),
            ("cancel_run" = (operation_id = "cancel_run", parameters(("id" = "$response.body#/id")))),
            ("follow_run" = (operation_id = "follow_run", parameters(("id" = "$response.body#/id")))),
            ("get_run_definition" = (operation_id = "get_run_definition", parameters(("id" = "$response.body#/id")))),
        ), example = json!({
            "id": "run_01kafs6w1cefkstv6qr1ptb0mp", "status": "queued", "created_at": "2026-11-20T21:30:00.000Z",
            "max_cost_micros": 200_000, "billing_pending": true, "zero_data_retention": false, "timeout_seconds": 300, "last_event_id": 1
        })),
        (status = 200, description = "The run that already has the `Idempotency-Key`, unchanged.", body = Run, example = json!({
            "id": "run_01kafs6w1cefkstv6qr1ptb0mp", "status": "running", "created_at": "2026-11-20T21:30:00.000Z",
            "started_at": "2026-11-20T21:30:00.004Z", "max_cost_micros": 200_000, "billing_pending": true,
            "zero_data_retention": false, "timeout_seconds": 300, "last_event_id": 1
        })),
        (status = 402, description = "A budget, credits or the monthly run allowance do not cover the run. Nothing was created.", body = sortie_api::ErrorBody),
    ),
)]
pub(crate) async fn create_run(
    State(app): State<Arc<App>>,
    who: Member,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(request, _room): JsonBody<RunRequest>,
) -> ApiResult<Response> {
    let (status, run) = match app.engine.create_run(&who, request, key).await? {
        Created::New(run) => (StatusCode::ACCEPTED, run),
        Created::Existing(run) => (StatusCode::OK, run),
    };
    let pieces = entry_of(&app, who.org, run)?.pieces();
    Ok((status, pieces.respond_done(&app.bodies)).into_response())
}

/// The parameters of a list of runs.
pub(crate) struct ListQuery {
    page: PageQuery,
    filter: RunFilter,
    last_event: Option<String>,
}

impl FromQuery for ListQuery {
    fn from_query(pairs: &Pairs<'_>) -> Result<Self, Refusal> {
        Ok(Self {
            page: PageQuery::from_query(pairs)?,
            filter: RunFilter::from_query(pairs)?,
            last_event: pairs.text(LAST_EVENT_PARAMETER)?,
        })
    }
}

// For the document only: the body is written run by run.
/// Runs as a plain list, or a page of them.
#[derive(utoipa::ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "the body is written by `Listing`")]
pub(crate) enum RunList {
    /// Plain list, without `limit` and `cursor`.
    Recent(Vec<Run>),
    /// Page, with `limit` or `cursor`.
    Page(RunPage),
}

/// List runs
///
/// Lists runs, newest first. Without `limit` and `cursor` the answer is an array of the 100 newest matching runs; with
/// either it is a page. A page can have fewer than `limit` entries although more follow: continue until `next_cursor` is
/// empty.
///
/// With `Accept: text/event-stream` the answer is the feed of the list: a message `run` with the run, without its output, whenever
/// a run that matches is created, changes its status or is settled, at most four times a second for each run. A run that stops
/// matching is not reported: leave `status`, `error` and `min_cost_micros` out to see that. A feed begins with a message `reset`,
/// unless it continues at the position of `Last-Event-ID`. After each `reset`, load the list: changes before it were missed. A
/// lost connection between nodes delays a message by a second at most. The feed closes when its credential ends.
#[utoipa::path(
    get, path = "/v1/runs", tag = "runs",
    params(
        ("Last-Event-ID" = Option<String>, Header, nullable = false, description = "Position in the feed to continue at."),
        ("lastEventId" = Option<String>, Query, nullable = false, description = "Position in the feed to continue at, for replacements of `EventSource` that send no header. `Last-Event-ID` comes before it."),
        ("limit" = Option<i32>, Query, minimum = 1, maximum = 100, nullable = false, description = "Runs on a page. Turns on pagination.", example = 20),
        ("cursor" = Option<String>, Query, nullable = false, min_length = 1, description = "`next_cursor` of the page before; valid only with the same filters."),
        ("status" = Option<Vec<RunStatus>>, Query, style = Form, explode = false, nullable = false, description = "Only runs with one of these statuses, separated by commas.", example = json!(["running"])),
        ("schedule" = Option<ScheduleId>, Query, nullable = false, description = "Only runs started by this schedule."),
        ("tag" = Option<String>, Query, nullable = false, min_length = 1, max_length = 64, description = "Only runs with this tag.", example = "nightly"),
        ("metadata.KEY" = Option<String>, Query, nullable = false, max_length = 512, description = "Only runs whose `metadata` has this value for `KEY`: `metadata.customer=c-1042`. Several such parameters combine.", example = "c-1042"),
        ("workflow" = Option<String>, Query, nullable = false, min_length = 1, max_length = 100, description = "Only runs of this saved workflow.", example = "daily-report"),
        ("model" = Option<String>, Query, nullable = false, min_length = 1, max_length = 200, description = "Only runs with this model.", example = "runbook"),
        ("key" = Option<KeyId>, Query, nullable = false, description = "Only runs started with this API key."),
        ("since" = Option<Timestamp>, Query, nullable = false, description = "Only runs created at this time or later.", example = "2026-11-20T00:00:00.000Z"),
        ("until" = Option<Timestamp>, Query, nullable = false, description = "Only runs created before this time.", example = "2026-11-21T00:00:00.000Z"),
        ("error" = Option<String>, Query, nullable = false, min_length = 1, max_length = 200, description = "Only runs whose `error` contains this text, without regard to the case of ASCII letters.", example = "budget"),
        ("min_cost_micros" = Option<i64>, Query, nullable = false, minimum = 0, maximum = 100_000_000, description = "Only runs that cost at least this so far, in micros.", example = 0),
        ("q" = Option<String>, Query, nullable = false, min_length = 1, max_length = 200, description = "Only runs with this text in the first 2,000 characters of description and prompt together, without regard to case. Each page looks at 5,000 runs at most. Runs with zero data retention are never found.", example = "sales"),
        ("ids" = Option<Vec<RunId>>, Query, style = Form, explode = false, nullable = false, max_items = 100, description = "Only these runs: at most 100 ids, separated by commas."),
    ),
    responses((status = 200, description = "The runs: an array, or a page when `limit` or `cursor` is sent. Or the feed.", content(
        (RunList = "application/json", example = json!({
            "items": [{
                "id": "run_01kafs6w1cefkstv6qr1ptb0mp", "status": "succeeded", "output": "north: 12",
                "created_at": "2026-11-20T21:30:00.000Z", "started_at": "2026-11-20T21:30:00.004Z",
                "finished_at": "2026-11-20T21:30:02.310Z", "max_cost_micros": 200_000, "cost_micros": 1_250,
                "billing_pending": false, "zero_data_retention": false, "timeout_seconds": 300, "last_event_id": 1
            }],
            "next_cursor": ""
        })),
        (FeedMessage = "text/event-stream", example = json!({
            "id": "8f1c0a5be2d94c37-1", "event": "reset", "data": "{}"
        })),
    ))),
)]
pub(crate) async fn list_runs(
    State(app): State<Arc<App>>,
    who: Member,
    Query(query): Query<ListQuery>,
    headers: FeedHeaders,
    opener: Opener,
) -> ApiResult<Response> {
    if headers.wants_feed {
        let query = FeedQuery {
            filter: query.filter,
            is_page: query.page.is_sent(),
            last_event: query.last_event,
        };
        return follow_list(&app, who.org, headers, query, opener);
    }
    refuse_position(query.last_event.as_deref())?;
    let cursors = app.cursors.list(parts(who.org, &query.filter));
    let (before, limit) = (query.page.before(&cursors)?, query.page.limit());
    let form = if query.page.is_sent() {
        Form::Page(Box::new(move |last| cursors.after(last)))
    } else {
        Form::Array
    };
    let (store, texts, org) = (app.engine.store().clone(), app.texts.clone(), who.org);
    let read = move |before, limit| {
        let (store, texts) = (store.clone(), texts.clone());
        let filter = RunFilter {
            before,
            limit,
            ..query.filter.clone()
        };
        async move {
            let Found { items, stopped_at } = store.list_runs(org, filter).await?;
            let entry = |listed: ListedRun| {
                let position = (listed.run.created_at, listed.run.id);
                Ok((position, listed_entry(&texts, org, listed)?))
            };
            let items = items.into_iter().map(entry).collect::<Result<_, Refusal>>()?;
            Ok(Found { items, stopped_at })
        }
    };
    let list = Listing {
        stretch: 20,
        read,
        after: before,
        limit,
        form,
    };
    list.respond(&app.bodies).await
}

/// Makes the entry of a run without its output, which is sent from the store.
pub(super) fn with_output(texts: &LargeTexts, org: OrgId, run: Run) -> Result<Entry, Refusal> {
    let run = Run { output: None, ..run };
    let output = texts.open(org, LargeText::Output(run.id), TextForm::Quoted);
    Entry::ending_with(&run, "\"output\":", output)
}

/// Makes the entry of a run. A large output that is left out is sent from the store.
fn listed_entry(texts: &LargeTexts, org: OrgId, listed: ListedRun) -> Result<Entry, Refusal> {
    if listed.has_large_output {
        with_output(texts, org, listed.run)
    } else {
        Entry::of(&listed.run)
    }
}

/// Makes the entry of a stored run. A large output is sent from the store and not kept.
fn entry_of(app: &App, org: OrgId, run: Run) -> Result<Entry, Refusal> {
    let is_large = run
        .output
        .as_ref()
        .is_some_and(|output| output.len() > PIECE_BYTES);
    if is_large && !run.zero_data_retention {
        with_output(&app.texts, org, run)
    } else {
        Entry::of(&run)
    }
}

/// The parameters of a read of one run.
pub(crate) struct RunQuery {
    /// Time for which the answer may wait for the end of the run.
    wait: Duration,
    /// Whether the answer has the output.
    with_output: bool,
}

impl FromQuery for RunQuery {
    fn from_query(pairs: &Pairs<'_>) -> Result<Self, Refusal> {
        let seconds = pairs.integer("wait", 0, limits::WAIT_SECONDS)?.unwrap_or(0);
        Ok(Self {
            wait: Duration::from_secs(u64::try_from(seconds).unwrap_or(0)),
            with_output: pairs.boolean("output")?.unwrap_or(true),
        })
    }
}

/// Get a run
///
/// Returns the run, with its output once there is one. With `wait` the answer comes when the run is final, or after
/// that many seconds with the current status.
///
/// The output of a run with zero data retention is only in the first answer after its end, and `output_read_at` has the
/// time of that answer from then on. With `output=false` no answer has the output, and it stays readable. If the run has a
/// callback, only the callback gets the output.
#[utoipa::path(
    get, path = "/v1/runs/{id}", tag = "runs",
    params(
        ("id" = RunId, Path, description = "The run's id.", example = "run_01kafs6w1cefkstv6qr1ptb0mp"),
        ("wait" = Option<i32>, Query, minimum = 0, maximum = 60, nullable = false, description = "Time to wait for the run to become final, in seconds.", example = 0),
        ("output" = Option<bool>, Query, nullable = false, description = "Whether the answer has the output. With `false`, an output that can be read once stays readable, and `wait` does not wait for a run with zero data retention that another node works on.", example = true),
    ),
    responses((status = 200, description = "The run.", body = Run, example = json!({
        "id": "run_01kafs6w1cefkstv6qr1ptb0mp", "status": "succeeded", "output": "north: 12",
        "created_at": "2026-11-20T21:30:00.000Z", "started_at": "2026-11-20T21:30:00.004Z",
        "finished_at": "2026-11-20T21:30:02.310Z", "max_cost_micros": 200_000, "cost_micros": 1_250,
        "billing_pending": false, "zero_data_retention": false, "timeout_seconds": 300, "last_event_id": 1
    }))),
)]
pub(crate) async fn get_run(
    State(app): State<Arc<App>>,
    who: RunReader,
    Path(id): Path<RunId>,
    Query(RunQuery { wait, with_output }): Query<RunQuery>,
    Extension(hop): Extension<Hop>,
    method: Method,
) -> ApiResult<Response> {
    if !with_output {
        let run = app.engine.look_at_run(who.org, id, wait).await?;
        return Ok(Json(Run { output: None, ..run }).into_response());
    }
    // `HEAD` uses this handler too, and its answer has no body: it must not consume an output that is returned only once.
    if method == Method::HEAD {
        return Ok(Json(app.engine.look_at_run(who.org, id, wait).await?).into_response());
    }
    let listed = app.engine.get_run(&who, id, wait, hop).await?;
    let is_once = listed.run.zero_data_retention && listed.run.output.is_some();
    let entry = listed_entry(&app.texts, who.org, listed)?;
    let mut response = entry.pieces().respond(&app.bodies).await?;
    if is_once {
        response.extensions_mut().insert(Once);
    }
    Ok(response)
}

/// Cancel a run
///
/// Stops the worker and returns the run, now `cancelled`; a finished run is returned unchanged. Actions that the agent
/// already took through a connection are not undone.
#[utoipa::path(
    post, path = "/v1/runs/{id}/cancel", tag = "runs",
    params(("id" = RunId, Path, description = "The run's id.", example = "run_01kafs6w1cefkstv6qr1ptb0mp")),
    responses((status = 200, description = "The run, cancelled or finished before.", body = Run, example = json!({
        "id": "run_01kafs6w1cefkstv6qr1ptb0mp", "status": "cancelled", "created_at": "2026-11-20T21:30:00.000Z",
        "started_at": "2026-11-20T21:30:00.004Z", "finished_at": "2026-11-20T21:30:01.730Z",
        "max_cost_micros": 200_000, "billing_pending": false, "zero_data_retention": false, "timeout_seconds": 300, "last_event_id": 1
    }))),
)]
pub(crate) async fn cancel_run(
    State(app): State<Arc<App>>,
    who: RunCanceller,
    Path(id): Path<RunId>,
) -> ApiResult<Response> {
    let listed = app.engine.cancel_run(who.org, id).await?;
    let pieces = listed_entry(&app.texts, who.org, listed)?.pieces();
    Ok(pieces.respond_done(&app.bodies))
}

/// The parameters of a cancellation of many runs.
pub(crate) struct CancelQuery {
    filter: RunFilter,
    limit: u32,
    cursor: Option<String>,
    mode: CancelMode,
}

impl FromQuery for CancelQuery {
    fn from_query(pairs: &Pairs<'_>) -> Result<Self, Refusal> {
        let mut filter = RunFilter::from_query(pairs)?;
        let limit = pairs.integer("limit", 1, i64::from(limits::CANCELLED_RUNS))?;
        let cursor = pairs.text("cursor")?;
        let is_dry_run = pairs.boolean("dry_run")?.unwrap_or(false);
        if filter == RunFilter::default() {
            return Err(ErrorCode::InvalidRequest.because(
                "status: a filter is required; status=queued,starting,running cancels all open runs",
            ));
        }
        if let Some(status) = filter.statuses.iter().find(|status| status.is_final()) {
            return Err(ErrorCode::InvalidRequest
                .because(format!("status: no run that is {status} can be cancelled")));
        }
        if filter.statuses.is_empty() {
            filter.statuses = RunStatus::ALL
                .into_iter()
                .filter(|status| !status.is_final())
                .collect();
        }
        Ok(Self {
            filter,
            limit: limit.and_then(|limit| u32::try_from(limit).ok()).unwrap_or(100),
            cursor,
            mode: if is_dry_run {
                CancelMode::DryRun
            } else {
                CancelMode::Cancel
            },
        })
    }
}

/// Cancel many runs
///
/// Cancels the open runs that match the filters, which are those of the list, the newest first. At least one filter is
/// required. One request looks at `limit` matching runs at most: send it again with `cursor` until `next_cursor` is empty.
/// Each cancellation is a transaction: after a failure some runs are cancelled. With `dry_run` nothing is cancelled, and `matched`
/// counts the runs.
#[utoipa::path(
    post, path = "/v1/runs/cancel", tag = "runs",
    params(
        ("limit" = Option<i32>, Query, minimum = 1, maximum = 1_000, nullable = false, description = "Number of runs at most. Default 100.", example = 100),
        ("cursor" = Option<String>, Query, nullable = false, min_length = 1, description = "`next_cursor` of the request before; valid only with the same filters."),
        ("dry_run" = Option<bool>, Query, nullable = false, description = "Only count the runs. Default `false`.", example = true),
        ("status" = Option<Vec<RunStatus>>, Query, style = Form, explode = false, nullable = false, description = "Only runs with one of these statuses, separated by commas. Default: every status that is not final.", example = json!(["queued"])),
        ("schedule" = Option<ScheduleId>, Query, nullable = false, description = "Only runs started by this schedule."),
        ("tag" = Option<String>, Query, nullable = false, min_length = 1, max_length = 64, description = "Only runs with this tag."),
        ("metadata.KEY" = Option<String>, Query, nullable = false, max_length = 512, description = "Only runs whose `metadata` has this value for `KEY`, as in the list."),
        ("workflow" = Option<String>, Query, nullable = false, min_length = 1, max_length = 100, description = "Only runs of this saved workflow."),
        ("model" = Option<String>, Query, nullable = false, min_length = 1, max_length = 200, description = "Only runs with this model."),
        ("key" = Option<KeyId>, Query, nullable = false, description = "Only runs started with this API key."),
        ("since" = Option<Timestamp>, Query, nullable = false, description = "Only runs created at this time or later."),
        ("until" = Option<Timestamp>, Query, nullable = false, description = "Only runs created before this time."),
        ("error" = Option<String>, Query, nullable = false, min_length = 1, max_length = 200, description = "Only runs whose `error` contains this text."),
        ("min_cost_micros" = Option<i64>, Query, nullable = false, minimum = 0, maximum = 100_000_000, description = "Only runs that cost at least this so far, in micros."),
        ("q" = Option<String>, Query, nullable = false, min_length = 1, max_length = 200, description = "Only runs with this text, as in the list."),
        ("ids" = Option<Vec<RunId>>, Query, style = Form, explode = false, nullable = false, max_items = 100, description = "Only these runs: at most 100 ids, separated by commas."),
    ),
    responses((status = 200, description = "The numbers of runs.", body = CancelledRuns, example = json!({
        "matched": 12, "cancelled": 12, "next_cursor": ""
    }))),
)]
pub(crate) async fn cancel_runs(
    State(app): State<Arc<App>>,
    who: Member,
    Query(query): Query<CancelQuery>,
) -> ApiResult<Json<CancelledRuns>> {
    let cursors = app.cursors.list(parts(who.org, &query.filter));
    let before = query.cursor.map(|cursor| cursors.position(&cursor)).transpose();
    let filter = RunFilter {
        before: before.map_err(|rule| ErrorCode::InvalidRequest.because(format!("cursor: {rule}")))?,
        limit: query.limit,
        ..query.filter
    };
    let (counts, next) = app.engine.cancel_runs(who.org, filter, query.mode).await?;
    Ok(Json(CancelledRuns {
        next_cursor: next.map(|next| cursors.after(next)).unwrap_or_default(),
        ..counts
    }))
}

/// Get the definition a run used
///
/// Returns the request as the run used it: file names replaced by ids, the saved workflow filled in, the workflow name
/// and the callback removed. Inline connections lose their credentials, and `requires_credentials` names those that had
/// some. The request can be sent to `POST /v1/runs` again.
#[utoipa::path(
    get, path = "/v1/runs/{id}/definition", tag = "runs",
    params(("id" = RunId, Path, description = "The run's id.", example = "run_01kafs6w1cefkstv6qr1ptb0mp")),
    responses(
        (status = 200, description = "The definition.", body = RunDefinition, example = json!({
            "request": {"prompt": "Summarise sales.csv by region.", "model": "runbook", "timeout_seconds": 120},
            "requires_credentials": []
        })),
        (status = 410, description = "The run has zero data retention: its definition was not stored.", body = sortie_api::ErrorBody),
    ),
)]
pub(crate) async fn get_run_definition(
    State(app): State<Arc<App>>,
    who: Member,
    Path(id): Path<RunId>,
) -> ApiResult<Response> {
    let stored = app.engine.run_definition(who.org, id).await?;
    let entry = definition_entry(&app.texts, (who.org, id), stored);
    entry.pieces().respond(&app.bodies).await
}

/// Makes the entry of the definition of a run from its texts, which are JSON. A large one is sent from the store.
fn definition_entry(texts: &LargeTexts, (org, run): (OrgId, RunId), stored: StoredDefinition) -> Entry {
    let credentials = stored.requires_credentials.as_deref().unwrap_or("[]");
    let before = format!("{{\"requires_credentials\":{credentials},\"request\":");
    match stored.request {
        Some(request) => Entry::whole(before + &request + "}"),
        None => Entry {
            text: before.into_bytes(),
            large: Some(texts.open(org, LargeText::Definition(run), TextForm::Json)),
            rest: "}".to_owned(),
        },
    }
}
