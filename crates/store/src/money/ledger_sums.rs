//! Running sums of the ledger, by organization and by payment, up to a position of each organization.
//!
//! Entries are never changed or deleted, and a new entry sorts after all others of its organization
//! ([`ledger`](super::ledger)). The sum up to a position therefore stays correct, and the check of the ledger adds the later
//! entries to it.

use sortie_api::{LedgerKind, OrgId, Timestamp};

use super::ledger::LedgerPosition;
use crate::{
    Error, Result, Store,
    db::{Stmt, Turn, Tx, insert, row, select, vals},
};

/// Error of a step from a position that another node has left.
const MOVED: Error = Error::Conflict("another node has added up these entries");

/// Sums of a step of entries.
struct Step {
    from: Option<LedgerPosition>,
    to: LedgerPosition,
    balance_micros: i64,
    payments: Vec<PaymentSum>,
}

/// Sums of the entries of one payment.
struct PaymentSum {
    payment: String,
    bought_micros: i64,
    taken_micros: i64,
}

impl Store {
    /// System: adds the oldest `entries` of an organization that are not in its running sums to these. Returns false if
    /// there are fewer: the check reads those itself.
    pub async fn add_up_ledger(&self, org: OrgId, entries: u32) -> Result<bool> {
        let step = self.db.scan(Turn::System, move |tx| next_step(tx, org, entries));
        let Some(step) = step.await? else {
            return Ok(false);
        };
        match self.db.write(move |tx| take_step(tx, org, &step)).await {
            Ok(()) => Ok(true),
            // The next step begins after the last entry of the other node.
            Err(error) if error == MOVED => Ok(true),
            Err(error) => Err(error),
        }
    }
}

row! {
    /// Sums of entries of one payment, or of none.
    struct StepSum {
        payment: String = "COALESCE(l.payment_id, '')",
        is_of_payments: bool = "CASE WHEN l.kind IN ($6, $7, $8) THEN 0 ELSE 1 END",
        sum: i64 = "CAST(SUM(l.amount_micros) AS BIGINT)",
        bought: i64 = "CAST(SUM(CASE WHEN l.kind = $9 THEN l.amount_micros ELSE 0 END) AS BIGINT)",
    }
}

fn next_step(tx: &mut dyn Tx, org: OrgId, entries: u32) -> Result<Option<Step>> {
    let from: Option<LedgerPosition> = tx.read_opt(
        select!(LedgerPosition, " FROM ledger_sum WHERE org_id = $1"),
        vals![org],
    )?;
    let start = from.clone().unwrap_or(LedgerPosition {
        at: Timestamp::from_micros(-1),
        cause: String::new(),
    });
    let last: Option<LedgerPosition> = tx.read_opt(
        select!(
            LedgerPosition,
            " FROM ledger WHERE org_id = $1 AND (at, cause) > ($2, $3) ORDER BY at, cause LIMIT 1 OFFSET $4"
        ),
        vals![org, start.at, start.cause.as_str(), entries.saturating_sub(1)],
    )?;
    let Some(to) = last else { return Ok(None) };
    let sums: Vec<StepSum> = tx.read_all(
        select!(
            StepSum,
            " FROM ledger l WHERE l.org_id = $1 AND (l.at, l.cause) > ($2, $3) AND (l.at, l.cause) <= ($4, $5) \
             GROUP BY 1, 2"
        ),
        vals![
            org,
            start.at,
            start.cause.as_str(),
            to.at,
            to.cause.as_str(),
            LedgerKind::Charge,
            LedgerKind::Grant,
            LedgerKind::Correction,
            LedgerKind::Purchase
        ],
    )?;
    let mut step = Step {
        from,
        to,
        balance_micros: 0,
        payments: Vec::new(),
    };
    for of in sums {
        step.balance_micros = step.balance_micros.saturating_add(of.sum);
        if of.is_of_payments {
            step.payments.push(PaymentSum {
                payment: of.payment,
                bought_micros: of.bought,
                taken_micros: of.bought.saturating_sub(of.sum),
            });
        }
    }
    Ok(Some(step))
}

fn take_step(tx: &mut dyn Tx, org: OrgId, step: &Step) -> Result<()> {
    let (to, cause) = (step.to.at, step.to.cause.as_str());
    let moved = if let Some(from) = &step.from {
        Stmt::new(
            "UPDATE ledger_sum SET at = $2, cause = $3, balance_micros = balance_micros + $4 \
             WHERE org_id = $1 AND at = $5 AND cause = $6",
            vals![org, to, cause, step.balance_micros, from.at, from.cause.as_str()],
        )
    } else {
        insert!("ledger_sum", {
            "org_id": org,
            "at": to,
            "cause": cause,
            "balance_micros": step.balance_micros,
        }, " ON CONFLICT (org_id) DO NOTHING")
    };
    let mut statements = vec![moved.exactly(1, MOVED)];
    statements.extend(step.payments.iter().map(|of| {
        insert!("ledger_payment_sum", {
            "org_id": org,
            "payment_id": of.payment.as_str(),
            "bought_micros": of.bought_micros,
            "taken_micros": of.taken_micros,
        }, " ON CONFLICT (org_id, payment_id) DO UPDATE SET \
            bought_micros = ledger_payment_sum.bought_micros + excluded.bought_micros, \
            taken_micros = ledger_payment_sum.taken_micros + excluded.taken_micros")
    }));
    tx.batch(&statements).map(drop)
}
