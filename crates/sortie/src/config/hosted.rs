//! Settings of a hosted deployment, and its defaults that differ.

use std::net::{IpAddr, SocketAddr};

use serde::Deserialize;
use sortie_accounts::{InvalidSender, InvalidServer, MailOptions, MailServer};
use sortie_api::SignUpRule;
use sortie_api::{Credential, Mode, limits::PURCHASE_CENTS_MIN};
use sortie_billing::{AutoTopupLimits, StripeSettings};
use sortie_net::Outbound;
use url::{Host, Url};

use super::{
    Error,
    layers::Layers,
    settings::Settings,
    values::{BaseUrl, some_whole},
};

/// Settings of a hosted deployment.
#[derive(Clone, Debug)]
pub(crate) struct HostedSettings {
    /// Address of the listener of the organization API.
    pub(crate) listen: SocketAddr,
    /// Address of the organization API that people use: an origin, as browsers write it.
    pub(crate) org_url: String,
    /// Address of the engine API that clients use, without a slash at its end.
    pub(crate) engine_url: String,
    /// Rule for new accounts.
    pub(crate) sign_up: SignUpRule,
    /// Settings of the mail; `None` disables mail.
    pub(crate) mail: Option<MailOptions>,
    /// Settings of the payments; `None` disables purchases.
    pub(crate) stripe: Option<StripeSettings>,
    /// Limits of automatic purchases.
    pub(crate) auto_topup: AutoTopupLimits,
}

/// Keys of `[purchases]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PurchaseSection {
    #[serde(default, deserialize_with = "some_whole::<_, _, 0, 1_000>")]
    auto_per_day: Option<u32>,
    #[serde(
        default,
        deserialize_with = "some_whole::<_, _, PURCHASE_CENTS_MIN, 1_000_000_000>"
    )]
    auto_cents_per_day: Option<i64>,
}

/// Keys of `[stripe]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StripeSection {
    secret_key: Option<Credential>,
    #[serde(default)]
    webhook_secrets: Vec<Credential>,
    api_url: Option<BaseUrl>,
}

/// Defaults of a hosted deployment.
pub(super) const DEFAULTS: [(&str, i64); 4] = [
    ("compute_micros_per_second", 30),
    ("surcharge_percent", 20),
    ("organization_concurrency", 20),
    ("organization_storage_bytes", 10 * 1_024 * 1_024 * 1_024),
];

impl HostedSettings {
    /// Returns the settings of a hosted deployment; `None` on a self-hosted engine.
    pub(super) fn new(
        settings: &Settings,
        layers: &Layers,
        outbound: &Outbound,
    ) -> Result<Option<Self>, Error> {
        if settings.mode == Mode::SelfHosted {
            return Ok(None);
        }
        let mail = mail(settings, layers, outbound)?;
        if settings.sign_up == SignUpRule::VerifyFirst && mail.is_none() {
            return Err(layers.wrong(
                "sign_up",
                "`verify_first` needs smtp_url, which sends the mail that verifies",
            ));
        }
        let needed = "must be set with mode = \"hosted\"";
        let org_url = settings.org_url.as_ref().ok_or(needed).and_then(origin);
        let engine_url = settings.advertise_url.as_ref().ok_or(needed);
        let engine_url = engine_url.and_then(|base| secure(&base.url).map(|()| base.to_string()));
        Ok(Some(Self {
            listen: settings
                .org_listen
                .ok_or_else(|| layers.wrong("org_listen", needed))?,
            org_url: org_url.map_err(|rule| layers.wrong("org_url", rule))?,
            engine_url: engine_url.map_err(|rule| layers.wrong("advertise_url", rule))?,
            sign_up: settings.sign_up,
            mail,
            stripe: stripe(&settings.stripe, layers, outbound)?,
            auto_topup: AutoTopupLimits {
                per_day: settings
                    .purchases
                    .auto_per_day
                    .unwrap_or(AutoTopupLimits::default().per_day),
                cents_per_day: settings.purchases.auto_cents_per_day,
            },
        }))
    }
}

fn mail(settings: &Settings, layers: &Layers, outbound: &Outbound) -> Result<Option<MailOptions>, Error> {
    match (&settings.smtp_url, &settings.mail_from) {
        (None, None) => Ok(None),
        (Some(_), None) => Err(layers.wrong("mail_from", "must be set with smtp_url")),
        (None, Some(_)) => Err(layers.wrong("smtp_url", "must be set with mail_from")),
        (Some(url), Some(from)) => Ok(Some(MailOptions {
            server: url
                .expose()
                .parse::<MailServer>()
                .map_err(|error: InvalidServer| layers.wrong("smtp_url", &error.to_string()))?
                .trusting(outbound.trusted.clone()),
            from: from
                .parse()
                .map_err(|error: InvalidSender| layers.wrong("mail_from", &error.to_string()))?,
        })),
    }
}

