//! Answers that are empty, cut off or refused, and work that is longer than its money or its time.

use std::time::Duration;

use serde_json::json;
use sortie_testkit::model::Turn;

use crate::{
    rig::{Limits, Task, nothing_else, run},
    stages::shell,
};

pub(crate) fn tasks() -> Vec<Task> {
    vec![empty_answer(), cut_off(), small_budget(), little_time()]
}

fn empty_answer() -> Task {
    let mut said = 0;
    Task {
        name: "empty-answer",
        request: run("What is in a.txt?", &[("a.txt", "42\n")]),
        model: Box::new(move |_| {
            said += 1;
            match said {
                1 => Turn::calls("read_file", json!({"path": "a.txt"})),
                2 => Turn::says([""]),
                _ => Turn::says(["It holds 42."]),
            }
        }),
        so_far: "It holds 42.",
        limits: Limits {
            turns: 3,
            kilobytes: 60,
            spent: 100,
            held: 3_000,
        },
        answer: "It holds 42",
        check: nothing_else,
    }
}

/// An answer that is cut at its limit once.
fn cut_off() -> Task {
    let mut said = 0;
    Task {
        name: "answer-cut-off",
        request: run("Write a long text.", &[]),
        model: Box::new(move |_| {
            said += 1;
            match said {
                1 => Turn::says(["The first half of the text, ".repeat(200)]).cut_off(),
                _ => Turn::says(["and the second half."]),
            }
        }),
        so_far: "The first half of the text.",
        limits: Limits {
            turns: 2,
            kilobytes: 60,
            spent: 200,
            held: 3_000,
        },
        answer: "and the second half",
        check: nothing_else,
    }
}

/// Work without end: each step reads eight kilobytes more. The model goes on until it is asked for its answer.
fn endless(name: &'static str) -> Task {
    let mut step = 0;
    Task {
        name,
        request: run(
            "Read everything that the generator prints, and say what you found.",
            &[],
        ),
        model: Box::new(move |_| {
            step += 1;
            let (tool, arguments) = shell(&format!(
                "seq {} {} | tr '\\n' ' '",
                step * 2_000,
                step * 2_000 + 1_500
            ));
            Turn::says(["Further on."]).and_calls(tool, arguments)
        }),
        so_far: "So far there are only numbers in order.",
        limits: Limits {
            turns: 150,
            kilobytes: 50_000,
            spent: 500,
            held: 500,
        },
        answer: "numbers in order",
        check: nothing_else,
    }
}

fn small_budget() -> Task {
    let mut task = endless("long-work-little-money");
    task.request["max_cost_micros"] = 500_000.into();
    task
}

fn little_time() -> Task {
    let mut task = endless("long-work-little-time");
    task.request["timeout_seconds"] = 20.into();
    let mut work = task.model;
    task.model = Box::new(move |seen| work(seen).after(Duration::from_millis(700)));
    task.limits = Limits {
        turns: 40,
        kilobytes: 6_000,
        spent: 1_500,
        held: 4_000,
    };
    task
}
