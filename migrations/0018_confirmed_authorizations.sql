-- Authorizations of connections that an administrator has to confirm, and the authorization server of a connection's client.

-- Number of confirmation codes that were tried. Empty while the flow waits for the browser. From then on pending holds the
-- sealed tokens, and state_hash is the SHA-256 of the state in another form, so that no state finds the row.
ALTER TABLE oauth_flow ADD COLUMN tries BIGINT;

-- Issuer of the authorization server that authorized the connection, sealed. A given client_id and its secret go to no other.
ALTER TABLE connection ADD COLUMN issuer {BLOB};
