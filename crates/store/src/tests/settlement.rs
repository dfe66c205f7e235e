//! Check of the source: every statement that settles a run goes through one function.

use std::{fs, path::Path};

/// Collects the sources of the crate, without tests, by their path below `src`.
fn sources(folder: &Path, found: &mut Vec<(String, String)>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.ends_with("tests") {
                sources(&path, found);
            }
        } else {
            let name = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
            found.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
}

/// Whether a text assigns `billing_pending` in SQL, as opposed to comparing it.
fn assigns(text: &str) -> bool {
    let spaced = text.replace(',', " , ");
    let words: Vec<&str> = spaced
        .split(|c: char| c.is_whitespace() || c == '"' || c == '\\')
        .filter(|word| !word.is_empty())
        .collect();
    let compares = ["AND", "OR", "WHERE", "NOT", "WHEN", "(", "IF"];
    words.windows(3).any(|words| {
        let [before, column, sign] = words else {
            return false;
        };
        let column = column.trim_start_matches('(');
        column == "billing_pending" && *sign == "=" && !compares.contains(before)
    }) || text.contains("billing_pending=")
}

#[test]
fn an_assignment_is_told_from_a_comparison() {
    for text in [
        "SET billing_pending = 0",
        "a = 1, billing_pending = CASE",
        "\", billing_pending = 0\"",
        "SET billing_pending=0",
        "SET a = 1,billing_pending = 0",
    ] {
        assert!(assigns(text), "{text}");
    }
    for text in [
        "WHERE a = 1 AND billing_pending = 1",
        "outcome IS NOT NULL AND billing_pending = 0 \\",
    ] {
        assert!(!assigns(text), "{text}");
    }
}

#[test]
fn only_the_settlement_clears_billing_pending_and_whoever_uses_it_goes_through_it() {
    let mut found = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    let named = |wanted: &dyn Fn(&str) -> bool| {
        let mut names: Vec<&str> = found
            .iter()
            .filter(|(_, text)| wanted(text))
            .map(|(name, _)| name.as_str())
            .collect();
        names.sort_unstable();
        names
    };
    assert_eq!(named(&assigns), ["money/settle.rs"]);
    let users = named(&|text| text.contains("SETTLES"));
    assert_eq!(
        users,
        [
            "money/settle.rs",
            "runs/cancel.rs",
            "runs/finish.rs",
            "runs/sweep.rs"
        ]
    );
    for (name, text) in &found {
        if !users.contains(&name.as_str()) || name == "money/settle.rs" {
            continue;
        }
        let functions = text.split("fn ").skip(1);
        for function in functions.filter(|body| body.contains("SETTLES")) {
            // The end of a run is a statement that two commands use: see below.
            let is_the_end = function.starts_with("statement(&self, fence: Fence)");
            assert!(is_the_end || function.contains("settle("), "{name}: {function}");
            assert!(function.contains("SettledRun::COLUMNS"), "{name}: {function}");
        }
    }
    // Two commands write the end of a run, and settle it.
    let ends = named(&|text| text.contains("end.statement(fence)"));
    assert_eq!(ends, ["runs/finish.rs", "runs/unretained.rs"]);
    for (name, text) in found.iter().filter(|(name, _)| ends.contains(&name.as_str())) {
        assert!(text.contains("settle(tx, &statements, &[SETTLED])"), "{name}");
    }
}
