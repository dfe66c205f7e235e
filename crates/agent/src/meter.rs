//! The budget of a run while it runs: the sink is informed of every change, 80 % is recorded once, and all waits of the agent end
//! when compute has used up the budget.

use std::{
    pin::pin,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use parking_lot::{Mutex, MutexGuard};
use sortie_api::{
    EventType, Micros,
    event::{ModelCall, Spent, ToolEnd},
    model::{ModelInfo, ModelPrices},
};
use tokio::time::{Instant, sleep_until};

use crate::{
    BudgetSpec, Sink, Stopped,
    budget::{self, Ask, Budget, Cut, Exhausted, Hold, LastCall, PriceHold},
    model::{Deltas, ToolCall, Usage},
    stop::{Stop, millis},
};

/// Bytes of text per token, in the estimate of an abandoned call.
const BYTES_PER_TOKEN: u64 = 4;

/// Output of an abandoned call of a priced tool.
const NOT_AWAITED: &str = "abandoned: the run ended before the call";

/// `stop_reason` of an abandoned call with estimated figures.
const GIVEN_UP: &str = "given_up";

/// The budget of one run and the sink that it reports to.
pub(crate) struct Meter<'a> {
    budget: Mutex<Budget>,
    warned: AtomicBool,
    sink: &'a dyn Sink,
}

enum Threshold {
    Warning,
    Exhausted,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(spec: &BudgetSpec, sink: &'a dyn Sink) -> Self {
        let budget = Budget::new(spec);
        // If earlier attempts nearly spent the budget, they recorded the warning.
        let warned = !spec.spent.is_zero() && budget.is_nearly_spent(spec.started);
        Self {
            budget: Mutex::new(budget),
            warned: AtomicBool::new(warned),
            sink,
        }
    }

    /// Waits for `work`, but at most until the budget is used up.
    pub(crate) async fn while_funded<T>(&self, work: impl Future<Output = T>) -> Result<T, Stop> {
        let mut work = pin!(work);
        loop {
            let Some((at, threshold)) = self.next_threshold() else {
                return Ok(work.await);
            };
            tokio::select! {
                biased;
                done = &mut work => return Ok(done),
                () = sleep_until(at) => match threshold {
                    Threshold::Warning => self.warn().await?,
                    Threshold::Exhausted => return Err(Stop::Exhausted),
                },
            }
        }
    }

    /// Reserves the worst case of a model call until the call is settled or dropped. `estimated` is its likely input in tokens,
    /// which is charged if the call is abandoned.
    pub(crate) fn hold<'m>(
        &'m self,
        model: &'m ModelInfo,
        step: u32,
        ask: &Ask,
        estimated: u64,
    ) -> Result<Held<'a, 'm>, Exhausted> {
        let began = Instant::now();
        let hold = self.budget().hold(began, &model.prices, ask)?;
        tracing::debug!(step, held_micros = %hold.amount().get(), max_tokens = hold.max_tokens, "held money for a model call");
        Ok(Held {
            max_tokens: hold.max_tokens,
            cut: hold.cut,
            meter: self,
            model,
            hold: Some(hold),
            began,
            step,
            input_tokens: estimated,
            bytes: AtomicU64::new(0),
        })
    }

    /// Reserves the price of a tool call until it is settled. Dropping it charges the price if the call has begun, and releases
    /// it otherwise.
    pub(crate) fn hold_price<'m>(
        &'m self,
        price: Micros,
        call: &'m ToolCall,
    ) -> Result<HeldPrice<'a, 'm>, Exhausted> {
        let began = Instant::now();
        let hold = self.budget().hold_price(began, price)?;
        Ok(HeldPrice {
            meter: self,
            hold: Some(hold),
            call,
            began,
            begun: false,
        })
    }

    /// Input tokens that the budget still pays for at the highest input price, with a last call reserved.
    pub(crate) fn readable(&self, prices: &ModelPrices, last: &LastCall) -> u64 {
        self.budget().readable(Instant::now(), prices, last)
    }

    /// The total cost so far and the maximum.
    pub(crate) fn so_far(&self) -> Spent {
        self.budget().report(Instant::now())
    }

    /// Returns the cost of models and priced tools so far, without compute.
    pub(crate) fn spent_on_calls(&self) -> Micros {
        self.budget().spent_on_calls()
    }

    /// Reports the total cost to the sink, and records the warning once from 80 % on.
    pub(crate) async fn report(&self) -> Result<(), Stop> {
        let now = Instant::now();
        let (spent, nearly) = {
            let budget = self.budget();
            (budget.spent(now), budget.is_nearly_spent(now))
        };
        self.sink.spent(spent, now);
        if nearly { self.warn().await } else { Ok(()) }
    }

    /// Records that the budget is exhausted and returns the run's error.
    pub(crate) async fn reached(&self, why: &str) -> Result<String, Stopped> {
        let spent = self.so_far();
        self.sink.record(EventType::BudgetReached(spent)).await?;
        let (so_far, limit) = (spent.spent_micros, spent.limit_micros);
        Ok(if so_far.is_zero() {
            format!("budget exhausted: the whole budget of {limit} is too little for a model call")
        } else {
            format!("budget exhausted: {so_far} of {limit} spent{why}")
        })
    }

    /// Reports the total cost to the sink.
    pub(crate) fn update_sink(&self) {
        let now = Instant::now();
        let spent = self.budget().spent(now);
        self.sink.spent(spent, now);
    }

    async fn warn(&self) -> Result<(), Stop> {
        if !self.warned.swap(true, Ordering::Relaxed) {
            let spent = self.so_far();
            self.sink.record(EventType::BudgetWarning(spent)).await?;
        }
        Ok(())
    }

    fn next_threshold(&self) -> Option<(Instant, Threshold)> {
        let budget = self.budget();
        let exhausted = budget.exhausted_at()?;
        match budget.warning_at() {
            Some(at) if at < exhausted && !self.warned.load(Ordering::Relaxed) => {
                Some((at, Threshold::Warning))
            }
            _ => Some((exhausted, Threshold::Exhausted)),
        }
    }

    fn budget(&self) -> MutexGuard<'_, Budget> {
        // The budget is plain numbers, each changed in one assignment: a panic elsewhere leaves it consistent.
        self.budget.lock()
    }
}

