//! A terminal for a command: Python's, which answers the questions of the command.

use std::process::Command;

/// Shows a command in a new terminal, and types each answer once its question is there.
const TERMINAL: &str = r#"
import json, os, pty, sys
dialogue = json.loads(os.environ.pop("DIALOGUE"))
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
shown, answered = b"", 0
while True:
    try:
        read = os.read(terminal, 4096)
    except OSError:
        break
    if not read:
        break
    shown += read
    if dialogue and dialogue[0][0].encode() in shown[answered:]:
        answered = len(shown)
        os.write(terminal, dialogue.pop(0)[1].encode() + b"\r")
sys.stdout.buffer.write(shown)
sys.stdout.flush()
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
sys.exit(f"never asked: {dialogue}" if dialogue else code)
"#;

/// The command with a terminal in which each answer is typed after its question.
#[expect(
    clippy::disallowed_methods,
    reason = "the terminal is Python's: no sandbox is wanted for it"
)]
pub(crate) fn at_a_terminal(command: &Command, dialogue: &[(&str, &str)]) -> Command {
    let mut terminal = Command::new("python3");
    terminal
        .args(["-c", TERMINAL])
        .arg(command.get_program())
        .args(command.get_args())
        .env("DIALOGUE", serde_json::json!(dialogue).to_string());
    if let Some(folder) = command.get_current_dir() {
        terminal.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => terminal.env(name, value),
            None => terminal.env_remove(name),
        };
    }
    terminal
}
