//! Money in integer millionths of a US dollar. Sums are checked: an overflow is an error and never wraps.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A non-negative amount in micros (1,000,000 = one US dollar).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(try_from = "i64", into = "i64")]
#[schema(value_type = i64, minimum = 0, example = 1_000_000)]
pub struct Micros(i64);

/// A negative amount, or one beyond 63 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an amount in micros: must be from 0 to 9223372036854775807")]
pub struct InvalidMicros;

impl Micros {
    /// No money.
    pub const ZERO: Self = Self(0);

    /// An amount of `micros`, or an error if it exceeds 63 bits.
    pub fn new(micros: u64) -> Result<Self, InvalidMicros> {
        i64::try_from(micros).map(Self).map_err(|_| InvalidMicros)
    }

    /// The amount as the store and the wire hold it; never negative.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// True when there is nothing.
    pub const fn is_zero(&self) -> bool {
        self.0 == 0
    }

    /// The sum, or `None` beyond 63 bits.
    #[must_use]
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    /// The difference, or `None` when `other` is more than this.
    #[must_use]
    pub const fn checked_sub(self, other: Self) -> Option<Self> {
        if other.0 > self.0 {
            None
        } else {
            Some(Self(self.0 - other.0))
        }
    }

    /// The difference, or zero when `other` is more than this.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        match self.checked_sub(other) {
            Some(rest) => rest,
            None => Self::ZERO,
        }
    }
}

impl TryFrom<i64> for Micros {
    type Error = InvalidMicros;

    fn try_from(micros: i64) -> Result<Self, InvalidMicros> {
        if micros < 0 {
            Err(InvalidMicros)
        } else {
            Ok(Self(micros))
        }
    }
}

impl From<Micros> for i64 {
    fn from(amount: Micros) -> Self {
        amount.0
    }
}

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&dollars(self.0.unsigned_abs()))
    }
}

/// Returns an amount in dollars with as many decimal places as it needs, at least two: `$0.00125`.
pub fn dollars(micros: u64) -> String {
    let part = format!("{:06}", micros % 1_000_000);
    let (cents, rest) = part.split_at(2);
    format!("${}.{cents}{}", micros / 1_000_000, rest.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_added_can_be_taken_away_again(a in 0_i64..=i64::MAX, b in 0_i64..=i64::MAX) {
            let (a, b) = (Micros(a), Micros(b));
            match a.checked_add(b) {
                Some(sum) => {
                    prop_assert_eq!(sum.checked_sub(b), Some(a));
                    prop_assert!(sum >= a && sum >= b);
                }
                None => prop_assert!(i128::from(a.get()) + i128::from(b.get()) > i128::from(i64::MAX)),
            }
        }

        #[test]
        fn an_amount_never_goes_below_zero(a in 0_i64..=i64::MAX, b in 0_i64..=i64::MAX) {
            prop_assert_eq!(Micros(a).saturating_sub(Micros(b)).get(), (a - b).max(0));
        }
    }

    #[test]
    fn a_negative_amount_is_refused() {
        assert!(serde_json::from_str::<Micros>("-1").is_err());
        assert_eq!(Micros(1_250).to_string(), "$0.00125");
        assert_eq!(Micros(500_000).to_string(), "$0.50");
        assert_eq!(Micros(0).to_string(), "$0.00");
    }
}
