//! Budgets that the writing connection of `SQLite` caches: it reads them once, and never uses a stale one.

use futures_util::{FutureExt, future::BoxFuture};

use super::{
    prelude::*,
    tails::{at_once, is_made},
};
use crate::Result;

const ORG: BudgetScope = BudgetScope::Organization;

fn reads_of_budgets(fixture: &Fixture) -> usize {
    let ran = fixture.store.db.faults().watched();
    ran.iter()
        .filter(|(sql, _)| sql.contains("FROM budget b"))
        .count()
}

sqlite! {
    async fn the_budgets_of_a_run_are_read_once(fixture: &Fixture, org: OrgId, other: OrgId) {
        fixture.budget(org, &ORG, 1_000).await;
        let create = async |org| {
            fixture.store.db.faults().watch();
            fixture.created(fixture.costing(org, 5)).await;
            reads_of_budgets(fixture)
        };
        assert_eq!(create(org).await, 1, "nothing is known");
        assert_eq!(create(org).await, 1, "the window had not begun");
        assert_eq!(create(org).await, 0);
        assert_eq!(create(other).await, 1, "nothing is known of the other organization");
        assert_eq!(create(other).await, 0, "it is known to have none");
        fixture.budget(other, &ORG, 10).await;
        assert_eq!(create(other).await, 1, "a budget was changed");
        assert_eq!(fixture.standing(org, &ORG).await.0, 15);
        assert_eq!(fixture.standing(other, &ORG).await.0, 5);
    }

    async fn what_a_transaction_that_is_undone_has_read_is_forgotten(fixture: &Fixture, store: &Store) {
        for guarded in [0, u32::MAX] {
            let org = fixture.org().await;
            let run = |max_cost| NewRun { max_cost: micros(max_cost), ..fixture.new_run(org) };
            fixture.budget(org, &ORG, 10).await;
            store.db.faults().guard(guarded);
            // The create reads that no budget exists, and the commit that deletes the budget fails.
            let faults = store.clone();
            let fail = store.db.write(move |_| {
                faults.db.faults().fail_commit();
                Ok(())
            });
            let delete = store.delete_budget(ORG, fixture.audit_at(org, "budget.delete", fixture.now()));
            let create = store.create_run(run(11)).map(|made| made.map(drop));
            let commands: [BoxFuture<'_, Result<()>>; 3] = [fail.boxed(), delete.boxed(), create.boxed()];
            for done in at_once(store, commands).await {
                assert!(matches!(done, Err(Error::Unavailable(_))), "{done:?}");
            }
            let refused = store.create_run(run(11)).await;
            assert!(matches!(refused, Err(Error::OverBudget(_))), "{refused:?}");
            assert!(is_made(&store.create_run(run(3)).await));
            assert_eq!(fixture.standing(org, &ORG).await.0, 3);
        }
    }
}
