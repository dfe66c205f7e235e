//! Budget of a run: compute metered from its start, model calls held at their worst case and settled at their actual cost, tool
//! calls held and settled at their price. Never exceeds the maximum: integers only, every product rounded up, every sum checked.
//!
//! The budget has no clock: the caller passes the time.

use sortie_api::{Micros, event::Spent, model::ModelPrices};
use tokio::time::{Duration, Instant};

use crate::{BudgetSpec, model::Usage};

/// Tokens that a price is for.
const MTOK: u128 = 1_000_000;
/// Nanoseconds in a second.
const NANOS: u128 = 1_000_000_000;
/// Speed of a slow model. The hold also leaves compute time for its longest answer at this speed.
const SLOW_TOKENS_PER_SECOND: u128 = 20;

/// The budget of one run.
#[derive(Debug)]
pub(crate) struct Budget {
    max: u128,
    rate: u128,
    started: Instant,
    model: u128,
    held: u128,
}

/// A model call to pay for.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    /// Maximum number of input tokens that the provider can count.
    pub(crate) input_tokens: u64,
    /// Maximum length of the answer, in tokens.
    pub(crate) wanted: u64,
    /// Minimum length that the answer must have room for, in tokens.
    pub(crate) least: u64,
    /// The last call of the run that has to stay possible after this one; `None` if this is the last one.
    pub(crate) last: Option<LastCall>,
}

/// The worst case of a last call, in tokens, without the answer of the call before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastCall {
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
}

/// Money reserved for one model call. It must be settled.
#[derive(Debug)]
#[must_use = "a hold that is not settled is never given back"]
pub(crate) struct Hold {
    amount: u128,
    /// Maximum length of the answer that the hold pays for, in tokens.
    pub(crate) max_tokens: u64,
    /// Effect of the budget on the answer's length.
    pub(crate) cut: Cut,
}

/// The reserved price of one tool call. It must be settled or released.
#[derive(Debug)]
#[must_use = "a hold that is neither settled nor released is never given back"]
pub(crate) struct PriceHold {
    amount: u128,
}

/// Effect of the budget on the length of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The answer may have its full length.
    Whole,
    /// The answer is shortened to the rest of the budget.
    Shortened,
}

/// Too little is left for another call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exhausted;

impl Hold {
    /// The reserved amount.
    pub(crate) fn amount(&self) -> Micros {
        micros(self.amount)
    }
}

impl BudgetSpec {
    /// Returns the cost of the compute time from `started` to `now`: rounded up to the micro, at most `max_cost`.
    pub fn compute(&self, now: Instant) -> Micros {
        let nanos = now.saturating_duration_since(self.started).as_nanos();
        let cost = nanos
            .checked_mul(amount(self.compute_micros_per_second))
            .map(|n| n.div_ceil(NANOS));
        micros(cost.unwrap_or(u128::MAX).min(amount(self.max_cost)))
    }
}

impl Budget {
    pub(crate) fn new(spec: &BudgetSpec) -> Self {
        Self {
            max: amount(spec.max_cost),
            rate: amount(spec.compute_micros_per_second),
            started: spec.started,
            model: amount(spec.spent).min(amount(spec.max_cost)),
            held: 0,
        }
    }

    /// The whole cost until `now`, never above the maximum.
    pub(crate) fn spent(&self, now: Instant) -> Micros {
        micros(self.model.saturating_add(self.compute(now)).min(self.max))
    }

    /// Returns the cost of models and priced tools so far, without compute.
    pub(crate) fn spent_on_calls(&self) -> Micros {
        micros(self.model)
    }

    /// The total cost and the maximum, for the events.
    pub(crate) fn report(&self, now: Instant) -> Spent {
        Spent {
            spent_micros: self.spent(now),
            limit_micros: micros(self.max),
        }
    }

    /// True from 80 % on.
    pub(crate) fn is_nearly_spent(&self, now: Instant) -> bool {
        amount(self.spent(now)) >= self.warning_amount()
    }

    /// Returns the time at which compute alone will have brought the cost to 80 %.
    pub(crate) fn warning_at(&self) -> Option<Instant> {
        self.reached_at(self.warning_amount().saturating_sub(self.model))
    }

