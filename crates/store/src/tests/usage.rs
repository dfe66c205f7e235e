//! Usage against a model: the sums over all runs, even while runs are counted and deleted.

use proptest::{
    prelude::*,
    strategy::ValueTree as _,
    test_runner::{Config, RngAlgorithm, TestRng},
};
use sortie_api::{
    RunUsage,
    usage::{Day, UsageDimension, UsageFigures, UsageRow},
};

use super::prelude::*;
use crate::{
    Result,
    db::Row,
    money::{CountedPart, Unsettled, UsagePart, UsagePosition, UsageQuery},
    runs::Undeletable,
};

const HOUR: i64 = 3_600_000_000;

/// 2026-11-29, 00:00. The third day is of another month.
const START: i64 = 1_795_910_400_000_000;

/// Run of the model.
#[derive(Clone, Debug)]
struct Used {
    id: RunId,
    org: OrgId,
    at: Timestamp,
    labels: Labels,
    figures: UsageFigures,
    settled: bool,
    deleted: bool,
}

#[derive(Clone, Debug)]
enum Step {
    /// Adds a run, created this number of minutes after the start.
    Run {
        org: usize,
        minute: i64,
        label: usize,
        succeeded: bool,
        settled: bool,
        amount: i64,
    },
    /// Settles every run.
    Settle,
    /// Counts the usage of this number of further hours, in parts.
    Count { hours: i64, part: UsagePart },
    /// Counts the runs that were left out and are settled.
    CountLate,
    /// Deletes the runs that are counted.
    Delete,
    /// Asks for the usage.
    Ask {
        org: usize,
        from: i64,
        days: i64,
        by: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let run = (
        0..2_usize,
        0..4_320_i64,
        0..4_usize,
        any::<bool>(),
        prop::bool::weighted(0.8),
        0..1_000_i64,
    )
        .prop_map(|(org, minute, label, succeeded, settled, amount)| Step::Run {
            org,
            minute,
            label,
            succeeded,
            settled,
            amount,
        });
    prop_oneof![
        12 => run,
        2 => Just(Step::Settle),
        3 => (1..5_i64, 1..4_u32, 0..3_u32)
            .prop_map(|(hours, runs, late)| Step::Count { hours, part: UsagePart { runs, late, leaves: if late == 1 { Unsettled::Held } else { Unsettled::All } } }),
        2 => Just(Step::CountLate),
        2 => Just(Step::Delete),
        3 => (0..2_usize, 0..3_i64, 0..3_i64, 0..16_usize).prop_map(|(org, from, days, by)| Step::Ask { org, from, days, by }),
        3 => (0..2_usize, -60..4_i64, 0..100_i64, 0..16_usize).prop_map(|(org, from, days, by)| Step::Ask { org, from, days, by }),
    ]
}

struct Model<'a> {
    fixture: &'a Fixture,
    orgs: [OrgId; 2],
    keys: [KeyId; 2],
    runs: Vec<Used>,
    /// End of the hours that were counted last.
    counted: i64,
    /// Number of runs that were left out of their hour.
    late: u64,
    /// Number of counts that ended within an hour.
    parts: i64,
}

