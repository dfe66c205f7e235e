//! Contents of tables and records, which look one way at a terminal and another in a file.

use std::io::IsTerminal as _;

use jiff::tz::TimeZone;
use sortie_api::Timestamp;
use sortie_engine::Clock;

/// Characters of an ID that a table shows at least: those of its time, to the millisecond, and ten random bits.
const SHORT_ID: usize = 12;

/// Content of a column or line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    Text(String),
    /// An ID, which a table at a terminal shortens.
    Id(String),
    /// A point in time, which a terminal shows as the time from now, or in the zone of the user.
    Time(Timestamp),
}

/// Surroundings that decide how a table or record looks.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    /// Width of the terminal. `None` for a file or a program: nothing is cut or shortened, and times are in UTC.
    pub(super) width: Option<u16>,
    is_wide: bool,
    now: Timestamp,
    zone: TimeZone,
}

impl Look {
    /// The look in a file, or for a program.
    pub(crate) fn plain() -> Self {
        Self {
            width: None,
            is_wide: false,
            now: Timestamp::from_micros(0),
            zone: TimeZone::UTC,
        }
    }

    /// The look at a terminal.
    pub(super) fn terminal(width: u16, now: Timestamp, zone: TimeZone) -> Self {
        Self {
            width: Some(width),
            is_wide: false,
            now,
            zone,
        }
    }

    /// The look on standard output.
    pub(super) fn of_process() -> Self {
        if !std::io::stdout().is_terminal() {
            return Self::plain();
        }
        let width = comfy_table::Table::new().width().unwrap_or(80);
        Self::terminal(width, Clock::system().now(), TimeZone::system())
    }

    /// The look with all columns, whole IDs and times.
    pub(super) fn wide(self) -> Self {
        Self {
            is_wide: true,
            ..self
        }
    }

    /// The look with times in a zone of the IANA database; in the zone of the user if this machine does not know it.
    pub(super) fn in_zone(self, zone: &str) -> Self {
        match TimeZone::get(zone) {
            Ok(zone) => Self { zone, ..self },
            Err(_) => self,
        }
    }

    /// Returns the width that a table must fit the terminal.
    pub(super) fn fits(&self) -> Option<u16> {
        self.width.filter(|_| !self.is_wide)
    }
}

impl Cell {
    /// Returns the content as it is.
    pub(super) fn plain(&self) -> String {
        match self {
            Self::Text(text) | Self::Id(text) => text.clone(),
            Self::Time(at) => at.to_string(),
        }
    }

    /// Returns the text in a table.
    pub(super) fn in_table(&self, look: &Look) -> String {
        match self {
            Self::Id(id) if look.fits().is_some() => short(id).to_owned(),
            Self::Time(at) if look.fits().is_some() => relative(*at, look.now),
            Self::Time(at) if look.width.is_some() => local(*at, &look.zone),
            Self::Text(_) | Self::Id(_) | Self::Time(_) => self.plain(),
        }
    }

    /// Returns the text in a record.
    pub(super) fn in_record(&self, look: &Look) -> String {
        match self {
            Self::Time(at) if look.width.is_some() => {
                format!("{} ({})", local(*at, &look.zone), relative(*at, look.now))
            }
            Self::Text(_) | Self::Id(_) | Self::Time(_) => self.plain(),
        }
    }
}

/// Returns the beginning of an ID, without its type. Commands take it in place of the ID.
fn short(id: &str) -> &str {
    let random = id.split_once('_').map_or(id, |(_, random)| random);
    random.get(..SHORT_ID).unwrap_or(random)
}

/// Returns a time in a zone: `2026-11-20 22:30:00 CET`.
fn local(at: Timestamp, zone: &TimeZone) -> String {
    jiff::Timestamp::from_microsecond(at.as_micros()).map_or_else(
        |_| at.to_string(),
        |at| {
            at.to_zoned(zone.clone())
                .strftime("%Y-%m-%d %H:%M:%S %Z")
                .to_string()
        },
    )
}

/// Returns the time from now in its largest unit: `3 min ago`, `in 2 h`.
fn relative(at: Timestamp, now: Timestamp) -> String {
    let (seconds, is_past) = if at <= now {
        (now.since(at).as_secs(), true)
    } else {
        (at.since(now).as_secs(), false)
    };
    let span = match seconds {
        0 => return "now".to_owned(),
        1..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    };
    if is_past {
        format!("{span} ago")
    } else {
        format!("in {span}")
    }
}

/// Returns the text of a value for a [`Field`](super::Field).
pub(crate) fn some(value: impl ToString) -> Option<Cell> {
    maybe(Some(value))
}

/// Returns the text of an optional value for a [`Field`](super::Field).
pub(crate) fn maybe(value: Option<impl ToString>) -> Option<Cell> {
    value.map(|value| Cell::Text(value.to_string()))
}

/// Returns an ID for a [`Field`](super::Field).
pub(crate) fn id(id: impl Into<String>) -> Option<Cell> {
    Some(id).map(|id| Cell::Id(id.into()))
}

/// Returns a time for a [`Field`](super::Field).
pub(crate) fn time(at: Timestamp) -> Option<Cell> {
    maybe_time(Some(at))
}

/// Returns an optional time for a [`Field`](super::Field).
pub(crate) fn maybe_time(at: Option<Timestamp>) -> Option<Cell> {
    at.map(Cell::Time)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_time_is_shown_in_its_largest_unit() {
        let now = Timestamp::from_micros(1_700_000_000_000_000);
        for (seconds, ago, ahead) in [
            (0, "now", "now"),
            (59, "59 s ago", "in 59 s"),
            (60, "1 min ago", "in 1 min"),
            (3_600, "1 h ago", "in 1 h"),
            (172_799, "47 h ago", "in 47 h"),
            (172_800, "2 d ago", "in 2 d"),
        ] {
            let span = Duration::from_secs(seconds);
            assert_eq!(relative(now - span, now), ago);
            assert_eq!(relative(now + span, now), ahead);
        }
    }

    #[test]
    fn a_terminal_shows_short_ids_and_local_times_and_a_file_whole_ones() {
        let at: Timestamp = "2026-11-20T21:30:00Z".parse().unwrap();
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let look = Look::terminal(80, at + Duration::from_mins(5), zone);
        let run = Cell::Id("run_01kafs6w1cefkstv6qr1ptb0mp".to_owned());
        assert_eq!(run.in_table(&look), "01kafs6w1cef");
        assert_eq!(run.in_table(&Look::plain()), "run_01kafs6w1cefkstv6qr1ptb0mp");
        assert_eq!(run.in_record(&look), "run_01kafs6w1cefkstv6qr1ptb0mp");
        let time = Cell::Time(at);
        assert_eq!(time.in_table(&look), "5 min ago");
        assert_eq!(time.in_record(&look), "2026-11-20 22:30:00 CET (5 min ago)");
        assert_eq!(time.in_table(&look.wide()), "2026-11-20 22:30:00 CET");
        assert_eq!(time.in_table(&Look::plain()), "2026-11-20T21:30:00.000Z");
    }
}
