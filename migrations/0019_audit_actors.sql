-- Authors of changes that are not API keys.

-- Kind and id of the author. Both are empty for the engine itself and in rows of earlier versions, which have key_id alone.
ALTER TABLE audit ADD COLUMN actor_kind {TEXT};
ALTER TABLE audit ADD COLUMN actor_id {TEXT};
