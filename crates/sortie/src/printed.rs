//! Output of a run's commands: live as they print it, else as the events have it.

use serde::Deserialize;
use sortie_api::{Event, event::kind};

use crate::{client::Live, failure::Result, terminal};

/// Tool that runs commands.
const SHELL: &str = "shell";

/// Prints what the commands of a run printed, in order.
#[derive(Debug, Default)]
pub(crate) struct Printed {
    /// Tool call of which live output was printed last, and its length in bytes.
    live: Option<(String, usize)>,
}

#[derive(Debug, Deserialize)]
struct ToolEnd {
    tool: String,
    id: String,
    output: String,
}

impl Printed {
    /// Prints live output at once.
    pub(crate) fn live(&mut self, live: &Live) -> Result<()> {
        let Live::Output { call, text } = live else {
            return Ok(());
        };
        match &mut self.live {
            Some((current, length)) if current == call => *length += text.len(),
            Some(_) | None => self.live = Some((call.clone(), text.len())),
        }
        Ok(terminal::print_content(text.as_bytes())?)
    }

    /// Prints the output of a command that has ended, unless all of it was printed live.
    pub(crate) fn event(&mut self, event: &Event) -> Result<()> {
        if event.kind != kind::TOOL_END {
            return Ok(());
        }
        let Ok(end) = serde_json::from_str::<ToolEnd>(event.data.get()) else {
            return Ok(());
        };
        if end.tool != SHELL {
            return Ok(());
        }
        let text = printed(&end.output);
        let live = self.live.take().filter(|(call, _)| *call == end.id);
        if let Some((_, length)) = live {
            // The recorded output has a newline at the end of each stream.
            if text.trim_end().len() <= length {
                return Ok(());
            }
            terminal::note(
                "note: some of the live output was missed; this is the recorded output of the command",
            );
        }
        Ok(terminal::print_content(text.as_bytes())?)
    }
}

/// Returns the output of a command without the lines about it that the engine adds for the model.
pub(crate) fn printed(output: &str) -> String {
    let mut rest = output;
    let mut streams = String::new();
    while let Some((line, after)) = rest.split_once('\n') {
        rest = after;
        match line {
            "[stdout]" => {
                let (stdout, stderr) = after
                    .split_once("\n[stderr]\n")
                    .map_or((after, ""), |(stdout, stderr)| {
                        (after.get(..=stdout.len()).unwrap_or(stdout), stderr)
                    });
                streams.push_str(stdout);
                streams.push_str(stderr);
                break;
            }
            "[stderr]" => {
                streams.push_str(after);
                break;
            }
            // Sentences about the end of the command.
            _ if line.starts_with('[') => {}
            _ => break,
        }
    }
    streams
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_the_streams_of_a_command_are_its_output() {
        for (output, expected) in [
            ("[the command exited with status 0]\n", ""),
            ("[the command exited with status 0]\n[stdout]\na\nb\n", "a\nb\n"),
            ("[the command exited with status 7]\n[stderr]\nno\n", "no\n"),
            (
                "[the command exited with status 0]\n[a note]\n[stdout]\n[x]\na\n[stderr]\nb\n",
                "[x]\na\nb\n",
            ),
            ("[stdout]\n[stderr]\n", "[stderr]\n"),
            ("the sandbox did not start", ""),
            ("the sandbox did not start\n[stdout]\nx", ""),
        ] {
            assert_eq!(printed(output), expected, "{output:?}");
        }
    }

    proptest! {
        #[test]
        fn the_output_of_a_command_is_kept(stdout in "([a-z \\[\\]]{0,9}\n){0,4}", stderr in "([a-z]{0,9}\n){0,3}") {
            let mut output = "[the command exited with status 0]\n".to_owned();
            for (name, stream) in [("stdout", &stdout), ("stderr", &stderr)] {
                if !stream.is_empty() {
                    output = output + "[" + name + "]\n" + stream;
                }
            }
            prop_assume!(!stdout.contains("[stderr]"));
            prop_assert_eq!(printed(&output), stdout + &stderr);
        }
    }
}
