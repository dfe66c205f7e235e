-- Organizations, their keys, nodes, runs and what belongs to them.
--
-- Tokens: {TEXT} is text that is compared by its bytes on both databases; {BLOB} is binary;
-- {CLUSTERED} keeps a row inside its primary key where the database can; {HOT} leaves room on
-- a page for rows that change.

CREATE TABLE organization (
    id {TEXT} NOT NULL PRIMARY KEY,
    name {TEXT} NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE TABLE api_key (
    id {TEXT} NOT NULL PRIMARY KEY,
    org_id {TEXT} NOT NULL REFERENCES organization (id),
    name {TEXT} NOT NULL,
    role {TEXT} NOT NULL,
    hash {BLOB} NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX api_key_hash ON api_key (hash);
CREATE INDEX api_key_list ON api_key (org_id, created_at, id);

-- A started process. ended_at is set when it was declared lost; the row goes when it holds no runs any more.
CREATE TABLE node (
    id BIGINT NOT NULL PRIMARY KEY,
    name {TEXT} NOT NULL,
    started_at BIGINT NOT NULL,
    lease_until BIGINT NOT NULL,
    ended_at BIGINT
){HOT};

-- Small and hot. What is large or written once lies in the tables below. outcome is the status once it is
-- final and stays empty until then: listing by status reads it, so that the moves before touch no index.
CREATE TABLE run (
    id {TEXT} NOT NULL PRIMARY KEY,
    org_id {TEXT} NOT NULL REFERENCES organization (id),
    status {TEXT} NOT NULL,
    outcome {TEXT},
    attempt BIGINT NOT NULL,
    last_event BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    started_at BIGINT,
    finished_at BIGINT,
    max_cost_micros BIGINT NOT NULL,
    cost_micros BIGINT NOT NULL,
    billing_pending BIGINT NOT NULL,
    timeout_seconds BIGINT NOT NULL,
    idempotency_key {TEXT},
    schedule_id {TEXT},
    error {TEXT}
){CLUSTERED}{HOT};
-- Every run meets `created_at >= 0`. Only a statement that says so is planned with these two: the lists. All others
-- find a run through its id, whatever a planner thinks of a table that was empty when it looked.
CREATE INDEX run_list ON run (org_id, created_at, id) WHERE created_at >= 0;
CREATE INDEX run_outcome ON run (org_id, outcome, created_at, id) WHERE created_at >= 0;
CREATE INDEX run_schedule ON run (schedule_id, created_at, id) WHERE schedule_id IS NOT NULL;
CREATE INDEX run_schedule_outcome ON run (schedule_id, outcome, created_at, id) WHERE schedule_id IS NOT NULL;
CREATE UNIQUE INDEX run_idempotency ON run (org_id, idempotency_key) WHERE idempotency_key IS NOT NULL;

CREATE TABLE run_definition (
    run_id {TEXT} NOT NULL PRIMARY KEY,
    definition {TEXT} NOT NULL
);

CREATE TABLE run_output (
    run_id {TEXT} NOT NULL PRIMARY KEY,
    output {TEXT} NOT NULL
);

CREATE TABLE event (
    run_id {TEXT} NOT NULL,
    seq BIGINT NOT NULL,
    kind {TEXT} NOT NULL,
    data {TEXT} NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (run_id, seq)
){CLUSTERED};

-- One thin row for each run that is not settled: waiting while node_id is empty, claimed afterwards. Lists of open runs
-- go through it too: enqueued_at is created_at of the run.
CREATE TABLE queue (
    run_id {TEXT} NOT NULL PRIMARY KEY,
    org_id {TEXT} NOT NULL,
    enqueued_at BIGINT NOT NULL,
    node_id BIGINT
){CLUSTERED}{HOT};
CREATE INDEX queue_waiting ON queue (org_id, enqueued_at, run_id) WHERE node_id IS NULL;
CREATE INDEX queue_claimed ON queue (org_id, enqueued_at, run_id) WHERE node_id IS NOT NULL;
CREATE INDEX queue_node ON queue (node_id, run_id) WHERE node_id IS NOT NULL;

-- One row: the lock under which runs are handed out and nodes come and go, and the organization served last.
CREATE TABLE dispatch (
    id BIGINT NOT NULL PRIMARY KEY,
    turn BIGINT NOT NULL,
    last_org {TEXT} NOT NULL
){HOT};
INSERT INTO dispatch (id, turn, last_org) VALUES (1, 0, '');
