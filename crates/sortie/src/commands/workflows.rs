//! `sortie workflows`: run definitions that are saved under a name, from files.

use std::{collections::BTreeSet, io::Read, path::Path};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};
use sortie_api::{Timestamp, WorkflowSummary, plain};

use super::Context;
use crate::{
    args::{Name, PutWorkflows, WorkflowsCommand},
    client::{Client, delete, get, put},
    data_dir::replace_private,
    failure::{Exit, Failure, Result},
    input::{self, Fields},
    render::{self, Field, Look, Record, Render, lines, maybe, some, time},
    terminal::{self, harmless},
};

/// The fields that the engine sets: they are dropped, so that a printed record can be saved again.
const GIVEN: [&str; 3] = ["revision", "created_at", "updated_at"];

/// Workflow as `sortie workflows get` prints it.
#[derive(Debug, Serialize, Deserialize)]
struct Workflow {
    name: String,
    prompt: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    model: Option<String>,
    revision: i64,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl Record for WorkflowSummary {
    const COLUMNS: &'static [Field<Self>] = &[
        ("WORKFLOW", |workflow| some(&workflow.name)),
        ("WHAT IT DOES", |workflow| {
            maybe(workflow.description.as_ref()?.lines().next())
        }),
    ];
    const CUT: &'static [&'static str] = &["WHAT IT DOES"];
}

/// Workflow as the engine's own text, so that values keep their original form.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
struct Saved(Box<RawValue>);

impl Record for Saved {
    const COLUMNS: &'static [Field<Self>] = &[("WORKFLOW", |saved| some(read(&saved.0).ok()?.name))];

    fn text(&self, look: &Look) -> String {
        match read(&self.0) {
            Ok(workflow) => workflow.text(look),
            Err(failure) => format!("{failure}\n"),
        }
    }
}

impl Record for Workflow {
    const LINES: &'static [Field<Self>] = &[
        ("workflow", |workflow| some(&workflow.name)),
        ("about", |workflow| maybe(workflow.description.as_ref())),
        ("model", |workflow| maybe(workflow.model.as_ref())),
        ("revision", |workflow| some(workflow.revision)),
        ("created", |workflow| time(workflow.created_at)),
        ("updated", |workflow| time(workflow.updated_at)),
    ];

    fn text(&self, look: &Look) -> String {
        format!("{}\n{}\n", lines(self, look), harmless(self.prompt.trim_end()))
    }
}

fn path(name: &Name) -> String {
    format!("v1/workflows/{name}")
}

pub(super) async fn execute(context: &Context, command: WorkflowsCommand) -> Result<Exit> {
    match command {
        WorkflowsCommand::List(render) => {
            let path = "v1/workflows?detail=true";
            context.list::<WorkflowSummary>(&render, get(path)).await
        }
        WorkflowsCommand::Get { name, render } => context.one::<Saved>(&render, get(path(&name))).await,
        WorkflowsCommand::Edit { name } => edit(context, &name).await,
        WorkflowsCommand::Put(args) => put_all(context, &args).await,
        WorkflowsCommand::Delete { names } => {
            let delete = async |client: &Client| {
                for name in &names {
                    client.ask::<()>(delete(path(name))).await?;
                    terminal::note(&format!("workflow {name} is deleted"));
                }
                Ok(Exit::Success)
            };
            context.call(&Render::default(), delete).await
        }
    }
}

fn read(record: &RawValue) -> Result<Workflow> {
    serde_json::from_str(record.get()).map_err(|error| {
        Failure::unavailable(format!(
            "the engine sent a workflow that cannot be read: {}",
            plain::json(&error)
        ))
    })
}

