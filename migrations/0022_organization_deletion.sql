-- Deletion of organizations, and the bytes that each has stored.

-- Time at which the owner deleted the organization. It is suspended from then on.
ALTER TABLE organization ADD COLUMN deleted_at BIGINT;
-- Time at which nothing of a deleted organization was left but this row, its audit log and its usage by day.
ALTER TABLE organization ADD COLUMN erased_at BIGINT;
CREATE INDEX organization_deletion ON organization (id) WHERE deleted_at IS NOT NULL AND erased_at IS NULL;

-- Size of the content of an organization that is stored or about to be: the sum of its blobs that are not pending delete.
CREATE TABLE organization_storage (
    org_id {TEXT} NOT NULL PRIMARY KEY,
    bytes BIGINT NOT NULL
){CLUSTERED}{HOT};
INSERT INTO organization_storage (org_id, bytes)
    SELECT org_id, CAST(SUM(size) AS BIGINT) FROM blob WHERE doomed_at IS NULL GROUP BY org_id;
