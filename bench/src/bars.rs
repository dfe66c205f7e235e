//! Performance requirements. The report lists each with the measured figure and the limit of the machine.

use std::time::Duration;

use sortie_testkit::Database;

use crate::samples::Millis;

/// Requirement for a figure.
#[derive(Clone, Copy)]
pub(crate) enum Required {
    /// At least this rate per second.
    Rate(f64),
    /// Less than this number of seconds.
    Seconds(f64),
    /// Less than this number of KiB.
    Kibibytes(f64),
    /// Less than this number of MiB.
    Mebibytes(f64),
    /// Less than this fraction.
    Part(f64),
    /// At least this ratio.
    Ratio(f64),
}

impl Required {
    /// Returns the requirement as text.
    pub(crate) fn text(self) -> String {
        match self {
            Self::Rate(least) | Self::Ratio(least) => format!("≥ {}", self.amount(least)),
            Self::Seconds(bound) | Self::Kibibytes(bound) | Self::Mebibytes(bound) | Self::Part(bound) => {
                format!("< {}", self.amount(bound))
            }
        }
    }

    /// Formats an amount in the unit of this requirement.
    pub(crate) fn amount(self, amount: f64) -> String {
        match self {
            Self::Rate(_) => format!("{amount:.0}/s"),
            Self::Seconds(_) => Millis(Duration::from_secs_f64(amount)).to_string(),
            Self::Kibibytes(_) => format!("{amount:.1} KiB"),
            Self::Mebibytes(_) => format!("{amount:.1} MiB"),
            Self::Part(_) => format!("{:.1} %", 100.0 * amount),
            Self::Ratio(_) => format!("{amount:.2}"),
        }
    }

    /// Whether a figure meets the requirement.
    pub(crate) fn is_met(self, reached: f64) -> bool {
        match self {
            Self::Rate(least) | Self::Ratio(least) => reached >= least,
            Self::Seconds(bound) | Self::Kibibytes(bound) | Self::Mebibytes(bound) | Self::Part(bound) => {
                reached < bound
            }
        }
    }

    /// Returns the figure at the limit, from its share of the limit. `None` if there is no limit.
    pub(crate) fn at_limit(self, reached: f64, share: f64) -> Option<f64> {
        match self {
            Self::Rate(_) => Some(reached / share),
            Self::Seconds(_) => Some(reached * share),
            Self::Kibibytes(_) | Self::Mebibytes(_) | Self::Part(_) | Self::Ratio(_) => None,
        }
    }
}

/// A figure with a requirement.
pub(crate) struct Bar {
    /// Name of the figure in [`Report::reach`](crate::report::Report::reach).
    pub(crate) figure: &'static str,
    /// Database of the requirement. `None` for every database.
    pub(crate) database: Option<Database>,
    pub(crate) required: Required,
}

const fn bar(figure: &'static str, database: Option<Database>, required: Required) -> Bar {
    Bar {
        figure,
        database,
        required,
    }
}

const SQLITE: Option<Database> = Some(Database::Sqlite);
const POSTGRES: Option<Database> = Some(Database::Postgres);

