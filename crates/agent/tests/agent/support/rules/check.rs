//! Requests that every provider refuses, each with the message of the failed test.

use std::collections::HashSet;

use sortie_agent::model::{Content, Request, ToolCall, ToolResult, Turn};

/// Checks one request on its own.
pub(super) fn request(request: &Request<'_>) -> Result<(), String> {
    if request.max_tokens == 0 {
        return Err("max_tokens is zero".to_owned());
    }
    let mut names = HashSet::new();
    if let Some(twice) = request.tools.iter().find(|tool| !names.insert(tool.name)) {
        return Err(format!("the tool {:?} is there twice", twice.name));
    }
    let mut open: Vec<&ToolCall> = Vec::new();
    let mut before: Option<&Turn> = None;
    for (index, turn) in request.transcript.iter().enumerate() {
        let turn_number = index + 1;
        match turn {
            Turn::ToolResults(results) => paired(std::mem::take(&mut open), results, turn_number)?,
            Turn::Assistant(_) | Turn::User(_) if !open.is_empty() => {
                let ids: Vec<_> = open.iter().map(|call| &call.id).collect();
                return Err(format!("turn {turn_number}: the calls {ids:?} have no result"));
            }
            Turn::User(text) if text.trim().is_empty() => {
                return Err(format!("turn {turn_number}: the engine says nothing"));
            }
            Turn::User(_) => {}
            Turn::Assistant(pieces) => {
                if matches!(before, Some(Turn::Assistant(_))) {
                    return Err(format!("turn {turn_number}: the model speaks twice in a row"));
                }
                open = calls(pieces);
                distinct(&open, turn_number)?;
            }
        }
        before = Some(turn);
    }
    if !open.is_empty() {
        return Err("the last calls have no result".to_owned());
    }
    if matches!(before, Some(Turn::Assistant(_))) {
        return Err("the model spoke last: there is nothing to answer".to_owned());
    }
    let called = |turn: &Turn| matches!(turn, Turn::ToolResults(_));
    if request.tools.is_empty() && request.transcript.iter().any(called) {
        return Err("there are results of tools, and no tools".to_owned());
    }
    Ok(())
}

fn calls(pieces: &[Content]) -> Vec<&ToolCall> {
    let calls = pieces.iter().filter_map(|piece| match piece {
        Content::ToolCall(call) => Some(call),
        Content::Text(_) | Content::Opaque(_) => None,
    });
    calls.collect()
}

/// Ids are distinct within a turn; servers without ids of their own count from the start in each.
fn distinct(calls: &[&ToolCall], turn: usize) -> Result<(), String> {
    let mut ids = HashSet::new();
    for call in calls {
        if call.id.is_empty() || !ids.insert(&call.id) {
            return Err(format!(
                "turn {turn}: the id {:?} is empty or there twice",
                call.id
            ));
        }
    }
    Ok(())
}

fn paired(calls: Vec<&ToolCall>, results: &[ToolResult], turn: usize) -> Result<(), String> {
    let wanted: Vec<_> = calls.into_iter().map(|call| (&call.id, &call.name)).collect();
    let found: Vec<_> = results.iter().map(|result| (&result.id, &result.name)).collect();
    if wanted == found {
        return Ok(());
    }
    Err(format!(
        "turn {turn}: the calls {wanted:?} have the results {found:?}"
    ))
}

/// The replies of the model, which must be sent back unchanged.
#[derive(Default)]
pub(super) struct Said {
    replies: Vec<Vec<Piece>>,
    asked: bool,
}

#[derive(PartialEq)]
enum Piece {
    Text,
    Call,
    Opaque(String),
}

impl Said {
    pub(super) fn say(&mut self, content: &[Content]) {
        self.replies.push(pieces(content));
    }

    /// Checks that each turn of the model is one of its replies: no opaque piece changed, moved or added. Turns of an earlier
    /// attempt are accepted as they are.
    pub(super) fn holds(&mut self, request: &Request<'_>) -> Result<(), String> {
        if request.tools.is_empty() && request.transcript.is_empty() {
            // A summary of turns, which are in its task.
            return Ok(());
        }
        let turns = request
            .transcript
            .iter()
            .enumerate()
            .filter_map(|(index, turn)| match turn {
                Turn::Assistant(content) => Some((index + 1, pieces(content))),
                Turn::ToolResults(_) | Turn::User(_) => None,
            });
        if !std::mem::replace(&mut self.asked, true) {
            self.replies.extend(turns.map(|(_, pieces)| pieces));
            return Ok(());
        }
        let mut said = self.replies.iter();
        for (number, turn) in turns {
            if !said.any(|reply| is_of(&turn, reply)) {
                return Err(format!("turn {number} is not what the model has said"));
            }
        }
        Ok(())
    }
}

fn pieces(content: &[Content]) -> Vec<Piece> {
    let piece = |content: &Content| match content {
        Content::Text(text) if text.trim().is_empty() => None,
        Content::Text(_) => Some(Piece::Text),
        Content::ToolCall(_) => Some(Piece::Call),
        Content::Opaque(raw) => Some(Piece::Opaque(raw.get().to_owned())),
    };
    content.iter().filter_map(piece).collect()
}

/// Whether `turn` is `reply`, except for opaque pieces that were left out. The end of a text may have become calls.
fn is_of(turn: &[Piece], reply: &[Piece]) -> bool {
    let may_be_calls = !reply.contains(&Piece::Call) && reply.contains(&Piece::Text);
    let mut turn = turn.iter().peekable();
    for said in reply {
        if turn.peek() == Some(&said) {
            turn.next();
        } else if !matches!(said, Piece::Opaque(_)) && !may_be_calls {
            return false;
        }
    }
    turn.all(|piece| may_be_calls && *piece == Piece::Call)
}