fn stripe(
    section: &StripeSection,
    layers: &Layers,
    outbound: &Outbound,
) -> Result<Option<StripeSettings>, Error> {
    const KEY: &str = "stripe.secret_key";
    const SECRETS: &str = "stripe.webhook_secrets";
    let Some(secret_key) = &section.secret_key else {
        let other = [SECRETS, "stripe.api_url"]
            .into_iter()
            .find(|key| layers.is_given(key));
        return match other {
            Some(key) => Err(layers.wrong(KEY, &format!("must be set with {key}"))),
            None => Ok(None),
        };
    };
    if !is_secret(secret_key, &["sk_", "rk_"]) {
        let rule = "must be a secret or restricted key of Stripe: sk_... or rk_...";
        return Err(layers.wrong(KEY, rule));
    }
    let webhook_secrets = section.webhook_secrets.clone();
    if webhook_secrets.is_empty()
        || !webhook_secrets
            .iter()
            .all(|secret| is_secret(secret, &["whsec_"]))
    {
        let rule = "must be a list of the secrets of Stripe's webhook endpoint, such as whsec_...";
        return Err(layers.wrong(SECRETS, rule));
    }
    let api_url = section
        .api_url
        .as_ref()
        .map_or(Ok(StripeSettings::API_URL.to_owned()), origin);
    let api_url = api_url.and_then(|origin| Url::parse(&origin).map_err(|_| "must be an address"));
    Ok(Some(StripeSettings {
        secret_key: secret_key.clone(),
        webhook_secrets,
        api_url: api_url.map_err(|rule| layers.wrong("stripe.api_url", rule))?,
        outbound: outbound.clone(),
    }))
}

/// Whether a text is a secret with one of these prefixes. A space or a line end in it would be a copying mistake.
fn is_secret(secret: &Credential, beginnings: &[&str]) -> bool {
    let text = secret.expose();
    let is_plain = text
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_plain
        && beginnings
            .iter()
            .any(|beginning| text.starts_with(beginning) && text.len() > beginning.len())
}

/// The origin of the address of pages, as browsers write it. The error is its rule.
pub(super) fn origin(base: &BaseUrl) -> Result<String, &'static str> {
    if base.url.path() != "/" {
        return Err("must have no path");
    }
    secure(&base.url)?;
    // Compared with the header `Origin`, it must have the same bytes.
    Ok(base.url.origin().ascii_serialization())
}

/// Refuses plain http, except on loopback addresses: tokens and passwords would travel in clear.
fn secure(url: &Url) -> Result<(), &'static str> {
    let loopback = match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => IpAddr::from(address).is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::from(address).is_loopback(),
        None => false,
    };
    if url.scheme() == "https" || loopback {
        Ok(())
    } else {
        Err("must begin with https:// unless its host is a loopback address")
    }
}

#[cfg(test)]
mod tests {
    use sortie_api::Micros;
    use sortie_net::Reach;

    use super::{
        super::{
            settings::PrivateFeature,
            tests::{of_file, refusal},
        },
        *,
    };

    /// The settings that a hosted deployment needs.
    const HOSTED: &str = "mode = \"hosted\"\norg_listen = \"127.0.0.1:8081\"\norg_url = \"https://Accounts.example.com/\"\n\
        advertise_url = \"https://engine.example.com/\"\n";

    #[test]
    fn a_hosted_deployment_has_defaults_of_its_own() {
        let config = of_file(HOSTED).unwrap();
        assert_eq!(config.mode, Mode::Hosted);
        let hosted = config.hosted.as_ref().unwrap();
        // Browsers write an origin without a slash and in lower case.
        assert_eq!(hosted.org_url, "https://accounts.example.com");
        assert_eq!(hosted.engine_url, "https://engine.example.com");
        assert_eq!(hosted.listen.to_string(), "127.0.0.1:8081");
        assert_eq!(hosted.sign_up, SignUpRule::Open);
        assert_eq!(config.compute_micros_per_second.get(), 30);
        assert_eq!(config.surcharge_percent, 20);
        assert_eq!(config.organization_concurrency, Some(20));
        assert_eq!(config.organization_storage_bytes, Some(10_737_418_240));
        let reach = (
            config.reach(PrivateFeature::Connections),
            config.reach(PrivateFeature::Callbacks),
        );
        assert_eq!(reach, (Reach::Public, Reach::Public));
    }

