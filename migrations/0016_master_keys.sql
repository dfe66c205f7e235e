-- Which master keys a node has: their ids, separated by commas, that of the key it seals with first; empty where it has
-- none. Nothing where the node does not say: it is of a version before this one.
ALTER TABLE node ADD COLUMN master_keys {TEXT};
