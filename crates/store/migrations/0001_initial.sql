-- Tables of version one.
--
-- Tokens: {TEXT} is text that is compared by its bytes on both databases; {BLOB} is binary;
-- {CLUSTERED} keeps a row inside its primary key where the database can; {HOT} leaves room on
-- a page for rows that change.

-- Organizations, their keys, nodes, runs and what belongs to them.

CREATE TABLE organization (
    id {TEXT} NOT NULL PRIMARY KEY,
    name {TEXT} NOT NULL,
    created_at BIGINT NOT NULL,
    -- Runs created before it are counted in usage_day, all others are not.
    usage_until BIGINT NOT NULL DEFAULT 0,
    created_by {TEXT},
    -- An organization that the operator has suspended, and the reason.
    suspended_at BIGINT,
    suspended_why {TEXT},
    -- Time at which the owner deleted the organization. It is suspended from then on.
    deleted_at BIGINT,
    -- Time at which nothing of a deleted organization was left but this row, its audit log and its usage by day.
    erased_at BIGINT
);
CREATE INDEX organization_deletion ON organization (id) WHERE deleted_at IS NOT NULL AND erased_at IS NULL;

CREATE TABLE api_key (
    id {TEXT} NOT NULL PRIMARY KEY,
    org_id {TEXT} NOT NULL REFERENCES organization (id),
    name {TEXT} NOT NULL,
    role {TEXT} NOT NULL,
    hash {BLOB} NOT NULL,
    created_at BIGINT NOT NULL,
    -- previous_hash is the secret before the last rotation, which works until previous_until.
    expires_at BIGINT,
    previous_hash {BLOB},
    previous_until BIGINT,
    -- Start of the hour in which a request last had the key.
    last_used_at BIGINT
);
CREATE UNIQUE INDEX api_key_hash ON api_key (hash);
CREATE INDEX api_key_list ON api_key (org_id, created_at, id);
CREATE UNIQUE INDEX api_key_previous_hash ON api_key (previous_hash) WHERE previous_hash IS NOT NULL;