    /// Returns the time at which compute will have used up the money that is neither spent nor reserved.
    pub(crate) fn exhausted_at(&self) -> Option<Instant> {
        self.reached_at(self.max.saturating_sub(self.model + self.held))
    }

    /// Reserves the worst case of a call. Its answer is limited so that enough remains for the last call that has to stay
    /// possible.
    pub(crate) fn hold(&mut self, now: Instant, prices: &ModelPrices, ask: &Ask) -> Result<Hold, Exhausted> {
        let left = self.left(now);
        if left == 0 {
            return Err(Exhausted);
        }
        let input_price = dearest_input(prices);
        let output_price = amount(prices.output_micros_per_mtok);
        let input = u128::from(ask.input_tokens).saturating_mul(input_price);
        // A last call reads the output of this one.
        let (kept, read_again) = match &ask.last {
            Some(last) => (self.worst(prices, last), input_price),
            None => (0, 0),
        };
        let token = self.written(output_price) + read_again;
        let room = (left * MTOK).saturating_sub(input).saturating_sub(kept);
        let affordable = room.checked_div(token).unwrap_or(u128::MAX);
        let max_tokens = ask.wanted.min(u64::try_from(affordable).unwrap_or(u64::MAX));
        let amount = input
            .saturating_add(u128::from(max_tokens).saturating_mul(output_price))
            .div_ceil(MTOK);
        if max_tokens < ask.wanted.min(ask.least) || amount > left {
            return Err(Exhausted);
        }
        self.held += amount;
        let cut = if max_tokens < ask.wanted {
            Cut::Shortened
        } else {
            Cut::Whole
        };
        Ok(Hold {
            amount,
            max_tokens,
            cut,
        })
    }

    /// Input tokens that the budget still pays for at the highest input price, with a last call reserved.
    pub(crate) fn readable(&self, now: Instant, prices: &ModelPrices, last: &LastCall) -> u64 {
        let room = (self.left(now) * MTOK).saturating_sub(self.worst(prices, last));
        let tokens = room.checked_div(dearest_input(prices)).unwrap_or(u128::MAX);
        u64::try_from(tokens).unwrap_or(u64::MAX)
    }

    /// The most that a call costs, in millionths of a micro, with the compute time of a slow model.
    fn worst(&self, prices: &ModelPrices, call: &LastCall) -> u128 {
        let output = self.written(amount(prices.output_micros_per_mtok));
        let input = u128::from(call.input_tokens).saturating_mul(dearest_input(prices));
        input.saturating_add(u128::from(call.output_tokens).saturating_mul(output))
    }

    /// The price of a token that is written, and of the compute time that a slow model takes for it.
    fn written(&self, output_price: u128) -> u128 {
        if output_price == 0 {
            return 0;
        }
        output_price + (self.rate * MTOK).div_ceil(SLOW_TOKENS_PER_SECOND)
    }

    /// Releases a hold and charges the cost of the call, at most the remaining budget; returns the charged amount.
    #[expect(clippy::needless_pass_by_value, reason = "a hold is gone once it is settled")]
    pub(crate) fn settle(&mut self, now: Instant, hold: Hold, prices: &ModelPrices, usage: &Usage) -> Micros {
        self.held = self.held.saturating_sub(hold.amount);
        let charged = cost(prices, usage).min(self.left(now));
        self.model += charged;
        micros(charged)
    }

    /// Reserves the price of a tool call.
    pub(crate) fn hold_price(&mut self, now: Instant, price: Micros) -> Result<PriceHold, Exhausted> {
        let amount = amount(price);
        if amount > self.left(now) {
            return Err(Exhausted);
        }
        self.held += amount;
        Ok(PriceHold { amount })
    }

    /// Charges the price of the tool call, at most the remaining budget; returns the charged amount.
    #[expect(clippy::needless_pass_by_value, reason = "a hold is gone once it is settled")]
    pub(crate) fn settle_price(&mut self, now: Instant, hold: PriceHold) -> Micros {
        self.held = self.held.saturating_sub(hold.amount);
        let charged = hold.amount.min(self.left(now));
        self.model += charged;
        micros(charged)
    }

