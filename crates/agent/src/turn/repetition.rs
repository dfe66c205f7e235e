//! Loop detection: a model that makes the same calls and gets the same results, turn after turn.
//!
//! Two or three alternating turns count as well. Detection reads only the conversation, so that it needs no other state.

use crate::model::{Content, ToolResult, Turn};

/// Consecutive equal turns after which the model is warned.
pub(super) const TOLD: usize = 3;
/// Equal turns in a row after which the final answer is asked for.
pub(super) const ENDED: usize = 6;
/// The longest pattern that is recognized, in turns.
const PATTERN: usize = 3;

/// Returns the number of consecutive repetitions of the newest turn, or of the newest pattern of turns.
pub(super) fn repeated(turns: &[Turn]) -> usize {
    let steps: Vec<Step<'_>> = newest_first(turns).take(ENDED * PATTERN).collect();
    (1..=PATTERN)
        .map(|period| repeats(&steps, period))
        .max()
        .unwrap_or(0)
}

/// The calls of a turn and their results.
struct Step<'a> {
    calls: Vec<(&'a str, &'a str)>,
    results: &'a [ToolResult],
}

impl PartialEq for Step<'_> {
    fn eq(&self, other: &Self) -> bool {
        let outcome = |step: &Self| -> Vec<_> {
            let results = step.results.iter();
            results.map(|result| (&result.content, result.is_error)).collect()
        };
        self.calls == other.calls && outcome(self) == outcome(other)
    }
}

fn newest_first(turns: &[Turn]) -> impl Iterator<Item = Step<'_>> {
    let pairs = turns.rchunks_exact(2).map_while(|pair| match pair {
        [Turn::Assistant(said), Turn::ToolResults(results)] => Some((said, results)),
        _ => None,
    });
    pairs.map(|(said, results)| Step {
        calls: said
            .iter()
            .filter_map(|piece| match piece {
                Content::ToolCall(call) => Some((call.name.as_str(), call.arguments.as_str())),
                Content::Text(_) | Content::Opaque(_) => None,
            })
            .collect(),
        results,
    })
}

fn repeats(steps: &[Step<'_>], period: usize) -> usize {
    let Some(pattern) = steps.get(..period) else {
        return 0;
    };
    steps
        .chunks_exact(period)
        .take_while(|chunk| *chunk == pattern)
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{content::ToolContent, model::ToolCall};

    fn turn(arguments: &str, output: &str) -> [Turn; 2] {
        let call = ToolCall {
            id: output.len().to_string(),
            name: "shell".to_owned(),
            arguments: arguments.to_owned(),
        };
        let result = ToolResult {
            id: call.id.clone(),
            name: "shell".to_owned(),
            content: ToolContent::Text(output.to_owned()),
            is_error: false,
            note: None,
        };
        [
            Turn::Assistant(vec![Content::ToolCall(call)]),
            Turn::ToolResults(vec![result]),
        ]
    }

    fn count(turns: &[(&str, &str)]) -> usize {
        let turns: Vec<Turn> = turns
            .iter()
            .flat_map(|(call, output)| turn(call, output))
            .collect();
        repeated(&turns)
    }

    #[test]
    fn equal_calls_with_equal_results_count_and_others_end_the_row() {
        assert_eq!(count(&[]), 0);
        assert_eq!(count(&[("a", "1")]), 1);
        assert_eq!(count(&[("a", "1"), ("a", "1"), ("a", "1")]), 3);
        assert_eq!(count(&[("a", "1"), ("a", "2"), ("a", "1")]), 1);
        assert_eq!(count(&[("b", "1"), ("a", "1"), ("a", "1")]), 2);
    }

    #[test]
    fn turns_that_alternate_count_as_well() {
        let (a, b, c) = (("a", "1"), ("b", "2"), ("c", "3"));
        assert_eq!(count(&[a, b, a, b, a, b]), 3);
        assert_eq!(count(&[a, b, c, a, b, c, a, b, c]), 3);
        assert_eq!(count(&[a, b, a, c, a, b]), 1);
    }

    #[test]
    fn a_note_behind_a_result_does_not_make_it_another() {
        let mut turns: Vec<Turn> = [("a", "1"), ("a", "1"), ("a", "1")]
            .iter()
            .flat_map(|(call, output)| turn(call, output))
            .collect();
        if let Some(Turn::ToolResults(results)) = turns.get_mut(3) {
            results[0].note = Some("again".to_owned());
        }
        assert_eq!(repeated(&turns), 3);
    }
}
