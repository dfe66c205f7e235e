//! `sortie runs deliveries` and `redeliver`: what came of a run's callback.

use sortie_api::{DeliveryAttempt, RunId};

use super::{Context, print_json, table};
use crate::{
    args::ListArgs,
    failure::{Exit, Result},
    terminal,
};

pub(super) async fn list(context: &Context, run: RunId, args: &ListArgs) -> Result<Exit> {
    let connection = context.records(&args.engine).await?;
    let attempts = connection.client.list_deliveries(run).await;
    connection.close().await;
    let attempts = attempts?;
    if args.json {
        return print_json(&attempts);
    }
    terminal::print(&rows(&attempts))?;
    Ok(Exit::Success)
}

fn rows(attempts: &[DeliveryAttempt]) -> String {
    let mut rows = table::new(["ATTEMPT", "AT", "STATUS", "MS", "NEXT", "ERROR"]);
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    for attempt in attempts {
        rows.add_row([
            attempt.attempt.to_string(),
            attempt.at.to_string(),
            or_dash(attempt.status.map(|status| status.to_string())),
            attempt.duration_ms.to_string(),
            or_dash(attempt.next_at.map(|at| at.to_string())),
            or_dash(
                attempt
                    .error
                    .as_deref()
                    .map(|error| terminal::harmless(error).into_owned()),
            ),
        ]);
    }
    table::text(&rows)
}

pub(super) async fn redeliver(context: &Context, run: RunId, args: &ListArgs) -> Result<Exit> {
    let connection = context.records(&args.engine).await?;
    let redelivery = connection.client.redeliver_run(run).await;
    connection.close().await;
    let redelivery = redelivery?;
    if args.json {
        return print_json(&redelivery);
    }
    terminal::note(&format!(
        "the callback of {run} is sent again, as attempt {}",
        redelivery.attempt
    ));
    Ok(Exit::Success)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_a_plain_table() {
        let attempts: Vec<DeliveryAttempt> = serde_json::from_value(serde_json::json!([
            {"attempt": 1, "at": "2026-11-20T21:30:00.000Z", "error": "no answer within 15 s\u{1b}[2J", "duration_ms": 15_002,
             "next_at": "2026-11-20T21:30:25.104Z"},
            {"attempt": 2, "at": "2026-11-20T21:30:25.110Z", "status": 204, "duration_ms": 31}
        ]))
        .unwrap();
        insta::assert_snapshot!(rows(&attempts));
    }
}
