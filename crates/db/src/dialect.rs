//! The tokens in which the SQL of the two databases differs. All other SQL text is the same for both.

/// Database that SQL is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Sqlite,
    Postgres,
}

/// Token, its `SQLite` text, its `PostgreSQL` text.
const TOKENS: [(&str, &str, &str); 24] = [
    // Compared byte by byte on both: identifiers sort by their creation time, whatever the locale.
    ("{TEXT}", "TEXT", "TEXT COLLATE \"C\""),
    ("{BLOB}", "BLOB", "BYTEA"),
    ("{CLUSTERED}", " WITHOUT ROWID", ""),
    ("{HOT}", "", " WITH (fillfactor = 70)"),
    // Membership test that always uses an index. A join might be planned as a scan of the whole table.
    ("{IN}", "IN (", "= ANY (ARRAY("),
    ("{END}", ")", "))"),
    ("{JSON_EACH}", "json_each", "json_array_elements_text"),
    ("{JSON_ROW}", "json_array", "json_build_array"),
    ("{JSON_ROWS}", "json_group_array", "json_agg"),
    ("{LEAST}", "MIN", "LEAST"),
    ("{GREATEST}", "MAX", "GREATEST"),
    // Inserts the rows of a query, in a command that fails if this insert fails. Otherwise `SQLite` copies every page
    // that the statement changes, to undo its first rows if a later one violates a rule.
    ("{INSERT}", "INSERT OR FAIL", "INSERT"),
    // Rows of the run `$1` to insert after a statement that may fail with `Fenced`. PostgreSQL receives the statements
    // of a batch together, so these run after a failure as well. They then insert nothing: the run has another attempt
    // than `$2`, another last event than `$3`, or an event recorded there. Only the statement of the fence makes them
    // insert. Without this guard the server would log a key conflict with the rows of another worker.
    ("{GUARDED}", "", "SELECT v.* FROM ("),
    (
        "{BY_FENCE}",
        "",
        ") v WHERE (SELECT r.id FROM run r WHERE r.id = $1 AND r.attempt = $2 AND r.last_event = $3 \
         AND (SELECT e.seq FROM event e WHERE e.run_id = r.id AND e.seq = r.last_event) IS NULL) IS NOT NULL",
    ),
    // Time by the database's own clock, in microseconds since 1970. NULL on SQLite, which has no clock that
    // several processes share.
    (
        "{CLOCK}",
        "NULL",
        "(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::BIGINT",
    ),
    // Like `{CLOCK}`, with one value for the whole statement: an index can be searched with it, and all
    // columns that a statement writes agree.
    (
        "{NOW}",
        "NULL",
        "(EXTRACT(EPOCH FROM statement_timestamp()) * 1000000)::BIGINT",
    ),
    // The `cost_micros` in the data of an event `e`, or NULL. The key is not found in a text: a quote in one is
    // escaped. PostgreSQL's own functions refuse data that has an escaped NUL anywhere.
    (
        "{COST_OF_EVENT}",
        "CASE WHEN json_valid(e.data) THEN json_extract(e.data, '$.cost_micros') END",
        "CAST(substring(e.data from '\"cost_micros\":([0-9]+)') AS BIGINT)",
    ),
    // Triggers that refuse every change of a row of the ledger.
    (
        "{APPEND_ONLY_LEDGER}",
        "CREATE TRIGGER ledger_update BEFORE UPDATE ON ledger \
         BEGIN SELECT RAISE(ABORT, 'rows of the ledger are never changed'); END;\n\
         CREATE TRIGGER ledger_delete BEFORE DELETE ON ledger \
         BEGIN SELECT RAISE(ABORT, 'rows of the ledger are never deleted'); END",
        "CREATE FUNCTION ledger_is_append_only() RETURNS trigger LANGUAGE plpgsql AS \
         'BEGIN RAISE EXCEPTION ''rows of the ledger are never changed or deleted''; END';\n\
         CREATE TRIGGER ledger_change BEFORE UPDATE OR DELETE ON ledger \
         FOR EACH ROW EXECUTE FUNCTION ledger_is_append_only();\n\
         CREATE TRIGGER ledger_truncate BEFORE TRUNCATE ON ledger \
         FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only()",
    ),
    // Triggers that refuse every change of a consent to automatic purchases.
    (
        "{APPEND_ONLY_CONSENTS}",
        "CREATE TRIGGER auto_topup_consent_update BEFORE UPDATE ON auto_topup_consent \
         BEGIN SELECT RAISE(ABORT, 'consents are never changed'); END;\n\
         CREATE TRIGGER auto_topup_consent_delete BEFORE DELETE ON auto_topup_consent \
         BEGIN SELECT RAISE(ABORT, 'consents are never deleted'); END",
        "CREATE FUNCTION auto_topup_consent_is_append_only() RETURNS trigger LANGUAGE plpgsql AS \
         'BEGIN RAISE EXCEPTION ''consents are never changed or deleted''; END';\n\
         CREATE TRIGGER auto_topup_consent_change BEFORE UPDATE OR DELETE ON auto_topup_consent \
         FOR EACH ROW EXECUTE FUNCTION auto_topup_consent_is_append_only();\n\
         CREATE TRIGGER auto_topup_consent_truncate BEFORE TRUNCATE ON auto_topup_consent \
         FOR EACH STATEMENT EXECUTE FUNCTION auto_topup_consent_is_append_only()",
    ),
    // When tables are cleaned of dead rows.
    (
        "{AUTOVACUUM}",
        "SELECT 1",
        "ALTER TABLE queue SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, \
         autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 10000, \
         autovacuum_vacuum_cost_delay = 0);\n\
         ALTER TABLE event SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200000, \
         autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 1000000)",
    ),
    // Dead rows of `queue` and of `event`, and the age of the oldest transaction that keeps them, in microseconds. No row on
    // SQLite, which has neither.
    (
        "{DEAD_ROWS}",
        "SELECT NULL, NULL, NULL WHERE 1 = 0",
        "SELECT pg_stat_get_dead_tuples(CAST('queue' AS regclass)), pg_stat_get_dead_tuples(CAST('event' AS regclass)), \
         (SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp() - MIN(s.xact_start)) * 1000000 AS BIGINT) \
         FROM pg_stat_get_activity(NULL) s \
         WHERE s.backend_xmin IS NOT NULL AND s.pid <> pg_backend_pid() AND s.backend_type = 'client backend' \
         AND s.datid = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))",
    ),
    ("{DATABASE}", "'SQLite'", "'PostgreSQL'"),
    (
        "{IS_MIGRATED}",
        "(SELECT COUNT(*) FROM sqlite_schema WHERE type = 'table' AND name = 'migration')",
        "(CASE WHEN to_regclass('migration') IS NULL THEN CAST(0 AS BIGINT) ELSE 1 END)",
    ),
    (
        "{VERSION}",
        "sqlite_version()",
        "current_setting('server_version')",
    ),
];

