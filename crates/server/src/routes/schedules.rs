//! `/v1/schedules`: schedules that start saved workflows, and the history of their occurrences.

use std::sync::Arc;

use axum::{
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::StatusCode;
use sortie_api::{
    OrgId, Refusal, Run, Schedule, ScheduleId,
    schedule::{CreateSchedule, SchedulePage, UpdateSchedule},
};
use sortie_engine::ListedSchedule;
use sortie_store::{Found, runs::LargeText};

use super::listing::{Entry, Form, Listing};
use crate::{
    app::App,
    kit::{ApiResult, Json, JsonBody, LargeTexts, Member, PIECE_BYTES, PageQuery, Path, Query, TextForm},
};

/// List schedules
///
/// Lists the organization's schedules in pages, newest first.
#[utoipa::path(
    get, path = "/v1/schedules", tag = "schedules",
    params(
        ("limit" = Option<i32>, Query, minimum = 1, maximum = 100, nullable = false, description = "Schedules on a page. Default 100.", example = 20),
        ("cursor" = Option<String>, Query, nullable = false, min_length = 1, description = "`next_cursor` of the page before."),
    ),
    responses((status = 200, description = "A page of schedules.", body = SchedulePage, example = json!({
        "items": [{
            "id": "sched_01kafs6w1cefkstv6qr1ptb0mp", "name": "Daily report", "workflow": "daily-report", "cron": "30 7 * * MON-FRI",
            "timezone": "Europe/Berlin", "enabled": true, "overlap": "skip", "catch_up_window_seconds": 3_600, "jitter_seconds": 0,
            "next_run_at": "2026-11-23T06:30:00.000Z", "created_at": "2026-11-20T21:30:00.000Z",
            "updated_at": "2026-11-20T21:30:00.000Z"
        }],
        "next_cursor": ""
    }))),
)]
pub(crate) async fn list_schedules(
    State(app): State<Arc<App>>,
    who: Member,
    Query(page): Query<PageQuery>,
) -> ApiResult<Response> {
    let cursors = app.cursors.list([who.org.to_string(), "schedules".to_owned()]);
    let before = page.before(&cursors)?;
    let (engine, texts, org) = (app.engine.clone(), app.texts.clone(), who.org);
    let read = move |before, limit| {
        let (engine, texts) = (engine.clone(), texts.clone());
        async move {
            let listed = engine.list_schedules(org, before, limit).await?;
            let entry = |listed: ListedSchedule| {
                let ListedSchedule {
                    schedule,
                    has_large_input,
                } = listed;
                let position = (schedule.created_at, schedule.id);
                let entry = if has_large_input {
                    with_input(&texts, org, &schedule)?
                } else {
                    Entry::of(&schedule)?
                };
                Ok((position, entry))
            };
            Ok(Found::all(
                listed.into_iter().map(entry).collect::<Result<_, Refusal>>()?,
            ))
        }
    };
    let list = Listing {
        stretch: 10,
        read,
        after: before,
        limit: page.limit(),
        form: Form::Page(Box::new(move |last| cursors.after(last))),
    };
    list.respond(&app.bodies).await
}

/// Makes the entry of a schedule without its input, which is sent from the store.
fn with_input(texts: &LargeTexts, org: OrgId, schedule: &Schedule) -> Result<Entry, Refusal> {
    let input = LargeText::ScheduleInput(schedule.id, schedule.updated_at);
    Entry::ending_with(schedule, "\"input\":", texts.open(org, input, TextForm::Json))
}

/// Makes the entry of a schedule. A large input is sent as a text that all answers share.
fn entry_of(app: &App, org: OrgId, mut schedule: Schedule) -> Result<Entry, Refusal> {
    match schedule.input.take_if(|input| input.get().len() > PIECE_BYTES) {
        Some(input) => Ok(with_input(&app.texts, org, &schedule)?.hold_known(input.to_string())),
        None => Entry::of(&schedule),
    }
}

