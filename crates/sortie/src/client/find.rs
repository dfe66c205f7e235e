//! Records that the command line names by the beginning of their ID, by their name or as the last one.

use std::time::Duration;

use serde::de::DeserializeOwned;
use sortie_api::{Run, RunId, Schedule, key::ApiKey};

use super::{Client, get};
use crate::{
    args::{Reference, RunRef},
    failure::{Failure, Result},
};

/// Candidates that a message names at most.
const NAMED: usize = 5;

/// Type of records that the command line names.
pub(crate) trait Named: DeserializeOwned {
    /// The noun in messages.
    const NOUN: &'static str;

    async fn all(client: &Client) -> Result<Vec<Self>>;
    fn id(&self) -> String;
    fn name(&self) -> Option<&str>;
}

impl Named for ApiKey {
    const NOUN: &'static str = "key";

    async fn all(client: &Client) -> Result<Vec<Self>> {
        client.ask(get("v1/admin/keys")).await
    }

    fn id(&self) -> String {
        self.id.to_string()
    }

    fn name(&self) -> Option<&str> {
        Some(&self.name)
    }
}

impl Named for Schedule {
    const NOUN: &'static str = "schedule";

    async fn all(client: &Client) -> Result<Vec<Self>> {
        Ok(client.pages("v1/schedules", &[], None).await?.items)
    }

    fn id(&self) -> String {
        self.id.to_string()
    }

    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

impl Client {
    /// Returns the ID of a run. Asks the engine unless it is given.
    pub(crate) async fn find_run(&self, run: &RunRef) -> Result<RunId> {
        let (filters, limit) = match run {
            RunRef::Id(id) => return Ok(*id),
            RunRef::Last => (Vec::new(), 1),
            // IDs begin with the time of creation, so the runs of a beginning are those of a span of time.
            RunRef::Beginning(_, [first, last]) => {
                let until = last.made_at() + Duration::from_millis(1);
                let span = [("since", first.made_at()), ("until", until)];
                let filters = span.map(|(name, at)| (name.into(), at.to_string()));
                (filters.to_vec(), u32::MAX)
            }
        };
        let limit = Some(limit);
        let runs: Vec<Run> = self.pages("v1/runs", &filters, limit).await?.items;
        let ids = runs.into_iter().map(|run| run.id);
        let ids: Vec<RunId> = match run {
            RunRef::Beginning(_, [first, last]) => ids.filter(|id| (first..=last).contains(&id)).collect(),
            RunRef::Id(_) | RunRef::Last => ids.collect(),
        };
        match (ids.as_slice(), run) {
            ([id], _) => Ok(*id),
            ([], RunRef::Last) => Err(Failure::usage("@last: the engine has no run yet")),
            ([], _) => Err(Failure::usage(format!("{run}: no run has an ID that begins so"))),
            (ids, _) => Err(ambiguous(&run.to_string(), "run", ids)),
        }
    }

    /// Returns the IDs of several runs.
    pub(crate) async fn find_runs(&self, runs: &[RunRef]) -> Result<Vec<RunId>> {
        let mut ids = Vec::with_capacity(runs.len());
        for run in runs {
            ids.push(self.find_run(run).await?);
        }
        Ok(ids)
    }

    /// Returns the records that are named, in their order. Nothing is returned unless each name has one record.
    pub(crate) async fn find_all<T: Named>(&self, names: &[Reference]) -> Result<Vec<String>> {
        let all: Vec<T> = T::all(self).await?;
        names
            .iter()
            .map(|name| find(&all, name.as_str()).map(T::id))
            .collect()
    }

    /// Returns the ID of the record that is named.
    pub(crate) async fn find<T: Named>(&self, name: &Reference) -> Result<String> {
        let all: Vec<T> = T::all(self).await?;
        find(&all, name.as_str()).map(T::id)
    }
}

/// Returns the record of an ID, else the only one of a name, else the only one with that beginning of the ID.
fn find<'a, T: Named>(all: &'a [T], text: &str) -> Result<&'a T> {
    if let Some(found) = all.iter().find(|record| record.id() == text) {
        return Ok(found);
    }
    let named = all.iter().filter(|record| record.name() == Some(text));
    let beginning = text.split_once('_').map_or(text, |(_, random)| random);
    let begins = |record: &&T| {
        let id = record.id();
        let random = id.split_once('_').map_or("", |(_, random)| random);
        random.starts_with(beginning) && (beginning == text || id.starts_with(text))
    };
    let mut found: Vec<&T> = named.collect();
    if found.is_empty() && beginning.len() >= RunRef::SHORTEST {
        found.extend(all.iter().filter(begins));
    }
    match found.as_slice() {
        [one] => Ok(one),
        [] => Err(Failure::usage(format!(
            "{text}: no {} has this ID or name",
            T::NOUN
        ))),
        several => {
            let ids: Vec<String> = several.iter().map(|record| record.id()).collect();
            Err(ambiguous(text, T::NOUN, &ids))
        }
    }
}

fn ambiguous(text: &str, noun: &str, ids: &[impl ToString]) -> Failure {
    let named: Vec<String> = ids.iter().take(NAMED).map(ToString::to_string).collect();
    let more = if ids.len() > NAMED { ", …" } else { "" };
    Failure::usage(format!(
        "{text}: {} {noun}s match: {}{more}; use more of the ID",
        ids.len(),
        named.join(", ")
    ))
}
