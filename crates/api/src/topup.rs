//! The state machine of a purchase of credits (`docs/BILLING.md`), and the only table of the moves between its states.

use std::{fmt, str::FromStr};

/// Kind of a purchase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TopupKind {
    /// A person pays on a page of the payment provider.
    Checkout,
    /// The engine charges a saved card.
    Auto,
}

/// State of a purchase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TopupState {
    /// Recorded. It is unknown whether the payment provider has the order.
    Created,
    /// The payment page is open.
    Open,
    /// The saved card is being charged.
    Processing,
    /// Paid, and the credits are there.
    Paid,
    /// The payment page has expired without a payment.
    Expired,
    /// Refused, or paid in another way than it was ordered.
    Failed,
    /// The bank requires a confirmation by the cardholder.
    RequiresAction,
}

/// A text that is no kind or state of a purchase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a kind or state of a purchase")]
pub struct UnknownTopupName;

impl TopupKind {
    /// Every kind.
    pub const ALL: [Self; 2] = [Self::Checkout, Self::Auto];

    /// The name in the store and in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Checkout => "checkout",
            Self::Auto => "auto",
        }
    }
}

impl TopupState {
    /// Every state.
    pub const ALL: [Self; 7] = [
        Self::Created,
        Self::Open,
        Self::Processing,
        Self::Paid,
        Self::Expired,
        Self::Failed,
        Self::RequiresAction,
    ];

    /// The name in the store and in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Open => "open",
            Self::Processing => "processing",
            Self::Paid => "paid",
            Self::Expired => "expired",
            Self::Failed => "failed",
            Self::RequiresAction => "requires_action",
        }
    }

    /// Whether the purchase is still open. A payment that arrives later is still credited.
    pub const fn is_waiting(self) -> bool {
        matches!(self, Self::Created | Self::Open | Self::Processing)
    }

    /// Whether a purchase may go from this state to `next`. Every other move is a bug.
    pub const fn may_become(self, next: Self) -> bool {
        match self {
            // Paid: a webhook may arrive before the answer of the request.
            Self::Created => matches!(
                next,
                Self::Open | Self::Processing | Self::Failed | Self::Expired | Self::Paid
            ),
            Self::Open => matches!(next, Self::Paid | Self::Expired | Self::Failed),
            Self::Processing => matches!(next, Self::Paid | Self::Failed | Self::RequiresAction),
            Self::Expired | Self::Failed | Self::RequiresAction => matches!(next, Self::Paid),
            Self::Paid => false,
        }
    }

    /// Returns the states from which a purchase may go to this one.
    pub fn from_where(self) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |from| from.may_become(self))
    }
}

impl fmt::Display for TopupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for TopupState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for TopupKind {
    type Err = UnknownTopupName;

    fn from_str(text: &str) -> Result<Self, UnknownTopupName> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or(UnknownTopupName)
    }
}

impl FromStr for TopupState {
    type Err = UnknownTopupName;

    fn from_str(text: &str) -> Result<Self, UnknownTopupName> {
        Self::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or(UnknownTopupName)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_matrix_of_moves_is_the_decided_one() {
        use TopupState::{Created, Expired, Failed, Open, Paid, Processing, RequiresAction};
        let moves = [
            (Created, vec![Open, Processing, Failed, Expired, Paid]),
            (Open, vec![Paid, Expired, Failed]),
            (Processing, vec![Paid, Failed, RequiresAction]),
            (Expired, vec![Paid]),
            (Failed, vec![Paid]),
            (RequiresAction, vec![Paid]),
        ];
        for from in TopupState::ALL {
            let allowed = moves
                .iter()
                .find(|(state, _)| *state == from)
                .map_or(&[][..], |(_, to)| to);
            for to in TopupState::ALL {
                assert_eq!(from.may_become(to), allowed.contains(&to), "{from} to {to}");
            }
        }
    }

    proptest! {
        /// Whatever is tried in whatever order: a payment is always taken, once, and nothing follows it.
        #[test]
        fn any_walk_can_end_with_the_payment_and_never_leaves_it(
            tried in prop::collection::vec(prop::sample::select(TopupState::ALL.to_vec()), 0..40)
        ) {
            let mut state = TopupState::Created;
            let mut seen = vec![state];
            for next in tried {
                if state.may_become(next) {
                    prop_assert!(state != TopupState::Paid);
                    state = next;
                    prop_assert!(!seen.contains(&state), "no state comes twice");
                    seen.push(state);
                }
            }
            prop_assert!(state == TopupState::Paid || state.may_become(TopupState::Paid));
            prop_assert!(seen.len() <= 4);
        }
    }

    #[test]
    fn names_are_read_back() {
        for state in TopupState::ALL {
            assert_eq!(state.as_str().parse(), Ok(state));
            let from: Vec<_> = state.from_where().collect();
            assert!(from.iter().all(|from| from.may_become(state)));
        }
        for kind in TopupKind::ALL {
            assert_eq!(kind.as_str().parse(), Ok(kind));
        }
        assert_eq!("gone".parse::<TopupState>(), Err(UnknownTopupName));
        assert_eq!("gone".parse::<TopupKind>(), Err(UnknownTopupName));
    }
}
