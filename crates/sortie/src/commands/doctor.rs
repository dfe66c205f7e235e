//! `sortie doctor`: checks this machine and the engine, and names each fault with its remedy.

mod data;
mod live;
mod network;

use std::{os::unix::fs::DirBuilderExt as _, sync::Arc};

use serde::Serialize;
use sortie_accounts::IdentityProvider;
use sortie_api::{
    check::{Check, Verdict},
    plain,
};
use sortie_billing::Stripe;
use sortie_engine::{check_models, check_providers};
use sortie_net::Outbound;
use sortie_sandbox::{Backend, Enforcement, Level};

use self::{
    data::{data_folder, database, storage},
    live::Inside,
    network::network,
};
use super::{Context, operators};
use crate::{
    args::DoctorArgs,
    client::{Client, ClientKey},
    config::{Config, HostedSettings, SandboxPolicy},
    connect::is_this_machine,
    data_dir::{DataDir, Purpose, RunningEngine},
    failure::{Exit, Failure, Result},
    logging::{self, Verbosity},
    named_engine::NamedEngine,
    node::detect_sandbox,
    terminal::{self, Style, Terminal, styled},
};

/// Everything that was looked at.
#[derive(Debug, Serialize)]
struct Report {
    version: &'static str,
    healthy: bool,
    /// The sandbox in a form for programs; absent if there is no sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox: Option<Sandbox>,
    checks: Vec<Check>,
}

#[derive(Debug, Serialize)]
struct Sandbox {
    level: &'static str,
    memory: &'static str,
    disk: &'static str,
    tenancy: &'static str,
}

pub(super) async fn doctor(context: &Context, args: &DoctorArgs) -> Result<Exit> {
    let mut flags = context.flags.clone();
    args.node.add_to(&mut flags);
    let config = Config::load(&flags, &context.environment, SandboxPolicy::Required)?;
    logging::start(&config, Verbosity::Errors, context.terminal)?;
    let target = engine_to_ask(context, args, &config)?;
    let (mut checks, found) = match &target {
        Some(target) if target.is_elsewhere => (Vec::new(), None),
        Some(_) | None => machine(&config).await,
    };
    if let Some(target) = &target {
        checks.extend(live::checks(&target.client, &target.url, &target.inside).await);
    } else {
        // A running engine reports the models of its own configuration.
        checks.push(check_models(&config.models));
    }
    let is_asked = |check: &Check| check.name.starts_with("provider");
    // No engine has checked the providers with its own configuration: none runs, it is unreachable, or it refuses the
    // key.
    if args.providers && !checks.iter().any(is_asked) {
        checks.extend(
            check_providers(&config.models)
                .await
                .into_iter()
                .map(|check| check.hint("asked from here, with the configuration of this command")),
        );
    }
    let report = Report {
        version: env!("CARGO_PKG_VERSION"),
        healthy: checks.iter().all(|check| check.verdict != Verdict::Fault),
        sandbox: found,
        checks,
    };
    args.target.render.answer(&report, |report| {
        Ok(terminal::print(&text(report, context.terminal))?)
    })?;
    Ok(if report.healthy {
        Exit::Success
    } else {
        Exit::Failed
    })
}

/// Checks of this machine.
async fn machine(config: &Config) -> (Vec<Check>, Option<Sandbox>) {
    let (sandbox, found) = sandbox(config).await;
    let mut checks = vec![
        Check::new(
            "configuration",
            Verdict::Ok,
            "in order; `sortie config check` shows it",
        ),
        data_folder(config),
        database(config).await,
        storage(config).await,
        sandbox,
        network(config).await,
    ];
    if let Some(hosted) = &config.hosted {
        checks.push(mail(hosted).await);
        checks.push(payments(hosted).await);
    }
    for provider in &config.sign_in {
        checks.push(identity_provider(provider, &config.outbound).await);
    }
    (checks, found)
}

/// The running engine to check.
struct Target {
    url: String,
    client: Client,
    inside: Inside,
    /// Whether it is on another machine: the checks of this machine are then irrelevant.
    is_elsewhere: bool,
}

