//! Declares the columns of each row once: [`row!`] makes a struct, the text of its columns and its reader from one
//! list, and [`insert!`] a statement with its values from another.

use std::{net::IpAddr, str::FromStr};

use serde::de::DeserializeOwned;
use sortie_api::{
    ActorKind, AuditId, BlobId, BudgetPeriod, BudgetScope, ConnectionId, ConnectionStatus, DeliveryState,
    DeploymentId, FileId, GrantId, InvitationId, LedgerKind, MailId, Micros, OrgId, PaymentId, Role, RunId,
    RunStatus, ScheduleId, SessionId, Sha256, Timestamp, TopupId, TopupKind, TopupState, UserId,
    deployment::{EntitlementSource, EntitlementState},
    id::{ConsentId, KeyId, RefundOrderId},
    schedule::{FireOutcome, Overlap},
};

use super::{
    tx::{Answer, Tx},
    value::{Row, Val},
};
use crate::{Error, Result};

/// Type of a column.
pub trait Column<'r>: Sized {
    /// Converts a value. `None` if the value is of another kind or form.
    fn from_value(value: &'r Val<'static>) -> Option<Self>;
}

impl Column<'_> for i64 {
    fn from_value(value: &Val<'static>) -> Option<Self> {
        match value {
            Val::Int(number) => Some(*number),
            Val::Null | Val::Text(_) | Val::Blob(_) => None,
        }
    }
}

impl Column<'_> for bool {
    fn from_value(value: &Val<'static>) -> Option<Self> {
        i64::from_value(value).map(|number| number != 0)
    }
}

impl Column<'_> for Timestamp {
    fn from_value(value: &Val<'static>) -> Option<Self> {
        i64::from_value(value).map(Self::from_micros)
    }
}

impl Column<'_> for Micros {
    fn from_value(value: &Val<'static>) -> Option<Self> {
        Self::try_from(i64::from_value(value)?).ok()
    }
}

impl Column<'_> for u16 {
    fn from_value(value: &Val<'static>) -> Option<Self> {
        i64::from_value(value)?.try_into().ok()
    }
}

impl Column<'_> for u32 {
    fn from_value(value: &Val<'static>) -> Option<Self> {
        i64::from_value(value)?.try_into().ok()
    }
}

impl Column<'_> for u64 {
    fn from_value(value: &Val<'static>) -> Option<Self> {
        i64::from_value(value)?.try_into().ok()
    }
}

impl<'r> Column<'r> for &'r str {
    fn from_value(value: &'r Val<'static>) -> Option<Self> {
        match value {
            Val::Text(text) => Some(text),
            Val::Null | Val::Int(_) | Val::Blob(_) => None,
        }
    }
}

impl Column<'_> for Vec<u8> {
    fn from_value(value: &Val<'static>) -> Option<Self> {
        match value {
            Val::Blob(bytes) => Some(bytes.to_vec()),
            Val::Null | Val::Int(_) | Val::Text(_) => None,
        }
    }
}

impl<const N: usize> Column<'_> for [u8; N] {
    fn from_value(value: &Val<'static>) -> Option<Self> {
        match value {
            Val::Blob(bytes) => bytes.as_ref().try_into().ok(),
            Val::Null | Val::Int(_) | Val::Text(_) => None,
        }
    }
}

impl Column<'_> for Sha256 {
    fn from_value(value: &Val<'static>) -> Option<Self> {
        <[u8; 32]>::from_value(value).map(Self::new)
    }
}

/// Value of a column with JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned> Column<'_> for Json<T> {
    fn from_value(value: &Val<'static>) -> Option<Self> {
        serde_json::from_str(<&str>::from_value(value)?).ok().map(Self)
    }
}

/// Value of a column that a damaged row may lack: `None` if it cannot be read, and no error.
#[derive(Clone, Copy, Debug)]
pub struct IfReadable<T>(pub Option<T>);

impl<'r, T: Column<'r>> Column<'r> for IfReadable<T> {
    fn from_value(value: &'r Val<'static>) -> Option<Self> {
        Some(Self(T::from_value(value)))
    }
}

impl<'r, T: Column<'r>> Column<'r> for Option<T> {
    fn from_value(value: &'r Val<'static>) -> Option<Self> {
        match value {
            Val::Null => Some(None),
            Val::Int(_) | Val::Text(_) | Val::Blob(_) => T::from_value(value).map(Some),
        }
    }
}

/// Reads the text of a value. `None` if it has no text, or one of another form.
pub fn parsed<T: FromStr>(value: &Val<'static>) -> Option<T> {
    match value {
        Val::Text(text) => text.parse().ok(),
        Val::Null | Val::Int(_) | Val::Blob(_) => None,
    }
}

