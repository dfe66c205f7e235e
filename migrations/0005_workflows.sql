-- Saved workflows: named run definitions.

-- summary and definition are JSON: what a list shows, and the request that runs start from. What can be large stands last.
-- revision counts the changes of the definition.
CREATE TABLE workflow (
    org_id {TEXT} NOT NULL REFERENCES organization (id),
    name {TEXT} NOT NULL,
    revision BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    summary {TEXT} NOT NULL,
    definition {TEXT} NOT NULL,
    PRIMARY KEY (org_id, name)
){HOT};
