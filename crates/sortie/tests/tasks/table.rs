//! The table of the tasks: made from the figures, and compared with `figures.txt`.

use std::fmt::Write as _;

use crate::rig::Ended;

/// Tolerance of a figure in `figures.txt`, in percent of the measured one. Bytes and money depend on the machine:
/// its tools, its paths, the output of its commands.
const TOLERANCE: f64 = 25.0;

/// The task with figures that depend on the speed of the machine.
const TIMED: &str = "long-work-little-time";

pub(crate) const HEAD: &str = "| task | turns | kB sent | cached | held | spent | answer |";

pub(crate) fn rows(ended: &[Ended]) -> String {
    let mut rows = format!("{HEAD}\n|---|---|---|---|---|---|---|\n");
    for task in ended {
        let answer = if task.is_answered() { "yes" } else { "no" };
        if task.name == TIMED {
            let _ = writeln!(rows, "| {TIMED} | - | - | - | - | - | {answer} |");
            continue;
        }
        // Writing to a String cannot fail.
        let _ = writeln!(
            rows,
            "| {} | {} | {} | {} % | ${} | ${} | {} |",
            task.name,
            task.turns,
            task.bytes / 1_000,
            task.cached,
            dollars(task.held),
            dollars(task.spent),
            answer,
        );
    }
    rows
}

fn dollars(micros: i64) -> String {
    let cents = (micros + 5_000) / 10_000;
    format!("{}.{:02}", cents / 100, cents % 100)
}

/// Every row that is missing in `figures.txt`, or has other figures there.
pub(crate) fn differences(documented: &str, measured: &str) -> Vec<String> {
    let of = |text: &str| -> Vec<Vec<String>> {
        let rows = text
            .lines()
            .skip_while(|line| *line != HEAD)
            .skip(2)
            .take_while(|line| line.starts_with('|'));
        rows.map(|row| row.split('|').map(|cell| cell.trim().to_owned()).collect())
            .collect()
    };
    let (documented, measured) = (of(documented), of(measured));
    let mut differences: Vec<String> = Vec::new();
    for row in &measured {
        match documented.iter().find(|other| other.get(1) == row.get(1)) {
            None => differences.push(format!("missing: {}", row.join(" | "))),
            Some(other) if !alike(other, row) => {
                differences.push(format!("{} is not {}", other.join(" | "), row.join(" | ")));
            }
            Some(_) => {}
        }
    }
    if documented.len() > measured.len() {
        differences.push("figures.txt has rows of tasks that are not there".to_owned());
    }
    differences
}

fn alike(documented: &[String], measured: &[String]) -> bool {
    let number =
        |cell: &String| -> Option<f64> { cell.trim_start_matches('$').trim_end_matches(" %").parse().ok() };
    documented.len() == measured.len()
        && documented
            .iter()
            .zip(measured)
            .all(|(one, other)| match (number(one), number(other)) {
                // A small figure may differ by one or two units of its last digit.
                (Some(a), Some(b)) => {
                    (a - b).abs() <= (b * TOLERANCE / 100.0).max(if one.contains('.') { 0.02 } else { 3.0 })
                }
                _ => one == other,
            })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_differs_by_a_row_an_answer_or_a_figure_out_of_tolerance() {
        let table =
            |row: &str| format!("# Models\n\n{HEAD}\n|---|---|---|---|---|---|---|\n{row}\n\nMore.\n");
        let documented = table("| a | 10 | 100 | 80 % | $1.00 | $0.50 | yes |");
        let differs = |row: &str| !differences(&documented, &table(row)).is_empty();
        assert!(!differs("| a | 11 | 110 | 85 % | $1.10 | $0.45 | yes |"));
        assert!(differs("| a | 20 | 100 | 80 % | $1.00 | $0.50 | yes |"));
        assert!(differs("| a | 10 | 200 | 80 % | $1.00 | $0.50 | yes |"));
        assert!(differs("| a | 10 | 100 | 40 % | $1.00 | $0.50 | yes |"));
        assert!(differs("| a | 10 | 100 | 80 % | $2.00 | $0.50 | yes |"));
        assert!(differs("| a | 10 | 100 | 80 % | $1.00 | $0.50 | no |"));
        assert!(differs("| b | 10 | 100 | 80 % | $1.00 | $0.50 | yes |"));
        assert_eq!(differences(&documented, &table("")).len(), 1);
    }
}
