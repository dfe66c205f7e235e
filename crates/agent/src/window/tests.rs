use proptest::prelude::*;

use super::*;
use crate::model::{StopReason, Usage};

fn window(tokens: u64, most_output: u64) -> Window {
    Window {
        tokens: Some(tokens),
        most_output,
        counted: None,
        counts: Counts::default(),
    }
}

fn used(input_tokens: u64, cache_read_tokens: u64) -> Reply {
    Reply {
        content: Vec::new(),
        thinking: String::new(),
        stop_reason: StopReason::EndTurn,
        usage: Usage {
            input_tokens,
            cache_read_tokens,
            ..Usage::default()
        },
    }
}

#[test]
fn the_estimate_follows_what_the_provider_counts() {
    let mut window = window(200_000, 8_000);
    assert_eq!(window.estimate(3_500), 1_000);
    window.learn(3_500, 0, &used(500, 1_500));
    assert_eq!(window.estimate(3_500), 2_000);
    assert_eq!(window.estimate(3_500 + 350), 2_100);
    assert_eq!(window.estimate(1_750), 1_000);
}

#[test]
fn a_count_that_cannot_be_is_not_taken_over() {
    let mut window = window(200_000, 8_000);
    for (bytes, input, cached) in [(35_000, 1, 0), (35_000, u64::MAX, u64::MAX)] {
        window.learn(bytes, 0, &used(input, cached));
    }
    assert_eq!(window.estimate(35_000), 10_000);
}

#[test]
fn an_answer_fits_beside_the_conversation() {
    let window = window(10_000, 8_000);
    assert_eq!(window.room_beside(0), Some(5_000));
    assert_eq!(window.most_output(0), 8_000);
    assert_eq!(window.most_output(14_000), 6_000);
    assert_eq!(window.most_output(1 << 30), 1_024);
    assert_eq!(window.output_share(0, 1), 4_375);
    assert_eq!(window.output_share(0, 1_000), 256);
}

proptest! {
    #[test]
    fn no_count_makes_an_estimate_overflow(bytes in any::<u32>(), tokens in any::<u64>(), next in any::<u32>()) {
        let mut window = window(u64::MAX, u64::MAX);
        window.learn(bytes as usize, 0, &used(tokens, tokens));
        let estimate = window.estimate(next as usize);
        prop_assert!(estimate <= u64::from(next) + u64::from(bytes) + 1);
        prop_assert!(window.most_output(next as usize) >= 1);
    }
}
