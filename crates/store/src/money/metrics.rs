//! Metrics of credits, which only a hosted deployment has.

use prometheus_client::{
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};
use sortie_api::LedgerKind;

use crate::db::tail::Tail;

/// Movements of credits that this node has committed, and runs that it has refused.
#[derive(Debug)]
pub(crate) struct CreditMetrics {
    holds: Counter,
    refusals: Counter,
    entries: OfKind,
    micros: OfKind,
    clamped: Counter,
}

/// Figures by kind of a movement of credits, and by its direction.
type OfKind = Family<[(&'static str, &'static str); 2], Counter>;

/// Counters of movements, each at 0: `rate` and `increase` would miss the first event of a counter that appears with it.
fn of_movements() -> OfKind {
    let counters = OfKind::default();
    for kind in LedgerKind::ALL {
        for direction in ["added", "taken"] {
            drop(counters.get_or_create(&[("kind", kind.as_str()), ("direction", direction)]));
        }
    }
    counters
}

impl Default for CreditMetrics {
    fn default() -> Self {
        Self {
            holds: Counter::default(),
            refusals: Counter::default(),
            entries: of_movements(),
            micros: of_movements(),
            clamped: Counter::default(),
        }
    }
}

impl CreditMetrics {
    /// Counts a run that was refused because the credits of its organization do not cover it.
    pub(crate) fn refused(&self) {
        self.refusals.inc();
    }

    /// Counts an entry of the ledger that was committed.
    pub(crate) fn entered(&self, kind: LedgerKind, amount: i64) {
        let direction = if amount < 0 { "taken" } else { "added" };
        let labels = [("kind", kind.as_str()), ("direction", direction)];
        self.entries.get_or_create(&labels).inc();
        self.micros.get_or_create(&labels).inc_by(amount.unsigned_abs());
    }

    /// Counts the reservations and charges of the tails of a committed transaction.
    pub(crate) fn moved(&self, tails: &[Tail]) {
        for tail in tails {
            match tail {
                Tail::Charge(charge) => {
                    self.entered(LedgerKind::Charge, charge.amount.saturating_neg());
                    if charge.excess > 0 {
                        self.clamped.inc();
                        tracing::error!(
                            run = %charge.run,
                            reserved_micros = charge.amount,
                            excess_micros = charge.excess,
                            "charged a run only the reserved amount, although it cost more"
                        );
                    }
                }
                Tail::Credit(_, change) if change.held > 0 => {
                    self.holds.inc();
                }
                Tail::Credit(..) | Tail::Window(..) | Tail::Allowance(_) => {}
            }
        }
    }

    /// Registers the figures of credits, which only a hosted deployment has.
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "store_credit_holds",
            "Runs for which credits were reserved",
            self.holds.clone(),
        );
        registry.register(
            "store_credit_refusals",
            "Runs that were refused because the credits of their organization did not cover them",
            self.refusals.clone(),
        );
        registry.register(
            "store_ledger_entries",
            "Entries of the ledger that this node has added, by kind and direction",
            self.entries.clone(),
        );
        registry.register(
            "store_ledger_micros",
            "Micros that entries of the ledger have added to or taken from balances, by kind and direction",
            self.micros.clone(),
        );
        registry.register(
            "store_clamped_settlements",
            "Runs that cost more than was reserved for them, and were charged no more than that",
            self.clamped.clone(),
        );
    }
}
