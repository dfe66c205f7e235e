//! Payments of deleted organizations. `docs/BILLING.md#deleted-organizations`

use std::time::Duration;

use sortie_api::{ErrorCode, TopupState};
use sortie_store::organizations::OrganizationDeletion;
use sortie_testkit::{
    Checked, Database, both_databases,
    stripe::{Call, Card, Fault, Settlement},
};

use super::{HOUR, Rig, checkout};
use crate::{CheckoutOrder, Error};

both_databases! {
    the_pages_of_a_deleted_organization_expire,
    what_is_paid_after_the_deletion_is_refunded,
    a_refund_of_a_deleted_organization_is_reported_until_it_is_made,
    a_refund_that_the_bank_returns_is_reported_until_the_payment_has_gone_back,
    a_subscription_after_the_deletion_is_cancelled,
    a_page_that_was_being_made_during_the_deletion_is_not_handed_out,
}

impl Rig {
    /// Orders credits on a page. Returns the session.
    async fn page(&self) -> String {
        let caller = self.caller();
        let url = self
            .billing
            .create_checkout(&caller, &checkout(2_500))
            .await
            .unwrap();
        url.rsplit('/').next().unwrap().to_owned()
    }

    async fn delete(&self) {
        let deletion = OrganizationDeletion {
            org: self.org,
            owner: self.owner,
            name: "Plum".to_owned(),
            at: self.clock.now(),
        };
        let audit = self.audit();
        self.billing
            .0
            .store
            .delete_organization(deletion, audit)
            .await
            .unwrap();
    }
}

async fn the_pages_of_a_deleted_organization_expire(database: Database) -> Checked {
    let rig = Rig::start(database).await;
    rig.double.add_price("price_team", 9_900);
    let page = rig.page().await;
    let url = rig
        .billing
        .create_license_checkout(rig.org, "team")
        .await
        .unwrap();
    let license = url.rsplit('/').next().unwrap();
    rig.double.fail(Call::ExpireSession, 1, Fault::ErrorKept);
    rig.delete().await;
    rig.work_for(Duration::from_mins(3)).await;
    for session in [&page, license] {
        assert!(
            rig.double.pay(session, Card::Good).is_err(),
            "the page has expired"
        );
    }
    let topups = rig.database.rows("SELECT state FROM topup").await?;
    assert_eq!(topups[0]["state"], TopupState::Expired.as_str());
    // A request for a page was in flight.
    let order = CheckoutOrder {
        customer: &rig.customer,
        amount_cents: 500,
        description: "x",
        topup: "x",
        saves_card: false,
        expires_at: rig.double.now() + 3_600,
        success_url: "https://accounts.example/",
        cancel_url: "https://accounts.example/",
    };
    let late = rig.billing.0.stripe.create_checkout("late", &order).await?.id;
    rig.work_for(Duration::from_mins(15)).await;
    assert!(rig.double.pay(&late, Card::Good).is_err());
    let asked = rig.double.requests(Call::ListSessions).len();
    rig.work_for(2 * HOUR).await;
    assert_eq!(
        rig.double.requests(Call::ListSessions).len(),
        asked,
        "nothing is left to do"
    );
    assert_eq!(rig.differences(), 0);
    Ok(())
}

async fn what_is_paid_after_the_deletion_is_refunded(database: Database) -> Checked {
    let rig = Rig::start(database).await;
    let page = rig.page().await;
    rig.double.pay(&page, Card::Slow).unwrap();
    rig.delete().await;
    rig.work_for(HOUR).await;
    rig.double.settle(&rig.first_payment().id, Settlement::Paid)?;
    rig.work_for(2 * HOUR).await;
    let total = rig.double.holdings().total();
    assert_eq!((total.captured_cents, total.refunded_cents), (2_500, 2_500));
    assert_eq!((rig.balance().await, rig.differences()), (0, 1));
    let kinds = rig
        .database
        .rows("SELECT kind FROM ledger ORDER BY at, cause")
        .await?;
    assert_eq!(
        (&kinds[0]["kind"], &kinds[1]["kind"]),
        (&"purchase".into(), &"refund".into())
    );
    Ok(())
}

async fn a_refund_of_a_deleted_organization_is_reported_until_it_is_made(database: Database) -> Checked {
    let rig = Rig::start(database).await;
    let page = rig.page().await;
    // Paid before the deletion, but reported after it.
    rig.double.pay(&page, Card::Good).unwrap();
    rig.delete().await;
    for nth in 1..=3 {
        rig.double.fail(Call::CreateRefund, nth, Fault::TooMany);
    }
    rig.work_for(HOUR).await;
    assert_eq!(rig.differences(), 4, "the payment, and each attempt that failed");
    let total = rig.double.holdings().total();
    assert_eq!(
        (total.captured_cents, total.refunded_cents, rig.balance().await),
        (2_500, 2_500, 0)
    );
    rig.work_for(3 * HOUR).await;
    assert_eq!(rig.differences(), 4);
    Ok(())
}

async fn a_refund_that_the_bank_returns_is_reported_until_the_payment_has_gone_back(
    database: Database,
) -> Checked {
    let rig = Rig::start(database).await;
    let page = rig.page().await;
    rig.double.pay(&page, Card::Good).unwrap();
    rig.delete().await;
    rig.work_for(HOUR).await;
    let refunds = rig.database.rows("SELECT id FROM refund").await?;
    let before = rig.differences();
    rig.double.fail_refund(refunds[0]["id"].as_str().unwrap())?;
    rig.work_for(3 * HOUR).await;
    assert!(rig.differences() > before, "nobody was told");
    // The operator refunds it in the dashboard.
    rig.double.refund(&rig.first_payment().id, 2_500)?;
    rig.work_for(3 * HOUR).await;
    let told = rig.differences();
    rig.work_for(6 * HOUR).await;
    assert_eq!((rig.differences(), rig.balance().await), (told, 0));
    Ok(())
}

async fn a_subscription_after_the_deletion_is_cancelled(database: Database) -> Checked {
    let rig = Rig::start(database).await;
    rig.double.add_price("price_team", 9_900);
    rig.delete().await;
    let subscription = rig.double.subscribe(&rig.customer, "price_team", 1)?;
    rig.double.fail(Call::CancelSubscription, 1, Fault::ErrorBefore);
    rig.work_for(2 * HOUR).await;
    let found = rig.billing.0.stripe.subscription(&subscription).await?;
    assert_eq!(found.status, "canceled");
    assert_eq!(
        (
            rig.differences(),
            rig.double.requests(Call::CancelSubscription).len()
        ),
        (2, 1)
    );
    Ok(())
}

async fn a_page_that_was_being_made_during_the_deletion_is_not_handed_out(database: Database) -> Checked {
    let rig = Rig::start(database).await;
    rig.double.fail(Call::CreateSession, 1, Fault::HeldBefore);
    let caller = rig.caller();
    let meanwhile = async {
        rig.double
            .wait_for_requests(Call::CreateSession, 1)
            .await
            .unwrap();
        rig.delete().await;
        rig.double.release();
    };
    let order = checkout(2_500);
    let (page, ()) = tokio::join!(rig.billing.create_checkout(&caller, &order), meanwhile);
    assert!(
        matches!(&page, Err(Error::Refused(refused)) if refused.code == ErrorCode::Conflict),
        "{page:?}"
    );
    Ok(())
}