/// Create a schedule
///
/// Creates a schedule, which starts runs of a saved workflow on a timetable. A schedule is refused if its runs would be
/// refused (for the workflow, the input, the budget or the callback), or if its expression can never fire. The first
/// occurrence is the next one of the timetable.
#[utoipa::path(
    post, path = "/v1/schedules", tag = "schedules",
    request_body(content = CreateSchedule, description = "Workflow, timetable and settings.", example = json!({
        "name": "Daily report", "workflow": "daily-report", "cron": "30 7 * * MON-FRI", "timezone": "Europe/Berlin",
        "input": {"region": "north"}, "overlap": "skip"
    })),
    responses(
        (status = 201, description = "The new schedule.", body = Schedule, links(
            ("get_schedule" = (operation_id = "get_schedule", parameters(("id" = "$response.body#/id")))),
            ("update_schedule" = (operation_id = "update_schedule", parameters(("id" = "$response.body#/id")))),
            ("trigger_schedule" = (operation_id = "trigger_schedule", parameters(("id" = "$response.body#/id")))),
            ("list_fires" = (operation_id = "list_fires", parameters(("id" = "$response.body#/id")))),
            ("preview_schedule" = (operation_id = "preview_schedule", parameters(("id" = "$response.body#/id")))),
            ("delete_schedule" = (operation_id = "delete_schedule", parameters(("id" = "$response.body#/id")))),
        ), example = json!({
            "id": "sched_01kafs6w1cefkstv6qr1ptb0mp", "name": "Daily report", "workflow": "daily-report", "cron": "30 7 * * MON-FRI",
            "timezone": "Europe/Berlin", "input": {"region": "north"}, "enabled": true, "overlap": "skip",
            "catch_up_window_seconds": 3_600, "jitter_seconds": 0, "next_run_at": "2026-11-23T06:30:00.000Z",
            "created_at": "2026-11-20T21:30:00.000Z", "updated_at": "2026-11-20T21:30:00.000Z"
        })),
        (status = 409, description = "The organization has reached its limit of schedules.", body = sortie_api::ErrorBody,
            example = json!({"error": "the organization has reached its limit of schedules", "code": "conflict"})),
    ),
)]
pub(crate) async fn create_schedule(
    State(app): State<Arc<App>>,
    who: Member,
    JsonBody(request, _room): JsonBody<CreateSchedule>,
) -> ApiResult<Response> {
    let schedule = app.engine.create_schedule(&who, request).await?;
    let pieces = entry_of(&app, who.org, schedule)?.pieces();
    Ok((StatusCode::CREATED, pieces.respond_done(&app.bodies)).into_response())
}

/// Get a schedule
///
/// Returns the schedule with its next occurrence and its last run. The secret of its callback is redacted.
#[utoipa::path(
    get, path = "/v1/schedules/{id}", tag = "schedules",
    params(("id" = ScheduleId, Path, description = "The schedule's id.", example = "sched_01kafs6w1cefkstv6qr1ptb0mp")),
    responses((status = 200, description = "The schedule.", body = Schedule, example = json!({
        "id": "sched_01kafs6w1cefkstv6qr1ptb0mp", "workflow": "daily-report", "cron": "@daily", "timezone": "UTC", "enabled": true,
        "overlap": "allow", "catch_up_window_seconds": 3_600, "jitter_seconds": 60, "next_run_at": "2026-11-23T00:00:41.117Z",
        "last_run_at": "2026-11-22T00:00:41.121Z", "last_run_id": "run_01kafs6w1cefkstv6qr1ptb0mp",
        "created_at": "2026-11-20T21:30:00.000Z", "updated_at": "2026-11-20T21:30:00.000Z"
    }))),
)]
pub(crate) async fn get_schedule(
    State(app): State<Arc<App>>,
    who: Member,
    Path(id): Path<ScheduleId>,
) -> ApiResult<Response> {
    let read = || async { entry_of(&app, who.org, app.engine.get_schedule(who.org, id).await?) };
    let entry = Entry::of_one_version(read).await?;
    entry.pieces().respond(&app.bodies).await
}