/// Requirements in the order of the report.
pub(crate) const BARS: [Bar; 46] = [
    bar(
        "complete tool-free runs, 64 at once",
        SQLITE,
        Required::Rate(2_500.0),
    ),
    bar(
        "complete tool-free runs, 64 at once",
        POSTGRES,
        Required::Rate(1_200.0),
    ),
    bar(
        "complete tool-free runs over 3 nodes, 64 at once",
        POSTGRES,
        Required::Rate(1_200.0),
    ),
    bar("creates, 64 at once", SQLITE, Required::Rate(8_000.0)),
    bar(
        "creates under budgets: one budget on the organization (ratio), 16 at once",
        SQLITE,
        Required::Ratio(0.9),
    ),
    bar(
        "creates under budgets: one budget on the organization (ratio), 64 at once",
        SQLITE,
        Required::Ratio(0.9),
    ),
    bar(
        "creates under budgets: one budget on the organization (ratio), 16 at once",
        POSTGRES,
        Required::Ratio(0.7),
    ),
    bar(
        "creates under budgets: one budget on the organization (ratio), 64 at once",
        POSTGRES,
        Required::Ratio(0.75),
    ),
    bar(
        "creates under budgets: 64 budgets on 64 keys (ratio), 16 at once",
        SQLITE,
        Required::Ratio(0.9),
    ),
    bar(
        "creates under budgets: 64 budgets on 64 keys (ratio), 64 at once",
        SQLITE,
        Required::Ratio(0.9),
    ),
    bar(
        "creates under budgets: 64 budgets on 64 keys (ratio), 16 at once",
        POSTGRES,
        Required::Ratio(0.7),
    ),
    bar(
        "creates under budgets: 64 budgets on 64 keys (ratio), 64 at once",
        POSTGRES,
        Required::Ratio(0.75),
    ),
    bar(
        "creates under budgets: beside a client that is refused in a loop (ratio), 16 at once",
        None,
        Required::Ratio(0.9),
    ),
    bar(
        "creates under budgets: beside a client that is refused in a loop (ratio), 64 at once",
        None,
        Required::Ratio(0.9),
    ),
    bar(
        "runs with one shell command, 16 at once",
        None,
        Required::Rate(300.0),
    ),
    bar(
        "runs with one shell command, 64 at once",
        None,
        Required::Rate(300.0),
    ),
    bar(
        "lag of the last event, 10,000 followers on one run, p99",
        None,
        Required::Seconds(0.1),
    ),
    bar(
        "lag of the last event, 10,000 followers on a run each, ending over 20 s, p99",
        None,
        Required::Seconds(0.1),
    ),
    bar(
        "memory of a waiting run, 10,000 waiting",
        None,
        Required::Kibibytes(32.0),
    ),
    bar(
        "mixed work at half load: 202 to `starting`, p50",
        None,
        Required::Seconds(0.002),
    ),
    bar(
        "mixed work at half load: 202 to `starting`, p99",
        None,
        Required::Seconds(0.01),
    ),
    bar(
        "SIGKILL to all of 200 runs final or resumed, same node restarted",
        None,
        Required::Seconds(15.0),
    ),
    bar(
        "SIGKILL to all of 200 runs final or resumed, by another node",
        POSTGRES,
        Required::Seconds(15.0),
    ),
    bar(
        "SIGKILL to one of 3 nodes until its 200 runs are final or resumed, seen on the others",
        POSTGRES,
        Required::Seconds(15.0),
    ),
    bar(
        "cancel through its own node, a waiting tool, longest",
        None,
        Required::Seconds(1.0),
    ),
    bar(
        "cancel through its own node, a waiting command, longest",
        None,
        Required::Seconds(1.0),
    ),
    bar(
        "cancel through another node, a waiting tool, longest",
        POSTGRES,
        Required::Seconds(1.0),
    ),
    bar(
        "cancel through another node, a waiting command, longest",
        POSTGRES,
        Required::Seconds(1.0),
    ),
    bar(
        "people: sign-ins beside runs at half load",
        None,
        Required::Rate(15.0),
    ),
    bar(
        "people: runs at half load that sign-ins cost",
        None,
        Required::Part(0.3),
    ),
    bar(
        "people: GET /v1/me beside 64 clients that sign in, p99",
        None,
        Required::Seconds(0.05),
    ),
    bar(
        "people: memory that 64 clients that sign in take",
        None,
        Required::Mebibytes(80.0),
    ),
    // 60 million bytes.
    bar(
        "people: idle resident memory of a hosted node",
        None,
        Required::Mebibytes(57.2),
    ),
    bar(
        "hosted: creates of one organization against self-hosted, 16 at once",
        SQLITE,
        Required::Ratio(0.9),
    ),
    bar(
        "hosted: creates of one organization against self-hosted, 64 at once",
        SQLITE,
        Required::Ratio(0.9),
    ),
    bar(
        "hosted: creates of one organization against self-hosted, 16 at once",
        POSTGRES,
        Required::Ratio(0.7),
    ),
    bar(
        "hosted: creates of one organization against self-hosted, 64 at once",
        POSTGRES,
        Required::Ratio(0.75),
    ),
    bar(
        "hosted: creates of 64 organizations against self-hosted, 16 at once",
        SQLITE,
        Required::Ratio(0.9),
    ),
    bar(
        "hosted: creates of 64 organizations against self-hosted, 64 at once",
        SQLITE,
        Required::Ratio(0.9),
    ),
    bar(
        "hosted: creates of 64 organizations against self-hosted, 16 at once",
        POSTGRES,
        Required::Ratio(0.7),
    ),
    bar(
        "hosted: creates of 64 organizations against self-hosted, 64 at once",
        POSTGRES,
        Required::Ratio(0.75),
    ),
    bar(
        "hosted: p50 of one create alone beyond self-hosted",
        None,
        Required::Seconds(0.000_15),
    ),
    bar(
        "hosted: complete runs against self-hosted, 64 at once",
        None,
        Required::Ratio(0.8),
    ),
    bar(
        "storm: a webhook to its 200, p99",
        POSTGRES,
        Required::Seconds(0.05),
    ),
    bar(
        "storm: last 200 to all events handled",
        POSTGRES,
        Required::Seconds(30.0),
    ),
    bar(
        "history: creates beside the worst of these, p99",
        None,
        Required::Seconds(0.02),
    ),
];
