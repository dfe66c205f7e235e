//! How a run whose worker was lost goes on: from its journal, where that is safe, and otherwise not at all.
//!
//! It is safe when no call was under way that may have had an effect outside of the run, and when the working directory
//! is still there if a completed call has read or changed it. What a lost worker did in a directory that nothing in the
//! journal depends on is thrown away: the run then begins that part anew, here or on another host.

use std::{collections::HashSet, sync::Arc};

use serde::{Deserialize, Serialize};
use sortie_agent::{
    Workspace,
    journal::{Entry, Journal, OpenCall, What},
};
use sortie_store::{Claim, Error as StoreError};

use super::Worker;
use crate::kit::retry::until_read;

/// What stands among the entries of a journal where a worker has handed its run over, and told all it has spent.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HandedOver {
    /// Which attempt at the run it was.
    handed_over: i64,
}

/// The mark of this attempt's hand-over.
pub(crate) fn hand_over_mark(attempt: i64) -> Result<String, serde_json::Error> {
    serde_json::to_string(&HandedOver { handed_over: attempt })
}

/// The attempt whose hand-over an entry marks.
fn marked(entry: &str) -> Option<i64> {
    serde_json::from_str(entry)
        .ok()
        .map(|HandedOver { handed_over }| handed_over)
}

/// How many times a run is resumed: one that brings down whoever works on it comes to an end. The store hands it out
/// once more, for this to be told.
const MAX_RESUMES: i64 = 3;

/// The part of a `resumed` event that tells how far the run had come.
#[derive(Deserialize)]
struct Resumed {
    step: u32,
    attempt: i64,
}

/// What an attempt at a run stands on.
pub(crate) struct Ground {
    pub(crate) workspace: Workspace,
    pub(crate) files: Files,
    /// What the attempt before it has left.
    pub(crate) journal: Option<Journal>,
}

/// Whether what the run brings lies in its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Files {
    ToLay,
    Laid,
}

/// Reason why a run whose worker was lost does not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// A call was under way that may have had its effect outside of the run.
    UncertainCall(OpenCall),
    /// What it needs is gone, in words for people; the last turn it had completed.
    Gone(&'static str, u32),
    /// Two workers in a row were lost in this step.
    LostTwice(u32),
}

/// Decision about a run that was taken over.
pub(crate) enum Decision {
    Resume(Resumption),
    End(Obstacle),
}

/// State that a run goes on from.
pub(crate) struct Resumption {
    pub(crate) journal: Journal,
    /// How many entries the store has.
    pub(crate) stored: usize,
    pub(crate) workspace: Workspace,
    pub(crate) files: Files,
}

/// Finds out whether and from where a run that was taken over goes on.
pub(crate) async fn pick_up(worker: &Worker, claim: &Claim) -> Result<Decision, StoreError> {
    let run = claim.fence.run;
    let texts = until_read(|| worker.records.store.journal(run)).await?;
    let entries = texts.iter().filter(|text| marked(text).is_none());
    let entries: Result<Vec<Entry>, _> = entries.map(|text| serde_json::from_str(text)).collect();
    let entries = entries.inspect_err(|error| tracing::error!(%error, "a journal cannot be read"));
    // What cannot be opened for the moment is not gone: the run stays held, and is taken up at another look.
    let left = reopen(worker, claim)
        .await
        .map_err(|error| StoreError::Unavailable(format!("a working directory: {error}")))?;
    let Ok(entries) = entries else {
        discard(left).await;
        return Ok(Decision::End(Obstacle::Gone("its journal cannot be read", 0)));
    };
    let mut journal = Journal::new(entries);
    // The mark of an older attempt says nothing about the one that was lost last.
    if texts.last().and_then(|last| marked(last)) == Some(claim.fence.attempt - 1) {
        journal = journal.handed_over();
    }
    if let Some(call) = journal.uncertain_call() {
        discard(left).await;
        return Ok(Decision::End(Obstacle::UncertainCall(call)));
    }
    // The first attempt was no resume.
    if claim.fence.attempt > 1 + MAX_RESUMES {
        discard(left).await;
        let too_often = "it had been resumed 3 times";
        return Ok(Decision::End(Obstacle::Gone(too_often, journal.last_step())));
    }
    if has_lost_two_workers_in_one_step(worker, claim, &texts, &journal).await? {
        discard(left).await;
        return Ok(Decision::End(Obstacle::LostTwice(
            journal.last_step().saturating_add(1),
        )));
    }
    let (workspace, files) = match left {
        Some(left) if needs_directory(&journal) => (left, Files::Laid),
        None if needs_directory(&journal) => {
            let gone = "its working directory is gone";
            return Ok(Decision::End(Obstacle::Gone(gone, journal.last_step())));
        }
        left => {
            discard(left).await;
            (worker.workspace(run, claim.retention()), Files::ToLay)
        }
    };
    Ok(Decision::Resume(Resumption {
        journal,
        stored: texts.len(),
        workspace,
        files,
    }))
}