    #[test]
    fn an_own_value_wins_over_the_default_of_the_mode() {
        let own = "compute_micros_per_second = 0\nsurcharge_percent = 5\norganization_concurrency = 3\n\
            sign_up = \"invited\"\n";
        let config = of_file(&format!("{HOSTED}{own}")).unwrap();
        assert_eq!(config.compute_micros_per_second, Micros::ZERO);
        let figures = (config.surcharge_percent, config.organization_concurrency);
        assert_eq!(figures, (5, Some(3)));
        assert_eq!(config.hosted.as_ref().unwrap().sign_up, SignUpRule::Invited);
    }

    #[test]
    fn a_hosted_deployment_needs_addresses_that_are_safe() {
        let org_url = "https://Accounts.example.com/";
        for (from, to, sentence) in [
            (
                "org_listen = \"127.0.0.1:8081\"\n",
                "",
                "org_listen: must be set with mode = \"hosted\"",
            ),
            (
                "org_url = \"https://Accounts.example.com/\"\n",
                "",
                "org_url: must be set with mode = \"hosted\"",
            ),
            (
                "advertise_url = \"https://engine.example.com/\"\n",
                "",
                "advertise_url: must be set with mode = \"hosted\"",
            ),
            (
                org_url,
                "http://accounts.example.com",
                "org_url (sortie.toml): must begin with https:// unless its host is a loopback address",
            ),
            (
                "https://engine.example.com/",
                "http://10.0.0.5:8080",
                "advertise_url (sortie.toml): must begin with https:// unless its host is a loopback address",
            ),
            (
                org_url,
                "https://example.com/accounts",
                "org_url (sortie.toml): must have no path",
            ),
            (
                "mode = \"hosted\"",
                "mode = \"self-hosted\"",
                "org_listen (sortie.toml): needs mode = \"hosted\"",
            ),
            (
                "mode = \"hosted\"",
                "mode = \"hosted\"\nsign_up = \"verify_first\"",
                "sign_up (sortie.toml): `verify_first` needs smtp_url, which sends the mail that verifies",
            ),
            (
                "mode = \"hosted\"",
                "mode = \"hosted\"\nsign_up = \"maybe\"",
                "sign_up (sortie.toml): must be `open`, `verify_first`, `invited` or `closed`",
            ),
        ] {
            assert!(HOSTED.contains(from), "{from}");
            assert_eq!(refusal(&HOSTED.replace(from, to)), sentence);
        }
        for loopback in [
            "http://127.0.0.1:8081",
            "http://localhost:8081",
            "http://[::1]:8081",
        ] {
            let file = HOSTED.replace(org_url, loopback);
            assert_eq!(of_file(&file).unwrap().hosted.unwrap().org_url, loopback);
        }
    }

    #[test]
    fn mail_needs_a_server_and_a_sender() {
        let with = |lines: &str| format!("{HOSTED}{lines}");
        let server = "smtp_url = \"smtps://sortie:hush@mail.example.com\"\n";
        let sender = "mail_from = \"Sortie <sortie@example.com>\"\n";
        let mail = of_file(&with(&format!("{server}{sender}")))
            .unwrap()
            .hosted
            .unwrap()
            .mail
            .unwrap();
        assert_eq!(mail.server.to_string(), "mail.example.com:465");
        assert_eq!(of_file(HOSTED).unwrap().hosted.unwrap().mail, None);
        for (lines, sentence) in [
            (server.to_owned(), "mail_from: must be set with smtp_url"),
            (sender.to_owned(), "smtp_url: must be set with mail_from"),
            (
                format!("smtp_url = \"https://mail.example.com\"\n{sender}"),
                "smtp_url (sortie.toml): must be smtp://HOST:PORT or smtps://HOST:PORT, with USER:PASSWORD@ before the \
                 host if the server wants them",
            ),
            (
                format!("smtp_url = \"smtp://sortie@mail.example.com\"\n{sender}"),
                "smtp_url (sortie.toml): must have both a user and a password, percent-encoded",
            ),
            (
                format!("{server}mail_from = \"Sortie\"\n"),
                "mail_from (sortie.toml): must be an email address, or a name with an address: \
                 Sortie <sortie@example.com>",
            ),
        ] {
            assert_eq!(refusal(&with(&lines)), sentence);
        }
        for (key, line) in [("smtp_url", server), ("mail_from", sender)] {
            let sentence = format!("{key} (sortie.toml): needs mode = \"hosted\"");
            assert_eq!(refusal(line), sentence);
        }
    }

