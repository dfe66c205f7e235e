//! Request for a run: the fields of `--request`, which the flags replace, and the files of this machine.

use std::{
    collections::BTreeMap,
    io::Read as _,
    path::{Path, PathBuf},
};

use serde_json::value::{RawValue, to_raw_value};
use sortie_api::{
    Micros, RunRequest,
    limits::{INLINE_FILES_BYTES, PROMPT_BYTES},
    plain,
    request::{RunConnection, RunFile, Web, WebRestriction},
};

use crate::{
    args::{Document, FileArg, RunArgs},
    commands::schedules::callback,
    config::Environment,
    failure::{Failure, Result},
    input::{self, Fields, fields_of},
    terminal,
};

/// Name of standard input as a prompt or a file.
pub(super) const STDIN: &str = "-";

/// A file of this machine, and its place in the working directory.
#[derive(Clone)]
pub(super) struct LocalFile {
    pub(super) path: PathBuf,
    /// Without content until it is uploaded, if it does not fit into the request.
    pub(super) staged: RunFile,
}

/// Request for a run before its files are uploaded.
#[derive(Clone)]
pub(super) struct Draft {
    /// Every field except the files of the flags.
    fields: Fields,
    /// Files of the flags. They replace the files in `fields`.
    pub(super) files: Vec<LocalFile>,
}

impl Draft {
    /// Reads the request that the arguments describe, with `prompt` as the task.
    pub(super) fn of(args: &RunArgs, prompt: Option<&str>, environment: &Environment) -> Result<Self> {
        if prompt == Some(STDIN) && args.request.as_deref() == Some(Path::new(STDIN)) {
            return Err(Failure::usage(
                "--request - and the prompt -: standard input can be only one of the two; write the other one to a file",
            ));
        }
        let mut fields = match &args.request {
            Some(path) => input::object(path, &mut std::io::stdin())?.1,
            None => Fields::new(),
        };
        fields.extend(fields_of(&of_flags(args, prompt, environment)?)?);
        Ok(Self {
            fields,
            files: read_files("--file", &args.files)?,
        })
    }

    /// Makes the text on standard input the input of the run.
    pub(super) fn add_piped(&mut self, piped: Option<String>) -> Result<()> {
        let Some(text) = piped else {
            return Ok(());
        };
        if self.fields.contains_key("input") {
            return Err(Failure::usage(
                "the request has an input already, and a run has one input: leave out --input (or `input` of --request), \
                 or pipe no text; a text can also be a file: --file",
            ));
        }
        self.fields.insert("input".to_owned(), raw(&text)?);
        terminal::note(&format!(
            "the input of the run is standard input ({} bytes)",
            text.len()
        ));
        Ok(())
    }

    /// Adds a file for this run only.
    pub(super) fn add_file(&mut self, flag: &str, file: &FileArg) -> Result<()> {
        let used = self.files.iter().filter_map(|file| file.staged.content.as_ref());
        let left = INLINE_FILES_BYTES - used.map(String::len).sum::<usize>().min(INLINE_FILES_BYTES);
        self.files.push(read_file(flag, file, left)?);
        Ok(())
    }

    /// Returns the fields of the request, with the files as they are staged now.
    pub(super) fn fields(&self) -> Result<Fields> {
        let mut fields = self.fields.clone();
        if !self.files.is_empty() {
            let staged: Vec<&RunFile> = self.files.iter().map(|file| &file.staged).collect();
            fields.insert("files".to_owned(), raw(&staged)?);
        }
        Ok(fields)
    }

    /// Returns the text of a field, if it is there and is a text.
    pub(super) fn text(&self, field: &str) -> Option<String> {
        serde_json::from_str(self.fields.get(field)?.get()).ok()
    }

    /// Whether a field is there.
    pub(super) fn has(&self, field: &str) -> bool {
        self.fields.contains_key(field)
    }

    /// Whether the agent may run commands, unless a workflow forbids it.
    pub(super) fn uses_commands(&self) -> bool {
        self.fields
            .get("shell")
            .is_none_or(|shell| shell.get() != "false")
    }
}

