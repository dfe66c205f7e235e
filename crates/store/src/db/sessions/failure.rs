//! The meaning of a failure by its code, for the session and for another try.

use crate::types::Error;

/// A failure of the database, with its meaning for the session and for another try.
#[derive(Clone, Debug)]
pub(in crate::db) struct Failure {
    pub(in crate::db) error: Error,
    pub(in crate::db) kind: FailureKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::db) enum FailureKind {
    /// The statement is refused. Another try would fail as well.
    Refused,
    /// The transaction did not take place, and another try may succeed: a deadlock, a serialization failure.
    Retry,
    /// The transaction did not take place, and the session can take no other: its transaction was ended, its prepared
    /// statements are gone.
    Unusable,
    /// The transaction did not take place, because the server accepts no writes: after a fail-over it is a standby.
    /// Every session that is as old as this one may be connected to that server.
    ReadOnly,
    /// The session is gone. Whether a commit under way took place is unknown.
    Disconnected,
    /// The server did not answer in time. Whether a commit under way took place is unknown.
    Silent,
}

/// `SQLSTATE`: serialization failure, deadlock detected.
const RETRY: [&str; 2] = ["40001", "40P01"];

/// `SQLSTATE`: read-only transaction.
const READ_ONLY: &str = "25006";

/// `SQLSTATE`: idle-in-transaction timeout, unknown prepared statement.
const UNUSABLE: [&str; 2] = ["25P03", "26000"];

/// `SQLSTATE`: feature not supported. A standby says so of a transaction that writes.
const NOT_SUPPORTED: &str = "0A000";

impl FailureKind {
    /// The kind of the failure that the server reports by this `SQLSTATE`.
    pub(in crate::db) fn of(code: &str) -> Self {
        if RETRY.contains(&code) {
            Self::Retry
        } else if code == READ_ONLY {
            Self::ReadOnly
        } else if UNUSABLE.contains(&code) {
            Self::Unusable
        } else if is_server_away(code) {
            Self::Disconnected
        } else {
            Self::Refused
        }
    }
}

impl Failure {
    /// The server does not answer.
    pub(in crate::db) fn silent() -> Self {
        Self {
            error: Error::Unavailable("the database does not answer".to_owned()),
            kind: FailureKind::Silent,
        }
    }

    /// The same failure of the statement that begins a transaction. The session is read-only without it, so nothing took
    /// place.
    pub(in crate::db) fn of_begin(self, code: Option<&str>) -> Self {
        if self.kind != FailureKind::Refused {
            return self;
        }
        if code == Some(NOT_SUPPORTED) {
            return Self {
                error: read_only(),
                kind: FailureKind::ReadOnly,
            };
        }
        Self {
            kind: FailureKind::Retry,
            ..self
        }
    }

    /// Whether another try may succeed.
    pub(super) fn may_pass(&self) -> bool {
        self.kind != FailureKind::Refused
    }

    /// Whether the session can be used after a rollback.
    pub(super) fn keeps_session(&self) -> bool {
        matches!(self.kind, FailureKind::Refused | FailureKind::Retry)
    }
}

/// The answer where the server that is reached accepts no writes.
pub(in crate::db) fn read_only() -> Error {
    Error::Unavailable("the database accepts no writes: the server that was reached is read-only".to_owned())
}

/// The error of a failure with this `SQLSTATE`: what another try may cure is [`Error::Unavailable`].
pub(in crate::db) fn error_of(code: &str, text: String) -> Error {
    // 53: out of resources; 55P03: lock timeout; 57014: statement timeout; 25006: a read-only standby;
    // 40: rolled back by a conflict.
    let passing = ["53", "40", "55P03", "57014", "25006"]
        .iter()
        .any(|class| code.starts_with(class));
    if passing || is_server_away(code) {
        Error::Unavailable(text)
    } else {
        Error::Database(text)
    }
}

/// The server ends the session, or does not take a new one for now.
fn is_server_away(code: &str) -> bool {
    // Class 57P: operator intervention; class 08: connection exception.
    code.starts_with("57P") || code.starts_with("08")
}
