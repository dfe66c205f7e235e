//! Mails: queued once, claimed under a lease, recorded under a fence.

use std::time::Duration;

use sortie_api::MailId;

use super::{both, fixture::Fixture};
use crate::NewMail;

const DAY: Duration = Duration::from_hours(24);

impl Fixture {
    /// Makes a mail that is due now.
    pub(super) fn new_mail(&self, dedupe: Option<&str>) -> NewMail {
        let now = self.now();
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
}

both! {
    async fn a_mail_is_queued_once_for_its_dedupe_text(fixture: &Fixture) {
        let known = fixture.queued_mail(Some("v1 ann")).await;
        let again = NewMail { dedupe: known.dedupe.clone(), ..fixture.new_mail(None) };
        let mails = vec![again, fixture.new_mail(Some("v1 bob")), fixture.new_mail(None), fixture.new_mail(None)];
        assert_eq!(fixture.store.queue_mails(mails).await.unwrap(), 3);
        assert_eq!(fixture.count("SELECT COUNT(*) FROM mail").await, 4);
    }
}
