//! Commands that do not end, print too much, or are repeated endlessly.

use sortie_testkit::{model::Turn, prelude::*};

use crate::{
    rig::{Task, limits, nothing_else, run},
    stages::{shell, stage, staged},
};

pub(crate) fn tasks() -> Vec<Task> {
    vec![follow_a_log(), ten_megabytes(), server(), same_call()]
}

/// `tail -f`, which never ends.
fn follow_a_log() -> Task {
    let log = (0..500).fold(String::new(), |log, n| {
        log + &format!(
            "2026-11-20 12:00:{:02} request {n}
",
            n % 60
        )
    });
    let mut request = run(
        "What is the newest request in server.log?",
        &[("server.log", &log)],
    );
    request["timeout_seconds"] = 90.into();
    let stages = vec![
        stage([shell("tail -f server.log")]).until(|_| true),
        stage([shell("tail -n 3 server.log")]).until(|seen| seen.has("request 499")),
    ];
    Task {
        name: "follow-a-log",
        request,
        model: staged(stages, "The newest request is 499."),
        limits: limits(3, 40, 30, 2_900),
        answer: "The newest request is 499",
        check: nothing_else,
        _service: None,
    }
}

/// A command that prints ten megabytes; only the end matters.
fn ten_megabytes() -> Task {
    let print = "python3 -c \"for n in range(60000): print('step', n, 'of the long calculation: all is as it was before')\n\
        print('RESULT 4711')\nfor n in range(110000): print('clean-up', n, 'of the long calculation: nothing to do here')\"";
    let kept = format!("{print} > all.txt; grep RESULT all.txt");
    let stages = vec![
        stage([shell(print), shell("grep RESULT {whole}"), shell(&kept)])
            .until(|seen| seen.has("RESULT 4711")),
    ];
    Task {
        name: "ten-megabytes",
        request: run("Run the long calculation and give its result.", &[]),
        model: staged(stages, "The result is 4711."),
        limits: limits(3, 130, 110, 2_900),
        answer: "The result is 4711",
        check: nothing_else,
        _service: None,
    }
}

/// A server in the foreground.
fn server() -> Task {
    let mut request = run(
        "Serve index.html with python and check that it answers.",
        &[("index.html", "<p>hello</p>")],
    );
    request["timeout_seconds"] = 90.into();
    let fetch = "curl --silent --fail --noproxy '*' http://127.0.0.1:8123/index.html";
    let background = format!(
        "(python3 -m http.server 8123 --bind 127.0.0.1 >server.log 2>&1 &) ; until {fetch}; do :; done"
    );
    let stages = vec![
        stage([shell("python3 -m http.server 8123 --bind 127.0.0.1")]).until(|_| true),
        stage([shell(fetch), shell(&background)]).until(|seen| seen.has("hello")),
    ];
    Task {
        name: "server-in-the-foreground",
        request,
        model: staged(stages, "It answers with hello."),
        limits: limits(3, 40, 30, 2_900),
        answer: "It answers with hello",
        check: nothing_else,
        _service: None,
    }
}

/// A failing call that is repeated until the engine comments on it.
fn same_call() -> Task {
    let mut calls = 0;
    Task {
        name: "same-call-again",
        request: run(
            "Print the file report.txt.",
            &[("reports/report.txt", "All is well.\n")],
        ),
        model: Box::new(move |seen| {
            calls += 1;
            if seen.has("All is well") {
                return Turn::says(["All is well."]);
            }
            if calls > 40 {
                return Turn::says(["I gave up."]);
            }
            // A note about the repetition makes the model try something else.
            if calls > 1 && (seen.has("same call") || seen.has("again") || seen.has("repeat")) {
                return Turn::calls("shell", json!({"command": "find . -name report.txt | xargs cat"}));
            }
            Turn::calls("shell", json!({"command": "cat report.txt"}))
        }),
        limits: limits(5, 70, 40, 2_900),
        answer: "All is well",
        check: nothing_else,
        _service: None,
    }
}
