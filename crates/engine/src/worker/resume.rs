//! Resumption of a run after its worker was lost: from its journal if that is safe, otherwise not at all.
//!
//! Resuming is safe if no call was under way that may have had an effect outside of the run, and if the working directory still
//! exists in case a completed call has read or changed it. A call with a task is an exception: the agent asks the server for its
//! result. If no entry of the journal depends on the directory, it is discarded: the run repeats that part, on this host or
//! another.

use std::{collections::HashSet, sync::Arc};

use serde::{Deserialize, Serialize};
use sortie_agent::{
    Workspace,
    journal::{Entry, Journal, What},
};
use sortie_store::{Error as StoreError, runs::Claim};

use super::{Worker, obstacle::Obstacle, unstored::UnstoredEnd};
use crate::kit::{hooks, retry::until_read};

/// Mark in a journal at the point where a worker has handed its run over and reported its whole cost.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HandedOver {
    /// Number of the attempt that was handed over.
    handed_over: i64,
}

/// Returns the mark of the hand-over of an attempt.
pub(crate) fn hand_over_mark(attempt: i64) -> Result<String, serde_json::Error> {
    serde_json::to_string(&HandedOver { handed_over: attempt })
}

/// Returns the number of the attempt that was handed over, if the entry marks a hand-over.
fn marked(entry: &str) -> Option<i64> {
    serde_json::from_str(entry)
        .ok()
        .map(|HandedOver { handed_over }| handed_over)
}

/// Maximum number of times that a run is resumed. A run that crashes each of its workers must end. The store allows one more
/// claim, so that a worker can record that end.
const MAX_RESUMES: i64 = 3;

/// Progress of the run in a `resumed` event.
#[derive(Deserialize)]
struct Resumed {
    step: u32,
    attempt: i64,
}

/// State that an attempt at a run begins with.
pub(crate) struct AttemptState {
    pub(crate) workspace: Workspace,
    pub(crate) files: Files,
    /// Journal of the earlier attempts.
    pub(crate) journal: Option<Journal>,
}

/// State of the run's own files in the working directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Files {
    NotStaged,
    Staged,
}

/// Decision about a run that was taken over.
pub(crate) enum Decision {
    Resume(Resumption),
    End(Obstacle),
}

/// State that a run is resumed from.
pub(crate) struct Resumption {
    pub(crate) journal: Journal,
    /// Number of entries in the store.
    pub(crate) stored: usize,
    pub(crate) workspace: Workspace,
    pub(crate) files: Files,
}

/// Reads the journal of a run that was taken over.
pub(crate) async fn journal_texts(worker: &Worker, claim: &Claim) -> Result<Vec<String>, StoreError> {
    until_read(|| worker.records.store.journal(claim.fence.run)).await
}

/// Returns the end that an earlier attempt has marked because it could not store the outputs, and their directory if it still
/// exists.
pub(crate) async fn unstored(
    worker: &Worker,
    claim: &Claim,
    texts: &[String],
) -> Result<Option<(UnstoredEnd, Option<Workspace>)>, StoreError> {
    let mut last = texts.iter().rev().filter(|text| marked(text).is_none());
    match last.next().and_then(|text| UnstoredEnd::marked(text)) {
        Some(unstored) => Ok(Some((unstored, left_by(worker, claim).await?))),
        None => Ok(None),
    }
}

/// Decides whether and from which state a run that was taken over is resumed. `texts` is its journal.
pub(crate) async fn decide(worker: &Worker, claim: &Claim, texts: &[String]) -> Result<Decision, StoreError> {
    let run = claim.fence.run;
    let entries = texts.iter().filter(|text| marked(text).is_none());
    let entries: Result<Vec<Entry>, _> = entries.map(|text| serde_json::from_str(text)).collect();
    let entries = entries.inspect_err(|error| tracing::error!(%error, "cannot read a journal"));
    let left = left_by(worker, claim).await?;
    let Ok(entries) = entries else {
        discard(left).await;
        return Ok(Decision::End(Obstacle::Gone("its journal cannot be read", 0)));
    };
    let mut journal = Journal::new(entries);
    // Only the mark of the last attempt counts.
    if texts.last().and_then(|last| marked(last)) == Some(claim.fence.attempt - 1) {
        journal = journal.handed_over();
    }
    if let Some(call) = journal.uncertain_call() {
        discard(left).await;
        return Ok(Decision::End(Obstacle::UncertainCall(call)));
    }
    // Without an agent that waits for its task, a call is in doubt.
    let end = |obstacle| {
        let call = journal.call_with_task();
        Ok(Decision::End(call.map_or(obstacle, Obstacle::UncertainCall)))
    };
    // The first attempt was not a resumption.
    if claim.fence.attempt > 1 + MAX_RESUMES {
        discard(left).await;
        let too_often = "it had been resumed 3 times";
        return end(Obstacle::Gone(too_often, journal.last_step()));
    }
    if has_lost_two_workers_in_one_step(worker, claim, texts, &journal).await? {
        discard(left).await;
        return end(Obstacle::LostTwice(journal.last_step().saturating_add(1)));
    }
    let (workspace, files) = match left {
        Some(left) if needs_directory(&journal) => (left, Files::Staged),
        None if needs_directory(&journal) => {
            let gone = "its working directory is gone";
            return end(Obstacle::Gone(gone, journal.last_step()));
        }
        left => {
            discard(left).await;
            (worker.workspace(run, claim.retention()), Files::NotStaged)
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
/// A run that crashes its worker does so again as soon as it is resumed. It must not crash one node after the other, with every
/// run there.
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
    // The agent starts after the event is stored, so an attempt without the event cannot have crashed its worker.
    Ok(began.is_some_and(|began| journal.last_step() <= began.step))
}

/// Opens the directory that an earlier attempt has left. A directory that cannot be opened now may still exist: the run
/// stays held, and a later pass resumes it.
async fn left_by(worker: &Worker, claim: &Claim) -> Result<Option<Workspace>, StoreError> {
    reopen(worker, claim)
        .await
        .map_err(|error| StoreError::Unavailable(format!("a working directory: {error}")))
}

async fn reopen(worker: &Worker, claim: &Claim) -> std::io::Result<Option<Workspace>> {
    if hooks::is_running() {
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

/// Removes a directory that the resumed run does not use.
async fn discard(left: Option<Workspace>) {
    if let Some(left) = left
        && let Err(error) = left.close().await
    {
        tracing::error!(%error, "removing a working directory failed");
    }
}

/// Whether the journal depends on the directory as it was left, because a completed call has read or changed it. An
/// incomplete call is repeated in whatever directory there is.
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
        | What::CallTask { .. }
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
    use sortie_testkit::rows;

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
        for (entries, needs) in rows! {
            vec![], false;
            vec![intent(1, Effect::Directory)], false;
            vec![intent(1, Effect::Directory), result(1)], true;
            vec![intent(1, Effect::Nothing), result(1)], false;
            vec![intent(1, Effect::DirectoryAndOutside), result(1)], true;
            vec![intent(1, Effect::Outside), result(1), intent(2, Effect::Directory)], false;
            vec![intent(1, Effect::Nothing), result(1), intent(2, Effect::Directory), result(2)], true;
        } {
            assert_eq!(
                needs_directory(&Journal::new(entries.clone())),
                needs,
                "{entries:?}"
            );
        }
    }
}
