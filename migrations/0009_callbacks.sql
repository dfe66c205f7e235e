-- Completion callbacks: where each goes, when the next attempt is due, and the attempts that were made.

-- One row for each run that has a callback, made with the run. host is host and port of the receiver; target is the URL
-- and the secret, sealed. give_up_at is empty until the run is final, due_at while nothing is to be sent. A node that
-- sends is named in node, and due_at is then the end of its lease; claim counts who had it. failures counts those in a row.
CREATE TABLE delivery (
    run_id {TEXT} NOT NULL PRIMARY KEY,
    org_id {TEXT} NOT NULL,
    host {TEXT} NOT NULL,
    target {BLOB} NOT NULL,
    attempts BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    due_at BIGINT,
    give_up_at BIGINT,
    claim BIGINT NOT NULL,
    node {TEXT}
){HOT};
-- By host: what one receiver leaves waiting is stepped over by those who look for others.
CREATE INDEX delivery_due ON delivery (host, due_at, run_id) WHERE due_at >= 0;
CREATE INDEX delivery_node ON delivery (node) WHERE node IS NOT NULL;

CREATE TABLE delivery_attempt (
    run_id {TEXT} NOT NULL,
    attempt BIGINT NOT NULL,
    at BIGINT NOT NULL,
    status BIGINT,
    error {TEXT},
    duration_ms BIGINT NOT NULL,
    next_at BIGINT,
    PRIMARY KEY (run_id, attempt)
){CLUSTERED};

-- The host of the run's callback, so that whoever ends a run knows whether there is one.
ALTER TABLE run ADD COLUMN callback_host {TEXT};
