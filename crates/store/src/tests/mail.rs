//! Mails: queued once, claimed under a lease, recorded under a fence.

use sortie_api::MailId;

use super::prelude::*;
use crate::outbox::{AfterSending, ClaimedMail, NewMail};

const DAY: Duration = Duration::from_hours(24);
const LEASE: Duration = Duration::from_mins(1);

/// Time at which the tests claim on a database without a clock.
const AT: Timestamp = Timestamp::from_micros(4_000_000_000_000_000);

impl Fixture {
    /// Makes a mail that is due now.
    pub(super) fn new_mail(&self, dedupe: Option<&str>) -> NewMail {
        let now = AT;
        NewMail {
            id: MailId::new(now, self.random()),
            kind: "verify_email",
            content: b"sealed".to_vec(),
            dedupe: dedupe.map(str::to_owned),
            created_at: now,
            due_at: now,
            give_up_at: now + DAY,
        }
    }

    /// Queues a mail that is due now.
    pub(super) async fn queued_mail(&self, dedupe: Option<&str>) -> NewMail {
        let mail = self.new_mail(dedupe);
        assert_eq!(self.store.queue_mails(vec![mail.clone()]).await.unwrap(), 1);
        mail
    }

    /// Claims at most ten mails.
    async fn claimed_mails(&self) -> Vec<ClaimedMail> {
        self.store.claim_mails(AT, LEASE, 10).await.unwrap().0
    }

    /// Lets `time` pass for the mails, independently of the clock of the database.
    async fn mails_wait(&self, time: Duration) {
        let micros = i64::try_from(time.as_micros()).unwrap();
        let pass = self.store.db.write(move |tx| {
            tx.exec(
                "UPDATE mail SET due_at = due_at - CAST($1 AS BIGINT)",
                vec![Val::from(micros)],
            )
        });
        pass.await.unwrap();
    }

    async fn made_owner(&self, name: &str) -> UserId {
        let user = self.person(name).await;
        self.org_of(user).await;
        user
    }

    /// Runs every command about mails once, in an order in which each finds its rows.
    pub(super) async fn use_mails(&self) {
        let mail = self.queued_mail(Some("x")).await;
        let attempt = self.claimed_mails().await[0].attempt;
        let retry = AfterSending::RetryIn(LEASE);
        self.store.record_mail(mail.id, attempt, AT, retry).await.unwrap();
        self.store
            .record_mail(mail.id, attempt, AT, AfterSending::Ended)
            .await
            .unwrap();
        self.store.owners_without_mail("x", None, 10).await.unwrap();
    }
}

fn ids(mails: &[ClaimedMail]) -> Vec<MailId> {
    mails.iter().map(|mail| mail.id).collect()
}

