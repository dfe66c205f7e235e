-- Credits of the organizations of a hosted deployment, and the ledger behind them.

-- Credits of an organization. reserved_micros is the sum over its runs that are not settled. suspended is 1 while the
-- organization is suspended or deleted. topup_below_micros is NULL while credits are not bought automatically.
CREATE TABLE credit (
    org_id {TEXT} NOT NULL PRIMARY KEY,
    balance_micros BIGINT NOT NULL,
    reserved_micros BIGINT NOT NULL CHECK (reserved_micros >= 0),
    suspended BIGINT NOT NULL,
    topup_below_micros BIGINT
){CLUSTERED}{HOT};
-- An organization that a person has created belongs to a hosted deployment.
INSERT INTO credit (org_id, balance_micros, reserved_micros, suspended)
    SELECT id, 0, 0, CASE WHEN suspended_at IS NULL THEN 0 ELSE 1 END FROM organization WHERE created_by IS NOT NULL;

-- Movements of credits. The balance of an organization is their sum. cause names the reason of a movement, which therefore
-- counts once. Rows are never changed or deleted: a mistake is corrected by a further row.
CREATE TABLE ledger (
    cause {TEXT} NOT NULL PRIMARY KEY,
    org_id {TEXT} NOT NULL,
    at BIGINT NOT NULL,
    kind {TEXT} NOT NULL,
    amount_micros BIGINT NOT NULL,
    run_id {TEXT},
    payment_id {TEXT},
    topup_id {TEXT},
    description {TEXT} NOT NULL,
    user_id {TEXT}
);
CREATE INDEX ledger_list ON ledger (org_id, at, cause);
{APPEND_ONLY_LEDGER};

-- Amount that was reserved for the run from credits. NULL for a run that needs none.
ALTER TABLE run ADD COLUMN reserved_micros BIGINT;
