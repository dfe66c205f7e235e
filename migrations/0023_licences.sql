-- Licenses: what organizations of a hosted deployment are entitled to, and the license of a self-hosted engine.

-- Entitlement of an organization to licenses. source is operator or stripe, state active, past_due or ended. monthly_runs are
-- for each deployment.
CREATE TABLE entitlement (
    org_id {TEXT} NOT NULL PRIMARY KEY,
    plan {TEXT},
    source {TEXT} NOT NULL,
    subscription {TEXT},
    monthly_runs BIGINT NOT NULL,
    deployments BIGINT NOT NULL,
    state {TEXT} NOT NULL,
    period_end BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
){CLUSTERED};
CREATE UNIQUE INDEX entitlement_subscription ON entitlement (subscription) WHERE subscription IS NOT NULL;

-- Installation that an organization has licensed. The token is not stored; serial is its number.
CREATE TABLE deployment (
    id {TEXT} NOT NULL PRIMARY KEY,
    org_id {TEXT} NOT NULL,
    name {TEXT} NOT NULL,
    machine_id {TEXT} NOT NULL,
    serial {TEXT} NOT NULL,
    monthly_runs BIGINT NOT NULL,
    created_by {TEXT} NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    ended_at BIGINT
);
CREATE INDEX deployment_list ON deployment (org_id, id);
CREATE UNIQUE INDEX deployment_machine ON deployment (org_id, machine_id) WHERE ended_at IS NULL;

-- License of this self-hosted engine: one row, with id 1. organization is an organization of the deployment that issued it.
CREATE TABLE license (
    id BIGINT NOT NULL PRIMARY KEY,
    serial {TEXT} NOT NULL,
    deployment_id {TEXT} NOT NULL,
    organization {TEXT} NOT NULL,
    name {TEXT} NOT NULL,
    monthly_runs BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    installed_at BIGINT NOT NULL
);

-- Runs that were created under a license in the calendar month that begins at month, in UTC.
CREATE TABLE allowance (
    month BIGINT NOT NULL PRIMARY KEY,
    used BIGINT NOT NULL
){CLUSTERED}{HOT};
