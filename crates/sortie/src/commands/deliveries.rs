//! `sortie runs deliveries` and `redeliver`: the attempts to deliver a run's callback.

use sortie_api::{DeliveryAttempt, Redelivery, RunId};

use super::Context;
use crate::{
    client::{get, post},
    failure::{Exit, Result},
    render::{Field, Record, Render, maybe, some},
};

impl Record for DeliveryAttempt {
    const COLUMNS: &'static [Field<Self>] = &[
        ("ATTEMPT", |attempt| some(attempt.attempt)),
        ("AT", |attempt| some(attempt.at)),
        ("STATUS", |attempt| maybe(attempt.status)),
        ("MS", |attempt| some(attempt.duration_ms)),
        ("NEXT", |attempt| maybe(attempt.next_at)),
        ("ERROR", |attempt| attempt.error.clone()),
    ];
}

fn path(run: RunId) -> String {
    format!("v1/runs/{run}/deliveries")
}

pub(super) async fn list(context: &Context, run: RunId, render: Render) -> Result<Exit> {
    context.list::<DeliveryAttempt>(render, get(path(run))).await
}

pub(super) async fn redeliver(context: &Context, run: RunId, render: Render) -> Result<Exit> {
    let note = |redelivery: &Redelivery| {
        format!(
            "the callback of {run} is sent again, as attempt {}",
            redelivery.attempt
        )
    };
    context.done(render, post(path(run)), note).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::table;

    #[test]
    fn attempts_are_a_plain_table() {
        let attempts: Vec<DeliveryAttempt> = serde_json::from_value(serde_json::json!([
            {"attempt": 1, "at": "2026-11-20T21:30:00.000Z", "error": "no answer within 15 s\u{1b}[2J", "duration_ms": 15_002,
             "next_at": "2026-11-20T21:30:25.104Z"},
            {"attempt": 2, "at": "2026-11-20T21:30:25.110Z", "status": 204, "duration_ms": 31}
        ]))
        .unwrap();
        insta::assert_snapshot!(table(&attempts));
    }
}
