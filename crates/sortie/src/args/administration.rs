//! Arguments of the commands that administer an engine.

use std::{str::FromStr, time::Duration};

use clap::{Args, Subcommand};
use jiff::{Span, SpanRelativeTo};
use sortie_api::{
    KeyId, Timestamp,
    usage::{Day, UsageDimension},
};

use super::{Allowance, InstallationArgs, KeyRole, Moment, Paging, Reference, given};
use crate::{client::Parameter, render::Render};

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Create a key and print it, this once
    #[command(after_help = "\
Examples:
  sortie keys create ci
  sortie keys create intern --budget '$2/month' --expires-in 90d")]
    Create {
        /// Name of the key: its purpose
        name: String,
        /// Role of the key
        #[arg(long, value_enum, default_value_t = KeyRole::Member)]
        role: KeyRole,
        #[command(flatten)]
        expiry: Expiry,
        /// Limit the cost of the runs of this key, as in $2/month or 0.5usd/day
        #[arg(long, value_name = "AMOUNT/PERIOD", conflicts_with = "offline")]
        budget: Option<Allowance>,
        /// Create the key in the database itself, while the engine of the data folder is stopped
        ///
        /// The command needs no key: whoever may write the database may do this. Use it where no admin key is left.
        #[arg(long, conflicts_with = "url")]
        offline: bool,
        /// Database to create the key in [default: that of the configuration]
        #[arg(long, value_name = "URL", requires = "offline")]
        database_url: Option<String>,
        #[command(flatten)]
        render: Render,
    },
    /// List the keys, without their secrets
    #[command(after_help = "\
Examples:
  sortie keys list")]
    List(Render),
    /// Give a key a new secret and print it, this once
    ///
    /// The previous secret still works for the grace. Where the data folder holds the key, its file is replaced.
    #[command(after_help = "\
Examples:
  sortie keys rotate ci --grace 1d")]
    Rotate {
        /// Name or ID of the key, or the beginning of its ID
        key: Reference,
        /// Time for which the previous secret still works: 0s to 7d [default: 1h]
        #[arg(long, value_name = "DURATION")]
        grace: Option<Grace>,
        #[command(flatten)]
        render: Render,
    },
    /// Revoke keys
    #[command(after_help = "\
