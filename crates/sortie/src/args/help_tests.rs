//! Every page of help explains each argument and has an example.

use clap::{Command, CommandFactory as _};

use super::Cli;

/// Calls `check` with each command and its path, such as `sortie runs get`.
fn walk(command: &Command, path: &str, check: &mut dyn FnMut(&Command, &str)) {
    check(command, path);
    for inner in command.get_subcommands() {
        walk(inner, &format!("{path} {}", inner.get_name()), check);
    }
}

/// Returns the findings on all pages of help, each with its command.
fn missing(mut find: impl FnMut(&Command) -> Vec<String>) -> Vec<String> {
    let mut missing = Vec::new();
    walk(&Cli::command(), "sortie", &mut |command, path| {
        missing.extend(find(command).into_iter().map(|what| format!("{path}: {what}")));
    });
    missing
}

#[test]
fn every_argument_has_a_sentence() {
    let unexplained = missing(|command| {
        let arguments = command.get_arguments().filter(|arg| !arg.is_hide_set());
        arguments
            .filter(|arg| {
                arg.get_help()
                    .is_none_or(|help| help.to_string().trim().is_empty())
            })
            .map(|arg| arg.get_id().to_string())
            .collect()
    });
    assert_eq!(unexplained, [""; 0], "arguments without help");
}

#[test]
fn every_command_has_an_example() {
    let without = missing(|command| {
        let help = command
            .get_after_help()
            .map(ToString::to_string)
            .unwrap_or_default();
        let has_example = help.contains("Examples:") && help.contains("\n  sortie ");
        let is_needed = !command.has_subcommands() && !has_example;
        is_needed.then(|| "no example".to_owned()).into_iter().collect()
    });
    assert_eq!(without, [""; 0], "commands without `Examples:` in their help");
}

#[test]
fn every_command_says_what_it_does() {
    let silent = missing(|command| {
        let is_silent = command
            .get_about()
            .is_none_or(|about| about.to_string().is_empty());
        is_silent
            .then(|| "no description".to_owned())
            .into_iter()
            .collect()
    });
    assert_eq!(silent, [""; 0]);
}
