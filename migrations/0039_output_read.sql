-- Time at which the output of a run without retention was read or delivered. NULL if it was deleted unread.
ALTER TABLE run ADD COLUMN output_read_at BIGINT;
