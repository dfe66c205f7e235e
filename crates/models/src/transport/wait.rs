//! The retry delay that a provider asks for, in headers, in fields of the body or in the message.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, header::DATE};
use jiff::SignedDuration;
use serde_json::Value;

/// Maximum delay that we accept: no quota of a provider covers more than a day.
const LONGEST: Duration = Duration::from_hours(24);
/// Maximum time until a reset that we wait for if the provider does not say which of its limits was reached.
const LONGEST_GUESS: Duration = Duration::from_mins(1);
/// Numbers from here on are not delays but seconds since 1970.
const EPOCH_SECONDS: f64 = 1e9;
/// Numbers from here on are milliseconds since 1970.
const EPOCH_MILLIS: f64 = 1e12;
/// Maximum number of bytes between the words that ask for a delay and its number.
const WORDS_BETWEEN: usize = 32;

/// Words that may appear between them.
const BETWEEN: [&str; 18] = [
    "in",
    "after",
    "for",
    "at",
    "least",
    "about",
    "approximately",
    "around",
    "is",
    "your",
    "this",
    "the",
    "request",
    "delay",
    "again",
    "of",
    "another",
    "time",
];

/// A field of a failure's body that may contain a delay: its name and its value.
pub(super) type Field = (String, String);

/// Returns the fields of a failure's body that may contain a delay, at any depth.
pub(super) fn fields(body: &Value) -> Vec<Field> {
    let mut found = Vec::new();
    collect(body, &mut found);
    found
}