    #[test]
    fn the_password_of_the_mail_server_is_never_shown() {
        let file =
            "smtp_url = \"smtps://sortie:hush@mail.example.com\"\nmail_from = \"sortie@example.com\"\n";
        let config = of_file(&format!("{HOSTED}{file}")).unwrap();
        for shown in [
            config.to_toml(),
            config.to_json().to_string(),
            format!("{config:?}"),
        ] {
            assert!(
                !shown.contains("hush") && shown.contains("mail.example.com"),
                "{shown}"
            );
        }
    }

    #[test]
    fn automatic_purchases_have_limits() {
        let limits = |file: &str| {
            let config = of_file(&format!("{HOSTED}{file}")).unwrap();
            let limits = config.hosted.as_ref().unwrap().auto_topup;
            (limits.per_day, limits.cents_per_day)
        };
        assert_eq!(limits(""), (5, None));
        let both = "[purchases]\nauto_per_day = 0\nauto_cents_per_day = 500\n";
        assert_eq!(limits(both), (0, Some(500)));
        for (file, sentence) in [
            (
                format!("{HOSTED}[purchases]\nauto_per_day = 1001"),
                "purchases.auto_per_day (sortie.toml): must be a whole number from 0 to 1000",
            ),
            (
                format!("{HOSTED}[purchases]\nauto_cents_per_day = 499"),
                "purchases.auto_cents_per_day (sortie.toml): must be a whole number from 500 to 1000000000",
            ),
            (
                both.to_owned(),
                "purchases.auto_per_day (sortie.toml): needs mode = \"hosted\"",
            ),
        ] {
            assert_eq!(refusal(&file), sentence);
        }
    }

    #[test]
    fn payments_have_a_key_and_the_secrets_of_the_webhook() {
        let key = "[stripe]\nsecret_key = \"rk_live_hush1\"\n";
        let secrets = "webhook_secrets = [\"whsec_hush2\", \"whsec_hush3\"]\n";
        let config = of_file(&format!("{HOSTED}{key}{secrets}")).unwrap();
        let stripe = config.hosted.as_ref().unwrap().stripe.as_ref().unwrap();
        assert_eq!(stripe.secret_key.expose(), "rk_live_hush1");
        assert_eq!(stripe.webhook_secrets.len(), 2);
        assert_eq!(stripe.api_url.as_str(), "https://api.stripe.com/");
        for shown in [
            config.to_toml(),
            config.to_json().to_string(),
            format!("{config:?}"),
        ] {
            assert!(shown.contains("secret_key") && !shown.contains("hush"), "{shown}");
        }
        let needed = "stripe.secret_key: must be set with stripe.webhook_secrets";
        let list = "stripe.webhook_secrets (sortie.toml): must be a list of the secrets of Stripe's webhook endpoint, such as \
                    whsec_...";
        for (file, sentence) in [
            (format!("{HOSTED}[stripe]\n{secrets}"), needed),
            (
                format!("{HOSTED}{key}"),
                "stripe.webhook_secrets: must be a list of the secrets of Stripe's webhook endpoint, such as whsec_...",
            ),
            (format!("{HOSTED}{key}webhook_secrets = []"), list),
            (format!("{HOSTED}{key}webhook_secrets = [\"whsec_\"]"), list),
            (
                format!("{HOSTED}{key}webhook_secrets = \"whsec_x\""),
                "stripe.webhook_secrets (sortie.toml): must be an array, not a string",
            ),
            (
                format!("{HOSTED}[stripe]\nsecret_key = \"pk_live_x\"\n{secrets}"),
                "stripe.secret_key (sortie.toml): must be a secret or restricted key of Stripe: sk_... or rk_...",
            ),
            (
                format!("{HOSTED}[stripe]\nsecret_key = \"sk_live_x\\n\"\n{secrets}"),
                "stripe.secret_key (sortie.toml): must be a secret or restricted key of Stripe: sk_... or rk_...",
            ),
            (
                format!("{HOSTED}{key}{secrets}api_url = \"http://stripe.example\""),
                "stripe.api_url (sortie.toml): must begin with https:// unless its host is a loopback address",
            ),
            (
                format!("{key}{secrets}"),
                "stripe.secret_key (sortie.toml): needs mode = \"hosted\"",
            ),
        ] {
            assert_eq!(refusal(&file), sentence);
        }
    }
}
