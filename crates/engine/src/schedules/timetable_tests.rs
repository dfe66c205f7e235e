//! The timetable compared with an implementation that checks every minute, and the rules for clock changes.

use jiff::{SignedDuration, Timestamp as Instant, civil::DateTime, tz::TimeZone};
use proptest::prelude::*;
use sortie_testkit::list;

use super::*;

/// An expression as sets of numbers, one bit for each number.
#[derive(Clone, Debug)]
struct Sets {
    /// Minutes, hours, days of the month, months, days of the week.
    fields: [u64; 5],
    any_day: bool,
    any_weekday: bool,
}

impl Sets {
    fn read(cron: &str) -> Self {
        let fields: Vec<&str> = cron.split(' ').collect();
        let set = |at: usize, least: u32, most: u32| -> u64 {
            let mut set = 0;
            for part in fields[at].split(',') {
                let (range, step) = part.split_once('/').unwrap_or((part, "1"));
                let (from, to) = match range.split_once('-') {
                    Some((from, to)) => (from.parse().unwrap(), to.parse().unwrap()),
                    None if range == "*" => (least, most),
                    None => (range.parse().unwrap(), range.parse().unwrap()),
                };
                for value in (from..=to).step_by(step.parse().unwrap()) {
                    set |= 1 << value;
                }
            }
            set
        };
        let weekdays = set(4, 0, 6);
        Self {
            fields: [
                set(0, 0, 59),
                set(1, 0, 23),
                set(2, 1, 31),
                set(3, 1, 12),
                weekdays | weekdays >> 7,
            ],
            any_day: fields[2] == "*",
            any_weekday: fields[4] == "*",
        }
    }

    fn matches(&self, time: DateTime) -> bool {
        let has = |field: usize, value: i8| self.fields[field] >> value & 1 == 1;
        let day = || has(2, time.day());
        let weekday = || has(4, time.weekday().to_sunday_zero_offset());
        let date = || match (self.any_day, self.any_weekday) {
            (true, _) => weekday(),
            (false, true) => day(),
            (false, false) => day() || weekday(),
        };
        has(0, time.minute()) && has(1, time.hour()) && has(3, time.month()) && date()
    }

    fn every_hour(&self) -> bool {
        self.fields[1].count_ones() == 24
    }
}

/// A minute: its beginning, the local time, and a number that grows by one with each minute of local time.
struct Minute {
    at: Instant,
    shown: DateTime,
    number: i64,
}

/// Every minute of a stretch of time.
fn minutes(zone: &TimeZone, from: Instant, to: Instant) -> Vec<Minute> {
    let first = from.as_second() / 60;
    (first..=to.as_second() / 60)
        .map(|minute| {
            let at = Instant::from_second(minute * 60).unwrap();
            let offset = zone.to_offset(at);
            let number = (at.as_second() + i64::from(offset.seconds())) / 60;
            Minute {
                at,
                shown: offset.to_datetime(at),
                number,
            }
        })
        .collect()
}

/// The occurrences among these minutes, in order.
fn naive(sets: &Sets, minutes: &[Minute]) -> Vec<Instant> {
    let mut instants = Vec::new();
    let mut latest = minutes[0].number - 1;
    for minute in minutes {
        // Number of local minutes that are new at this minute: 1 as a rule, 0 after the clock was set back, several after it was
        // set forward.
        let new = minute.number - latest;
        latest = latest.max(minute.number);
        let is_instant = if sets.every_hour() || new == 1 {
            sets.matches(minute.shown)
        } else {
            (0..new).any(|back| sets.matches(minute.shown - SignedDuration::from_mins(back)))
        };
        if is_instant {
            instants.push(minute.at);
        }
    }
    instants
}

/// The occurrences of a timetable, in order.
fn all(timetable: &Timetable, from: Instant, to: Instant) -> Vec<Instant> {
    let mut instants = Vec::new();
    let mut at = Timestamp::from_micros(from.as_microsecond() - 1);
    while let Some(next) = timetable.next(at) {
        assert!(next > at);
        at = next;
        let instant = Instant::from_microsecond(next.as_micros()).unwrap();
        if instant > to {
            break;
        }
        instants.push(instant);
    }
    instants
}

