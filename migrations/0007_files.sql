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
    doomed_at BIGINT
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