/// A hold in use: the model call is under way. It counts the written bytes, so that an abandoned call (cancel, timeout, budget)
/// is charged for the provider's presumed work: all of its input, at the highest price, and the written output.
pub(crate) struct Held<'a, 'm> {
    /// The longest answer that the hold pays for, in tokens.
    pub(crate) max_tokens: u64,
    /// Effect of the budget on the answer's length.
    pub(crate) cut: Cut,
    meter: &'m Meter<'a>,
    model: &'m ModelInfo,
    hold: Option<Hold>,
    began: Instant,
    step: u32,
    input_tokens: u64,
    bytes: AtomicU64,
}

impl Held<'_, '_> {
    /// Bytes that the model has written so far.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Charges the cost of the ended call and returns it.
    pub(crate) fn settle(mut self, usage: &Usage) -> Micros {
        self.settle_once(usage)
    }

    fn settle_once(&mut self, usage: &Usage) -> Micros {
        let Some(hold) = self.hold.take() else {
            return Micros::ZERO;
        };
        self.meter
            .budget()
            .settle(Instant::now(), hold, &self.model.prices, usage)
    }
}

impl Drop for Held<'_, '_> {
    fn drop(&mut self) {
        if self.hold.is_some() {
            let output_tokens = self.written_bytes().div_ceil(BYTES_PER_TOKEN);
            let usage = budget::dearest_usage(&self.model.prices, self.input_tokens, output_tokens);
            let cost_micros = self.settle_once(&usage);
            // Its cost is a part of the run's, so its event is one of the run's.
            self.meter.sink.charged(EventType::ModelCall(ModelCall {
                model: self.model.id.clone(),
                step: self.step,
                input_tokens: usage.input_tokens,
                output_tokens: usage.output_tokens,
                cache_read_tokens: usage.cache_read_tokens,
                cache_write_tokens: usage.cache_write_tokens,
                cost_micros,
                duration_ms: millis(self.began.elapsed()),
                stop_reason: GIVEN_UP,
            }));
            self.meter.update_sink();
        }
    }
}

impl Deltas for Held<'_, '_> {
    fn text(&self, piece: &str) {
        self.bytes.fetch_add(piece.len() as u64, Ordering::Relaxed);
        self.meter.sink.message_delta(self.step, piece);
    }

    fn written(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// Deltas of a call that does not produce text of the run: they are counted and not shown.
pub(crate) struct UnreportedDeltas<'h, 'a, 'm>(pub(crate) &'h Held<'a, 'm>);

impl Deltas for UnreportedDeltas<'_, '_, '_> {
    fn text(&self, piece: &str) {
        self.0.written(piece.len());
    }

    fn written(&self, bytes: usize) {
        self.0.written(bytes);
    }
}

/// The price of a tool call, held while the call is under way. A call that is abandoned after it began (cancel, timeout, budget)
/// is charged: the provider of the tool does the work and bills it. Its cost is a part of the run's, so its end is one of the
/// run's events.
pub(crate) struct HeldPrice<'a, 'm> {
    meter: &'m Meter<'a>,
    hold: Option<PriceHold>,
    call: &'m ToolCall,
    began: Instant,
    begun: bool,
}

impl HeldPrice<'_, '_> {
    /// The call begins: from now on its price is due, unless the call reports that nothing was sent.
    pub(crate) fn begin(&mut self) {
        self.begun = true;
    }

    /// Charges the price of the ended call, successful or not, and returns it.
    pub(crate) fn settle(mut self) -> Micros {
        self.settle_once()
    }

    fn settle_once(&mut self) -> Micros {
        let Some(hold) = self.hold.take() else {
            return Micros::ZERO;
        };
        self.meter.budget().settle_price(Instant::now(), hold)
    }

    /// Nothing was sent: releases the price.
    pub(crate) fn release(mut self) {
        self.begun = false;
    }
}

impl Drop for HeldPrice<'_, '_> {
    fn drop(&mut self) {
        if !self.begun {
            if let Some(hold) = self.hold.take() {
                self.meter.budget().release_price(hold);
            }
            return;
        }
        let cost_micros = self.settle_once();
        if cost_micros.is_zero() {
            return;
        }
        self.meter.sink.charged(EventType::ToolEnd(ToolEnd {
            tool: self.call.name.clone(),
            id: self.call.id.clone(),
            is_error: true,
            output: NOT_AWAITED.to_owned(),
            output_bytes: NOT_AWAITED.len() as u64,
            duration_ms: millis(self.began.elapsed()),
            cost_micros,
        }));
        self.meter.update_sink();
    }
}