-- A sign-in at the console of a self-hosted engine by an API key. hash is the SHA-256 of the session's token, key_hash that of the
-- key's secret: the session ends with it. seen_at is the start of the hour of the last use.
CREATE TABLE console_session (
    id {TEXT} NOT NULL PRIMARY KEY,
    hash {BLOB} NOT NULL,
    key_id {TEXT} NOT NULL,
    key_hash {BLOB} NOT NULL,
    created_at BIGINT NOT NULL,
    seen_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX console_session_hash ON console_session (hash);
CREATE INDEX console_session_end ON console_session (expires_at);

-- A code that begins a session of the console once. hash is its SHA-256.
CREATE TABLE console_code (
    hash {BLOB} NOT NULL PRIMARY KEY,
    key_id {TEXT} NOT NULL,
    key_hash {BLOB} NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX console_code_end ON console_code (expires_at);

-- A started process. ended_at is set when it was declared lost; the row goes when it holds no runs any more.
CREATE TABLE node (
    id BIGINT NOT NULL PRIMARY KEY,
    name {TEXT} NOT NULL,
    started_at BIGINT NOT NULL,
    lease_until BIGINT NOT NULL,
    ended_at BIGINT,
    -- Where other nodes reach a node; empty where they cannot.
    address {TEXT},
    -- The version of its program. draining_since is set once it is about to stop and takes no new clients.
    version {TEXT} NOT NULL,
    draining_since BIGINT,
    -- Which master keys a node has: their ids, separated by commas, that of the key it seals with first; empty where it has
    -- none.
    master_keys {TEXT} NOT NULL
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
    error {TEXT},
    -- How many times the run was taken over from a worker that was lost.
    resumes BIGINT NOT NULL DEFAULT 0,
    -- workflow, model and key_id are as they were when it was made. tags is a JSON array, metadata a JSON object of texts;
    -- both are NULL where there are none.
    workflow {TEXT},
    model {TEXT},
    key_id {TEXT},
    tags {TEXT},
    metadata {TEXT},
    zero_data_retention BIGINT NOT NULL DEFAULT 0,
    input_tokens BIGINT NOT NULL DEFAULT 0,
    output_tokens BIGINT NOT NULL DEFAULT 0,
    cache_read_tokens BIGINT NOT NULL DEFAULT 0,
    cache_write_tokens BIGINT NOT NULL DEFAULT 0,
    model_calls BIGINT NOT NULL DEFAULT 0,
    tool_calls BIGINT NOT NULL DEFAULT 0,
    -- How many files the run left. run_artifacts and artifact_blob are asked for runs that left some only.
    artifact_count BIGINT NOT NULL DEFAULT 0,
    -- The host of the run's callback, so that whoever ends a run knows whether there is one.
    callback_host {TEXT},
    -- surcharge_micros is the part of cost_micros that the surcharge has added: surcharge_percent of the rest, rounded up.
    -- output_expires_at is there while an answer is held that nobody has read.
    surcharge_percent BIGINT NOT NULL DEFAULT 0,
    surcharge_micros BIGINT NOT NULL DEFAULT 0,
    output_expires_at BIGINT,
    -- Which trace a run belongs to, as W3C Trace Context has it: for the worker, also after a takeover, and for the callback.
    traceparent {TEXT},
    tracestate {TEXT},
    -- When the run was first claimed and when it was cancelled, by the database's clock; by the node's where the database has
    -- none. Time limit and compute cost of a run that changes its node are counted on them. started_at and finished_at are
    -- what clients see.
    clock_started_at BIGINT,
    clock_cancelled_at BIGINT,
    -- Subject that started the run: the id of a key, a grant, a session or a schedule, or operator.
    started_by {TEXT},
    -- Amount that was reserved for the run from credits. NULL for a run that needs none.
    reserved_micros BIGINT,
    -- Windows of the budgets in which the run holds its maximum cost until it is settled: a JSON array of [scope, since,
    -- starts_at]. NULL if no budget applies.
    holds {TEXT},
    -- Time at which the output of a run without retention was read or delivered. NULL if it was deleted unread.
    output_read_at BIGINT,
    -- First line of the description or of the prompt, cut. NULL for a run without retention.
    title {TEXT},
    -- Run that this one repeats, which may be deleted by now.
    replay_of {TEXT}
){CLUSTERED}{HOT};
-- Every run meets `created_at >= 0`. Only a statement that says so is planned with these two: the lists. All others
-- find a run through its id, whatever a planner thinks of a table that was empty when it looked.
CREATE INDEX run_list ON run (org_id, created_at, id) WHERE created_at >= 0;
CREATE INDEX run_outcome ON run (org_id, outcome, created_at, id) WHERE outcome IS NOT NULL AND created_at >= 0;
CREATE INDEX run_workflow ON run (org_id, workflow, created_at, id) WHERE workflow IS NOT NULL AND created_at >= 0;
CREATE INDEX run_schedule ON run (schedule_id, created_at, id) WHERE schedule_id IS NOT NULL;
CREATE INDEX run_schedule_outcome ON run (schedule_id, outcome, created_at, id) WHERE schedule_id IS NOT NULL;
CREATE UNIQUE INDEX run_idempotency ON run (org_id, idempotency_key) WHERE idempotency_key IS NOT NULL;

CREATE TABLE run_definition (
    run_id {TEXT} NOT NULL PRIMARY KEY,
    -- Start of the description and the prompt in lower case, for text searches. It precedes the definition, which can be large.
    search_text {TEXT},
    definition {TEXT} NOT NULL,
    -- The names of the inline connections whose credentials were not kept, as a JSON array; empty where there are none.
    requires_credentials {TEXT}
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
    node_id BIGINT,
    -- 1 for a run that was cancelled under its worker: its node finds it without looking at all that it holds.
    stopping BIGINT
){CLUSTERED}{HOT};
CREATE INDEX queue_waiting ON queue (org_id, enqueued_at, run_id) WHERE node_id IS NULL;
CREATE INDEX queue_claimed ON queue (org_id, enqueued_at, run_id) WHERE node_id IS NOT NULL;
CREATE INDEX queue_node ON queue (node_id, run_id) WHERE node_id IS NOT NULL;
CREATE INDEX queue_stopping ON queue (node_id, run_id) WHERE stopping IS NOT NULL;

-- One row: the lock under which runs are handed out and nodes come and go, and the organization served last.
CREATE TABLE dispatch (
    id BIGINT NOT NULL PRIMARY KEY,
    turn BIGINT NOT NULL,
    last_org {TEXT} NOT NULL
){HOT};
INSERT INTO dispatch (id, turn, last_org) VALUES (1, 0, '');

-- What a run has to remember to go on after the death of its worker: written beside its events, deleted at its end.
CREATE TABLE journal (
    run_id {TEXT} NOT NULL,
    seq BIGINT NOT NULL,
    data {TEXT} NOT NULL,
    PRIMARY KEY (run_id, seq)
){CLUSTERED};

-- One row for each tag of a run and each pair of its metadata, in the order of the list. The label of a pair is the key,
-- U+001F and the value; no tag and no key has that character.
CREATE TABLE run_label (
    org_id {TEXT} NOT NULL,
    label {TEXT} NOT NULL,
    created_at BIGINT NOT NULL,
    run_id {TEXT} NOT NULL,
    PRIMARY KEY (org_id, label, created_at, run_id)
){CLUSTERED};

-- What the run object shows of the files that the run left under outputs/, with the blob of each, as a JSON array in the order of
-- their paths.
CREATE TABLE run_artifacts (
    run_id {TEXT} NOT NULL PRIMARY KEY,
    artifacts {TEXT} NOT NULL
);

-- The content that they refer to, once for each content of a run.
CREATE TABLE artifact_blob (
    run_id {TEXT} NOT NULL,
    blob_id {TEXT} NOT NULL,
    PRIMARY KEY (run_id, blob_id)
){CLUSTERED};
CREATE INDEX artifact_blob_of ON artifact_blob (blob_id);

-- The node that has the content of a run without retention in its memory: there from the run's creation until nothing of its
-- content is left. While such a run waits, queue.node_id is -1: nobody but this node claims it.
CREATE TABLE unretained (
    run_id {TEXT} NOT NULL PRIMARY KEY,
    node_id BIGINT NOT NULL
);
CREATE INDEX unretained_node ON unretained (node_id, run_id);

-- Runs that were not settled when the usage of their hour was counted. Each is counted by itself once it is settled, and is
-- not deleted before.
CREATE TABLE late_run (
    run_id {TEXT} NOT NULL PRIMARY KEY,
    org_id {TEXT} NOT NULL,
    created_at BIGINT NOT NULL
){CLUSTERED};
-- Every row meets the condition. Only a statement that says so is planned with this index; all others find a row by its run.
CREATE INDEX late_run_list ON late_run (org_id, created_at, run_id) WHERE created_at >= 0;

-- Runs that a schedule has replaced by a new one and that are still to be cancelled.
CREATE TABLE replaced_run (
    run_id {TEXT} NOT NULL PRIMARY KEY,
    org_id {TEXT} NOT NULL
){CLUSTERED};

-- On PostgreSQL the two tables with the most dead rows are vacuumed by a number of rows that does not grow with them. The
-- default is a fifth of the table.
{AUTOVACUUM};

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
    updated_at BIGINT NOT NULL,
    -- Random number of the attempt that has the lease until refresh_until.
    refresh_holder BIGINT,
    -- Issuer of the authorization server that authorized the connection, sealed. A given client_id and its secret go to no other.
    issuer {BLOB},
    -- Challenge with which the server of a connection has asked for another authorization, sealed. The next authorization uses it.
    challenge {BLOB}
){HOT};
CREATE UNIQUE INDEX connection_name ON connection (org_id, name);

-- An authorization that waits for a person: found once, by the SHA-256 of the state that the browser brings back.
CREATE TABLE oauth_flow (
    state_hash {BLOB} NOT NULL PRIMARY KEY,
    org_id {TEXT} NOT NULL,
    connection_id {TEXT} NOT NULL,
    revision BIGINT NOT NULL,
    pending {BLOB} NOT NULL,
    expires_at BIGINT NOT NULL,
    -- Number of confirmation codes that were tried. Empty while the flow waits for the browser. From then on pending holds the
    -- sealed tokens, and state_hash is the SHA-256 of the state in another form, so that no state finds the row.
    tries BIGINT
);
CREATE INDEX oauth_flow_connection ON oauth_flow (connection_id);
CREATE INDEX oauth_flow_expires ON oauth_flow (expires_at);

-- Credentials of a run's inline connections: only of runs that are not settled.
CREATE TABLE run_secret (
    run_id {TEXT} NOT NULL PRIMARY KEY,
    credentials {BLOB} NOT NULL
);

-- A text that was sealed by the first node of this database: a node that cannot open it has other keys.
CREATE TABLE seal_check (
    id BIGINT NOT NULL PRIMARY KEY,
    sealed {BLOB} NOT NULL
);

-- Workflows, schedules, files and callbacks.

-- Named run definitions. summary and definition are JSON: what a list shows, and the request that runs start from. What can be
-- large stands last. revision counts the changes of the definition.
CREATE TABLE workflow (
    org_id {TEXT} NOT NULL REFERENCES organization (id),
    name {TEXT} NOT NULL,
    revision BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    summary {TEXT} NOT NULL,
    definition {TEXT} NOT NULL,
    PRIMARY KEY (org_id, name)
){HOT};

-- Saved connections and files that the definitions of workflows name. kind is `connection` or `file`; name is the name, or
-- the ID of a file, as the definition has it. It may name nothing that exists.
CREATE TABLE workflow_use (
    org_id {TEXT} NOT NULL,
    kind {TEXT} NOT NULL,
    name {TEXT} NOT NULL,
    workflow {TEXT} NOT NULL,
    PRIMARY KEY (org_id, kind, name, workflow)
){CLUSTERED};
CREATE INDEX workflow_use_workflow ON workflow_use (org_id, workflow);

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
    org_id {TEXT} NOT NULL,
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
CREATE INDEX fire_list ON fire (org_id, instant, schedule_id, occasion);

-- Saved files, and the content that they and others refer to.

-- One row for each content that is stored, or is about to be. check_at is when the sweep is to look whether anything
-- refers to it; empty where something did when it looked last. doomed_at is set where nothing did: its content may be
-- gone, and nobody may refer to it any more.
CREATE TABLE blob (
    id {TEXT} NOT NULL PRIMARY KEY,
    org_id {TEXT} NOT NULL REFERENCES organization (id),
    sha256 {BLOB} NOT NULL,
    size BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    check_at BIGINT,
    doomed_at BIGINT,
    -- 1 where organization_storage has the size of the blob. A blob stops counting with its last file or run, and is deleted later.
    counted BIGINT NOT NULL DEFAULT 1
){HOT};
CREATE UNIQUE INDEX blob_content ON blob (org_id, sha256) WHERE doomed_at IS NULL;
CREATE INDEX blob_check ON blob (check_at, id) WHERE check_at IS NOT NULL;
CREATE INDEX blob_doomed ON blob (doomed_at, id) WHERE doomed_at IS NOT NULL;

-- size and sha256 are those of the blob, which never change.
CREATE TABLE file (
    id {TEXT} NOT NULL PRIMARY KEY,
    org_id {TEXT} NOT NULL REFERENCES organization (id),
    name {TEXT} NOT NULL,
    blob_id {TEXT} NOT NULL,
    size BIGINT NOT NULL,
    sha256 {BLOB} NOT NULL,
    content_type {TEXT} NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX file_name ON file (org_id, name);
CREATE INDEX file_blob ON file (blob_id);
-- As with the lists of runs: only the statement that lists says `created_at >= 0`.
CREATE INDEX file_list ON file (org_id, created_at, id) WHERE created_at >= 0;

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
-- The deliveries of finished runs, for the list.
CREATE INDEX delivery_list ON delivery (org_id, run_id) WHERE give_up_at >= 0;

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

-- What runs may cost in a day or a month: limits, and what is held and spent under them.

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

-- How much of a minute's quota of requests the nodes have taken, by whom it is counted against: a key or a network.

-- minute is counted since 1970 by the clock of the node that asks; block is what the last lease took. Rows of minutes that are
-- over are deleted, so the table holds a few minutes of clients.
CREATE TABLE rate_lease (
    minute BIGINT NOT NULL,
    subject {TEXT} NOT NULL,
    granted BIGINT NOT NULL,
    block BIGINT NOT NULL,
    PRIMARY KEY (minute, subject)
){CLUSTERED}{HOT};

-- What was used by day. day counts from 1970. workflow, model and key_id are empty for runs that had none.
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

-- Sums of usage by month: the sums of usage_day over the days of the month. A month has the number of its first day, in days
-- since 1970.
CREATE TABLE usage_month (
    org_id {TEXT} NOT NULL,
    month BIGINT NOT NULL,
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
    PRIMARY KEY (org_id, month, workflow, model, key_id)
){CLUSTERED};

-- Who did what, when, from where: written in the transaction of the change. actor_kind and actor_id are empty for the engine
-- itself.
CREATE TABLE audit (
    org_id {TEXT} NOT NULL,
    at BIGINT NOT NULL,
    id {TEXT} NOT NULL,
    action {TEXT} NOT NULL,
    target {TEXT} NOT NULL,
    address {TEXT},
    request_id {TEXT},
    actor_kind {TEXT},
    actor_id {TEXT},
    -- The person behind a grant or a session that made a change.
    user_id {TEXT},
    PRIMARY KEY (org_id, at, id)
){CLUSTERED};
CREATE INDEX audit_action ON audit (org_id, action, at, id);
CREATE INDEX audit_target ON audit (org_id, target, at, id);
CREATE INDEX audit_actor ON audit (org_id, actor_id, at, id) WHERE actor_id IS NOT NULL;

-- People, their sessions, and their memberships of organizations.

-- A person who can sign in. email is as it was typed, email_key the form that is compared. password is a PHC string.
CREATE TABLE person (
    id {TEXT} NOT NULL PRIMARY KEY,
    email {TEXT} NOT NULL,
    email_key {TEXT} NOT NULL,
    name {TEXT} NOT NULL,
    password {TEXT} NOT NULL,
    created_at BIGINT NOT NULL,
    email_verified_at BIGINT,
    disabled_at BIGINT,
    -- Second factor: the sealed key of the authenticator, the time of its confirmation, and the last time step that was used.
    totp {BLOB},
    totp_since BIGINT,
    totp_step BIGINT,
    -- A person who has deleted the account. email and name are empty then, and email_key is the id.
    deleted_at BIGINT
);
CREATE UNIQUE INDEX person_email ON person (email_key);

-- A sign-in. hash is the SHA-256 of the session's token. kind is api or web. seen_at is the time of a use, rounded.
CREATE TABLE session (
    id {TEXT} NOT NULL PRIMARY KEY,
    hash {BLOB} NOT NULL,
    user_id {TEXT} NOT NULL,
    kind {TEXT} NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    seen_at BIGINT NOT NULL,
    address {TEXT},
    agent {TEXT}
);
CREATE UNIQUE INDEX session_hash ON session (hash);
CREATE INDEX session_person ON session (user_id, created_at, id);
CREATE INDEX session_end ON session (expires_at);

-- A token that works once. hash is its SHA-256. data depends on the purpose.
CREATE TABLE one_time (
    hash {BLOB} NOT NULL PRIMARY KEY,
    purpose {TEXT} NOT NULL,
    user_id {TEXT} NOT NULL,
    data {TEXT},
    expires_at BIGINT NOT NULL
);
CREATE INDEX one_time_person ON one_time (user_id, purpose);
CREATE INDEX one_time_end ON one_time (expires_at);

-- Number of attempts in a window. subject names the action and the person, the address or the network; window is its start.
CREATE TABLE attempt (
    window_start BIGINT NOT NULL,
    subject {TEXT} NOT NULL,
    count BIGINT NOT NULL,
    PRIMARY KEY (window_start, subject)
){CLUSTERED}{HOT};

-- Role of a person in an organization. The index allows one owner.
CREATE TABLE membership (
    org_id {TEXT} NOT NULL,
    user_id {TEXT} NOT NULL,
    role {TEXT} NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (org_id, user_id)
){CLUSTERED};
CREATE INDEX membership_person ON membership (user_id, org_id);
CREATE UNIQUE INDEX membership_owner ON membership (org_id) WHERE role = 'owner';

-- Accounts, organizations, mail and the OAuth server of a hosted deployment.

-- An account of a person at an identity provider. issuer and subject name it, never an address.
CREATE TABLE identity (
    issuer {TEXT} NOT NULL,
    subject {TEXT} NOT NULL,
    user_id {TEXT} NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (issuer, subject)
){CLUSTERED};
CREATE INDEX identity_person ON identity (user_id);

-- Picture of a person. sha256 is the hash of the bytes.
CREATE TABLE avatar (
    user_id {TEXT} NOT NULL PRIMARY KEY,
    content_type {TEXT} NOT NULL,
    bytes {BLOB} NOT NULL,
    sha256 {BLOB} NOT NULL,
    updated_at BIGINT NOT NULL
);

-- Invitation of an address into an organization. hash is the SHA-256 of its token.
CREATE TABLE invitation (
    id {TEXT} NOT NULL PRIMARY KEY,
    org_id {TEXT} NOT NULL,
    email {TEXT} NOT NULL,
    email_key {TEXT} NOT NULL,
    role {TEXT} NOT NULL,
    hash {BLOB} NOT NULL,
    invited_by {TEXT} NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX invitation_hash ON invitation (hash);
CREATE UNIQUE INDEX invitation_address ON invitation (org_id, email_key);
CREATE INDEX invitation_end ON invitation (expires_at);

-- Mail to send. content is sealed: the address and the arguments of the template. A node that sends a mail moves due_at to
-- the end of its lease and counts the attempt; attempts is the fence of the claim. dedupe makes a mail unique: such a row
-- stays after the mail was sent, without content and without due_at.
CREATE TABLE mail (
    id {TEXT} NOT NULL PRIMARY KEY,
    kind {TEXT} NOT NULL,
    content {BLOB} NOT NULL,
    dedupe {TEXT},
    created_at BIGINT NOT NULL,
    due_at BIGINT,
    give_up_at BIGINT NOT NULL,
    attempts BIGINT NOT NULL
);
CREATE UNIQUE INDEX mail_dedupe ON mail (dedupe) WHERE dedupe IS NOT NULL;
CREATE INDEX mail_due ON mail (due_at) WHERE due_at IS NOT NULL;

-- The operator's key. hash is its SHA-256.
CREATE TABLE operator_key (
    hash {BLOB} NOT NULL PRIMARY KEY,
    created_at BIGINT NOT NULL
);

-- An OAuth client. kind is registered or document; a document client has the URL of its document as id. metadata is the JSON
-- that the client registered or publishes.
CREATE TABLE oauth_client (
    id {TEXT} NOT NULL PRIMARY KEY,
    kind {TEXT} NOT NULL,
    metadata {TEXT} NOT NULL,
    secret_hash {BLOB},
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX oauth_client_end ON oauth_client (expires_at);

-- Permission of a person for a client in one organization, and the family of its tokens. scope is member or admin. Without
-- its grant a code or a token is worth nothing: to revoke a family is to delete this row.
CREATE TABLE oauth_grant (
    id {TEXT} NOT NULL PRIMARY KEY,
    org_id {TEXT} NOT NULL,
    user_id {TEXT} NOT NULL,
    client_id {TEXT} NOT NULL,
    client_name {TEXT} NOT NULL,
    scope {TEXT} NOT NULL,
    created_at BIGINT NOT NULL,
    used_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX oauth_grant_person ON oauth_grant (user_id, org_id, id);
CREATE INDEX oauth_grant_end ON oauth_grant (expires_at);

-- Authorization code. hash is its SHA-256, challenge the PKCE challenge (S256).
CREATE TABLE oauth_code (
    hash {BLOB} NOT NULL PRIMARY KEY,
    grant_id {TEXT} NOT NULL,
    redirect_uri {TEXT} NOT NULL,
    challenge {TEXT} NOT NULL,
    expires_at BIGINT NOT NULL,
    used_at BIGINT
);
CREATE INDEX oauth_code_end ON oauth_code (expires_at);

-- Access or refresh token of a grant. hash is its SHA-256.
CREATE TABLE oauth_token (
    hash {BLOB} NOT NULL PRIMARY KEY,
    grant_id {TEXT} NOT NULL,
    kind {TEXT} NOT NULL,
    expires_at BIGINT NOT NULL,
    used_at BIGINT
);
CREATE INDEX oauth_token_end ON oauth_token (expires_at);

-- Deletion of organizations, and the bytes that each has stored.

-- Size of the content of an organization that is stored or about to be: the sum of its blobs that are not pending delete.
CREATE TABLE organization_storage (
    org_id {TEXT} NOT NULL PRIMARY KEY,
    bytes BIGINT NOT NULL
){CLUSTERED}{HOT};

-- Credits of the organizations of a hosted deployment, and the ledger behind them.

-- Credits of an organization. reserved_micros is the sum over its runs that are not settled. suspended is 1 while the
-- organization is suspended or deleted. topup_below_micros is NULL while credits are not bought automatically.
CREATE TABLE credit (
    org_id {TEXT} NOT NULL PRIMARY KEY,
    balance_micros BIGINT NOT NULL,
    reserved_micros BIGINT NOT NULL CHECK (reserved_micros >= 0),
    suspended BIGINT NOT NULL,
    topup_below_micros BIGINT
){CLUSTERED}{HOT};

-- Movements of credits. The balance of an organization is their sum. cause names the reason of a movement, which therefore
-- counts once. Rows are never changed or deleted: a mistake is corrected by a further row.
CREATE TABLE ledger (
    cause {TEXT} NOT NULL PRIMARY KEY,
    org_id {TEXT} NOT NULL,
    at BIGINT NOT NULL,
    kind {TEXT} NOT NULL,
    amount_micros BIGINT NOT NULL,
    run_id {TEXT},
    payment_id {TEXT},
    topup_id {TEXT},
    description {TEXT} NOT NULL,
    user_id {TEXT}
);
CREATE INDEX ledger_list ON ledger (org_id, at, cause);
{APPEND_ONLY_LEDGER};

-- Sums of the ledger up to a position of each organization, so that its check reads new entries alone. Entries are never
-- changed, and each is newer than those before it.

-- Sum of the entries of an organization up to the one with this time and cause. No row while the ledger is short.
CREATE TABLE ledger_sum (
    org_id {TEXT} NOT NULL PRIMARY KEY,
    at BIGINT NOT NULL,
    cause {TEXT} NOT NULL,
    balance_micros BIGINT NOT NULL
){CLUSTERED};

-- Sums of the entries of a payment up to the position in ledger_sum: what was credited, and what was taken back. payment_id is
-- empty for entries that name none.
CREATE TABLE ledger_payment_sum (
    org_id {TEXT} NOT NULL,
    payment_id {TEXT} NOT NULL,
    bought_micros BIGINT NOT NULL,
    taken_micros BIGINT NOT NULL,
    PRIMARY KEY (org_id, payment_id)
){CLUSTERED};

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

-- Subscriptions to licenses, which organizations buy through Stripe.

-- Subscription of an organization, as it was last read at Stripe. id is that of Stripe, plan a name of the configuration.
-- monthly_runs are for each deployment. state is active, past_due or ended. renews is 1 while Stripe goes on to charge for it.
-- revision counts the changes. entitlement has what the operator has granted, which comes first while it lasts.
CREATE TABLE subscription (
    org_id {TEXT} NOT NULL PRIMARY KEY,
    id {TEXT} NOT NULL,
    plan {TEXT} NOT NULL,
    monthly_runs BIGINT NOT NULL,
    deployments BIGINT NOT NULL,
    state {TEXT} NOT NULL,
    period_end BIGINT NOT NULL,
    renews BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
){CLUSTERED};
CREATE UNIQUE INDEX subscription_id ON subscription (id);

-- Purchases of credits: what organizations buy through Stripe, and what Stripe takes back.

-- Organization as a customer of Stripe, with its saved card. payment_method is NULL without one; source is checkout or portal.
-- asked_at is the time of the last attempt to read the card, seen_at that of the last success.
CREATE TABLE billing_account (
    org_id {TEXT} NOT NULL PRIMARY KEY,
    customer {TEXT} NOT NULL,
    payment_method {TEXT},
    brand {TEXT},
    last4 {TEXT},
    exp_month BIGINT,
    exp_year BIGINT,
    source {TEXT},
    asked_at BIGINT,
    seen_at BIGINT,
    -- Time at which a node expires the open pages of a customer whose organization was deleted. NULL once it is done, and for every
    -- other customer.
    close_at BIGINT
){CLUSTERED};
CREATE UNIQUE INDEX billing_account_customer ON billing_account (customer);
-- A card that was removed at Stripe is found by its ID.
CREATE INDEX billing_account_card ON billing_account (payment_method) WHERE payment_method IS NOT NULL;
CREATE INDEX billing_account_close ON billing_account (close_at, org_id) WHERE close_at IS NOT NULL;

-- Automatic purchases of an organization; no row while they are disabled. consent_text is the text that the person has agreed
-- to, and payment_method the card that was saved then. failures counts declined purchases in a row. paused_until is the time
-- before which nothing is bought.
CREATE TABLE auto_topup (
    org_id {TEXT} NOT NULL PRIMARY KEY,
    threshold_cents BIGINT NOT NULL,
    amount_cents BIGINT NOT NULL,
    payment_method {TEXT} NOT NULL,
    consent_by {TEXT} NOT NULL,
    consent_at BIGINT NOT NULL,
    consent_text {TEXT} NOT NULL,
    failures BIGINT NOT NULL,
    paused_until BIGINT
){CLUSTERED};

-- Purchase, from the order to its end. kind is checkout or auto. check_at is the time of the next look at Stripe, NULL once
-- nothing is expected; checks counts the looks. payment_method is the card that an automatic purchase charges. error says why
-- a person has to look at it.
CREATE TABLE topup (
    id {TEXT} NOT NULL PRIMARY KEY,
    org_id {TEXT} NOT NULL,
    kind {TEXT} NOT NULL,
    amount_cents BIGINT NOT NULL,
    state {TEXT} NOT NULL,
    session_id {TEXT},
    intent_id {TEXT},
    save_card BIGINT NOT NULL,
    payment_method {TEXT},
    created_by {TEXT},
    created_at BIGINT NOT NULL,
    check_at BIGINT,
    checks BIGINT NOT NULL,
    error {TEXT},
    -- Consent under which an automatic purchase charges the card. NULL for a purchase on a page.
    consent_id {TEXT}
){HOT};
CREATE INDEX topup_list ON topup (org_id, created_at);
CREATE INDEX topup_check ON topup (check_at, id) WHERE check_at IS NOT NULL;
CREATE INDEX topup_waiting ON topup (org_id) WHERE state IN ('created', 'open', 'processing');
CREATE UNIQUE INDEX topup_session ON topup (session_id) WHERE session_id IS NOT NULL;
CREATE UNIQUE INDEX topup_intent ON topup (intent_id) WHERE intent_id IS NOT NULL;
CREATE UNIQUE INDEX topup_one_auto ON topup (org_id) WHERE kind = 'auto' AND state IN ('created', 'processing');

-- Payment of a purchase. refunded_cents and disputed_cents are the amounts that Stripe tells; together they may exceed
-- amount_cents. compare_at is the time of the next comparison with Stripe, NULL once nothing is expected.
CREATE TABLE payment (
    id {TEXT} NOT NULL PRIMARY KEY,
    org_id {TEXT} NOT NULL,
    topup_id {TEXT} NOT NULL,
    intent_id {TEXT} NOT NULL,
    charge_id {TEXT},
    amount_cents BIGINT NOT NULL,
    refunded_cents BIGINT NOT NULL,
    disputed_cents BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    compare_at BIGINT
){HOT};
CREATE INDEX payment_list ON payment (org_id, created_at, id);
CREATE INDEX payment_compare ON payment (compare_at, id) WHERE compare_at IS NOT NULL;
CREATE UNIQUE INDEX payment_topup ON payment (topup_id);
CREATE UNIQUE INDEX payment_intent ON payment (intent_id);
CREATE UNIQUE INDEX payment_charge ON payment (charge_id) WHERE charge_id IS NOT NULL;

-- Refund of a payment, by its ID at Stripe. state is taken or returned.
CREATE TABLE refund (
    id {TEXT} NOT NULL PRIMARY KEY,
    payment_id {TEXT} NOT NULL,
    amount_cents BIGINT NOT NULL,
    state {TEXT} NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX refund_payment ON refund (payment_id);

-- Dispute of a payment, by its ID at Stripe. state is taken or returned.
CREATE TABLE dispute (
    id {TEXT} NOT NULL PRIMARY KEY,
    payment_id {TEXT} NOT NULL,
    amount_cents BIGINT NOT NULL,
    state {TEXT} NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX dispute_payment ON dispute (payment_id);

-- Event of Stripe, without its content. due_at is NULL once outcome is set: done, ignored or failed. While a node handles the
-- event, due_at is the end of its lease. tries counts those who had it.
CREATE TABLE stripe_event (
    id {TEXT} NOT NULL PRIMARY KEY,
    kind {TEXT} NOT NULL,
    object_id {TEXT} NOT NULL,
    made_at BIGINT NOT NULL,
    received_at BIGINT NOT NULL,
    due_at BIGINT,
    tries BIGINT NOT NULL,
    outcome {TEXT}
){HOT};
CREATE INDEX stripe_event_due ON stripe_event (due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX stripe_event_received ON stripe_event (received_at);

-- Search for events of Stripe that no webhook has brought: one row, with id 1. due_at is the time of the next one. Every event
-- that was made before until_at is known; NULL before the first search.
CREATE TABLE stripe_search (
    id BIGINT NOT NULL PRIMARY KEY,
    due_at BIGINT NOT NULL,
    until_at BIGINT
);
INSERT INTO stripe_search (id, due_at) VALUES (1, 0);

-- Refunds that are ordered here, and what is still to be done with customers of deleted organizations.

-- Refund that the operator has ordered, or the engine for a deleted organization: recorded before the request to Stripe, which
-- has its ID as the key. reference is the operator's name for it; NULL for all that was left of the payment. state is created
-- before the first request, sent from then on, made once refund_id is known, and abandoned once Stripe has made none for good.
-- due_at is the time at which a node carries it out; NULL for one that the operator repeats.
CREATE TABLE refund_order (
    id {TEXT} NOT NULL PRIMARY KEY,
    payment_id {TEXT} NOT NULL,
    reference {TEXT},
    amount_cents BIGINT NOT NULL,
    state {TEXT} NOT NULL,
    refund_id {TEXT},
    created_at BIGINT NOT NULL,
    due_at BIGINT,
    tries BIGINT NOT NULL
);
CREATE UNIQUE INDEX refund_order_reference ON refund_order (payment_id, reference) WHERE reference IS NOT NULL;
CREATE INDEX refund_order_payment ON refund_order (payment_id);
CREATE INDEX refund_order_due ON refund_order (due_at, id) WHERE due_at IS NOT NULL;

-- Consents to automatic purchases: what a person has agreed to, kept for as long as the ledger is. id is a TypeID. card_brand and
-- card_last4 name the card that was saved then. Rows are never changed or deleted: disabling the purchases, a dispute and the
-- deletion of the organization leave them.
CREATE TABLE auto_topup_consent (
    id {TEXT} NOT NULL PRIMARY KEY,
    org_id {TEXT} NOT NULL,
    consent_by {TEXT} NOT NULL,
    at BIGINT NOT NULL,
    threshold_cents BIGINT NOT NULL,
    amount_cents BIGINT NOT NULL,
    payment_method {TEXT} NOT NULL,
    card_brand {TEXT},
    card_last4 {TEXT},
    consent_text {TEXT} NOT NULL
);
CREATE INDEX auto_topup_consent_list ON auto_topup_consent (org_id, at, id);
{APPEND_ONLY_CONSENTS};

-- Random bytes of the installation, from its first node. Every node derives the same keys from them, which no other installation
-- has.
CREATE TABLE installation (
    id BIGINT NOT NULL PRIMARY KEY,
    seed {BLOB} NOT NULL,
    -- Time of the last pass of retention. One that is long past is a reason to ask whether the clock is right.
    retention_at BIGINT
);
