//! Takeover of runs that lost their worker, by another node or by the same one again. The run is held in the
//! next attempt, so every late write of the old worker is fenced. The status of the run does not change.

use sortie_api::Timestamp;

use super::{
    claim::{LOST, LostRow},
    json_ids,
    moves::held,
};
use crate::{
    Error, Result,
    db::{Stmt, Tx, batch, vals},
    nodes::NodeId,
    runs::{Claim, Origin},
};

/// Maximum number of takeovers of a run, so that a run that crashes its workers eventually ends. After the
/// last takeover the worker only ends the run: the journal shows whether a call was in progress.
pub(super) const MAX_TAKEOVERS: i64 = 4;

/// Gives the held runs `ids` to `node`, under the lock of claims. Runs that have been cancelled are held but
/// not returned: the node settles them as runs that it has no task for. `Fenced` if the node was declared
/// lost.
pub(super) fn take_over(tx: &mut dyn Tx, node: NodeId, ids: &str, at: Timestamp) -> Result<Vec<Claim>> {
    let mut change = vals![ids, MAX_TAKEOVERS];
    change.extend(held()?);
    let [_, _, taken] = batch(
        tx,
        &[
            Stmt::new(
                "SELECT 1 FROM node WHERE id = $1 AND ended_at IS NULL",
                vals![node],
            )
            .exactly(1, Error::Fenced),
            Stmt::new(
                "UPDATE queue SET node_id = $2 WHERE run_id {IN}SELECT value FROM {JSON_EACH}($1){END}",
                vals![ids, node],
            ),
            Stmt::new(
                "UPDATE run SET attempt = attempt + 1, resumes = resumes + 1 \
                 WHERE id {IN}SELECT value FROM {JSON_EACH}($1){END} AND resumes < $2 AND status IN ($3, $4, $5, $6) \
                 RETURNING id",
                change,
            ),
        ],
    )?;
    let ids = json_ids(&taken.rows)?;
    let lost: Vec<LostRow> = tx.read_all(LOST, vals![ids.as_str(), at])?;
    let claims = lost.into_iter().map(|lost| {
        let origin = Origin::Lost {
            status: lost.status,
            cost: lost.cost,
            usage: lost.usage,
        };
        lost.run.claim(origin)
    });
    Ok(claims.collect())
}
