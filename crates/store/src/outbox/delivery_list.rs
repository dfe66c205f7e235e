//! List of the callbacks of an organization's finished runs, the newest run first.
//!
//! A state or a receiver has no index: a command reads at most [`EXAMINED`] deliveries, and the list continues there with the
//! next one.

use sortie_api::{Delivery, DeliveryState, OrgId, RunId};

use crate::{
    Found, Result, Store,
    db::{Row, Turn, filled, row, select, vals},
};

/// Maximum number of deliveries that one command looks at.
const EXAMINED: u32 = 5_000;

/// Filter of a list of deliveries. Every condition that is set must hold.
#[derive(Clone, Debug, Default)]
pub struct DeliveryFilter {
    /// Deliveries in one of these states; empty for any.
    pub states: Vec<DeliveryState>,
    /// Deliveries to this host and port.
    pub receiver: Option<String>,
    /// Deliveries of runs before this one in the list.
    pub before: Option<RunId>,
    /// Maximum number of deliveries.
    pub limit: u32,
}

/// Column of the last attempt of the delivery `d`.
const LAST: &str =
    "(SELECT @column FROM delivery_attempt a WHERE a.run_id = d.run_id AND a.attempt = d.attempts)";

/// State of the delivery `d`.
const STATE: &str = constcat::concat!(
    "CASE WHEN d.due_at IS NOT NULL AND d.failures > 0 THEN 'retrying' WHEN d.due_at IS NOT NULL THEN 'pending' \
     WHEN d.attempts > 0 AND ",
    filled!(LAST, "@column" = "a.error"),
    " IS NULL THEN 'delivered' ELSE 'abandoned' END"
);

row! {
    struct DeliveryRow(Delivery) {
        run_id = "d.run_id",
        receiver = "d.host",
        state = STATE,
        attempts = "d.attempts",
        last_attempt_at = filled!(LAST, "@column" = "a.at"),
        status = filled!(LAST, "@column" = "a.status"),
        error = filled!(LAST, "@column" = "a.error"),
        next_at = "CASE WHEN d.node IS NULL THEN d.due_at END",
    }
}

/// Deliveries of finished runs after the run `$2`.
const BEHIND: &str = " FROM delivery d WHERE d.org_id = $1 AND d.run_id < $2 AND d.give_up_at >= 0";

impl Store {
    /// Returns the callbacks of finished runs, the newest run first.
    pub async fn deliveries(&self, org: OrgId, filter: DeliveryFilter) -> Result<Found<Delivery, RunId>> {
        // `~` sorts after every character of an id.
        let before = filter
            .before
            .map_or_else(|| "~".to_owned(), |run| run.to_string());
        let states = filter
            .states
            .iter()
            .fold(",".to_owned(), |all, state| format!("{all}{},", state.as_str()));
        let states = (!filter.states.is_empty()).then_some(states);
        self.db
            .scan(Turn::Organization(org), move |tx| {
                let before = before.as_str();
                let entry = constcat::concat!(
                    "SELECT d.run_id",
                    BEHIND,
                    " ORDER BY d.run_id DESC LIMIT 1 OFFSET $3"
                );
                let end = tx.query_opt(entry, vals![org, before, EXAMINED - 1])?;
                let end: Option<RunId> = end.as_ref().map(Row::only).transpose()?;
                let rows: Vec<DeliveryRow> = tx.read_all(
                    select!(
                        DeliveryRow,
                        BEHIND,
                        " AND d.run_id >= $4 AND (CAST($5 AS TEXT) IS NULL OR d.host = $5) \
                         AND (CAST($6 AS TEXT) IS NULL OR $6 LIKE '%,' || ",
                        STATE,
                        " || ',%') ORDER BY d.run_id DESC LIMIT $3"
                    ),
                    vals![
                        org,
                        before,
                        filter.limit,
                        end.map_or_else(String::new, |run| run.to_string()),
                        filter.receiver.as_deref(),
                        states.as_deref()
                    ],
                )?;
                let is_full = rows.len() >= usize::try_from(filter.limit).unwrap_or(usize::MAX);
                Ok(Found {
                    items: rows.into_iter().map(|DeliveryRow(delivery)| delivery).collect(),
                    stopped_at: end.filter(|_| !is_full),
                })
            })
            .await
    }
}
