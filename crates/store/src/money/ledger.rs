//! The ledger: every movement of credits, recorded once and never changed.
//!
//! The primary key of an entry is its cause, so a cause moves a balance once even if it is reported repeatedly. Settlements
//! enter their charges by [`charge`], in the tail of their transaction. Every other movement goes through [`append`].
//!
//! Both hold the lock of the organization's credit when they choose the time of an entry: that of its cause, or the time
//! after the newest entry if that is later. An entry is therefore always newer than those that were committed before it.

use sortie_api::{LedgerEntry, LedgerKind, OrgId, RunId, Timestamp, UserId};

use super::credit::{self, Credit};
use crate::{
    Error, Result, Store,
    access::{Audit, audit::record},
    db::{
        Stmt, Tx, batch, filled, insert, row, select,
        tail::{CreditChange, Tail},
        vals,
    },
    organizations::lock,
};

/// Error of an entry with a cause that has already moved credits in another way.
pub const OTHER_ENTRY: Error =
    Error::Conflict("the reference was used before, for another organization, amount or kind of movement");

/// Entry to append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLedgerEntry {
    /// Name of the reason: an entry with a cause that exists is not added again.
    pub cause: String,
    /// Organization of the entry.
    pub org: OrgId,
    /// Kind of the movement.
    pub kind: LedgerKind,
    /// Micros added to the balance; negative for a withdrawal.
    pub amount_micros: i64,
    /// Text for people.
    pub description: String,
    /// Payment that the movement belongs to.
    pub payment: Option<String>,
    /// Purchase that the movement belongs to.
    pub topup: Option<String>,
    /// Person who made the movement.
    pub user: Option<UserId>,
    /// Time of the movement. The entry gets a later time if the newest entry of the organization is not older.
    pub at: Timestamp,
}

/// Result of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// The entry is new, and the balance has moved.
    New,
    /// This entry was there, and nothing has changed.
    Before,
}

row! {
    /// Position of an entry in the list of its organization.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct LedgerPosition {
        /// Time of the entry.
        pub at: Timestamp = "at",
        /// Cause of the entry.
        pub cause: String = "cause",
    }
}

row! {
    struct LedgerRow {
        position: LedgerPosition,
        kind: LedgerKind = "kind",
        amount_micros: i64 = "amount_micros",
        description: String = "description",
        run: Option<RunId> = "run_id",
        payment: Option<String> = "payment_id",
        topup: Option<String> = "topup_id",
    }
}

impl From<LedgerRow> for (LedgerPosition, LedgerEntry) {
    fn from(row: LedgerRow) -> Self {
        let entry = LedgerEntry {
            kind: row.kind,
            amount_micros: row.amount_micros,
            description: row.description,
            created_at: row.position.at,
            run_id: row.run,
            payment_id: row.payment,
            topup_id: row.topup,
        };
        (row.position, entry)
    }
}

impl Store {
    /// Operator: moves the credits of an organization by a grant or a correction. [`OTHER_ENTRY`] if its cause is there with
    /// another organization, kind or amount. `NotFound` for an organization that is not there or was deleted.
    pub async fn move_credits(&self, entry: NewLedgerEntry, audit: Audit) -> Result<Appended> {
        let (kind, amount) = (entry.kind, entry.amount_micros);
        let appended = self
            .db
            .write(move |tx| {
                tx.batch(&[lock(entry.org)])?;
                let appended = append(tx, &entry)?;
                if appended == Appended::New {
                    tx.batch(&[record(&audit)])?;
                }
                Ok(appended)
            })
            .await?;
        self.count_entry(appended, kind, amount);
        Ok(appended)
    }

    /// Counts a committed entry in the metrics.
    pub(crate) fn count_entry(&self, appended: Appended, kind: LedgerKind, amount: i64) {
        if appended == Appended::New {
            self.money.metrics.entered(kind, amount);
        }
    }

    /// Returns the credits of an organization, with its newest entries of the ledger, at most `limit`.
    pub async fn billing(
        &self,
        org: OrgId,
        limit: u32,
    ) -> Result<(Credit, Vec<(LedgerPosition, LedgerEntry)>)> {
        self.db
            .read(move |tx| Ok((credit::read(tx, org)?, list(tx, org, None, limit)?)))
            .await
    }

