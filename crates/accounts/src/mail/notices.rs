//! Letters to owners about the payments of their organizations.

use std::fmt;

use sortie_store::outbox::{NewMail, NoticeWriter, OwnerRow, PaymentNotice};

use super::{Letter, PaymentLetter};
use crate::Accounts;

impl fmt::Debug for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accounts").finish_non_exhaustive()
    }
}

impl NoticeWriter for Accounts {
    fn write(&self, owner: &OwnerRow, organization: &str, notice: &PaymentNotice) -> Option<NewMail> {
        let about = match notice.clone() {
            PaymentNotice::TopupDeclined {
                amount_cents,
                again_at,
            } => PaymentLetter::TopupDeclined {
                amount_cents,
                again_at,
            },
            PaymentNotice::TopupsDisabled { amount_cents } => PaymentLetter::TopupsDisabled { amount_cents },
            PaymentNotice::CardGone => PaymentLetter::CardGone,
            PaymentNotice::CardholderNeeded {
                amount_cents,
                checkout,
            } => PaymentLetter::CardholderNeeded {
                amount_cents,
                checkout,
            },
            PaymentNotice::PaymentDisputed { amount_cents } => {
                PaymentLetter::PaymentDisputed { amount_cents }
            }
        };
        let letter = Letter::Payment {
            name: owner.name.clone(),
            organization: organization.to_owned(),
            about,
        };
        let mail = self.0.letter(&owner.email, &letter);
        mail.unwrap_or_else(|error| {
            tracing::warn!(%error, person = %owner.user, "no mail about a payment");
            None
        })
    }

    fn queued(&self) {
        self.0.mail_queued();
    }
}
