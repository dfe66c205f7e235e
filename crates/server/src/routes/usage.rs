//! `GET /v1/usage` and `GET /v1/admin/usage`: cost and usage of runs, by day and by origin.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use sortie_api::{
    OrgId, Refusal,
    usage::{Day, Usage, UsageDimension, UsageFigures},
};
use sortie_engine::{AskedUsage, Engine};

use crate::{
    app::App,
    kit::{Admin, ApiResult, FromQuery, Member, Pairs, PieceWriter, Pieces, Query},
};

/// Rows that are summed up in one query. An answer holds no more of them: each query sums up the runs anew.
const QUERY_ROWS: u32 = 500;

pub(crate) struct UsageQuery {
    from: Option<Day>,
    to: Option<Day>,
    by: Vec<UsageDimension>,
}

impl FromQuery for UsageQuery {
    fn from_query(pairs: &Pairs<'_>) -> Result<Self, Refusal> {
        let mut by = pairs.list("by", 4)?;
        if by.is_empty() {
            by.push(UsageDimension::Day);
        }
        Ok(Self {
            from: pairs.parse("from")?,
            to: pairs.parse("to")?,
            by,
        })
    }
}

/// Get usage
///
/// Sums up the runs that were created on these days, in UTC: their number, cost, tokens and calls. Deleted runs are
/// counted. An open run counts with its cost so far.
#[utoipa::path(
    get, path = "/v1/admin/usage", tag = "administration",
    params(
        ("from" = Option<Day>, Query, nullable = false, description = "The first day. Default: 29 days before the last one."),
        ("to" = Option<Day>, Query, nullable = false, description = "The last day, at most 365 days after the first. Default: today."),
        ("by" = Option<String>, Query, nullable = false, pattern = "^(day|workflow|model|key)(,(day|workflow|model|key)){0,3}$",
            description = "Dimensions to group by: one or more of `day`, `workflow`, `model`, `key`, separated by commas. Default: `day`.",
            example = "day,model"),
    ),
    responses((status = 200, description = "The sums.", body = Usage, example = json!({
        "from": "2026-11-01", "to": "2026-11-30", "by": ["day", "model"],
        "rows": [{
            "day": "2026-11-20", "model": "runbook", "runs": 3, "succeeded": 2, "cost_micros": 1_250, "usage": {
                "input_tokens": 1_200, "output_tokens": 340, "cache_read_tokens": 0, "cache_write_tokens": 0,
                "model_calls": 4, "tool_calls": 7
            }
        }],
        "totals": {"runs": 3, "succeeded": 2, "cost_micros": 1_250, "usage": {
            "input_tokens": 1_200, "output_tokens": 340, "cache_read_tokens": 0, "cache_write_tokens": 0,
            "model_calls": 4, "tool_calls": 7
        }}
    }))),
)]
pub(crate) async fn get_usage(
    State(app): State<Arc<App>>,
    who: Admin,
    Query(query): Query<UsageQuery>,
) -> ApiResult<Response> {
    usage_of(&app, who.org, query).await
}

/// Get usage as a member
///
/// Returns the same as `GET /v1/admin/usage`, for every member of the organization.
#[utoipa::path(
    get, path = "/v1/usage", tag = "organization",
    params(
        ("from" = Option<Day>, Query, nullable = false, description = "The first day. Default: 29 days before the last one."),
        ("to" = Option<Day>, Query, nullable = false, description = "The last day, at most 365 days after the first. Default: today."),
        ("by" = Option<String>, Query, nullable = false, pattern = "^(day|workflow|model|key)(,(day|workflow|model|key)){0,3}$",
            description = "Dimensions to group by: one or more of `day`, `workflow`, `model`, `key`, separated by commas. Default: `day`.",
            example = "day"),
    ),
    responses((status = 200, description = "The sums.", body = Usage, example = json!({
        "from": "2026-11-01", "to": "2026-11-30", "by": ["day"],
        "rows": [{
            "day": "2026-11-20", "runs": 3, "succeeded": 2, "cost_micros": 1_250, "usage": {
                "input_tokens": 1_200, "output_tokens": 340, "cache_read_tokens": 0, "cache_write_tokens": 0,
                "model_calls": 4, "tool_calls": 7
            }
        }],
        "totals": {"runs": 3, "succeeded": 2, "cost_micros": 1_250, "usage": {
            "input_tokens": 1_200, "output_tokens": 340, "cache_read_tokens": 0, "cache_write_tokens": 0,
            "model_calls": 4, "tool_calls": 7
        }}
    }))),
)]
pub(crate) async fn get_member_usage(
    State(app): State<Arc<App>>,
    who: Member,
    Query(query): Query<UsageQuery>,
) -> ApiResult<Response> {
    usage_of(&app, who.org, query).await
}

async fn usage_of(app: &App, org: OrgId, query: UsageQuery) -> ApiResult<Response> {
    let asked = app.engine.asked_usage((query.from, query.to), query.by)?;
    let engine = app.engine.clone();
    let answer = Pieces::written(|out| write_usage(out, engine, org, asked));
    answer.respond(&app.bodies).await
}

/// Writes a [`Usage`]. The totals are the sums of the rows that are sent.
async fn write_usage(
    mut out: PieceWriter,
    engine: Engine,
    org: OrgId,
    asked: AskedUsage,
) -> Result<PieceWriter, Refusal> {
    out.push("{\"from\":");
    out.push_json(&asked.from)?;
    out.push(",\"to\":");
    out.push_json(&asked.to)?;
    out.push(",\"by\":");
    out.push_json(&asked.by)?;
    out.push(",\"rows\":[");
    let (mut totals, mut last, mut separator) = (UsageFigures::default(), None, "");
    loop {
        let rows = engine.usage_rows(org, &asked, last.as_ref(), QUERY_ROWS).await?;
        let is_end = rows.len() < QUERY_ROWS as usize;
        for row in rows {
            out.send_full().await;
            out.push(std::mem::replace(&mut separator, ","));
            out.push_json(&row)?;
            totals.add(&row.figures());
            last = Some(row);
        }
        if is_end {
            break;
        }
    }
    out.push("],\"totals\":");
    out.push_json(&totals)?;
    out.push("}");
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_are_named_once_each() {
        let read = |names: &str| {
            let query = format!("by={names}");
            UsageQuery::from_query(&Pairs::of(&query))
                .map(|query| query.by)
                .map_err(|_| ())
        };
        assert_eq!(
            read("key,day"),
            Ok(vec![UsageDimension::Key, UsageDimension::Day])
        );
        for wrong in ["", "day,", "day,day", "DAY", "day, key", "month"] {
            assert_eq!(read(wrong), Err(()), "{wrong:?}");
        }
    }
}
