-- What operators see of nodes, and what a node is told of its runs by others.

-- The version of its program; empty for nodes that are older than this column. draining_since is set once it is about to
-- stop and takes no new clients.
ALTER TABLE node ADD COLUMN version {TEXT};
ALTER TABLE node ADD COLUMN draining_since BIGINT;

-- 1 for a run that was cancelled under its worker: its node finds it without looking at all that it holds.
ALTER TABLE queue ADD COLUMN stopping BIGINT;
CREATE INDEX queue_stopping ON queue (node_id, run_id) WHERE stopping IS NOT NULL;
