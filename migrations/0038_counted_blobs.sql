-- 1 where organization_storage has the size of the blob. A blob stops counting with its last file or run, and is deleted later.
ALTER TABLE blob ADD COLUMN counted BIGINT NOT NULL DEFAULT 1;
