//! Check of the ledger of a hosted deployment: each night, and on request of the operator.
//!
//! Every node of the deployment runs its own check and changes nothing. A difference is a defect of the engine: it is logged as
//! an error, and a metric counts it.

use std::{sync::Arc, time::Duration};

use sortie_api::{OrgId, Refusal, RunId, Timestamp, usage::Day};
use sortie_store::{
    Store,
    money::{LedgerChecked, LedgerDifference, LedgerRule},
};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::{
    Engine,
    kit::{metrics::Metrics, units::Units},
};
use sortie_base::Clock;

/// Interval between two checks of the time.
const LOOK: Duration = Duration::from_mins(1);

/// Time of the check, after midnight in UTC.
const AT_NIGHT: Duration = Duration::from_hours(3);

/// Longest pause after a failed check. The first pause is [`LOOK`], and each further one is twice as long as the one before.
const LONGEST_PAUSE: Duration = Duration::from_hours(1);

/// Organizations in one query.
const ORGANIZATIONS: u32 = 100;

/// Ledger entries of one organization that are added to the running sums in one step. The query of a page reads fewer of each
/// organization.
const ENTRIES: u32 = 5_000;

/// Runs in one query.
const RUNS: u32 = 2_000;

/// Result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckedLedger {
    /// Number of organizations that were checked.
    pub organizations: u64,
    /// Number of runs that were checked.
    pub runs: u64,
    /// Breaches of rules.
    pub differences: Vec<LedgerDifference>,
    /// Organization after which the check continues. `None` at the end.
    pub next_after: Option<OrgId>,
}

impl Engine {
    /// Checks the ledger of organizations with ids after `after`, in the order of their ids, at most `limit`.
    pub async fn check_ledger(&self, after: Option<OrgId>, limit: u32) -> Result<CheckedLedger, Refusal> {
        check_page(self.store(), after, limit).await
    }
}

async fn check_page(store: &Store, after: Option<OrgId>, limit: u32) -> Result<CheckedLedger, Refusal> {
    let mut units = Units::new("checking the ledger of an organization");
    add_up(store, after, limit, &mut units).await?;
    let (page, is_last) = check_credits(store, after, limit, &mut units).await?;
    let mut checked = CheckedLedger {
        organizations: page.looked_at.len() as u64,
        runs: 0,
        differences: page.differences,
        next_after: page.looked_at.last().copied().filter(|_| !is_last),
    };
    for org in page.looked_at {
        let done = check_rows(store, org, &mut checked).await;
        if units.done(org, done)?.is_none() {
            checked.differences.push(unreadable(org));
        }
    }
    Ok(checked)
}

/// Adds up the new entries of a page of organizations, step by step: no query reads a whole ledger.
async fn add_up(store: &Store, after: Option<OrgId>, limit: u32, units: &mut Units) -> Result<(), Refusal> {
    let organizations = store
        .organizations(after.map(|org| org.to_string()), limit)
        .await?;
    for (org, _) in organizations.items {
        let added = async {
            while store.add_up_ledger(org, ENTRIES).await? {}
            Ok::<_, Refusal>(())
        };
        // A failure here also fails the check of the organization, which reports it.
        units.done(org, added.await)?;
    }
    Ok(())
}

/// Checks the credits of a page of organizations, and returns whether it is the last page. If the query of the page fails, checks
/// each organization separately.
async fn check_credits(
    store: &Store,
    after: Option<OrgId>,
    limit: u32,
    units: &mut Units,
) -> Result<(LedgerChecked<OrgId>, bool), Refusal> {
    match store.check_credits(after, limit).await {
        Ok(page) => {
            let is_last = page.looked_at.len() < usize::try_from(limit).unwrap_or(usize::MAX);
            return Ok((page, is_last));
        }
        Err(error) => {
            tracing::warn!(%error, "checking a batch of organizations failed; checking them one by one");
        }
    }
    let mut page = LedgerChecked {
        differences: Vec::new(),
        looked_at: Vec::new(),
    };
    let organizations = store
        .organizations(after.map(|org| org.to_string()), limit)
        .await?;
    for (org, _) in organizations.items {
        let checked = store.check_credits_of(org).await;
        match units.done(org, checked)? {
            Some(differences) => page.differences.extend(differences),
            None => page.differences.push(unreadable(org)),
        }
        page.looked_at.push(org);
    }
    Ok((page, organizations.stopped_at.is_none()))
}

/// Difference of an organization that cannot be checked. An operator must look at it.
const fn unreadable(org: OrgId) -> LedgerDifference {
    LedgerDifference {
        org,
        rule: LedgerRule::Readable,
        run: None,
        payment: None,
        expected: 0,
        found: 0,
    }
}

