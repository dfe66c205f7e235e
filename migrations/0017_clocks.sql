-- Times of the database's own clock, which all nodes share, and what a node has begun and must end.

-- When the run was first claimed and when it was cancelled, by the database's clock; by the node's where the database has
-- none. Time limit and compute cost of a run that changes its node are counted on them. started_at and finished_at are
-- what clients see. Both are empty where a node older than the columns has claimed or cancelled the run.
ALTER TABLE run ADD COLUMN clock_started_at BIGINT;
ALTER TABLE run ADD COLUMN clock_cancelled_at BIGINT;

-- Random number of the attempt that has the lease until refresh_until.
ALTER TABLE connection ADD COLUMN refresh_holder BIGINT;

-- Runs that a schedule has replaced by a new one and that are still to be cancelled.
CREATE TABLE replaced_run (
    run_id {TEXT} NOT NULL PRIMARY KEY,
    org_id {TEXT} NOT NULL
){CLUSTERED};
