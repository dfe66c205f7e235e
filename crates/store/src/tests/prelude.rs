//! Names that most tests of the store use.

pub(super) use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    time::Duration,
};

pub(super) use futures_util::future::{join, join_all};
pub(super) use proptest::test_runner::TestRunner;
pub(super) use sortie_api::{
    BudgetPeriod, BudgetScope, GrantId, KeyId, LedgerKind, Micros, OrgId, PutBudget, RefundOrderId, Role,
    RunId, RunStatus, ScheduleId, SessionId, Timestamp, TopupState, UserId,
};

pub(super) use super::{
    both,
    budgets::micros,
    commands,
    fixture::{Fixture, after, entries, of_calls, sweep},
    postgres, sqlite, with_random,
};
pub(super) use crate::{
    Error, Store,
    access::{Audit, AuditFilter, By, Principal, Rotation},
    connections::{OldTokens, SeenTokens},
    db::{Dialect, Stmt, Tx, Val, vals},
    money::{AfterAutoTopup, Appended, NewLedgerEntry, PaidTopup, TakeBackKind, TakeBackState},
    nodes::NodeId,
    outbox::AfterAttempt,
    people::{Avatar, Factor, NewOneTime, NewPerson, PasswordChange, PersonDeletion, Purpose, SignIn},
    runs::{
        Append, Batch, Cancelled, Counted, Created, Expiry, Fence, FinalCost, Finish, InlineCredentials,
        Labels, LargeText, NewRun, OpenCallbacks, RunFilter, Sweep,
    },
};