/// Checks the payments and the runs of an organization.
async fn check_rows(store: &Store, org: OrgId, checked: &mut CheckedLedger) -> Result<(), Refusal> {
    checked.differences.extend(store.check_payments(org).await?);
    let mut after: Option<(Timestamp, RunId)> = None;
    loop {
        let runs = store.check_charges(org, after, RUNS).await?;
        checked.runs += runs.looked_at.len() as u64;
        checked.differences.extend(runs.differences);
        if runs.looked_at.len() < RUNS as usize {
            return Ok(());
        }
        after = runs.looked_at.last().copied();
    }
}

/// Checks the ledger each night until the node stops.
pub(crate) async fn keep_checking(
    store: Store,
    clock: Clock,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
) {
    let mut tick = tokio::time::interval(LOOK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut checked = night_of(clock.now());
    let (mut failures, mut not_before) = (0_u32, Instant::now());
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            () = stop.cancelled() => return,
        }
        let night = night_of(clock.now());
        if night <= checked || Instant::now() < not_before {
            continue;
        }
        let Some(done) = stop.run_until_cancelled(check_everything(&store, &metrics)).await else {
            return;
        };
        match done {
            Ok(()) => (checked, failures) = (night, 0),
            Err(error) => {
                failures = failures.saturating_add(1);
                let pause = pause_after(failures);
                not_before = Instant::now() + pause;
                tracing::error!(%error, again_in_seconds = pause.as_secs(), "checking the ledger failed");
            }
        }
    }
}

/// Pause after so many checks in a row that have failed.
fn pause_after(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    LOOK.saturating_mul(2_u32.saturating_pow(doublings))
        .min(LONGEST_PAUSE)
}

/// Returns the day of the last night that has begun at `at`.
fn night_of(at: Timestamp) -> Day {
    let margin = i64::try_from(AT_NIGHT.as_micros()).unwrap_or(i64::MAX);
    Day::of(Timestamp::from_micros(at.as_micros().saturating_sub(margin)))
}

/// Checks every organization, logs each difference, and sets the metric to their number.
async fn check_everything(store: &Store, metrics: &Metrics) -> Result<(), Refusal> {
    let (mut after, mut differences, mut runs) = (None, 0_u64, 0);
    loop {
        let checked = check_page(store, after, ORGANIZATIONS).await?;
        runs += checked.runs;
        for found in &checked.differences {
            differences += 1;
            tracing::error!(
                organization = %found.org,
                run = found.run.map(tracing::field::display),
                payment = found.payment.map(tracing::field::display),
                rule = found.rule.as_str(),
                expected_micros = found.expected,
                found_micros = found.found,
                "the ledger, the credits, the runs and the payments differ"
            );
        }
        after = checked.next_after;
        if after.is_none() {
            break;
        }
    }
    tracing::info!(runs, differences, "checked the ledger");
    metrics.checked_ledger(differences);
    Ok(())
}

#[cfg(test)]
mod tests {
    use sortie_testkit::postgres::TestDatabase;

    use super::*;

