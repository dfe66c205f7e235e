//! Comparison of credits with the ledger, the runs and the payments, for operators and for the nightly check. The ledger is the
//! [running sums](super::ledger_sums) and the entries since.
//!
//! A difference is a defect: every command keeps these sums equal.

use sortie_api::{OrgId, PaymentId, RunId, Timestamp};

use crate::{
    Result, Store,
    db::{Turn, Tx, row, select, vals},
    money::purchases::MICROS_OF_A_CENT,
};

/// Rule about credits, the ledger, runs and payments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LedgerRule {
    /// The balance is the sum of the ledger.
    Balance,
    /// The reserved amount is the sum over the runs that are not settled.
    Reserved,
    /// A settled run has one charge of its cost, or none if it cost nothing.
    Charge,
    /// A settled run costs no more than the amount reserved for it.
    Cost,
    /// A payment was credited once, with its amount, and nothing was credited without a payment.
    Purchase,
    /// Refunds and disputes took from the credits their sum, and never more than the payment.
    TakenBack,
    /// The rows of an organization can be read and summed.
    Readable,
}

impl LedgerRule {
    /// Name of the rule in metrics and answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Balance => "balance",
            Self::Reserved => "reserved",
            Self::Charge => "charge",
            Self::Cost => "cost",
            Self::Purchase => "purchase",
            Self::TakenBack => "taken_back",
            Self::Readable => "readable",
        }
    }
}

/// Breach of a rule. Amounts are in micros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerDifference {
    /// The organization.
    pub org: OrgId,
    /// Rule that does not hold.
    pub rule: LedgerRule,
    /// Run that breaks it, if it is a rule of runs.
    pub run: Option<RunId>,
    /// Payment that breaks it, if it is a rule of payments. `None` for entries that name no payment.
    pub payment: Option<PaymentId>,
    /// Amount by the ledger, the runs and the payments.
    pub expected: i64,
    /// Amount that was found.
    pub found: i64,
}

/// Result of a check of several organizations or runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerChecked<T> {
    /// Breaches of rules.
    pub differences: Vec<LedgerDifference>,
    /// Organizations or runs that were checked, in order. The next check continues after the last one.
    pub looked_at: Vec<T>,
}

/// Position of a run in the list of its organization.
type RunPosition = (Timestamp, RunId);

impl Store {
    /// System: compares the balances and the reserved amounts of at most `limit` organizations after `after`, in the order
    /// of their ids. One statement reads them all, so they come from one snapshot.
    pub async fn check_credits(&self, after: Option<OrgId>, limit: u32) -> Result<LedgerChecked<OrgId>> {
        let after = after.map(|org| org.to_string()).unwrap_or_default();
        self.db
            .scan(Turn::System, move |tx| check_credits(tx, &after, limit))
            .await
    }

    /// System: compares the credits of one organization with its ledger and the reservations of its runs.
    pub async fn check_credits_of(&self, org: OrgId) -> Result<Vec<LedgerDifference>> {
        let checked = self.db.scan(Turn::System, move |tx| {
            let sql = select!(CreditRow, ORGANIZATIONS, "WHERE o.id = $1");
            Ok(compare_credits(&tx.read_all(sql, vals![org])?))
        });
        Ok(checked.await?.differences)
    }

    /// System: compares the charges and costs of at most `limit` settled runs of an organization after `after`, in the order
    /// of their creation.
    pub async fn check_charges(
        &self,
        org: OrgId,
        after: Option<RunPosition>,
        limit: u32,
    ) -> Result<LedgerChecked<RunPosition>> {
        self.db
            .scan(Turn::System, move |tx| check_charges(tx, org, after, limit))
            .await
    }

    /// System: compares the payments of an organization with their entries in the ledger. One statement reads them, so they are
    /// of one moment.
    pub async fn check_payments(&self, org: OrgId) -> Result<Vec<LedgerDifference>> {
        self.db
            .scan(Turn::System, move |tx| check_payments(tx, org))
            .await
    }
}

row! {
    /// Organization with its stored and its computed balance and reserved amount.
    struct CreditRow {
        org: OrgId = "o.id",
        balance: i64 = "COALESCE((SELECT c.balance_micros FROM credit c WHERE c.org_id = o.id), 0)",
        entered: i64 =
            "COALESCE(s.balance_micros, 0) + (SELECT CAST(COALESCE(SUM(l.amount_micros), 0) AS BIGINT) FROM ledger l \
             WHERE l.org_id = o.id AND (l.at, l.cause) > (COALESCE(s.at, -1), COALESCE(s.cause, '')))",
        reserved: i64 = "COALESCE((SELECT c.reserved_micros FROM credit c WHERE c.org_id = o.id), 0)",
        unsettled: i64 =
            "(SELECT CAST(COALESCE(SUM((SELECT r.reserved_micros FROM run r WHERE r.id = q.run_id)), 0) AS BIGINT) \
             FROM queue q WHERE q.org_id = o.id AND q.node_id IS NULL) + \
             (SELECT CAST(COALESCE(SUM((SELECT r.reserved_micros FROM run r WHERE r.id = q.run_id)), 0) AS BIGINT) \
             FROM queue q WHERE q.org_id = o.id AND q.node_id IS NOT NULL)",
    }
}

const ORGANIZATIONS: &str = " FROM organization o LEFT JOIN ledger_sum s ON s.org_id = o.id ";

row! {
    struct ChargedRun {
        run: RunId = "r.id",
        created_at: Timestamp = "r.created_at",
        reserved: Option<i64> = "r.reserved_micros",
        cost: i64 = "r.cost_micros",
        billing_pending: bool = "r.billing_pending",
        charged: Option<i64> =
            "(SELECT CASE WHEN l.kind = 'charge' AND l.org_id = r.org_id THEN 0 - l.amount_micros ELSE 0 END \
             FROM ledger l WHERE l.cause = r.id)",
    }
}

