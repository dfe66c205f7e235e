//! The bounded log of the changes of an organization's runs.

use std::{collections::VecDeque, sync::Arc};

use serde_json::value::RawValue;
use sortie_api::{Refusal, Run};

use crate::runs::hub::{Batch, Message, RunChange};

/// Most memory that the changes of one organization take, in bytes.
const BYTES: usize = 256 * 1024;

/// A change of a run.
pub(super) struct Change {
    /// The run as a list has it, without its output.
    pub(super) run: Run,
    /// Message of the change, alone in its batch.
    pub(super) batch: Arc<Batch>,
}

/// Changes that follow a position.
pub(super) enum Later {
    /// Changes in their order, and the position of the last one.
    Changes(Vec<Arc<Change>>, u64),
    /// The log does not have every change after the position, or does not know it. After the message, the reader continues at
    /// this position.
    Reset(Arc<Batch>, u64),
    /// There is none.
    Nothing,
}

/// The last changes of an organization. They are numbered from 1.
pub(super) struct ChangeLog {
    /// Random start of every position, so that positions of another log are recognized.
    name: String,
    changes: VecDeque<Arc<Change>>,
    /// Number of the last change.
    last: u64,
    bytes: usize,
    /// Whether the state that the first change follows is known.
    is_begun: bool,
}

impl ChangeLog {
    /// Creates the log with the name that these random bytes make.
    pub(super) fn new(name: [u8; 8]) -> Self {
        Self {
            name: format!("{:016x}", u64::from_be_bytes(name)),
            changes: VecDeque::new(),
            last: 0,
            bytes: 0,
            is_begun: false,
        }
    }

    /// Lets readers begin: later changes follow the state that the follower has read.
    pub(super) fn begin(&mut self) {
        self.is_begun = true;
    }

    /// Whether readers can begin.
    pub(super) fn is_begun(&self) -> bool {
        self.is_begun
    }

    /// Adds the change of a run.
    pub(super) fn push(&mut self, run: Run) -> Result<(), Refusal> {
        let json = sortie_api::json::to_line(&run)
            .and_then(RawValue::from_string)
            .map_err(|error| Refusal::internal(format!("a run cannot be serialized: {error}")))?;
        self.last += 1;
        let batch = self.batch(Some(json.into()));
        self.bytes += size(&batch);
        self.changes.push_back(Arc::new(Change { run, batch }));
        while self.bytes > BYTES
            && let Some(oldest) = self.changes.pop_front()
        {
            self.bytes -= size(&oldest.batch);
        }
        Ok(())
    }

    /// Drops every change, so that each reader gets a `reset`.
    pub(super) fn reset(&mut self) {
        self.changes.clear();
        self.bytes = 0;
        // No reader has this position.
        self.last += 1;
    }

    /// Returns the number of a position that this log has given out.
    pub(super) fn number_of(&self, position: &str) -> Option<u64> {
        let (name, number) = position.split_once('-')?;
        let number = number.parse().ok()?;
        (name == self.name && number <= self.last).then_some(number)
    }

    /// Returns the changes after a position. `None` is an unknown position.
    pub(super) fn after(&self, position: Option<u64>) -> Later {
        let Some(missing) = position.and_then(|position| self.last.checked_sub(position)) else {
            return self.begin_anew();
        };
        let Some(known) = usize::try_from(missing)
            .ok()
            .and_then(|missing| self.changes.len().checked_sub(missing))
        else {
            return self.begin_anew();
        };
        if missing == 0 {
            return Later::Nothing;
        }
        let changes = self.changes.iter().skip(known).cloned();
        Later::Changes(changes.collect(), self.last)
    }

    fn begin_anew(&self) -> Later {
        Later::Reset(self.batch(None), self.last)
    }

    /// Makes the message of the last change.
    fn batch(&self, run: Option<Arc<RawValue>>) -> Arc<Batch> {
        let position = format!("{}-{}", self.name, self.last);
        Arc::new(Batch::new(vec![Message::Change(RunChange { position, run })]))
    }
}

/// Memory of a change, in bytes: its run, its message and the encoded message, which have about the same size.
fn size(batch: &Batch) -> usize {
    3 * batch.memory_bytes() / 2
}

#[cfg(test)]
mod tests {
    use sortie_api::RunId;

    use super::*;

    fn run(title: &str) -> Run {
        let run = serde_json::json!({
            "id": RunId::new(sortie_api::Timestamp::from_micros(1), [1; 10]), "status": "queued", "title": title,
            "created_at": "2026-11-20T21:30:00.000Z", "max_cost_micros": 1, "billing_pending": true,
            "zero_data_retention": false, "timeout_seconds": 1, "last_event_id": 1
        });
        serde_json::from_value(run).unwrap()
    }

    /// Titles of the changes after a position, or `None` for a reset.
    fn titles(log: &ChangeLog, position: Option<u64>) -> Option<Vec<String>> {
        match log.after(position) {
            Later::Changes(changes, last) => {
                assert_eq!(last, log.last);
                Some(
                    changes
                        .iter()
                        .filter_map(|change| change.run.title.clone())
                        .collect(),
                )
            }
            Later::Nothing => Some(Vec::new()),
            Later::Reset(_, last) => {
                assert_eq!(last, log.last);
                None
            }
        }
    }

    #[test]
    fn a_reader_gets_the_changes_after_its_position() {
        let mut log = ChangeLog::new([7; 8]);
        assert_eq!(titles(&log, None), None);
        assert_eq!(titles(&log, Some(0)), Some(Vec::new()));
        for title in ["a", "b", "c"] {
            log.push(run(title)).unwrap();
        }
        let is = |titles: &[&str]| Some(titles.iter().map(|title| (*title).to_owned()).collect());
        assert_eq!(titles(&log, Some(0)), is(&["a", "b", "c"]));
        assert_eq!(titles(&log, Some(2)), is(&["c"]));
        assert_eq!(titles(&log, Some(3)), is(&[]));
        assert_eq!(titles(&log, Some(4)), None);
        assert_eq!(log.number_of("0707070707070707-3"), Some(3));
        for unknown in [
            "0707070707070707-4",
            "0707070707070708-3",
            "0707070707070707",
            "-3",
            "0707070707070707-x",
        ] {
            assert_eq!(log.number_of(unknown), None, "{unknown}");
        }
        log.reset();
        assert_eq!(titles(&log, Some(3)), None);
        assert_eq!(titles(&log, Some(4)), is(&[]));
    }

    #[test]
    fn a_reader_that_is_too_slow_has_to_load_the_list_and_memory_is_bounded() {
        let mut log = ChangeLog::new([7; 8]);
        let title = "x".repeat(1_000);
        for _ in 0..1_000 {
            log.push(run(&title)).unwrap();
            assert!(log.bytes <= BYTES);
        }
        assert_eq!(titles(&log, Some(0)), None);
        let kept = u64::try_from(log.changes.len()).unwrap();
        assert!(kept > 20, "{kept}");
        assert_eq!(titles(&log, Some(1_000 - kept)).unwrap().len(), log.changes.len());
        assert_eq!(titles(&log, Some(1_000 - kept - 1)), None);
    }
}
