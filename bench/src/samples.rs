//! Durations and their statistics.

use std::{fmt, time::Duration};

/// Durations in order of arrival.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<Duration>);

impl Samples {
    /// Adds a sample.
    pub(crate) fn add(&mut self, sample: Duration) {
        self.0.push(sample);
    }

    /// Returns the number of samples.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the duration that `percent` per cent of the samples do not exceed.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
        sorted.get(rank).copied().unwrap_or_default()
    }
}

impl Extend<Duration> for Samples {
    fn extend<I: IntoIterator<Item = Duration>>(&mut self, samples: I) {
        self.0.extend(samples);
    }
}

impl IntoIterator for Samples {
    type Item = Duration;
    type IntoIter = std::vec::IntoIter<Duration>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// `p50 / p99` in milliseconds.
impl fmt::Display for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} / {}",
            Millis(self.percentile(50)),
            Millis(self.percentile(99))
        )
    }
}

/// A duration in milliseconds, with a suitable number of decimals.
pub(crate) struct Millis(pub(crate) Duration);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_secs_f64() * 1_000.0;
        let decimals = if millis < 10.0 { 2 } else { 0 };
        write!(f, "{millis:.decimals$} ms")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_samples() {
        let samples = Samples((1..=200).rev().map(Duration::from_millis).collect());
        assert_eq!(samples.percentile(50), Duration::from_millis(100));
        assert_eq!(samples.percentile(99), Duration::from_millis(198));
        assert_eq!(samples.percentile(100), Duration::from_millis(200));
        assert_eq!(Samples::default().percentile(99), Duration::ZERO);
        assert_eq!(samples.to_string(), "100 ms / 198 ms");
    }
}