impl Dialect {
    /// Translates `sql` for this database.
    pub fn translate(self, sql: &str) -> String {
        let mut text = sql.to_owned();
        for (token, sqlite, postgres) in TOKENS {
            if text.contains(token) {
                text = text.replace(
                    token,
                    match self {
                        Self::Sqlite => sqlite,
                        Self::Postgres => postgres,
                    },
                );
            }
        }
        match self {
            Self::Sqlite => numbered(&text),
            Self::Postgres => text,
        }
    }
}

/// Replaces `$1` by `?1`. `SQLite` treats `$1` as a name and numbers names by their first appearance.
fn numbered(sql: &str) -> String {
    let mut text = String::with_capacity(sql.len());
    let mut rest = sql.chars().peekable();
    while let Some(character) = rest.next() {
        let is_parameter = character == '$' && rest.peek().is_some_and(char::is_ascii_digit);
        text.push(if is_parameter { '?' } else { character });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_keep_their_numbers_on_sqlite() {
        assert_eq!(
            Dialect::Sqlite.translate("UPDATE t SET a = a + $2, b = '$' WHERE id = $1"),
            "UPDATE t SET a = a + ?2, b = '$' WHERE id = ?1"
        );
        assert_eq!(Dialect::Postgres.translate("SELECT $1"), "SELECT $1");
    }

    #[test]
    fn tokens_become_the_words_of_the_database() {
        let sql = "id {IN}SELECT value FROM {JSON_EACH}($1){END}";
        assert_eq!(
            Dialect::Sqlite.translate(sql),
            "id IN (SELECT value FROM json_each(?1))"
        );
        assert_eq!(
            Dialect::Postgres.translate(sql),
            "id = ANY (ARRAY(SELECT value FROM json_array_elements_text($1)))"
        );
    }
}
