-- Saved connections, what is under way to authorize them, and the credentials that runs bring themselves.
--
-- What is in a {BLOB} here is sealed by the engine: for its table, column, row and organization.

-- definition is JSON without anything secret. tokens is what OAuth gave, tokens_version counts its changes; refresh_until
-- is the lease under which one node asks for new tokens. revision counts the changes of the definition.
CREATE TABLE connection (
    id {TEXT} NOT NULL PRIMARY KEY,
    org_id {TEXT} NOT NULL REFERENCES organization (id),
    name {TEXT} NOT NULL,
    definition {TEXT} NOT NULL,
    credentials {BLOB} NOT NULL,
    tokens {BLOB},
    tokens_version BIGINT NOT NULL,
    refresh_until BIGINT NOT NULL,
    status {TEXT} NOT NULL,
    error {TEXT},
    revision BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
){HOT};
CREATE UNIQUE INDEX connection_name ON connection (org_id, name);

-- An authorization that waits for a person: found once, by the SHA-256 of the state that the browser brings back.
CREATE TABLE oauth_flow (
    state_hash {BLOB} NOT NULL PRIMARY KEY,
    org_id {TEXT} NOT NULL,
    connection_id {TEXT} NOT NULL,
    revision BIGINT NOT NULL,
    pending {BLOB} NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX oauth_flow_connection ON oauth_flow (connection_id);
CREATE INDEX oauth_flow_expires ON oauth_flow (expires_at);

-- Credentials of a run's inline connections: only of runs that are not settled.
CREATE TABLE run_secret (
    run_id {TEXT} NOT NULL PRIMARY KEY,
    credentials {BLOB} NOT NULL
);

-- The names of the inline connections whose credentials were not kept, as a JSON array; empty where there are none.
ALTER TABLE run_definition ADD COLUMN requires_credentials {TEXT};

-- A text that was sealed by the first node of this database: a node that cannot open it has other keys.
CREATE TABLE seal_check (
    id BIGINT NOT NULL PRIMARY KEY,
    sealed {BLOB} NOT NULL
);
