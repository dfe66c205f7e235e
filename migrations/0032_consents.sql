-- Consents to automatic purchases: what a person has agreed to, kept for as long as the ledger is. id is a TypeID. card_brand and
-- card_last4 name the card that was saved then. Rows are never changed or deleted: disabling the purchases, a dispute and the
-- deletion of the organization leave them.
CREATE TABLE auto_topup_consent (
    id {TEXT} NOT NULL PRIMARY KEY,
    org_id {TEXT} NOT NULL,
    consent_by {TEXT} NOT NULL,
    at BIGINT NOT NULL,
    threshold_cents BIGINT NOT NULL,
    amount_cents BIGINT NOT NULL,
    payment_method {TEXT} NOT NULL,
    card_brand {TEXT},
    card_last4 {TEXT},
    consent_text {TEXT} NOT NULL
);
CREATE INDEX auto_topup_consent_list ON auto_topup_consent (org_id, at, id);
-- An organization has one consent by now, so its ID differs from that of the organization in the prefix alone.
INSERT INTO auto_topup_consent (id, org_id, consent_by, at, threshold_cents, amount_cents, payment_method, card_brand, card_last4, consent_text)
    SELECT 'consent_' || SUBSTR(a.org_id, 5), a.org_id, a.consent_by, a.consent_at, a.threshold_cents, a.amount_cents, a.payment_method,
        (SELECT b.brand FROM billing_account b WHERE b.org_id = a.org_id AND b.payment_method = a.payment_method),
        (SELECT b.last4 FROM billing_account b WHERE b.org_id = a.org_id AND b.payment_method = a.payment_method),
        a.consent_text
    FROM auto_topup a;
{APPEND_ONLY_CONSENTS};

-- Consent under which an automatic purchase charges the card. NULL for a purchase on a page, and for one before this migration.
ALTER TABLE topup ADD COLUMN consent_id {TEXT};
