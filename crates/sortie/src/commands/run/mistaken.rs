//! Prompts that are the name of a command: `sortie run list` probably means `sortie runs list`, and a run costs money.

use clap::CommandFactory as _;

use crate::{
    args::{Cli, RunArgs},
    failure::{Failure, Result},
    prompt,
};

/// Asks at the terminal before a prompt starts a run that is the name of a command, and refuses it without a terminal. A
/// prompt after `--` is always a prompt.
pub(super) fn check(args: &RunArgs) -> Result<()> {
    let Some((word, command)) = args.prompt.as_deref().and_then(|word| Some((word, meant(word)?))) else {
        return Ok(());
    };
    let question =
        format!("Did you mean `{command}`? A run with the prompt `{word}` costs money. Start it? [y/N] ");
    match prompt::line(&question)? {
        Some(answer) if matches!(answer.to_lowercase().as_str(), "y" | "yes") => Ok(()),
        Some(_) => Err(Failure::usage(format!("no run was started; use `{command}`"))),
        None => Err(Failure::usage(format!(
            "the prompt `{word}` is the name of a command: use `{command}`, or `sortie run -- '{word}'` to start a run \
             with this prompt"
        ))),
    }
}

/// Returns the command that a prompt names.
fn meant(word: &str) -> Option<String> {
    let all = Cli::command();
    let has = |command: &clap::Command| command.find_subcommand(word).is_some();
    if word == "help" {
        Some("sortie run --help".to_owned())
    } else if all.find_subcommand("runs").is_some_and(has) {
        Some(format!("sortie runs {word}"))
    } else if has(&all) {
        Some(format!("sortie {word}"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_command_is_no_prompt() {
        for (word, command) in [
            ("list", Some("sortie runs list")),
            ("cancel", Some("sortie runs cancel")),
            ("workflows", Some("sortie workflows")),
            ("help", Some("sortie run --help")),
            ("list the files", None),
            ("hello", None),
            ("", None),
        ] {
            assert_eq!(meant(word).as_deref(), command, "{word}");
        }
    }
}
