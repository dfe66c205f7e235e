//! Parameters of statements and values of columns: integers, text and bytes, nothing else.
//!
//! Both databases store times, money and flags as 64-bit integers, and identifiers and JSON as text. A value
//! of an unexpected kind is [`Error::Corrupt`], never a panic.

use std::{borrow::Cow, net::IpAddr};

use sortie_api::{
    AuditId, BlobId, ConnectionId, DeploymentId, FileId, GrantId, InvitationId, MailId, Micros, OrgId,
    PaymentId, RunId, ScheduleId, SessionId, Timestamp, TopupId, UserId,
    id::{ConsentId, KeyId, RefundOrderId},
};

use crate::{Error, Result};

/// Parameter or column value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Val<'a> {
    Null,
    Int(i64),
    Text(Cow<'a, str>),
    Blob(Cow<'a, [u8]>),
}

impl Val<'_> {
    /// Returns the value without borrowed parts.
    #[cfg(any(test, feature = "simulation", feature = "faults"))]
    pub fn into_owned(self) -> Val<'static> {
        match self {
            Self::Null => Val::Null,
            Self::Int(number) => Val::Int(number),
            Self::Text(text) => Val::Text(Cow::Owned(text.into_owned())),
            Self::Blob(bytes) => Val::Blob(Cow::Owned(bytes.into_owned())),
        }
    }

    /// Rejects U+0000: `SQLite` would store it, `PostgreSQL` would not.
    pub fn checked(&self) -> Result<&Self> {
        match self {
            Self::Text(text) if text.as_bytes().contains(&0) => {
                Err(Error::Database("a text holds U+0000".to_owned()))
            }
            Self::Null | Self::Int(_) | Self::Text(_) | Self::Blob(_) => Ok(self),
        }
    }
}

macro_rules! integers {
    ($($from:ty => |$value:ident| $int:expr;)+) => {$(
        impl From<$from> for Val<'_> {
            fn from($value: $from) -> Self {
                Self::Int($int)
            }
        }
    )+};
}

integers! {
    i64 => |value| value;
    u32 => |value| i64::from(value);
    bool => |value| i64::from(value);
    Timestamp => |at| at.as_micros();
    Micros => |amount| amount.get();
}

macro_rules! texts {
    ($($from:ty)+) => {$(
        impl From<$from> for Val<'_> {
            fn from(value: $from) -> Self {
                Self::Text(Cow::Owned(value.into()))
            }
        }
    )+};
}

texts!(RunId OrgId KeyId ScheduleId ConnectionId FileId AuditId BlobId UserId SessionId MailId GrantId InvitationId DeploymentId ConsentId TopupId PaymentId RefundOrderId);

impl<'a> From<&'a str> for Val<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Val<'_> {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl From<IpAddr> for Val<'_> {
    fn from(address: IpAddr) -> Self {
        Self::Text(Cow::Owned(address.to_string()))
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Val<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Self::Blob(Cow::Borrowed(bytes))
    }
}

impl<'a> From<&'a [u8]> for Val<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Blob(Cow::Borrowed(bytes))
    }
}

impl<'a, T: Into<Val<'a>>> From<Option<T>> for Val<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// Builds the parameters of a statement, in the order of their numbers.
#[macro_export]
macro_rules! vals {
    ($($value:expr),* $(,)?) => {
        vec![$($crate::Val::from($value)),*]
    };
}

/// Row of an answer; [`row!`](crate::row) reads it.
#[derive(Clone, Debug)]
pub struct Row(pub(crate) Vec<Val<'static>>);

impl Row {
    pub(super) fn get(&self, column: usize) -> Result<&Val<'static>> {
        self.0
            .get(column)
            .ok_or_else(|| Error::Corrupt(format!("the row has no column {column}")))
    }

    /// Returns an integer.
    #[cfg(any(test, feature = "faults"))]
    pub fn int(&self, column: usize) -> Result<i64> {
        match self.get(column)? {
            Val::Int(value) => Ok(*value),
            Val::Null | Val::Text(_) | Val::Blob(_) => Err(unexpected(column, "an integer")),
        }
    }

    /// Returns a text; `None` if the column is NULL.
    #[cfg(any(test, feature = "faults"))]
    pub fn opt_text(&self, column: usize) -> Result<Option<&str>> {
        match self.get(column)? {
            Val::Text(text) => Ok(Some(text)),
            Val::Null => Ok(None),
            Val::Int(_) | Val::Blob(_) => Err(unexpected(column, "a text")),
        }
    }

    /// Returns a text.
    #[cfg(any(test, feature = "faults"))]
    pub fn text(&self, column: usize) -> Result<&str> {
        self.opt_text(column)?.ok_or_else(|| unexpected(column, "a text"))
    }
}

/// Reads rows of a background task. One that cannot be read is left out and logged, and the others go on.
pub fn readable<T>(rows: &[Row], what: &'static str, read: impl Fn(&Row) -> Result<T>) -> Vec<T> {
    let read = |row| {
        read(row)
            .inspect_err(
                |error| tracing::error!(what, %error, "cannot read a row; continuing with the others"),
            )
            .ok()
    };
    rows.iter().filter_map(read).collect()
}

#[cfg(any(test, feature = "faults"))]
fn unexpected(column: usize, expected: &str) -> Error {
    Error::Corrupt(format!("column {column} is not {expected}"))
}
