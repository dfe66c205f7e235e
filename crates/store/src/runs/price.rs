//! Price of the compute time of a run, in SQL. No step of it overflows.

use sortie_api::Micros;

use crate::db::Val;

/// Highest price of a second that is calculated with. Its product with a fraction of a second in microseconds
/// does not overflow.
const MAX_RATE: i64 = 4_000_000_000_000;

/// Price of `@elapsed` microseconds, rounded up. `@rate` and `@seconds` are the parameters of [`rate_params`].
pub(super) const PRICE: &str = "(@rate * {LEAST}(@seconds, {GREATEST}(0, @elapsed) / 1000000) \
    + (@rate * ({GREATEST}(0, @elapsed) % 1000000) + 999999) / 1000000)";

/// Time in microseconds from the first claim of a cancelled run to its cancellation.
pub(super) const UNTIL_CANCELLED: &str =
    "COALESCE(clock_cancelled_at - clock_started_at, finished_at - started_at, 0)";

/// Parameters of [`PRICE`]: the price of a second, at most [`MAX_RATE`], and the highest number of seconds that can be
/// multiplied by it.
pub(super) fn rate_params(compute_micros_per_second: Micros) -> [Val<'static>; 2] {
    let rate = compute_micros_per_second.get().min(MAX_RATE);
    let seconds = (i64::MAX / 2).checked_div(rate).unwrap_or(i64::MAX);
    [rate.into(), seconds.into()]
}
