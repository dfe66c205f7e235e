//! Failures of the database, classified by their `SQLSTATE`: whether the session stays usable, and whether
//! another try may succeed.

use crate::Error;

/// Failure of the database, with its consequences for the session and for another try.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    pub(crate) kind: FailureKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// The server refused the statement. Another try would fail as well.
    Refused,
    /// The transaction did not take place, and another try may succeed: a deadlock, a serialization failure.
    Retry,
    /// The transaction did not take place, and the session can run no other: the server has ended the
    /// transaction or lost the prepared statements.
    Unusable,
    /// The transaction did not take place, because the server accepts no writes: after a fail-over it is a
    /// standby. Every session at least as old as this one may be connected to that server.
    ReadOnly,
    /// The session is lost. It is unknown whether a commit under way took place.
    Disconnected,
    /// The server did not answer in time. It is unknown whether a commit under way took place.
    Silent,
}

/// `SQLSTATE`: serialization failure, deadlock detected.
const RETRY: [&str; 2] = ["40001", "40P01"];

/// `SQLSTATE`: read-only transaction.
const READ_ONLY: &str = "25006";

/// `SQLSTATE`: idle-in-transaction timeout, unknown prepared statement.
const UNUSABLE: [&str; 2] = ["25P03", "26000"];

/// `SQLSTATE`: feature not supported. A standby reports it for a transaction that writes.
const NOT_SUPPORTED: &str = "0A000";

impl FailureKind {
    /// Returns the kind of a failure with this `SQLSTATE`.
    pub(crate) fn of(code: &str) -> Self {
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
    /// Failure of a server that does not answer.
    pub(crate) fn silent() -> Self {
        Self {
            error: Error::Unavailable("the database does not answer".to_owned()),
            kind: FailureKind::Silent,
        }
    }

    /// Adapts a failure of the statement that begins a transaction. Without that statement the session is
    /// read-only, so nothing took place.
    pub(crate) fn of_begin(self, code: Option<&str>) -> Self {
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

/// Error of a command that reached a server which accepts no writes.
pub(crate) fn read_only() -> Error {
    Error::Unavailable("the database accepts no writes: the server that was reached is read-only".to_owned())
}

/// Error of a failure with this `SQLSTATE`. It is [`Error::Unavailable`] if another try may succeed.
pub(crate) fn error_of(code: &str, text: String) -> Error {
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

/// Whether the server ended the session, or accepts no new one for now.
fn is_server_away(code: &str) -> bool {
    // Class 57P: operator intervention; class 08: connection exception.
    code.starts_with("57P") || code.starts_with("08")
}
