//! Costs of cancelled runs. Their time is counted from the claim to the cancellation, on the clock of the database if
//! it has one.

use sortie_api::Run;
use sortie_testkit::until_within;

use super::{CLOCKS, SETTLING};
use crate::{prelude::*, world::RATE};

/// Waits until the run is settled, if it was cancelled: it may have further events until then.
pub(super) async fn until_settled(client: &Client, id: &str) -> Checked {
    let look = async || client.run(id).await;
    let is_settled = |run: &Run| run.status != RunStatus::Cancelled || !run.billing_pending;
    until_within(SETTLING, "the settlement", look, is_settled).await?;
    Ok(())
}

/// Checks that each cancelled run costs what its events show and its time.
pub(super) async fn costs(world: &World) -> Checked {
    let node = &world.nodes[0];
    let runs = node
        .rows(
            "SELECT id, cost_micros, COALESCE(clock_cancelled_at - clock_started_at, finished_at - started_at, 0) AS lasted, \
             (SELECT COUNT(*) FROM event WHERE run_id = run.id AND kind = 'resumed') AS resumes \
             FROM run WHERE status = 'cancelled'",
        )
        .await?;
    let calls = node
        .rows(
            "SELECT e.run_id, e.data FROM event e JOIN run r ON r.id = e.run_id \
             WHERE r.status = 'cancelled' AND e.kind IN ('model_call', 'tool_end')",
        )
        .await?;
    let mut shown: BTreeMap<&str, u64> = BTreeMap::new();
    for call in &calls {
        let (id, data) = (text(call, "run_id")?, text(call, "data")?);
        let data: Value = serde_json::from_str(data)?;
        *shown.entry(id).or_default() += data["cost_micros"].as_u64().unwrap_or_default();
    }
    for run in &runs {
        let id = text(run, "id")?;
        let number = |name: &str| run[name].as_i64().with_context(|| format!("{name} of {run}"));
        let cost = u64::try_from(number("cost_micros")?)?;
        let lasted = u64::try_from(number("lasted")?).unwrap_or_default();
        let of_calls = shown.get(id).copied().unwrap_or_default();
        let whole = of_calls + (lasted * RATE).div_ceil(1_000_000);
        // The worker counts the time as well, on its own clock, and the smaller cost is charged. A worker that takes
        // over a run starts counting shortly after the database has read its clock, within a second.
        let take_overs = u64::try_from(number("resumes")?)? * RATE;
        ensure!(
            cost <= whole && whole <= cost + CLOCKS + take_overs,
            "{id} was cancelled and costs {cost}, and not {whole}, of which {of_calls} are for calls"
        );
    }
    Ok(())
}

fn text<'a>(row: &'a Value, name: &str) -> Result<&'a str> {
    row[name].as_str().with_context(|| format!("{name} of {row}"))
}
