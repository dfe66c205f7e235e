//! Tasks on code: a bug, edits with the wrong white space, tool names of other harnesses, a large tree.

use sortie_testkit::prelude::*;

use crate::{
    rig::{Task, limits, nothing_else, run},
    stages::{at_once, shell, stage, staged},
};

pub(crate) fn tasks() -> Vec<Task> {
    vec![
        fix_bug(),
        white_space(),
        other_names(),
        several_calls(),
        large_tree(),
    ]
}

const CALC: &str = "\"\"\"Figures of a shop.\"\"\"\n\n\ndef mean(values):\n    total = 0\n    for value in values:\n        total += value\n    return total / (len(values) - 1)\n";
const CALC_TEST: &str = "import unittest\n\nfrom calc import mean\n\n\nclass MeanTest(unittest.TestCase):\n    def test_mean(self):\n        self.assertEqual(mean([2, 4, 6]), 4)\n\n\nif __name__ == \"__main__\":\n    unittest.main()\n";

/// Absolute paths, an edit with the wrong indentation, a test run.
fn fix_bug() -> Task {
    let edit = |old: &str, new: &str| json!({"path": "{cwd}/calc.py", "old_text": old, "new_text": new});
    let relative = |old: &str, new: &str| json!({"path": "calc.py", "old_text": old, "new_text": new});
    let (old, new) = (
        "    return total / (len(values) - 1)",
        "    return total / len(values)",
    );
    let stages = vec![
        stage([shell("pwd && ls -la")]),
        stage([
            ("read_file", json!({"path": "{cwd}/calc.py"})),
            ("read_file", json!({"path": "calc.py"})),
        ]),
        stage([shell("python3 -m unittest test_calc.py 2>&1 | tail -20")]),
        stage(rows! {
            "edit_file", edit("return total / (len(values) - 1)  ", "return total / len(values)");
            "edit_file", edit(old, new);
            "edit_file", relative(old, new);
        }),
        stage([shell("python3 -m unittest test_calc.py 2>&1 | tail -20")]).until(|seen| seen.has("OK")),
    ];
    Task {
        name: "fix-a-bug",
        request: run(
            "The test of calc.py fails. Fix the bug.",
            &[("calc.py", CALC), ("test_calc.py", CALC_TEST)],
        ),
        model: staged(stages, "The mean was divided by one too few; the test passes."),
        limits: limits(6, 90, 40, 2_900),
        answer: "the test passes",
        check: nothing_else,
        _service: None,
    }
}

const SETTINGS: &str = "server:\n\thost: localhost  \n\tport: 8080\n\ttitle: \u{201c}The shop\u{201d}\n\tlimits:\n\t\tupload: 10\n";

/// Three edits: trailing blanks, spaces for tabs, straight quotation marks.
fn white_space() -> Task {
    let edit = |old: &str, new: &str| {
        (
            "edit_file",
            json!({"path": "settings.yml", "old_text": old, "new_text": new}),
        )
    };
    let read = || stage([("read_file", json!({"path": "settings.yml"}))]);
    let stages = vec![
        read(),
        stage([
            edit("\thost: localhost\n\tport: 8080", "\thost: 0.0.0.0\n\tport: 80"),
            edit("\thost: localhost  \n\tport: 8080", "\thost: 0.0.0.0\n\tport: 80"),
        ]),
        stage([
            edit(
                "    limits:\n        upload: 10",
                "    limits:\n        upload: 50",
            ),
            edit("\tlimits:\n\t\tupload: 10", "\tlimits:\n\t\tupload: 50"),
        ]),
        stage([
            edit("title: \"The shop\"", "title: \"The new shop\""),
            edit(
                "title: \u{201c}The shop\u{201d}",
                "title: \u{201c}The new shop\u{201d}",
            ),
        ]),
        stage([shell("cat -A settings.yml")])
            .until(|seen| seen.has("upload: 50") && seen.has("new shop") && seen.has("0.0.0.0")),
    ];
    Task {
        name: "edit-white-space",
        request: run(
            "Listen on 0.0.0.0:80, allow uploads of 50, call it the new shop.",
            &[("settings.yml", SETTINGS)],
        ),
        model: staged(stages, "All three settings are changed."),
        limits: limits(6, 90, 40, 2_900),
        answer: "All three settings",
        check: nothing_else,
        _service: None,
    }
}