/// Whether the last two attempts both ended with the loss of their worker, and the second one completed no step.
///
/// A run whose content brings down the process that works on it does so again as soon as it is resumed. It must not
/// take one node after the other with it, and all that runs there.
async fn has_lost_two_workers_in_one_step(
    worker: &Worker,
    claim: &Claim,
    journal_texts: &[String],
    journal: &Journal,
) -> Result<bool, StoreError> {
    let lost = claim.fence.attempt - 1;
    let is_handed_over = |attempt| journal_texts.iter().any(|text| marked(text) == Some(attempt));
    if lost < 2 || is_handed_over(lost) || is_handed_over(lost - 1) {
        return Ok(false);
    }
    let run = claim.fence.run;
    let event = until_read(|| worker.records.store.last_resumed(run)).await?;
    let began = event
        .and_then(|event| serde_json::from_str::<Resumed>(&event).ok())
        .filter(|resumed| resumed.attempt == lost);
    // The agent begins once the event is stored: an attempt without it put nothing at risk.
    Ok(began.is_some_and(|began| journal.last_step() <= began.step))
}

async fn reopen(worker: &Worker, claim: &Claim) -> std::io::Result<Option<Workspace>> {
    // Runs of a simulation have no files.
    #[cfg(test)]
    if crate::simulation::is_running() {
        return Ok(None);
    }
    let options = &worker.options;
    Workspace::reopen(
        options.work_dir(),
        claim.fence.run.to_string(),
        Arc::clone(&worker.sandbox),
        options.sandbox_limits,
    )
    .await
}

/// Removes a directory that the run does not go on with.
async fn discard(left: Option<Workspace>) {
    if let Some(left) = left
        && let Err(error) = left.close().await
    {
        tracing::error!(%error, "a working directory could not be removed");
    }
}

/// Whether something that was done is only right with the directory as it was left: a call that is complete has read or
/// changed it. One that is not complete is made again, in whatever directory there is.
fn needs_directory(journal: &Journal) -> bool {
    let mut begun = HashSet::new();
    journal.entries().iter().any(|entry| match &entry.what {
        What::Intent { id, effect, .. } => {
            if effect.touches_directory() {
                begun.insert((entry.step, id.as_str()));
            }
            false
        }
        What::Result(result) => begun.contains(&(entry.step, result.id.as_str())),
        What::Began { .. }
        | What::Reply { .. }
        | What::Correction { .. }
        | What::Compacted { .. }
        | What::Trimmed { .. }
        | What::Note { .. }
        | What::ThinkingDropped
        | What::FellBack => false,
    })
}

#[cfg(test)]
mod tests {
    use sortie_agent::{ToolContent, model::ToolResult, tool::Effect};
    use sortie_api::Micros;

    use super::*;

    fn entry(step: u32, what: What) -> Entry {
        Entry {
            step,
            spent_micros: Micros::ZERO,
            what,
        }
    }

    fn intent(step: u32, effect: Effect) -> Entry {
        entry(
            step,
            What::Intent {
                id: "call".to_owned(),
                tool: "tool".to_owned(),
                effect,
            },
        )
    }

    fn result(step: u32) -> Entry {
        entry(
            step,
            What::Result(ToolResult {
                id: "call".to_owned(),
                name: "tool".to_owned(),
                content: ToolContent::Text(String::new()),
                is_error: false,
                note: None,
            }),
        )
    }

    #[test]
    fn a_mark_names_its_attempt_and_is_no_entry() {
        let mark = hand_over_mark(3).unwrap();
        assert_eq!(marked(&mark), Some(3));
        assert!(serde_json::from_str::<Entry>(&mark).is_err());
        let entry = serde_json::to_string(&intent(1, Effect::Nothing)).unwrap();
        assert_eq!(marked(&entry), None);
    }

    #[test]
    fn only_a_completed_call_on_the_directory_binds_a_run_to_it() {
        for (entries, needs) in [
            (vec![], false),
            (vec![intent(1, Effect::Directory)], false),
            (vec![intent(1, Effect::Directory), result(1)], true),
            (vec![intent(1, Effect::Nothing), result(1)], false),
            (vec![intent(1, Effect::DirectoryAndOutside), result(1)], true),
            (
                vec![
                    intent(1, Effect::Outside),
                    result(1),
                    intent(2, Effect::Directory),
                ],
                false,
            ),
            (
                vec![
                    intent(1, Effect::Nothing),
                    result(1),
                    intent(2, Effect::Directory),
                    result(2),
                ],
                true,
            ),
        ] {
            assert_eq!(
                needs_directory(&Journal::new(entries.clone())),
                needs,
                "{entries:?}"
            );
        }
    }
}
