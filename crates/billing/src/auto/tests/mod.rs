//! Automatic purchases against a test double of Stripe: every card, every failure of a request, and a node killed between any two
//! steps. In every case a purchase has at most one payment, and the credits equal the payments.

mod accounts;
mod cards;
mod comparison;
mod deleted;
mod failures;
mod refunds;
mod stops;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use sortie_api::{
    Credential, ErrorCode, LedgerKind, MailId, OrgId, SessionId, Timestamp, TopupState, UserId,
    auto_topup::PutAutoTopup, billing::CreateCheckout,
};
use sortie_base::Clock;
use sortie_store::{
    Store,
    access::{Actor, Audit, Caller},
    money::{BeginAutoTopup, NewLedgerEntry, TopupRow},
    outbox::{NewMail, NoticeWriter, OwnerRow, PaymentNotice},
    people::{NewOrganization, NewPerson, NewSession, SessionKind},
};
use sortie_testkit::{
    Checked, Database, StripeDouble, both_databases,
    postgres::TestDatabase,
    stripe::{Call, Card, DisputeStage, Fault, HeldIntent, Settlement, Verdict},
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{AutoTopupLimits, Billing, Error, Options, Plan, StripeSettings};

const AT: Timestamp = Timestamp::from_micros(1_763_674_200_000_000);
const HOUR: Duration = Duration::from_hours(1);
/// Settings: buy $50 if less than $10 is available.
const REQUEST: PutAutoTopup = PutAutoTopup {
    enabled: true,
    threshold_cents: Some(1_000),
    amount_cents: Some(5_000),
    consent: Some(true),
};

/// Order on a checkout page that does not save the card.
const fn checkout(amount_cents: i64) -> CreateCheckout {
    CreateCheckout {
        amount_cents,
        save_payment_method: false,
    }
}

/// Credits of a purchase.
const BOUGHT: i64 = 50_000_000;

/// Notices that the test has received.
#[derive(Debug, Default)]
struct Notices(Mutex<Vec<PaymentNotice>>);

impl NoticeWriter for Notices {
    fn write(&self, owner: &OwnerRow, organization: &str, notice: &PaymentNotice) -> Option<NewMail> {
        static WRITTEN: AtomicU8 = AtomicU8::new(0);
        assert_eq!((owner.email.as_str(), organization), ("ann@example.com", "Plum"));
        self.0.lock().push(notice.clone());
        let number = WRITTEN.fetch_add(1, Ordering::SeqCst);
        Some(NewMail {
            id: MailId::new(AT, [number; 10]),
            kind: "notice",
            content: Vec::new(),
            dedupe: None,
            created_at: AT,
            due_at: AT,
            give_up_at: AT + HOUR,
        })
    }

    fn queued(&self) {}
}

/// A node, and an organization with a card.
struct Rig {
    double: StripeDouble,
    database: TestDatabase,
    clock: Clock,
    notices: Arc<Notices>,
    billing: Billing,
    org: OrgId,
    owner: UserId,
    customer: String,
}

impl Rig {
    async fn start(database: Database) -> Self {
        let limits = AutoTopupLimits {
            per_day: 100,
            ..AutoTopupLimits::default()
        };
        Self::with(database, limits).await
    }

    async fn with(database: Database, limits: AutoTopupLimits) -> Self {
        let migrate = async |url: &str| Ok(Store::open(url).await.map(drop)?);
        let database = TestDatabase::made_by(database, "store", migrate).await.unwrap();
        let double = StripeDouble::start().await.unwrap();
        let (clock, notices) = (Clock::manual(AT), Arc::<Notices>::default());
        double.set_clock(AT.as_micros() / 1_000_000);
        let options = Options {
            clock: clock.clone(),
            org_url: "https://accounts.example".to_owned(),
            stripe: StripeSettings {
                secret_key: Credential::new(double.secret_key()),
                webhook_secrets: vec![Credential::new("whsec_hush")],
                api_url: double.url().parse().unwrap(),
                outbound: sortie_net::Outbound::default(),
            },
            auto_topup: limits,
            plans: vec![Plan {
                name: "team".to_owned(),
                price: "price_team".to_owned(),
                monthly_runs: 1_000,
                deployments: 2,
            }],
            notices: Some(Arc::clone(&notices) as Arc<dyn NoticeWriter>),
        };
        let billing = Billing::new(options, Store::open(database.url()).await.unwrap()).unwrap();
        let (owner, org) = (UserId::new(AT, [1; 10]), OrgId::new(AT, [2; 10]));
        let mut rig = Self {
            double,
            database,
            clock,
            notices,
            billing,
            org,
            owner,
            customer: String::new(),
        };
        rig.sign_up().await;
        rig.customer = rig.billing.0.customer(org).await.unwrap();
        rig
    }

    fn audit(&self) -> Audit {
        self.billing
            .0
            .audit(self.org, &Actor::default(), "test.change", "x")
            .unwrap()
    }

    async fn sign_up(&self) {
        let person = NewPerson {
            id: self.owner,
            email: "ann@example.com".to_owned(),
            email_key: "ann@example.com".to_owned(),
            name: "Ann".to_owned(),
            password: "x".to_owned(),
            created_at: AT,
        };
        let session = NewSession {
            id: SessionId::new(AT, [1; 10]),
            hash: [1; 32],
            user: self.owner,
            kind: SessionKind::Api,
            created_at: AT,
            expires_at: AT + HOUR,
            address: None,
            agent: None,
        };
        let store = &self.billing.0.store;
        store.sign_up(person, Some(session), None).await.unwrap();
        let new = NewOrganization {
            id: self.org,
            name: "Plum".to_owned(),
            owner: self.owner,
            created_at: AT,
        };
        store.create_organization(new, self.audit()).await.unwrap();
    }

    /// The owner of the organization.
    fn caller(&self) -> Caller {
        Caller {
            org: self.org,
            actor: Actor {
                user: Some(self.owner),
                ..Actor::default()
            },
        }
    }

    async fn put(&self, request: PutAutoTopup) -> Result<(), Error> {
        let caller = self.caller();
        let put = self.billing.put_auto_topup((&caller, self.owner), &request).await;
        put.map(drop)
    }

    /// Saves a card, and enables automatic purchases with it.
    async fn enable(&self, card: Card) {
        self.double.save_card(&self.customer, card).unwrap();
        self.put(REQUEST).await.unwrap();
    }

    /// First payment that Stripe has for a purchase.
    fn first_payment(&self) -> HeldIntent {
        let mut payments = self.double.holdings().topups.into_values().flatten();
        payments.next().unwrap()
    }

    /// Card that is saved.
    async fn card(&self) -> String {
        let account = self.billing.0.store.billing_account(self.org).await.unwrap();
        account.unwrap().card.unwrap().payment_method
    }

    /// Moves the credits.
    async fn give(&self, amount_micros: i64) {
        let audit = self.audit();
        let entry = NewLedgerEntry {
            cause: format!("correction:{}", audit.id),
            org: self.org,
            kind: LedgerKind::Correction,
            amount_micros,
            description: "x".to_owned(),
            payment: None,
            topup: None,
            user: None,
            at: audit.at,
        };
        self.billing.0.store.move_credits(entry, audit).await.unwrap();
    }

    /// Buys due credits, as the task does every minute.
    async fn buy(&self) {
        self.billing.0.buy_for_all().await.unwrap();
    }

    /// Advances the clocks of the node and of Stripe.
    fn pass(&self, by: Duration) {
        self.clock.set(self.clock.now() + by);
        self.double.advance(by);
    }

    /// Lets the nodes process due work repeatedly for this time.
    async fn work_for(&self, time: Duration) {
        let step = if time < HOUR {
            Duration::from_secs(15)
        } else {
            Duration::from_mins(5)
        };
        let until = self.clock.now() + time;
        while self.clock.now() < until {
            self.pass(step);
            self.billing.turn().await.unwrap();
        }
    }

    /// States of the automatic purchases, oldest first.
    async fn states(&self) -> Vec<String> {
        let sql = "SELECT state FROM topup WHERE kind = 'auto' ORDER BY created_at, id";
        let rows = self.database.rows(sql).await.unwrap();
        rows.iter()
            .map(|row| row["state"].as_str().unwrap().to_owned())
            .collect()
    }

    async fn balance(&self) -> i64 {
        self.billing
            .0
            .store
            .credit(self.org)
            .await
            .unwrap()
            .balance_micros
    }

    async fn last(&self) -> Option<TopupState> {
        self.billing.0.store.auto_topup(self.org).await.unwrap().1
    }

    /// Number of consecutive failures, and the end of the pause. `None` while automatic purchases are disabled.
    async fn failures(&self) -> Option<(i64, Option<Timestamp>)> {
        let settings = self.billing.0.auto_topup(self.org).await.unwrap();
        settings.map(|settings| (settings.failures, settings.paused_until))
    }

    /// Checks the invariants: a purchase has at most one payment, and the credits equal the payments.
    async fn check(&self, at: &str) {
        let holdings = self.double.holdings();
        assert_eq!(holdings.paid_twice(), Vec::<&str>::new(), "{at}");
        let bought = self.balance().await;
        assert_eq!(bought, holdings.total().captured_cents * 10_000, "{at}");
        assert!(holdings.others.is_empty(), "{at}");
    }

    fn notices(&self) -> Vec<PaymentNotice> {
        self.notices.0.lock().clone()
    }

    /// Begins a purchase without sending it, like a node that is killed in between.
    async fn begun(&self) -> TopupRow {
        let at = self.clock.now();
        let begin = BeginAutoTopup {
            id: sortie_api::TopupId::new(at, [9; 10]),
            org: self.org,
            at,
            check_at: at + Duration::from_secs(30),
            per_day: 5,
            cents_per_day: i64::MAX,
        };
        let topup = self.billing.0.store.begin_auto_topup(begin).await.unwrap();
        topup.unwrap()
    }
}

both_databases! {
    settings_need_a_saved_card_that_stripe_has_now,
    a_low_balance_is_told_and_bought_for_at_once,
    enough_credits_buy_nothing,
    the_limits_of_a_day_end_the_purchases,
    a_dispute_is_told_to_the_owner_once,
}

async fn settings_need_a_saved_card_that_stripe_has_now(database: Database) -> Checked {
    let rig = Rig::start(database).await;
    let conflict = |put: Result<(), Error>| matches!(put, Err(Error::Refused(refused)) if refused.code == ErrorCode::Conflict && refused.text.contains("no card"));
    assert!(conflict(rig.put(REQUEST).await));
    rig.enable(Card::Good).await;
    let settings = rig.billing.0.auto_topup(rig.org).await.unwrap().unwrap();
    assert_eq!((settings.threshold_cents, settings.amount_cents), (1_000, 5_000));
    assert_eq!((settings.consent_by, settings.consent_at), (rig.owner, AT));
    assert!(settings.consent_text.contains("$50.00") && settings.consent_text.contains("ending in 4242"));
    rig.double.remove_cards(&rig.customer).unwrap();
    assert!(conflict(rig.put(REQUEST).await), "the card is gone since then");
    rig.double.fail_always(Some(Fault::LostBefore));
    assert!(matches!(rig.put(REQUEST).await, Err(Error::Stripe(_))));
    rig.put(PutAutoTopup::default()).await.unwrap();
    assert_eq!(rig.failures().await, None);
    Ok(())
}

async fn a_low_balance_is_told_and_bought_for_at_once(database: Database) -> Checked {
    let rig = Rig::start(database).await;
    rig.give(20_000_000).await;
    rig.enable(Card::Good).await;
    let (stop, billing) = (CancellationToken::new(), rig.billing.clone());
    let mut working = JoinSet::new();
    working.spawn({
        let stop = stop.clone();
        async move { billing.run(stop).await }
    });
    rig.give(-10_000_001).await;
    rig.double.wait_for_requests(Call::CreateIntent, 1).await.unwrap();
    while rig.last().await != Some(TopupState::Paid) {
        tokio::task::yield_now().await;
    }
    assert_eq!(rig.balance().await, 9_999_999 + BOUGHT);
    stop.cancel();
    working.join_all().await;
    let sent = &rig.double.requests(Call::CreateIntent)[0];
    let topup = sent.parameters["metadata"]["topup"].as_str().unwrap();
    assert_eq!(sent.key.as_deref(), Some(topup));
    let mut names: Vec<&str> = sent.parameters.keys().map(String::as_str).collect();
    names.sort_unstable();
    let expected = [
        "amount",
        "confirm",
        "currency",
        "customer",
        "metadata",
        "off_session",
        "payment_method",
    ];
    assert_eq!(names, expected);
    Ok(())
}

async fn enough_credits_buy_nothing(database: Database) -> Checked {
    let rig = Rig::start(database).await;
    rig.give(10_000_000).await;
    rig.enable(Card::Good).await;
    rig.buy().await;
    assert_eq!(rig.states().await, Vec::<String>::new());
    Ok(())
}

async fn the_limits_of_a_day_end_the_purchases(database: Database) -> Checked {
    let rig = Rig::with(
        database,
        AutoTopupLimits {
            per_day: 2,
            cents_per_day: None,
        },
    )
    .await;
    rig.enable(Card::Good).await;
    for _ in 0..4 {
        rig.buy().await;
        rig.give(-BOUGHT).await;
    }
    assert_eq!(rig.states().await, ["paid"; 2]);
    let rig = Rig::with(
        database,
        AutoTopupLimits {
            per_day: 9,
            cents_per_day: Some(14_999),
        },
    )
    .await;
    rig.enable(Card::Good).await;
    for _ in 0..4 {
        rig.buy().await;
        rig.give(-BOUGHT).await;
    }
    assert_eq!(rig.states().await, ["paid"; 2]);
    let amount = |cents| PutAutoTopup {
        amount_cents: Some(cents),
        ..REQUEST
    };
    rig.put(amount(14_999)).await.unwrap();
    let refused = rig.put(amount(15_000)).await;
    assert!(matches!(refused, Err(Error::Refused(refused)) if refused.code == ErrorCode::InvalidRequest));
    Ok(())
}

async fn a_dispute_is_told_to_the_owner_once(database: Database) -> Checked {
    let rig = Rig::start(database).await;
    rig.enable(Card::Good).await;
    rig.buy().await;
    let paid = rig.first_payment();
    let dispute = rig
        .double
        .dispute(&paid.id, 2_000, DisputeStage::Chargeback)
        .unwrap();
    let mails = async || rig.database.rows("SELECT kind FROM mail").await.unwrap().len();
    for _ in 0..2 {
        rig.billing.0.sync_dispute(&dispute).await.unwrap();
        assert_eq!(mails().await, 1);
    }
    let told = PaymentNotice::PaymentDisputed { amount_cents: 2_000 };
    let notices = rig.notices();
    assert!(
        !notices.is_empty() && notices.iter().all(|notice| *notice == told),
        "{notices:?}"
    );
    assert_eq!(rig.balance().await, BOUGHT - 20_000_000);
    assert_eq!(rig.failures().await, None, "automatic purchases are disabled");
    rig.double.decide(&dispute, Verdict::Won).unwrap();
    rig.billing.0.sync_dispute(&dispute).await.unwrap();
    assert_eq!((mails().await, rig.balance().await), (1, BOUGHT));
    Ok(())
}
