//! `docs/TROUBLESHOOTING.md` explains each error that a user meets. The rule: the page has
//!
//! - a row for each exit code of the command line and for each error code of the API;
//! - the longest fixed part of each message of the command line that is about the surroundings and not about the words
//!   of the command: those with the exit codes 69 (unavailable), 77 (denied) and 78 (configuration).
//!
//! Messages of usage name the flag or field and the rule, so they explain themselves. Messages with the exit code 70
//! name a file and the cause of the system.

use std::{fs, path::Path};

use sortie_api::ErrorCode;

use crate::prelude::*;

const PAGE: &str = include_str!("../../../../docs/TROUBLESHOOTING.md");

/// Ways in which the source makes such a message. The text follows as a literal.
const MAKERS: [&str; 4] = [
    "Failure::unavailable(",
    "Exit::Unavailable,",
    "Exit::Denied,",
    "Exit::Configuration,",
];

/// Returns a text without the differences between a page and a literal: marks of code and line breaks.
fn flat(text: &str) -> String {
    text.replace('`', "")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns the string literal that a piece of source begins with, after at most `format!(` and white space.
fn literal(source: &str) -> Option<String> {
    let start = source.trim_start();
    let start = start.strip_prefix("format!(").unwrap_or(start).trim_start();
    let mut found = String::new();
    let mut rest = start.strip_prefix('"')?.chars();
    while let Some(character) = rest.next() {
        match character {
            '"' => return Some(found),
            '\\' => match rest.next()? {
                // The literal continues after the indentation of the next line.
                '\n' => {
                    let next = rest.as_str().trim_start();
                    rest = next.chars();
                }
                escaped => found.push(escaped),
            },
            other => found.push(other),
        }
    }
    None
}

/// Returns the longest part of a message without its placeholders.
fn longest_part(message: &str) -> String {
    let mut parts = Vec::new();
    for (nth, piece) in message.split('{').enumerate() {
        let fixed = match piece.split_once('}') {
            Some((_, fixed)) if nth > 0 => fixed,
            _ => piece,
        };
        parts.push(fixed.trim_matches(|sign: char| " :;,.".contains(sign)));
    }
    parts.sort_by_key(|part| part.len());
    flat(parts.last().copied().unwrap_or_default())
}

/// Returns the longest parts of the messages in a file of source. A part of one word is no message.
fn messages(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]").next().unwrap_or_default();
    let mut found = Vec::new();
    for maker in MAKERS {
        let literals = source.split(maker).skip(1).filter_map(literal);
        found.extend(literals.map(|message| longest_part(&message)));
    }
    found.retain(|part| part.contains(' '));
    found
}

/// Reads the files of source below a folder.
fn sources(folder: &Path, found: &mut Vec<String>) -> Checked {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sources(&entry.path(), found)?;
        } else if entry.path().extension().is_some_and(|kind| kind == "rs") {
            found.push(fs::read_to_string(entry.path())?);
        }
    }
    Ok(())
}

#[test]
fn every_message_about_the_surroundings_has_a_paragraph() -> Checked {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files)?;
    let found: Vec<String> = files.iter().flat_map(|source| messages(source)).collect();
    ensure!(found.len() > 25, "few messages were found: {found:?}");
    let page = flat(PAGE);
    let missing: Vec<&String> = found
        .iter()
        .filter(|part| !page.contains(part.as_str()))
        .collect();
    ensure!(
        missing.is_empty(),
        "docs/TROUBLESHOOTING.md does not explain: {missing:#?}"
    );
    Ok(())
}

/// A message that the page explains and no source has is out of date.
#[test]
fn every_explained_message_is_in_the_source() -> Checked {
    let mut files = Vec::new();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))? {
        let folder = entry?.path().join("src");
        if folder.is_dir() {
            sources(&folder, &mut files)?;
        }
    }
    // A literal that is broken into lines has a backslash at the end of each.
    let source = flat(&files.join("\n").replace("\\\n", ""));
    let (messages, _) = PAGE.split_once("## Exit codes").context("no section")?;
    let rows = messages
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let quoted: Vec<&str> = rows.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    ensure!(quoted.len() > 40, "{quoted:?}");
    for message in quoted {
        let parts = message.split('…').flat_map(|part| part.split(": "));
        let longest = parts
            .map(str::trim)
            .max_by_key(|part| part.len())
            .unwrap_or_default();
        let is_message = longest.contains(' ');
        ensure!(
            !is_message || source.contains(longest),
            "no source has: {longest}"
        );
    }
    Ok(())
}

#[test]
fn every_exit_code_has_a_row() -> Checked {
    let source = include_str!("../../src/failure.rs");
    let (_, variants) = source.split_once("enum Exit {").context("no exit codes")?;
    let (variants, _) = variants.split_once('}').context("no end of the exit codes")?;
    let codes: Vec<&str> = variants
        .lines()
        .filter_map(|line| line.trim().strip_suffix(',')?.split_once(" = "))
        .map(|(_, code)| code)
        .collect();
    ensure!(codes.len() > 10, "{codes:?}");
    let (_, table) = PAGE.split_once("## Exit codes").context("no section")?;
    for code in codes {
        ensure!(
            table.contains(&format!("\n| {code} | ")),
            "no row for the exit code {code}"
        );
    }
    Ok(())
}

#[test]
fn every_error_code_has_a_row() -> Checked {
    let source = include_str!("../../../api/src/error.rs");
    let (_, variants) = source.split_once("enum ErrorCode {").context("no error codes")?;
    let (variants, _) = variants.split_once('}').context("no end of the error codes")?;
    let (_, table) = PAGE
        .split_once("## Error codes of the API")
        .context("no section")?;
    let names: Vec<&str> = variants
        .lines()
        .filter_map(|line| line.trim().strip_suffix(','))
        .collect();
    let names: Vec<&str> = names.into_iter().filter(|name| !name.starts_with('/')).collect();
    ensure!(names.len() > 12, "{names:?}");
    for name in names {
        let code = name
            .chars()
            .enumerate()
            .fold(String::new(), |mut code, (nth, letter)| {
                if letter.is_ascii_uppercase() && nth > 0 {
                    code.push('_');
                }
                code.push(letter.to_ascii_lowercase());
                code
            });
        let status = serde_json::from_value::<ErrorCode>(json!(code))?.status();
        ensure!(
            table.contains(&format!("\n| {status} | `{code}` | ")),
            "no row for {status} {code}"
        );
    }
    Ok(())
}

#[test]
fn a_message_is_found_by_its_longest_fixed_part() {
    let source = "Failure::unavailable(format!(\n  \"cannot reach the engine \\\n   at {}: {}\", a, b));\
                  Failure::new(Exit::Denied, \"no `key` here\"); Failure::unavailable(message); Exit::Denied => 3";
    assert_eq!(messages(source), ["cannot reach the engine at", "no key here"]);
}
