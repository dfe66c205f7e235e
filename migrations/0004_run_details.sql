-- What a run is listed and accounted under, what it used, and who changed what.

-- workflow, model and key_id are as they were when it was made. tags is a JSON array; empty where there are none.
ALTER TABLE run ADD COLUMN workflow {TEXT};
ALTER TABLE run ADD COLUMN model {TEXT};
ALTER TABLE run ADD COLUMN key_id {TEXT};
ALTER TABLE run ADD COLUMN tags {TEXT};
ALTER TABLE run ADD COLUMN zero_data_retention BIGINT NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN input_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN output_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN cache_read_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN cache_write_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN model_calls BIGINT NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN tool_calls BIGINT NOT NULL DEFAULT 0;

-- One row for each tag of a run, in the order of the list.
CREATE TABLE run_tag (
    org_id {TEXT} NOT NULL,
    tag {TEXT} NOT NULL,
    created_at BIGINT NOT NULL,
    run_id {TEXT} NOT NULL,
    PRIMARY KEY (org_id, tag, created_at, run_id)
){CLUSTERED};

-- Who did what, when, from where: written in the transaction of the change. key_id is empty where no key was used.
CREATE TABLE audit (
    org_id {TEXT} NOT NULL,
    at BIGINT NOT NULL,
    id {TEXT} NOT NULL,
    action {TEXT} NOT NULL,
    target {TEXT} NOT NULL,
    key_id {TEXT},
    address {TEXT},
    request_id {TEXT},
    PRIMARY KEY (org_id, at, id)
){CLUSTERED};
