//! People and payments of a node: the organization API of a hosted deployment, and the people of a self-hosted engine.

use std::sync::Arc;

use sortie_accounts::Accounts;
use sortie_api::Mode;
use sortie_api::SignUpRule;
use sortie_base::{CREDENTIAL_LOOKUP, Clock, Sealer};
use sortie_billing::{Billing, Stripe, StripeError};
use sortie_engine::MasterKey;
use sortie_server::OrganizationListener;
use sortie_store::{Store, outbox::NoticeWriter};
use tokio::net::TcpListener;

use crate::{
    config::{Config, HostedSettings},
    data_dir::Purpose,
    failure::{Failure, Result},
};

/// The listener of the organization API, with its accounts and payments.
pub(crate) fn organization_side(
    config: &Config,
    (listener, settings): (TcpListener, &HostedSettings),
    (store, master_keys, clock): (&Store, &[MasterKey], &Clock),
) -> Result<OrganizationListener> {
    let options = accounts_options(config, settings, clock);
    let has_mail = options.mail.is_some();
    let accounts = Accounts::new(options, store.clone(), Sealer::new(master_keys.to_vec()));
    let notices: Option<Arc<dyn NoticeWriter>> = if has_mail {
        Some(Arc::new(accounts.clone()))
    } else {
        None
    };
    let billing = settings.stripe.clone().map(|stripe| {
        let options = sortie_billing::Options {
            clock: clock.clone(),
            org_url: settings.org_url.clone(),
            stripe,
            auto_topup: settings.auto_topup,
            plans: config.plans.clone(),
            notices,
        };
        Billing::new(options, store.clone()).map_err(|error| no_payments(&error))
    });
    Ok(OrganizationListener {
        listener,
        accounts,
        billing: billing.transpose()?,
    })
}

/// Checks the payment settings as a start does, without any request.
pub(crate) fn check_payments(config: &Config) -> Result<()> {
    let stripe = config.hosted.as_ref().and_then(|hosted| hosted.stripe.clone());
    let Some(stripe) = stripe else {
        return Ok(());
    };
    Stripe::new(stripe).map(drop).map_err(|error| no_payments(&error))
}

fn no_payments(error: &StripeError) -> Failure {
    Failure::unavailable(format!("payments cannot start: {error}"))
}

/// Accounts of the people who sign in at a self-hosted engine; `None` without identity providers.
pub(crate) fn people(
    config: &Config,
    purpose: Purpose,
    (store, master_keys, clock): (&Store, &[MasterKey], &Clock),
) -> Option<Accounts> {
    let is_needed =
        config.mode == Mode::SelfHosted && purpose == Purpose::Serve && !config.sign_in.is_empty();
    let url = config.advertise_url.as_ref().filter(|_| is_needed)?.to_string();
    let options = sortie_accounts::Options {
        mode: config.mode,
        clock: clock.clone(),
        org_url: origin_of(&url),
        engine_url: url,
        sign_up: SignUpRule::Closed,
        mail: None,
        providers: config.sign_in.clone(),
        outbound: config.outbound.clone(),
        license_signer: None,
        credential_lookup: CREDENTIAL_LOOKUP,
    };
    Some(Accounts::new(
        options,
        store.clone(),
        Sealer::new(master_keys.to_vec()),
    ))
}

/// Origin of an address, as browsers write it.
fn origin_of(url: &str) -> String {
    url::Url::parse(url).map_or_else(|_| url.to_owned(), |url| url.origin().ascii_serialization())
}

/// Returns the options of the accounts, as far as the configuration has them.
fn accounts_options(config: &Config, settings: &HostedSettings, clock: &Clock) -> sortie_accounts::Options {
    sortie_accounts::Options {
        mode: config.mode,
        clock: clock.clone(),
        org_url: settings.org_url.clone(),
        engine_url: settings.engine_url.clone(),
        sign_up: settings.sign_up,
        mail: settings.mail.clone(),
        providers: config.sign_in.clone(),
        outbound: config.outbound.clone(),
        license_signer: config.license.signing_key.clone(),
        credential_lookup: CREDENTIAL_LOOKUP,
    }
}
