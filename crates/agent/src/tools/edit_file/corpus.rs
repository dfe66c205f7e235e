//! Edit attempts as models make them, each with the expected file.

use serde_json::{Value, value::RawValue};

use super::*;

/// Builds attempts from rows: the name, the file, the call, and the expectation.
macro_rules! attempts {
    ($($what:literal, $file:expr, $call:expr, $wished:expr;)+) => {
        vec![$(Attempt { what: $what, file: $file.into(), call: $call, wished: $wished }),+]
    };
}

mod own;
mod peers;

/// A call, and the expected file.
struct Attempt {
    what: &'static str,
    /// `None` for a file that is missing.
    file: Option<&'static str>,
    call: Value,
    wished: Wished,
}

enum Wished {
    /// The file after the call.
    File(&'static str),
    /// Nothing is changed, and the message has these words.
    Refused(&'static str),
}

/// Outcome of an attempt.
#[derive(Debug, PartialEq, Eq)]
enum Came {
    AsWished,
    /// Nothing was changed, although a change was expected.
    Refused(String),
    /// The file differs from the expected one.
    Wrong(String),
}

fn came(attempt: &Attempt) -> Came {
    let raw = RawValue::from_string(attempt.call.to_string()).unwrap();
    let told = arguments_of::<Arguments>(&EditFile.definition(), &raw)
        .map_err(|error| match error {
            ToolError::NotSent(told) | ToolError::ToModel(told) | ToolError::Fatal(told) => told,
        })
        .and_then(|arguments| match (attempt.file, arguments.old_text.is_empty()) {
            (None, false) => Err("no such file".to_owned()),
            (file, _) => edited(file, &arguments),
        });
    match (told, &attempt.wished) {
        (Ok(done), Wished::File(wished)) if done.content == **wished => Came::AsWished,
        (Ok(done), _) => Came::Wrong(done.content),
        (Err(told), Wished::Refused(words)) if told.contains(words) => Came::AsWished,
        (Err(told), _) => Came::Refused(told),
    }
}

/// Counts the outcomes of a table: as expected, refused, wrong.
fn counted(table: &[Attempt]) -> (usize, usize, usize) {
    let mut counts = (0, 0, 0);
    for attempt in table {
        match came(attempt) {
            Came::AsWished => counts.0 += 1,
            Came::Refused(told) => {
                counts.1 += 1;
                println!("refused: {}: {told}", attempt.what);
            }
            Came::Wrong(content) => {
                counts.2 += 1;
                println!("wrong: {}: {content:?}", attempt.what);
            }
        }
    }
    println!("{} as wished, {} refused, {} wrong", counts.0, counts.1, counts.2);
    counts
}

fn all(tables: &[fn() -> Vec<Attempt>]) -> (usize, usize, usize) {
    let attempts: Vec<Attempt> = tables.iter().flat_map(|table| table()).collect();
    counted(&attempts)
}

#[test]
fn typical_attempts_go_as_wished() {
    assert_eq!(all(&[own::plain, own::by_habit]), (20, 0, 0));
}

#[test]
fn the_cases_of_other_agents_go_as_wished() {
    assert_eq!(all(&[peers::codex_lines, peers::codex_patches]), (18, 0, 0));
    assert_eq!(
        all(&[
            peers::crush_indentation,
            peers::crush_white_space,
            peers::crush_copies,
            peers::crush_refusals
        ]),
        (31, 0, 0)
    );
    assert_eq!(
        all(&[peers::openhands_texts, peers::openhands_refusals]),
        (13, 0, 0)
    );
}
