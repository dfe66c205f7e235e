//! The file tools as models use them by habit: absolute paths, names of other tools, pictures, ignored files.

use std::fs::File;

use sortie_agent::Media;
use sortie_base::descriptors::PAUSE;
use sortie_testkit::rows;

use crate::prelude::*;

/// A scripted model that takes pictures and documents.
pub(crate) struct Sees(pub(crate) Scripted);

impl Model for Sees {
    fn info(&self) -> &ModelInfo {
        self.0.info()
    }

    fn media_tokens(&self, _media: &Media) -> Option<u64> {
        Some(1_000)
    }

    fn call<'a>(
        &'a self,
        request: Request<'a>,
        deltas: &'a dyn Deltas,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        self.0.call(request, deltas)
    }
}

/// Results of a run's calls, and the events that show the calls.
pub(crate) struct Told {
    results: Vec<ToolContent>,
    events: Vec<Value>,
}

impl Told {
    pub(crate) fn texts(&self) -> Vec<String> {
        self.results
            .iter()
            .map(|result| result.text().into_owned())
            .collect()
    }
}

/// Makes the calls one after another, in a directory that `prepare` has filled; `asked` receives its path.
pub(crate) async fn told(
    backend: &Arc<Pretended>,
    sees: bool,
    prepare: impl FnOnce(&Path),
    asked: impl FnOnce(&str) -> Vec<(&'static str, Value)>,
) -> Told {
    let (mut workspace, root) = workspace(backend);
    workspace.stage(Vec::new()).await.unwrap();
    let dir = root.path().join("run");
    prepare(&dir);
    let mut script: Vec<_> = asked(dir.to_str().unwrap())
        .into_iter()
        .map(|call| calls(&[call]).into())
        .collect();
    script.push(says("done").into());
    let model = Sees(Scripted::new(script));
    let recorder = Recorder::default();
    let model: &dyn Model = if sees { &model } else { &model.0 };
    let _ = run_agent(spec("Go."), model, &mut workspace, &recorder).await;
    workspace.close().await.unwrap();
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
    let results = recorder.entries().into_iter().filter_map(|entry| {
        let What::Result(result) = entry.what else {
            return None;
        };
        Some(result.content)
    });
    Told {
        results: results.collect(),
        events: recorder.data("tool_start"),
    }
}

pub(crate) fn write(dir: &Path, path: &str, content: impl AsRef<[u8]>) {
    let path = dir.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

/// A picture of these sides, as far as its header tells.
fn png(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
    bytes.extend(width.to_be_bytes());
    bytes.extend(height.to_be_bytes());
    bytes
}

#[tokio::test]
async fn the_absolute_paths_that_commands_print_are_understood() {
    let told = told(
        &untouched(),
        false,
        |dir| write(dir, "src/a.txt", "one\n"),
        |dir| {
            Vec::from(rows! {
                "read_file", json!({"path": format!("{dir}/src/a.txt")});
                "list_files", json!({"path": dir});
                "search_files", json!({"regex": "one", "path": format!("{dir}/src/")});
                "write_file", json!({"path": format!("{dir}/src/b.txt"), "content": "two\n"});
                "edit_file", json!({"path": format!("file://{dir}/src/b.txt"), "old_text": "two", "new_text": "2"});
                "read_file", json!({"path": "~/src/b.txt"});
                "read_file", json!({"path": format!("{dir}.tmp/c.txt")});
                "read_file", json!({"path": "/etc/passwd"});
            })
        },
    )
    .await
    .texts();
    assert_eq!(
        told[..6],
        [
            "one\n",
            "src/\nsrc/a.txt (4 bytes)\n",
            "src/a.txt:1: one\n",
            "created src/b.txt (4 bytes)",
            "edited src/b.txt at line 1\n     1\t2\n",
            "2\n",
        ]
    );
    assert!(
        told[6].ends_with(
            "is in the temporary directory, and only commands reach that: copy the file with `cp`"
        )
    );
    assert!(told[7].ends_with("\"/etc/passwd\" is outside of it, and only commands reach that"));
}

#[tokio::test]
async fn tools_and_fields_are_known_by_the_names_of_other_agents() {
    let told = told(
        &untouched(),
        false,
        |dir| write(dir, "a.txt", "one\ntwo\nthree\n"),
        |_| {
            vec![
                ("Read", json!({"file_path": "a.txt", "offset": "2", "limit": 1})),
                (
                    "str_replace",
                    json!({"path": "a.txt", "old_str": "two", "new_str": "2"}),
                ),
                ("grep", json!({"pattern": "^2$", "-n": true})),
                ("ls", json!({"path": "."})),
                ("view", json!("{\"path\": \"a.txt\", \"view_range\": [1, 1]}")),
                ("create_file", json!({"filename": "b.txt", "file_text": 7})),
                ("edit_file", json!({"path": "a.txt", "new_text": "x"})),
                ("apply_patch", json!({"patch": "x"})),
            ]
        },
    )
    .await;
    let texts = told.texts();
    assert_eq!(
        texts[..6],
        [
            "two\n",
            "edited a.txt at line 2\n     1\tone\n     2\t2\n     3\tthree\n",
            "a.txt:2: 2\n",
            "a.txt (12 bytes)\n",
            "one\n",
            "created b.txt (1 bytes)",
        ]
    );
    assert!(
        texts[6].starts_with("edit_file: old_text is missing; it must be a string. Fields: path (string), ")
    );
    assert!(texts[7].starts_with("there is no tool `apply_patch`; there are: shell, "));
    // The tool's name is normalized there, the arguments are verbatim.
    assert_eq!(told.events[0]["tool"], "read_file");
    assert_eq!(
        told.events[0]["arguments"],
        json!({"file_path": "a.txt", "offset": "2", "limit": 1})
    );
    assert_eq!(
        told.events[4]["arguments"],
        json!({"path": "a.txt", "view_range": [1, 1]})
    );
}

#[tokio::test]
async fn ignored_files_are_left_out_unless_they_are_asked_for() {
    let told = told(
        &untouched(),
        false,
        |dir| {
            write(dir, ".gitignore", "target/\n*.log\n");
            write(dir, ".git/config", "needle\n");
            write(dir, "target/debug/out.txt", "needle\n");
            write(dir, "run.log", "needle\n");
            write(
                dir,
                "src/main.rs",
                "// needle\nfn main() {}\n// a\n// b\n// needle\n",
            );
        },
        |_| {
            Vec::from(rows! {
                "list_files", json!({});
                "list_files", json!({"include_ignored": true, "max_depth": 1});
                "search_files", json!({"regex": "needle"});
                "search_files", json!({"regex": "NEEDLE", "ignore_case": true, "context": 1});
                "search_files", json!({"regex": "needle", "files_only": true, "include_ignored": true});
                "search_files", json!({"regex": "needle", "path": "target"});
                "search_files", json!({"regex": "needle", "path": "run.log"});
            })
        },
    )
    .await
    .texts();
    let note = "[3 entries are left out (.git, what .gitignore names): include_ignored: true shows them]\n";
    assert_eq!(
        told,
        [
            format!(".gitignore (14 bytes)\nsrc/\nsrc/main.rs (43 bytes)\n{note}"),
            ".git/\n.gitignore (14 bytes)\nrun.log (7 bytes)\nsrc/\ntarget/\n".to_owned(),
            format!("src/main.rs:1: // needle\nsrc/main.rs:5: // needle\n{note}"),
            format!(
                "src/main.rs:1: // needle\nsrc/main.rs-2- fn main() {{}}\n--\nsrc/main.rs-4- // b\nsrc/main.rs:5: // \
                 needle\n{note}"
            ),
            ".git/config (1 line)\nrun.log (1 line)\nsrc/main.rs (2 lines)\ntarget/debug/out.txt (1 line)\n[5 lines in 4 \
             files]\n"
                .to_owned(),
            "target/debug/out.txt:1: needle\n".to_owned(),
            "run.log:1: needle\n".to_owned(),
        ]
    );
}

#[tokio::test]
async fn a_missing_file_leads_to_names_like_it() {
    let told = told(
        &untouched(),
        false,
        |dir| {
            for path in [
                "src/main.rs",
                "tests/main.rs",
                "README.md",
                "node_modules/mian.rs",
            ] {
                write(dir, path, "x\n");
            }
            write(dir, ".gitignore", "node_modules\n");
        },
        |_| {
            vec![
                ("read_file", json!({"path": "src/mian.rs"})),
                (
                    "edit_file",
                    json!({"path": "main.rs", "old_text": "x", "new_text": "y"}),
                ),
                ("read_file", json!({"path": "readme.md"})),
                ("search_files", json!({"regex": "x", "path": "quite/another"})),
            ]
        },
    )
    .await
    .texts();
    assert_eq!(
        told,
        [
            "src/mian.rs: no such file or folder; there are src/main.rs, tests/main.rs",
            "main.rs: no such file or folder; there are src/main.rs, tests/main.rs",
            "readme.md: no such file or folder; there is README.md",
            "quite/another: no such file or folder",
        ]
    );
}

#[tokio::test]
async fn a_picture_is_shown_to_a_model_that_sees() {
    let prepare = |dir: &Path| {
        write(dir, "outputs/chart.dat", png(1200, 800));
        write(dir, "huge.png", png(9000, 10));
        write(dir, "torn.png", b"\x89PNG\r\n\x1a\n");
        write(dir, "text.png", "not a picture\n");
    };
    let asked = |_: &str| {
        ["outputs/chart.dat", "huge.png", "torn.png", "text.png"]
            .map(|path| ("read_file", json!({"path": path})))
            .to_vec()
    };
    let seen = told(&untouched(), true, prepare, asked).await;
    let ToolContent::Media(media) = &seen.results[0] else {
        panic!("{:?}", seen.results[0]);
    };
    assert_eq!(
        (media.media_type.as_str(), media.pixels, media.tokens),
        ("image/png", Some((1200, 800)), 1_000)
    );
    let texts = seen.texts();
    assert_eq!(
        texts[0],
        "outputs/chart.dat: a PNG picture, 1200 x 800 pixels, 24 bytes"
    );
    assert!(texts[1].contains("at most 8000 pixels a side"));
    assert_eq!(
        texts[2],
        "torn.png: a broken picture of 8 bytes: its header cannot be read"
    );
    assert_eq!(texts[3], "not a picture\n");
    let blind = told(&untouched(), false, prepare, asked).await.texts();
    assert_eq!(
        blind[0],
        "outputs/chart.dat: a PNG picture, 1200 x 800 pixels, 24 bytes; this model cannot see pictures"
    );
}

#[tokio::test]
async fn a_document_is_shown_or_read_as_text() {
    let prepare = |dir: &Path| write(dir, "-a.pdf", "%PDF-1.7\n");
    let asked = |_: &str| vec![("read_file", json!({"path": "-a.pdf"}))];
    let seen = told(&untouched(), true, prepare, asked).await;
    assert!(matches!(&seen.results[0], ToolContent::Media(media) if media.media_type == "application/pdf"));
    let reader = Pretended::new(&["pdftotext"], |_| prints("page one\n"));
    let read = told(&reader, false, prepare, asked).await.texts();
    assert_eq!(
        read,
        ["[-a.pdf: a PDF document, 9 bytes; this model cannot see documents: the text]\npage one\n"]
    );
    assert_eq!(
        reader.commands()[0].argv,
        ["pdftotext", "-layout", "-enc", "UTF-8", "./-a.pdf", "-"]
    );
    let empty = Pretended::new(&["pdftotext"], |_| prints("\u{c}"));
    let told_of_empty = told(&empty, false, prepare, asked).await.texts();
    assert!(told_of_empty[0].contains("holds no text"), "{told_of_empty:?}");
    let nothing = Pretended::new(&[], |_| prints(""));
    let told_of_none = told(&nothing, false, prepare, asked).await.texts();
    assert!(
        told_of_none[0].ends_with("there is no `pdftotext` to read its text with"),
        "{told_of_none:?}"
    );
}

/// The transcript holds the picture itself, for the model to be sent.
#[tokio::test]
async fn a_picture_is_part_of_the_transcript() {
    let (mut workspace, root) = workspace(&untouched());
    workspace.stage(Vec::new()).await.unwrap();
    write(&root.path().join("run"), "a.png", png(2, 1));
    let model = Sees(scripted![
        calls(&[("read_file", json!({"path": "a.png"}))]),
        says("done")
    ]);
    let _ = run_agent(spec("Go."), &model, &mut workspace, &Recorder::default()).await;
    workspace.close().await.unwrap();
    let transcripts = model.0.transcripts();
    let Some(Turn::ToolResults(results)) = transcripts.last().and_then(|turns| turns.last()) else {
        panic!("no results");
    };
    assert!(matches!(&results[0].content, ToolContent::Media(media) if media.pixels == Some((2, 1))));
}

/// Holds the descriptors of the process, but for some.
fn all_but(room: usize) -> Vec<File> {
    let mut held = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        held.push(file);
    }
    held.truncate(held.len() - room);
    held
}

#[tokio::test(start_paused = true)]
async fn the_file_tools_wait_where_there_is_no_descriptor() {
    let change = json!({"path": "a/there.txt", "old_text": "two", "new_text": "three"});
    let tools = rows! {
        "write_file", json!({"path": "a/new.txt", "content": "x"}), "created a/new.txt";
        "read_file", json!({"path": "a/there.txt"}), "one\ntwo";
        "edit_file", change, "edited a/there.txt";
        "list_files", json!({}), "a/there.txt";
        "search_files", json!({"regex": "t.o"}), "a/there.txt";
        "search_files", json!({"regex": "t.o", "path": "a/there.txt"}), "two";
    };
    for (tool, arguments, expected) in tools {
        // With room for some, but not for all that it takes, a try fails half-way.
        for room in 0..3 {
            let (backend, held) = (untouched(), Mutex::new(Vec::new()));
            let arguments = arguments.clone();
            let called = told(
                &backend,
                false,
                |dir| {
                    std::fs::create_dir(dir.join("a")).unwrap();
                    std::fs::write(dir.join("a/there.txt"), "one\ntwo\n").unwrap();
                },
                |_| {
                    *held.lock() = all_but(room);
                    vec![(tool, arguments)]
                },
            );
            let (told, ()) = tokio::join!(called, async {
                while held.lock().is_empty() {
                    tokio::task::yield_now().await;
                }
                tokio::time::sleep(4 * PAUSE).await;
                held.lock().clear();
            });
            let texts = told.texts();
            assert!(
                texts[0].contains(expected),
                "{tool} with room for {room}: {texts:?}"
            );
        }
    }
}