/// Types that are stored as their text.
macro_rules! texts {
    ($($kind:ty)+) => {$(
        impl Column<'_> for $kind {
            fn from_value(value: &Val<'static>) -> Option<Self> {
                parsed(value)
            }
        }
    )+};
}

texts!(String IpAddr RunId OrgId KeyId ScheduleId ConnectionId FileId AuditId BlobId UserId SessionId MailId GrantId
    InvitationId DeploymentId ConsentId TopupId PaymentId RefundOrderId BudgetScope);
crate::text_columns!(
    ActorKind,
    EntitlementSource,
    EntitlementState,
    LedgerKind,
    RunStatus,
    BudgetPeriod,
    Role,
    TopupKind,
    TopupState,
    ConnectionStatus,
    Overlap,
    FireOutcome,
    DeliveryState
);

/// A row that [`row!`] has declared.
pub trait ReadRow: Sized {
    /// Columns of a SELECT, in the order of the fields.
    const COLUMNS: &'static str;
    /// Number of these columns.
    const WIDTH: usize;

    /// Reads the columns of a row from number `first` on.
    fn read_from(row: &Row, first: usize) -> Result<Self>;

    /// Reads a row with exactly these columns.
    fn read(row: &Row) -> Result<Self> {
        Self::read_from(row, 0)
    }
}

/// The row of an outer join: `None` if its first column, which is never NULL in a row of the table, is NULL.
impl<T: ReadRow> ReadRow for Option<T> {
    const COLUMNS: &'static str = T::COLUMNS;
    const WIDTH: usize = T::WIDTH;

    fn read_from(row: &Row, first: usize) -> Result<Self> {
        match row.get(first)? {
            Val::Null => Ok(None),
            Val::Int(_) | Val::Text(_) | Val::Blob(_) => T::read_from(row, first).map(Some),
        }
    }
}

impl Row {
    /// Reads the column with this number. `column` is its text in the SELECT, for the error.
    pub fn column<'r, T: Column<'r>>(&'r self, number: usize, column: &str) -> Result<T> {
        T::from_value(self.get(number)?)
            .ok_or_else(|| Error::Corrupt(format!("{column} has a value of another kind or form")))
    }

    /// Reads the first column of a row, which is often the only one.
    pub fn only<'r, T: Column<'r>>(&'r self) -> Result<T> {
        self.column(0, "the first column")
    }
}

impl Answer {
    /// Reads the first row, if there is one.
    pub fn first<T: ReadRow>(&self) -> Result<Option<T>> {
        self.rows.first().map(T::read).transpose()
    }

    /// Reads the first row. `NotFound` if there is none.
    pub fn one<T: ReadRow>(&self) -> Result<T> {
        self.first()?.ok_or(Error::NotFound)
    }

    /// Reads the value of the first row, which has one column, if there is a row.
    pub fn opt_value<'r, T: Column<'r>>(&'r self) -> Result<Option<T>> {
        self.rows.first().map(Row::only).transpose()
    }

    /// Reads the value of the first row, which has one column. `NotFound` if there is none.
    pub fn value<'r, T: Column<'r>>(&'r self) -> Result<T> {
        self.opt_value()?.ok_or(Error::NotFound)
    }
}

impl dyn Tx + '_ {
    /// Executes a query and reads its rows.
    pub fn read_all<T: ReadRow>(&mut self, sql: &'static str, params: Vec<Val<'_>>) -> Result<Vec<T>> {
        self.query_all(sql, params)?.iter().map(T::read).collect()
    }

    /// Executes a query and reads its first row, if there is one.
    pub fn read_opt<T: ReadRow>(&mut self, sql: &'static str, params: Vec<Val<'_>>) -> Result<Option<T>> {
        self.query_opt(sql, params)?.as_ref().map(T::read).transpose()
    }

    /// Executes a query and reads its first row. `NotFound` if there is none.
    pub fn read_one<T: ReadRow>(&mut self, sql: &'static str, params: Vec<Val<'_>>) -> Result<T> {
        T::read(&self.query_one(sql, params)?)
    }
}