impl Model<'_> {
    async fn run(&mut self, step: Step) {
        match step {
            Step::Run {
                org,
                minute,
                label,
                succeeded,
                settled,
                amount,
            } => {
                let mut at = START + minute * 60_000_000;
                // Other runs may be earlier than the counted boundary.
                if minute % 3 > 0 {
                    at = at.max(self.counted);
                }
                self.create(self.orgs[org], at, label, (succeeded, settled, amount))
                    .await;
            }
            Step::Settle => {
                for used in self.runs.iter_mut().filter(|used| !used.settled) {
                    used.settled = true;
                    settle(self.fixture, used.id).await;
                }
            }
            Step::Count { hours, part } => {
                self.counted += hours * HOUR;
                self.late += count(self.fixture, Timestamp::from_micros(self.counted), part).await;
                let within = "SELECT COUNT(*) FROM organization WHERE usage_until % 3600000000 <> 0";
                self.parts += self.fixture.count(within).await;
            }
            Step::CountLate => count_late(self.fixture).await,
            Step::Delete => {
                self.fixture.delete_counted().await;
                let left = self.fixture.run_ids().await;
                for used in &mut self.runs {
                    used.deleted = !left.contains(&used.id);
                    assert!(
                        used.settled || !used.deleted,
                        "what is not settled is not counted"
                    );
                }
            }
            Step::Ask { org, from, days, by } => self.ask(self.orgs[org], from, days, by).await,
        }
    }

    async fn create(
        &mut self,
        org: OrgId,
        at: i64,
        label: usize,
        (succeeded, settled, amount): (bool, bool, i64),
    ) {
        let at = Timestamp::from_micros(at);
        let labels = Labels {
            workflow: (label % 2 == 1).then(|| "report".to_owned()),
            model: (label > 0).then(|| format!("model-{}", label / 2)),
            by: self.keys.get(label).copied().map(By::Key),
            ..Labels::default()
        };
        let new = NewRun {
            created_at: at,
            labels: labels.clone(),
            ..self.fixture.new_run(org)
        };
        let Created::New(run) = self.fixture.store.create_run(new).await.unwrap() else {
            panic!("it is new")
        };
        let figures = UsageFigures {
            runs: 1,
            succeeded: i64::from(succeeded),
            cost_micros: Micros::try_from(amount * 7).unwrap(),
            usage: RunUsage {
                input_tokens: amount,
                output_tokens: amount + 1,
                cache_read_tokens: amount + 2,
                cache_write_tokens: amount + 3,
                model_calls: amount + 4,
                tool_calls: amount + 5,
            },
        };
        self.fixture.use_up(run.id, &figures).await;
        if settled {
            settle(self.fixture, run.id).await;
        }
        self.runs.push(Used {
            id: run.id,
            org,
            at,
            labels,
            figures,
            settled,
            deleted: false,
        });
    }

    async fn ask(&self, org: OrgId, from: i64, days: i64, by: usize) {
        use UsageDimension as By;
        let from = Day::of(Timestamp::from_micros(START)).plus(from);
        let to = from.plus(days);
        let all = [By::Day, By::Workflow, By::Model, By::Key].into_iter();
        let wanted = all.enumerate().filter(|(at, _)| by >> at & 1 == 1);
        let by: Vec<_> = wanted.map(|(_, one)| one).collect();
        let asked = |dimension| by.contains(&dimension);
        let mut expected: BTreeMap<_, UsageFigures> = BTreeMap::new();
        for used in self.runs.iter().filter(|used| used.org == org) {
            let day = Day::of(used.at);
            if day < from || day > to {
                continue;
            }
            let row = (
                asked(UsageDimension::Day).then_some(day),
                used.labels
                    .workflow
                    .clone()
                    .filter(|_| asked(UsageDimension::Workflow)),
                used.labels.model.clone().filter(|_| asked(UsageDimension::Model)),
                used.labels.key().filter(|_| asked(UsageDimension::Key)),
            );
            expected.entry(row).or_default().add(&used.figures);
        }
        let query = UsageQuery {
            from,
            to,
            by: by.clone(),
            after: None,
            limit: 1_000,
        };
        let rows = self.fixture.store.usage(org, query.clone()).await.unwrap();
        let count = rows.len();
        self.pages_are_the_same(org, &query, &rows).await;
        let found: BTreeMap<_, _> = rows
            .into_iter()
            .map(|row: UsageRow| {
                let figures = row.figures();
                ((row.day, row.workflow, row.model, row.key_id), figures)
            })
            .collect();
        assert_eq!(found.len(), count, "no row comes twice");
        assert_eq!(found, expected, "{from} to {to} by {by:?}");
    }

    async fn pages_are_the_same(&self, org: OrgId, query: &UsageQuery, rows: &[UsageRow]) {
        assert!(rows.is_sorted_by_key(UsagePosition::from));
        let counted = self.fixture.store.usage_rows(org, query.clone()).await.unwrap();
        assert_eq!(counted as usize, rows.len());
        let mut after = None;
        for expected in rows.chunks(3).chain([&[][..]]) {
            let query = UsageQuery {
                after,
                limit: 3,
                ..query.clone()
            };
            let page = self.fixture.store.usage(org, query).await.unwrap();
            assert_eq!(page, expected);
            after = page.last().map(UsagePosition::from);
        }
    }
}

