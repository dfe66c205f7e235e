//! The operator switches to another Stripe account: the customers of the first one are missing there.

use std::time::Duration;

use futures_util::future::join_all;
use sortie_api::{ErrorCode, TopupState, billing::PaymentMethodSync};
use sortie_store::outbox::PaymentNotice;
use sortie_testkit::{
    Checked, Database, StripeDouble, both_databases,
    stripe::{Call, Card, Fault},
};

use super::{BOUGHT, Credential, HOUR, REQUEST, Rig, StripeSettings, checkout};
use crate::{Billing, Error, Options};

both_databases! {
    every_page_is_made_for_a_customer_of_the_new_account,
    an_automatic_purchase_with_a_card_of_the_old_account_disables_them,
    many_at_once_keep_one_new_customer,
    purchases_of_the_old_account_end,
}

impl Rig {
    /// Restarts the node with the key of another Stripe account.
    async fn change_account(&mut self) {
        let double = StripeDouble::start().await.unwrap();
        double.set_clock(self.clock.now().as_micros() / 1_000_000);
        double.add_price("price_team", 49_900);
        let parts = &self.billing.0;
        let options = Options {
            stripe: StripeSettings {
                secret_key: Credential::new(double.secret_key()),
                api_url: double.url().parse().unwrap(),
                outbound: sortie_net::Outbound::default(),
                ..parts.options.stripe.clone()
            },
            ..parts.options.clone()
        };
        self.billing = Billing::new(options, parts.store.clone()).unwrap();
        self.double = double;
    }

    async fn checkout(&self) -> Result<String, Error> {
        let caller = self.caller();
        self.billing.create_checkout(&caller, &checkout(5_000)).await
    }

    async fn known_customer(&self) -> String {
        let account = self.billing.0.store.billing_account(self.org).await.unwrap();
        account.unwrap().customer
    }

    async fn mails(&self) -> usize {
        self.database.rows("SELECT kind FROM mail").await.unwrap().len()
    }
}

/// `docs/BILLING.md#change-the-account`
async fn every_page_is_made_for_a_customer_of_the_new_account(database: Database) -> Checked {
    for page in ["checkout", "portal", "license"] {
        let mut rig = Rig::start(database).await;
        rig.enable(Card::Good).await;
        rig.change_account().await;
        let open = async || match page {
            "checkout" => rig.checkout().await,
            "portal" => rig.billing.create_portal(rig.org).await,
            _ => rig.billing.create_license_checkout(rig.org, "team").await,
        };
        let url = open().await.unwrap();
        let customer = rig.known_customer().await;
        assert_ne!(customer, rig.customer, "{page}");
        let holdings = rig.double.requests(Call::CreateCustomer);
        assert_eq!(holdings.len(), 1, "{page}");
        open().await.unwrap();
        assert_eq!(rig.double.requests(Call::CreateCustomer).len(), 1, "{page}");
        // The card belongs to the old account.
        assert_eq!(rig.failures().await, None, "{page}");
        assert_eq!(rig.notices(), [PaymentNotice::CardGone], "{page}");
        assert_eq!(rig.mails().await, 1, "{page}");
        let (card, sync) = rig.billing.card(rig.org).await.unwrap();
        assert_eq!((card, sync), (None, PaymentMethodSync::Synced), "{page}");
        if page == "checkout" {
            rig.double
                .pay(url.rsplit('/').next().unwrap(), Card::Good)
                .unwrap();
            rig.work_for(Duration::from_mins(3)).await;
            assert_eq!(rig.balance().await, BOUGHT);
            rig.check("the new account").await;
        }
    }
    Ok(())
}

/// `docs/BILLING.md#change-the-account`
async fn an_automatic_purchase_with_a_card_of_the_old_account_disables_them(database: Database) -> Checked {
    let mut rig = Rig::start(database).await;
    rig.enable(Card::Good).await;
    rig.change_account().await;
    rig.buy().await;
    assert_eq!(rig.last().await, Some(TopupState::Failed));
    assert_eq!(rig.failures().await, None);
    assert_eq!(rig.notices(), [PaymentNotice::CardGone]);
    assert_eq!(rig.mails().await, 1);
    rig.work_for(2 * HOUR).await;
    rig.buy().await;
    assert_eq!(rig.states().await, ["failed"]);
    assert!(
        matches!(rig.put(REQUEST).await, Err(Error::Refused(refused)) if refused.code == ErrorCode::Conflict && refused.text.contains("no card")),
        "Stripe has no card"
    );
    rig.check("disabled").await;
    Ok(())
}

async fn many_at_once_keep_one_new_customer(database: Database) -> Checked {
    let mut rig = Rig::start(database).await;
    rig.change_account().await;
    rig.double.fail(Call::CreateCustomer, 1, Fault::ErrorAfter);
    for opened in join_all((0..8).map(|_| rig.billing.create_portal(rig.org))).await {
        // Stripe is still processing the request of another caller.
        assert!(
            matches!(opened, Ok(_) | Err(Error::Stripe(crate::StripeError::InProgress))),
            "{opened:?}"
        );
    }
    rig.billing.create_portal(rig.org).await.unwrap();
    let sent = rig.double.requests(Call::CreatePortalSession);
    assert_eq!(
        sent.last().unwrap().parameters["customer"],
        rig.known_customer().await
    );
    assert_eq!(rig.mails().await, 0, "nothing was disabled");
    Ok(())
}

async fn purchases_of_the_old_account_end(database: Database) -> Checked {
    let mut rig = Rig::start(database).await;
    rig.enable(Card::Slow).await;
    rig.checkout().await.unwrap();
    rig.buy().await;
    rig.work_for(Duration::from_mins(1)).await;
    assert_eq!(rig.states().await, ["processing"]);
    rig.change_account().await;
    rig.work_for(Duration::from_mins(30)).await;
    assert_eq!(rig.states().await, ["failed"]);
    let open = async || {
        let rows = rig.database.rows("SELECT id FROM topup WHERE state = 'open'");
        rows.await.unwrap().len()
    };
    assert_eq!(open().await, 1, "the page of the old account can still be paid");
    rig.work_for(HOUR).await;
    assert_eq!(open().await, 0);
    Ok(())
}
