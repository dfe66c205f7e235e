//! Letters: one variant for each template, with the arguments of the template.

use serde::{Deserialize, Serialize};
use sortie_api::{Role, Timestamp};

/// Letter to one person. `name` is the name of the recipient, if there is an account.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Letter {
    /// Asks the recipient to prove that the address is theirs.
    VerifyEmail {
        name: String,
        /// Page with the token, in its fragment.
        url: String,
        /// End of the token.
        expires_at: Timestamp,
    },
    /// Tells the owner of an account that a sign-up with the address of the account was attempted.
    SignUpAgain { name: String },
    /// Lets the recipient set a password without the old one.
    ResetPassword {
        name: String,
        /// Page with the token, in its fragment.
        url: String,
        /// End of the token.
        expires_at: Timestamp,
    },
    /// Tells the recipient that the password was reset through a mailed link.
    PasswordWasReset { name: String },
    /// Invites the recipient into an organization.
    Invitation {
        organization: String,
        /// Name of the person who invites.
        inviter: String,
        role: Role,
        /// Page with the token, in its fragment.
        url: String,
        /// End of the token.
        expires_at: Timestamp,
    },
    /// Tells the former owner of an organization.
    OwnershipHandedOver {
        organization: String,
        /// Name of the former owner.
        from: String,
        /// Name of the new owner.
        to: String,
    },
    /// Tells the new owner of an organization.
    OwnershipReceived {
        organization: String,
        /// Name of the former owner.
        from: String,
        /// Name of the new owner.
        to: String,
    },
    /// Tells the owner of an organization that a version of the API stops working.
    ApiDeprecated {
        name: String,
        /// Version that stops working.
        version: String,
        /// Time at which it stops working.
        sunset: Timestamp,
        /// Page about the next version.
        successor: Option<String>,
    },
    /// Tells the owner of an organization about its payments.
    Payment {
        name: String,
        organization: String,
        about: PaymentLetter,
    },
}

/// Subject of a letter about payments.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum PaymentLetter {
    /// The card was declined for an automatic purchase.
    TopupDeclined {
        amount_cents: i64,
        /// Time of the next attempt.
        again_at: Timestamp,
    },
    /// The automatic purchases are disabled.
    TopupsDisabled { amount_cents: i64 },
    /// The saved card was removed at the payment provider.
    CardGone,
    /// The owner has to pay, because the bank wants the cardholder.
    CardholderNeeded {
        amount_cents: i64,
        /// Page of the payment provider on which the amount can be paid.
        checkout: Option<String>,
    },
    /// The cardholder disputes a payment.
    PaymentDisputed { amount_cents: i64 },
}

impl PaymentLetter {
    const fn kind(&self) -> &'static str {
        match self {
            Self::TopupDeclined { .. } => "topup_declined",
            Self::TopupsDisabled { .. } => "topups_disabled",
            Self::CardGone => "card_gone",
            Self::CardholderNeeded { .. } => "cardholder_needed",
            Self::PaymentDisputed { .. } => "payment_disputed",
        }
    }
}

impl Letter {
    /// Names of all templates.
    pub(super) const KINDS: [&'static str; 13] = [
        "verify_email",
        "sign_up_again",
        "reset_password",
        "password_was_reset",
        "invitation",
        "ownership_handed_over",
        "ownership_received",
        "api_deprecated",
        "topup_declined",
        "topups_disabled",
        "card_gone",
        "cardholder_needed",
        "payment_disputed",
    ];

    /// Name of the template, as in the metrics.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::VerifyEmail { .. } => "verify_email",
            Self::SignUpAgain { .. } => "sign_up_again",
            Self::ResetPassword { .. } => "reset_password",
            Self::PasswordWasReset { .. } => "password_was_reset",
            Self::Invitation { .. } => "invitation",
            Self::OwnershipHandedOver { .. } => "ownership_handed_over",
            Self::OwnershipReceived { .. } => "ownership_received",
            Self::ApiDeprecated { .. } => "api_deprecated",
            Self::Payment { about, .. } => about.kind(),
        }
    }

    /// End of the token in the letter.
    pub(super) const fn expires_at(&self) -> Option<Timestamp> {
        match self {
            Self::VerifyEmail { expires_at, .. }
            | Self::ResetPassword { expires_at, .. }
            | Self::Invitation { expires_at, .. } => Some(*expires_at),
            Self::SignUpAgain { .. }
            | Self::PasswordWasReset { .. }
            | Self::OwnershipHandedOver { .. }
            | Self::OwnershipReceived { .. }
            | Self::ApiDeprecated { .. }
            | Self::Payment { .. } => None,
        }
    }

    /// Page with a token that the letter links to. Links without a token may lead to other sites.
    pub(super) fn url(&self) -> Option<&str> {
        match self {
            Self::VerifyEmail { url, .. }
            | Self::ResetPassword { url, .. }
            | Self::Invitation { url, .. } => Some(url),
            Self::SignUpAgain { .. }
            | Self::PasswordWasReset { .. }
            | Self::OwnershipHandedOver { .. }
            | Self::OwnershipReceived { .. }
            | Self::ApiDeprecated { .. }
            | Self::Payment { .. } => None,
        }
    }
}

/// Shows only the kind: letters contain addresses and tokens.
impl std::fmt::Debug for Letter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.kind())
    }
}
