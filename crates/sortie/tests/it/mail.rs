//! Mail of a whole node of a hosted deployment (`docs/HOSTED.md#mail`): mails to people, and the features that depend
//! on them.

mod pages;

use sortie_testkit::{MailAnswer, MailSink, ReceivedMail};
use tempfile::NamedTempFile;

use crate::prelude::*;

both_databases![
    what_needs_a_verified_address_is_refused_without_one,
    a_lost_password_is_set_by_a_mail,
    an_invitation_says_what_became_of_its_mail,
    a_mail_outlives_a_killed_node,
    the_mail_of_a_withdrawn_invitation_is_not_sent,
    owners_are_told_once_of_a_deprecated_version,
];

const PASSWORD: &str = "plum-anchor-violet-42";
const OTHER: &str = "seventeen grey herons at dawn";

/// Options of a node that sends through the server.
fn through(sink: &MailSink) -> NodeOptions {
    NodeOptions::default()
        .env("SORTIE_SMTP_URL", &sink.url())
        .env("SORTIE_MAIL_FROM", "Sortie <sortie@accounts.example>")
}

async fn hosted(database: Database, options: NodeOptions) -> Result<HostedNode> {
    crate::hosted_with(database, options).await
}

/// A node that sends mail, and the mail server.
async fn mailing(database: Database) -> Result<(HostedNode, MailSink)> {
    let sink = MailSink::start().await?;
    Ok((hosted(database, through(&sink)).await?, sink))
}

fn applicant(name: &str) -> Value {
    json!({"email": format!("{name}@example.com"), "password": PASSWORD, "name": name})
}

fn credentials(name: &str, password: &str) -> Value {
    json!({"email": format!("{name}@example.com"), "password": password})
}

/// Client with the session of an answer.
fn signed_in(node: &HostedNode, answer: &Value) -> Result<Client> {
    Ok(node.client(answer["token"].as_str().context("no token")?))
}

/// Token in the link of a mail.
fn token(mail: &ReceivedMail) -> Result<String> {
    let link = mail.link()?;
    let (_, token) = link.split_once("?token=").context("no token")?;
    Ok(token.to_owned())
}

/// Signs up a person without verifying the address.
async fn sign_up(node: &HostedNode, name: &str) -> Result<Client> {
    let answer = node.anybody().post("/v1/auth/signup", &applicant(name)).await?;
    signed_in(node, &answer.expect(201)?.json()?)
}

/// Signs up a person who verifies the address.
async fn verified(node: &HostedNode, sink: &MailSink, name: &str) -> Result<Client> {
    let person = sign_up(node, name).await?;
    let mail = sink.wait_for_mail_to(&format!("{name}@example.com")).await?;
    verify(node, &mail).await?;
    Ok(person)
}

async fn verify(node: &HostedNode, mail: &ReceivedMail) -> Checked {
    let body = json!({"token": token(mail)?});
    let answer = node.anybody().post("/v1/auth/verify-email", &body).await?;
    answer.expect(204).map(drop)
}

/// Creates an organization. Returns its path.
async fn organization(person: &Client) -> Result<String> {
    let made = person
        .post("/v1/organizations", &json!({"name": "Plum Works"}))
        .json(201)
        .await?;
    Ok(format!(
        "/v1/organizations/{}",
        made["id"].as_str().context("no ID")?
    ))
}

/// Invites an address. Returns the invitation.
async fn invite(person: &Client, organization: &str, name: &str) -> Result<Value> {
    let body = json!({"email": format!("{name}@example.com"), "role": "member"});
    person
        .post(&format!("{organization}/invitations"), &body)
        .json(201)
        .await
}