    /// Returns at most `limit` entries of an organization after the position `before`, newest first, each with its position.
    pub async fn list_ledger(
        &self,
        org: OrgId,
        before: Option<LedgerPosition>,
        limit: u32,
    ) -> Result<Vec<(LedgerPosition, LedgerEntry)>> {
        self.db
            .read(move |tx| list(tx, org, before.as_ref(), limit))
            .await
    }
}

fn list(
    tx: &mut dyn Tx,
    org: OrgId,
    before: Option<&LedgerPosition>,
    limit: u32,
) -> Result<Vec<(LedgerPosition, LedgerEntry)>> {
    let (at, cause) = before.map_or((Timestamp::from_micros(i64::MAX), ""), |before| {
        (before.at, before.cause.as_str())
    });
    let rows: Vec<LedgerRow> = tx.read_all(
        select!(
            LedgerRow,
            " FROM ledger WHERE org_id = $1 AND (at, cause) < ($2, $3) ORDER BY at DESC, cause DESC LIMIT $4"
        ),
        vals![org, at, cause, limit],
    )?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// Time of a new entry of the organization `@org` with a cause of the time `@at`.
const TIME_OF_ENTRY: &str = "{GREATEST}(@at, 1 + COALESCE((SELECT l.at FROM ledger l WHERE l.org_id = @org ORDER BY l.at DESC LIMIT 1), -1))";

/// Time of a new entry, in an insertion with the organization as its second parameter.
const TIME_OF_NEW: &str = filled!(TIME_OF_ENTRY, "@at" = "CAST(@ AS BIGINT)", "@org" = "$2");

/// Appends an entry and moves the balance by its amount, unless the entry exists. [`OTHER_ENTRY`] if its cause exists with
/// another organization, kind or amount. A command runs it last, because it locks the credit of the organization.
pub(crate) fn append(tx: &mut dyn Tx, entry: &NewLedgerEntry) -> Result<Appended> {
    let [_, _, inserted] = batch(
        tx,
        &[
            credit::begin(entry.org),
            credit::lock(entry.org),
            insert!("ledger", {
                "cause": entry.cause.as_str(),
                "org_id": entry.org,
                "at" = TIME_OF_NEW: entry.at,
                "kind": entry.kind,
                "amount_micros": entry.amount_micros,
                "payment_id": entry.payment.as_deref(),
                "topup_id": entry.topup.as_deref(),
                "description": entry.description.as_str(),
                "user_id": entry.user,
            }, " ON CONFLICT (cause) DO NOTHING"),
        ],
    )?;
    if inserted.affected == 1 {
        tx.tail(Tail::Credit(entry.org, CreditChange::entry(entry.amount_micros)));
        return Ok(Appended::New);
    }
    tx.batch(&[Stmt::new(
        "SELECT 1 FROM ledger WHERE cause = $1 AND org_id = $2 AND kind = $3 AND amount_micros = $4",
        vals![entry.cause.as_str(), entry.org, entry.kind, entry.amount_micros],
    )
    .exactly(1, OTHER_ENTRY)])?;
    Ok(Appended::Before)
}

/// Enters the costs of the settled runs `ids`, a JSON array of `count` runs with a cost. The transaction has already
/// subtracted the amounts from the balances, and thereby locked these. A second charge of a run is an error of the database.
pub(super) fn charge(ids: &str, count: usize) -> Stmt<'_> {
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    Stmt::new(
        constcat::concat!(
            "INSERT INTO ledger (cause, org_id, at, kind, amount_micros, run_id, description) SELECT r.id, r.org_id, ",
            filled!(TIME_OF_ENTRY, "@at" = "r.finished_at", "@org" = "r.org_id"),
            ", 'charge', 0 - r.cost_micros, r.id, 'run' FROM run r \
             WHERE r.id {IN}SELECT value FROM {JSON_EACH}($1){END} AND r.cost_micros > 0 AND r.finished_at IS NOT NULL"
        ),
        vals![ids],
    )
    .exactly(count, Error::Corrupt("a settled run has no cost".to_owned()))
}