row! {
    struct PaymentSums {
        payment: Option<PaymentId> = "moved.payment_id",
        paid: i64 = "CAST(SUM(moved.paid) AS BIGINT)",
        bought: i64 = "CAST(SUM(moved.bought) AS BIGINT)",
        reported: i64 = "CAST(SUM(moved.reported) AS BIGINT)",
        taken: i64 = "CAST(SUM(moved.taken) AS BIGINT)",
    }
}

fn check_credits(tx: &mut dyn Tx, after: &str, limit: u32) -> Result<LedgerChecked<OrgId>> {
    let rows: Vec<CreditRow> = tx.read_all(
        select!(CreditRow, ORGANIZATIONS, "WHERE o.id > $1 ORDER BY o.id LIMIT $2"),
        vals![after, limit],
    )?;
    Ok(compare_credits(&rows))
}

fn compare_credits(rows: &[CreditRow]) -> LedgerChecked<OrgId> {
    let mut differences = Vec::new();
    for row in rows {
        for (rule, found, expected) in [
            (LedgerRule::Balance, row.balance, row.entered),
            (LedgerRule::Reserved, row.reserved, row.unsettled),
        ] {
            if found != expected {
                differences.push(LedgerDifference {
                    org: row.org,
                    rule,
                    run: None,
                    payment: None,
                    expected,
                    found,
                });
            }
        }
    }
    LedgerChecked {
        differences,
        looked_at: rows.iter().map(|row| row.org).collect(),
    }
}

fn check_charges(
    tx: &mut dyn Tx,
    org: OrgId,
    after: Option<RunPosition>,
    limit: u32,
) -> Result<LedgerChecked<RunPosition>> {
    let (since, after) = after.map_or((Timestamp::from_micros(0), String::new()), |(at, run)| {
        (at, run.to_string())
    });
    // Unsettled runs are checked too: they must not have a charge.
    let rows: Vec<ChargedRun> = tx.read_all(
        select!(
            ChargedRun,
            " FROM run r WHERE r.org_id = $1 AND r.created_at >= $2 AND r.created_at >= 0 \
             AND (r.created_at, r.id) > ($2, $3) ORDER BY r.created_at, r.id LIMIT $4"
        ),
        vals![org, since, after.as_str(), limit],
    )?;
    Ok(LedgerChecked {
        differences: rows.iter().flat_map(|row| run_differences(org, row)).collect(),
        looked_at: rows.iter().map(|row| (row.created_at, row.run)).collect(),
    })
}

/// Breaches of rules by one run.
fn run_differences(org: OrgId, row: &ChargedRun) -> Vec<LedgerDifference> {
    let (run, cost, charged) = (row.run, row.cost, row.charged.unwrap_or_default());
    let is_settled = !row.billing_pending;
    let owed = if is_settled && row.reserved.is_some() {
        cost
    } else {
        0
    };
    let mut differences = Vec::new();
    let mut differs = |rule, expected, found| {
        differences.push(LedgerDifference {
            org,
            rule,
            run: Some(run),
            payment: None,
            expected,
            found,
        });
    };
    if charged != owed {
        differs(LedgerRule::Charge, owed, charged);
    }
    if let Some(reserved) = row
        .reserved
        .filter(|reserved| is_settled && !(0..=*reserved).contains(&cost))
    {
        differs(LedgerRule::Cost, reserved, cost);
    }
    differences
}

fn check_payments(tx: &mut dyn Tx, org: OrgId) -> Result<Vec<LedgerDifference>> {
    // Entries are found by the organization, so those of another payment, and of none, are found as well.
    let rows: Vec<PaymentSums> = tx.read_all(
        select!(PaymentSums, " FROM \
         (SELECT p.id AS payment_id, p.amount_cents * $2 AS paid, 0 AS bought, \
           {LEAST}(p.amount_cents, p.refunded_cents + p.disputed_cents) * $2 AS reported, 0 AS taken \
           FROM payment p WHERE p.org_id = $1 AND p.created_at >= 0 \
          UNION ALL SELECT l.payment_id, 0, CASE WHEN l.kind = 'purchase' THEN l.amount_micros ELSE 0 END, \
           0, CASE WHEN l.kind = 'purchase' THEN 0 ELSE 0 - l.amount_micros END \
           FROM ledger l WHERE l.org_id = $1 AND (l.at, l.cause) > \
           (COALESCE((SELECT s.at FROM ledger_sum s WHERE s.org_id = $1), -1), \
            COALESCE((SELECT s.cause FROM ledger_sum s WHERE s.org_id = $1), '')) \
           AND l.kind IN ('purchase', 'refund', 'refund_failed', 'dispute', 'dispute_won') \
          UNION ALL SELECT CASE WHEN s.payment_id <> '' THEN s.payment_id END, 0, s.bought_micros, 0, s.taken_micros \
           FROM ledger_payment_sum s WHERE s.org_id = $1) AS moved \
         GROUP BY moved.payment_id \
         HAVING SUM(moved.paid) <> SUM(moved.bought) OR SUM(moved.reported) <> SUM(moved.taken)"),
        vals![org, MICROS_OF_A_CENT],
    )?;
    let mut differences = Vec::new();
    for row in &rows {
        for (rule, expected, found) in [
            (LedgerRule::Purchase, row.paid, row.bought),
            (LedgerRule::TakenBack, row.reported, row.taken),
        ] {
            if expected != found {
                differences.push(LedgerDifference {
                    org,
                    rule,
                    run: None,
                    payment: row.payment,
                    expected,
                    found,
                });
            }
        }
    }
    Ok(differences)
}
