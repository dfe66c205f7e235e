-- Challenge with which the server of a connection has asked for another authorization, sealed. The next authorization uses it.
ALTER TABLE connection ADD COLUMN challenge {BLOB};
