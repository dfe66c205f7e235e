//! A corpus of responses from real providers. Each file in `tests/cases` is a run of the agent against a scripted provider. The
//! README in that folder describes the format.

mod clock;
mod file;
mod run;
mod sandbox;

use std::{fmt, path::Path};

use serde_json::Value;
use sortie_testkit::rows;

use self::{
    file::{Case, RequestCheck},
    run::Ended,
};

/// Returns the differences between the outcome of a case and its expectations.
fn differences(case: &Case, ended: &Ended) -> Vec<String> {
    let expected = &case.expect;
    let mut found: Vec<String> = ended
        .broken
        .iter()
        .map(|rule| format!("a request broke a rule of the provider: {rule}"))
        .collect();
    differ(&mut found, "status", &ended.status, &expected.status);
    differ(&mut found, "answers left", &ended.answers_left, &0);
    differ(&mut found, "requests without an answer", &ended.unanswered, &0);
    if let Some(output) = &expected.output {
        differ(&mut found, "output", &ended.text, output);
    }
    if let Some(calls) = &expected.calls {
        differ(&mut found, "calls", &ended.calls, calls);
    }
    if let Some(charged) = &expected.charged_micros {
        differ(&mut found, "charged_micros", &ended.charged_micros, charged);
    }
    if let Some([least, most]) = expected.waited_seconds
        && !(least..=most).contains(&ended.waited.as_secs_f64())
    {
        found.push(format!(
            "waited_seconds: {:?} is not within {least} and {most}",
            ended.waited
        ));
    }
    for words in expected.error.iter().filter(|words| !ended.text.contains(*words)) {
        found.push(format!("error: {:?} does not contain {words:?}", ended.text));
    }
    for check in &expected.requests {
        match check.number.checked_sub(1).and_then(|at| ended.requests.get(at)) {
            Some(request) => found.extend(request_differences(check, request)),
            None => found.push(format!("there is no request {}", check.number)),
        }
    }
    found
}

fn differ<T: fmt::Debug + PartialEq>(found: &mut Vec<String>, what: &str, is: &T, should: &T) {
    if is != should {
        found.push(format!("{what}: {is:?} instead of {should:?}"));
    }
}

fn request_differences(check: &RequestCheck, request: &Value) -> Vec<String> {
    let number = check.number;
    let text = request.to_string();
    let missing = check.contains.iter().filter(|part| !text.contains(*part));
    let mut found: Vec<String> = missing
        .map(|part| format!("request {number} does not contain {part}: {text}"))
        .collect();
    let present = check.lacks.iter().filter(|part| text.contains(*part));
    found.extend(present.map(|part| format!("request {number} contains {part}: {text}")));
    for (pointer, should) in &check.has {
        let is = request.pointer(pointer);
        if is != Some(should) {
            found.push(format!(
                "request {number} has {is:?} at {pointer} instead of {should}: {text}"
            ));
        }
    }
    found
}

#[tokio::test(start_paused = true)]
async fn every_case_comes_out_as_its_file_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "there are no cases");
    let mut failed = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let found = match Case::read(&text) {
            Ok(case) => differences(&case, &run::run(&case).await),
            Err(error) => vec![error],
        };
        if !found.is_empty() {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            failed.push(format!("{name}:\n  {}", found.join("\n  ")));
        }
    }
    assert!(
        failed.is_empty(),
        "{} cases failed:\n{}",
        failed.len(),
        failed.join("\n")
    );
}

/// A case that passes.
const HELLO: &str = r#"
about = "A greeting."
[model]
api = "openai-chat"
[[answer]]
says = "Hello."
[expect]
status = "succeeded"
output = "Hello."
[[expect.request]]
number = 1
contains = ["Go."]
has = { "/stream" = true }
"#;

#[tokio::test(start_paused = true)]
async fn a_case_that_does_not_come_out_fails_with_the_difference() {
    for (old, new, difference) in rows! {
        "about", "about", "";
        "\"succeeded\"", "\"failed\"", "status: Succeeded instead of Failed";
        "output = \"Hello.\"", "output = \"Bye.\"", "output: \"Hello.\" instead of \"Bye.\"";
        "output = \"Hello.\"", "error = [\"Bye.\"]", "does not contain \"Bye.\"";
        "output = \"Hello.\"", "calls = [{ tool = \"shell\" }]", "calls: []";
        "output = \"Hello.\"", "charged_micros = 1", "charged_micros: ";
        "output = \"Hello.\"", "waited_seconds = [1, 2]", "waited_seconds: 0ns";
        "[expect]", "[[answer]]\nsays = \"Bye.\"\n[expect]", "answers left: 1 instead of 0";
        "contains", "lacks", "request 1 contains Go.";
        "[\"Go.\"]", "[\"Stop.\"]", "request 1 does not contain Stop.";
        "number = 1", "number = 2", "there is no request 2";
        "= true", "= false", "request 1 has Some(Bool(true)) at /stream";
    } {
        let case = Case::read(&HELLO.replace(old, new)).unwrap();
        let found = differences(&case, &run::run(&case).await).join("\n");
        assert!(
            found.contains(difference) && found.is_empty() == difference.is_empty(),
            "{new}: {found}"
        );
    }
}

#[test]
fn a_file_with_an_unknown_key_or_without_a_check_is_no_case() {
    assert!(Case::read(HELLO).is_ok());
    for (old, new, reason) in rows! {
        "about =", "abuot =", "unknown field `abuot`";
        "[model]", "[model]\nurl = \"x\"", "unknown field `url`";
        "says =", "say =", "unknown field `say`";
        "output =", "outptu =", "unknown field `outptu`";
        "contains =", "contain =", "unknown field `contain`";
        "status = \"succeeded\"", "", "missing field `status`";
        "status = \"succeeded\"", "status = \"over\"", "unknown variant `over`";
        "output = \"Hello.\"", "", "";
        "contains = [\"Go.\"]\nhas = { \"/stream\" = true }", "", "expect.request 1 checks nothing";
        "\"A greeting.\"", "\"\"", "about: must say what the case shows";
        "[[answer]]\nsays = \"Hello.\"", "", "there is no answer";
        "says = \"Hello.\"", "", "answer 1 must have one of";
        "says = \"Hello.\"", "says = \"Hello.\"\nbody = \"x\"", "answer 1 must have one of";
        "says = \"Hello.\"", "stream = \"(wait 3s)\"", "answer 1: unknown step (wait 3s)";
        "about =", "reports = [\"a bug\"]\nabout =", "reports: must be owner/repository#number";
    } {
        let read = Case::read(&HELLO.replace(old, new)).err().unwrap_or_default();
        assert!(
            read.contains(reason) && read.is_empty() == reason.is_empty(),
            "{new}: {read}"
        );
    }
}
