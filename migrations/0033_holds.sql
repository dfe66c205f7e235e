-- Windows of the budgets in which the run holds its maximum cost until it is settled: a JSON array of [scope, since, starts_at].
-- NULL if they are in budget_hold. Only SQLite writes it: nodes of the version before, which may run beside this one on
-- PostgreSQL, give back what budget_hold says.
ALTER TABLE run ADD COLUMN holds {TEXT};
