//! Cards of Stripe's test mode, by the result of charging them.

/// Card of a customer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Card {
    /// Every payment succeeds.
    Good,
    /// The bank declines every payment.
    Declined,
    /// The bank declines every payment for insufficient funds.
    InsufficientFunds,
    /// The customer must authenticate. Without the customer the payment fails with `authentication_required`.
    NeedsAuthentication,
    /// The customer must authenticate. Without the customer the payment stays in `requires_action`.
    AwaitsAuthentication,
    /// The bank is slow: a payment is `processing` until the test finishes it.
    Slow,
}

impl Card {
    /// Every card.
    pub const ALL: [Self; 6] = [
        Self::Good,
        Self::Declined,
        Self::InsufficientFunds,
        Self::NeedsAuthentication,
        Self::AwaitsAuthentication,
        Self::Slow,
    ];

    /// Number of the card.
    pub const fn number(self) -> &'static str {
        match self {
            Self::Good => "4242424242424242",
            Self::Declined => "4000000000000341",
            Self::InsufficientFunds => "4000000000009995",
            Self::NeedsAuthentication => "4000002760003184",
            Self::AwaitsAuthentication => "4000000000003220",
            Self::Slow => "4000000000000077",
        }
    }

    /// Card with this number.
    pub fn of_number(number: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|card| card.number() == number)
    }

    pub(super) fn last4(self) -> &'static str {
        self.number().get(12..).unwrap_or_default()
    }

    pub(super) fn needs_the_customer(self) -> bool {
        matches!(self, Self::NeedsAuthentication | Self::AwaitsAuthentication)
    }

    /// Decline code of a card that the bank declines.
    pub(super) fn decline_code(self) -> Option<&'static str> {
        match self {
            Self::Declined => Some("generic_decline"),
            Self::InsufficientFunds => Some("insufficient_funds"),
            Self::Good | Self::NeedsAuthentication | Self::AwaitsAuthentication | Self::Slow => None,
        }
    }
}
