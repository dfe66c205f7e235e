//! Compares the books of the deployment, from its tables, with those of the double.

use std::fmt;

use sortie_testkit::stripe::{Held, HeldIntent, Holdings};

use super::{Shop, Time};
use crate::{people::text, prelude::*};

/// Micros of a cent.
const CENT: i64 = 10_000;

/// Names of rows that must not exist three minutes later, and the queries that find them.
const OPEN: [(&str, &str); 4] = rows! {
    "purchases wait for their page", "SELECT * FROM topup WHERE kind = 'checkout' AND state = 'created'";
    "automatic purchases are under way", "SELECT * FROM topup WHERE kind = 'auto' AND state IN ('created', 'processing')";
    "events are not handled", "SELECT * FROM stripe_event WHERE due_at IS NOT NULL";
    "organizations have few credits, and nothing was bought",
    "SELECT a.org_id, c.balance_micros, c.reserved_micros, c.topup_below_micros FROM auto_topup a \
     JOIN credit c ON c.org_id = a.org_id WHERE a.paused_until IS NULL AND c.balance_micros - c.reserved_micros < c.topup_below_micros";
};

/// Names of rows that must not exist at the end either, and the queries that find them.
const OPEN_AT_THE_END: [(&str, &str); 2] = rows! {
    "purchases are open", "SELECT * FROM topup WHERE state IN ('created', 'open', 'processing')";
    "organizations have reservations", "SELECT * FROM credit WHERE reserved_micros <> 0";
};

/// Payment in the books of the deployment.
struct Paid {
    topup: String,
    held: Held,
}

/// Numbers of entries.
pub(super) struct Counts {
    pub(super) checkouts: usize,
    pub(super) automatic: usize,
    pub(super) refunds: usize,
    disputes: usize,
    unpaid: usize,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} purchases on pages and {} automatic ones, {} refunds, {} disputes, {} purchases that were not paid",
            self.checkouts, self.automatic, self.refunds, self.disputes, self.unpaid
        )
    }
}

fn number(row: &Value, name: &str) -> Result<i64> {
    row[name].as_i64().with_context(|| format!("no {name} in {row}"))
}

/// Payments at the double, each with its purchase.
fn payments_of(holdings: &Holdings) -> impl Iterator<Item = (&String, &HeldIntent)> {
    let topups = holdings.topups.iter();
    topups.flat_map(|(topup, intents)| intents.iter().map(move |intent| (topup, intent)))
}

impl Shop {
    async fn rows(&self, sql: &str) -> Result<Vec<Value>> {
        self.nodes[0].node.rows(sql).await
    }

    async fn count(&self, sql: &str) -> Result<i64> {
        let rows = self.rows(sql).await?;
        number(rows.first().context("no row")?, "n")
    }

    /// Returns the first kind of work that is still open, or `None` if all work is done.
    pub(super) async fn left(&self, time: Time) -> Result<Option<String>> {
        let mut queries = OPEN.to_vec();
        if time == Time::TheEnd {
            queries.extend(OPEN_AT_THE_END);
        }
        for (name, sql) in queries {
            let left = self.rows(sql).await?;
            if let Some(first) = left.first() {
                return Ok(Some(format!("{} {name}: {first}", left.len())));
            }
        }
        let paid = self.paid().await?;
        let holdings = self.double.holdings();
        let nothing = Held::default();
        let differs = payments_of(&holdings).find(|(_, intent)| {
            let ours = paid.get(&intent.id).map_or(&nothing, |paid| &paid.held);
            match time {
                Time::ThreeMinutes => intent.held.captured_cents != ours.captured_cents,
                Time::TheEnd => intent.held != *ours,
            }
        });
        let Some((topup, intent)) = differs else {
            return Ok(None);
        };
        let row = self
            .rows(&format!("SELECT * FROM topup WHERE id = '{topup}'"))
            .await?;
        let ours = paid.get(&intent.id).map(|paid| &paid.held);
        Ok(Some(format!("{intent:?} is {ours:?} in the books, for {row:?}")))
    }