Examples:
  sortie keys revoke ci")]
    Revoke {
        /// Name or ID of a key, or the beginning of its ID
        #[arg(required = true, value_name = "KEY")]
        keys: Vec<Reference>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum NodesCommand {
    /// List the nodes with their state and their number of runs
    #[command(after_help = "\
Examples:
  sortie nodes list")]
    List(InstallationArgs),
}

/// Expiry of a key.
#[derive(Clone, Copy, Debug, Args)]
#[group(multiple = false)]
pub(crate) struct Expiry {
    /// Let the key expire after this time, as in 30d or 12h
    #[arg(long, value_name = "DURATION")]
    pub(crate) expires_in: Option<Length>,
    /// Let the key expire at this time, as in 2026-11-20T21:30:00Z
    #[arg(long, value_name = "TIME")]
    pub(crate) expires_at: Option<Timestamp>,
}

impl Expiry {
    /// The time, seen from `now`.
    pub(crate) fn from(self, now: Timestamp) -> Option<Timestamp> {
        self.expires_in.map(|length| now + length.0).or(self.expires_at)
    }
}

/// A time from now on: longer than nothing, at most a hundred years.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Length(Duration);

/// Grace of the previous secret of a rotated key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grace(Duration);

impl Grace {
    /// In seconds.
    pub(crate) fn seconds(self) -> i64 {
        i64::try_from(self.0.as_secs()).unwrap_or(i64::MAX)
    }
}

/// A text that is not a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a duration, as in 30d, 12h or 90m")]
pub(crate) struct InvalidLength;

/// A span in its friendly form, with days of 24 hours.
pub(super) fn duration(text: &str) -> Result<Duration, InvalidLength> {
    let span: Span = text.parse().map_err(|_| InvalidLength)?;
    span.to_duration(SpanRelativeTo::days_are_24_hours())
        .ok()
        .and_then(|duration| Duration::try_from(duration).ok())
        .filter(|duration| *duration <= Duration::from_hours(24 * 36_525))
        .ok_or(InvalidLength)
}

impl FromStr for Length {
    type Err = InvalidLength;

    fn from_str(text: &str) -> Result<Self, InvalidLength> {
        let length = duration(text)?;
        if length.is_zero() {
            Err(InvalidLength)
        } else {
            Ok(Self(length))
        }
    }
}

impl FromStr for Grace {
    type Err = InvalidLength;

    fn from_str(text: &str) -> Result<Self, InvalidLength> {
        duration(text).map(Self)
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sortie audit --since 7d --action key.create")]
pub(crate) struct AuditArgs {
    /// Only this action, as in key.create
    #[arg(long)]
    action: Option<String>,
    /// Only changes of the resource with this name or id
    #[arg(long)]
    target: Option<String>,
    /// Only changes made with this key
    #[arg(long)]
    key: Option<KeyId>,
    /// Only from this time on: a time, a day, or a time before now such as 2h or 7d
    #[arg(long, value_name = "TIME")]
    since: Option<Moment>,
    /// Only before this time
    #[arg(long, value_name = "TIME")]
    until: Option<Moment>,
    #[command(flatten)]
    pub(crate) paging: Paging,
    #[command(flatten)]
    pub(crate) render: Render,
}

impl AuditArgs {
    /// The filters as the API takes them.
    pub(crate) fn filters(&self) -> Vec<Parameter> {
        given([
            ("action", self.action.clone()),
            ("target", self.target.clone()),
            ("key", self.key.map(|id| id.to_string())),
            ("since", self.since.map(|at| at.to_string())),
            ("until", self.until.map(|at| at.to_string())),
        ])
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sortie usage --by workflow,model --from 2026-11-01")]
pub(crate) struct UsageArgs {
    /// The first day, in UTC [default: 29 days before the last one]
    #[arg(long, value_name = "DAY")]
    from: Option<Day>,
    /// The last day, in UTC [default: today]
    #[arg(long, value_name = "DAY")]
    to: Option<Day>,
    /// Dimensions to group by: day, workflow, model, key, or several with commas between them
    #[arg(long, value_delimiter = ',', default_value = "day")]
    by: Vec<UsageDimension>,
    #[command(flatten)]
    pub(crate) render: Render,
}

impl UsageArgs {
    /// The query as the API takes it.
    pub(crate) fn query(&self) -> Vec<Parameter> {
        let by: Vec<&str> = self.by.iter().map(|dimension| dimension.as_str()).collect();
        given([
            ("from", self.from.map(|day| day.to_string())),
            ("to", self.to.map(|day| day.to_string())),
            ("by", Some(by.join(","))),
        ])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_duration_is_a_number_with_its_unit() {
        let days = |days: u64| Ok(Length(Duration::from_hours(24 * days)));
        assert_eq!("30d".parse(), days(30));
        assert_eq!("1d 12h".parse(), Ok(Length(Duration::from_hours(36))));
        assert_eq!("0s".parse(), Ok(Grace(Duration::ZERO)));
        assert_eq!("90m".parse::<Grace>().map(Grace::seconds), Ok(5_400));
        for wrong in ["", "30", "d", "-1d", "1d ago", "1000000d", "soon", "0s", "1mo"] {
            assert_eq!(wrong.parse::<Length>(), Err(InvalidLength), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_a_duration_panic(text in "\\PC{0,20}") {
            let _read = text.parse::<Length>();
        }

        #[test]
        fn a_key_expires_so_many_hours_from_now(hours in 1_u64..100_000) {
            let length = format!("{hours}h").parse().map_err(|e: InvalidLength| TestCaseError::fail(e.to_string()))?;
            let expiry = Expiry { expires_in: Some(length), expires_at: None };
            let now = Timestamp::from_micros(5);
            prop_assert_eq!(expiry.from(now), Some(now + Duration::from_hours(hours)));
        }
    }
}
