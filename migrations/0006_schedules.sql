-- Schedules, and what became of each of their instants.

-- next_instant is the first instant of the timetable that nothing is recorded of yet, due_at when it is to be dealt with (later by
-- the jitter); both are empty while the schedule is switched off. handled_instant is the last one that something is recorded
-- of, waiting_instant one that waits for an earlier run to end. revision counts every change of the row: who has not seen
-- the newest changes nothing. failures_since: runs made before do not count as failures in a row.
CREATE TABLE schedule (
    id {TEXT} NOT NULL PRIMARY KEY,
    org_id {TEXT} NOT NULL,
    name {TEXT},
    workflow {TEXT} NOT NULL,
    cron {TEXT} NOT NULL,
    timezone {TEXT} NOT NULL,
    input {TEXT},
    enabled BIGINT NOT NULL,
    overlap {TEXT} NOT NULL,
    catch_up_window_seconds BIGINT NOT NULL,
    jitter_seconds BIGINT NOT NULL,
    paused_until BIGINT,
    max_consecutive_failures BIGINT,
    max_cost_micros BIGINT,
    callback_url {TEXT},
    callback_secret {BLOB},
    next_instant BIGINT,
    due_at BIGINT,
    handled_instant BIGINT NOT NULL,
    waiting_instant BIGINT,
    failures_since BIGINT NOT NULL,
    last_run_at BIGINT,
    last_run_id {TEXT},
    last_error {TEXT},
    revision BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
){HOT};
-- The condition is for the lists: no other statement is planned with it.
CREATE INDEX schedule_list ON schedule (org_id, created_at, id) WHERE created_at >= 0;
CREATE INDEX schedule_workflow ON schedule (org_id, workflow);
CREATE INDEX schedule_due ON schedule (due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX schedule_waiting ON schedule (waiting_instant, id) WHERE waiting_instant IS NOT NULL;

-- One row for each instant of a schedule's timetable, also where it started no run; occasion is empty for these and the
-- run's id for a start by hand. Where many instants in a row were missed at once, one row stands for `instants` of
-- them, from `instant` to `last_instant`.
CREATE TABLE fire (
    schedule_id {TEXT} NOT NULL,
    instant BIGINT NOT NULL,
    occasion {TEXT} NOT NULL,
    last_instant BIGINT NOT NULL,
    instants BIGINT NOT NULL,
    outcome {TEXT} NOT NULL,
    reason {TEXT},
    run_id {TEXT},
    recorded_at BIGINT NOT NULL,
    PRIMARY KEY (schedule_id, instant, occasion)
){CLUSTERED};
