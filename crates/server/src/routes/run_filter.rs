//! Filters of the lists of runs, and of the commands on the runs of a list.

use sortie_api::{ErrorCode, Metadata, Micros, OrgId, Refusal, RunStatus, Timestamp, limits, metadata};
use sortie_store::runs::RunFilter;

use crate::kit::{FromQuery, Pairs};

/// The filters, without a position and a limit.
impl FromQuery for RunFilter {
    fn from_query(pairs: &Pairs<'_>) -> Result<Self, Refusal> {
        let min_cost = pairs.integer("min_cost_micros", 0, limits::MAX_COST_MICROS)?;
        Ok(Self {
            statuses: pairs.list("status", RunStatus::ALL.len())?,
            schedule: pairs.parse("schedule")?,
            tag: pairs.bounded("tag", limits::TAG_CHARS)?,
            metadata: metadata_filter(pairs)?,
            workflow: pairs.bounded("workflow", limits::NAME_CHARS)?,
            model: pairs.bounded("model", limits::SEARCH_CHARS)?,
            key: pairs.parse("key")?,
            since: pairs.parse("since")?,
            until: pairs.parse("until")?,
            error: pairs.bounded("error", limits::SEARCH_CHARS)?,
            min_cost: min_cost.and_then(|micros| Micros::try_from(micros).ok()),
            text: pairs.bounded("q", limits::SEARCH_CHARS)?,
            ids: pairs.list("ids", limits::LISTED_IDS)?,
            before: None,
            limit: 0,
        })
    }
}

/// The parameters `metadata.KEY=VALUE`. A pair that no run can have is refused: a typing error would list nothing.
fn metadata_filter(pairs: &Pairs<'_>) -> Result<Metadata, Refusal> {
    let pairs = pairs.map(METADATA, limits::METADATA)?;
    metadata::check(&pairs).map_err(|rule| ErrorCode::InvalidRequest.because(rule))?;
    Ok(pairs)
}

/// Start of the names of the parameters that filter by metadata.
pub(crate) const METADATA: &str = "metadata.";

/// Texts that identify a list of runs, for the seal of its cursors. No two lists have the same.
pub(crate) fn parts(org: OrgId, filter: &RunFilter) -> Vec<String> {
    let mut statuses: Vec<&str> = filter.statuses.iter().map(|status| status.as_str()).collect();
    statuses.sort_unstable();
    let mut ids: Vec<String> = filter.ids.iter().map(ToString::to_string).collect();
    ids.sort_unstable();
    let time = |at: Timestamp| at.as_micros().to_string();
    let values = [
        ("status", (!statuses.is_empty()).then(|| statuses.join(","))),
        ("schedule", filter.schedule.map(|id| id.to_string())),
        ("tag", filter.tag.clone()),
        ("workflow", filter.workflow.clone()),
        ("model", filter.model.clone()),
        ("key", filter.key.map(|id| id.to_string())),
        ("since", filter.since.map(time)),
        ("until", filter.until.map(time)),
        ("error", filter.error.clone()),
        (
            "min_cost_micros",
            filter.min_cost.map(|cost| cost.get().to_string()),
        ),
        ("q", filter.text.clone()),
        ("ids", (!ids.is_empty()).then(|| ids.join(","))),
    ];
    let pairs = filter.metadata.iter();
    let metadata = pairs.flat_map(|(key, value)| [format!("{METADATA}{key}"), value.clone()]);
    let sent = values
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name}={}", value?)));
    ["runs".to_owned(), org.to_string()]
        .into_iter()
        .chain(sent)
        .chain(metadata)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_filters_have_the_same_cursors() {
        let org = OrgId::new(Timestamp::from_micros(1), [1; 10]);
        let read = |query| {
            let filter = RunFilter::from_query(&Pairs::of(query));
            filter
                .map(|filter| parts(org, &filter))
                .map_err(|error| format!("{error:?}"))
        };
        let queries = [
            "",
            "status=queued",
            "status=running",
            "status=queued,running",
            "tag=a",
            "workflow=a",
            "model=a",
            "error=a",
            "q=a",
            "schedule=sched_01kafs6w1cefkstv6qr1ptb0mp",
            "key=key_01kafs6w1cefkstv6qr1ptb0mp",
            "ids=run_01kafs6w1cefkstv6qr1ptb0mp",
            "since=2026-11-20T00:00:00Z",
            "until=2026-11-20T00:00:00Z",
            "min_cost_micros=0",
            "min_cost_micros=1",
            "tag=a&q=a",
            "metadata.a=b",
            "metadata.a=",
            "metadata.a=b&metadata.c=d",
            "metadata.a=b&metadata.d=c",
            "metadata.a%3Db=",
        ];
        let all: std::collections::BTreeSet<_> = queries.iter().map(|query| read(query).unwrap()).collect();
        assert_eq!(all.len(), queries.len());
        assert_eq!(read("status=running,queued"), read("status=queued,running"));
        for (query, rule) in [
            ("status=failed,no", "status: must be one of"),
            ("status=failed,failed", "status: failed is named twice"),
            ("status=", "status: must be one of"),
            ("q=", "q: must be 1 to 200 characters"),
            ("min_cost_micros=-1", "min_cost_micros: must be an integer"),
            ("since=yesterday", "since: "),
            ("ids=run_x", "ids: "),
        ] {
            assert!(read(query).unwrap_err().contains(rule), "{query}");
        }
    }
}