    /// Compares the books after all open work is done.
    pub(super) async fn compare(&self) -> Result<()> {
        let holdings = self.double.holdings();
        let twice = holdings.paid_twice();
        ensure!(twice.is_empty(), "purchases with two payments: {twice:?}");
        ensure!(holdings.others.is_empty(), "payments of nothing: {holdings:?}");
        let mut paid = self.paid().await?;
        for (topup, intent) in payments_of(&holdings) {
            let cents = intent.held.captured_cents;
            let Some(ours) = paid.remove(&intent.id) else {
                ensure!(cents == 0, "{intent:?} of {topup} is not credited");
                continue;
            };
            ensure!(
                ours.topup == *topup && ours.held.captured_cents == cents,
                "{intent:?} of {topup} is a payment of {:?} for {}",
                ours.held,
                ours.topup
            );
        }
        self.compare_refunds().await?;
        let unknown: Vec<&String> = paid.keys().collect();
        ensure!(unknown.is_empty(), "Stripe has no such payments: {unknown:?}");
        let expected: BTreeMap<&str, i64> = holdings
            .customers
            .iter()
            .map(|(customer, held)| (customer.as_str(), held.captured_cents * CENT))
            .filter(|(_, micros)| *micros > 0)
            .collect();
        let sums = self
            .rows(
                "SELECT b.customer AS customer, CAST(SUM(l.amount_micros) AS BIGINT) AS n FROM ledger l \
                 JOIN billing_account b ON b.org_id = l.org_id WHERE l.kind = 'purchase' GROUP BY b.customer",
            )
            .await?;
        let sums: BTreeMap<String, i64> = sums
            .iter()
            .map(|row| Ok((text(row, "customer")?, number(row, "n")?)))
            .collect::<Result<_>>()?;
        let sums: BTreeMap<&str, i64> = sums.iter().map(|(of, sum)| (of.as_str(), *sum)).collect();
        ensure!(
            sums == expected,
            "bought were {sums:?}, and Stripe holds {expected:?}"
        );
        let acknowledged: usize = self.everybody().map(|customer| customer.runs.len()).sum();
        let runs = self.count("SELECT COUNT(*) AS n FROM run").await?;
        ensure!(
            usize::try_from(runs) == Ok(acknowledged),
            "{acknowledged} runs were acknowledged, and there are {runs}"
        );
        Ok(())
    }

    /// Compares the refunds that were ordered here: Stripe has made each of them at most once.
    async fn compare_refunds(&self) -> Result<()> {
        let names = self.double.refund_names();
        let made: BTreeSet<&String> = names.iter().collect();
        ensure!(
            made.len() == names.len(),
            "Stripe has made refunds twice: {names:?}"
        );
        // Stripe may have made others that no event has reported yet.
        for row in self
            .rows("SELECT id FROM refund_order WHERE state = 'made'")
            .await?
        {
            let id = text(&row, "id")?;
            ensure!(made.contains(&id), "Stripe has not made {id}");
        }
        Ok(())
    }

    /// Payments in the books, by intent.
    async fn paid(&self) -> Result<BTreeMap<String, Paid>> {
        let sql = "SELECT intent_id, topup_id, amount_cents, refunded_cents, disputed_cents FROM payment";
        let rows = self.rows(sql).await?;
        rows.iter()
            .map(|row| {
                let paid = Paid {
                    topup: text(row, "topup_id")?,
                    held: Held {
                        captured_cents: number(row, "amount_cents")?,
                        refunded_cents: number(row, "refunded_cents")?,
                        disputed_cents: number(row, "disputed_cents")?,
                    },
                };
                Ok((text(row, "intent_id")?, paid))
            })
            .collect()
    }

    /// Learns which organization each customer of Stripe is.
    pub(super) async fn learn_customers(&mut self) -> Result<()> {
        let rows = self.rows("SELECT org_id, customer FROM billing_account").await?;
        for row in rows {
            let (organization, known_as) = (text(&row, "org_id")?, text(&row, "customer")?);
            for customer in &mut self.customers {
                if customer.organization == organization {
                    customer.known_as = Some(known_as.clone());
                }
            }
        }
        Ok(())
    }

    /// Counts what the books have.
    pub(super) async fn counts(&self) -> Result<Counts> {
        let count = async |sql: &str| Ok::<_, anyhow::Error>(usize::try_from(self.count(sql).await?)?);
        let topups = "SELECT COUNT(*) AS n FROM topup WHERE state";
        Ok(Counts {
            checkouts: count(&format!("{topups} = 'paid' AND kind = 'checkout'")).await?,
            automatic: count(&format!("{topups} = 'paid' AND kind = 'auto'")).await?,
            refunds: count("SELECT COUNT(*) AS n FROM refund").await?,
            disputes: count("SELECT COUNT(*) AS n FROM dispute").await?,
            unpaid: count(&format!("{topups} <> 'paid'")).await?,
        })
    }
}