async fn what_needs_a_verified_address_is_refused_without_one(database: Database) -> Checked {
    let sink = MailSink::start().await?;
    let mut node = hosted(database, NodeOptions::default()).await?;
    let ann = sign_up(&node, "ann").await?;
    let org = organization(&ann).await?;
    node.node.stop().await?;
    for (name, value) in through(&sink).environment {
        node.node.set_env(&name, &value);
    }
    node.node.restart().await?;
    let key = json!({"name": "ci", "role": "member"});
    let invitation = json!({"email": "bob@example.com", "role": "member"});
    let organizations = ("/v1/organizations".to_owned(), json!({"name": "Another"}));
    for (path, body) in [
        organizations,
        (format!("{org}/keys"), key),
        (format!("{org}/invitations"), invitation),
    ] {
        let refusal = ann.post(&path, &body).refused("forbidden").await?;
        ensure!(
            refusal.error == "verify your email address first",
            "{path}: {refusal:?}"
        );
    }
    ann.get(&format!("{org}/members")).expect(200).await?;
    ensure!(sink.all().is_empty());

    let bob = sign_up(&node, "bob").await?;
    let mail = sink.wait_for_mail_to("bob@example.com").await?;
    bob.post("/v1/organizations", &json!({"name": "Bakery"}))
        .refused("forbidden")
        .await?;
    verify(&node, &mail).await?;
    let bakery = organization(&bob).await?;
    bob.post(
        &format!("{bakery}/keys"),
        &json!({"name": "ci", "role": "member"}),
    )
    .expect(201)
    .await?;
    let again = json!({"token": token(&mail)?});
    let again = node.anybody().post("/v1/auth/verify-email", &again).await?;
    again.refused("invalid_request").map(drop)
}

#[tokio::test]
async fn only_people_with_an_invitation_sign_up_where_it_is_needed() -> Checked {
    let sink = MailSink::start().await?;
    let mut node = hosted(Database::Sqlite, through(&sink)).await?;
    let ann = verified(&node, &sink, "ann").await?;
    let org = organization(&ann).await?;
    invite(&ann, &org, "bob").await?;
    let mail = sink.wait_for_mail_to("bob@example.com").await?;
    node.node.stop().await?;
    node.node.set_env("SORTIE_SIGN_UP", "invited");
    node.node.restart().await?;

    let anybody = node.anybody();
    let sign_up = async |name: &str, invitation: &str| {
        let mut body = applicant(name);
        body["invitation"] = json!(invitation);
        anybody.post("/v1/auth/signup", &body).await
    };
    anybody
        .post("/v1/auth/signup", &applicant("bob"))
        .refused("forbidden")
        .await?;
    sign_up("cid", &token(&mail)?).await?.refused("forbidden")?;
    sign_up("bob", "sti_x").await?.refused("forbidden")?;
    let bob = sign_up("bob", &token(&mail)?).await?.expect(201)?.json()?;
    let bob = signed_in(&node, &bob)?;
    let accept = json!({"token": token(&mail)?});
    bob.post("/v1/invitations/accept", &accept)
        .refused("forbidden")
        .await?;
    let verification = sink.wait_for(3).await?.pop().context("no mail")?;
    verify(&node, &verification).await?;
    bob.post("/v1/invitations/accept", &accept).expect(200).await?;
    Ok(())
}

#[tokio::test]
async fn where_addresses_are_verified_first_a_sign_up_tells_nothing_and_begins_no_session() -> Checked {
    let sink = MailSink::start().await?;
    let options = through(&sink).env("SORTIE_SIGN_UP", "verify_first");
    let node = hosted(Database::Sqlite, options).await?;
    let anybody = node.anybody();
    let first = anybody
        .post("/v1/auth/signup", &applicant("ann"))
        .expect(202)
        .await?;
    let mail = sink.wait_for_mail_to("ann@example.com").await?;
    anybody
        .post("/v1/auth/login", &credentials("ann", PASSWORD))
        .refused("forbidden")
        .await?;
    verify(&node, &mail).await?;
    anybody
        .post("/v1/auth/login", &credentials("ann", PASSWORD))
        .expect(200)
        .await?;
    let second = anybody
        .post("/v1/auth/signup", &applicant("ann"))
        .expect(202)
        .await?;
    ensure!(first.body == second.body && first.body.is_empty());
    let told = sink.wait_for(2).await?.pop().context("no mail")?;
    ensure!(told.header("subject").as_deref() == Some("You already have an account"));
    Ok(())
}

#[tokio::test]
async fn a_closed_deployment_takes_nobody_but_whom_the_operator_creates() -> Checked {
    let options = NodeOptions::default().env("SORTIE_SIGN_UP", "closed");
    let node = hosted(Database::Sqlite, options).await?;
    let refused = node.anybody().post("/v1/auth/signup", &applicant("ann")).await?;
    let refusal = refused.refused("forbidden")?;
    ensure!(refusal.error.contains("ask the operator"), "{refusal:?}");
    let page = node.anybody().get("/sign-up").expect(403).await?;
    ensure!(page.text().contains("Sign-up is closed"));
    let output = node
        .node
        .sortie(&["users", "create", "ann@example.com", "Ann"])
        .output()?;
    let link = String::from_utf8(output.stdout)?;
    let (_, token) = link.trim().split_once("?token=").context("no token")?;
    let reset = json!({"token": token, "new_password": PASSWORD});
    node.anybody()
        .post("/v1/auth/reset-password", &reset)
        .expect(204)
        .await?;
    let login = node
        .anybody()
        .post("/v1/auth/login", &credentials("ann", PASSWORD))
        .await?;
    login.expect(200).map(drop)
}

