//! Occurrences of a cron expression in a time zone.
//!
//! The five fields are matched against local time. When the clocks change, two rules apply. An expression that names
//! hours keeps its times: a local time that does not exist moves to the first moment after the gap, and a local time
//! that occurs twice counts once, at the first. Times that then fall on the same moment are one occurrence. An
//! expression for every hour keeps its pace: it has no occurrence in a gap, and occurs in both passes of a repeated
//! hour. Occurrences are strictly increasing. An expression without occurrences is refused when it is read, so every
//! search ends.

use croner::{
    Cron,
    parser::{CronParser, Seconds, Year},
};
use jiff::{
    SignedDuration,
    civil::DateTime,
    tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase},
};
use sortie_api::{Timestamp, limits};

/// Shorthands and their fields.
const SHORTHANDS: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

/// The last value of each field, for a step after a single value.
const LAST: [&str; 5] = ["59", "23", "31", "12", "7"];

/// Names of months and of days of the week.
const MONTHS: [&str; 12] = [
    "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// A cron expression in a time zone.
#[derive(Clone, Debug)]
pub(crate) struct Timetable {
    cron: Cron,
    zone: TimeZone,
    hours: Hours,
}

/// Rule for changes of the clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hours {
    /// The expression names hours and keeps its times.
    Named,
    /// The expression is for every hour and keeps its pace.
    Every,
}

impl Timetable {
    /// Reads an expression and the IANA name of its zone. The error is `field: rule`.
    pub(crate) fn new(cron: &str, zone: &str) -> Result<Self, String> {
        let cron = parse(cron).map_err(|rule| format!("cron: {rule}"))?;
        let zone = time_zone(zone).map_err(|rule| format!("timezone: {rule}"))?;
        let hours = if cron.pattern.hours.values().len() == 24 {
            Hours::Every
        } else {
            Hours::Named
        };
        Ok(Self { cron, zone, hours })
    }

    /// Returns the name of the zone in the time zone database.
    pub(crate) fn zone_name(&self) -> &str {
        self.zone.iana_name().unwrap_or("UTC")
    }

    /// Returns the first occurrence after `after`, or `None` at the end of the calendar.
    pub(crate) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let after = jiff::Timestamp::from_microsecond(after.as_micros()).ok()?;
        let next = match self.hours {
            Hours::Named => self.next_named(after),
            Hours::Every => self.next_of_every_hour(after),
        }?;
        Some(Timestamp::from_micros(next.as_microsecond()))
    }

    /// Walks the matching local times. Each has one occurrence, and the occurrences never go back in time.
    fn next_named(&self, after: jiff::Timestamp) -> Option<jiff::Timestamp> {
        // Every local time up to that of `after` has its occurrence at `after` or before.
        let mut time = after.to_zoned(self.zone.clone()).datetime();
        loop {
            time = self.cron.find_next_occurrence(&time, false).ok()?;
            let at = self.instant(time)?;
            if at > after {
                return Some(at);
            }
        }
    }

    /// Returns the moment of a local time.
    fn instant(&self, time: DateTime) -> Option<jiff::Timestamp> {
        let at = self.zone.to_ambiguous_timestamp(time);
        match at.offset() {
            AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Fold { .. } => at.earlier().ok(),
            // The gap follows the local time in the earlier offset: the next change of the zone ends it.
            AmbiguousOffset::Gap { .. } => {
                let within = at.earlier().ok()?;
                let change = self.zone.following(within).next()?;
                Some(change.timestamp())
            }
        }
    }

    /// Searches between one change of the clocks and the next, where local time and time advance alike.
    fn next_of_every_hour(&self, after: jiff::Timestamp) -> Option<jiff::Timestamp> {
        let mut from = after;
        let mut inclusive = false;
        loop {
            let shown = from.to_zoned(self.zone.clone()).datetime();
            let time = self.cron.find_next_occurrence(&shown, inclusive).ok()?;
            // Whole seconds: an expression has no fractions.
            let shown = shown.with().subsec_nanosecond(0).build().ok()?;
            let ahead = SignedDuration::from_secs(shown.duration_until(time).as_secs());
            let whole = jiff::Timestamp::from_second(from.as_second()).ok()?;
            let at = whole.checked_add(ahead).ok()?;
            match self.zone.following(from).next() {
                Some(change) if change.timestamp() <= at => {
                    from = change.timestamp();
                    inclusive = true;
                }
                Some(_) | None => return Some(at),
            }
        }
    }
}

