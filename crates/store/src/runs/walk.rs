//! Lists of runs by several properties, for which no index has the order of the list.
//!
//! No such index could be right, because any of the properties may be the rarest one. The list is read by the rarest property
//! that has an index (the one with the oldest [`EXAMINED`]-th entry), or else through all runs. The command stops at that entry,
//! and the next command continues there.

use sortie_api::{OrgId, RunId, RunStatus, ScheduleId, Timestamp};

use super::{
    RunFilter, SELECT_LISTED_RUNS,
    list::{Position, behind, merged},
};
use crate::{
    Error, Found, Result,
    db::{Answer, Stmt, Tx, Val, filled, row, select, vals},
    files::blobs::json,
    runs::large::ListedRun,
};

/// Maximum number of index entries that one command reads.
const EXAMINED: u32 = 5_000;

row! {
    /// Entry of an index.
    struct EntryRow {
        at: Timestamp = "@at",
        run: RunId = "@id",
    }
}

/// Entry number `$4` of an index after the position `$2`, `$3`, counted from 0.
const ENTRY: &str = select!(
    EntryRow,
    " FROM @from AND (@at, @id) < ($2, $3) ORDER BY @at DESC, @id DESC LIMIT 1 OFFSET $4"
);

/// Like [`ENTRY`], on an index that begins with the outcome.
const ENTRY_OF_OUTCOME: &str = filled!(
    select!(
        EntryRow,
        " FROM run r WHERE @condition AND (r.outcome, @at, @id) < (@outcome, $2, $3) \
         ORDER BY r.outcome DESC, @at DESC, @id DESC LIMIT 1 OFFSET $4"
    ),
    "@at" = "r.created_at",
    "@id" = "r.id"
);

const LABEL_ENTRY: &str = filled!(
    ENTRY,
    "@from" = "run_label t WHERE t.org_id = $1 AND t.label = $5",
    "@at" = "t.created_at",
    "@id" = "t.run_id"
);
const OUTCOME_ENTRY: &str = filled!(
    ENTRY_OF_OUTCOME,
    "@condition" = "r.org_id = $1 AND r.outcome >= $5 AND r.created_at >= 0",
    "@outcome" = "$5"
);
const ALL_ENTRY: &str = filled!(
    ENTRY,
    "@from" = "run r WHERE r.org_id = $1 AND r.created_at >= 0",
    "@at" = "r.created_at",
    "@id" = "r.id"
);
const WORKFLOW_ENTRY: &str = filled!(
    select!(
        EntryRow,
        " FROM run r WHERE r.org_id = $1 AND r.workflow >= $5 AND r.created_at >= 0 \
         AND (r.workflow, @at, @id) < ($5, $2, $3) ORDER BY r.workflow DESC, @at DESC, @id DESC LIMIT 1 OFFSET $4"
    ),
    "@at" = "r.created_at",
    "@id" = "r.id"
);
const SCHEDULE_ENTRY: &str = filled!(
    ENTRY,
    "@from" = "run r WHERE COALESCE(r.org_id, '') = $1 AND r.schedule_id = $5",
    "@at" = "r.created_at",
    "@id" = "r.id"
);
const SCHEDULE_OUTCOME_ENTRY: &str = filled!(
    ENTRY_OF_OUTCOME,
    "@condition" = "COALESCE(r.org_id, '') = $1 AND r.schedule_id = $5 AND r.outcome >= $6",
    "@outcome" = "$6"
);
const QUEUE_ENTRY: &str = filled!(
    ENTRY,
    "@from" = "queue q WHERE q.org_id = $1 AND q.node_id @node",
    "@at" = "q.enqueued_at",
    "@id" = "q.run_id"
);
const FREE_ENTRY: &str = filled!(QUEUE_ENTRY, "@node" = "IS NULL");
const BOUND_ENTRY: &str = filled!(QUEUE_ENTRY, "@node" = "IS NOT NULL");

/// Label `@label` of the run `@run`, or NULL if it does not have that.
const LABEL: &str = "(SELECT t.run_id FROM run_label t WHERE t.org_id = $1 AND t.label = @label \
    AND t.created_at = @run.created_at AND t.run_id = @run.id)";

/// Condition that the run `@run` has the label `$5`.
const HAS_LABEL: &str = constcat::concat!(filled!(LABEL, "@label" = "$5"), " IS NOT NULL");

/// Condition that the run `@run` has the status `$8` and the schedule `$9`, if these are given.
const HAS_PROPERTIES: &str = "(CAST($8 AS TEXT) IS NULL OR @run.status = $8) \
    AND (CAST($9 AS TEXT) IS NULL OR @run.schedule_id = $9)";

