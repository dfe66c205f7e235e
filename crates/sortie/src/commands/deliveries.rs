//! `sortie runs deliveries` and `redeliver`: the attempts to deliver a run's callback.

use sortie_api::{DeliveryAttempt, Redelivery, RunId};

use super::Context;
use crate::{
    args::RunRef,
    client::{Client, get, post},
    failure::{Exit, Result},
    render::{Field, Record, Render, maybe, maybe_time, some, time},
};

impl Record for DeliveryAttempt {
    const COLUMNS: &'static [Field<Self>] = &[
        ("ATTEMPT", |attempt| some(attempt.attempt)),
        ("AT", |attempt| time(attempt.at)),
        ("STATUS", |attempt| maybe(attempt.status)),
        ("MS", |attempt| some(attempt.duration_ms)),
        ("NEXT", |attempt| maybe_time(attempt.next_at)),
        ("ERROR", |attempt| maybe(attempt.error.as_ref())),
    ];
    const CUT: &'static [&'static str] = &["ERROR"];
}

fn path(run: RunId) -> String {
    format!("v1/runs/{run}/deliveries")
}

pub(super) async fn list(context: &Context, run: &RunRef, render: &Render) -> Result<Exit> {
    let list = async |client: &Client| client.ask(get(path(client.find_run(run).await?))).await;
    let attempts: Vec<DeliveryAttempt> = context.call(render, list).await?;
    render.list(&attempts)
}

pub(super) async fn redeliver(context: &Context, run: &RunRef, render: &Render) -> Result<Exit> {
    let redeliver = async |client: &Client| client.ask(post(path(client.find_run(run).await?))).await;
    let redelivery: Redelivery = context.call(render, redeliver).await?;
    render.done(&redelivery, |redelivery| {
        format!(
            "the callback of {run} is sent again, as attempt {}",
            redelivery.attempt
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::{Look, table};

    #[test]
    fn attempts_are_a_plain_table() {
        let attempts: Vec<DeliveryAttempt> = serde_json::from_value(serde_json::json!([
            {"attempt": 1, "at": "2026-11-20T21:30:00.000Z", "error": "no answer within 15 s\u{1b}[2J", "duration_ms": 15_002,
             "next_at": "2026-11-20T21:30:25.104Z"},
            {"attempt": 2, "at": "2026-11-20T21:30:25.110Z", "status": 204, "duration_ms": 31}
        ]))
        .unwrap();
        insta::assert_snapshot!(table(&attempts, &Look::plain()));
    }
}
