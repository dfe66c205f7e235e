-- Purchases of credits: what organizations buy through Stripe, and what Stripe takes back.

-- Organization as a customer of Stripe, with its saved card. payment_method is NULL without one; source is checkout or portal.
-- asked_at is the time of the last attempt to read the card, seen_at that of the last success.
CREATE TABLE billing_account (
    org_id {TEXT} NOT NULL PRIMARY KEY,
    customer {TEXT} NOT NULL,
    payment_method {TEXT},
    brand {TEXT},
    last4 {TEXT},
    exp_month BIGINT,
    exp_year BIGINT,
    source {TEXT},
    asked_at BIGINT,
    seen_at BIGINT
){CLUSTERED};
CREATE UNIQUE INDEX billing_account_customer ON billing_account (customer);

-- Automatic purchases of an organization; no row while they are disabled. consent_text is the text that the person has agreed
-- to, and payment_method the card that was saved then. failures counts declined purchases in a row. paused_until is the time
-- before which nothing is bought.
CREATE TABLE auto_topup (
    org_id {TEXT} NOT NULL PRIMARY KEY,
    threshold_cents BIGINT NOT NULL,
    amount_cents BIGINT NOT NULL,
    payment_method {TEXT} NOT NULL,
    consent_by {TEXT} NOT NULL,
    consent_at BIGINT NOT NULL,
    consent_text {TEXT} NOT NULL,
    failures BIGINT NOT NULL,
    paused_until BIGINT
){CLUSTERED};

-- Purchase, from the order to its end. kind is checkout or auto. check_at is the time of the next look at Stripe, NULL once
-- nothing is expected; checks counts the looks. payment_method is the card that an automatic purchase charges. error says why
-- a person has to look at it.
CREATE TABLE topup (
    id {TEXT} NOT NULL PRIMARY KEY,
    org_id {TEXT} NOT NULL,
    kind {TEXT} NOT NULL,
    amount_cents BIGINT NOT NULL,
    state {TEXT} NOT NULL,
    session_id {TEXT},
    intent_id {TEXT},
    save_card BIGINT NOT NULL,
    payment_method {TEXT},
    created_by {TEXT},
    created_at BIGINT NOT NULL,
    check_at BIGINT,
    checks BIGINT NOT NULL,
    error {TEXT}
){HOT};
CREATE INDEX topup_list ON topup (org_id, created_at);
CREATE INDEX topup_check ON topup (check_at, id) WHERE check_at IS NOT NULL;
CREATE INDEX topup_waiting ON topup (org_id) WHERE state IN ('created', 'open', 'processing');
CREATE UNIQUE INDEX topup_session ON topup (session_id) WHERE session_id IS NOT NULL;
CREATE UNIQUE INDEX topup_intent ON topup (intent_id) WHERE intent_id IS NOT NULL;
CREATE UNIQUE INDEX topup_one_auto ON topup (org_id) WHERE kind = 'auto' AND state IN ('created', 'processing');

-- Payment of a purchase. refunded_cents and disputed_cents are the amounts that Stripe tells; together they may exceed
-- amount_cents. compare_at is the time of the next comparison with Stripe, NULL once nothing is expected.
CREATE TABLE payment (
    id {TEXT} NOT NULL PRIMARY KEY,
    org_id {TEXT} NOT NULL,
    topup_id {TEXT} NOT NULL,
    intent_id {TEXT} NOT NULL,
    charge_id {TEXT},
    amount_cents BIGINT NOT NULL,
    refunded_cents BIGINT NOT NULL,
    disputed_cents BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    compare_at BIGINT
){HOT};
CREATE INDEX payment_list ON payment (org_id, created_at, id);
CREATE INDEX payment_compare ON payment (compare_at, id) WHERE compare_at IS NOT NULL;
CREATE UNIQUE INDEX payment_topup ON payment (topup_id);
CREATE UNIQUE INDEX payment_intent ON payment (intent_id);
CREATE UNIQUE INDEX payment_charge ON payment (charge_id) WHERE charge_id IS NOT NULL;

-- Refund of a payment, by its ID at Stripe. state is taken or returned.
CREATE TABLE refund (
    id {TEXT} NOT NULL PRIMARY KEY,
    payment_id {TEXT} NOT NULL,
    amount_cents BIGINT NOT NULL,
    state {TEXT} NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX refund_payment ON refund (payment_id);

-- Dispute of a payment, by its ID at Stripe. state is taken or returned.
CREATE TABLE dispute (
    id {TEXT} NOT NULL PRIMARY KEY,
    payment_id {TEXT} NOT NULL,
    amount_cents BIGINT NOT NULL,
    state {TEXT} NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX dispute_payment ON dispute (payment_id);

-- Event of Stripe, without its content. due_at is NULL once outcome is set: done, ignored or failed. While a node handles the
-- event, due_at is the end of its lease. tries counts those who had it.
CREATE TABLE stripe_event (
    id {TEXT} NOT NULL PRIMARY KEY,
    kind {TEXT} NOT NULL,
    object_id {TEXT} NOT NULL,
    made_at BIGINT NOT NULL,
    received_at BIGINT NOT NULL,
    due_at BIGINT,
    tries BIGINT NOT NULL,
    outcome {TEXT}
){HOT};
CREATE INDEX stripe_event_due ON stripe_event (due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX stripe_event_received ON stripe_event (received_at);

-- Search for events of Stripe that no webhook has brought: one row, with id 1. due_at is the time of the next one. Every event
-- that was made before until_at is known; NULL before the first search.
CREATE TABLE stripe_search (
    id BIGINT NOT NULL PRIMARY KEY,
    due_at BIGINT NOT NULL,
    until_at BIGINT
);
INSERT INTO stripe_search (id, due_at) VALUES (1, 0);
