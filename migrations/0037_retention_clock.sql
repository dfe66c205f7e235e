-- Time of the last pass of retention. One that is long past is a reason to ask whether the clock is right.
ALTER TABLE installation ADD COLUMN retention_at BIGINT;
