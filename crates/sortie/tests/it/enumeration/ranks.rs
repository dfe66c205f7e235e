//! Rank test of two samples.

use crate::prelude::*;

/// Median of a sample.
pub(super) fn median(sample: &[Duration]) -> Duration {
    let mut sorted = sample.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// Two-sided probability of ranks at least as unequal as these if both samples have one distribution (Mann-Whitney U,
/// by the normal approximation, for samples of twenty and more).
#[expect(clippy::cast_precision_loss, reason = "counts of a test are far below 2^52")]
pub(super) fn mann_whitney(one: &[Duration], other: &[Duration]) -> f64 {
    let mut all: Vec<(Duration, bool)> = one.iter().map(|time| (*time, true)).collect();
    all.extend(other.iter().map(|time| (*time, false)));
    all.sort_unstable();
    // Equal times share the mean of their ranks.
    let (mut rank_sum, mut before, mut ties) = (0.0, 0, 0.0);
    for group in all.chunk_by(|left, right| left.0 == right.0) {
        let size = group.len() as f64;
        let rank = before as f64 + f64::midpoint(1.0, size);
        rank_sum += rank * group.iter().filter(|(_, is_one)| *is_one).count() as f64;
        ties += size.powi(3) - size;
        before += group.len();
    }
    let (n, m) = (one.len() as f64, other.len() as f64);
    let total = n + m;
    let u = rank_sum - n * (n + 1.0) / 2.0;
    let variance = n * m / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let z = ((u - n * m / 2.0).abs() - 0.5).max(0.0) / variance.sqrt();
    2.0 * above(z)
}

/// Probability that a standard normal variable is above `z`, for `z` of 0 or more, to seven digits (a rational
/// approximation of the complementary error function).
fn above(z: f64) -> f64 {
    const FACTORS: [f64; 5] = [
        1.061_405_429,
        -1.453_152_027,
        1.421_413_741,
        -0.284_496_736,
        0.254_829_592,
    ];
    let x = z / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let sum = FACTORS.iter().fold(0.0, |sum, factor| (sum + factor) * t);
    sum * (-x * x).exp() / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(micros: impl Iterator<Item = u64>) -> Vec<Duration> {
        micros.map(Duration::from_micros).collect()
    }

    #[test]
    fn samples_of_one_distribution_are_not_told_apart_and_shifted_ones_are() {
        let even = times((0..100).map(|n| 2 * n));
        let odd = times((0..100).map(|n| 2 * n + 1));
        assert!(mann_whitney(&even, &odd) > 0.8);
        assert!((mann_whitney(&even, &even) - 1.0).abs() < 0.01);
        let shifted = times((0..100).map(|n| 2 * n + 40));
        let p = mann_whitney(&even, &shifted);
        assert!(p < 0.001, "{p}");
        // The order of the samples says nothing.
        assert!((p - mann_whitney(&shifted, &even)).abs() < 1e-9);
        // Two distributions with the same median, where no sample tends to be larger, count as equal.
        let wide = times((0..100).map(|n| 4 * n));
        let narrow = times((0..100).map(|n| 100 + 2 * n));
        assert!(mann_whitney(&wide, &narrow) > 0.5);
        assert_eq!(median(&even), Duration::from_micros(100));
    }

    #[test]
    fn the_tail_of_the_normal_distribution_is_that_of_the_tables() {
        for (z, tail) in [
            (0.0, 0.5),
            (1.0, 0.158_655),
            (1.959_964, 0.025),
            (2.575_829, 0.005),
        ] {
            assert!((above(z) - tail).abs() < 1e-5, "{z}: {}", above(z));
        }
    }
}