/// Returns the zone of an IANA name, from the database in this binary: every node has the same one.
fn time_zone(name: &str) -> Result<TimeZone, String> {
    let unknown = || {
        let shown: String = name.chars().take(limits::TIMEZONE_BYTES).collect();
        format!("no IANA time zone {shown:?}")
    };
    if name.len() > limits::TIMEZONE_BYTES {
        return Err(unknown());
    }
    TimeZoneDatabase::bundled().get(name).map_err(|_| unknown())
}

/// Error for fields that have the right form but values out of range.
const RANGES: &str = "must have minutes 0-59, hours 0-23, days 1-31, months 1-12 or JAN-DEC, weekdays 0-7 or SUN-SAT; a \
                      range goes up and a step is at least 1";

/// Reads an expression: five fields of numbers, names, ranges, lists and steps, or a shorthand.
fn parse(text: &str) -> Result<Cron, String> {
    if text.len() > limits::CRON_BYTES {
        return Err(format!("must be at most {} bytes", limits::CRON_BYTES));
    }
    let fields: Vec<&str> = text
        .split([' ', '\t'])
        .filter(|field| !field.is_empty())
        .collect();
    let shorthand = match fields.as_slice() {
        [one] => SHORTHANDS.iter().find(|(name, _)| name == one),
        _ => None,
    };
    let fields = shorthand.map_or(fields, |(_, meaning)| meaning.split(' ').collect());
    check_form(&fields)?;
    let ranges = fields.iter().zip(LAST);
    let ranges: Vec<String> = ranges.map(|(field, last)| with_range(field, last)).collect();
    let cron = CronParser::builder()
        .seconds(Seconds::Disallowed)
        .year(Year::Disallowed)
        .build()
        .parse(&ranges.join(" "))
        .map_err(|_| RANGES.to_owned())?;
    if ever(&cron, &fields) {
        Ok(cron)
    } else {
        Err("no month of the expression has such a day, so it would never fire".to_owned())
    }
}

/// Checks the form of each field. The parser itself accepts more: seconds, years, `L`, `W`, `#`, `?`, empty lists,
/// names without separators.
fn check_form(fields: &[&str]) -> Result<(), String> {
    let [minute, hour, day, month, weekday] = fields else {
        return Err(format!(
            "must be five fields (minute, hour, day of month, month, day of week) or one of {}",
            SHORTHANDS.map(|(name, _)| name).join(", ")
        ));
    };
    for (field, name, names) in [
        (minute, "minute", &[][..]),
        (hour, "hour", &[]),
        (day, "day of month", &[]),
        (month, "month", &MONTHS),
        (weekday, "day of week", &WEEKDAYS),
    ] {
        if !field.split(',').all(|part| is_part(part, names)) {
            return Err(format!(
                "{field:?} is not a valid {name}: use numbers, ranges, lists and steps such as 5, 1-5, 0,30, */15 or 5/15"
            ));
        }
    }
    Ok(())
}

/// Rewrites a step after a single value as a step after the range from that value to the last one.
fn with_range(field: &str, last: &str) -> String {
    let parts = field.split(',').map(|part| match part.split_once('/') {
        Some((from, step)) if from != "*" && !from.contains('-') => format!("{from}-{last}/{step}"),
        _ => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join(",")
}

/// Whether `part` is `*`, a value or a range, optionally with a step.
fn is_part(part: &str, names: &[&str]) -> bool {
    let is_number =
        |text: &str| (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_value = |text: &str| is_number(text) || names.iter().any(|name| name.eq_ignore_ascii_case(text));
    let (range, step) = part
        .split_once('/')
        .map_or((part, None), |(range, step)| (range, Some(step)));
    let bounds = range.split_once('-');
    let is_range = range == "*" || bounds.is_some_and(|(from, to)| is_value(from) && is_value(to));
    match step {
        Some(step) => (is_range || is_value(range)) && is_number(step),
        None => is_range || is_value(range),
    }
}

/// Whether any date matches. If the expression names days of the week as well, one match of either kind is enough.
fn ever(cron: &Cron, fields: &[&str]) -> bool {
    let longest = |month: &u16| match month {
        2 => 29,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let first = cron.pattern.days.values().into_iter().min();
    let last = cron.pattern.months.values().iter().map(longest).max();
    let is_any_weekday = fields.last() == Some(&"*");
    !is_any_weekday || first.is_some_and(|first| last.is_some_and(|last| first <= last))
}

#[cfg(test)]
#[path = "timetable_tests.rs"]
mod tests;
