//! Credits of the organizations of a hosted deployment.
//!
//! The transaction that creates a run reserves its whole `max_cost`, and the one that settles the run releases it and
//! charges the cost. The balance is the sum of the [`ledger`](super::ledger); the reserved amount is the sum over the
//! unsettled runs. A run is created only if its `max_cost` is available: the balance minus the reserved amount.

use sortie_api::{Micros, OrgId};

use crate::{
    Error, Result, Store,
    db::{Answer, Stmt, Tx, Writers, batch, row, select, tail::CreditChange, vals},
    error::InsufficientCredit,
    installation::observe::MOST_COUNTED,
    money::payment::Payment,
    runs::NewRun,
};

row! {
    /// Credits of an organization.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Credit {
        /// Sum of the ledger. Negative after refunds, disputes and corrections of credits that were spent.
        pub balance_micros: i64 = "balance_micros",
        /// Sum of the amounts reserved for unsettled runs.
        pub reserved: Micros = "reserved_micros",
    }
}

impl Credit {
    /// Amount that is available for new runs.
    pub fn available(&self) -> Micros {
        Micros::try_from(self.balance_micros.saturating_sub(self.reserved.get())).unwrap_or_default()
    }
}

row! {
    /// Sums of the credits of a deployment, over at most [`MOST_COUNTED`] organizations.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct CreditSums {
        /// Sum of the balances.
        pub balance_micros: i64 = "CAST(COALESCE(SUM(balance_micros), 0) AS BIGINT)",
        /// Sum of the amounts reserved for unsettled runs.
        pub reserved_micros: i64 = "CAST(COALESCE(SUM(reserved_micros), 0) AS BIGINT)",
        /// Number of organizations with a negative balance.
        pub negative: i64 = "COUNT(CASE WHEN balance_micros < 0 THEN 1 END)",
    }
}

impl Store {
    /// System: returns the sums of the credits of all organizations.
    pub async fn credit_sums(&self) -> Result<CreditSums> {
        self.db.read(sums).await
    }

    /// Returns the credits of an organization. An organization without credits has zeros.
    pub async fn credit(&self, org: OrgId) -> Result<Credit> {
        self.db.read(move |tx| read(tx, org)).await
    }
}

fn sums(tx: &mut dyn Tx) -> Result<CreditSums> {
    let sums = tx.read_opt(
        select!(
            CreditSums,
            " FROM (SELECT balance_micros, reserved_micros FROM credit WHERE org_id > '' LIMIT $1) AS counted"
        ),
        vals![MOST_COUNTED],
    )?;
    Ok(sums.unwrap_or_default())
}

/// Statement that creates the credits of an organization, unless they exist.
pub(crate) fn begin(org: OrgId) -> Stmt<'static> {
    Stmt::new(
        "INSERT INTO credit (org_id, balance_micros, reserved_micros, suspended) \
         SELECT id, 0, 0, CASE WHEN suspended_at IS NULL THEN 0 ELSE 1 END FROM organization WHERE id = $1 \
         ON CONFLICT (org_id) DO NOTHING",
        vals![org],
    )
}

/// Statement that stops an organization from creating runs with its credits. It comes last, in the order of locks.
pub(crate) fn suspend(org: OrgId) -> Stmt<'static> {
    Stmt::new("UPDATE credit SET suspended = 1 WHERE org_id = $1", vals![org])
}

/// Statement that allows the creation of runs again. It comes last, in the order of locks.
pub(crate) fn resume(org: OrgId) -> Stmt<'static> {
    Stmt::new("UPDATE credit SET suspended = 0 WHERE org_id = $1", vals![org])
}

/// Refuses the command if the organization has credits.
pub(crate) fn has_none(org: OrgId, otherwise: Error) -> Stmt<'static> {
    Stmt::new(
        "SELECT 1 FROM credit WHERE org_id = $1 AND balance_micros > 0",
        vals![org],
    )
    .exactly(0, otherwise)
}

row! {
    struct CreditRow {
        credit: Credit,
        suspended: bool = "suspended",
    }
}

/// Query of the credits of an organization.
const OF_ORGANIZATION: &str = select!(CreditRow, " FROM credit WHERE org_id = $1");

pub(super) fn read(tx: &mut dyn Tx, org: OrgId) -> Result<Credit> {
    let row: Option<CreditRow> = tx.read_opt(OF_ORGANIZATION, vals![org])?;
    Ok(row.map(|row| row.credit).unwrap_or_default())
}

