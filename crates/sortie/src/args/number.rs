//! Integers of the command line. The engine checks their range, if there is one.

use std::str::FromStr;

pub(crate) fn whole<T: FromStr>(text: &str) -> Result<T, &'static str> {
    text.parse().map_err(|_| "must be a whole number")
}

pub(crate) fn not_negative(text: &str) -> Result<i64, &'static str> {
    whole(text)
        .ok()
        .filter(|number| *number >= 0)
        .ok_or("must be a whole number from 0")
}

pub(crate) fn at_least_one(text: &str) -> Result<u32, &'static str> {
    whole(text)
        .ok()
        .filter(|number| *number >= 1)
        .ok_or("must be a whole number from 1")
}

pub(crate) fn up_to_a_hundred(text: &str) -> Result<u32, &'static str> {
    whole(text)
        .ok()
        .filter(|number| (1..=100).contains(number))
        .ok_or("must be a whole number from 1 to 100")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_refused_in_our_words() {
        assert_eq!(whole::<i64>("-5"), Ok(-5));
        for wrong in ["", "x", "1.5", "1e3", "99999999999999999999"] {
            assert!(whole::<i64>(wrong).is_err_and(|rule| rule.starts_with("must be a whole number")));
        }
        assert_eq!((not_negative("0"), not_negative("-1").ok()), (Ok(0), None));
        assert_eq!((at_least_one("1"), at_least_one("0").ok()), (Ok(1), None));
        assert_eq!(
            (up_to_a_hundred("100"), up_to_a_hundred("101").ok()),
            (Ok(100), None)
        );
    }
}