/// The engine that the command names, else the engine that serves in the data folder, if any.
fn engine_to_ask(context: &Context, args: &DoctorArgs, config: &Config) -> Result<Option<Target>> {
    let data_dir = DataDir::new(&config.data_dir);
    let serves = |engine: &RunningEngine| engine.purpose == Purpose::Serve;
    // The check of the data folder reports a folder that cannot be read.
    let running = data_dir.running_engine().ok().flatten().filter(serves);
    if let Some(told) = operators::deployment(context, &args.target).ok().flatten() {
        return deployment_to_ask(context, config, (told, args.providers), running).map(Some);
    }
    let told = context.named_engine().cloned();
    let Some(named) = told.or_else(|| running.map(|engine| NamedEngine::of_data_folder(&engine.url))) else {
        return Ok(None);
    };
    let (key, no_key) = readable(named.key(&context.environment, &data_dir));
    let NamedEngine { url, from, .. } = named;
    let is_elsewhere = !is_this_machine(&url);
    let client = Client::new(&url, &from, key)?;
    Ok(Some(Target {
        inside: Inside {
            client: client.clone(),
            providers: args.providers,
            no_key,
        },
        client,
        url,
        is_elsewhere,
    }))
}

/// Returns the key, or the reason if it could not be read.
fn readable(key: Result<Option<ClientKey>>) -> (Option<ClientKey>, Option<Failure>) {
    match key {
        Ok(key) => (key, None),
        Err(failure) => (None, Some(failure)),
    }
}

