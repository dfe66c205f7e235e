//! Notices to the owners of organizations about their payments.
//!
//! The crate for payments cannot write mails, and the one for accounts has no access to payments. They share
//! [`PaymentNotice`]. A command of the store queues the mail in its own transaction.

use std::fmt;

use sortie_api::{OrgId, Role, Timestamp, UserId};

use crate::{
    Result, Store,
    db::{row, select, vals},
    outbox::mail::{NewMail, OwnerRow},
};

/// Notice about the payments of an organization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PaymentNotice {
    /// The card was declined for an automatic purchase, which is tried again.
    TopupDeclined {
        /// Amount in cents.
        amount_cents: i64,
        /// Time of the next attempt.
        again_at: Timestamp,
    },
    /// The card was declined so often that the automatic purchases are disabled.
    TopupsDisabled {
        /// Amount in cents.
        amount_cents: i64,
    },
    /// The saved card was removed at the payment provider, so the automatic purchases are disabled.
    CardGone,
    /// The bank asks for the cardholder, so the automatic purchases wait.
    CardholderNeeded {
        /// Amount in cents.
        amount_cents: i64,
        /// Page of the payment provider on which the amount can be paid.
        checkout: Option<String>,
    },
    /// The cardholder disputes a payment: its credits were taken back, and the automatic purchases are disabled.
    PaymentDisputed {
        /// Disputed amount in cents.
        amount_cents: i64,
    },
}

/// Writer of mails to owners.
pub trait NoticeWriter: fmt::Debug + Send + Sync {
    /// Writes the mail to an owner about an organization of this name. `None` if the deployment sends no mails, or if the
    /// mail cannot be written.
    fn write(&self, owner: &OwnerRow, organization: &str, notice: &PaymentNotice) -> Option<NewMail>;

    /// Wakes the task that sends mails, because some were queued.
    fn queued(&self);
}

row! {
    struct OwnedOrganization {
        user: UserId = "m.user_id",
        email: String = "(SELECT p.email FROM person p WHERE p.id = m.user_id)",
        name: String = "(SELECT p.name FROM person p WHERE p.id = m.user_id)",
        organization: String = "(SELECT o.name FROM organization o WHERE o.id = m.org_id)",
    }
}

impl Store {
    /// System: reads the owner of an organization, and its name. `None` for one that was deleted.
    pub async fn owner(&self, org: OrgId) -> Result<Option<(OwnerRow, String)>> {
        self.db
            .read(move |tx| {
                let owned: Option<OwnedOrganization> = tx.read_opt(
                    select!(
                        OwnedOrganization,
                        " FROM membership m WHERE m.org_id = $1 AND m.role = $2"
                    ),
                    vals![org, Role::Owner],
                )?;
                Ok(owned.map(|row| {
                    let OwnedOrganization {
                        user,
                        email,
                        name,
                        organization,
                    } = row;
                    (OwnerRow { user, email, name }, organization)
                }))
            })
            .await
    }
}
