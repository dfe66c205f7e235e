//! Feed of the list of runs. It filters the runs that have changed in memory, and has to find those that a list finds.

use proptest::prelude::*;
use sortie_api::Metadata;

use super::{
    budgets::{key, schedule},
    prelude::*,
};
use crate::access::By;

/// Letters that have another case in some languages only, and the special characters of LIKE.
const LETTERS: [char; 12] = ['a', 'A', 'É', 'é', 'İ', 'ı', 'ſ', 'K', '%', '_', '\\', '!'];

#[derive(Clone, Debug)]
struct Sample {
    status: RunStatus,
    error: Option<String>,
    cost: u64,
    workflow: Option<String>,
    model: Option<String>,
    has_key: bool,
    has_schedule: bool,
    tags: Vec<String>,
    metadata: Metadata,
}

fn text(longest: usize) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(LETTERS.to_vec()), 1..=longest)
        .prop_map(|letters| letters.into_iter().collect())
}

/// A label of a run, if it has one.
fn name() -> impl Strategy<Value = Option<String>> {
    prop::option::of(prop::sample::select(vec!["one".to_owned(), "two".to_owned()]))
}

/// Up to two pairs, with keys and values that often match.
fn metadata() -> impl Strategy<Value = Metadata> {
    prop::collection::btree_map("[ab]", "[ab]?", 0..=2)
}

/// The status of a run that is queued, running or final.
fn status() -> impl Strategy<Value = RunStatus> {
    prop::sample::select(vec![
        RunStatus::Queued,
        RunStatus::Running,
        RunStatus::Succeeded,
        RunStatus::Failed,
    ])
}

fn sample() -> impl Strategy<Value = Sample> {
    let labels = (name(), name(), any::<bool>(), any::<bool>(), name(), metadata());
    (status(), prop::option::of(text(4)), 0..3_u64, labels).prop_map(
        |(status, error, cost, (workflow, model, has_key, has_schedule, tag, metadata))| Sample {
            status,
            error,
            cost,
            workflow,
            model,
            has_key,
            has_schedule,
            tags: tag.into_iter().collect(),
            metadata,
        },
    )
}

/// A filter, and the numbers of the runs between which it looks or which it lists.
#[derive(Clone, Debug)]
struct Wanted {
    filter: RunFilter,
    since: Option<usize>,
    until: Option<usize>,
    ids: Vec<usize>,
}

fn wanted() -> impl Strategy<Value = Wanted> {
    let rarely = |strategy| prop::option::weighted(0.3, strategy);
    let properties = (name(), name(), name(), any::<(bool, bool)>(), metadata());
    let bounds = (rarely(0..12_usize), rarely(0..12_usize));
    let others = (
        prop::collection::vec(status(), 0..3),
        prop::option::of(text(2)),
        prop::option::of(0..3_u64),
        prop::collection::vec(0..12_usize, 0..2),
    );
    (properties, bounds, others).prop_map(
        |(
            (workflow, model, tag, (has_key, has_schedule), metadata),
            (since, until),
            (statuses, error, cost, ids),
        )| {
            let filter = RunFilter {
                statuses,
                schedule: has_schedule.then(schedule),
                tag,
                metadata,
                workflow,
                model,
                key: has_key.then(key),
                error,
                min_cost: cost.map(micros),
                limit: 100,
                ..RunFilter::default()
            };
            Wanted {
                filter,
                since,
                until,
                ids,
            }
        },
    )
}

async fn add(fixture: &Fixture, org: OrgId, sample: Sample) {
    let labels = Labels {
        by: sample.has_key.then(|| By::Key(key())),
        workflow: sample.workflow,
        schedule: sample.has_schedule.then(schedule),
        model: sample.model,
        tags: sample.tags,
        metadata: sample.metadata,
        ..Labels::default()
    };
    let run = NewRun {
        labels,
        ..fixture.new_run(org)
    };
    let (id, status) = (run.id, sample.status);
    fixture.created(run).await;
    let outcome = status.is_final().then_some(status);
    let sql = "UPDATE run SET status = $2, outcome = $3, error = $4, cost_micros = $5 WHERE id = $1";
    let cost = micros(sample.cost);
    fixture
        .sql(sql, vals![id, status, outcome, sample.error, cost])
        .await;
    if status.is_final() {
        fixture
            .sql("DELETE FROM queue WHERE run_id = $1", vals![id])
            .await;
    } else if status == RunStatus::Running {
        fixture
            .sql("UPDATE queue SET node_id = 1 WHERE run_id = $1", vals![id])
            .await;
    }
}

fn compare(cases: u32, fixture: impl AsyncFn() -> Fixture) {
    let samples = prop::collection::vec(sample(), 1..12);
    let filters = prop::collection::vec(wanted(), 20);
    with_random(cases, &(samples, filters), fixture, &async |fixture,
                                                             (
        samples,
        filters,
    )| {
        let org = fixture.org().await;
        for sample in samples {
            add(fixture, org, sample).await;
        }
        let list = async |filter| fixture.store.list_runs(org, filter).await.unwrap().items;
        let everything = RunFilter {
            limit: 100,
            ..RunFilter::default()
        };
        let all: Vec<_> = list(everything)
            .await
            .into_iter()
            .map(|listed| listed.run)
            .collect();
        for wanted in filters {
            let run = |number: usize| &all[number % all.len()];
            let filter = RunFilter {
                since: wanted.since.map(|number| run(number).created_at),
                until: wanted.until.map(|number| run(number).created_at),
                ids: wanted.ids.iter().map(|number| run(*number).id).collect(),
                ..wanted.filter
            };
            let admitted: Vec<RunId> = all
                .iter()
                .filter(|run| filter.admits(run))
                .map(|run| run.id)
                .collect();
            let listed: Vec<RunId> = list(filter.clone())
                .await
                .iter()
                .map(|listed| listed.run.id)
                .collect();
            assert_eq!(admitted, listed, "{filter:#?}");
        }
    });
}

#[test]
fn a_feed_admits_the_runs_of_the_list_on_sqlite() {
    compare(24, Fixture::sqlite);
}

#[test]
fn a_feed_admits_the_runs_of_the_list_on_postgres() {
    compare(12, Fixture::postgres);
}