fn zone(name: &str) -> TimeZone {
    TimeZoneDatabase::bundled().get(name).unwrap()
}

/// Zones with different clock changes: at night, at midnight, by half an hour, in the south, with an offset of 45 minutes, none
/// at all.
const ZONES: [&str; 7] = list! {
    "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Africa/Cairo", "America/Santiago",
    "Pacific/Chatham", "Asia/Kolkata",
};

#[test]
fn two_years_in_many_zones_are_as_a_look_at_every_minute_says() {
    let expressions = list! {
        "*/15 * * * *", "30 * * * *", "30 2 * * *", "0,30 0-3 * * *", "*/20 1,2 * * 0", "15 */2 * * *",
        "0 0 29 2 *", "59 23 28-31 * 1-5", "5 0,12 13 * 5",
    };
    let from: Instant = "2026-01-01T00:00:00Z".parse().unwrap();
    let to: Instant = "2027-12-31T23:59:00Z".parse().unwrap();
    for name in ZONES {
        let all_minutes = minutes(&zone(name), from, to);
        for expression in expressions {
            let timetable = Timetable::new(expression, name).unwrap();
            let found = all(&timetable, from, to);
            assert_eq!(
                found,
                naive(&Sets::read(expression), &all_minutes),
                "{expression} {name}"
            );
        }
    }
}

fn field(least: u32, most: u32) -> impl Strategy<Value = String> {
    let range = move || (least..=most, least..=most).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b)));
    let part = prop_oneof![
        (least..=most).prop_map(|value| value.to_string()),
        range(),
        (range(), 1_u32..9).prop_map(|(range, step)| format!("{range}/{step}")),
        (1_u32..40).prop_map(|step| format!("*/{step}")),
    ];
    prop_oneof![
        2 => Just("*".to_owned()),
        3 => prop::collection::vec(part, 1..4).prop_map(|parts| parts.join(",")),
    ]
}