async fn a_lost_password_is_set_by_a_mail(database: Database) -> Checked {
    let (node, sink) = mailing(database).await?;
    let ann = verified(&node, &sink, "ann").await?;
    let anybody = node.anybody();
    for name in ["nobody", "ann"] {
        let body = json!({"email": format!("{name}@example.com")});
        let answer = anybody.post("/v1/auth/forgot-password", &body).await?;
        ensure!(answer.expect(202)?.body.is_empty());
    }
    let mail = sink.wait_for(2).await?.pop().context("no mail")?;
    ensure!(
        (mail.to.as_str(), mail.header("subject").as_deref())
            == ("ann@example.com", Some("Set a new password")),
        "{mail:?}"
    );
    let reset = json!({"token": token(&mail)?, "new_password": OTHER});
    anybody
        .post("/v1/auth/reset-password", &reset)
        .expect(204)
        .await?;
    anybody
        .post("/v1/auth/reset-password", &reset)
        .refused("invalid_request")
        .await?;
    ann.get("/v1/auth/me").refused("unauthorized").await?;
    anybody
        .post("/v1/auth/login", &credentials("ann", PASSWORD))
        .refused("unauthorized")
        .await?;
    anybody
        .post("/v1/auth/login", &credentials("ann", OTHER))
        .expect(200)
        .await?;
    let told = sink.wait_for(3).await?;
    ensure!(told[2].header("subject").as_deref() == Some("Your password was changed"));
    ensure!(told.iter().all(|mail| mail.to == "ann@example.com"), "{told:?}");
    Ok(())
}

async fn an_invitation_says_what_became_of_its_mail(database: Database) -> Checked {
    let (mut node, sink) = mailing(database).await?;
    let ann = verified(&node, &sink, "ann").await?;
    let org = organization(&ann).await?;
    let accepted = invite(&ann, &org, "bob").await?;
    ensure!(accepted["email_delivery"] == "accepted", "{accepted}");
    let mail = sink.wait_for_mail_to("bob@example.com").await?;
    ensure!(accepted["url"] == json!(mail.link()?), "{accepted}");

    // A refused recipient is not retried. The link still works.
    sink.answer_with([MailAnswer::Recipient(550)]);
    let failed = invite(&ann, &org, "cid").await?;
    ensure!(failed["email_delivery"] == "failed", "{failed}");
    let url = failed["url"].as_str().context("no URL")?;
    let page = url.strip_prefix(&node.org_url()).context("another place")?;
    node.anybody().get(page).expect(200).await?;
    ensure!(node.node.rows("SELECT id FROM mail").await?.is_empty());

    // A server that is temporarily busy gets the mail later.
    sink.answer_with([MailAnswer::Content(451)]);
    let later = invite(&ann, &org, "dan").await?;
    ensure!(later["email_delivery"] == "failed", "{later}");
    let mail = sink.wait_for_mail_to("dan@example.com").await?;
    ensure!(later["url"] == json!(mail.link()?), "{later}");

    node.node.stop().await?;
    node.node.set_env("SORTIE_SMTP_URL", "smtp://127.0.0.1:1");
    node.node.restart().await?;
    let down = invite(&ann, &org, "eve").await?;
    ensure!(down["email_delivery"] == "failed", "{down}");
    Ok(())
}

#[tokio::test]
async fn an_invitation_is_shared_by_hand_where_no_mail_is_sent() -> Checked {
    let node = hosted(Database::Sqlite, NodeOptions::default()).await?;
    let ann = sign_up(&node, "ann").await?;
    let invited = invite(&ann, &organization(&ann).await?, "bob").await?;
    ensure!(invited["email_delivery"] == "unavailable", "{invited}");
    let url = invited["url"].as_str().context("no URL")?;
    let (_, token) = url.split_once("?token=").context("no token")?;
    let bob = sign_up(&node, "bob").await?;
    let accepted = bob
        .post("/v1/invitations/accept", &json!({"token": token}))
        .await?;
    accepted.expect(200).map(drop)
}

