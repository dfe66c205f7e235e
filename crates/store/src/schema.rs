//! Tables of the store: migrations, and index statistics for the planner of `SQLite`.

use crate::db::{Migration, Schema};

/// Tables of this version. A released migration is never edited: a change is a new file.
pub(crate) const SCHEMA: Schema = Schema {
    migrations: &[Migration {
        version: 1,
        name: "initial",
        text: include_str!("../migrations/0001_initial.sql"),
    }],
    statistics: &[
        ("audit", "audit", "1000000 250000 1 1"),
        ("audit", "audit_action", "1000000 250000 10000 1 1"),
        ("audit", "audit_actor", "500000 125000 5000 1 1"),
        ("audit", "audit_target", "1000000 250000 100 1 1"),
        ("run", "run", "2000000 1"),
        ("run", "run_idempotency", "1000000 500000 1"),
        ("run", "run_list", "2000000 500000 1 1"),
        // An outcome of an organization is rarer than its runs, and an outcome of a schedule rarer than the runs of that.
        ("run", "run_outcome", "2000000 500000 100000 1 1"),
        ("run", "run_schedule", "1000000 20000 1 1"),
        ("run", "run_schedule_outcome", "1000000 20000 5000 1 1"),
    ],
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits a migration into statements, without comments and with single spaces.
    fn statements(text: &str) -> Vec<String> {
        let code: Vec<&str> = text
            .lines()
            .map(|line| line.split_once("--").map_or(line, |(code, _)| code))
            .collect();
        code.join("\n")
            .split(';')
            .map(|statement| statement.split_whitespace().collect::<Vec<_>>().join(" "))
            .filter(|statement| !statement.is_empty())
            .collect()
    }

    /// Returns the reason why a statement would break running nodes. `made` lists the tables and columns that the same
    /// migration creates.
    fn breaks_running_nodes(statement: &str, made: &[String]) -> Option<&'static str> {
        let words: Vec<&str> = statement.split(' ').collect();
        let is_new = |table: &str| made.iter().any(|made| made == table);
        match &words[..] {
            // The triggers are part of the first migration. A change of vacuum settings blocks no command.
            ["CREATE", "TABLE" | "INDEX", ..]
            | ["{APPEND_ONLY_LEDGER}" | "{APPEND_ONLY_CONSENTS}" | "{AUTOVACUUM}"] => None,
            ["CREATE", "UNIQUE", "INDEX", _, "ON", table, ..] => {
                // Running nodes leave a new column empty, so such an index does not affect their rows.
                let on_new_column = made.iter().any(|made| {
                    made.strip_prefix(&format!("{table}."))
                        .is_some_and(|column| statement.ends_with(&format!("WHERE {column} IS NOT NULL")))
                });
                (!is_new(table) && !on_new_column).then_some("what running nodes write may break the index")
            }
            ["ALTER", "TABLE", _, "ADD", "COLUMN", _, rest @ ..] => {
                let rest = rest.join(" ");
                (rest.contains("NOT NULL") && !rest.contains("DEFAULT"))
                    .then_some("running nodes insert rows without the column")
            }
            ["INSERT", "INTO", table, ..] => {
                (!is_new(table)).then_some("rows that running nodes do not expect")
            }
            _ => Some("not an expansion"),
        }
    }

    /// Lists the tables that the statements create, and the columns as `table.column`.
    fn made_by(statements: &[String]) -> Vec<String> {
        let made =
            statements
                .iter()
                .filter_map(|statement| match &statement.split(' ').collect::<Vec<_>>()[..] {
                    ["CREATE", "TABLE", table, ..] => Some((*table).to_owned()),
                    ["ALTER", "TABLE", table, "ADD", "COLUMN", column, ..] => {
                        Some(format!("{table}.{column}"))
                    }
                    _ => None,
                });
        made.collect()
    }

    /// Returns the statements of a migration that break a rule, each with the reason.
    fn against(text: &str, rule: fn(&str, &[String]) -> Option<&'static str>) -> Vec<(String, &'static str)> {
        let statements = statements(text);
        let made = made_by(&statements);
        statements
            .into_iter()
            .filter_map(|statement| rule(&statement, &made).map(|why| (statement, why)))
            .collect()
    }

    fn broken(text: &str) -> Vec<(String, &'static str)> {
        against(text, breaks_running_nodes)
    }

    /// Tables with rows for every run, event or file. A new table that grows like these belongs here.
    const LARGE: [&str; 17] = [
        "artifact_blob",
        "audit",
        "blob",
        "delivery",
        "delivery_attempt",
        "event",
        "file",
        "fire",
        "ledger",
        "payment",
        "run",
        "run_artifacts",
        "run_definition",
        "run_output",
        "run_label",
        "stripe_event",
        "topup",
    ];

    const INDEX: &str = "PostgreSQL lets nobody write to the table until the index is built: it has to be CREATE INDEX \
        CONCURRENTLY, outside of a transaction, which the runner of migrations must learn first, with the repair of an index \
        that a crash has left invalid";
    const REWRITE: &str = "PostgreSQL may read or rewrite the whole table for this and let nobody near it meanwhile: a \
        column is added as `ADD COLUMN name TYPE`, with no more than a constant as DEFAULT (and NOT NULL) behind it";

    /// Returns the reason why a statement would block other nodes for a time that grows with the size of a large table.
    fn holds_up_running_nodes(statement: &str, made: &[String]) -> Option<&'static str> {
        let is_large =
            |table: &str| LARGE.contains(&table) && !made.iter().any(|made_here| made_here == table);
        let is_constant = |value: &str| value.parse::<i64>().is_ok() || is_quoted(value);
        match &statement.split(' ').collect::<Vec<_>>()[..] {
            ["CREATE", "INDEX" | "UNIQUE", rest @ ..] => {
                let mut words = rest.iter().skip_while(|word| **word != "ON").skip(1);
                let table = words.find(|word| **word != "ONLY").map(|word| word.split('('));
                let table = table.and_then(|mut parts| parts.next()).unwrap_or_default();
                is_large(table).then_some(INDEX)
            }
            ["ALTER", "TABLE", table, "ADD", "COLUMN", _, _, rest @ ..] => {
                let is_at_once = match rest {
                    [] => true,
                    ["DEFAULT", value] | ["NOT", "NULL", "DEFAULT", value] => is_constant(value),
                    _ => false,
                };
                (is_large(table) && !is_at_once).then_some(REWRITE)
            }
            ["ALTER", "TABLE", table, ..] => is_large(table).then_some(REWRITE),
            _ => None,
        }
    }

    fn is_quoted(value: &str) -> bool {
        let inner = value.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
        inner.is_some_and(|inner| !inner.contains('\''))
    }

    #[test]
    fn no_migration_holds_up_running_nodes_at_a_large_table() {
        for migration in SCHEMA.migrations {
            let found = against(migration.text, holds_up_running_nodes);
            assert_eq!(found, [], "{}: docs/STORAGE.md, \"Migrations\"", migration.name);
        }
        // Every table of the list exists.
        let made: Vec<String> = SCHEMA
            .migrations
            .iter()
            .flat_map(|migration| made_by(&statements(migration.text)))
            .collect();
        for table in LARGE {
            assert!(made.iter().any(|name| name == table), "{table}");
        }
    }

    #[test]
    fn what_would_hold_up_running_nodes_is_seen() {
        for text in [
            "CREATE INDEX run_model ON run (model);",
            "CREATE UNIQUE INDEX run_more ON run (more) WHERE more IS NOT NULL;",
            "CREATE  INDEX e\nON event (created_at, run_id);",
            "CREATE INDEX IF NOT EXISTS e ON ONLY event(created_at);",
            "ALTER TABLE run ADD COLUMN later BIGINT;\nCREATE INDEX l ON run (later) WHERE later IS NOT NULL;",
            "ALTER TABLE run ADD COLUMN later TEXT DEFAULT random();",
            "ALTER TABLE run ADD COLUMN later BIGINT GENERATED ALWAYS AS (attempt * 2) STORED;",
            "ALTER TABLE event ADD COLUMN later BIGINT CHECK (later > 0);",
            "ALTER TABLE event ADD COLUMN later BIGINT UNIQUE;",
            "ALTER TABLE event ADD COLUMN later {TEXT} REFERENCES run (id);",
            "ALTER TABLE run ALTER COLUMN model TYPE BIGINT;",
            "ALTER TABLE run SET UNLOGGED;",
        ] {
            assert_eq!(against(text, holds_up_running_nodes).len(), 1, "{text}");
        }
        for text in [
            "ALTER TABLE run ADD COLUMN later BIGINT;",
            "ALTER TABLE run ADD COLUMN later BIGINT NOT NULL DEFAULT 0;",
            "ALTER TABLE event ADD COLUMN later {TEXT} DEFAULT 'none';",
            "CREATE INDEX node_name ON node (name);",
            "CREATE TABLE later (id BIGINT NOT NULL PRIMARY KEY);\nCREATE INDEX later_id ON later (id);",
        ] {
            assert_eq!(against(text, holds_up_running_nodes), [], "{text}");
        }
    }

    #[test]
    fn every_migration_leaves_running_nodes_their_tables() {
        for migration in SCHEMA.migrations {
            assert_eq!(broken(migration.text), [], "{}", migration.name);
        }
    }

    #[test]
    fn what_would_break_running_nodes_is_seen() {
        for text in [
            "DROP TABLE run;",
            "ALTER TABLE run RENAME COLUMN status TO state;",
            "ALTER TABLE run RENAME TO runs;",
            "ALTER TABLE run ALTER COLUMN status TYPE BIGINT;",
            "ALTER TABLE run DROP COLUMN status;",
            "ALTER TABLE run ADD COLUMN more BIGINT NOT NULL;",
            "ALTER TABLE run ADD COLUMN more BIGINT, ADD COLUMN most BIGINT NOT NULL;",
            "CREATE UNIQUE INDEX one_each ON run (org_id);",
            "DROP INDEX run_list;",
            "UPDATE run SET status = 'gone';",
            "DELETE FROM run;",
            "INSERT INTO run (id) VALUES ('x');",
        ] {
            assert_eq!(broken(text).len(), 1, "{text}");
        }
        for text in [
            "-- DROP nothing\nALTER TABLE run ADD COLUMN more {TEXT};",
            "ALTER TABLE run ADD COLUMN more BIGINT NOT NULL DEFAULT 0;",
            "CREATE TABLE new (id BIGINT NOT NULL);\nCREATE UNIQUE INDEX new_id ON new (id); INSERT INTO new (id) VALUES (1);",
            "ALTER TABLE run ADD COLUMN more BIGINT;\nCREATE UNIQUE INDEX m ON run (more) WHERE more IS NOT NULL;",
        ] {
            assert_eq!(broken(text), [], "{text}");
        }
    }

    #[test]
    fn every_file_of_the_folder_is_in_the_binary() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        let known: Vec<String> = SCHEMA
            .migrations
            .iter()
            .map(|migration| format!("{:04}_{}.sql", migration.version, migration.name))
            .collect();
        assert_eq!(files, known);
    }
}
