-- Sums of the ledger up to a position of each organization, so that its check reads new entries alone. Entries are never
-- changed, and each is newer than those before it.

-- Sum of the entries of an organization up to the one with this time and cause. No row while the ledger is short.
CREATE TABLE ledger_sum (
    org_id {TEXT} NOT NULL PRIMARY KEY,
    at BIGINT NOT NULL,
    cause {TEXT} NOT NULL,
    balance_micros BIGINT NOT NULL
){CLUSTERED};

-- Sums of the entries of a payment up to the position in ledger_sum: what was credited, and what was taken back. payment_id is
-- empty for entries that name none.
CREATE TABLE ledger_payment_sum (
    org_id {TEXT} NOT NULL,
    payment_id {TEXT} NOT NULL,
    bought_micros BIGINT NOT NULL,
    taken_micros BIGINT NOT NULL,
    PRIMARY KEY (org_id, payment_id)
){CLUSTERED};
