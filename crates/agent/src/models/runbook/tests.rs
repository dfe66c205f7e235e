use proptest::prelude::*;
use sortie_testkit::rows;

use super::parse::{Piece, Runbook, Step};

fn command(text: &str) -> Step<'_> {
    Step::Command(text.into())
}

#[test]
fn blocks_are_read_in_order_and_other_fences_are_text() {
    let prompt = "Count.\n```sh\nls | wc -l\n```\n```json\n{}\n```\n```wait 250\n```\n\
                  ```tool read_file\n{\"path\": \"a\"}\n```\n```answer\n{{1}} files, {{last}}\n```\n";
    let runbook = Runbook::parse(prompt).unwrap();
    assert_eq!(
        runbook.steps,
        [
            command("ls | wc -l"),
            Step::Wait(std::time::Duration::from_millis(250)),
            Step::Tool {
                name: "read_file",
                arguments: "{\"path\": \"a\"}".into()
            },
        ]
    );
    assert_eq!(
        runbook.answer.unwrap(),
        [Piece::Output(1), Piece::Text(" files, ".into()), Piece::Output(2)]
    );
}

#[test]
fn a_mistake_is_named_with_its_line_before_anything_runs() {
    for (prompt, error) in rows! {
        "a\n```sh\nrm -r x\n", "line 2: the `sh` block is not closed";
        "```tool\n{}\n```", "line 1: a `tool` block names its tool: ```tool NAME";
        "```wait soon\n```", "line 1: a `wait` block takes milliseconds, from 0 to 3600000: ```wait 500";
        "```wait\n3600001\n```", "line 1: a `wait` block takes milliseconds, from 0 to 3600000: ```wait 500";
        "```answer\n{{1}}\n```", "line 1: {{1}} names no output: there are 0";
        "```sh\n```\n```answer\n{{2}}\n```", "line 3: {{2}} names no output: there are 1";
        "```answer\n{{last}}\n```", "line 1: {{last}} names no output: there are 0";
    } {
        assert_eq!(Runbook::parse(prompt).unwrap_err(), error, "{prompt}");
    }
}

#[test]
fn braces_that_name_no_output_are_text() {
    let runbook = Runbook::parse("```sh\n```\n```answer\n{{user}} {{{1}}} {{ {{a{{1}}\n```").unwrap();
    assert_eq!(
        runbook.answer.unwrap(),
        [
            Piece::Text("{{user}} {".into()),
            Piece::Output(1),
            Piece::Text("} {{ {{a".into()),
            Piece::Output(1),
        ]
    );
}

#[test]
fn the_time_of_a_wait_may_stand_in_the_block() {
    let steps = Runbook::parse("```wait\n20\n```").unwrap().steps;
    assert_eq!(steps, [Step::Wait(std::time::Duration::from_millis(20))]);
}

#[derive(Clone, Debug)]
enum Made {
    Command(String),
    Tool(String, String),
    Wait(u64),
    Text(String),
}

fn made() -> impl Strategy<Value = Made> {
    prop_oneof![
        "[a-z |$\n]{0,20}".prop_map(Made::Command),
        ("[a-z_]{1,8}", "[{}\":a-z]{0,12}").prop_map(|(name, arguments)| Made::Tool(name, arguments)),
        (0_u64..=3_600_000).prop_map(Made::Wait),
        "[a-z .]{0,20}".prop_map(Made::Text),
    ]
}

proptest! {
    #[test]
    fn no_prompt_panics(prompt in "[`~ shtolwianer{}0-9\n\r]{0,80}") {
        let _ = Runbook::parse(&prompt);
    }

    #[test]
    fn a_generated_runbook_is_read_as_it_was_meant(
        steps in proptest::collection::vec(made(), 0..8),
        fence in prop_oneof![Just("```"), Just("`````"), Just("~~~")],
        line_break in prop_oneof![Just("\n"), Just("\r\n")],
        answer in proptest::option::of("[a-z {}\n]{0,20}"),
    ) {
        let mut prompt = String::new();
        let mut block = |info: &str, content: &str| {
            prompt.extend([fence, info, "\n", content, "\n", fence, "\n"]);
        };
        for step in &steps {
            match step {
                Made::Command(command) => block("sh", command),
                Made::Tool(name, arguments) => block(&format!("tool {name}"), arguments),
                Made::Wait(ms) => block(&format!("wait {ms}"), ""),
                Made::Text(text) => block("text", text),
            }
        }
        if let Some(answer) = &answer {
            block("answer", answer);
        }
        let prompt = prompt.replace('\n', line_break);
        let runbook = Runbook::parse(&prompt).map_err(TestCaseError::fail)?;
        let expected: Vec<Step<'_>> = steps.iter().filter_map(|step| match step {
            Made::Command(command) => Some(Step::Command(command.into())),
            Made::Tool(name, arguments) => Some(Step::Tool { name, arguments: arguments.into() }),
            Made::Wait(ms) => Some(Step::Wait(std::time::Duration::from_millis(*ms))),
            Made::Text(_) => None,
        }).collect();
        prop_assert_eq!(runbook.steps, expected);
        let back: Option<String> = runbook.answer.map(|pieces| pieces.iter().map(|piece| match piece {
            Piece::Text(text) => text.as_str(),
            Piece::Output(_) => "?",
        }).collect());
        prop_assert_eq!(back, answer);
    }
}
