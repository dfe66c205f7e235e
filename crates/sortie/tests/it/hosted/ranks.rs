//! Comparison of two series of times: medians, and the rank test of Mann and Whitney.

use crate::prelude::*;

/// Relative difference of medians that counts as noise.
const NOISE: f64 = 0.03;

/// Probability below which a difference of ranks counts as significant.
const ACCIDENT: f64 = 0.001;

/// Two series of times that were measured alternately.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    pub(super) first: Vec<Duration>,
    pub(super) second: Vec<Duration>,
}

impl Pairs {
    /// Describes the difference of the series; `None` if it is not significant.
    pub(super) fn difference(&self) -> Option<String> {
        let (first, second) = (median(&self.first), median(&self.second));
        let apart = (first - second).abs() / first.max(second);
        let probability = probability(&self.first, &self.second);
        (apart > NOISE && probability < ACCIDENT)
            .then(|| format!("medians {first:.6} s and {second:.6} s, p = {probability:.6}"))
    }
}

fn median(times: &[Duration]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted
        .get(sorted.len() / 2)
        .map_or(f64::NAN, Duration::as_secs_f64)
}

/// Probability that two series of one distribution differ in their ranks at least as much as these, by the normal
/// approximation.
fn probability(first: &[Duration], second: &[Duration]) -> f64 {
    let mut all: Vec<(Duration, bool)> = first.iter().map(|time| (*time, true)).collect();
    all.extend(second.iter().map(|time| (*time, false)));
    all.sort_unstable();
    // Times are in nanoseconds: ties are rare, and the order of their ranks does not matter.
    let ranks: f64 = (1_u32..)
        .zip(&all)
        .filter(|(_, (_, is_first))| *is_first)
        .map(|(rank, _)| f64::from(rank))
        .sum();
    let count = |times: &[Duration]| f64::from(u32::try_from(times.len()).unwrap_or(u32::MAX));
    let (n, m) = (count(first), count(second));
    let u = ranks - n * (n + 1.0) / 2.0;
    let z = (u - n * m / 2.0) / (n * m * (n + m + 1.0) / 12.0).sqrt();
    2.0 * upper_tail(z.abs())
}

/// Tail of the normal distribution above `z`, by the approximation of Abramowitz and Stegun (26.2.17).
fn upper_tail(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z);
    let polynomial = t
        * (0.319_381_530
            + t * (-0.356_563_782 + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * polynomial
}

/// A series that spreads by a tenth, moved by `shift` nanoseconds.
#[cfg(test)]
fn series(shift: u64, step: u64) -> Vec<Duration> {
    (0..300_u64)
        .map(|number| Duration::from_nanos(1_000_000 + (number * step) % 100_003 + shift))
        .collect()
}

#[test]
fn the_rank_test_tells_a_shift_from_none() {
    let same = Pairs {
        first: series(0, 7_919),
        second: series(0, 6_007),
    };
    assert_eq!(same.difference(), None);
    let slower = Pairs {
        first: series(0, 7_919),
        second: series(60_000, 6_007),
    };
    assert!(slower.difference().is_some(), "{:?}", slower.difference());
    assert!((upper_tail(1.96) - 0.025).abs() < 0.0001);
}
