//! Calls of a model and their expected results, in a table. A case that another agent's tests have names them; the calls and the
//! results are ours. Those terminals keep one session and take keystrokes: here each call is a new shell without input, and a
//! command without an end becomes a job.

/// Makes the rows of the table: name, origin and needs, then the calls.
macro_rules! cases {
    ($($name:literal, $origin:expr, $needs:expr => { $($call:expr;)+ })+) => {
        &[$(Case { name: $name, origin: $origin, needs: $needs, calls: &[$($call),+] }),+]
    };
}

mod jobs;

/// A row of the table.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// Owner of the tests that have the situation.
    pub(crate) origin: &'static str,
    /// Programs that the sandbox must find, and `network` for a private network.
    pub(crate) needs: &'static [&'static str],
    pub(crate) calls: &'static [Call],
}

/// A call.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    pub(crate) tool: &'static str,
    pub(crate) arguments: &'static str,
    /// Parts of the result, in order.
    pub(crate) told: &'static [&'static str],
    /// Texts that the result must not hold.
    pub(crate) not: &'static [&'static str],
}

const OPENHANDS: &str = "OpenHands' terminal";
const OURS: &str = "our own";

const fn call(tool: &'static str, arguments: &'static str, told: &'static [&'static str]) -> Call {
    Call {
        tool,
        arguments,
        told,
        not: &[],
    }
}

const fn shell(arguments: &'static str, told: &'static [&'static str]) -> Call {
    call("shell", arguments, told)
}

const fn jobs(arguments: &'static str, told: &'static [&'static str]) -> Call {
    call("jobs", arguments, told)
}

const fn without(call: Call, not: &'static [&'static str]) -> Call {
    Call { not, ..call }
}

/// Returns the rows of the table.
pub(crate) fn all() -> impl Iterator<Item = &'static Case> {
    CASES.iter().chain(jobs::CASES)
}