both! {
    async fn a_mail_that_cannot_be_read_does_not_keep_the_others(fixture: &Fixture) {
        let broken = fixture.queued_mail(None).await;
        fixture.sql("UPDATE mail SET id = 'nothing', due_at = due_at - 1 WHERE id = $1", vals![broken.id]).await;
        let whole = fixture.queued_mail(None).await;
        assert_eq!(ids(&fixture.claimed_mails().await), [whole.id]);
        fixture.mails_wait(LEASE * 2).await;
        fixture.sql("UPDATE mail SET due_at = due_at - 1 WHERE id = 'nothing'", vals![]).await;
        // The broken mail uses up a claim of one, and the next claim gets the other.
        assert_eq!(fixture.store.claim_mails(AT, LEASE, 1).await.unwrap().0, []);
        assert_eq!(ids(&fixture.store.claim_mails(AT, LEASE, 1).await.unwrap().0), [whole.id]);
    }

    async fn a_mail_is_queued_once_for_its_dedupe_text(fixture: &Fixture) {
        let known = fixture.queued_mail(Some("v1 ann")).await;
        let again = NewMail { dedupe: known.dedupe.clone(), ..fixture.new_mail(None) };
        let mails = vec![again, fixture.new_mail(Some("v1 bob")), fixture.new_mail(None), fixture.new_mail(None)];
        assert_eq!(fixture.store.queue_mails(mails).await.unwrap(), 3);
        assert_eq!(fixture.count("SELECT COUNT(*) FROM mail").await, 4);
    }

    async fn a_due_mail_is_claimed_by_one_node_alone(fixture: &Fixture, store: &Store) {
        assert_eq!(store.claim_mails(AT, LEASE, 10).await.unwrap(), (vec![], None));
        let mail = fixture.queued_mail(None).await;
        let held = NewMail { due_at: AT + DAY, ..fixture.new_mail(None) };
        store.queue_mails(vec![held]).await.unwrap();
        let (claimed, next) = store.claim_mails(AT, LEASE, 10).await.unwrap();
        let expected = ClaimedMail {
            id: mail.id,
            kind: mail.kind.to_owned(),
            content: mail.content,
            attempt: 1,
            give_up_at: mail.give_up_at,
        };
        assert_eq!(claimed, [expected]);
        // The lease that was just given ends next.
        assert!(next.unwrap() <= LEASE, "{next:?}");
        assert_eq!(fixture.claimed_mails().await, []);
    }

    async fn of_nodes_that_claim_at_once_no_two_get_a_mail(fixture: &Fixture) {
        for _ in 0..20 {
            fixture.queued_mail(None).await;
        }
        let claims = (0..10).map(|_| fixture.store.claim_mails(AT, LEASE, 4));
        let mut all = Vec::new();
        for claimed in futures_util::future::join_all(claims).await {
            let (claimed, _) = claimed.unwrap();
            assert!(claimed.len() <= 4);
            all.extend(ids(&claimed));
        }
        all.extend(ids(&fixture.store.claim_mails(AT, LEASE, 100).await.unwrap().0));
        all.sort();
        assert_eq!(all.len(), 20);
        all.dedup();
        assert_eq!(all.len(), 20);
    }

    async fn the_mail_of_a_lost_node_is_claimed_again_and_the_lost_node_records_nothing(fixture: &Fixture) {
        let mail = fixture.queued_mail(None).await;
        assert_eq!(fixture.claimed_mails().await[0].attempt, 1);
        fixture.mails_wait(LEASE + Duration::from_secs(1)).await;
        assert_eq!(fixture.claimed_mails().await[0].attempt, 2);
        for after in [AfterSending::Ended, AfterSending::RetryIn(LEASE)] {
            let late = fixture.store.record_mail(mail.id, 1, AT, after).await;
            assert_eq!(late, Err(Error::Fenced));
        }
        fixture.store.record_mail(mail.id, 2, AT, AfterSending::Ended).await.unwrap();
        assert_eq!(fixture.count("SELECT COUNT(*) FROM mail").await, 0);
    }

    async fn a_mail_that_its_node_sends_at_once_is_due_for_the_others_when_that_node_is_lost(fixture: &Fixture) {
        let mail = NewMail { due_at: AT + LEASE, ..fixture.new_mail(None) };
        fixture.store.queue_mails(vec![mail.clone()]).await.unwrap();
        assert_eq!(fixture.claimed_mails().await, []);
        fixture.mails_wait(LEASE + Duration::from_secs(1)).await;
        assert_eq!(ids(&fixture.claimed_mails().await), [mail.id]);
        let late = fixture.store.record_mail(mail.id, 0, AT, AfterSending::Ended).await;
        assert_eq!(late, Err(Error::Fenced));
    }

    async fn a_failed_mail_is_due_after_its_pause(fixture: &Fixture) {
        let mail = fixture.queued_mail(None).await;
        let attempt = fixture.claimed_mails().await[0].attempt;
        let pause = Duration::from_hours(1);
        fixture.store.record_mail(mail.id, attempt, AT, AfterSending::RetryIn(pause)).await.unwrap();
        let (claimed, next) = fixture.store.claim_mails(AT, LEASE, 10).await.unwrap();
        assert_eq!(claimed, []);
        assert!(next.unwrap() + LEASE > pause && next.unwrap() <= pause, "{next:?}");
        fixture.mails_wait(pause).await;
        assert_eq!(ids(&fixture.claimed_mails().await), [mail.id]);
    }

    async fn a_mail_with_a_dedupe_text_stays_known_after_its_end(fixture: &Fixture) {
        let mail = fixture.queued_mail(Some("v1 ann")).await;
        let attempt = fixture.claimed_mails().await[0].attempt;
        fixture.store.record_mail(mail.id, attempt, AT, AfterSending::Ended).await.unwrap();
        let again = fixture.new_mail(Some("v1 ann"));
        assert_eq!(fixture.store.queue_mails(vec![again]).await.unwrap(), 0);
        fixture.mails_wait(DAY).await;
        assert_eq!(fixture.store.claim_mails(AT, LEASE, 10).await.unwrap(), (vec![], None));
        let content = fixture.store.db.read(|tx| {
            let row = tx.query_one("SELECT content FROM mail", vals![])?;
            row.only::<Vec<u8>>()
        });
        assert_eq!(content.await.unwrap(), b"");
        for after in [AfterSending::Ended, AfterSending::RetryIn(LEASE)] {
            let late = fixture.store.record_mail(mail.id, attempt, AT, after).await;
            assert_eq!(late, Err(Error::Fenced));
        }
        // No mail has content left to reseal.
        assert_eq!(fixture.sealed(crate::installation::SealedColumn::Mail).await, []);
    }

    async fn owners_are_listed_once_until_a_mail_for_them_was_queued(fixture: &Fixture, store: &Store) {
        let (ann, bob) = (fixture.made_owner("ann").await, fixture.made_owner("bob").await);
        let also_of_ann = fixture.org_of(ann).await;
        let member = fixture.person("member").await;
        fixture.member(also_of_ann, member, Role::Admin).await;
        let disabled = fixture.made_owner("disabled").await;
        let disable = store.db.write(move |tx| tx.exec("UPDATE person SET disabled_at = 1 WHERE id = $1", vals![disabled]));
        disable.await.unwrap();

        let listed = store.owners_without_mail("v1 ", None, 1).await.unwrap();
        assert_eq!((listed[0].user, listed[0].email.as_str(), listed[0].name.as_str()), (ann, "ann@Example.com", "ann"));
        let listed = store.owners_without_mail("v1 ", Some(ann), 10).await.unwrap();
        assert_eq!(listed.iter().map(|owner| owner.user).collect::<Vec<_>>(), [bob]);
        let told = fixture.queued_mail(Some(&format!("v1 {ann}"))).await;
        store.record_mail(told.id, 0, AT, AfterSending::Ended).await.unwrap();
        let listed = store.owners_without_mail("v1 ", None, 10).await.unwrap();
        assert_eq!(listed.iter().map(|owner| owner.user).collect::<Vec<_>>(), [bob]);
        assert_eq!(store.owners_without_mail("v2 ", None, 10).await.unwrap().len(), 2);
    }
}
