//! Answers that are empty, cut off or refused, and tasks that exceed their budget or their time.

use sortie_testkit::{model::Turn, prelude::*};

use crate::{
    rig::{FALLBACK, Limits, Task, asked_because_of, limits, nothing_else, run},
    stages::shell,
};

pub(crate) fn tasks() -> Vec<Task> {
    vec![
        empty_answer(),
        cut_off(),
        refusal(),
        small_budget(),
        little_time(),
    ]
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
        limits: limits(3, 40, 30, 2_900),
        answer: "It holds 42",
        check: nothing_else,
        _service: None,
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
        limits: limits(2, 35, 80, 2_900),
        answer: "and the second half",
        check: nothing_else,
        _service: None,
    }
}

/// A refusal, with another model that answers instead.
fn refusal() -> Task {
    let name = "refusal-with-a-fallback";
    let mut request = run(
        "Explain the flaw in a.c.",
        &[("a.c", "char name[8]; gets(name);\n")],
    );
    request["fallback_model"] = format!("{name}-fallback").into();
    let mut read = false;
    Task {
        name,
        request,
        model: Box::new(move |seen| {
            if !std::mem::replace(&mut read, true) {
                return Turn::calls("read_file", json!({"path": "a.c"}));
            }
            if seen.model() == FALLBACK {
                return Turn::says(["gets() writes beyond the eight bytes."]);
            }
            Turn::says(["I cannot"]).refuses()
        }),
        limits: limits(3, 40, 30, 2_900),
        answer: "beyond the eight bytes",
        check: nothing_else,
        _service: None,
    }
}

/// Endless work: each step reads eight kilobytes more. The model continues until it has to answer.
fn endless(name: &'static str) -> Task {
    let mut step = 0;
    Task {
        name,
        request: run(
            "Read everything that the generator prints, and say what you found.",
            &[],
        ),
        model: Box::new(move |seen| {
            if seen.must_answer() {
                return Turn::says(["So far there are only numbers in order."]);
            }
            step += 1;
            let (tool, arguments) = shell(&format!(
                "seq {} {} | tr '\\n' ' '",
                step * 2_000,
                step * 2_000 + 1_500
            ));
            Turn::says(["Further on."]).and_calls(tool, arguments)
        }),
        limits: limits(25, 800, 500, 500),
        answer: "numbers in order",
        check: nothing_else,
        _service: None,
    }
}

fn small_budget() -> Task {
    let mut task = endless("long-work-little-money");
    task.request["max_cost_micros"] = 500_000.into();
    task.check = |_, events| asked_because_of("budget", events);
    task
}

/// Turns of three seconds until the last tenth of the time, when the engine asks for the answer. A command that starts
/// right before then still has six seconds, even on a busy machine.
fn little_time() -> Task {
    let mut task = endless("long-work-little-time");
    task.request["timeout_seconds"] = 90.into();
    let mut work = task.model;
    task.model = Box::new(move |seen| {
        let turn = work(seen);
        if seen.must_answer() {
            turn
        } else {
            turn.after(Duration::from_secs(3))
        }
    });
    task.limits = Limits {
        turns: 40,
        kilobytes: 6_000,
        spent: 1_500,
        held: 4_000,
    };
    task.check = |_, events| asked_because_of("time", events);
    task
}