/// Conditions on the run `@run` of a list with a label.
const LABELLED: &str = constcat::concat!(HAS_PROPERTIES, " AND ", HAS_LABEL);

/// Conditions on the run `@run` of a list with further properties, if these are given. `$17` are the labels after the first one,
/// as a JSON array.
const SIEVED: &str = constcat::concat!(
    HAS_PROPERTIES,
    " AND (CAST($5 AS TEXT) IS NULL OR ",
    HAS_LABEL,
    ") AND (CAST($10 AS TEXT) IS NULL OR @run.workflow = $10) \
     AND (CAST($11 AS TEXT) IS NULL OR @run.model = $11) \
     AND (CAST($12 AS TEXT) IS NULL OR @run.key_id = $12) \
     AND (CAST($13 AS BIGINT) IS NULL OR @run.cost_micros >= $13) \
     AND (CAST($14 AS TEXT) IS NULL OR lower(@run.error) LIKE $14 ESCAPE '!') \
     AND (CAST($15 AS TEXT) IS NULL OR $15 LIKE '%,' || @run.status || ',%') \
     AND (CAST($16 AS TEXT) IS NULL OR (SELECT d.search_text FROM run_definition d WHERE d.run_id = @run.id) \
     LIKE $16 ESCAPE '!') \
     AND (SELECT COUNT(*) FROM {JSON_EACH}($17) w WHERE ",
    filled!(LABEL, "@label" = "w.value"),
    " IS NULL) = 0"
);

/// Walk through an index of `run`, down to the position `$6`, `$7`. See `LIST_BY` for the conditions. The bound for the
/// index scan comes before one that only makes the index usable.
const WALK_RUNS: &str = constcat::concat!(
    SELECT_LISTED_RUNS,
    "@bounds AND @holds ORDER BY @order r.created_at DESC, r.id DESC LIMIT $4"
);

const WALK_ALL: &str = filled!(
    WALK_RUNS,
    "@bounds" = "r.org_id = $1 AND r.created_at >= $6 AND (r.created_at, r.id) >= ($6, $7) AND r.created_at >= 0 \
        AND (r.created_at, r.id) < ($2, $3)",
    "@order" = ""
);
const WALK_WORKFLOW: &str = filled!(
    WALK_RUNS,
    "@bounds" = "r.org_id = $1 AND (r.workflow, r.created_at, r.id) >= ($10, $6, $7) AND r.workflow >= $10 \
        AND r.created_at >= 0 AND (r.workflow, r.created_at, r.id) < ($10, $2, $3)",
    "@order" = "r.workflow DESC,"
);

const WALK_OUTCOME: &str = filled!(
    WALK_RUNS,
    "@bounds" = "r.org_id = $1 AND (r.outcome, r.created_at, r.id) >= ($8, $6, $7) AND r.outcome >= $8 \
        AND r.created_at >= 0 AND (r.outcome, r.created_at, r.id) < ($8, $2, $3)",
    "@order" = "r.outcome DESC,"
);
const WALK_SCHEDULE: &str = filled!(
    WALK_RUNS,
    "@bounds" = "COALESCE(r.org_id, '') = $1 AND r.schedule_id = $9 AND r.created_at >= $6 \
        AND (r.created_at, r.id) >= ($6, $7) AND (r.created_at, r.id) < ($2, $3)",
    "@order" = ""
);
const WALK_SCHEDULE_OUTCOME: &str = filled!(
    WALK_RUNS,
    "@bounds" = "COALESCE(r.org_id, '') = $1 AND r.schedule_id = $9 \
        AND (r.outcome, r.created_at, r.id) >= ($8, $6, $7) AND (r.outcome, r.created_at, r.id) < ($8, $2, $3)",
    "@order" = "r.outcome DESC,"
);

/// Walk through the label.
const WALK_LABEL: &str = constcat::concat!(
    SELECT_LISTED_RUNS,
    "r.org_id = $1 AND r.id {IN}SELECT t.run_id FROM run_label t WHERE t.org_id = $1 AND t.label = $5 \
     AND t.created_at >= $6 AND (t.created_at, t.run_id) >= ($6, $7) AND (t.created_at, t.run_id) < ($2, $3) \
     AND (SELECT s.id FROM run s WHERE s.id = t.run_id AND @holds) \
     IS NOT NULL ORDER BY t.created_at DESC, t.run_id DESC LIMIT $4{END} ORDER BY r.created_at DESC, r.id DESC"
);