/// The hosted deployment at the organization API `org_url`, or the node of the data folder.
fn deployment_to_ask(
    context: &Context,
    config: &Config,
    ((org_url, from), providers): ((String, &'static str), bool),
    running: Option<RunningEngine>,
) -> Result<Target> {
    let is_named = from == "--org-url";
    // The variable may be part of the node's own configuration.
    let own = running.filter(|_| !is_named).and_then(|engine| {
        let RunningEngine { url, org_url, .. } = engine;
        org_url.map(|org_url| (url, org_url))
    });
    let (url, org_url) = own.unwrap_or_else(|| (org_url.clone(), org_url));
    let (key, no_key) = readable(operators::operator_key(context, &org_url));
    Ok(Target {
        client: Client::new(&url, from, None)?,
        inside: Inside {
            client: Client::new(&org_url, from, key)?.for_operator(),
            providers,
            no_key,
        },
        is_elsewhere: !is_this_machine(&url) && (is_named || config.hosted.is_none()),
        url,
    })
}

fn text(report: &Report, terminal: Terminal) -> String {
    let colours = terminal.colours_stdout();
    report
        .checks
        .iter()
        .flat_map(|check| {
            let (word, style) = match check.verdict {
                Verdict::Ok => ("ok     ", Style::Good),
                Verdict::Warning => ("warning", Style::Accent),
                Verdict::Fault => ("FAULT  ", Style::Bad),
            };
            let first = format!(
                "{}  {:<14} {}\n",
                styled(word, style, colours),
                terminal::harmless(&check.name),
                terminal::harmless(&check.found)
            );
            let hints = check
                .hints
                .iter()
                .map(|hint| format!("{:25}{}\n", "", terminal::harmless(hint)));
            [first].into_iter().chain(hints)
        })
        .collect()
}

/// Connects to the mail server and signs in.
async fn mail(hosted: &HostedSettings) -> Check {
    let name = "mail";
    let Some(mail) = &hosted.mail else {
        return Check::new(
            name,
            Verdict::Warning,
            "no mail server: links of invitations are shared by hand",
        )
        .hint("set smtp_url and mail_from");
    };
    let server = &mail.server;
    match server.greet(&hosted.org_url).await {
        Ok(()) => Check::new(name, Verdict::Ok, format!("{server} greets this machine")),
        Err(error) => Check::new(name, Verdict::Fault, format!("{server}: {error}")),
    }
}

/// Reads the account at Stripe that the key belongs to.
async fn payments(hosted: &HostedSettings) -> Check {
    let name = "payments";
    let Some(settings) = &hosted.stripe else {
        return Check::new(
            name,
            Verdict::Warning,
            "no Stripe account: organizations cannot buy credits",
        )
        .hint("set stripe.secret_key and stripe.webhook_secrets");
    };
    let account = match Stripe::new(settings.clone()) {
        Ok(stripe) => stripe.account().await,
        Err(error) => Err(error),
    };
    match account {
        Ok(account) if !account.charges_enabled => Check::new(
            name,
            Verdict::Fault,
            format!("the Stripe account {} cannot take payments yet", account.id),
        )
        .hint("finish the account at https://dashboard.stripe.com/account/onboarding"),
        Ok(account) if settings.is_test_mode() => Check::new(
            name,
            Verdict::Warning,
            format!(
                "the Stripe account {} answers in test mode: no money moves",
                account.id
            ),
        )
        .hint("set stripe.secret_key to a key of the live mode before customers pay"),
        Ok(account) => Check::new(
            name,
            Verdict::Ok,
            format!("the Stripe account {} answers", account.id),
        ),
        Err(error) => Check::new(name, Verdict::Fault, error.to_string()),
    }
}

/// Reads the metadata of an identity provider. The issuer in it must match the configuration.
async fn identity_provider(provider: &IdentityProvider, outbound: &Outbound) -> Check {
    let name = format!("sign-in {}", provider.name);
    let issuer = &provider.issuer;
    match provider.probe(outbound).await {
        Ok(()) => Check::new(name, Verdict::Ok, format!("{issuer} answers as itself")),
        Err(reason) => Check::new(name, Verdict::Fault, format!("{issuer}: {reason}"))
            .hint("write the issuer as the provider's metadata have it, with or without a slash at its end"),
    }
}

/// Tries the sandbox in the folder that runs would use, or in a temporary folder if no engine has used the data folder
/// yet.
async fn try_sandbox(config: &Config) -> std::result::Result<Arc<dyn Backend>, String> {
    let data_dir = DataDir::new(&config.data_dir);
    if matches!(data_dir.is_used(), Ok(true)) {
        let work = data_dir.work().map_err(|failure| failure.to_string())?;
        return detect_sandbox(config, &work, Some(&config.data_dir)).await;
    }
    let passing = std::env::temp_dir().join(format!("sortie-doctor-{}", std::process::id()));
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(&passing)
        .map_err(|error| format!("{} cannot be made: {}", passing.display(), plain::io(&error)))?;
    let found = detect_sandbox(config, &passing, None).await;
    std::fs::remove_dir(&passing)
        .map_err(|error| format!("{} cannot be removed: {}", passing.display(), plain::io(&error)))?;
    found
}

async fn sandbox(config: &Config) -> (Check, Option<Sandbox>) {
    let name = "sandbox";
    let backend = match try_sandbox(config).await {
        Ok(backend) => backend,
        Err(reason) => return (Check::new(name, Verdict::Fault, reason), None),
    };
    let found = backend.capabilities();
    let verdict = if found.memory == Enforcement::Soft || found.level != Level::Namespaces {
        Verdict::Warning
    } else {
        Verdict::Ok
    };
    let sandbox = Sandbox {
        level: found.level.as_str(),
        memory: found.memory.as_str(),
        disk: found.disk.as_str(),
        tenancy: found.tenancy.as_str(),
    };
    let line = format!(
        "level {}; memory limit {}, disk limit {}; {}-tenant",
        sandbox.level, sandbox.memory, sandbox.disk, sandbox.tenancy
    );
    let check = Check {
        hints: found.missing.clone(),
        ..Check::new(name, verdict, line)
    };
    (check, Some(sandbox))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Environment;

    #[test]
    fn the_report_reads_well() {
        let report = Report {
            version: "0.0.0",
            healthy: false,
            sandbox: None,
            checks: vec![
                Check::new("configuration", Verdict::Ok, "in order"),
                Check::new("data folder", Verdict::Warning, "data")
                    .hint("others can look into it: chmod 700 data"),
                Check::new(
                    "sandbox",
                    Verdict::Fault,
                    "this host does not allow user namespaces.",
                ),
            ],
        };
        let terminal = Terminal::of_process(&Environment::default());
        insta::assert_snapshot!(text(&report, terminal));
    }

    #[tokio::test]
    async fn an_identity_provider_answers_under_its_own_name() {
        let provider = sortie_testkit::ScriptedProvider::start(0).await.unwrap();
        let found = async |issuer: String| {
            let settings = IdentityProvider {
                name: "idp".to_owned(),
                label: "Example".to_owned(),
                issuer,
                client_id: "sortie".to_owned(),
                client_secret: sortie_api::Credential::new("hush"),
                trusted_domains: vec!["example.com".to_owned()],
                scopes: Vec::new(),
                roles: None,
            };
            let check = identity_provider(&settings, &Outbound::default()).await;
            (check.verdict, check.found)
        };
        let issuer = provider.issuer();
        let answers = format!("{issuer} answers as itself");
        assert_eq!(found(issuer.clone()).await, (Verdict::Ok, answers));
        let (verdict, text) = found(format!("{issuer}/")).await;
        assert_eq!(verdict, Verdict::Fault);
        assert!(
            text.ends_with("/.well-known/openid-configuration names another issuer"),
            "{text}"
        );
        let (verdict, text) = found(format!("{issuer}/other")).await;
        assert_eq!(verdict, Verdict::Fault);
        assert!(
            text.ends_with("the metadata cannot be read: the server answered 404"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn the_mail_server_is_greeted() {
        let sink = sortie_testkit::MailSink::start_for("sortie", "right")
            .await
            .unwrap();
        let found = async |smtp_url: Option<String>| {
            let hosted = HostedSettings {
                listen: sink.address(),
                org_url: "https://accounts.example".to_owned(),
                engine_url: "https://engine.example".to_owned(),
                sign_up: sortie_api::SignUpRule::Open,
                mail: smtp_url.map(|url| sortie_accounts::MailOptions {
                    server: url.parse().unwrap(),
                    from: "sortie@example.com".parse().unwrap(),
                }),
                stripe: None,
                auto_topup: sortie_billing::AutoTopupLimits::default(),
            };
            let check = mail(&hosted).await;
            (check.verdict, check.found)
        };
        let address = sink.address();
        let greets = format!("{address} greets this machine");
        assert_eq!(
            found(Some(format!("smtp://sortie:right@{address}"))).await,
            (Verdict::Ok, greets)
        );
        let refused =
            format!("{address}: the mail server does not accept the user and the password: it answered 535");
        assert_eq!(
            found(Some(format!("smtp://sortie:wrong@{address}"))).await,
            (Verdict::Fault, refused)
        );
        let (verdict, none) = found(None).await;
        assert_eq!(verdict, Verdict::Warning);
        assert!(none.starts_with("no mail server"), "{none}");
    }

    #[tokio::test]
    async fn the_account_at_stripe_is_read() {
        let double = sortie_testkit::StripeDouble::start().await.unwrap();
        let found = async |key: Option<&str>| {
            let hosted = HostedSettings {
                listen: double.address(),
                org_url: "https://accounts.example".to_owned(),
                engine_url: "https://engine.example".to_owned(),
                sign_up: sortie_api::SignUpRule::Open,
                mail: None,
                stripe: key.map(|key| sortie_billing::StripeSettings {
                    secret_key: sortie_api::Credential::new(key),
                    webhook_secrets: vec![sortie_api::Credential::new("whsec_x")],
                    api_url: double.url().parse().unwrap(),
                    outbound: sortie_net::Outbound::default(),
                }),
                auto_topup: sortie_billing::AutoTopupLimits::default(),
            };
            let check = payments(&hosted).await;
            (check.verdict, check.found)
        };
        let account = double.account();
        let tested = format!("the Stripe account {account} answers in test mode: no money moves");
        assert_eq!(found(Some(double.secret_key())).await, (Verdict::Warning, tested));
        let refused = "Stripe does not accept the secret key: status 401".to_owned();
        assert_eq!(found(Some("sk_live_other")).await, (Verdict::Fault, refused));
        assert_eq!(found(None).await.0, Verdict::Warning);
        double.set_account(sortie_testkit::stripe::AccountState::Incomplete);
        let (verdict, text) = found(Some(double.secret_key())).await;
        assert_eq!(
            (verdict, text),
            (
                Verdict::Fault,
                format!("the Stripe account {account} cannot take payments yet")
            )
        );
        double.set_account(sortie_testkit::stripe::AccountState::Complete);
        let live = double.live_key();
        let answers = format!("the Stripe account {account} answers");
        assert_eq!(found(Some(&live)).await, (Verdict::Ok, answers));
    }
}
