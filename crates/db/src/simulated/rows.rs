//! Rows that a transaction writes, as far as other transactions may write them as well.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use crate::{Stmt, Val};

/// Number of the commit that last wrote each row.
#[derive(Default)]
pub(super) struct Locked {
    commits: u64,
    last: HashMap<u64, u64>,
}

impl Locked {
    /// Returns the number of commits so far.
    pub(super) fn now(&self) -> u64 {
        self.commits
    }

    /// Records a commit that wrote these rows.
    pub(super) fn written(&mut self, rows: &[u64]) {
        self.commits += 1;
        for row in rows {
            self.last.insert(*row, self.commits);
        }
    }

    /// Whether one of these rows was written after the commit with number `since`.
    pub(super) fn were_written(&self, rows: &[u64], since: u64) -> bool {
        rows.iter()
            .any(|row| self.last.get(row).is_some_and(|last| *last > since))
    }
}

/// Adds the rows that a statement writes: runs by their ids, nodes by id and name. The tables `dispatch` and
/// `budget_window`, which all commands share, count as one row each.
pub(super) fn add(rows: &mut Vec<u64>, statement: &Stmt<'_>) {
    for table in ["dispatch", "budget_window"] {
        if statement.sql.contains(table) {
            rows.push(hashed(table));
        }
    }
    let is_of_node = statement.sql.contains(" node ");
    for value in &statement.params {
        match value {
            Val::Text(text) => {
                let names = text
                    .split('"')
                    .filter(|name| name.starts_with("run_") || (is_of_node && !name.is_empty()));
                rows.extend(names.map(hashed));
            }
            Val::Int(number) if is_of_node => rows.push(hashed(number)),
            Val::Int(_) | Val::Null | Val::Blob(_) => {}
        }
    }
}

fn hashed(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
