//! Tests the tools `shell` and `jobs` in real sandboxes, by the table in `cases.rs`: the results that a calling model gets.
//!
//! This binary is also the launcher of its sandboxes, which must come first in `main`: hence a custom harness. It understands the
//! arguments by which test runners list tests and run one of them.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and a harness prints"
)]

mod cases;
#[path = "../shared/nowhere.rs"]
mod nowhere;
mod run;
#[path = "../shared/spec.rs"]
mod spec;

use cases::{Case, all};

fn main() {
    sortie_sandbox::launcher_main();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    if has("--list") {
        if !has("--ignored") {
            for case in all() {
                println!("{}: test", case.name);
            }
        }
        return;
    }
    let wanted: Vec<&String> = arguments
        .iter()
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    let is_wanted = |case: &&Case| {
        wanted.is_empty()
            || wanted
                .iter()
                .any(|name| case.name == *name || (!has("--exact") && case.name.contains(name.as_str())))
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    for case in all().filter(is_wanted) {
        println!("{} (after {})", case.name, case.origin);
        runtime.block_on(run::check(case));
    }
}
