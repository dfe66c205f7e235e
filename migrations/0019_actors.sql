-- Authors of changes and of runs that are not API keys.

-- Kind and id of the author. Both are empty for the engine itself and in rows of earlier versions, which have key_id alone.
ALTER TABLE audit ADD COLUMN actor_kind {TEXT};
ALTER TABLE audit ADD COLUMN actor_id {TEXT};

-- Subject that started the run: the id of a key, a grant, a session or a schedule, or operator. Empty in rows of earlier
-- versions, which have key_id and schedule_id alone.
ALTER TABLE run ADD COLUMN started_by {TEXT};