    #[test]
    fn a_night_begins_at_three_o_clock_in_utc() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let nights = [
            "2026-11-20T02:59:59Z",
            "2026-11-20T03:00:00Z",
            "2026-11-21T02:59:59Z",
            "2026-11-21T03:00:00Z",
        ]
        .map(|text| night_of(at(text)).to_string());
        assert_eq!(nights, ["2026-11-19", "2026-11-20", "2026-11-20", "2026-11-21"]);
    }

    #[test]
    fn a_check_that_fails_is_repeated_less_and_less_often() {
        let minutes: Vec<u64> = (1..=8)
            .map(|failures| pause_after(failures).as_secs() / 60)
            .collect();
        assert_eq!(minutes, [1, 2, 4, 8, 16, 32, 60, 60]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_ledger_is_checked_once_a_night_and_a_difference_is_counted() {
        let database = TestDatabase::sqlite().unwrap();
        let store = Store::open(database.url()).await.unwrap();
        with_too_much(&database, &["org_01kafs6w1cefkstv6qr1ptb0mp"]).await;
        let (clock, metrics) = (
            Clock::manual("2026-11-20T12:00:00Z".parse().unwrap()),
            Arc::<Metrics>::default(),
        );
        let stop = CancellationToken::new();
        let job = keep_checking(store, clock.clone(), Arc::clone(&metrics), stop.clone());
        let looks_on = async {
            // The clock of the test is virtual, so these hours take no time.
            tokio::time::sleep(Duration::from_hours(48)).await;
            assert_eq!(
                metrics.checked_ledgers(),
                (0, 0),
                "the night of the start has passed"
            );
            clock.set("2026-11-21T02:59:00Z".parse().unwrap());
            tokio::time::sleep(Duration::from_hours(1)).await;
            assert_eq!(metrics.checked_ledgers(), (0, 0));
            for (night, checks) in [("2026-11-21T03:00:00Z", 1), ("2026-11-22T04:00:00Z", 2)] {
                clock.set(night.parse().unwrap());
                while metrics.checked_ledgers().0 < checks {
                    tokio::time::sleep(LOOK).await;
                }
                tokio::time::sleep(Duration::from_hours(1)).await;
                assert_eq!(metrics.checked_ledgers(), (checks, 1));
            }
            stop.cancel();
        };
        tokio::join!(job, looks_on);
    }

    /// Makes organizations with more credits than their ledgers have.
    async fn with_too_much(database: &TestDatabase, orgs: &[&str]) {
        for org in orgs {
            for sql in [
                format!("INSERT INTO organization (id, name, created_at) VALUES ('{org}', 'a', 1)"),
                format!(
                    "INSERT INTO credit (org_id, balance_micros, reserved_micros, suspended) VALUES ('{org}', 5, 0, 0)"
                ),
            ] {
                database.change(&sql).await.unwrap();
            }
        }
    }

    fn found(checked: &CheckedLedger) -> Vec<(String, LedgerRule)> {
        let differences = checked.differences.iter();
        differences
            .map(|found| (found.org.to_string(), found.rule))
            .collect()
    }

    #[tokio::test]
    async fn an_organization_that_takes_too_long_does_not_keep_the_others() {
        let database = TestDatabase::postgres().await.unwrap();
        let store = Store::open(database.url()).await.unwrap();
        let orgs = ["org_01kafs6w1cefkstv6qr1ptb0m1", "org_01kafs6w1cefkstv6qr1ptb0m2"];
        with_too_much(&database, &orgs).await;
        // No statement that reads the credits of the first organization finishes in time.
        for sql in [
            "ALTER TABLE credit RENAME TO slow_credit".to_owned(),
            format!(
                "CREATE VIEW credit AS SELECT org_id, reserved_micros, balance_micros + CASE WHEN org_id = '{}' \
                 THEN length(pg_sleep(60)::text) ELSE 0 END AS balance_micros FROM slow_credit",
                orgs[0]
            ),
        ] {
            database.change(&sql).await.unwrap();
        }
        let checked = check_page(&store, None, 10).await.unwrap();
        assert_eq!((checked.organizations, checked.next_after), (2, None));
        let expected = [
            (orgs[0].to_owned(), LedgerRule::Readable),
            (orgs[1].to_owned(), LedgerRule::Balance),
        ];
        assert_eq!(found(&checked), expected);
    }

    #[tokio::test]
    async fn an_organization_that_cannot_be_checked_does_not_keep_the_others() {
        let database = TestDatabase::sqlite().unwrap();
        let store = Store::open(database.url()).await.unwrap();
        let orgs = [
            "org_01kafs6w1cefkstv6qr1ptb0m1",
            "org_01kafs6w1cefkstv6qr1ptb0m2",
            "org_01kafs6w1cefkstv6qr1ptb0m3",
        ];
        with_too_much(&database, &orgs).await;
        // The balance of the first organization cannot be read. The balances of the others differ from the sums of their ledgers.
        let broken = format!(
            "UPDATE credit SET balance_micros = 1.5 WHERE org_id = '{}'",
            orgs[0]
        );
        database.change(&broken).await.unwrap();
        let checked = check_page(&store, None, 10).await.unwrap();
        assert_eq!((checked.organizations, checked.next_after), (3, None));
        let expected = [
            (orgs[0], LedgerRule::Readable),
            (orgs[1], LedgerRule::Balance),
            (orgs[2], LedgerRule::Balance),
        ];
        assert_eq!(
            found(&checked),
            expected.map(|(org, rule)| (org.to_owned(), rule))
        );
        // An organization with an unreadable id does not stop the pass.
        let lost = format!(
            "INSERT INTO organization (id, name, created_at) VALUES ('{}x', 'a', 1)",
            orgs[0]
        );
        database.change(&lost).await.unwrap();
        let (mut after, mut found) = (None, Vec::new());
        loop {
            let page = check_page(&store, after, 2).await.unwrap();
            found.extend(page.differences.iter().map(|found| found.org.to_string()));
            after = page.next_after;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(found, orgs);
    }
}
