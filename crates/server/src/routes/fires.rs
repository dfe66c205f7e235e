//! History of the occurrences of schedules, and the preview of the next ones.

use std::sync::Arc;

use axum::extract::State;
use sortie_api::{
    Refusal, ScheduleId, Timestamp, limits,
    schedule::{FirePage, FireTrigger, NextFire},
};

use crate::{
    app::App,
    kit::{ApiResult, FromQuery, Json, Member, PageQuery, Pairs, Path, Query},
};

/// List a schedule's history
///
/// Lists the occurrences of the schedule in pages, the latest first: the run that each started, or the reason why it
/// started none. Many consecutive occurrences that were missed at once share a row.
#[utoipa::path(
    get, path = "/v1/schedules/{id}/fires", tag = "schedules",
    params(
        ("id" = ScheduleId, Path, description = "The schedule's id.", example = "sched_01kafs6w1cefkstv6qr1ptb0mp"),
        ("limit" = Option<i32>, Query, minimum = 1, maximum = 100, nullable = false, description = "Rows on a page. Default 100.", example = 20),
        ("cursor" = Option<String>, Query, nullable = false, min_length = 1, description = "`next_cursor` of the page before."),
    ),
    responses((status = 200, description = "A page of the history.", body = FirePage, example = json!({
        "items": [
            {"instant": "2026-11-20T09:12:41.504Z", "trigger": "manual", "outcome": "started",
             "run_id": "run_01kafs6w1cefkstv6qr1ptb0mq", "recorded_at": "2026-11-20T09:12:41.504Z"},
            {"instant": "2026-11-20T06:30:00.000Z", "trigger": "timetable", "outcome": "skipped", "reason": "overlap",
             "recorded_at": "2026-11-20T06:30:00.006Z"},
            {"instant": "2026-11-19T06:30:00.000Z", "trigger": "timetable", "outcome": "started",
             "run_id": "run_01kafs6w1cefkstv6qr1ptb0mp", "recorded_at": "2026-11-19T06:30:00.005Z"}
        ],
        "next_cursor": ""
    }))),
)]
pub(crate) async fn list_fires(
    State(app): State<Arc<App>>,
    who: Member,
    Path(id): Path<ScheduleId>,
    Query(page): Query<PageQuery>,
) -> ApiResult<Json<FirePage>> {
    let list = app.cursors.list([who.org.to_string(), format!("fires of {id}")]);
    let before = page.before(&list)?;
    let mut items = app.engine.list_fires(who.org, id, before, page.rows()).await?;
    let next_cursor = page.cut(&mut items, |last| {
        // Manual starts can share an instant, so the run id makes the cursor unique.
        let run = last.run_id.filter(|_| last.trigger == FireTrigger::Manual);
        list.after((last.instant, run.map(|run| run.to_string()).unwrap_or_default()))
    });
    Ok(Json(FirePage { items, next_cursor }))
}

/// The parameters of the history of all schedules.
pub(crate) struct HistoryQuery {
    page: PageQuery,
    since: Timestamp,
    until: Timestamp,
}

impl FromQuery for HistoryQuery {
    fn from_query(pairs: &Pairs<'_>) -> Result<Self, Refusal> {
        Ok(Self {
            page: PageQuery::from_query(pairs)?,
            since: pairs.parse("since")?.unwrap_or(Timestamp::from_micros(0)),
            until: pairs.parse("until")?.unwrap_or(Timestamp::from_micros(i64::MAX)),
        })
    }
}

/// List the history of all schedules
///
/// Lists the occurrences of all schedules of the organization in pages, the latest first. `since` and `until` are compared with
/// `instant`.
#[utoipa::path(
    get, path = "/v1/fires", tag = "schedules",
    params(
        ("since" = Option<Timestamp>, Query, nullable = false, description = "Only occurrences at this time or later.", example = "2026-11-01T00:00:00.000Z"),
        ("until" = Option<Timestamp>, Query, nullable = false, description = "Only occurrences before this time.", example = "2026-12-01T00:00:00.000Z"),
        ("limit" = Option<i32>, Query, minimum = 1, maximum = 100, nullable = false, description = "Rows on a page. Default 100.", example = 20),
        ("cursor" = Option<String>, Query, nullable = false, min_length = 1, description = "`next_cursor` of the page before; valid only with the same times."),
    ),
    responses((status = 200, description = "A page of the history.", body = FirePage, example = json!({
        "items": [
            {"schedule_id": "sched_01kafs6w1cefkstv6qr1ptb0mp", "instant": "2026-11-20T06:30:00.000Z", "trigger": "timetable",
             "outcome": "skipped", "reason": "overlap", "recorded_at": "2026-11-20T06:30:00.006Z"}
        ],
        "next_cursor": ""
    }))),
)]
pub(crate) async fn list_all_fires(
    State(app): State<Arc<App>>,
    who: Member,
    Query(HistoryQuery { page, since, until }): Query<HistoryQuery>,
) -> ApiResult<Json<FirePage>> {
    let times = format!("fires {} {}", since.as_micros(), until.as_micros());
    let list = app.cursors.list([who.org.to_string(), times]);
    let before = match page.before::<String>(&list)? {
        Some((at, place)) => {
            let (schedule, occasion) = place.split_once(' ').unwrap_or((&place, ""));
            (at, schedule.to_owned(), occasion.to_owned())
        }
        None => (until, String::new(), String::new()),
    };
    let mut items = app
        .engine
        .list_all_fires(who.org, since, before, page.rows())
        .await?;
    let next_cursor = page.cut(&mut items, |last| {
        let schedule = last.schedule_id.map(|id| id.to_string()).unwrap_or_default();
        let run = last.run_id.filter(|_| last.trigger == FireTrigger::Manual);
        let occasion = run.map(|run| run.to_string()).unwrap_or_default();
        list.after((last.instant, format!("{schedule} {occasion}")))
    });
    Ok(Json(FirePage { items, next_cursor }))
}

/// Number of occurrences in a preview.
pub(crate) struct Count(usize);

impl FromQuery for Count {
    fn from_query(pairs: &Pairs<'_>) -> Result<Self, Refusal> {
        let count = pairs.integer("count", 1, limits::NEXT_FIRES)?;
        Ok(Self(
            count.and_then(|count| usize::try_from(count).ok()).unwrap_or(10),
        ))
    }
}

/// Preview a schedule
///
/// Lists the next occurrences and the times at which their runs start, jitter included; also for a paused or disabled
/// schedule. The list is shorter than requested only if the schedule has fewer occurrences left.
#[utoipa::path(
    get, path = "/v1/schedules/{id}/next", tag = "schedules",
    params(
        ("id" = ScheduleId, Path, description = "The schedule's id.", example = "sched_01kafs6w1cefkstv6qr1ptb0mp"),
        ("count" = Option<i32>, Query, minimum = 1, maximum = 100, nullable = false, description = "Number of occurrences. Default 10.", example = 2),
    ),
    responses((status = 200, description = "The occurrences, in order.", body = [NextFire], example = json!([
        {"instant": "2026-11-23T06:30:00.000Z", "run_at": "2026-11-23T06:30:00.000Z"},
        {"instant": "2026-11-24T06:30:00.000Z", "run_at": "2026-11-24T06:30:00.000Z"}
    ]))),
)]
pub(crate) async fn preview_schedule(
    State(app): State<Arc<App>>,
    who: Member,
    Path(id): Path<ScheduleId>,
    Query(Count(count)): Query<Count>,
) -> ApiResult<Json<Vec<NextFire>>> {
    Ok(Json(app.engine.next_fires(who.org, id, count).await?))
}