/// Returns the fields that the flags set, without the files.
fn of_flags(args: &RunArgs, prompt: Option<&str>, environment: &Environment) -> Result<RunRequest> {
    let schema = |flag: &str, document: &Option<Document>| {
        let document = document.as_ref();
        document.map(|document| json(flag, document)).transpose()
    };
    Ok(RunRequest {
        prompt: prompt.map(read_prompt).transpose()?,
        instructions: args
            .instructions
            .as_ref()
            .map(|text| document_text("--instructions", text))
            .transpose()?,
        workflow: args.workflow.as_ref().map(ToString::to_string),
        input: schema("--input", &args.input)?,
        model: args.model.clone(),
        fallback_model: args.fallback_model.clone(),
        effort: args.effort,
        connections: connections(args),
        description: args.description.clone(),
        input_schema: schema("--input-schema", &args.input_schema)?,
        output_schema: schema("--output-schema", &args.output_schema)?,
        timeout_seconds: args.timeout,
        max_steps: args.max_steps,
        shell: args.no_shell.then_some(false),
        web: web(args),
        zero_data_retention: args.zero_data_retention.then_some(true),
        max_cost_micros: args.max_cost.map(Micros::get),
        tags: Some(args.tags.clone()).filter(|tags| !tags.is_empty()),
        metadata: metadata(args)?,
        callback: callback(&args.callback, environment)?,
        ..RunRequest::default()
    })
}

fn connections(args: &RunArgs) -> Option<BTreeMap<String, RunConnection>> {
    let saved = |name: String| {
        let connection = RunConnection {
            reference: Some(name.clone()),
            ..RunConnection::default()
        };
        (name, connection)
    };
    let names = args.connections.iter().map(ToString::to_string);
    Some(names.map(saved).collect()).filter(|all: &BTreeMap<_, _>| !all.is_empty())
}

fn web(args: &RunArgs) -> Option<Web> {
    if args.web.web_allow.is_empty() {
        return args.web.web.then_some(Web::Switch(true));
    }
    Some(Web::Restricted(WebRestriction {
        allow: Some(args.web.web_allow.clone()),
        search: None,
    }))
}

/// Returns the labels of the flags; `None` if there are none.
fn metadata(args: &RunArgs) -> Result<Option<BTreeMap<String, String>>> {
    let mut labels = BTreeMap::new();
    for label in &args.metadata {
        if labels.insert(label.key.clone(), label.value.clone()).is_some() {
            return Err(Failure::usage(format!(
                "--metadata {}: the key is given twice; a key has one value",
                label.key
            )));
        }
    }
    Ok(Some(labels).filter(|labels| !labels.is_empty()))
}

fn raw(value: &(impl serde::Serialize + ?Sized)) -> Result<Box<RawValue>> {
    to_raw_value(value)
        .map_err(|error| Failure::internal(format!("the request cannot be written: {}", plain::json(&error))))
}

/// Returns the prompt that an argument names: a text, `@FILE`, or `-` for standard input.
fn read_prompt(text: &str) -> Result<String> {
    // One byte more than allowed is enough to make the engine refuse it.
    let limit = PROMPT_BYTES + 1;
    let (source, bytes) = match text.strip_prefix('@') {
        Some(path) => {
            let place = format!("the prompt file {path}");
            let bytes = read_start(&place, Path::new(path), limit)?;
            (place, bytes)
        }
        None if text == STDIN => {
            let mut bytes = Vec::new();
            std::io::stdin()
                .lock()
                .take(limit as u64)
                .read_to_end(&mut bytes)
                .map_err(|error| {
                    Failure::usage(format!(
                        "cannot read the prompt from standard input: {}",
                        plain::io(&error)
                    ))
                })?;
            ("the prompt from standard input".to_owned(), bytes)
        }
        None => return Ok(text.to_owned()),
    };
    String::from_utf8(bytes).map_err(|_| Failure::usage(format!("{source}: not UTF-8 text")))
}

/// Reads files that a flag names. Those without content are uploaded later.
fn read_files(flag: &str, args: &[FileArg]) -> Result<Vec<LocalFile>> {
    let mut left = INLINE_FILES_BYTES;
    args.iter()
        .map(|file| {
            let file = read_file(flag, file, left)?;
            left -= file.staged.content.as_ref().map_or(0, String::len);
            Ok(file)
        })
        .collect()
}