/// Update of one organization's credit.
const UPDATE: &str = "UPDATE credit SET balance_micros = balance_micros + $2, reserved_micros = reserved_micros + $3 \
    WHERE org_id = $1";

/// Condition of [`UPDATE`] under which an amount is reserved.
const IF_COVERED: &str =
    " AND suspended = 0 AND balance_micros + CAST($2 AS BIGINT) - reserved_micros - CAST($3 AS BIGINT) >= 0";

/// End of [`UPDATE`] for [`is_low`].
const RETURNING_LOW: &str =
    " RETURNING CASE WHEN balance_micros - reserved_micros < topup_below_micros THEN 1 ELSE 0 END";

/// The update of one organization's credit. It affects no row if the credit does not cover the amount to reserve, if a
/// reservation meets a suspended organization, or if the row is missing. With several writers, it returns a row for
/// [`is_low`].
pub(super) fn statement(org: OrgId, change: CreditChange, writers: Writers) -> Stmt<'static> {
    let sql = match (change.held > 0, writers) {
        (true, Writers::Several) => constcat::concat!(UPDATE, IF_COVERED, RETURNING_LOW),
        (true, Writers::One) => constcat::concat!(UPDATE, IF_COVERED),
        (false, Writers::Several) => constcat::concat!(UPDATE, RETURNING_LOW),
        (false, Writers::One) => UPDATE,
    };
    let reserved = change.held.saturating_sub(change.released);
    Stmt::new(sql, vals![org, change.added, reserved])
}

/// Whether the credit that [`statement`] has changed is below the threshold of automatic purchases.
pub(super) fn is_low(answer: &Answer) -> bool {
    answer.rows.first().is_some_and(|row| row.only() == Ok(true))
}

/// Query for those of the organizations, a JSON array, with credits below the threshold of automatic purchases.
pub(super) fn low_among(orgs: &str) -> Stmt<'_> {
    Stmt::new(
        "SELECT org_id FROM credit WHERE org_id {IN}SELECT value FROM {JSON_EACH}($1){END} \
         AND balance_micros - reserved_micros < topup_below_micros ORDER BY org_id",
        vals![orgs],
    )
}

/// Refuses a run that the credits of its organization do not cover, by reading them.
pub(super) fn look(tx: &mut dyn Tx, run: &NewRun) -> Result<Option<Error>> {
    match run.payment {
        Payment::Free => Ok(None),
        Payment::Credit => refused(tx, run.org, run.max_cost.get()),
    }
}

/// Retries a change of a credit that was not covered, or returns the refusal. Locks the row first: the available amount may
/// have grown since, and the refusal must report the current amount. Returns whether the credit is low then.
pub(super) fn change_again(
    tx: &mut dyn Tx,
    org: OrgId,
    change: CreditChange,
    writers: Writers,
) -> Result<bool> {
    if change.held == 0 {
        return Err(Error::Corrupt("the credit of an organization is gone".to_owned()));
    }
    tx.batch(&[lock(org)])?;
    if let Some(error) = refused(tx, org, change.held)? {
        return Err(error);
    }
    let gone = Error::Corrupt("the credit of an organization does not cover the run".to_owned());
    let [changed] = batch(tx, &[statement(org, change, writers).exactly(1, gone)])?;
    Ok(is_low(&changed))
}

/// Statement that locks the credit of an organization.
pub(super) fn lock(org: OrgId) -> Stmt<'static> {
    Stmt::new(
        "UPDATE credit SET suspended = suspended WHERE org_id = $1",
        vals![org],
    )
}

/// The refusal of a run that is not covered.
fn refused(tx: &mut dyn Tx, org: OrgId, wanted: i64) -> Result<Option<Error>> {
    let row: Option<CreditRow> = tx.read_opt(OF_ORGANIZATION, vals![org])?;
    let Some(row) = row else {
        return insufficient(wanted, Micros::ZERO).map(Some);
    };
    if row.suspended {
        return Ok(Some(Error::Suspended));
    }
    let available = row.credit.available();
    if available.get() >= wanted {
        return Ok(None);
    }
    insufficient(wanted, available).map(Some)
}

fn insufficient(wanted: i64, available: Micros) -> Result<Error> {
    let max_cost = Micros::try_from(wanted).map_err(|_| Error::Corrupt(format!("{wanted} micros")))?;
    Ok(Error::InsufficientCredit(InsufficientCredit {
        max_cost,
        available,
    }))
}
