-- Subscriptions to licenses, which organizations buy through Stripe.

-- Subscription of an organization, as it was last read at Stripe. id is that of Stripe, plan a name of the configuration.
-- monthly_runs are for each deployment. state is active, past_due or ended. renews is 1 while Stripe goes on to charge for it.
-- revision counts the changes. entitlement has what the operator has granted, which comes first while it lasts.
CREATE TABLE subscription (
    org_id {TEXT} NOT NULL PRIMARY KEY,
    id {TEXT} NOT NULL,
    plan {TEXT} NOT NULL,
    monthly_runs BIGINT NOT NULL,
    deployments BIGINT NOT NULL,
    state {TEXT} NOT NULL,
    period_end BIGINT NOT NULL,
    renews BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
){CLUSTERED};
CREATE UNIQUE INDEX subscription_id ON subscription (id);
