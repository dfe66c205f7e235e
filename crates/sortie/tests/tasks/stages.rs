//! A model that goes through a task in stages. In each stage it tries one call after another until a result satisfies
//! the stage.

use sortie_testkit::{model::Turn, prelude::*};

use crate::{rig::Model, seen::Seen};

/// A stage of a task.
pub(crate) struct Stage {
    tries: Vec<Vec<(&'static str, Value)>>,
    is_done: fn(&Seen<'_>) -> bool,
}

/// A stage that is done once a call does not fail. `{cwd}` in the arguments is the working directory, and `{whole}` the
/// file of a complete output, if a result has named them.
pub(crate) fn stage(tries: impl IntoIterator<Item = (&'static str, Value)>) -> Stage {
    Stage {
        tries: tries.into_iter().map(|call| vec![call]).collect(),
        is_done: |seen| !seen.failed(),
    }
}

/// A stage of one message with several calls.
pub(crate) fn at_once(calls: impl IntoIterator<Item = (&'static str, Value)>) -> Stage {
    Stage {
        tries: vec![calls.into_iter().collect()],
        is_done: |_| true,
    }
}

pub(crate) fn shell(command: &str) -> (&'static str, Value) {
    ("shell", json!({ "command": command }))
}

impl Stage {
    /// The stage is done once this is true of the latest results.
    pub(crate) fn until(self, is_done: fn(&Seen<'_>) -> bool) -> Self {
        Self { is_done, ..self }
    }
}

/// The model of these stages. It gives `answer` after the last one.
pub(crate) fn staged(stages: Vec<Stage>, answer: &'static str) -> Model {
    let (mut stage, mut attempt, mut given_up) = (0, 0, 0);
    let (mut directory, mut whole) = (".".to_owned(), "whole-output".to_owned());
    let mut begun = false;
    Box::new(move |seen| {
        if let Some(told) = seen.directory() {
            directory = told;
        }
        if let Some(told) = seen.whole_output() {
            whole = told;
        }
        if let (true, Some(current)) = (begun, stages.get(stage)) {
            if (current.is_done)(seen) {
                (stage, attempt) = (stage + 1, 0);
            } else if attempt + 1 < current.tries.len() {
                attempt += 1;
            } else {
                (stage, attempt, given_up) = (stage + 1, 0, given_up + 1);
            }
        }
        begun = true;
        match stages.get(stage).and_then(|current| current.tries.get(attempt)) {
            Some(calls) => calls
                .iter()
                .fold(Turn::says(["I go on."]), |turn, (tool, arguments)| {
                    let arguments = arguments
                        .to_string()
                        .replace("{cwd}", &directory)
                        .replace("{whole}", &whole);
                    turn.and_calls(tool, serde_json::from_str(&arguments).unwrap_or_default())
                }),
            None if given_up == 0 => Turn::says([answer]),
            None => Turn::says([format!("{given_up} steps of the task could not be done.")]),
        }
    })
}