    /// Releases the price of a call that is not charged.
    #[expect(clippy::needless_pass_by_value, reason = "a hold is gone once it is released")]
    pub(crate) fn release_price(&mut self, hold: PriceHold) {
        self.held = self.held.saturating_sub(hold.amount);
    }

    fn left(&self, now: Instant) -> u128 {
        self.max
            .saturating_sub(self.model + self.held)
            .saturating_sub(self.compute(now))
    }

    fn compute(&self, now: Instant) -> u128 {
        let nanos = now.saturating_duration_since(self.started).as_nanos();
        nanos
            .checked_mul(self.rate)
            .map_or(u128::MAX, |n| n.div_ceil(NANOS))
            .min(self.max)
    }

    fn warning_amount(&self) -> u128 {
        (self.max * 8).div_ceil(10)
    }

    /// Returns the time at which compute will have cost `compute`; `None` when it costs nothing or that is beyond the
    /// clock.
    fn reached_at(&self, compute: u128) -> Option<Instant> {
        let nanos = (compute * NANOS).checked_div(self.rate)?;
        self.started
            .checked_add(Duration::from_nanos(u64::try_from(nanos).ok()?))
    }
}

/// Returns the cost of `usage`, rounded up to the micro.
fn cost(prices: &ModelPrices, usage: &Usage) -> u128 {
    [
        (usage.input_tokens, prices.input_micros_per_mtok),
        (usage.output_tokens, prices.output_micros_per_mtok),
        (usage.cache_read_tokens, prices.cache_read_micros_per_mtok),
        (usage.cache_write_tokens, prices.cache_write_micros_per_mtok),
    ]
    .into_iter()
    .fold(0_u128, |sum, (tokens, price)| {
        sum.saturating_add(u128::from(tokens).saturating_mul(amount(price)))
    })
    .div_ceil(MTOK)
}

/// The highest price of an input token: cache hits are unknown before the call.
fn dearest_input(prices: &ModelPrices) -> u128 {
    let ModelPrices {
        input_micros_per_mtok: plain,
        cache_read_micros_per_mtok: read,
        cache_write_micros_per_mtok: write,
        ..
    } = *prices;
    amount(plain.max(read).max(write))
}

/// A call with all input at the highest price. Among equal prices plain input is chosen: a model without cache prices has no
/// cache.
pub(crate) fn dearest_usage(prices: &ModelPrices, input_tokens: u64, output_tokens: u64) -> Usage {
    let dearest = dearest_input(prices);
    let mut usage = Usage {
        output_tokens,
        ..Usage::default()
    };
    if dearest == amount(prices.input_micros_per_mtok) {
        usage.input_tokens = input_tokens;
    } else if dearest == amount(prices.cache_write_micros_per_mtok) {
        usage.cache_write_tokens = input_tokens;
    } else {
        usage.cache_read_tokens = input_tokens;
    }
    usage
}

fn amount(micros: Micros) -> u128 {
    u128::try_from(micros.get()).unwrap_or_default()
}