async fn settle(fixture: &Fixture, run: RunId) {
    let settled = fixture
        .store
        .db
        .write(move |tx| tx.exec("DELETE FROM queue WHERE run_id = $1", vals![run]));
    assert_eq!(settled.await, Ok(1));
}

/// Counts the runs that were left out of their hour and are settled, as a node does.
async fn count_late(fixture: &Fixture) {
    for (run, is_settled) in fixture.store.late_runs(None, 1_000).await.unwrap().items {
        assert_eq!(fixture.store.count_late_run(run).await.unwrap(), is_settled);
    }
}

/// Part of an hour of any number of runs, without up to `late` runs that are not settled.
pub(super) const fn leaving(late: u32) -> UsagePart {
    UsagePart {
        runs: u32::MAX,
        late,
        leaves: Unsettled::All,
    }
}

/// Counts every hour before `before` that can be counted, as a node does, part by part. Returns how many runs were left out.
async fn count(fixture: &Fixture, before: Timestamp, part: UsagePart) -> u64 {
    let due = async || -> Vec<_> {
        let all = fixture.store.usage_due(before, None, 10).await.unwrap().items;
        all.into_iter().filter_map(|(_, due)| due).collect()
    };
    let mut left_out = 0;
    loop {
        let mut progress = false;
        for due in due().await {
            assert!(due.next_run < before);
            if due.hour_end() <= before
                && let CountedPart::Counted(runs) = fixture.store.count_usage(due, part).await.unwrap()
            {
                progress = true;
                left_out += runs;
            }
        }
        if !progress {
            return left_out;
        }
    }
}

impl Fixture {
    /// Records the usage of a run.
    async fn use_up(&self, run: RunId, figures: &UsageFigures) {
        let outcome = if figures.succeeded == 1 {
            "succeeded"
        } else {
            "failed"
        };
        let (cost, usage) = (figures.cost_micros, figures.usage);
        let used = self.store.db.write(move |tx| {
            tx.exec(
                "UPDATE run SET status = $2, outcome = $2, cost_micros = $3, input_tokens = $4, output_tokens = $5, \
                 cache_read_tokens = $6, cache_write_tokens = $7, model_calls = $8, tool_calls = $9 WHERE id = $1",
                vals![
                    run,
                    outcome,
                    cost,
                    usage.input_tokens,
                    usage.output_tokens,
                    usage.cache_read_tokens,
                    usage.cache_write_tokens,
                    usage.model_calls,
                    usage.tool_calls
                ],
            )
        });
        assert_eq!(used.await, Ok(1));
    }

    /// Deletes the runs that usage has already counted.
    async fn delete_counted(&self) {
        let delete = |tx: &mut dyn crate::db::Tx| -> Result<u64> {
            tx.exec(
                "DELETE FROM run WHERE created_at < (SELECT o.usage_until FROM organization o WHERE o.id = run.org_id) \
                 AND NOT EXISTS (SELECT 1 FROM late_run l WHERE l.run_id = run.id)",
                vals![],
            )
        };
        self.store.db.write(delete).await.unwrap();
    }

    async fn run_ids(&self) -> Vec<RunId> {
        let read = |tx: &mut dyn crate::db::Tx| -> Result<Vec<RunId>> {
            tx.query_all("SELECT id FROM run", vals![])?
                .iter()
                .map(Row::only)
                .collect()
        };
        self.store.db.read(read).await.unwrap()
    }
}

async fn usage_is_the_sum_of_what_was_run(fixture: &Fixture) {
    let mut model = Model {
        orgs: [fixture.org().await, fixture.org().await],
        keys: [
            KeyId::new(fixture.now(), [1; 10]),
            KeyId::new(fixture.now(), [2; 10]),
        ],
        fixture,
        runs: Vec::new(),
        counted: START,
        late: 0,
        parts: 0,
    };
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        TestRng::deterministic_rng(RngAlgorithm::ChaCha),
    );
    let steps = prop::collection::vec(step(), 250)
        .new_tree(&mut runner)
        .unwrap()
        .current();
    for step in steps {
        model.run(step).await;
    }
    assert!(
        model.runs.iter().any(|used| used.deleted),
        "something was counted and deleted"
    );
    assert!(model.late > 0, "something was left out of its hour");
    assert!(model.parts > 0, "an hour was counted in parts");
    model.run(Step::Settle).await;
    count_late(fixture).await;
    count(
        fixture,
        Timestamp::from_micros(model.counted + 80 * HOUR),
        leaving(0),
    )
    .await;
    fixture.delete_counted().await;
    assert_eq!(fixture.run_ids().await, []);
    for by in 0..16 {
        model.ask(model.orgs[0], 0, 2, by).await;
    }
}