/// Makes every waiting mail due, while the node is down.
async fn hurry(node: &HostedNode) -> Checked {
    node.node
        .meddle("UPDATE mail SET due_at = 1 WHERE due_at IS NOT NULL")
        .await
}

async fn a_mail_outlives_a_killed_node(database: Database) -> Checked {
    let (mut node, sink) = mailing(database).await?;
    // The server has the mail and does not answer: the node cannot tell whether it was accepted.
    sink.answer_with([MailAnswer::Silence]);
    sign_up(&node, "ann").await?;
    sink.wait_for_attempts(1).await?;
    node.node.kill()?;
    ensure!(sink.all().is_empty());
    hurry(&node).await?;
    node.node.restart().await?;
    let mail = sink.wait_for_mail_to("ann@example.com").await?;
    verify(&node, &mail).await?;

    // A mail that waits for a retry survives a restart unchanged.
    sink.answer_with([MailAnswer::Content(451)]);
    let body = json!({"email": "ann@example.com"});
    node.anybody()
        .post("/v1/auth/forgot-password", &body)
        .expect(202)
        .await?;
    sink.wait_for_attempts(3).await?;
    let waiting = node.node.rows("SELECT id FROM mail").await?;
    node.node.kill()?;
    hurry(&node).await?;
    node.node.restart().await?;
    let sent = sink.wait_for(2).await?.pop().context("no mail")?;
    let id = waiting[0]["id"].as_str().context("no ID")?;
    ensure!(sent.header("message-id").is_some_and(|of| of.contains(id)));
    Ok(())
}

async fn the_mail_of_a_withdrawn_invitation_is_not_sent(database: Database) -> Checked {
    let (mut node, sink) = mailing(database).await?;
    let ann = verified(&node, &sink, "ann").await?;
    let org = organization(&ann).await?;
    let busy = [MailAnswer::Content(451); 3];
    sink.answer_with(busy);
    let withdrawn = invite(&ann, &org, "bob").await?;
    let path = format!("{org}/invitations/{}", withdrawn["id"].as_str().context("no ID")?);
    ann.delete(&path).expect(204).await?;
    let replaced = invite(&ann, &org, "cid").await?;
    let last = invite(&ann, &org, "cid").await?;
    ensure!(
        [&replaced, &last]
            .iter()
            .all(|of| of["email_delivery"] == "failed")
    );
    node.node.stop().await?;
    hurry(&node).await?;
    node.node.restart().await?;
    let mails = sink.wait_for(2).await?;
    ensure!(last["url"] == json!(mails[1].link()?), "{mails:?}");
    let body = json!({"email": "ann@example.com"});
    node.anybody()
        .post("/v1/auth/forgot-password", &body)
        .expect(202)
        .await?;
    let mails = sink.wait_for(3).await?;
    let to: Vec<_> = mails.iter().map(|mail| mail.to.as_str()).collect();
    ensure!(
        to == ["ann@example.com", "cid@example.com", "ann@example.com"],
        "{to:?}"
    );
    Ok(())
}

async fn owners_are_told_once_of_a_deprecated_version(database: Database) -> Checked {
    use std::io::Write as _;

    let (mut node, sink) = mailing(database).await?;
    for name in ["ann", "bob", "cid"] {
        let person = verified(&node, &sink, name).await?;
        if name != "cid" {
            organization(&person).await?;
            organization(&person).await?;
        }
    }
    let mut config = NamedTempFile::new()?;
    write!(
        config,
        "[api.v1]\ndeprecated = \"2026-01-01\"\nsunset = \"2097-09-15\"\nsuccessor = \"https://docs.example.com/v2\"\n"
    )?;
    node.node.stop().await?;
    let path = config.path().to_str().context("a path that is no text")?;
    node.node.set_env("SORTIE_CONFIG", path);
    node.node.restart().await?;
    sink.wait_for(5).await?;
    node.node.stop().await?;
    node.node.restart().await?;
    verified(&node, &sink, "dan").await?;
    node.node.stop().await?;
    let mails = sink.all();
    let mut told: Vec<_> = mails[3..].iter().map(|mail| mail.to.as_str()).collect();
    told.sort_unstable();
    let once = ["ann@example.com", "bob@example.com", "dan@example.com"];
    ensure!(told == once, "{told:?}");
    let subject = mails[4].header("subject");
    ensure!(
        subject.as_deref() == Some("API v1 stops working on 2097-09-15"),
        "{subject:?}"
    );
    ensure!(mails[4].link()? == "https://docs.example.com/v2");
    Ok(())
}