const CASES: &[Case] = cases! {
    "a_command_returns_its_output_and_status", OPENHANDS, &[] => {
        shell(r#"{"command": "echo 'hello world'"}"#,
            &["[the command exited with status 0]\n[stdout]\nhello world\n"]);
        shell(r#"{"command": "echo first && echo second && echo third"}"#, &["first\nsecond\nthird\n"]);
        shell(r#"{"command": "echo out; echo aside >&2; exit 3"}"#,
            &["exited with status 3]\n[stdout]\nout\n[stderr]\naside\n"]);
        shell(r#"{"command": "true"}"#, &["[the command exited with status 0]\n"]);
    }
    "an_unknown_command_is_named", OPENHANDS, &[] => {
        shell(r#"{"command": "nonexistent_command"}"#,
            &["exited with status 127: command not found]", "nonexistent_command"]);
    }
    "a_file_that_is_no_program_is_told_from_a_missing_one", OURS, &[] => {
        shell(r#"{"command": "echo text > file; ./file"}"#,
            &["exited with status 126: a file that is not executable"]);
    }
    "a_call_is_a_new_shell_and_files_stay", OPENHANDS, &[] => {
        shell(r#"{"command": "export KEPT=yes; mkdir folder; cd folder; pwd > place; pwd"}"#, &["/folder\n"]);
        without(shell(r#"{"command": "echo \"<$KEPT>\"; pwd; cat folder/place"}"#, &["<>\n", "/folder\n"]),
            &["<yes>"]);
        shell(r#"{"command": "cd folder && KEPT=again && echo \"$KEPT\" && pwd"}"#, &["again\n", "/folder\n"]);
    }
    "home_is_the_working_directory", OPENHANDS, &[] => {
        shell(r#"{"command": "test \"$(cd ~ && pwd)\" = \"$(pwd)\" && echo same"}"#, &["same\n"]);
    }
    "the_end_of_a_job_is_told_with_the_next_command", OURS, &[] => {
        shell(r#"{"command": "sleep 2; exit 7", "background": true}"#, &["goes on as job 1"]);
        shell(r#"{"command": "sleep 3"}"#,
            &["[the command exited with status 0]\n[job 1 exited with status 7: `jobs` has its output]\n"]);
        without(shell(r#"{"command": "true"}"#, &["status 0"]), &["job 1"]);
    }
    "a_question_is_answered_by_nobody_and_ends", OPENHANDS, &[] => {
        shell(r#"{"command": "read -p 'Enter name: ' name && echo \"Hello $name\""}"#, &["exited with status 1]"]);
        shell(r#"{"command": "echo John | { read name; echo \"Hello $name\"; }"}"#, &["Hello John\n"]);
        shell(r#"{"command": "cat"}"#, &["exited with status 0]"]);
        shell(r#"{"command": "read x </dev/tty || echo no terminal"}"#, &["no terminal\n"]);
    }
    "a_program_that_asks_gets_the_end_of_its_input", OPENHANDS, &["python3"] => {
        shell(r#"{"command": "python3 -c \"name = input('Enter your name: ')\""}"#,
            &["exited with status 1]", "EOFError"]);
        shell(r#"{"command": "printf 'Alice\\n25\\n' | python3 -c \"name = input('Name: '); age = input('Age: '); print(f'Hello {name}, {age} years')\""}"#,
            &["Hello Alice, 25 years\n"]);
        shell(r#"{"command": "python3 --version"}"#, &["Python 3"]);
    }
    "a_here_document_is_one_call", OPENHANDS, &[] => {
        shell(r#"{"command": "cat <<EOF\nline 1\nline 2\nEOF"}"#, &["line 1\nline 2\n"]);
        shell(r#"{"command": "cat <<EOF\nline 1"}"#, &["exited with status 0]", "line 1"]);
    }
    "an_exclamation_mark_is_no_history", OPENHANDS, &[] => {
        without(shell(r#"{"command": "echo A!B"}"#, &["A!B\n"]), &["event not found"]);
    }
    "commands_of_many_lines_run_as_they_stand", OPENHANDS, &[] => {
        without(shell(r#"{"command": "if true; then\necho \"inside if\"\nfi"}"#, &["[stdout]\ninside if\n"]),
            &["> "]);
        shell(r#"{"command": "echo \\\n -e \"foo\""}"#, &["foo\n"]);
        shell(r#"{"command": "printf 'a\\n\\n\\nz\\n'"}"#, &["a\n\n\nz\n"]);
        shell(r#"{"command": "ls\necho \"hello\nit's me\"\necho last"}"#, &["hello\nit's me\nlast\n"]);
        shell(r#"{"command": "count=0; tries=0; while [ $count -lt 3 ]; do tries=$((tries+1)); count=$((count+1)); echo \"Flip $tries\"; done; echo \"Got $count after $tries\";"}"#,
            &["Flip 1\nFlip 2\nFlip 3\nGot 3 after 3\n"]);
    }
    "files_are_made_and_renamed_in_loops", OPENHANDS, &[] => {
        shell(r#"{"command": "mkdir -p m && \\\nfor month in 01 02; do\n  for day in 1 2 3; do\n    touch \"m/2024-${month}-${day}-sample.md\"\n  done\ndone && echo created"}"#,
            &["created\n"]);
        shell(r#"{"command": "for file in m/*.md; do\n  new=$(echo $file | sed -E 's/2024-01/2024-08/;s/2024-02/2024-09/')\n  mv \"$file\" \"$new\"\ndone && ls m | head -1"}"#,
            &["2024-08-1-sample.md\n"]);
    }
    "a_long_output_is_kept_whole_in_a_file_that_is_named", OPENHANDS, &[] => {
        without(shell(r#"{"command": "for i in $(seq 5000); do echo \"Line $i\"; done"}"#, &["[stdout]\nLine 1\n", "\n[… ", " lines, ", " bytes left out; the whole output is in .sortie/output/stdout-", ".txt (lines ", "-", ") …]\nLine ", "\nLine 5000\n"]),
            &["\nLine 2500\n"]);
        shell(r#"{"command": "cat .sortie/output/stdout-*.txt > all; wc -l < all; sed -n 2500p all"}"#,
            &["5000\nLine 2500\n"]);
        call("search_files", r#"{"regex": "^Line 2500$", "path": ".sortie/output", "include_ignored": true}"#,
            &[":2500: Line 2500\n"]);
        without(call("list_files", "{}", &["all"]), &["stdout-"]);
    }
    "the_same_long_output_again_is_told_in_the_same_words", OURS, &[] => {
        shell(r#"{"command": "seq 100000"}"#, &["left out; the whole output is in "]);
        shell(r#"{"command": "seq 100000"}"#, &["left out; the whole output is in "]);
        shell(r#"{"command": "ls .sortie/output | wc -l"}"#, &["[stdout]\n1\n"]);
    }
    "a_very_long_output_is_kept_from_its_beginning", OPENHANDS, &[] => {
        shell(r#"{"command": "seq 2000000"}"#,
            &["[stdout]\n1\n2\n", "left out; its first 8,388,608 bytes are in .sortie/output/stdout-", ".txt …]\n",
            "\n2000000\n"]);
        shell(r#"{"command": "wc -c < .sortie/output/stdout-*.txt"}"#, &["8388608\n"]);
    }
    "control_sequences_and_progress_bars_are_plain_text", OURS, &[] => {
        shell(r#"{"command": "printf '\\033[1;31merror\\033[0m: no\\n 10%%\\r 50%%\\r100%%\\ndone\\r\\n'"}"#,
            &["[stdout]\nerror: no\n100%\ndone\n"]);
    }
    "data_is_told_and_not_shown", OURS, &[] => {
        without(shell(r#"{"command": "printf '\\177ELF\\002\\001\\001'; head -c 100000 /dev/zero"}"#, &["[stdout]\n[binary output, not shown: 100,007 bytes, an ELF file (a program or library); it is in .sortie/output/stdout-", ".txt]\n"]),
            &["\u{fffd}"]);
        shell(r#"{"command": "wc -c < .sortie/output/stdout-*.txt"}"#, &["100007\n"]);
        shell(r#"{"command": "printf 'caf\\351 and \\000 na\\303\\257ve\\n'"}"#,
            &["caf\u{fffd} and \u{fffd} naïve\n"]);
    }
    "a_signal_is_named", OURS, &[] => {
        shell(r#"{"command": "kill -9 $$"}"#, &["[the command was ended by signal 9 (SIGKILL)]"]);
        shell(r#"{"command": "sh -c 'kill -SEGV $$'; exit $?"}"#,
            &["exited with status 139: a process of it was ended by SIGSEGV]"]);
    }
    "a_time_beyond_the_run_is_cut_and_said", OURS, &[] => {
        shell(r#"{"command": "true", "timeout_seconds": 5000}"#,
            &["[the command exited with status 0]\n[timeout_seconds was cut to 5", ": the run ends in 5"]);
    }
    "git_asks_nobody_pages_nothing_and_knows_its_author", OURS, &["git"] => {
        shell(r#"{"command": "git init -q . && echo one > file && git add file && git commit -qm first && git log -1"}"#,
            &["Author: Sortie agent <agent@sortie.example>", "first"]);
        shell(r#"{"command": "echo two > file; git commit -a"}"#, &["exited with status 1"]);
        shell(r#"{"command": "seq 100000; git status --short"}"#, &["left out", "100000\n M file\n"]);
    }
    "the_system_can_be_looked_up", OURS, &[] => {
        shell(r#"{"command": "test ! -e /etc/os-release || grep -c '^NAME=' /etc/os-release; echo $TERM $PAGER"}"#,
            &["dumb cat\n"]);
    }
};