/// Walk through the queue.
const WALK_QUEUE: &str = constcat::concat!(
    SELECT_LISTED_RUNS,
    "r.org_id = $1 AND r.id {IN}SELECT q.run_id FROM queue q WHERE q.org_id = $1 AND q.node_id @node \
     AND q.enqueued_at >= $6 AND (q.enqueued_at, q.run_id) >= ($6, $7) \
     AND (q.enqueued_at, q.run_id) < ($2, $3) AND (SELECT s.id FROM run s WHERE s.id = q.run_id AND @holds) \
     IS NOT NULL ORDER BY q.enqueued_at DESC, q.run_id DESC LIMIT $4{END} \
     ORDER BY r.created_at DESC, r.id DESC"
);
const WALK_FREE: &str = filled!(WALK_QUEUE, "@node" = "IS NULL");
const WALK_BOUND: &str = filled!(WALK_QUEUE, "@node" = "IS NOT NULL");

/// Runs with one of the ids `$18`.
const LIST_IDS: &str = constcat::concat!(
    SELECT_LISTED_RUNS,
    "r.org_id = $1 AND r.id {IN}SELECT value FROM {JSON_EACH}($18){END} \
     AND (r.created_at, r.id) >= ($6, $7) AND (r.created_at, r.id) < ($2, $3) AND ",
    filled!(SIEVED, "@run" = "r"),
    " ORDER BY r.created_at DESC, r.id DESC LIMIT $4"
);

/// Statements of a walk. Their runs come together.
type Walks = &'static [&'static str];

/// Way into a list of runs.
struct Way {
    /// Statement for the entry that a walk ends at.
    entry: &'static str,
    /// Parameters of this statement after the fourth.
    of: Vec<Val<'static>>,
    /// Label of the runs that it leads to; `None` if it does not go by a label.
    label: Option<String>,
    /// Walks for a list with a label, a status and a schedule.
    labelled: Walks,
    /// Walks for a list with further properties.
    sieved: Walks,
}

/// Makes a [`Way`]: the conditions replace `@holds`, on the run with this name.
macro_rules! way {
    ($entry:expr, $of:expr, $run:literal, $labelled:expr, [$($walk:expr),+]) => {
        Way {
            entry: $entry,
            of: $of,
            label: None,
            labelled: const { &[$(filled!($walk, "@holds" = filled!($labelled, "@run" = $run))),+] },
            sieved: const { &[$(filled!($walk, "@holds" = filled!(SIEVED, "@run" = $run))),+] },
        }
    };
}

impl Way {
    /// The ways by each property of the filter that has an index, or the one through all runs.
    fn all(filter: &RunFilter) -> Vec<Self> {
        let by_label = filter.labels().into_iter().map(|label| Self {
            label: Some(label.clone()),
            ..way!(LABEL_ENTRY, vals![label], "s", HAS_PROPERTIES, [WALK_LABEL])
        });
        let workflow = filter.workflow.clone();
        let by_workflow =
            workflow.map(|name| way!(WORKFLOW_ENTRY, vals![name], "r", LABELLED, [WALK_WORKFLOW]));
        let ways = by_label.chain(by_workflow).chain(Self::by_state(filter));
        let mut ways: Vec<Self> = ways.collect();
        if ways.is_empty() {
            ways.push(way!(ALL_ENTRY, Vec::new(), "r", LABELLED, [WALK_ALL]));
        }
        ways
    }

    /// The way by the statuses and the schedule of the filter. `None` if it has neither.
    fn by_state(filter: &RunFilter) -> Option<Self> {
        let of = |schedule: Option<ScheduleId>, status: Option<RunStatus>| {
            let schedule = schedule.map(Val::from);
            schedule.into_iter().chain(status.map(Val::from)).collect()
        };
        let status = filter.status();
        let is_open = !filter.statuses.is_empty() && filter.statuses.iter().all(|status| !status.is_final());
        Some(match (filter.schedule, status) {
            _ if is_open && filter.statuses.contains(&RunStatus::Queued) => {
                way!(FREE_ENTRY, Vec::new(), "s", LABELLED, [WALK_FREE, WALK_BOUND])
            }
            _ if is_open => way!(BOUND_ENTRY, Vec::new(), "s", LABELLED, [WALK_BOUND]),
            (Some(_), Some(_)) => {
                let of = of(filter.schedule, status);
                way!(SCHEDULE_OUTCOME_ENTRY, of, "r", LABELLED, [WALK_SCHEDULE_OUTCOME])
            }
            (None, Some(_)) => way!(OUTCOME_ENTRY, of(None, status), "r", LABELLED, [WALK_OUTCOME]),
            (Some(_), None) => way!(
                SCHEDULE_ENTRY,
                of(filter.schedule, None),
                "r",
                LABELLED,
                [WALK_SCHEDULE]
            ),
            (None, None) => return None,
        })
    }
}

