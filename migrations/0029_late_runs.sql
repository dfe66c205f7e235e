-- Runs that were not settled when the usage of their hour was counted. Each is counted by itself once it is settled, and is
-- not deleted before.
CREATE TABLE late_run (
    run_id {TEXT} NOT NULL PRIMARY KEY,
    org_id {TEXT} NOT NULL,
    created_at BIGINT NOT NULL
){CLUSTERED};
-- Every row meets the condition. Only a statement that says so is planned with this index; all others find a row by its run.
CREATE INDEX late_run_list ON late_run (org_id, created_at, run_id) WHERE created_at >= 0;
