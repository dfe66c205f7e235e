-- Runs whose content is nowhere but in the memory of the node that accepted them.

-- Where other nodes reach a node; empty where they cannot.
ALTER TABLE node ADD COLUMN address {TEXT};

-- The node that has the content of a run: there from the run's creation until nothing of its content is left. While such
-- a run waits, queue.node_id is -1: nobody but this node claims it.
CREATE TABLE unretained (
    run_id {TEXT} NOT NULL PRIMARY KEY,
    node_id BIGINT NOT NULL
);
CREATE INDEX unretained_node ON unretained (node_id, run_id);

-- surcharge_micros is the part of cost_micros that the surcharge has added: surcharge_percent of the rest, rounded up.
-- output_expires_at is there while an answer is held that nobody has read.
ALTER TABLE run ADD COLUMN surcharge_percent BIGINT NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN surcharge_micros BIGINT NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN output_expires_at BIGINT;