/// Change a schedule
///
/// Changes the fields that are sent; `null` resets an optional field to its default. Occurrences that are already
/// due are processed first, under the old settings. With `enabled: false` the schedule does not fire until it is
/// enabled again; `paused_until` skips the occurrences before a time.
#[utoipa::path(
    patch, path = "/v1/schedules/{id}", tag = "schedules",
    params(("id" = ScheduleId, Path, description = "The schedule's id.", example = "sched_01kafs6w1cefkstv6qr1ptb0mp")),
    request_body(content = UpdateSchedule, description = "Fields to change.", example = json!({
        "cron": "0 8 * * MON-FRI", "name": null, "paused_until": "2099-12-01T00:00:00.000Z"
    })),
    responses(
        (status = 200, description = "The changed schedule.", body = Schedule, example = json!({
            "id": "sched_01kafs6w1cefkstv6qr1ptb0mp", "workflow": "daily-report", "cron": "0 8 * * MON-FRI",
            "timezone": "Europe/Berlin", "enabled": true, "overlap": "skip", "catch_up_window_seconds": 3_600, "jitter_seconds": 0,
            "paused_until": "2099-12-01T00:00:00.000Z", "next_run_at": "2026-11-23T07:00:00.000Z",
            "created_at": "2026-11-20T21:30:00.000Z", "updated_at": "2026-11-21T08:00:00.000Z"
        })),
        (status = 409, description = "Other requests are changing the schedule at the same time.", body = sortie_api::ErrorBody, example = json!({
            "error": "the schedule is being changed by others at the same time; try again", "code": "conflict"
        })),
    ),
)]
pub(crate) async fn update_schedule(
    State(app): State<Arc<App>>,
    who: Member,
    Path(id): Path<ScheduleId>,
    JsonBody(patch, _room): JsonBody<UpdateSchedule>,
) -> ApiResult<Response> {
    let schedule = app.engine.update_schedule(&who, id, patch).await?;
    Ok(entry_of(&app, who.org, schedule)?
        .pieces()
        .respond_done(&app.bodies))
}

/// Delete a schedule
///
/// Deletes the schedule with its history. Its runs stay and continue.
#[utoipa::path(
    delete, path = "/v1/schedules/{id}", tag = "schedules",
    params(("id" = ScheduleId, Path, description = "The schedule's id.", example = "sched_01kafs6w1cefkstv6qr1ptb0mp")),
    responses((status = 204, description = "The schedule was deleted.")),
)]
pub(crate) async fn delete_schedule(
    State(app): State<Arc<App>>,
    who: Member,
    Path(id): Path<ScheduleId>,
) -> ApiResult<StatusCode> {
    app.engine.delete_schedule(&who, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Start a schedule's run now
///
/// Starts one run now, as an entry of the schedule's history. A manual trigger ignores `overlap`, `paused_until` and
/// `enabled`.
#[utoipa::path(
    post, path = "/v1/schedules/{id}/trigger", tag = "schedules",
    params(("id" = ScheduleId, Path, description = "The schedule's id.", example = "sched_01kafs6w1cefkstv6qr1ptb0mp")),
    responses(
        (status = 202, description = "The new run, queued.", body = Run, links(
            ("get_run" = (operation_id = "get_run", parameters(("id" = "$response.body#/id")))),
            ("cancel_run" = (operation_id = "cancel_run", parameters(("id" = "$response.body#/id")))),
        ), example = json!({
            "id": "run_01kafs6w1cefkstv6qr1ptb0mp", "status": "queued", "created_at": "2026-11-20T21:30:00.000Z",
            "max_cost_micros": 200_000, "billing_pending": true, "schedule_id": "sched_01kafs6w1cefkstv6qr1ptb0mp",
            "workflow": "daily-report", "zero_data_retention": false, "timeout_seconds": 300, "last_event_id": 1
        })),
        (status = 400, description = "The run request of the schedule breaks a rule; the message names the field and the rule.",
            body = sortie_api::ErrorBody, example = json!({
            "error": "input.region: required", "code": "invalid_request"
        })),
        (status = 402, description = "Credits or the monthly run allowance do not cover the run.", body = sortie_api::ErrorBody),
    ),
)]
pub(crate) async fn trigger_schedule(
    State(app): State<Arc<App>>,
    who: Member,
    Path(id): Path<ScheduleId>,
) -> ApiResult<(StatusCode, Json<Run>)> {
    let run = app.engine.trigger_schedule(&who, id).await?;
    Ok((StatusCode::ACCEPTED, Json(run)))
}
