//! The file tools on real working directories, including hostile content.

use std::{io::Write as _, os::unix::fs::symlink};

use sortie_testkit::rows;

use crate::{
    files::{self, write},
    prelude::*,
};

/// Returns the output of each call, in a directory that `prepare` has filled.
async fn told(prepare: impl FnOnce(&Path), asked: &[(&'static str, Value)]) -> Vec<String> {
    files::told(&untouched(), false, prepare, |_| asked.to_vec())
        .await
        .texts()
}

#[tokio::test]
async fn a_file_is_written_read_edited_listed_and_found() {
    let told = told(
        |_| {},
        &rows! {
            "write_file", json!({"path": "./notes/a.txt", "content": "one\ntwo\nthree\n"});
            "read_file", json!({"path": "notes/a.txt", "start_line": 2, "end_line": 2});
            "edit_file", json!({"path": "notes/a.txt", "old_text": "two", "new_text": "zwei"});
            "read_file", json!({"path": "notes/a.txt"});
            "write_file", json!({"path": "notes/a.txt", "content": "four\n"});
            "list_files", json!({});
            "search_files", json!({"regex": "^f.ur$"});
        },
    )
    .await;
    assert_eq!(
        told,
        [
            "created notes/a.txt (14 bytes)",
            "two\n",
            "edited notes/a.txt at line 2\n     1\tone\n     2\tzwei\n     3\tthree\n",
            "one\nzwei\nthree\n",
            "replaced notes/a.txt (5 bytes)",
            "notes/\nnotes/a.txt (5 bytes)\n",
            "notes/a.txt:1: four\n",
        ]
    );
}

#[tokio::test]
async fn links_and_sockets_are_neither_followed_nor_waited_for() {
    let told = told(
        |dir| {
            symlink("/etc/passwd", dir.join("link")).unwrap();
            symlink("/etc", dir.join("folder")).unwrap();
            make_socket(&dir.join("socket"));
        },
        &[
            ("read_file", json!({"path": "link"})),
            ("read_file", json!({"path": "folder/passwd"})),
            ("write_file", json!({"path": "link", "content": "x"})),
            (
                "edit_file",
                json!({"path": "folder/passwd", "old_text": "root", "new_text": "x"}),
            ),
            ("list_files", json!({"path": "folder"})),
            ("search_files", json!({"regex": "root", "path": "link"})),
            ("search_files", json!({"regex": "root"})),
            ("list_files", json!({})),
        ],
    )
    .await;
    for refused in &told[..6] {
        assert!(
            refused.contains("link") || refused.contains("not a regular file"),
            "{refused}"
        );
        assert!(!refused.contains("root:"), "{refused}");
    }
    assert_eq!(told[6], "[no line matches]\n");
    assert!(
        told[7].contains("folder (link)\n") && told[7].contains("link (link)\n"),
        "{}",
        told[7]
    );
}

/// A socket, which like a pipe is no file; the standard library cannot create named pipes.
fn make_socket(path: &Path) {
    drop(std::os::unix::net::UnixListener::bind(path).unwrap());
}

#[tokio::test]
async fn large_and_binary_files_are_read_within_bounds() {
    let told = told(
        |dir| {
            let mut file = std::fs::File::create(dir.join("large")).unwrap();
            for number in 0..200_000 {
                writeln!(file, "line {number}").unwrap();
            }
            write(dir, "binary", b"\x7fELF\0\0root");
            write(dir, "latin", b"caf\xe9\n");
            write(dir, "wide", "x".repeat(3_000_000));
        },
        &rows! {
            "read_file", json!({"path": "large"});
            "read_file", json!({"path": "large", "start_line": 150_001, "end_line": 150_002});
            "read_file", json!({"path": "large", "start_line": 300_000});
            "read_file", json!({"path": "binary"});
            "read_file", json!({"path": "latin"});
            "read_file", json!({"path": "wide"});
            "edit_file", json!({"path": "latin", "old_text": "caf", "new_text": "x"});
            "search_files", json!({"regex": "^line 19999[0-9]$"});
            "search_files", json!({"regex": "line"});
            "search_files", json!({"regex": "root"});
        },
    )
    .await;
    assert!(told[0].starts_with("line 0\n") && told[0].len() < 33_000);
    assert!(
        told[0].ends_with("more follows: go on with start_line 3388]"),
        "{}",
        &told[0][told[0].len() - 80..]
    );
    assert_eq!(told[1], "line 150000\nline 150001\n");
    assert_eq!(told[2], "large: has only 200000 lines, start_line is 300000");
    assert_eq!(told[3], "binary: a binary file of 10 bytes, not text");
    assert_eq!(told[4], "caf\u{fffd}\n");
    assert!(told[5].ends_with("[line 1 is longer than what fits: only its first 32768 bytes are shown]"));
    assert_eq!(told[6], "latin: not UTF-8 text; nothing was changed");
    assert_eq!(told[7].lines().count(), 10);
    assert!(told[7].starts_with("large:199991: line 199990\n"));
    assert!(told[8].ends_with("[there are more matches: search for something narrower]\n"));
    assert_eq!(told[8].lines().count(), 201);
    assert_eq!(told[9], "[no line matches]\n");
}

#[tokio::test]
async fn many_files_are_listed_and_searched_within_bounds() {
    let told = told(
        |dir| {
            for number in 0..1_500 {
                write(dir, &format!("many/{number:04}.txt"), "needle\n");
            }
            write(dir, "src/main.rs", "fn needle() {}\n");
            write(
                dir,
                "src/deep/lib.rs",
                format!("{} needle {}\n", "a".repeat(400), "b".repeat(400)),
            );
            write(dir, "odd\nname", "");
        },
        &[
            ("list_files", json!({"path": "many/"})),
            ("list_files", json!({"pattern": "*.rs"})),
            ("list_files", json!({"pattern": "src/*.rs"})),
            ("list_files", json!({"max_depth": 1})),
            ("list_files", json!({"path": "none"})),
            ("list_files", json!({"path": "src/main.rs"})),
            ("list_files", json!({"pattern": "{"})),
            ("search_files", json!({"regex": "needle", "pattern": "*.rs"})),
            ("search_files", json!({"regex": "NEEDLE", "path": "src/main.rs"})),
            (
                "search_files",
                json!({"regex": "(?i)NEEDLE", "path": "src/main.rs"}),
            ),
            ("search_files", json!({"regex": "(a"})),
            ("search_files", json!({"regex": "a", "path": "none"})),
        ],
    )
    .await;
    assert!(told[0].ends_with("[there are more: name a folder or a narrower pattern]\n"));
    assert!(told[0].lines().count() <= 1_001);
    assert_eq!(told[1], "src/deep/lib.rs (809 bytes)\nsrc/main.rs (15 bytes)\n");
    assert_eq!(told[2], "src/main.rs (15 bytes)\n");
    assert_eq!(told[3], "many/\nodd\\nname (0 bytes)\nsrc/\n");
    assert_eq!(told[4], "none: no such file or folder");
    assert_eq!(told[5], "src/main.rs (15 bytes)");
    assert_eq!(told[6], "pattern: a `{` without its `}`");
    let found: Vec<&str> = told[7].lines().collect();
    assert!(
        found[0].starts_with("src/deep/lib.rs:1: …aaaa")
            && found[0].contains("needle")
            && found[0].len() < 350
    );
    assert_eq!(found[1], "src/main.rs:1: fn needle() {}");
    assert_eq!(told[8], "[no line matches]\n");
    assert_eq!(told[9], "src/main.rs:1: fn needle() {}\n");
    assert!(told[10].starts_with("regex: "));
    assert_eq!(told[11], "none: no such file or folder");
}

#[tokio::test]
async fn a_path_out_of_the_directory_names_the_rule() {
    let asked: Vec<_> = ["/etc/passwd", "../x", "a/../../x", "", "a\u{0}b"]
        .map(|path| ("write_file", json!({"path": path, "content": "x"})))
        .to_vec();
    for told in told(|_| {}, &asked).await {
        assert!(told.starts_with("path: must "), "{told}");
    }
}