/// Lets the user change a definition as TOML. At a terminal the editor opens again with the reason at the top if the text
/// cannot be read or the engine refuses it; a text that stays as it is ends the command.
async fn edit(context: &Context, name: &Name) -> Result<Exit> {
    let edit = async |client: &Client| {
        let record: Map<String, Value> = client.ask(get(path(name))).await?;
        let mut shown = document(&record)?;
        let mut refusal = None;
        loop {
            let edited = edit::edit_with_builder(&shown, edit::Builder::new().suffix(".toml"));
            let edited = edited.map_err(|error| {
                Failure::usage(format!(
                    "cannot start an editor: {}; name one in EDITOR",
                    plain::io(&error)
                ))
            })?;
            if edited == shown {
                return Err(match refusal {
                    Some(failure) => kept(name, &edited, &failure),
                    None => Failure::usage(format!("workflow {name} is unchanged")),
                });
            }
            let failure = match save(client, name, &edited).await {
                Ok(revision) => {
                    terminal::note(&format!("workflow {name} is saved, revision {revision}"));
                    return Ok(Exit::Success);
                }
                Err(failure) if failure.exit == Exit::Usage && context.terminal.stderr_is_terminal() => {
                    failure
                }
                Err(failure) => return Err(kept(name, &edited, &failure)),
            };
            let text = edited.lines().skip_while(|line| line.starts_with(REFUSED));
            shown = format!("{REFUSED} {failure}\n{}\n", text.collect::<Vec<_>>().join("\n"));
            refusal = Some(failure);
        }
    };
    context.call(&Render::default(), edit).await
}

/// Writes a text that could not be saved to a file, and returns the failure with its path.
fn kept(name: &Name, text: &str, failure: &Failure) -> Failure {
    let path = std::env::temp_dir().join(format!("sortie-{name}-{}.toml", std::process::id()));
    let kept = match replace_private(&path, text) {
        Ok(()) => format!("your text is in {}", path.display()),
        Err(error) => format!("your text is lost: {}: {}", path.display(), plain::io(&error)),
    };
    Failure::new(failure.exit, format!("{failure}; {kept}"))
}

/// Beginning of the line with which an editor shows why a text was refused.
const REFUSED: &str = "# refused:";

/// Saves a definition in TOML and returns its revision.
async fn save(client: &Client, name: &Name, text: &str) -> Result<i64> {
    let definition: Value = input::toml(text).map_err(Failure::usage)?.into();
    let saved: Workflow = client.ask(put(path(name), &definition)).await?;
    Ok(saved.revision)
}

/// Returns the definition in a record as TOML.
fn document(record: &Map<String, Value>) -> Result<String> {
    let given = ["name"].iter().chain(&GIVEN);
    let mut definition = record.clone();
    for field in given {
        definition.remove(*field);
    }
    render::toml(definition.into())
}

async fn put_all(context: &Context, args: &PutWorkflows) -> Result<Exit> {
    // Nothing is sent before everything was read.
    let all = files(args)?;
    let put_all = async |client: &Client| {
        for workflow in &all {
            let saved = client.ask(put(path(&workflow.name), &workflow.definition)).await;
            let record: Box<RawValue> = saved
                .map_err(|failure| Failure::new(failure.exit, format!("{}: {failure}", workflow.place)))?;
            args.render.answer(&record, |record| {
                let Workflow { name, revision, .. } = read(record)?;
                terminal::note(&format!("workflow {name} is saved, revision {revision}"));
                Ok(())
            })?;
        }
        Ok(Exit::Success)
    };
    context.call(&args.render, put_all).await
}

/// A workflow to put, and the file it is from.
#[derive(Debug)]
struct FromFile {
    place: String,
    name: Name,
    definition: Fields,
}

fn files(args: &PutWorkflows) -> Result<Vec<FromFile>> {
    if args.name.is_some() && args.files.len() > 1 {
        return Err(Failure::usage(
            "--name is for one file: several are named by themselves",
        ));
    }
    let mut names = BTreeSet::new();
    args.files
        .iter()
        .map(|path| {
            let file = from_file(path, args.name.clone(), &mut std::io::stdin())?;
            if names.insert(file.name.to_string()) {
                Ok(file)
            } else {
                Err(Failure::usage(format!(
                    "{}: {} is there already",
                    file.place, file.name
                )))
            }
        })
        .collect()
}

