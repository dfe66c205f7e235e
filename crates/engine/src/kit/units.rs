//! Units of one pass of a background task: organizations, schedules. A unit that fails does not stop the pass.

use sortie_api::{ErrorCode, Refusal};
use std::fmt::Display;

/// Number of consecutive failures after which a dependency counts as unavailable, and the pass ends.
const AWAY_AFTER: u32 = 3;

/// Failures of the units of one pass.
#[derive(Debug)]
pub(crate) struct Units {
    /// Work that is done with each unit, for the log.
    work: &'static str,
    /// Number of consecutive units that failed because a dependency is unavailable.
    away: u32,
}

impl Units {
    /// A pass that does `work` with each unit, as in "counting usage".
    pub(crate) const fn new(work: &'static str) -> Self {
        Self { work, away: 0 }
    }

    /// Returns the result of a unit. Logs a failure and returns `None`: the pass continues with the next unit. Returns an error
    /// only if the database or the storage is away for one unit after the other.
    pub(crate) fn done<T>(
        &mut self,
        unit: impl Display,
        done: Result<T, impl Into<Refusal>>,
    ) -> Result<Option<T>, Refusal> {
        let error = match done {
            Ok(done) => {
                self.away = 0;
                return Ok(Some(done));
            }
            Err(error) => error.into(),
        };
        let is_away = error.code == ErrorCode::Unavailable;
        self.away = if is_away { self.away + 1 } else { 0 };
        tracing::error!(%unit, %error, "{} failed; continuing with the others", self.work);
        if self.away >= AWAY_AFTER {
            return Err(error);
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_goes_on_behind_failures_and_ends_once_the_database_is_away() {
        let mut units = Units::new("testing");
        let broken = || Err::<(), _>(sortie_store::Error::Corrupt("a row".to_owned()));
        let away = || Err::<(), _>(sortie_store::Error::Unavailable("gone".to_owned()));
        for _ in 0..100 {
            assert!(units.done("a", broken()).unwrap().is_none());
        }
        for _ in 0..2 {
            assert!(units.done("b", away()).unwrap().is_none());
        }
        assert!(units.done("c", Ok::<_, Refusal>(7)).unwrap() == Some(7));
        assert!(units.done("d", away()).unwrap().is_none());
        assert!(units.done("e", broken()).unwrap().is_none());
        assert!(units.done("f", away()).unwrap().is_none());
        assert!(units.done("g", away()).unwrap().is_none());
        assert!(units.done("h", away()).is_err());
    }
}
