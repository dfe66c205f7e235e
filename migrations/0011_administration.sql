-- Keys that end and keys that are rotated, ways into the audit log, and what was used by day.

-- previous_hash is the secret before the last rotation, which works until previous_until.
ALTER TABLE api_key ADD COLUMN expires_at BIGINT;
ALTER TABLE api_key ADD COLUMN previous_hash {BLOB};
ALTER TABLE api_key ADD COLUMN previous_until BIGINT;
CREATE UNIQUE INDEX api_key_previous_hash ON api_key (previous_hash) WHERE previous_hash IS NOT NULL;

CREATE INDEX audit_action ON audit (org_id, action, at, id);
CREATE INDEX audit_target ON audit (org_id, target, at, id);
CREATE INDEX audit_key ON audit (org_id, key_id, at, id) WHERE key_id IS NOT NULL;

-- Runs created before it are counted in usage_day, all others are not.
ALTER TABLE organization ADD COLUMN usage_until BIGINT NOT NULL DEFAULT 0;

-- Days since 1970. workflow, model and key_id are empty for runs that had none.
CREATE TABLE usage_day (
    org_id {TEXT} NOT NULL,
    day BIGINT NOT NULL,
    workflow {TEXT} NOT NULL,
    model {TEXT} NOT NULL,
    key_id {TEXT} NOT NULL,
    runs BIGINT NOT NULL,
    succeeded BIGINT NOT NULL,
    cost_micros BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cache_read_tokens BIGINT NOT NULL,
    cache_write_tokens BIGINT NOT NULL,
    model_calls BIGINT NOT NULL,
    tool_calls BIGINT NOT NULL,
    PRIMARY KEY (org_id, day, workflow, model, key_id)
){CLUSTERED};
