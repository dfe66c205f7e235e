-- The files that runs left under outputs/.

-- How many a run left. The tables below are asked for runs that left some only.
ALTER TABLE run ADD COLUMN artifact_count BIGINT NOT NULL DEFAULT 0;

-- What the run object shows of them, with the blob of each, as a JSON array in the order of their paths.
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