fn expression() -> impl Strategy<Value = String> {
    (
        field(0, 59),
        field(0, 23),
        field(1, 31),
        field(1, 12),
        field(0, 7),
    )
        .prop_map(|(minute, hour, day, month, weekday)| format!("{minute} {hour} {day} {month} {weekday}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Four days around a clock change, or any four days in a zone without one.
    #[test]
    fn any_expression_is_as_a_look_at_every_minute_says(
        expression in expression(),
        name in prop::sample::select(&ZONES[..]),
        second in 1_700_000_000_i64..1_900_000_000,
    ) {
        let zone = zone(name);
        let about = Instant::from_second(second - second.rem_euclid(60)).unwrap();
        let about = zone.following(about).next().map_or(about, |change| change.timestamp());
        let (from, to) = (about - SignedDuration::from_hours(50), about + SignedDuration::from_hours(50));
        if let Ok(timetable) = Timetable::new(&expression, name) {
            let seen = minutes(&zone, from, to);
            prop_assert_eq!(all(&timetable, from, to), naive(&Sets::read(&expression), &seen), "{} {}", expression, about);
        }
    }

    #[test]
    fn no_text_makes_it_panic_and_what_it_takes_fires(cron in "\\PC{0,30}", zone in "\\PC{0,20}") {
        let _read = Timetable::new(&cron, &zone);
    }

    #[test]
    fn what_is_almost_an_expression_is_refused_or_fires(
        cron in "[0-9A-Z*/,@#LW?+ -]{0,24}",
        expression in expression(),
    ) {
        for text in [cron, expression] {
            if let Ok(timetable) = Timetable::new(&text, "Europe/Berlin") {
                prop_assert!(timetable.next(Timestamp::from_micros(1_763_674_200_123_456)).is_some(), "{}", text);
            }
        }
    }
}

/// The occurrences of a day in the local time of the zone, with the offset.
fn on(expression: &str, name: &str, day: &str) -> Vec<String> {
    let timetable = Timetable::new(expression, name).unwrap();
    let zone = zone(name);
    let day: jiff::civil::Date = day.parse().unwrap();
    let from = day.to_zoned(zone.clone()).unwrap().timestamp();
    let to = day
        .tomorrow()
        .unwrap()
        .to_zoned(zone.clone())
        .unwrap()
        .timestamp();
    all(&timetable, from, to - SignedDuration::from_secs(1))
        .into_iter()
        .map(|at| at.to_zoned(zone.clone()).strftime("%H:%M%:z").to_string())
        .collect()
}

#[test]
fn a_time_that_does_not_exist_is_once_at_the_first_moment_after_the_gap() {
    // On this day 02:00 to 03:00 do not exist.
    assert_eq!(on("30 2 * * *", "Europe/Berlin", "2026-03-29"), ["03:00+02:00"]);
    assert_eq!(
        on("0,15,30 2 * * *", "Europe/Berlin", "2026-03-29"),
        ["03:00+02:00"]
    );
    assert_eq!(on("0 2,3 * * *", "Europe/Berlin", "2026-03-29"), ["03:00+02:00"]);
    assert_eq!(
        on("30 1-3 * * *", "Europe/Berlin", "2026-03-29"),
        ["01:30+01:00", "03:00+02:00", "03:30+02:00"]
    );
    // Midnight itself is skipped, with the half hour after it.
    assert_eq!(on("0 0 * * *", "Africa/Cairo", "2026-04-24"), ["01:00+03:00"]);
    assert_eq!(
        on("15 2 * * *", "Australia/Lord_Howe", "2026-10-04"),
        ["02:30+11:00"]
    );
}

#[test]
fn a_time_that_occurs_twice_is_the_first_of_the_two() {
    // On this day 02:00 to 03:00 occur twice.
    assert_eq!(on("30 2 * * *", "Europe/Berlin", "2026-10-25"), ["02:30+02:00"]);
    assert_eq!(
        on("*/30 2,3 * * *", "Europe/Berlin", "2026-10-25"),
        ["02:00+02:00", "02:30+02:00", "03:00+01:00", "03:30+01:00"]
    );
    assert_eq!(
        on("45 1 * * *", "Australia/Lord_Howe", "2026-04-05"),
        ["01:45+11:00"]
    );
}

#[test]
fn every_hour_keeps_its_pace_where_the_clock_is_set() {
    let night = |day: &str| {
        let mut hours = on("30 * * * *", "Europe/Berlin", day);
        hours.truncate(5);
        hours
    };
    assert_eq!(
        night("2026-03-29"),
        list! {
            "00:30+01:00", "01:30+01:00", "03:30+02:00", "04:30+02:00", "05:30+02:00",
        }
    );
    assert_eq!(
        night("2026-10-25"),
        list! {
            "00:30+02:00", "01:30+02:00", "02:30+02:00", "02:30+01:00", "03:30+01:00",
        }
    );
    assert_eq!(on("@hourly", "Europe/Berlin", "2026-03-29").len(), 23);
    assert_eq!(on("@hourly", "Europe/Berlin", "2026-10-25").len(), 25);
    assert_eq!(on("*/15 * * * *", "Europe/Berlin", "2026-03-29").len(), 23 * 4);
    assert_eq!(on("*/15 0-23 * * *", "Europe/Berlin", "2026-10-25").len(), 25 * 4);
}

#[test]
fn shorthands_and_names_stand_for_their_fields() {
    for (short, long) in [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("5/15 * * * *", "5,20,35,50 * * * *"),
        ("0 8/6 * * *", "0 8,14,20 * * *"),
        ("0,30/20 0 10/7,1 nov/1 *", "0,30,50 0 1,10,17,24,31 11,12 *"),
        ("0 0 * * MON/2", "0 0 * * 1,3,5,7"),
        ("0 0 * * 5/2", "0 0 * * 5,7"),
        ("59/1 * * * *", "59 * * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("30 7 * jan,Feb MON-FRI", "30 7 * 1,2 1-5"),
        ("0 0 * * fri-sun", "0 0 * * 0,5,6"),
        ("  0 \t 0 * * 7 ", "0 0 * * 0"),
    ] {
        let from: Instant = "2026-01-01T00:00:00Z".parse().unwrap();
        let to: Instant = "2027-02-01T00:00:00Z".parse().unwrap();
        let short = Timetable::new(short, "UTC").unwrap();
        let long = Timetable::new(long, "UTC").unwrap();
        assert_eq!(all(&short, from, to), all(&long, from, to));
    }
}

#[test]
fn day_of_month_and_day_of_week_together_are_either_of_the_two() {
    let timetable = Timetable::new("0 0 13 * 5", "UTC").unwrap();
    let from: Instant = "2026-02-01T00:00:00Z".parse().unwrap();
    let to: Instant = "2026-02-28T00:00:00Z".parse().unwrap();
    let days: Vec<i8> = all(&timetable, from, to)
        .into_iter()
        .map(|at| at.to_zoned(TimeZone::UTC).day())
        .collect();
    assert_eq!(days, [6, 13, 20, 27]);
}

#[test]
fn a_step_of_days_beside_a_day_of_the_week_is_either_of_the_two() {
    let timetable = Timetable::new("0 0 */2 * 1", "UTC").unwrap();
    let from: Instant = "2026-01-31T12:00:00Z".parse().unwrap();
    let to: Instant = "2026-02-15T12:00:00Z".parse().unwrap();
    let days: Vec<i8> = all(&timetable, from, to)
        .into_iter()
        .map(|at| at.to_zoned(TimeZone::UTC).day())
        .collect();
    // The odd days, and the Mondays 2 and 9.
    assert_eq!(days, [1, 2, 3, 5, 7, 9, 11, 13, 15]);
}

#[test]
fn what_is_no_expression_of_five_fields_is_refused() {
    for cron in list! {
        "", " ", "* * * *", "* * * * * *", "* * * * * * *", "@reboot", "@Daily", "@daily *", "@", "60 * * * *",
        "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 13 *", "* * * 0 *", "* * * * 8", "5-1 * * * *",
        "*/0 * * * *", "60/15 * * * *", "5/0 * * * *", "5/ * * * *", "/15 * * * *", "5/15/2 * * * *", "5/x * * * *",
        "@Midnight", ", * * * *", "1,,2 * * * *", "1, * * * *", "-1 * * * *", "1- * * * *", "*-5 * * * *",
        "* * L * *", "* * 15W * *", "* * * * 5L", "* * * * 5#2", "* * ? * *", "0 0 1 * +MON", "H * * * *",
        "* * * JANFEB *", "* * * * MONDAY", "* * MON * *", "* * * * JAN", "1.5 * * * *", "٣ * * * *",
        "1\n2 * * * *", "* * * * FRI-MON", "100 * * * *",
    } {
        let refused = Timetable::new(cron, "UTC").err();
        assert!(refused.is_some_and(|rule| rule.starts_with("cron: ")), "{cron:?}");
    }
    assert!(Timetable::new(&format!("{} * * * *", ["1"; 200].join(",")), "UTC").is_err());
}

#[test]
fn what_never_fires_is_refused_and_what_seldom_does_is_not() {
    for cron in ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "* * 31 6 *", "0 0 30,31 2 *"] {
        let rule = Timetable::new(cron, "UTC").err().unwrap_or_default();
        assert!(rule.contains("would never fire"), "{cron}: {rule}");
    }
    let leap = Timetable::new("0 0 29 2 *", "UTC").unwrap();
    // 2100 is no leap year.
    let from: Instant = "2096-03-01T00:00:00Z".parse().unwrap();
    let next = leap.next(Timestamp::from_micros(from.as_microsecond()));
    assert_eq!(next.unwrap().to_string(), "2104-02-29T00:00:00.000Z");
    assert!(Timetable::new("0 0 31 2 1", "UTC").is_ok(), "Mondays in February");
}

#[test]
fn a_zone_is_an_iana_name_and_is_shown_as_its_database_writes_it() {
    let name = |zone: &str| Timetable::new("@daily", zone).map(|timetable| timetable.zone_name().to_owned());
    assert_eq!(name("UTC").as_deref(), Ok("UTC"));
    assert_eq!(name("europe/berlin").as_deref(), Ok("Europe/Berlin"));
    for zone in list! {
        "", "Mars/Olympus", "+02:00", "CET-1CEST", "../etc/passwd", &"x".repeat(5_000),
    } {
        let rule = name(zone).unwrap_err();
        assert!(
            rule.starts_with("timezone: no IANA time zone") && rule.len() < 200,
            "{rule}"
        );
    }
}
