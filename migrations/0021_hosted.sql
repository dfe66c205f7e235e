-- Accounts, organizations, mail and the OAuth server of a hosted deployment.

-- The person behind a grant or a session that made a change.
ALTER TABLE audit ADD COLUMN user_id {TEXT};

-- An organization that the operator has suspended, and the reason.
ALTER TABLE organization ADD COLUMN suspended_at BIGINT;
ALTER TABLE organization ADD COLUMN suspended_why {TEXT};

-- Second factor: the sealed key of the authenticator, the time of its confirmation, and the last time step that was used.
ALTER TABLE person ADD COLUMN totp {BLOB};
ALTER TABLE person ADD COLUMN totp_since BIGINT;
ALTER TABLE person ADD COLUMN totp_step BIGINT;
-- A person who has deleted the account. email and name are empty then, and email_key is the id.
ALTER TABLE person ADD COLUMN deleted_at BIGINT;

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