fn collect(value: &Value, found: &mut Vec<Field>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| collect(value, found)),
        Value::Object(object) => {
            for (name, value) in object {
                match value {
                    Value::String(text) if is_of_wait(name) => found.push((folded(name), text.clone())),
                    Value::Number(number) if is_of_wait(name) => {
                        found.push((folded(name), number.to_string()));
                    }
                    Value::Null
                    | Value::Bool(_)
                    | Value::Number(_)
                    | Value::String(_)
                    | Value::Array(_)
                    | Value::Object(_) => collect(value, found),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns the delay that a refusal asks for, from its headers, the `fields` of its body and its message. An explicit delay has
/// priority: the reset time of a limit says only when the full quota is available again.
pub(super) fn asked(headers: &HeaderMap, fields: &[Field], said: &str) -> Option<Duration> {
    let date = headers.get(DATE).and_then(|value| value.to_str().ok());
    // Absolute times refer to the provider's clock, which the response contains: ours may differ.
    let now = date.and_then(|date| httpdate::parse_http_date(date).ok());
    let mut all: Vec<Field> = headers
        .iter()
        .filter(|(name, _)| is_of_wait(name.as_str()))
        .filter_map(|(name, value)| Some((folded(name.as_str()), value.to_str().ok()?.to_owned())))
        .collect();
    all.extend_from_slice(fields);
    let named = |endings: &[&str], read: &dyn Fn(&str) -> Option<Duration>| {
        let matching = |name: &str| endings.iter().any(|ending| name.ends_with(ending));
        all.iter()
            .find_map(|(name, value)| matching(name).then(|| read(value)).flatten())
    };
    named(&["retryafterms", "retryaftermillis"], &millis)
        .or_else(|| {
            let endings = ["retryafter", "retryafterseconds", "retrydelay", "quotaresetdelay"];
            named(&endings, &|value| wait(value, now))
        })
        .or_else(|| in_words(said))
        .or_else(|| reset(&all, now))
}

/// Whether a field or header with this name can contain a delay.
fn is_of_wait(name: &str) -> bool {
    let name = folded(name);
    ["retry", "reset", "remaining"]
        .iter()
        .any(|word| name.contains(word))
}

/// Normalizes the names of headers and fields.
fn folded(name: &str) -> String {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    letters.map(|c| c.to_ascii_lowercase()).collect()
}

fn millis(value: &str) -> Option<Duration> {
    let millis: f64 = value.trim().parse().ok()?;
    seconds(millis / 1_000.0)
}

fn seconds(seconds: f64) -> Option<Duration> {
    believable(Duration::try_from_secs_f64(seconds).ok()?)
}

fn believable(wait: Duration) -> Option<Duration> {
    (wait <= LONGEST).then_some(wait)
}

/// Parses a delay from `now`: seconds, a duration such as `1m2.5s`, a date, or seconds or milliseconds since 1970, which some
/// servers send instead of seconds.
fn wait(value: &str, now: Option<SystemTime>) -> Option<Duration> {
    let value = value.trim();
    let until = |moment: SystemTime| believable(moment.duration_since(now?).unwrap_or_default());
    if let Ok(number) = value.parse::<f64>() {
        let since_epoch =
            |seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(seconds).ok()?);
        return match number {
            EPOCH_MILLIS.. => until(since_epoch(number / 1_000.0)?),
            EPOCH_SECONDS.. => until(since_epoch(number)?),
            number => seconds(number),
        };
    }
    if let Some(duration) = duration(value) {
        return Some(duration);
    }
    let moment = httpdate::parse_http_date(value).ok();
    let moment = moment.or_else(|| Some(SystemTime::from(value.parse::<jiff::Timestamp>().ok()?)));
    until(moment?)
}

/// Parses a duration in any common notation.
fn duration(text: &str) -> Option<Duration> {
    let duration: SignedDuration = text.parse().ok()?;
    believable(Duration::try_from(duration).ok()?)
}

/// Returns the longest time until the reset of an exhausted limit. If no limit is marked as exhausted, returns the longest reset
/// within [`LONGEST_GUESS`], or else the shortest one.
fn reset(all: &[Field], now: Option<SystemTime>) -> Option<Duration> {
    let resets = all.iter().filter_map(|(name, value)| {
        let is_reset = name.contains("ratelimit") && name.contains("reset");
        let wait = wait(value, now).filter(|_| is_reset)?;
        let remaining = name.replace("reset", "remaining");
        let left = all.iter().find(|(name, _)| *name == remaining);
        Some((wait, left.is_some_and(|(_, left)| left.trim() == "0")))
    });
    let resets: Vec<(Duration, bool)> = resets.collect();
    let waits = || resets.iter().map(|(wait, _)| *wait);
    let used_up = resets.iter().filter(|(_, is_used_up)| *is_used_up);
    used_up
        .map(|(wait, _)| *wait)
        .max()
        .or_else(|| waits().filter(|wait| *wait <= LONGEST_GUESS).max())
        .or_else(|| waits().min())
}

/// Returns the delay that a message asks for, such as `Please try again in 1m2.5s` or `retry after 45 seconds`.
pub(super) fn in_words(said: &str) -> Option<Duration> {
    let said = said.to_ascii_lowercase();
    let phrases = ["try again", "retry", "retrydelay", "resets", "reset", "wait"];
    let ends = phrases
        .iter()
        .flat_map(|phrase| said.match_indices(phrase).map(|(at, found)| at + found.len()));
    ends.filter_map(|end| said.get(end..)).find_map(|rest| {
        let at = rest.find(|c: char| c.is_ascii_digit() || matches!(c, '.' | ';' | '\n'))?;
        let between = rest.get(..at).filter(|_| at <= WORDS_BETWEEN)?;
        let mut words = between.split(|c: char| !c.is_ascii_alphabetic());
        // `waiting` and `retries` do not ask for a delay.
        let is_whole = words.next().is_some_and(str::is_empty);
        let asks = is_whole && words.all(|word| word.is_empty() || BETWEEN.contains(&word));
        written_wait(rest.get(at..).filter(|_| asks)?)
    })
}

/// Parses the duration at the start of a text, from as many words as possible. A bare number means seconds.
fn written_wait(text: &str) -> Option<Duration> {
    const MOST_WORDS: usize = 6;
    let words: Vec<&str> = text.split_whitespace().take(MOST_WORDS).collect();
    let ended = |words: &[&str]| {
        let joined: Vec<&str> = words.iter().copied().filter(|word| *word != "and").collect();
        let joined = joined.join(" ");
        joined
            .trim_end_matches(|c: char| !c.is_ascii_alphanumeric())
            .to_owned()
    };
    let longest = (1..=words.len())
        .rev()
        .find_map(|count| duration(&ended(words.get(..count)?)));
    longest.or_else(|| {
        let first = words.first()?;
        let number: f64 = ended(&[first]).parse().ok()?;
        // The next word may be an unknown unit.
        let is_alone = words.len() == 1 || first.ends_with(|c: char| !c.is_ascii_alphanumeric());
        seconds(number).filter(|_| is_alone)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn millis_asked(headers: &[(&str, &str)], body: &Value, said: &str) -> Option<u128> {
        let mut map = HeaderMap::new();
        map.insert(DATE, "Sat, 21 Nov 2026 10:00:00 GMT".parse().unwrap());
        for (name, value) in headers {
            let name: http::HeaderName = name.parse().unwrap();
            map.insert(name, value.parse().unwrap());
        }
        asked(&map, &fields(body), said).map(|wait| wait.as_millis())
    }

    #[test]
    fn a_wait_is_read_from_every_header_that_providers_use() {
        for (headers, expected) in [
            (&[("retry-after", "7")][..], Some(7_000)),
            (&[("retry-after", "0.5")], Some(500)),
            (&[("retry-after", "1m2.5s")], Some(62_500)),
            (&[("retry-after", "Sat, 21 Nov 2026 10:01:30 GMT")], Some(90_000)),
            (&[("retry-after", "2026-11-21T10:00:20Z")], Some(20_000)),
            // Seconds and milliseconds since 1970.
            (&[("retry-after", "1795255230")], Some(30_000)),
            (&[("x-ratelimit-reset", "1795255230000")], Some(30_000)),
            (&[("retry-after-ms", "250"), ("retry-after", "7")], Some(250)),
            (&[("x-ms-retry-after-ms", "1500")], Some(1_500)),
            (&[("retry-after-ms", "soon"), ("retry-after", "7")], Some(7_000)),
            (&[("x-ratelimit-reset-tokens", "6m0s")], Some(360_000)),
            (&[("x-ratelimit-reset-requests", "12ms")], Some(12)),
            (
                &[("anthropic-ratelimit-tokens-reset", "2026-11-21T10:00:45Z")],
                Some(45_000),
            ),
            (&[("ratelimit-reset", "30")], Some(30_000)),
            // The exhausted limit, or the longest near reset.
            (
                &[
                    ("x-ratelimit-reset-requests", "2m59.5s"),
                    ("x-ratelimit-remaining-requests", "0"),
                    ("x-ratelimit-reset-tokens", "7s"),
                    ("x-ratelimit-remaining-tokens", "900"),
                ],
                Some(179_500),
            ),
            (
                &[
                    ("x-ratelimit-reset-requests", "2m59.5s"),
                    ("x-ratelimit-reset-tokens", "7s"),
                ],
                Some(7_000),
            ),
        ] {
            assert_eq!(millis_asked(headers, &Value::Null, ""), expected, "{headers:?}");
        }
    }

    #[test]
    fn a_wait_that_makes_no_sense_is_none() {
        for value in [
            "-1", "NaN", "inf", "1e400", "soon", "", "99999999", "30 fish", "-5s", "4000h", "PT", "1.2.3",
        ] {
            for name in ["retry-after", "retry-after-ms", "x-ratelimit-reset-tokens"] {
                assert_eq!(
                    millis_asked(&[(name, value)], &Value::Null, ""),
                    None,
                    "{name}: {value}"
                );
            }
        }
        // A past time is not a delay, and an invalid one does not hide others.
        assert_eq!(
            millis_asked(&[("retry-after", "1700000000")], &Value::Null, ""),
            Some(0)
        );
        let hidden = millis_asked(&[("retry-after", "-1")], &json!({"retry_after": 4}), "");
        assert_eq!(hidden, Some(4_000));
    }

    #[test]
    fn a_wait_is_read_from_the_fields_of_a_body() {
        for (body, expected) in [
            (
                json!({"error": {"details": [{"@type": "a"}, {"retryDelay": "34.074824224s"}]}}),
                Some(34_074),
            ),
            (
                json!([{"error": {"details": [{"retryDelay": "9s"}]}}]),
                Some(9_000),
            ),
            (
                json!({"error": {"metadata": {"headers": {"X-RateLimit-Reset": "1795255260000"}}}}),
                Some(60_000),
            ),
            (json!({"error": {"retry_after": 2.5}}), Some(2_500)),
            (json!({"retry_after_seconds": 11, "max_retries": 3}), Some(11_000)),
            (
                json!({"error": {"metadata": {"quotaResetDelay": "2.463586755s"}}}),
                Some(2_463),
            ),
            (json!({"error": {"retryable": true, "retries": 4}}), None),
        ] {
            assert_eq!(millis_asked(&[], &body, ""), expected, "{body}");
        }
    }

    #[test]
    fn a_wait_is_read_from_words() {
        for (said, expected) in [
            (
                "Limit 30000, Used 25292, Requested 10584. Please try again in 18.5s. Visit https://x.example",
                Some(18_500),
            ),
            ("Please try again in 1m2s.", Some(62_000)),
            ("Please try again in 6m. Visit", Some(360_000)),
            ("try again in 6m0s", Some(360_000)),
            ("Please try again in 1h2m3.5s.", Some(3_723_500)),
            ("Please try again in 20ms.", Some(20)),
            (
                "have exceeded token rate limit. Please retry after 45 seconds. Please go here: https://x.example",
                Some(45_000),
            ),
            ("Please retry in 58.934310785s.", Some(58_934)),
            (
                "Maximum 100 requests per hour allowed. Try again in 420 seconds.",
                Some(420_000),
            ),
            (
                "Too many requests, please wait 2 minutes and 5 seconds before trying again",
                Some(125_000),
            ),
            ("Rate limit exceeded. Resets in 8 min.", Some(480_000)),
            ("Your quota will reset after 12h34m16s.", Some(45_256_000)),
            ("Retry-After: 30", Some(30_000)),
            ("retryDelay: \"34s\"", Some(34_000)),
            ("retry after 60.", Some(60_000)),
            (
                "error sending request: Connection reset by peer (os error 104)",
                None,
            ),
            ("Timed out waiting 600 seconds for the model to start", None),
            // Numbers with another meaning.
            ("Please try again later.", None),
            ("Please retry. It took 300s", None),
            ("retry with at most 5 requests", None),
            ("try again after 10 fish", None),
            ("The server had an error while it processed your request", None),
            ("wait", None),
        ] {
            assert_eq!(millis_asked(&[], &Value::Null, said), expected, "{said}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics_and_no_wait_is_absurd(value in "[ -~]{0,24}", said in "(try again|retry after|wait) ?[0-9.a-z ,]{0,24}") {
            let wait = millis_asked(&[("retry-after", &value)], &Value::Null, &said);
            prop_assert!(wait.unwrap_or_default() <= LONGEST.as_millis());
        }
    }
}