/// An amount that is known to be at most a `max_cost`.
fn micros(amount: u128) -> Micros {
    let amount = i64::try_from(amount).unwrap_or(i64::MAX);
    Micros::try_from(amount).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn m(amount: u64) -> Micros {
        Micros::new(amount).unwrap()
    }

    fn prices(input: u64, output: u64, read: u64, write: u64) -> ModelPrices {
        ModelPrices {
            input_micros_per_mtok: m(input),
            output_micros_per_mtok: m(output),
            cache_read_micros_per_mtok: m(read),
            cache_write_micros_per_mtok: m(write),
        }
    }

    fn budget(max: u64, rate: u64) -> (Budget, Instant) {
        let started = Instant::now();
        let spec = BudgetSpec {
            max_cost: m(max),
            compute_micros_per_second: m(rate),
            started,
            spent: Micros::ZERO,
        };
        (Budget::new(&spec), started)
    }

    /// A call after which no other has to stay possible.
    fn ask(input_tokens: u64, wanted: u64) -> Ask {
        Ask {
            input_tokens,
            wanted,
            least: 64,
            last: None,
        }
    }

    #[derive(Clone, Debug)]
    struct Call {
        wait_ms: u64,
        input_tokens: u64,
        wanted: u64,
        took_ms: u64,
        usage: Usage,
    }

    fn call() -> impl Strategy<Value = Call> {
        let tokens = || prop_oneof![0_u64..10_000, Just(0), 0_u64..=u64::MAX];
        (
            0_u64..5_000,
            tokens(),
            1_u64..200_000,
            0_u64..60_000,
            [tokens(), tokens(), tokens(), tokens()],
        )
            .prop_map(|(wait_ms, input_tokens, wanted, took_ms, [i, o, r, w])| Call {
                wait_ms,
                input_tokens,
                wanted,
                took_ms,
                usage: Usage {
                    input_tokens: i,
                    output_tokens: o,
                    cache_read_tokens: r,
                    cache_write_tokens: w,
                },
            })
    }

    proptest! {
        #[test]
        fn the_cost_is_what_was_settled_plus_compute_and_never_above_the_maximum(
            max in prop_oneof![1_u64..100_000_000, 1_u64..2_000],
            rate in prop_oneof![Just(0_u64), 0_u64..1_000, 0_u64..=i64::MAX as u64],
            price in [0_u64..80_000_000, 0_u64..80_000_000, 0_u64..80_000_000, 0_u64..80_000_000],
            calls in proptest::collection::vec(call(), 0..12),
        ) {
            let prices = prices(price[0], price[1], price[2], price[3]);
            let (mut budget, started) = budget(max, rate);
            let spec = BudgetSpec { max_cost: m(max), compute_micros_per_second: m(rate), started, spent: Micros::ZERO };
            let (mut now, mut settled, mut last) = (started, 0_i128, 0);
            for call in calls {
                now += Duration::from_millis(call.wait_ms);
                let Ok(hold) = budget.hold(now, &prices, &ask(call.input_tokens, call.wanted)) else { continue };
                prop_assert!(hold.max_tokens <= call.wanted);
                let compute = i128::from(spec.compute(now).get());
                let held = i128::try_from(hold.amount).unwrap();
                prop_assert!(settled + held + compute <= i128::from(max));
                now += Duration::from_millis(call.took_ms);
                let charged = budget.settle(now, hold, &prices, &call.usage);
                settled += i128::from(charged.get());
                prop_assert_eq!(budget.held, 0);
                let sum = settled + i128::from(spec.compute(now).get());
                prop_assert_eq!(i128::from(budget.spent(now).get()), sum.min(i128::from(max)));
                prop_assert!(budget.spent(now).get() >= last);
                last = budget.spent(now).get();
            }
        }

        #[test]
        fn a_call_within_its_hold_is_charged_in_full(
            max in 1_000_u64..10_000_000, input in 0_u64..5_000, wanted in 64_u64..5_000, out in 0_u64..5_000,
        ) {
            let prices = prices(3_000_000, 15_000_000, 300_000, 3_750_000);
            let (mut budget, now) = budget(max, 0);
            if let Ok(hold) = budget.hold(now, &prices, &ask(input, wanted)) {
                let usage = Usage { input_tokens: input, output_tokens: out.min(hold.max_tokens), ..Usage::default() };
                let exact = m(usage.input_tokens * 3 + usage.output_tokens * 15);
                prop_assert_eq!(budget.settle(now, hold, &prices, &usage), exact);
            }
        }

        #[test]
        fn after_every_call_a_last_one_is_still_paid_for(
            max in 1_000_u64..10_000_000, rate in prop_oneof![Just(0_u64), 0_u64..100],
            input in 0_u64..50_000, wanted in 64_u64..20_000, answer in 64_u64..8_000,
        ) {
            let prices = prices(4_000_000, 20_000_000, 200_000, 5_000_000);
            let (mut budget, now) = budget(max, rate);
            let last = LastCall { input_tokens: input + 100, output_tokens: answer };
            let with_last = Ask { last: Some(last), ..ask(input, wanted) };
            if let Ok(hold) = budget.hold(now, &prices, &with_last) {
                let written = hold.max_tokens;
                // The worst of both: everything is written to the cache, and the model is slow.
                let worst = dearest_usage(&prices, input, written);
                let then = now + Duration::from_millis(written * 50);
                budget.settle(then, hold, &prices, &worst);
                // Each amount is rounded up to the micro.
                let last = Ask { least: answer - 1, ..ask(input + 100 + written, answer) };
                prop_assert!(budget.hold(then, &prices, &last).is_ok());
            }
        }

        #[test]
        fn compute_has_used_up_what_is_left_exactly_at_the_deadline(
            max in 1_u64..100_000_000, rate in 1_u64..1_000_000,
        ) {
            let (budget, _) = budget(max, rate);
            let end = budget.exhausted_at().unwrap();
            prop_assert_eq!(budget.spent(end), m(max));
            prop_assert!(budget.spent(end - Duration::from_secs(1)) <= m(max.saturating_sub(rate) + 1));
            let warning = budget.warning_at().unwrap();
            prop_assert!(budget.is_nearly_spent(warning) && warning <= end);
        }
    }

    #[test]
    fn compute_is_rounded_up_to_the_micro() {
        let (budget, started) = budget(1_000, 30);
        assert_eq!(budget.spent(started).get(), 0);
        assert_eq!(budget.spent(started + Duration::from_nanos(1)).get(), 1);
        assert_eq!(budget.spent(started + Duration::from_secs(1)).get(), 30);
        assert_eq!(
            budget.spent(started + Duration::from_secs(1_000_000)).get(),
            1_000
        );
    }

    #[test]
    fn an_answer_is_cut_to_what_is_left_and_refused_when_it_would_be_tiny() {
        let prices = prices(3_000_000, 15_000_000, 0, 0);
        let (mut roomy, now) = budget(1_000_000, 0);
        let hold = roomy.hold(now, &prices, &ask(1_000, 8_000)).unwrap();
        assert_eq!(
            (hold.max_tokens, hold.cut, hold.amount),
            (8_000, Cut::Whole, 3_000 + 120_000)
        );
        let (mut tight, now) = budget(4_500, 0);
        let hold = tight.hold(now, &prices, &ask(1_000, 8_000)).unwrap();
        assert_eq!((hold.max_tokens, hold.cut), (100, Cut::Shortened));
        let (mut empty, now) = budget(3_900, 0);
        assert_eq!(
            empty.hold(now, &prices, &ask(1_000, 8_000)).unwrap_err(),
            Exhausted
        );
    }

    #[test]
    fn a_price_is_charged_when_it_is_settled_given_back_when_released_and_refused_beyond_what_is_left() {
        let (mut budget, now) = budget(100, 0);
        let (first, second) = (
            budget.hold_price(now, m(60)).unwrap(),
            budget.hold_price(now, m(40)).unwrap(),
        );
        assert_eq!(budget.hold_price(now, m(1)).unwrap_err(), Exhausted);
        budget.release_price(second);
        assert_eq!(budget.settle_price(now, first), m(60));
        assert_eq!((budget.spent(now), budget.spent_on_calls()), (m(60), m(60)));
        assert_eq!(budget.hold_price(now, m(41)).unwrap_err(), Exhausted);
        assert!(budget.hold_price(now, m(40)).is_ok());
    }

    #[test]
    fn a_free_model_is_never_short_of_money_while_compute_has_some() {
        let (mut budget, started) = budget(60, 30);
        let hold = budget
            .hold(started, &ModelPrices::default(), &ask(1 << 40, 1 << 20))
            .unwrap();
        assert_eq!((hold.max_tokens, hold.amount), (1 << 20, 0));
        let charged = budget.settle(started, hold, &ModelPrices::default(), &Usage::default());
        assert!(charged.is_zero());
        assert_eq!(budget.exhausted_at(), Some(started + Duration::from_secs(2)));
        let end = started + Duration::from_secs(2);
        assert_eq!(
            budget
                .hold(end, &ModelPrices::default(), &ask(0, 100))
                .unwrap_err(),
            Exhausted
        );
    }
}
