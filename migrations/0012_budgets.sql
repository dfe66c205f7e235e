-- What runs may cost in a day or a month: limits, what is held and spent under them, and what each run holds.

-- A limit. Its windows are those of `since`: it counts from there on.
CREATE TABLE budget (
    org_id {TEXT} NOT NULL,
    scope {TEXT} NOT NULL,
    limit_micros BIGINT NOT NULL,
    period {TEXT} NOT NULL,
    since BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (org_id, scope)
){CLUSTERED};

-- One day or month of a budget, from its first run on.
CREATE TABLE budget_window (
    org_id {TEXT} NOT NULL,
    scope {TEXT} NOT NULL,
    since BIGINT NOT NULL,
    starts_at BIGINT NOT NULL,
    held_micros BIGINT NOT NULL,
    spent_micros BIGINT NOT NULL,
    PRIMARY KEY (org_id, scope, since, starts_at)
){CLUSTERED}{HOT};

-- What a run holds, and of which windows: until it is settled.
CREATE TABLE budget_hold (
    run_id {TEXT} NOT NULL,
    org_id {TEXT} NOT NULL,
    scope {TEXT} NOT NULL,
    since BIGINT NOT NULL,
    starts_at BIGINT NOT NULL,
    held_micros BIGINT NOT NULL,
    PRIMARY KEY (run_id, scope)
){CLUSTERED};

-- Whether it held something when it was made: those that did not are settled without looking.
ALTER TABLE run ADD COLUMN budgeted BIGINT NOT NULL DEFAULT 0;