/// The names that tools and arguments have in other harnesses.
fn other_names() -> Task {
    let stages = vec![
        stage([
            ("bash", json!({"cmd": "ls", "timeout": "30"})),
            ("shell", json!({"cmd": "ls", "timeout_seconds": "30"})),
            ("shell", json!({"command": "ls", "timeout_seconds": 30})),
        ]),
        stage([
            ("read_file", json!({"file_path": "a.txt"})),
            ("read_file", json!({"path": "a.txt"})),
        ]),
        stage(rows! {
            "edit_file", json!({"file_path": "a.txt", "old_str": "one", "new_str": "two"});
            "edit_file", json!({"path": "a.txt", "old_text": "one", "new_text": "two"});
        }),
        stage(rows! {
            "write_file", json!({"file_path": "outputs/b.txt", "contents": "three"});
            "write_file", json!({"path": "outputs/b.txt", "content": "three"});
        }),
        stage([shell("cat a.txt outputs/b.txt")]).until(|seen| seen.has("two") && seen.has("three")),
    ];
    Task {
        name: "names-of-others",
        request: run(
            "Replace one by two in a.txt, and write three into outputs/b.txt.",
            &[("a.txt", "one\n")],
        ),
        model: staged(stages, "Both files are as wished."),
        limits: limits(6, 85, 40, 2_900),
        answer: "Both files",
        check: nothing_else,
        _service: None,
    }
}

/// Five calls in one message, one of which fails.
fn several_calls() -> Task {
    let files: Vec<(String, String)> = (1..=4)
        .map(|n| (format!("part{n}.txt"), format!("part {n}\n").repeat(100)))
        .collect();
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    let read = |path: &str| ("read_file", json!({ "path": path }));
    let stages = vec![
        at_once([
            read("part1.txt"),
            read("part2.txt"),
            read("part3.txt"),
            read("part4.txt"),
            read("part5.txt"),
        ]),
        at_once([
            shell("wc -l part1.txt"),
            shell("wc -l part2.txt"),
            shell("cat part*.txt | wc -l"),
        ]),
    ];
    Task {
        name: "several-calls-at-once",
        request: run("Compare the parts.", &files),
        model: staged(stages, "There are four parts of 100 lines; a fifth is missing."),
        limits: limits(3, 50, 40, 2_900),
        answer: "a fifth is missing",
        check: nothing_else,
        _service: None,
    }
}

const TREE: &str = "mkdir -p node_modules .git src && echo node_modules > .gitignore\n\
    i=0; while [ $i -lt 1500 ]; do echo \"function handler$i() { return 'timeout' }\" > node_modules/m$i.js; i=$((i+1)); done\n\
    i=0; while [ $i -lt 1500 ]; do echo \"timeout $i\" > .git/o$i; i=$((i+1)); done\n\
    i=0; while [ $i -lt 50 ]; do echo \"let x$i = $i;\" > src/f$i.js; i=$((i+1)); done\n\
    echo \"const REQUEST_TIMEOUT = 31; // the timeout\" >> src/f7.js\n";

/// A search with one useful hit among thousands of others.
fn large_tree() -> Task {
    let search = |arguments| ("search_files", arguments);
    let stages = vec![
        stage([shell("sh make_tree.sh")]),
        stage([
            search(json!({"pattern": "timeout"})),
            search(json!({"pattern": "timeout", "path": "src"})),
            search(json!({"pattern": "timeout", "glob": "src/**/*.js"})),
            shell("grep -rni timeout src | head"),
        ])
        .until(|seen| seen.has("REQUEST_TIMEOUT = 31")),
    ];
    Task {
        name: "search-a-large-tree",
        request: run(
            "What is the timeout of requests in this project?",
            &[("make_tree.sh", TREE)],
        ),
        model: staged(stages, "REQUEST_TIMEOUT is 31, in src/f7.js."),
        limits: limits(3, 40, 30, 2_900),
        answer: "REQUEST_TIMEOUT is 31",
        check: nothing_else,
        _service: None,
    }
}