fn from_file(path: &Path, name: Option<Name>, stdin: &mut impl Read) -> Result<FromFile> {
    let (place, mut definition) = input::object(path, stdin)?;
    let wrong = |what: String| Failure::usage(format!("{place}: {what}"));
    let own_name = definition.remove("name");
    for field in GIVEN {
        definition.remove(field);
    }
    let own_name = own_name.map(|name| serde_json::from_str::<String>(name.get()));
    let name = match (name, own_name) {
        (Some(name), _) => name,
        (None, Some(Ok(name))) => named(&name).map_err(|rule| wrong(format!("name: {rule}")))?,
        (None, Some(Err(_))) => return Err(wrong("name: must be a text".to_owned())),
        (None, None) if path == Path::new("-") => {
            return Err(wrong("has no name: give one by --name".to_owned()));
        }
        (None, None) => {
            let stem = path
                .file_stem()
                .and_then(|stem| stem.to_str())
                .unwrap_or_default();
            named(stem)
                .map_err(|rule| wrong(format!("cannot be named as the file, give it a `name`: {rule}")))?
        }
    };
    Ok(FromFile {
        place,
        name,
        definition,
    })
}

fn named(text: &str) -> std::result::Result<Name, &'static str> {
    text.parse()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::json;

    use super::*;
    use crate::render::{Look, table};

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn file(&self, name: &str, text: &str) -> PathBuf {
            let path = self.0.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        }

        fn read(&self, name: &str, text: &str) -> Result<(String, Value)> {
            let path = self.file(name, text);
            from_file(&path, None, &mut std::io::empty()).map(|file| {
                (
                    file.name.to_string(),
                    serde_json::to_value(file.definition).unwrap(),
                )
            })
        }
    }

    fn folder() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    #[test]
    fn the_same_workflow_is_read_from_every_form() {
        let folder = folder();
        let expected = json!({"prompt": "Look at\nyesterday.\n", "shell": false, "timeout_seconds": 60,
            "input": {"day": "2026-11-20", "share": 0.5, "at": [1, null]}, "tags": ["no", "1e3"]});
        let mut record = expected.clone();
        for (field, value) in [
            ("name", json!("other")),
            ("revision", json!(3)),
            ("created_at", json!("x")),
        ] {
            record[field] = value;
        }
        assert_eq!(
            folder.read("daily.json", &record.to_string()).unwrap(),
            ("other".to_owned(), expected.clone())
        );
        let yaml = "prompt: |\n  Look at\n  yesterday.\nshell: false\ntimeout_seconds: 60\n\
            input: {day: 2026-11-20, share: 0.5, at: [1, null]}\ntags: [\"no\", \"1e3\"]\n";
        for name in ["daily.yaml", "daily.yml"] {
            assert_eq!(
                folder.read(name, yaml).unwrap(),
                ("daily".to_owned(), expected.clone())
            );
        }
        let toml = "prompt = '''\nLook at\nyesterday.\n'''\nshell = false\ntimeout_seconds = 60\ntags = ['no', '1e3']\n\
            [input]\nday = 2026-11-20\nshare = 0.5\nat = [1]\n";
        let mut without_null = expected;
        without_null["input"]["at"] = json!([1]);
        assert_eq!(
            folder.read("daily.toml", toml).unwrap(),
            ("daily".to_owned(), without_null)
        );
    }

    #[test]
    fn errors_point_at_the_file_and_the_place_in_it() {
        let folder = folder();
        for (name, text, told) in [
            (
                "a.json",
                "{\n\"prompt\": x}",
                "a.json: not JSON: a value is missing or is not one of JSON (line 2, column 11)",
            ),
            ("a.yaml", "prompt: x\nshell: [\n", "a.yaml: not YAML: line "),
            ("a.yaml", "prompt: x\nprompt: y\n", "line 2"),
            (
                "a.toml",
                "prompt = 'x'\nshell = yes\n",
                "a.toml: not TOML: line 2, column 9: a text must be in quotes",
            ),
            ("a.toml", "input = nan\n", "a.toml: input: has a number"),
            ("a.txt", "prompt", "a.txt: name it .toml, .yaml, .yml or .json"),
            ("No name.toml", "", "No name.toml: cannot be named as the file"),
            ("a.toml", "name = 'No name'", "a.toml: name: a name is"),
            ("a.toml", "name = 1", "a.toml: name: must be a text"),
            ("a.json", "[]", "a.json: not JSON: "),
        ] {
            let refusal = folder.read(name, text).unwrap_err();
            assert_eq!(refusal.exit, Exit::Usage);
            assert!(refusal.to_string().contains(told), "{refusal}");
        }
        let nowhere = from_file(Path::new("/nowhere/a.toml"), None, &mut std::io::empty());
        assert!(
            nowhere
                .unwrap_err()
                .to_string()
                .starts_with("/nowhere/a.toml: cannot be read: ")
        );
    }

    #[test]
    fn standard_input_is_json_and_is_given_a_name() {
        let read = |text: &str, name: Option<&str>| {
            let name = name.map(|name| name.parse().unwrap());
            from_file(Path::new("-"), name, &mut text.as_bytes()).map(|file| file.name.to_string())
        };
        assert_eq!(read("{\"prompt\": \"x\"}", Some("daily")).unwrap(), "daily");
        assert_eq!(read("{\"name\": \"own\"}", None).unwrap(), "own");
        assert_eq!(read("{\"name\": \"own\"}", Some("daily")).unwrap(), "daily");
        assert!(read("{}", None).unwrap_err().to_string().contains("--name"));
        assert!(
            read("prompt = 'x'", Some("a"))
                .unwrap_err()
                .to_string()
                .starts_with("standard input: not JSON")
        );
    }

    #[test]
    fn two_files_of_one_name_are_refused() {
        let folder = folder();
        let files_of = |name: Option<&str>| PutWorkflows {
            files: vec![folder.file("a.toml", ""), folder.file("b.toml", "name = 'a'")],
            name: name.map(|name| name.parse().unwrap()),
            render: Render::default(),
        };
        assert!(
            files(&files_of(None))
                .unwrap_err()
                .to_string()
                .ends_with("b.toml: a is there already")
        );
        assert!(
            files(&files_of(Some("c")))
                .unwrap_err()
                .to_string()
                .starts_with("--name is for one file")
        );
    }

    #[test]
    fn a_list_and_a_record_show_what_they_have() {
        let all = [
            ("a", None),
            ("daily-report", Some("Yesterday's sales\u{1b}[2J.\nMore.")),
        ]
        .map(|(name, description)| WorkflowSummary {
            name: name.to_owned(),
            description: description.map(str::to_owned),
            model: None,
            files: Vec::new(),
            connections: Vec::new(),
            revision: None,
            updated_at: None,
            runs_30d: None,
            cost_30d_micros: None,
            input_schema: None,
            output_schema: None,
        });
        assert_eq!(
            table(&all, &Look::plain()),
            "WORKFLOW      WHAT IT DOES\na             -\ndaily-report  Yesterday's sales\u{fffd}[2J.\n"
        );
        let record = json!({"name": "a", "prompt": "x", "model": "runbook", "revision": 2,
            "created_at": "2026-11-20T21:30:00.000Z", "updated_at": "2026-11-21T08:00:00.000Z", "tags": []});
        let record: Workflow = serde_json::from_value(record).unwrap();
        assert_eq!(
            lines(&record, &Look::plain()),
            "workflow  a\nmodel     runbook\nrevision  2\ncreated   2026-11-20T21:30:00.000Z\nupdated   2026-11-21T08:00:00.000Z\n"
        );
    }
}
