//! `GET /v1/admin/usage`: what runs have cost and used, by day and by what they were started from.

use std::{collections::VecDeque, sync::Arc};

use axum::{extract::State, response::Response};
use parking_lot::{Mutex, MutexGuard};
use sortie_api::{
    OrgId, limits,
    usage::{Day, Usage, UsageDimension, UsageFigures, UsageRow},
};
use sortie_engine::{AskedUsage, Engine, Error};
use sortie_store::Found;

use super::listing::{Entry, Form, Listing, Source};
use crate::{
    app::App,
    kit::{Admin, ApiError, ApiResult, FromQuery, Pairs, Query},
};

/// Rows that are summed up in one query. An answer holds no more of them: each query sums up the runs anew.
const QUERY_ROWS: u32 = 500;

pub(crate) struct UsageQuery {
    from: Option<Day>,
    to: Option<Day>,
    by: Vec<UsageDimension>,
}

impl FromQuery for UsageQuery {
    fn from_query(pairs: &Pairs<'_>) -> ApiResult<Self> {
        let by = match pairs.text("by")? {
            None => vec![UsageDimension::Day],
            Some(names) => dimensions(&names)?,
        };
        Ok(Self {
            from: pairs.parse("from")?,
            to: pairs.parse("to")?,
            by,
        })
    }
}

/// `day,model`: each name at most once.
fn dimensions(names: &str) -> ApiResult<Vec<UsageDimension>> {
    let mut by = Vec::new();
    for name in names.split(',') {
        let dimension = name
            .parse()
            .map_err(|rule| ApiError::invalid_request(format!("by: {rule}")))?;
        if by.contains(&dimension) {
            return Err(ApiError::invalid_request(format!("by: {name} is named twice")));
        }
        by.push(dimension);
    }
    Ok(by)
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
    let asked = app.engine.asked_usage((query.from, query.to), query.by)?;
    let rows = UsageRows {
        engine: app.engine.clone(),
        org: who.org,
        asked,
        read: Mutex::default(),
        totals: UsageFigures::default(),
    };
    Listing::new(rows, None, limits::USAGE_ROWS, Form::Within)
        .respond(&app.bodies)
        .await
}

/// Rows of the usage of an organization. The totals are the sums of the rows that are shown.
struct UsageRows {
    engine: Engine,
    org: OrgId,
    asked: AskedUsage,
    read: Mutex<Option<ReadRows>>,
    totals: UsageFigures,
}

/// Rows of the last query.
struct ReadRows {
    /// Row behind which they are.
    after: Option<UsageRow>,
    rows: VecDeque<UsageRow>,
    /// Whether rows may follow.
    goes_on: bool,
}

impl ReadRows {
    /// Drops the rows up to `after`. Returns at most `limit` of those behind it; None if none of them are here.
    fn behind(&mut self, after: Option<&UsageRow>, limit: u32) -> Option<Found<UsageRow, UsageRow>> {
        if self.after.as_ref() != after {
            let shown = self.rows.iter().position(|row| Some(row) == after)?;
            self.rows.drain(..=shown);
            self.after = after.cloned();
        }
        if self.rows.is_empty() && self.goes_on {
            return None;
        }
        let items: Vec<UsageRow> = self.rows.iter().take(limit as usize).cloned().collect();
        let is_short = items.len() < limit as usize;
        let stopped_at = items.last().filter(|_| is_short && self.goes_on).cloned();
        Some(Found { items, stopped_at })
    }
}

impl UsageRows {
    fn read_rows(&self) -> MutexGuard<'_, Option<ReadRows>> {
        self.read.lock()
    }
}

impl Source for UsageRows {
    type Item = UsageRow;
    type Position = UsageRow;

    fn stretch(&self) -> u32 {
        QUERY_ROWS
    }

    async fn read(&self, after: Option<UsageRow>, limit: u32) -> Result<Found<UsageRow, UsageRow>, Error> {
        let here = self
            .read_rows()
            .as_mut()
            .and_then(|read| read.behind(after.as_ref(), limit));
        if let Some(found) = here {
            return Ok(found);
        }
        let rows = self
            .engine
            .usage_rows(self.org, &self.asked, after.as_ref(), QUERY_ROWS)
            .await?;
        let mut read = ReadRows {
            after: after.clone(),
            goes_on: rows.len() >= QUERY_ROWS as usize,
            rows: rows.into(),
        };
        let found = read.behind(after.as_ref(), limit);
        *self.read_rows() = Some(read);
        Ok(found.unwrap_or_else(|| Found::all(Vec::new())))
    }

    fn position(&self, row: &UsageRow) -> UsageRow {
        row.clone()
    }

    fn entry(&mut self, row: UsageRow) -> Result<Entry, Error> {
        self.totals.add(&row.figures());
        Entry::of(&row)
    }

    fn restart(&mut self) {
        self.totals = UsageFigures::default();
        *self.read_rows() = None;
    }

    fn around(&self) -> Result<(Vec<u8>, Vec<u8>), Error> {
        let whole = Usage {
            from: self.asked.from,
            to: self.asked.to,
            by: self.asked.by.clone(),
            rows: Vec::new(),
            totals: self.totals,
        };
        let mut before = serde_json::to_vec(&whole).map_err(|error| Error::Internal(error.to_string()))?;
        let rows = b"\"rows\":[";
        let place = before.windows(rows.len()).position(|window| window == rows);
        let place = place.ok_or_else(|| Error::Internal("usage has no rows".to_owned()))?;
        let behind = before.split_off(place + rows.len());
        Ok((before, behind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_are_named_once_each() {
        let read = |names: &str| dimensions(names).map_err(|_| ());
        assert_eq!(
            read("key,day"),
            Ok(vec![UsageDimension::Key, UsageDimension::Day])
        );
        for wrong in ["", "day,", "day,day", "DAY", "day, key", "month"] {
            assert_eq!(read(wrong), Err(()), "{wrong:?}");
        }
    }
}