/// Lists runs by the way that leads to the fewest entries.
pub(super) fn list(tx: &mut dyn Tx, org: OrgId, filter: &RunFilter) -> Result<Found<ListedRun, Position>> {
    let mut labels = filter.labels();
    let is_sieved =
        filter.has_further() || filter.workflow.is_some() || filter.statuses.len() > 1 || labels.len() > 1;
    let (walks, stopped_at): (Walks, _) = if filter.ids.is_empty() {
        let (way, end) = shortest(tx, org, filter)?;
        if let Some(walked) = way.label {
            // The label that the walk goes by comes first: it is `$5`.
            labels.sort_by_key(|label| *label != walked);
        }
        (if is_sieved { way.sieved } else { way.labelled }, end)
    } else {
        (&[LIST_IDS], None)
    };
    let mut labels = labels.into_iter();
    let since = filter.since.map(|since| (since, String::new()));
    let end = stopped_at.map(|(at, id)| (at, id.to_string()));
    // The list ends at `since` if the walk gets there.
    let stopped_at = stopped_at.filter(|_| end > since);
    let oldest = (Timestamp::from_micros(i64::MIN), String::new());
    let (end_at, end_id) = end.max(since).unwrap_or(oldest);
    let mut params = behind(org, filter);
    params.extend(vals![
        filter.limit,
        labels.next(),
        end_at,
        end_id,
        filter.status().map(RunStatus::as_str),
        filter.schedule
    ]);
    if is_sieved {
        params.extend(sieve(filter, labels.as_slice())?);
    }
    let walks = walks.iter().map(|sql| Stmt::new(sql, params.clone()));
    let items = merged(tx, &walks.collect::<Vec<_>>(), filter.limit)?;
    let is_full = items.len() >= usize::try_from(filter.limit).unwrap_or(usize::MAX);
    Ok(Found {
        stopped_at: stopped_at.filter(|_| !is_full),
        items,
    })
}

/// Returns the way with the fewest entries, and the entry that its walk ends at.
fn shortest(tx: &mut dyn Tx, org: OrgId, filter: &RunFilter) -> Result<(Way, Option<Position>)> {
    let ways = Way::all(filter);
    let last = i64::from(EXAMINED) - 1;
    let entry = |way: &Way| {
        let mut params = behind(org, filter);
        params.push(last.into());
        params.extend(way.of.iter().cloned());
        Stmt::new(way.entry, params)
    };
    let entries: Vec<Stmt<'_>> = ways.iter().map(entry).collect();
    let answers = tx.batch(&entries)?;
    let mut found = Vec::new();
    for (way, answer) in ways.into_iter().zip(&answers) {
        found.push((way, position_of(answer)?));
    }
    // An index that has not so many entries is walked to its end.
    let shortest = found.into_iter().min_by_key(|(_, end)| *end);
    shortest.ok_or_else(|| Error::Corrupt("a list has no way".to_owned()))
}

/// Parameters of [`SIEVED`] after those of [`HAS_PROPERTIES`], and the ids. `further` are the labels after the first one.
fn sieve(filter: &RunFilter, further: &[String]) -> Result<Vec<Val<'static>>> {
    let statuses = filter.statuses.iter().map(|status| status.as_str());
    let statuses = statuses.fold(",".to_owned(), |all, status| format!("{all}{status},"));
    let mut params = vals![
        filter.workflow.clone(),
        filter.model.clone(),
        filter.key,
        filter.min_cost,
        filter
            .error
            .as_ref()
            .map(|error| containing(&error.to_ascii_lowercase())),
        (filter.statuses.len() > 1).then_some(statuses),
        filter.text.as_ref().map(|text| containing(&text.to_lowercase())),
        (!further.is_empty()).then(|| json(further)).transpose()?
    ];
    if !filter.ids.is_empty() {
        params.push(json(&filter.ids)?.into());
    }
    Ok(params)
}

/// Pattern of LIKE for the texts that contain this one. `!` is its escape.
fn containing(text: &str) -> String {
    let mut pattern = "%".to_owned();
    for character in text.chars() {
        if matches!(character, '!' | '%' | '_') {
            pattern.push('!');
        }
        pattern.push(character);
    }
    pattern + "%"
}

fn position_of(answer: &Answer) -> Result<Option<Position>> {
    Ok(answer.first::<EntryRow>()?.map(|entry| (entry.at, entry.run)))
}