/// Declares a struct, each field with its column in a SELECT: a constant text. A field without a column is itself a
/// row, and expands to its columns. `row! { struct KeyRow(ApiKey) { id = "id", … } }` reads a struct of another crate,
/// and `key: ApiKey as KeyRow` is a field with it.
#[macro_export]
macro_rules! row {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident($kind:ident) { $($field:ident = $column:expr),+ $(,)? }
    ) => {
        $(#[$attribute])*
        $visibility struct $name($visibility $kind);

        impl $crate::ReadRow for $name {
            const COLUMNS: &'static str = $crate::joined!($($column),+);
            const WIDTH: usize = [$($column),+].len();

            fn read_from(row: &$crate::Row, first: usize) -> $crate::Result<Self> {
                let mut next = first;
                let mut take = || {
                    next += 1;
                    next - 1
                };
                Ok(Self($kind { $($field: row.column(take(), $column)?,)+ }))
            }
        }
    };
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident {
            $($(#[$field_attribute:meta])* $field_visibility:vis $field:ident: $kind:ty $(as $row:ty)? $(= $column:expr)?),+ $(,)?
        }
    ) => {
        $(#[$attribute])*
        $visibility struct $name {
            $($(#[$field_attribute])* $field_visibility $field: $kind,)+
        }

        impl $crate::ReadRow for $name {
            const COLUMNS: &'static str =
                $crate::joined!($($crate::field!(columns $kind $(as $row)? $(= $column)?)),+);
            const WIDTH: usize = 0 $(+ $crate::field!(width $kind $(as $row)? $(= $column)?))+;

            fn read_from(row: &$crate::Row, first: usize) -> $crate::Result<Self> {
                let mut next = first;
                let mut take = |width: usize| {
                    next += width;
                    next - width
                };
                Ok(Self { $($field: $crate::field!(read $kind $(as $row)? $(= $column)?, row, take),)+ })
            }
        }
    };
}

/// Column, width or reader of one field of [`row!`], and value of one column of [`insert!`].
#[doc(hidden)]
#[macro_export]
macro_rules! field {
    (columns $kind:ty = $column:expr) => {
        $column
    };
    (columns $kind:ty) => {
        <$kind as $crate::ReadRow>::COLUMNS
    };
    (columns $kind:ty as $row:ty) => {
        $crate::field!(columns $row)
    };
    (width $kind:ty = $column:expr) => {
        1
    };
    (width $kind:ty) => {
        <$kind as $crate::ReadRow>::WIDTH
    };
    (width $kind:ty as $row:ty) => {
        $crate::field!(width $row)
    };
    (read $kind:ty = $column:expr, $row:ident, $take:ident) => {
        $row.column($take(1), $column)?
    };
    (value) => {
        "@"
    };
    (value $sql:tt) => {
        $sql
    };
    (read $kind:ty as $of:ty, $row:ident, $take:ident) => {
        $crate::field!(read $of, $row, $take).0
    };
    (read $kind:ty, $row:ident, $take:ident) => {
        <$kind as $crate::ReadRow>::read_from(
            $row,
            $take(<$kind as $crate::ReadRow>::WIDTH),
        )?
    };
}

/// Text of a SELECT of a row's columns: `select!(PaymentRow, " FROM payment WHERE id = $1")`.
#[macro_export]
macro_rules! select {
    ($row:ty, $($rest:expr),+ $(,)?) => {
        $crate::constcat::concat!("SELECT ", <$row as $crate::ReadRow>::COLUMNS, $($rest),+)
    };
}

/// Makes types with `as_str` and `FromStr` values of a column and parameters.
#[macro_export]
macro_rules! text_columns {
    ($($kind:ty),+ $(,)?) => {$(
        impl $crate::Column<'_> for $kind {
            fn from_value(value: &$crate::Val<'static>) -> Option<Self> {
                $crate::parsed(value)
            }
        }

        impl From<$kind> for $crate::Val<'_> {
            fn from(value: $kind) -> Self {
                Self::Text(std::borrow::Cow::Borrowed(value.as_str()))
            }
        }
    )+};
}

/// Statement that inserts a row: each column with its value, and the end of the statement. A value may have an SQL
/// expression with `@` as its placeholder: `"due_at" = "COALESCE({NOW}, $1) + @": delay`. A column with only an
/// expression has no parameter. `select` inserts the values for the rows of a query. Each `@` of the query is the
/// placeholder of a further parameter.
#[macro_export]
macro_rules! insert {
    (text $parts:expr, $given:expr) => {{
        const SQL: &str = $crate::numbered!($parts, from 1);
        const GIVEN: usize = <[&str]>::len(&$given);
        const { assert!($crate::texts::highest_placeholder(SQL) == GIVEN, "a parameter lacks its placeholder") };
        SQL
    }};
    (
        $table:literal, { $($column:literal $(= $sql:tt)? $(: $value:expr)?),+ $(,)? },
        select $rest:expr $(, $param:expr)* $(,)?
    ) => {
        $crate::Stmt::new(
            $crate::insert!(
                text $crate::constcat::concat!(
                    "INSERT INTO ", $table, " (", $crate::joined!($($column),+),
                    ") SELECT ", $crate::joined!($($crate::field!(value $($sql)?)),+), $rest
                ),
                [$($(stringify!($value),)?)+ $(stringify!($param)),*]
            ),
            $crate::vals![$($($value,)?)+ $($param),*],
        )
    };
    ($table:literal, { $($column:literal $(= $sql:tt)? $(: $value:expr)?),+ $(,)? } $(, $end:expr)* $(,)?) => {
        $crate::Stmt::new(
            $crate::insert!(
                text $crate::constcat::concat!(
                    "INSERT INTO ", $table, " (", $crate::joined!($($column),+),
                    ") VALUES (", $crate::joined!($($crate::field!(value $($sql)?)),+), ")", $($end,)*
                ),
                [$($(stringify!($value),)?)+]
            ),
            $crate::vals![$($($value,)?)+],
        )
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    row! {
        #[derive(Debug, PartialEq)]
        struct Sample {
            id: i64 = "s.id",
            name: Option<String> = "s.name",
            other: Option<Other>,
            is_new: bool = "COALESCE(s.new, 0)",
        }
    }

    row! {
        #[derive(Debug, PartialEq)]
        struct Other {
            id: i64 = "o.id",
            size: Option<i64> = "o.size",
        }
    }

    struct Foreign {
        id: i64,
        name: Option<String>,
    }

    row! {
        struct ForeignRow(Foreign) {
            id = "f.id",
            name = "f.name",
        }
    }

    fn values(name: Val<'static>, other: i64) -> Row {
        let other = [Val::Int(other), Val::Null];
        Row([[Val::Null, Val::Int(7), name].as_slice(), &other, &[Val::Int(1)]].concat())
    }

    #[test]
    fn a_row_is_read_from_the_columns_of_its_declaration() {
        assert_eq!(
            select!(Sample, " FROM s"),
            "SELECT s.id, s.name, o.id, o.size, COALESCE(s.new, 0) FROM s"
        );
        assert_eq!(Sample::WIDTH, 5);
        let expected = Sample {
            id: 7,
            name: Some("a".to_owned()),
            other: Some(Other { id: 3, size: None }),
            is_new: true,
        };
        assert_eq!(Sample::read_from(&values(Val::from("a"), 3), 1), Ok(expected));
        let without = Row(vec![Val::Int(7), Val::Null, Val::Null, Val::Null, Val::Int(0)]);
        let expected = Sample {
            id: 7,
            name: None,
            other: None,
            is_new: false,
        };
        assert_eq!(Sample::read(&without), Ok(expected));
    }

    #[test]
    fn a_column_may_have_json_or_lend_its_text() {
        let row = Row(vec![Val::from("[1, 2]")]);
        assert_eq!(row.only(), Ok(Json(vec![1, 2])));
        assert_eq!(row.only(), Ok("[1, 2]"));
        assert!(row.only::<Json<String>>().is_err());
    }

    #[test]
    fn a_struct_of_another_crate_is_read_in_the_same_way() {
        assert_eq!(ForeignRow::COLUMNS, "f.id, f.name");
        assert_eq!(ForeignRow::WIDTH, 2);
        let ForeignRow(read) = ForeignRow::read_from(&values(Val::from("a"), 3), 1).unwrap();
        assert_eq!((read.id, read.name.as_deref()), (7, Some("a")));
    }

    #[test]
    fn an_error_names_the_column() {
        let wrong = Sample::read_from(&values(Val::Int(3), 3), 1).unwrap_err();
        assert!(
            wrong.to_string().contains("s.name has a value of another kind"),
            "{wrong}"
        );
        assert!(Sample::read(&Row(vec![Val::Int(1)])).is_err());
    }

    #[test]
    fn an_insert_has_a_placeholder_for_each_column() {
        let statement = insert!("t", { "a": 1_i64, "b": "x" }, " ON CONFLICT DO NOTHING");
        assert_eq!(
            statement.sql,
            "INSERT INTO t (a, b) VALUES ($1, $2) ON CONFLICT DO NOTHING"
        );
        assert_eq!(statement.params, vec![Val::Int(1), Val::from("x")]);
        let statement = insert!("t", {
            "a": 1_i64, "b": 2_i64, "c": 3_i64, "d": 4_i64, "e": 5_i64, "f": 6_i64, "g": 7_i64, "h": 8_i64,
            "i" = "0", "j" = "@ + $1": 9_i64, "k" = "CAST(@ AS BIGINT)": 10_i64,
        }, select " FROM s WHERE id = @", "id");
        assert_eq!(
            statement.sql,
            "INSERT INTO t (a, b, c, d, e, f, g, h, i, j, k) \
             SELECT $1, $2, $3, $4, $5, $6, $7, $8, 0, $9 + $1, CAST($10 AS BIGINT) FROM s WHERE id = $11"
        );
        assert_eq!(statement.params.len(), 11);
    }
}