#[tokio::test]
async fn usage_is_the_sum_of_what_was_run_on_sqlite() {
    usage_is_the_sum_of_what_was_run(&Fixture::sqlite().await).await;
}

#[tokio::test]
async fn usage_is_the_sum_of_what_was_run_on_postgres() {
    usage_is_the_sum_of_what_was_run(&Fixture::postgres().await).await;
}

both! {
    async fn sums_stop_at_the_largest_integer(fixture: &Fixture, org: OrgId, node: NodeId) {
        for _ in 0..2 {
            fixture.finished(org, node).await;
        }
        let change = async |sql| fixture.sql(sql, vals![]).await;
        change("UPDATE run SET input_tokens = 9223372036854775807, tool_calls = 4611686018427387904, output_tokens = 4294967295").await;
        let day = Day::of(fixture.now());
        let query = UsageQuery { from: day, to: day, by: Vec::new(), after: None, limit: 10 };
        let check = async |runs| {
            let rows = fixture.store.usage(org, query.clone()).await.unwrap();
            let [row] = &rows[..] else { panic!("{rows:?}") };
            assert_eq!((row.runs, row.usage.input_tokens, row.usage.tool_calls), (runs, i64::MAX, i64::MAX));
            assert_eq!(row.usage.output_tokens, runs * 4_294_967_295);
        };
        check(2).await;
        let later = fixture.now() + Duration::from_hours(30);
        // The second count adds to the day.
        for runs in [2, 4] {
            change("UPDATE organization SET usage_until = 0").await;
            let due = fixture.store.usage_due(later, None, 10).await.unwrap().items[0].1.unwrap();
            assert_eq!(fixture.store.count_usage(due, leaving(0)).await.unwrap(), CountedPart::Counted(0));
            check(runs).await;
        }
    }

    async fn an_hour_waits_for_its_runs_to_be_settled_and_those_behind_wait_for_it(fixture: &Fixture, org: OrgId, node: NodeId) {
        let waiting = fixture.queued(org).await;
        let later = fixture.now() + Duration::from_hours(30);
        let due = fixture.store.usage_due(later, None, 10).await.unwrap().items[0].1.unwrap();
        assert_eq!(fixture.store.count_usage(due, leaving(0)).await.unwrap(), CountedPart::Waits, "it waits");
        let claim = fixture.claim_one(node).await;
        assert_eq!(claim.fence.run, waiting);
        let fence = fixture.start(claim.fence).await.unwrap();
        assert_eq!(fixture.store.count_usage(due, leaving(0)).await.unwrap(), CountedPart::Waits, "it is at work");
        fixture.store.cancel_run(org, waiting, fixture.now()).await.unwrap();
        assert_eq!(fixture.store.count_usage(due, leaving(0)).await.unwrap(), CountedPart::Waits, "its cost is not known");
        fixture.store.settle_run(waiting, fence.attempt, of_calls(Micros::new(9).unwrap()), Vec::new()).await.unwrap();
        assert_eq!(fixture.store.count_usage(due, leaving(0)).await.unwrap(), CountedPart::Counted(0));
        assert_eq!(fixture.store.count_usage(due, leaving(0)).await.unwrap(), CountedPart::Elsewhere, "it is counted once");
        assert_eq!(fixture.store.usage_due(later, None, 10).await.unwrap().items, [(org, None)]);
        assert_eq!(fixture.count("SELECT cost_micros FROM usage_day").await, 9);
    }

    async fn an_hour_leaves_out_no_more_runs_than_it_may_and_these_stay_until_they_are_counted(fixture: &Fixture, org: OrgId, node: NodeId) {
        let fence = fixture.running(org, node).await;
        fixture.queued(org).await;
        let later = fixture.now() + Duration::from_hours(30);
        let due = fixture.store.usage_due(later, None, 10).await.unwrap().items[0].1.unwrap();
        // There are two runs: the part of the hour before the second one is counted, then the rest.
        assert_eq!(fixture.store.count_usage(due, leaving(1)).await.unwrap(), CountedPart::Counted(1));
        assert_eq!(fixture.count("SELECT COUNT(*) FROM late_run").await, 1);
        let rest = fixture.store.usage_due_of(org, later).await.unwrap().unwrap();
        assert!(rest.counted_until == rest.next_run && rest.hour_end() == due.hour_end(), "{rest:?}");
        assert_eq!(fixture.store.count_usage(rest, leaving(1)).await.unwrap(), CountedPart::Counted(1));
        assert_eq!(fixture.store.usage_due_of(org, later).await.unwrap(), None);
        let seen = fixture.store.observe(later).await.unwrap();
        let oldest = fixture.get(org, fence.run).await.created_at;
        assert_eq!((seen.late_runs, seen.oldest_late_run_at), (2, Some(oldest)));
        fixture.store.finish_run(fence, fixture.succeeded("out")).await.unwrap();
        // Retention leaves it until it is counted.
        let (created_before, open_callbacks) = (due.hour_end(), OpenCallbacks::Wait);
        let expiry = Expiry { org, finished_before: later, created_before, check_at: later, open_callbacks };
        let batch = Batch { runs: 10, events: 100 };
        assert_eq!(fixture.store.delete_expired_runs(expiry, batch, &mut Undeletable::default()).await.unwrap().runs, 0);
        let late = fixture.store.late_runs(None, 10).await.unwrap().items;
        assert_eq!(late.iter().filter(|(_, is_settled)| *is_settled).count(), 1);
        assert!(late.contains(&(fence.run, true)));
        count_late(fixture).await;
        assert_eq!(fixture.count("SELECT runs FROM usage_day").await, 1);
        assert!(!fixture.store.count_late_run(fence.run).await.unwrap(), "once");
        assert_eq!(fixture.store.delete_expired_runs(expiry, batch, &mut Undeletable::default()).await.unwrap().runs, 1);
    }

    async fn an_hour_is_counted_in_parts_and_a_moment_is_not_parted(fixture: &Fixture, org: OrgId, node: NodeId) {
        for _ in 0..5 {
            fixture.finished(org, node).await;
        }
        let later = fixture.now() + Duration::from_hours(30);
        let counted = async |runs| {
            let due = fixture.store.usage_due_of(org, later).await.unwrap().unwrap();
            let part = UsagePart { runs, ..leaving(0) };
            assert_eq!(fixture.store.count_usage(due, part).await, Ok(CountedPart::Counted(0)));
            fixture.count("SELECT CAST(SUM(runs) AS BIGINT) FROM usage_day").await
        };
        assert_eq!([counted(2).await, counted(2).await], [2, 4]);
        assert_eq!(counted(2).await, 5);
        assert_eq!(fixture.store.usage_due_of(org, later).await, Ok(None));
        let again = "DELETE FROM usage_day; UPDATE organization SET usage_until = 0; \
                     UPDATE run SET created_at = (SELECT MIN(r.created_at) FROM run r)";
        for change in again.split(';') {
            fixture.sql(change, vals![]).await;
        }
        assert_eq!(counted(2).await, 5, "all are of one moment");
        assert_eq!(fixture.store.usage_due_of(org, later).await, Ok(None));
    }

    async fn many_runs_are_counted_without_those_at_work_and_up_to_the_first_that_waits(fixture: &Fixture, org: OrgId, node: NodeId) {
        let finishes = async || {
            fixture.finished(org, node).await;
        };
        finishes().await;
        let at_work = fixture.running(org, node).await;
        finishes().await;
        let waits = fixture.queued(org).await;
        let later = fixture.now() + Duration::from_mins(1);
        let part = UsagePart { leaves: Unsettled::Held, ..leaving(10) };
        let day = Day::of(fixture.now());
        let query = UsageQuery { from: day, to: day, by: Vec::new(), after: None, limit: 10 };
        let used = async || fixture.store.usage(org, query.clone()).await.unwrap()[0].runs;
        let counted = async || fixture.count("SELECT CAST(SUM(runs) AS BIGINT) FROM usage_day").await;
        let next = async || fixture.store.usage_due_of(org, later).await.unwrap().unwrap();

        assert_eq!(fixture.store.count_usage(next().await, part).await.unwrap(), CountedPart::Counted(1));
        assert_eq!((counted().await, used().await), (2, 4));
        let due = next().await;
        assert_eq!(due.next_run, fixture.get(org, waits).await.created_at);
        assert_eq!(fixture.store.count_usage(due, part).await.unwrap(), CountedPart::Waits);
        // The clock of another node is slow.
        let late = NewRun { created_at: fixture.get(org, at_work.run).await.created_at, ..fixture.new_run(org) };
        fixture.store.create_run(late).await.unwrap();
        assert_eq!((fixture.count("SELECT COUNT(*) FROM late_run").await, used().await), (2, 5));
        fixture.store.finish_run(at_work, fixture.succeeded("out")).await.unwrap();
        count_late(fixture).await;
        assert_eq!((counted().await, used().await), (3, 5));
        let of_months = "SELECT CAST(SUM(runs) AS BIGINT) FROM usage_month";
        assert_eq!(fixture.count(of_months).await, 3, "the sums of months have the same");
    }

    async fn a_month_is_read_from_its_own_sums(fixture: &Fixture, org: OrgId, node: NodeId) {
        fixture.finished(org, node).await;
        let later = fixture.now() + Duration::from_hours(30);
        let due = fixture.store.usage_due_of(org, later).await.unwrap().unwrap();
        fixture.store.count_usage(due, leaving(0)).await.unwrap();
        let change = |tx: &mut dyn crate::db::Tx| tx.exec("UPDATE usage_day SET runs = 100", vals![]);
        assert_eq!(fixture.store.db.write(change).await, Ok(1));
        let today = Day::of(fixture.now());
        let runs = async |from: Day, to: Day, by: Vec<UsageDimension>| {
            let query = UsageQuery { from, to, by, after: None, limit: 10 };
            fixture.store.usage(org, query).await.unwrap().iter().map(|row| row.runs).sum::<i64>()
        };
        let month = today.month();
        let workflow = vec![UsageDimension::Workflow];
        assert_eq!(runs(month, today, Vec::new()).await, 1, "nothing behind today is counted");
        assert_eq!(runs(month, today.next_month().plus(-1), workflow.clone()).await, 1);
        assert_eq!(runs(month.plus(-40), today.plus(60), workflow).await, 1);
        assert_eq!(runs(month, today, vec![UsageDimension::Day]).await, 100);
        assert_eq!(runs(today, today.next_month(), Vec::new()).await, 100);
    }

    async fn usage_is_of_one_organization_and_its_rows_are_limited(fixture: &Fixture, org: OrgId, other: OrgId) {
        let mut new = fixture.new_run(org);
        let day = Day::of(new.created_at);
        for number in 0..5 {
            new = NewRun { labels: Labels { workflow: Some(format!("w{number}")), ..Labels::default() }, ..fixture.new_run(org) };
            fixture.store.create_run(new).await.unwrap();
        }
        let query = UsageQuery { from: day, to: day, by: vec![UsageDimension::Workflow], after: None, limit: 3 };
        assert_eq!(fixture.store.usage(org, query.clone()).await.unwrap().len(), 3);
        assert_eq!(fixture.store.usage_rows(org, query.clone()).await.unwrap(), 3, "it stops at the limit");
        assert_eq!(fixture.store.usage(other, query.clone()).await.unwrap(), []);
        let all = fixture.store.usage(org, UsageQuery { by: Vec::new(), ..query }).await.unwrap();
        assert_eq!(all.iter().map(|row| row.runs).collect::<Vec<_>>(), [5]);
        let due = fixture.store.usage_due(fixture.now(), None, 1).await.unwrap().items;
        assert_eq!(due.iter().map(|(of, _)| *of).collect::<Vec<_>>(), [org.min(other)]);
        let due = fixture.store.usage_due(fixture.now(), Some(org.min(other).to_string()), 5).await.unwrap().items;
        assert_eq!(due.iter().map(|(of, _)| *of).collect::<Vec<_>>(), [org.max(other)]);
    }
}
