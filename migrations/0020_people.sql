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
    disabled_at BIGINT
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

ALTER TABLE organization ADD COLUMN created_by {TEXT};

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
