//! The tests of the commands. Each is written once and runs on both databases.
mod artifacts;
mod atomicity;
mod atomicity_accounts;
mod atomicity_auto_topups;
mod atomicity_refunds;
mod audit;
mod auto_topups;
mod avatars;
mod backend;
mod backup;
mod budgets;
mod budgets_model;
mod channel;
mod checkpoints;
mod checks;
mod claim;
mod commits;
mod connections;
mod console;
mod create;
mod credits;
mod credits_model;
mod deliveries;
mod examined;
mod feed;
mod files;
mod fixture;
mod groups;
mod identities;
mod indexes;
mod keys;
mod known_budgets;
mod ledger_check;
mod licenses;
mod lists;
mod locks;
mod lookups;
mod mail;
mod metadata;
mod migrations;
mod model;
mod nodes;
mod oauth;
mod observe;
mod organization_deletion;
mod organizations;
mod overlaps;
mod people;
mod persons;
mod plans;
mod prelude;
mod purchases;
mod races;
mod rates;
mod read;
mod reseal;
mod retention;
mod rules;
mod schedules;
mod settings;
mod settlement;
mod storage;
mod subscriptions;
mod tails;
mod takeover;
mod unreadable;
mod unretained;
mod usage;
mod work;
mod workflows;

use fixture::Fixture;
use proptest::{
    strategy::Strategy,
    test_runner::{Config, TestRunner},
};
use sortie_api::{OrgId, Timestamp};

use crate::{Store, nodes::NodeId};

/// Argument of a test of [`both`], created before the test runs.
trait Argument<'a> {
    async fn make(fixture: &'a Fixture) -> Self;
}

impl<'a> Argument<'a> for OrgId {
    async fn make(fixture: &'a Fixture) -> Self {
        fixture.org().await
    }
}

impl<'a> Argument<'a> for NodeId {
    async fn make(fixture: &'a Fixture) -> Self {
        fixture.node().await
    }
}

impl<'a> Argument<'a> for Timestamp {
    async fn make(fixture: &'a Fixture) -> Self {
        fixture.now()
    }
}

impl<'a> Argument<'a> for &'a Store {
    async fn make(fixture: &'a Fixture) -> Self {
        &fixture.store
    }
}

/// Runs a test with random commands, each time on a fresh database. A failure is shrunk.
fn with_random<S: Strategy>(
    cases: u32,
    commands: &S,
    fixture: impl AsyncFn() -> Fixture,
    test: &impl AsyncFn(&Fixture, S::Value),
) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 200,
        ..Config::default()
    };
    let run = |commands| {
        runtime.block_on(async { test(&fixture().await, commands).await });
        Ok(())
    };
    TestRunner::new(config).run(commands, run).unwrap();
}

/// Generates two tests from each: one on a fresh `SQLite` file, one on a fresh `PostgreSQL` database. The arguments after
/// the fixture are created in their order: a new organization, a new node, the time, and the store.
macro_rules! both {
    ($(async fn $name:ident($fixture:ident: &Fixture $(, $argument:ident: $type:ty)*) $body:block)+) => {
        $(async fn $name($fixture: &crate::tests::fixture::Fixture) {
            $(let $argument = <$type as crate::tests::Argument<'_>>::make($fixture).await;)*
            $body
        })+

        mod sqlite {
            $(#[tokio::test]
            async fn $name() {
                let fixture = crate::tests::fixture::Fixture::sqlite().await;
                super::$name(&fixture).await;
                fixture.check().await;
            })+
        }

        mod postgres {
            $(#[tokio::test]
            async fn $name() {
                let fixture = crate::tests::fixture::Fixture::postgres().await;
                super::$name(&fixture).await;
                fixture.check().await;
            })+
        }
    };
}
use both;

/// Generates tests for features of one database only, like [`both`].
macro_rules! postgres {
    ($($(#[$meta:meta])* async fn $name:ident($fixture:ident: &Fixture $(, $argument:ident: $type:ty)*) $body:block)+) => {
        $($(#[$meta])*
        #[tokio::test]
        async fn $name() {
            let $fixture = &crate::tests::fixture::Fixture::postgres().await;
            $(let $argument = <$type as crate::tests::Argument<'_>>::make($fixture).await;)*
            $body
        })+
    };
}
use postgres;

/// Generates tests for features of one database only, like [`both`].
macro_rules! sqlite {
    ($($(#[$meta:meta])* async fn $name:ident($fixture:ident: &Fixture $(, $argument:ident: $type:ty)*) $body:block)+) => {
        $($(#[$meta])*
        #[tokio::test]
        async fn $name() {
            let $fixture = &crate::tests::fixture::Fixture::sqlite().await;
            $(let $argument = <$type as crate::tests::Argument<'_>>::make($fixture).await;)*
            $body
        })+
    };
}
use sqlite;

/// Works as [`both`] does, for tests that prove commands. The tests are also listed in `SCENARIOS`.
macro_rules! commands {
    ($(async fn $name:ident($fixture:ident: &Fixture $(, $argument:ident: $type:ty)*) $body:block)+) => {
        crate::tests::both! {
            $(async fn $name($fixture: &Fixture $(, $argument: $type)*) $body)+
        }

        /// Tests of this module, with their texts.
        pub(super) const SCENARIOS: &[(&str, crate::tests::commits::Scenario)] =
            &[$((stringify!($body), |fixture| Box::pin($name(fixture)))),+];
    };
}
use commands;
