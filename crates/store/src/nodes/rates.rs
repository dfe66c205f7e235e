//! System: leases on rate limits. Nodes lease blocks of a subject's requests per minute, so that a limit holds for all nodes
//! together.
//!
//! A row has the number of granted requests of one subject in one minute. A block comes out of the rest of the quota, so the
//! nodes together never get more than the quota. A block is at most the rest divided by four times the number of live nodes,
//! rounded up. Blocks shrink with the rest, down to one request, and a node keeps only a small part from the others. This is
//! guided self-scheduling (Polychronopoulos and Kuck, 1987) with a margin for nodes of different speeds.

use sortie_api::Timestamp;

use crate::{
    Error, Result, Store,
    db::{ReadRow, Stmt, Tx, row, vals},
};

/// Parts per node into which the rest of a quota is divided. A block is at most one part.
const PARTS_PER_NODE: u32 = 4;

/// Request of a node for a block of one subject's quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedBlock {
    /// Number of the minute since 1970.
    pub minute: i64,
    /// Subject that the requests are counted for.
    pub subject: String,
    /// Limit of the subject's requests in this minute on all nodes.
    pub quota: u32,
    /// Number of unused requests that the node wants to have. It gets fewer if the rest of the quota is small.
    pub target: u32,
    /// Number of unused requests that the node has. Negative if it has accepted more requests than it had.
    pub unused: i64,
}

/// Block that a node got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantedBlock {
    /// Number of requests in the block.
    pub requests: u32,
    /// Rest of the quota after this block, for all nodes.
    pub rest: u32,
}

/// Result of [`Store::lease_rates`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leased {
    /// Blocks, in the order of the requests.
    pub blocks: Vec<GrantedBlock>,
    /// Number of live nodes, at least 1.
    pub nodes: u32,
}

impl Store {
    /// System: leases blocks of quotas in one round trip. `nodes` is the number of live nodes that the caller knows of. A
    /// subject may appear only once for each minute.
    pub async fn lease_rates(&self, wanted: Vec<WantedBlock>, nodes: u32, at: Timestamp) -> Result<Leased> {
        self.db.write(move |tx| lease(tx, &wanted, nodes, at)).await
    }

    /// System: deletes the leases of the oldest minute before this one. Returns the number of deleted rows, which is 0 after
    /// the last such minute.
    pub async fn forget_rates(&self, before_minute: i64) -> Result<u64> {
        self.db
            .write(move |tx| {
                tx.exec(
                    "DELETE FROM rate_lease WHERE minute = (SELECT r.minute FROM rate_lease r WHERE r.minute < $1 \
                     ORDER BY r.minute, r.subject LIMIT 1)",
                    vals![before_minute],
                )
            })
            .await
    }
}

/// Number of requests to grant: `$3` is the quota, `$4` the target, `$5` the unused requests, `$6` the number of parts.
/// Never negative, even if another node has granted more under a higher quota in its settings.
const BLOCK: &str = "{GREATEST}(0, {LEAST}($3 - rate_lease.granted, \
    {LEAST}($4, ($3 - rate_lease.granted + $6 - 1) / $6) - $5))";

row! {
    struct LeaseRow {
        block: i64 = "block",
        granted: i64 = "granted",
    }
}

fn lease(tx: &mut dyn Tx, wanted: &[WantedBlock], nodes: u32, at: Timestamp) -> Result<Leased> {
    let parts = i64::from(nodes.max(1)) * i64::from(PARTS_PER_NODE);
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    // Every node locks the rows in the same order, which avoids deadlocks.
    order.sort_by_key(|position| {
        wanted
            .get(*position)
            .map(|block| (block.minute, block.subject.as_str()))
    });
    let mut statements = Vec::with_capacity(wanted.len() + 1);
    for block in order.iter().filter_map(|position| wanted.get(*position)) {
        let first = first_block(block, parts);
        statements.push(Stmt::new(
            constcat::concat!(
                "INSERT INTO rate_lease (minute, subject, granted, block) VALUES ($1, $2, $7, $7) \
                 ON CONFLICT (minute, subject) DO UPDATE SET granted = rate_lease.granted + ",
                BLOCK,
                ", block = ",
                BLOCK,
                " RETURNING ",
                LeaseRow::COLUMNS
            ),
            vals![
                block.minute,
                block.subject.as_str(),
                block.quota,
                block.target,
                block.unused,
                parts,
                first
            ],
        ));
    }
    statements.push(Stmt::new(
        "SELECT COUNT(*) FROM node WHERE ended_at IS NULL AND lease_until > $1",
        vals![at],
    ));
    let answers = tx.batch(&statements)?;
    let mut rows = answers.iter().map(|answer| {
        let row = answer.rows.first();
        row.ok_or_else(|| Error::Corrupt("a lease has no answer".to_owned()))
    });
    let mut blocks = vec![GrantedBlock { requests: 0, rest: 0 }; wanted.len()];
    for (position, row) in order.iter().zip(rows.by_ref()) {
        let lease = LeaseRow::read(row?)?;
        if let (Some(block), Some(wanted)) = (blocks.get_mut(*position), wanted.get(*position)) {
            *block = GrantedBlock {
                requests: u32::try_from(lease.block).unwrap_or(0),
                rest: u32::try_from(i64::from(wanted.quota) - lease.granted).unwrap_or(0),
            };
        }
    }
    let nodes = match rows.next() {
        Some(row) => row?.only::<i64>()?,
        None => 1,
    };
    Ok(Leased {
        blocks,
        nodes: u32::try_from(nodes).unwrap_or(u32::MAX).max(1),
    })
}

/// Computes [`BLOCK`] for a subject without granted requests.
fn first_block(wanted: &WantedBlock, parts: i64) -> i64 {
    let quota = i64::from(wanted.quota);
    let size = i64::from(wanted.target).min((quota + parts - 1) / parts);
    (size - wanted.unused).clamp(0, quota)
}
