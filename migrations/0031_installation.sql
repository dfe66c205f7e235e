-- Random bytes of the installation, from its first node. Every node derives the same keys from them, which no other installation
-- has.
CREATE TABLE installation (
    id BIGINT NOT NULL PRIMARY KEY,
    seed {BLOB} NOT NULL
);
