-- Refunds that are ordered here, and what is still to be done with customers of deleted organizations.

-- Refund that the operator has ordered, or the engine for a deleted organization: recorded before the request to Stripe, which
-- has its ID as the key. reference is the operator's name for it; NULL for all that was left of the payment. state is created
-- before the first request, sent from then on, made once refund_id is known, and abandoned once Stripe has made none for good.
-- due_at is the time at which a node carries it out; NULL for one that the operator repeats.
CREATE TABLE refund_order (
    id {TEXT} NOT NULL PRIMARY KEY,
    payment_id {TEXT} NOT NULL,
    reference {TEXT},
    amount_cents BIGINT NOT NULL,
    state {TEXT} NOT NULL,
    refund_id {TEXT},
    created_at BIGINT NOT NULL,
    due_at BIGINT,
    tries BIGINT NOT NULL
);
CREATE UNIQUE INDEX refund_order_reference ON refund_order (payment_id, reference) WHERE reference IS NOT NULL;
CREATE INDEX refund_order_payment ON refund_order (payment_id);
CREATE INDEX refund_order_due ON refund_order (due_at, id) WHERE due_at IS NOT NULL;

-- Time at which a node expires the open pages of a customer whose organization was deleted. NULL once it is done, and for every
-- other customer.
ALTER TABLE billing_account ADD COLUMN close_at BIGINT;
-- A card that was removed at Stripe is found by its ID.
CREATE INDEX billing_account_card ON billing_account (payment_method) WHERE payment_method IS NOT NULL;
CREATE INDEX billing_account_close ON billing_account (close_at, org_id) WHERE close_at IS NOT NULL;
