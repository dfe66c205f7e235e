//! Amount of money on the command line.

use std::{fmt, str::FromStr};

use sortie_api::{Micros, money::dollars};

/// Amount in micros; negative if it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Amount(pub(crate) i64);

/// A text that is not an amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be an amount with its unit and at most six decimal places: $5, $0.05, 5usd or 5000000micros; quote the $ in a shell"
)]
pub(crate) struct InvalidAmount;

/// Micros of a dollar.
const DOLLAR: i64 = 1_000_000;

impl FromStr for Amount {
    type Err = InvalidAmount;

    fn from_str(text: &str) -> Result<Self, InvalidAmount> {
        let (sign, amount) = match text.strip_prefix('-') {
            Some(amount) => (-1, amount),
            None => (1, text),
        };
        let micros = if let Some(dollars) = amount.strip_prefix('$') {
            of_dollars(dollars)
        } else if let Some(dollars) = amount.strip_suffix("usd") {
            of_dollars(dollars)
        } else {
            amount.strip_suffix("micros").and_then(digits)
        };
        micros.map(|micros| Self(sign * micros)).ok_or(InvalidAmount)
    }
}

/// Micros of an amount in dollars, which may have up to six decimal places.
fn of_dollars(text: &str) -> Option<i64> {
    let (whole, part) = text
        .split_once('.')
        .map_or((text, None), |(whole, part)| (whole, Some(part)));
    let part = match part {
        None => 0,
        Some(part) if part.len() <= 6 => {
            digits(part)?.checked_mul(10_i64.pow(6 - u32::try_from(part.len()).ok()?))?
        }
        Some(_) => return None,
    };
    digits(whole)?.checked_mul(DOLLAR)?.checked_add(part)
}

/// Reads a number without a sign.
fn digits(text: &str) -> Option<i64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        write!(f, "{sign}{}", dollars(self.0.unsigned_abs()))
    }
}

/// Reads an amount that is not negative: the upper limit of a cost.
pub(crate) fn cost(text: &str) -> Result<Micros, InvalidAmount> {
    let Amount(micros) = text.parse()?;
    Micros::try_from(micros).map_err(|_| InvalidAmount)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_has_its_unit() {
        for (text, micros, shown) in [
            ("$5", 5_000_000, "$5.00"),
            ("$0.05", 50_000, "$0.05"),
            ("5usd", 5_000_000, "$5.00"),
            ("12.3456usd", 12_345_600, "$12.3456"),
            ("$0.000001", 1, "$0.000001"),
            ("5000000micros", 5_000_000, "$5.00"),
            ("-$1.50", -1_500_000, "-$1.50"),
            ("-7micros", -7, "-$0.000007"),
        ] {
            assert_eq!(text.parse(), Ok(Amount(micros)), "{text}");
            assert_eq!(Amount(micros).to_string(), shown);
        }
        for text in [
            "5",
            "",
            "$",
            "$5.",
            "$.5",
            "$5.0000001",
            "5 usd",
            "$1e3",
            "--$5",
            "$-5",
            "+$5",
            "5cents",
            "$99999999999999999",
            "micros",
        ] {
            assert_eq!(text.parse::<Amount>(), Err(InvalidAmount), "{text}");
        }
        assert_eq!(cost("$0.50").map(Micros::get), Ok(500_000));
        assert_eq!(cost("-$0.50"), Err(InvalidAmount));
    }
}
