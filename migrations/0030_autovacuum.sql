-- On PostgreSQL the two tables with the most dead rows are vacuumed by a number of rows that does not grow with them. The
-- default is a fifth of the table.
{AUTOVACUUM};
