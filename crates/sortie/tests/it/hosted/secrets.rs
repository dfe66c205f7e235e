//! Secrets of people, of applications and of the operator: the test searches everything that a hosted node shows,
//! records and stores. Each secret may appear only in the answer or the mail that issued it.

use anyhow::anyhow;
use sortie_base::Clock;
use sortie_testkit::mail::MailSink;

use super::people::{PASSWORD, Person, form_of, redeem, text};
use crate::{
    connections::secrets::{Looked, files},
    prelude::*,
};

both_databases![no_secret_of_a_person_is_kept_or_told];

/// Password that no account has, and the one that the reset sets.
const WRONG: &str = "never-9a64-the-right-one";
const NEXT: &str = "walnut-ladder-cobalt-77";

/// Password of the mail server.
const MAIL_PASSWORD: &str = "smtp-4e1b-secret-word";

/// Files of the data folder that hold keys, which the operator keeps.
const KEY_FILES: [&str; 2] = ["operator.key", "master.key"];

/// Secrets that were planted, by their kind.
#[derive(Default)]
struct Planted(Vec<(&'static str, String)>);

impl Planted {
    fn add(&mut self, kind: &'static str, secret: &str) {
        self.0.push((kind, secret.to_owned()));
    }
}

/// Token of the link in the newest mail to an address. The page of the link is opened, as a person does.
async fn mailed(node: &HostedNode, sink: &MailSink, address: &str, count: usize) -> Result<String> {
    sink.wait_for(count).await?;
    let link = sink.wait_for_mail_to(address).await?.link()?;
    let path = link.strip_prefix(&node.org_url()).context("an own link")?;
    let opened = node.anybody().get(path).await?;
    ensure!(opened.status < 400, "{path}: {}", opened.text());
    let (_, token) = link.split_once("token=").context("a token")?;
    Ok(token.to_owned())
}

/// Plants secrets of an application: code, tokens before and after a refresh, and the secret of a confidential client.
async fn application(node: &HostedNode, ann: &Person, org: &str, planted: &mut Planted) -> Result<String> {
    let (code, client_id) = ann.allow(node, org, "admin").await?;
    let issued = redeem(node, &code, &client_id).await?;
    let refresh = text(&issued, "refresh_token")?;
    let fields = format!("grant_type=refresh_token&client_id={client_id}&refresh_token={refresh}");
    let renewed = form_of(&node.anybody(), "/oauth/token", fields).json(200).await?;
    planted.add("authorization code", &code);
    for tokens in [&issued, &renewed] {
        planted.add("access token", &text(tokens, "access_token")?);
        planted.add("refresh token", &text(tokens, "refresh_token")?);
    }
    let metadata = json!({"redirect_uris": ["https://app.example.com/cb"],
        "token_endpoint_auth_method": "client_secret_basic"});
    let confidential = node
        .anybody()
        .post("/oauth/register", &metadata)
        .json(201)
        .await?;
    planted.add("client secret", &text(&confidential, "client_secret")?);
    text(&renewed, "access_token")
}

/// Confirms the authenticator, and signs in with one of the recovery codes, which are secrets as well.
async fn second_factor(
    node: &HostedNode,
    ann: &Person,
    authenticator: &str,
    planted: &mut Planted,
) -> Result<()> {
    let secret = totp_rs::Secret::try_from_base32(authenticator).map_err(|error| anyhow!("{error}"))?;
    let totp = totp_rs::Builder::new().with_secret(secret).build();
    let now = Clock::system().now().as_micros() / 1_000_000;
    let code = totp
        .map_err(|error| anyhow!("{error}"))?
        .generate(u64::try_from(now)?)
        .to_string();
    let path = "/v1/auth/me/second-factor/confirm";
    let confirmed = ann.client.post(path, &json!({"code": code})).json(200).await?;
    let codes = confirmed["recovery_codes"].as_array().context("no codes")?;
    ensure!(codes.len() == 10, "{codes:?}");
    for code in codes.iter().filter_map(Value::as_str) {
        planted.add("recovery code", code);
        planted.add("recovery code without hyphens", &code.replace('-', ""));
    }
    let log_in = json!({"email": "ann@example.com", "password": PASSWORD, "code": codes[0]});
    let signed_in = node.anybody().post("/v1/auth/login", &log_in).await?;
    planted.add(
        "third session token",
        &text(&signed_in.expect(200)?.json()?, "token")?,
    );
    Ok(())
}

/// Uses everything that has a secret. Returns the answers, which must contain none.
async fn lived(node: &HostedNode, sink: &MailSink, planted: &mut Planted) -> Result<Looked> {
    let mut looked = Looked::default();
    let ann = Person::sign_up(node, "ann@example.com", "Ann").await?;
    let verify = mailed(node, sink, "ann@example.com", 1).await?;
    let verified = node
        .anybody()
        .post("/v1/auth/verify-email", &json!({"token": verify}))
        .await?;
    ensure!(verified.status < 300, "{}", verified.text());
    let org = ann.paying_organization(node, "Plum Works").await?;
    let (_, key) = ann.key(&org, "ci", "admin").await?;
    let invitation = text(&ann.invite(&org, "bob@example.com").await?, "token")?;
    for (kind, secret) in [
        ("password", PASSWORD),
        ("wrong password", WRONG),
        ("next password", NEXT),
        ("password of the mail server", MAIL_PASSWORD),
        ("session token", &ann.token),
        ("token of the verification", &verify),
        ("API key", &key),
        ("token of the invitation", &invitation),
    ] {
        planted.add(kind, secret);
    }
    let log_in = |password: &str| json!({"email": "ann@example.com", "password": password});
    let wrong = node.anybody().post("/v1/auth/login", &log_in(WRONG)).await?;
    looked.add("the refusal of a sign-in", wrong.expect(401)?.text());
    let second = node.anybody().post("/v1/auth/login", &log_in(PASSWORD)).await?;
    planted.add(
        "second session token",
        &text(&second.expect(200)?.json()?, "token")?,
    );
    let enrolled = ann
        .client
        .post("/v1/auth/me/second-factor", &json!({"password": PASSWORD}))
        .await?;
    ensure!(enrolled.status < 300, "{}", enrolled.text());
    let authenticator = text(&enrolled.json()?, "secret")?;
    planted.add("key of the authenticator", &authenticator);
    second_factor(node, &ann, &authenticator, planted).await?;
    let access = application(node, &ann, &org, planted).await?;
    let operator = std::fs::read_to_string(node.node.data_dir().join("operator.key"))?;
    planted.add("operator key", operator.trim());

    let operator = node.client(operator.trim());
    for path in ["/v1/operator/users", "/v1/operator/organizations"] {
        looked.add(path, operator.get(path).expect(200).await?.text());
    }
    for path in [
        "/v1/auth/me",
        "/v1/auth/me/export",
        "/v1/auth/sessions",
        "/v1/auth/grants",
        "/v1/organizations",
        &format!("/v1/organizations/{org}/members"),
        &format!("/v1/organizations/{org}/keys"),
        &format!("/v1/organizations/{org}/invitations"),
        &format!("/engine/{org}/v1/admin/audit"),
    ] {
        looked.add(path, ann.client.get(path).expect(200).await?.text());
    }
    for credential in [&key, &access] {
        let client = node.engine_client(credential)?;
        let (events, run) = client.complete(&plain("```answer\nhello\n```")).await?;
        looked.add("the events of a run", serde_json::to_string(&events)?);
        looked.add("a run", serde_json::to_string(&run)?);
    }
    looked.add(
        "the metrics",
        node.engine_client(&key)?
            .get("/metrics")
            .expect(200)
            .await?
            .text(),
    );

    reset(node, sink, planted).await?;
    let cookie = HeaderValue::try_from(format!("sortie={}", ann.token))?;
    let page = node.anybody().with_header("cookie", cookie);
    looked.add("a page", page.get("/").await?.text());
    Ok(looked)
}

/// Sets the next password by a mail. One mail before it verified the address, and one invited.
async fn reset(node: &HostedNode, sink: &MailSink, planted: &mut Planted) -> Result<()> {
    let forgot = json!({"email": "ann@example.com"});
    node.anybody()
        .post("/v1/auth/forgot-password", &forgot)
        .expect(202)
        .await?;
    let token = mailed(node, sink, "ann@example.com", 3).await?;
    planted.add("token of the reset", &token);
    let body = json!({"token": token, "new_password": NEXT});
    let done = node.anybody().post("/v1/auth/reset-password", &body).await?;
    ensure!(done.status < 300, "{}", done.text());
    Ok(())
}

/// The limits of the process: its memory is never dumped to a file.
fn without_core(node: &HostedNode) -> Result<()> {
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", node.node.pid()?))?;
    let core = limits.lines().find(|line| line.starts_with("Max core file size"));
    let soft = core.context("no limit of core files")?.split_whitespace().nth(4);
    ensure!(soft == Some("0"), "{core:?}");
    Ok(())
}

async fn no_secret_of_a_person_is_kept_or_told(database: Database) -> Checked {
    let sink = MailSink::start_for("sortie", MAIL_PASSWORD).await?;
    let options = NodeOptions::default()
        .env("SORTIE_LOG_FILTER", "trace")
        .env(
            "SORTIE_SMTP_URL",
            &format!("smtp://sortie:{MAIL_PASSWORD}@{}", sink.address()),
        )
        .env("SORTIE_MAIL_FROM", "sortie@example.com");
    let mut node = crate::hosted_with(database, options).await?;
    let mut planted = Planted::default();
    let mut looked = lived(&node, &sink, &mut planted).await?;
    without_core(&node)?;
    let backup = tempfile::tempdir()?;
    if matches!(database, Database::Sqlite) {
        let archive = backup.path().join("backup.tar");
        let path = archive.to_str().context("a path")?.to_owned();
        let command = node.node.sortie(&["backup", &path]);
        tokio::task::spawn_blocking(move || exits(command, 0)).await??;
        looked.add("the backup", std::fs::read(archive)?);
    }
    node.node.stop().await?;
    looked.add("the log", node.node.log());
    let (mut stored, before) = (Vec::new(), looked.0.len());
    files(node.node.data_dir(), &mut stored)?;
    stored.retain(|(place, _)| !KEY_FILES.iter().any(|file| place.ends_with(file)));
    let tables = node.node.dump().await?;
    stored.extend(
        tables
            .into_iter()
            .map(|(table, bytes)| (format!("table {table}"), bytes)),
    );
    looked.0.extend(stored);
    // Make sure that the searched bytes are really the stored ones.
    for known in ["ann@example.com", "Plum Works"] {
        let has_it = |bytes: &[u8]| bytes.windows(known.len()).any(|part| part == known.as_bytes());
        let places = looked.0.iter().skip(before);
        ensure!(
            places.filter(|(_, bytes)| has_it(bytes)).count() > 0,
            "{known} is stored nowhere"
        );
    }
    let log = node.node.log();
    ensure!(
        log.contains("TRACE") || log.contains("trace"),
        "the log is not at trace"
    );
    ensure!(planted.0.len() > 15, "{}", planted.0.len());
    for (kind, secret) in &planted.0 {
        ensure!(secret.len() > 15, "{kind} is too short to be looked for");
        looked.without(secret).context(*kind)?;
    }
    Ok(())
}