fn read_file(flag: &str, file: &FileArg, left: usize) -> Result<LocalFile> {
    Ok(LocalFile {
        staged: RunFile {
            path: file.name.clone(),
            file: None,
            content: read_inline(flag, &file.path, left)?,
        },
        path: file.path.clone(),
    })
}

/// Returns the text of a file that can be sent in the request; `None` if it is more than `limit` bytes, or not text.
fn read_inline(flag: &str, path: &Path, limit: usize) -> Result<Option<String>> {
    let bytes = read_at_most(flag, path, limit)?;
    // JSON takes every text but one with U+0000, which the engine refuses.
    Ok(bytes
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .filter(|text| !text.contains('\0')))
}

/// Reads a file that a flag names; `None` if it is more than `limit` bytes.
fn read_at_most(flag: &str, path: &Path, limit: usize) -> Result<Option<Vec<u8>>> {
    let bytes = read_start(
        &format!("{flag} {}", path.display()),
        path,
        limit.saturating_add(1),
    )?;
    Ok((bytes.len() <= limit).then_some(bytes))
}

/// Reads the first `limit` bytes of a file.
fn read_start(place: &str, path: &Path, limit: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(limit as u64).read_to_end(&mut bytes))
        .map_err(|error| Failure::usage(format!("{place}: {}", plain::io(&error))))?;
    Ok(bytes)
}

/// Reads a text file that a flag names.
fn read_text(flag: &str, path: &Path) -> Result<String> {
    let wrong = |what: &str| Failure::usage(format!("{flag} {}: {what}", path.display()));
    let bytes = read_at_most(flag, path, INLINE_FILES_BYTES)?
        .ok_or_else(|| wrong("more than 8 MiB; a run takes no more"))?;
    String::from_utf8(bytes).map_err(|_| wrong("not UTF-8 text"))
}

/// Returns the text of a flag, or of the file that it names.
fn document_text(flag: &str, document: &Document) -> Result<String> {
    match document {
        Document::Inline(text) => Ok(text.clone()),
        Document::File(path) => read_text(flag, path),
    }
}

