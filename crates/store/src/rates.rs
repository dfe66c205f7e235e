//! System: blocks of a minute's quota of requests, which nodes lease so that a limit holds for all of them together.
//!
//! A row knows how much of the quota of one subject and one minute is out. A lease is only ever granted out of what is left, so
//! what the nodes let through by their leases is never above the quota. Blocks shrink with what is left, to one at the end: what
//! one node holds back from the others is at most a fraction of the quota. The size is one over four times the number of live
//! nodes of what is left: guided self-scheduling (Polychronopoulos and Kuck, 1987) with a margin for nodes that go at unlike speeds.

use sortie_api::Timestamp;

use crate::{
    Store,
    db::{Stmt, Tx, vals},
    types::{Error, Result},
};

/// A block is at most one over this many times the number of nodes of what is left of the quota.
const PARTS_PER_NODE: u32 = 4;

/// What a node wants of one subject's quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedBlock {
    /// The minute, counted since 1970.
    pub minute: i64,
    /// Whom the requests are counted against.
    pub subject: String,
    /// Requests of the subject in this minute on all nodes.
    pub quota: u32,
    /// How many requests the node would like to be good for. It gets less where less is left.
    pub target: u32,
    /// How many it is good for already; below zero where it has let more through than it had.
    pub unused: i64,
}

/// What it got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantedBlock {
    /// Requests it is good for beyond those before.
    pub requests: u32,
    /// What is left of the quota after it, for any node.
    pub rest: u32,
}

/// The answer to a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leased {
    /// The blocks, in the order in which they were wanted.
    pub blocks: Vec<GrantedBlock>,
    /// Nodes whose lease has not run out, those of this answer included; at least one.
    pub nodes: u32,
}

impl Store {
    /// System: takes blocks out of quotas, all in one round trip. `nodes` is how many are alive as far as the caller knows. No
    /// subject may be named twice.
    pub async fn lease_rates(&self, wanted: Vec<WantedBlock>, nodes: u32, at: Timestamp) -> Result<Leased> {
        self.db.write(move |tx| lease(tx, &wanted, nodes, at)).await
    }

    /// System: forgets what was leased of the oldest minute before this one. How many rows these were: none when all are gone.
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

/// What is granted of `$3`, the quota, to who wants `$4` and has `$5`, in `$6` parts of what is left. Never less than nothing: nodes
/// may have unlike quotas in their settings.
macro_rules! block {
    () => {
        "{GREATEST}(0, {LEAST}($3 - rate_lease.granted, \
           {LEAST}($4, ($3 - rate_lease.granted + $6 - 1) / $6) - $5))"
    };
}

fn lease(tx: &mut dyn Tx, wanted: &[WantedBlock], nodes: u32, at: Timestamp) -> Result<Leased> {
    let parts = i64::from(nodes.max(1)) * i64::from(PARTS_PER_NODE);
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    // Two nodes take their locks in the same order.
    order.sort_by_key(|position| {
        wanted
            .get(*position)
            .map(|block| (block.minute, block.subject.as_str()))
    });
    let mut statements = Vec::with_capacity(wanted.len() + 1);
    for block in order.iter().filter_map(|position| wanted.get(*position)) {
        let first = first_block(block, parts);
        statements.push(Stmt::new(
            concat!(
                "INSERT INTO rate_lease (minute, subject, granted, block) VALUES ($1, $2, $7, $7) \
                 ON CONFLICT (minute, subject) DO UPDATE SET granted = rate_lease.granted + ",
                block!(),
                ", block = ",
                block!(),
                " RETURNING block, granted"
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
        let row = row?;
        if let (Some(block), Some(wanted)) = (blocks.get_mut(*position), wanted.get(*position)) {
            *block = GrantedBlock {
                requests: u32::try_from(row.int(0)?).unwrap_or(0),
                rest: u32::try_from(i64::from(wanted.quota) - row.int(1)?).unwrap_or(0),
            };
        }
    }
    let nodes = match rows.next() {
        Some(row) => row?.int(0)?,
        None => 1,
    };
    Ok(Leased {
        blocks,
        nodes: u32::try_from(nodes).unwrap_or(u32::MAX).max(1),
    })
}

/// The same sum as `block!` for a subject of which nothing is out.
fn first_block(wanted: &WantedBlock, parts: i64) -> i64 {
    let quota = i64::from(wanted.quota);
    let size = i64::from(wanted.target).min((quota + parts - 1) / parts);
    (size - wanted.unused).clamp(0, quota)
}
