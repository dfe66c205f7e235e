-- What a run has to remember to go on after the death of its worker: written beside its events, deleted at its end.
CREATE TABLE journal (
    run_id {TEXT} NOT NULL,
    seq BIGINT NOT NULL,
    data {TEXT} NOT NULL,
    PRIMARY KEY (run_id, seq)
){CLUSTERED};

-- How many times the run was taken over from a worker that was lost.
ALTER TABLE run ADD COLUMN resumes BIGINT NOT NULL DEFAULT 0;