/// Returns the JSON of a flag, or of the file that it names.
pub(in crate::commands) fn json(flag: &str, document: &Document) -> Result<Box<RawValue>> {
    let place = match document {
        Document::Inline(_) => String::new(),
        Document::File(path) => format!(" {}", path.display()),
    };
    let text = document_text(flag, document)?;
    RawValue::from_string(text.trim().to_owned())
        .map_err(|error| Failure::usage(format!("{flag}{place}: not JSON: {}", plain::json(&error))))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use proptest::prelude::*;

    use super::*;
    use crate::{
        args::{Cli, Command},
        failure::Exit,
    };

    fn draft_of(arguments: &[&str]) -> Result<Draft> {
        let cli = Cli::try_parse_from(["sortie", "run"].iter().chain(arguments)).unwrap();
        let Command::Run(args) = cli.command else {
            unreachable!("asked for run");
        };
        let prompt = args.prompt.as_deref().or(args.literal.as_deref());
        let environment = [("HOOK".to_owned(), "hush".to_owned())].into_iter().collect();
        Draft::of(&args, prompt, &environment)
    }

    fn request_of(arguments: &[&str]) -> Result<serde_json::Value> {
        let fields = draft_of(arguments)?.fields()?;
        Ok(serde_json::to_value(fields).unwrap())
    }

    fn refusal(arguments: &[&str]) -> String {
        let failure = draft_of(arguments).map(|_| ()).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        failure.to_string()
    }

    #[test]
    fn only_what_is_given_is_sent() {
        assert_eq!(
            request_of(&["hello"]).unwrap(),
            serde_json::json!({"prompt": "hello"})
        );
        assert_eq!(
            request_of(&["--workflow", "daily"]).unwrap(),
            serde_json::json!({"workflow": "daily"})
        );
    }

    #[test]
    fn every_flag_becomes_its_field() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str, content: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            path.display().to_string()
        };
        let data = path("orders.csv", "a,b\n");
        let schema = format!("@{}", path("schema.json", "{\"type\": \"object\"}\n"));
        let renamed = format!("{data}=in/orders.csv");
        let arguments = [
            "hello",
            "--file",
            &data,
            "--file",
            &renamed,
            "--input",
            "{\"n\": 12345678901234567890123}",
            "--model",
            "runbook",
            "--fallback-model",
            "spare",
            "--effort",
            "xhigh",
            "--timeout",
            "60",
            "--max-cost",
            "$0.000005",
            "--workflow",
            "daily",
            "--max-steps",
            "7",
            "--no-shell",
            "--output-schema",
            &schema,
            "--input-schema",
            "{\"type\": \"object\"}",
            "--instructions",
            "Answer in French.",
            "--connection",
            "crm",
            "--connection",
            "mail",
            "--web",
            "--zero-data-retention",
            "--description",
            "Totals",
            "--tag",
            "june",
            "--tag",
            "sales",
            "--metadata",
            "team=a=b",
            "--metadata",
            "empty=",
            "--callback",
            "https://example.com/hook",
            "--callback-secret-env",
            "HOOK",
        ];
        let sent = request_of(&arguments).unwrap();
        assert_eq!(
            sent,
            serde_json::json!({
                "prompt": "hello", "workflow": "daily", "model": "runbook", "timeout_seconds": 60,
                "fallback_model": "spare", "effort": "xhigh", "max_cost_micros": 5, "max_steps": 7, "shell": false,
                "files": [{"path": "orders.csv", "content": "a,b\n"}, {"path": "in/orders.csv", "content": "a,b\n"}],
                "output_schema": {"type": "object"}, "input_schema": {"type": "object"}, "input": sent["input"],
                "instructions": "Answer in French.", "web": true, "zero_data_retention": true,
                "connections": {"crm": {"ref": "crm"}, "mail": {"ref": "mail"}}, "description": "Totals",
                "tags": ["june", "sales"], "metadata": {"team": "a=b", "empty": ""},
                "callback": {"url": "https://example.com/hook", "secret": "hush"}
            })
        );
    }

    #[test]
    fn web_access_may_be_restricted_to_domains() {
        let arguments = [
            "x",
            "--web",
            "--web-allow",
            "a.example",
            "--web-allow",
            "b.example",
        ];
        assert_eq!(
            request_of(&arguments).unwrap()["web"],
            serde_json::json!({"allow": ["a.example", "b.example"]})
        );
    }

    #[test]
    fn flags_replace_the_fields_of_the_request_and_numbers_keep_their_text() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let file = path("orders.csv", "a,b\n");
        for request in [
            path(
                "run.json",
                r#"{"prompt": "old", "model": "m", "tags": ["a"], "files": [{"path": "x", "content": "text"}]}"#,
            ),
            path(
                "run.yaml",
                "prompt: old\nmodel: m\ntags: [a]\nfiles:\n  - {path: x, content: text}\n",
            ),
            path(
                "run.toml",
                "prompt = 'old'\nmodel = 'm'\ntags = ['a']\nfiles = [{path = 'x', content = 'text'}]\n",
            ),
        ] {
            let unchanged = serde_json::json!({"prompt": "old", "model": "m", "tags": ["a"],
                "files": [{"path": "x", "content": "text"}]});
            assert_eq!(request_of(&["--request", &request]).unwrap(), unchanged);
            let arguments = ["new", "--request", &request, "--tag", "b", "--file", &file];
            assert_eq!(
                request_of(&arguments).unwrap(),
                serde_json::json!({"prompt": "new", "model": "m", "tags": ["b"],
                    "files": [{"path": "orders.csv", "content": "a,b\n"}]})
            );
        }
        let large = path(
            "large.json",
            r#"{"prompt": "x", "input": 12345678901234567890123}"#,
        );
        let draft = draft_of(&["--request", &large]).unwrap();
        assert_eq!(draft.fields["input"].get(), "12345678901234567890123");
        let text = path("run.txt", "");
        assert!(refusal(&["--request", &text]).contains("name it .toml, .yaml, .yml or .json"));
    }

    #[test]
    fn a_prompt_and_instructions_may_be_in_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("task.md");
        std::fs::write(&path, "Sum it.\n").unwrap();
        let file = format!("@{}", path.display());
        assert_eq!(
            request_of(&[&file, "--instructions", &file]).unwrap(),
            serde_json::json!({"prompt": "Sum it.\n", "instructions": "Sum it.\n"})
        );
        assert!(refusal(&["@/nowhere"]).starts_with("the prompt file /nowhere: No such file"));
    }

    #[test]
    fn piped_text_is_the_input_and_a_second_input_is_refused() {
        let mut draft = draft_of(&["--workflow", "daily"]).unwrap();
        draft.add_piped(None).unwrap();
        draft.add_piped(Some("a\n".to_owned())).unwrap();
        assert_eq!(draft.fields().unwrap()["input"].get(), r#""a\n""#);
        let refused = draft.add_piped(Some("b".to_owned())).unwrap_err();
        assert!(refused.to_string().contains("a run has one input"), "{refused}");
    }

    #[test]
    fn standard_input_is_the_prompt_or_the_request() {
        assert!(refusal(&["-", "--request", "-"]).contains("only one of the two"));
    }

    proptest! {
        #[test]
        fn metadata_keeps_every_pair(pairs in proptest::collection::btree_map("[^=\\-\0][^=\0]{0,8}", "[^\0]{0,12}", 1..6)) {
            let flags: Vec<String> = pairs.iter().map(|(key, value)| format!("--metadata={key}={value}")).collect();
            let arguments: Vec<&str> = ["x"].into_iter().chain(flags.iter().map(String::as_str)).collect();
            let sent = request_of(&arguments).map_err(|failure| TestCaseError::fail(failure.to_string()))?;
            prop_assert_eq!(&sent["metadata"], &serde_json::to_value(&pairs).unwrap());
            let twice: Vec<&str> = arguments.iter().copied().chain([flags[0].as_str()]).collect();
            prop_assert!(request_of(&twice).is_err());
        }

        #[test]
        fn a_flag_wins_over_the_request_and_other_fields_stay(
            base in proptest::collection::btree_map("[a-z]{1,6}", "[a-z]{0,4}", 0..5), model in proptest::option::of("[a-z]{1,5}"),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("run.json");
            std::fs::write(&path, serde_json::to_string(&base).unwrap()).unwrap();
            let path = path.display().to_string();
            let mut arguments = vec!["--request", path.as_str()];
            let mut expected = base;
            if let Some(model) = &model {
                arguments.extend(["--model", model]);
                expected.insert("model".to_owned(), model.clone());
            }
            let sent = request_of(&arguments).map_err(|failure| TestCaseError::fail(failure.to_string()))?;
            prop_assert_eq!(sent, serde_json::to_value(&expected).unwrap());
        }
    }

    #[test]
    fn what_is_no_text_or_too_large_is_left_to_be_uploaded() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str, content: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            path.display().to_string()
        };
        let (binary, zero) = (path("x.bin", &[0xff, 0xfe]), path("zero", b"a\0b"));
        let (large, small) = (path("large", &vec![b'x'; 8 << 20]), path("small", b"y"));
        let arguments = [
            "x", "--file", &binary, "--file", &zero, "--file", &large, "--file", &small,
        ];
        let files = request_of(&arguments).unwrap()["files"].clone();
        let inline: Vec<bool> = files
            .as_array()
            .unwrap()
            .iter()
            .map(|file| file["content"].is_string())
            .collect();
        assert_eq!(inline, [false, false, true, false]);
    }

    #[test]
    fn what_cannot_be_sent_is_refused_with_its_flag() {
        let folder = tempfile::tempdir().unwrap();
        let binary = folder.path().join("x.bin");
        std::fs::write(&binary, [0xff, 0xfe]).unwrap();
        let large = folder.path().join("large");
        std::fs::File::create(&large).unwrap().set_len(9 << 20).unwrap();
        let (binary, large) = (binary.display().to_string(), large.display().to_string());
        assert!(refusal(&["x", "--file", "/nowhere/x"]).starts_with("--file /nowhere/x: No such file"));
        assert!(refusal(&["x", "--output-schema", &format!("@{binary}")]).contains("not UTF-8 text"));
        assert!(refusal(&["x", "--output-schema", &format!("@{large}")]).contains("more than 8 MiB"));
        assert!(refusal(&["x", "--input", "{"]).starts_with("--input: not JSON: "));
        assert!(refusal(&["x", "--output-schema", "@/nowhere"]).starts_with("--output-schema /nowhere: "));
    }
}
