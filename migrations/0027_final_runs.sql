-- The index of runs by outcome has only final runs on SQLite: a new run is in one index less of its organization. A group of
-- creates by many organizations writes a page of each index for each of them. PostgreSQL keeps the index of all runs, as no
-- migration may build an index of so many rows there.
{INDEX_OF_FINAL_RUNS};
