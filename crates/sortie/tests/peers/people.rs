//! People on the pages of a hosted deployment, with a mail server, a browser and a third-party application.

use std::{path::Path, time::Instant};

use sortie_testkit::{
    peers::{Maildev, Peer, installed},
    prelude::*,
};

use crate::browser::{Browser, Device};

const PASSWORD: &str = "plum-anchor-violet-42";
const OTHER: &str = "seventeen grey herons at dawn";

/// Time for which another node may still accept an access that has ended.
const REFUSED_WITHIN: Duration = Duration::from_secs(5);

/// A node that sends its mail through maildev.
struct Deployment {
    node: HostedNode,
    mail: Maildev,
    device: Device,
}

impl Deployment {
    async fn start(device: Device) -> Result<Self> {
        let mail = Maildev::start()?;
        let options = NodeOptions::default()
            .env("SORTIE_SMTP_URL", &mail.smtp_url())
            // The pages of this test work without the console, which needs scripts.
            .env("SORTIE_CONSOLE", "false")
            .env("SORTIE_MAIL_FROM", "Sortie <sortie@accounts.example>");
        let node = HostedNode::start_with(env!("CARGO_BIN_EXE_sortie"), Database::Sqlite, options).await?;
        Ok(Self { node, mail, device })
    }

    fn browser(&self, name: &str) -> Result<Browser> {
        Browser::open(self.device, self.node.org_url(), name)
    }

    /// Waits for a mail. Returns the link in its text.
    async fn link(&self, address: &str, subject: &str) -> Result<String> {
        let mail = self.mail.next_mail(address, subject).await?;
        let text = mail["text"].as_str().context("the mail has no text")?;
        let link = text.lines().find(|line| line.starts_with("http"));
        Ok(link.context("the mail has no link")?.to_owned())
    }

    /// Signs up a person on the page that the browser shows, and verifies the address.
    async fn sign_up(&self, browser: &mut Browser, name: &str) -> Result<()> {
        let email = format!("{}@example.com", name.to_lowercase());
        let fields = [("Name", name), ("Email address", &email), ("Password", PASSWORD)];
        browser.send(&fields, "Sign up")?;
        browser.go("/")?.says("Verify your email address first")?;
        let link = self.link(&email, "Verify your email address").await?;
        browser.go(&link)?.is(200, "Verify your email address")?;
        browser
            .press("Verify this address")?
            .is(200, "Address verified")?;
        Ok(())
    }

    /// Signs a person in as a program does.
    async fn session(&self, email: &str, password: &str) -> Result<Client> {
        let body = json!({"email": email, "password": password});
        let login = self.node.anybody().post("/v1/auth/login", &body).await?;
        let token = login.expect(200)?.json()?["token"].clone();
        Ok(self.node.client(token.as_str().context("no token")?))
    }
}

async fn created(client: &Client, path: &str, body: Value) -> Result<Value> {
    client.post(path, &body).json(201).await
}

async fn two_people_share_an_organization_and_let_an_application_in(device: Device) -> Result<()> {
    let at = Deployment::start(device).await?;
    let mut ann = at.browser("Ann, who invites")?;
    ann.go("/")?.is(200, "Sign in to Sortie")?;
    ann.follow("Sign up")?.is(200, "Sign up for Sortie")?;
    at.sign_up(&mut ann, "Ann").await?;
    ann.go("/")?.is(200, "Signed in")?.says("ann@example.com")?;
    let owner = at.session("ann@example.com", PASSWORD).await?;
    let plums = created(&owner, "/v1/organizations", json!({"name": "Plum Works"})).await?;
    let org = plums["id"].as_str().context("no ID")?;
    at.node.give_credits(org, 10_000_000).await?;
    let invitation = json!({"email": "bob@example.com", "role": "member"});
    let invited = created(
        &owner,
        &format!("/v1/organizations/{org}/invitations"),
        invitation,
    )
    .await?;
    ensure!(invited["email_delivery"] == "accepted", "{invited}");

    let mut bob = at.browser("Bob, who is invited")?;
    let invitation = at.link("bob@example.com", "Invitation to Plum Works").await?;
    bob.go(&invitation)?.is(200, "Join Plum Works")?;
    bob.follow("Sign up")?.is(200, "Sign up for Sortie")?;
    at.sign_up(&mut bob, "Bob").await?;
    bob.go(&invitation)?.is(200, "Join Plum Works")?;
    ann.go(&invitation)?.is(200, "Join Plum Works")?;
    ann.go(&invitation)?
        .says("You are signed in as ann@example.com. Only bob@example.com can accept.")?;
    ann.press("Sign out and continue")?.is(200, "Join Plum Works")?;
    bob.press("Accept")?.is(200, "Welcome")?.says("Plum Works")?;
    bob.go(&invitation)?.is(404, "This invitation is not open")?;
    let member = at.session("bob@example.com", PASSWORD).await?;
    created(&member, "/v1/organizations", json!({"name": "Bob's Bakery"})).await?;

    application(&at, &member, org).await?;
    ann.close()?;
    bob.close()
}

/// Lets an application act for a person in an organization, and then revokes that.
async fn application(at: &Deployment, person: &Client, org: &str) -> Result<()> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/oauth_client.py");
    let arguments = [&*script.to_string_lossy(), &at.node.node.url()?];
    let client = Peer::start(&installed("venv/bin/python")?, &arguments)?;
    let asked = client.json()?["open"].clone();
    let mut browser = at.browser("Bob, who allows an application")?;
    browser
        .go(asked.as_str().context("no address")?)?
        .is(200, "Sign in to Sortie")?;
    let fields = [("Email address", "bob@example.com"), ("Password", PASSWORD)];
    browser
        .send(&fields, "Sign in")?
        .is(200, "Allow “Plum Desk” to use Sortie?")?
        .says("only on this computer")?
        .says("bob@example.com")?;
    let allowed = browser.choose(("In the organization", "Plum Works"), "Allow")?;
    ensure!(
        allowed.url.starts_with("http://127.0.0.1:") && allowed.heading == "Connected",
        "{allowed:?}"
    );
    browser.close()?;

    let worked = client.json()?;
    ensure!(worked["me"]["organization_id"] == org, "{worked}");
    let tools = worked["tools"].as_array().context("no tools")?;
    ensure!(tools.contains(&json!("start_run")), "{worked}");
    ensure!(worked["me"]["role"] == "member", "{worked}");
    ensure!(worked["run"]["status"] == "succeeded", "{worked}");
    ensure!(
        worked["refreshed"] == true && worked["scope"] == "member",
        "{worked}"
    );

    let grants = person.get("/v1/auth/grants").json(200).await?;
    ensure!(grants[0]["client_name"] == "Plum Desk" && grants[0]["organization"]["id"] == org);
    let grant = format!("/v1/auth/grants/{}", grants[0]["id"].as_str().context("no ID")?);
    person.delete(&grant).expect(204).await?;
    let ended = Instant::now();
    let refused = client.json()?;
    ensure!(ended.elapsed() < REFUSED_WITHIN, "after {:?}", ended.elapsed());
    ensure!(
        refused["refused"] == true && refused["refresh"]["error"] == "invalid_grant",
        "{refused}"
    );
    Ok(())
}

#[tokio::test]
async fn two_people_at_a_desk_share_an_organization_and_let_an_application_in() -> Result<()> {
    two_people_share_an_organization_and_let_an_application_in(Device::Desk).await
}

#[tokio::test]
async fn two_people_at_phones_without_script_share_an_organization_and_let_an_application_in() -> Result<()> {
    two_people_share_an_organization_and_let_an_application_in(Device::PhoneWithoutScript).await
}

async fn a_person_loses_the_password_and_adds_a_second_factor(device: Device) -> Result<()> {
    let at = Deployment::start(device).await?;
    let mut ann = at.browser("Ann, who forgets")?;
    ann.go("/sign-up")?;
    let weak = [
        ("Name", "Ann"),
        ("Email address", "ann@example.com"),
        ("Password", "passwordpassword"),
    ];
    ann.send(&weak, "Sign up")?.is(400, "Sign up for Sortie")?;
    at.sign_up(&mut ann, "Ann").await?;
    ann.go("/")?;
    ann.press("Sign out")?.is(200, "Signed out")?;
    ann.follow("Sign in again")?.is(200, "Sign in to Sortie")?;
    let sign_in = |password| [("Email address", "ann@example.com"), ("Password", password)];
    ann.send(&sign_in(OTHER), "Sign in")?
        .is(401, "Sign in to Sortie")?
        .says("The email address or the password is wrong")?;
    ann.follow("Forgot your password?")?
        .is(200, "Forgot your password?")?;
    ann.send(&[("Email address", "ann@example.com")], "Send the link")?
        .is(202, "Check your email")?;

    let session = at.session("ann@example.com", PASSWORD).await?;
    let link = at.link("ann@example.com", "Set a new password").await?;
    ann.go(&link)?.is(200, "Set a new password")?;
    ann.send(&[("New password", "short")], "Set the password")?
        .is(400, "Set a new password")?;
    ann.send(&[("New password", OTHER)], "Set the password")?
        .is(200, "The password is set")?;
    session.get("/v1/auth/me").refused("unauthorized").await?;
    ann.go(&link)?.is(400, "This link has expired")?;
    ann.follow("Ask for another link")?
        .is(200, "Forgot your password?")?;
    ann.go("/sign-in")?;
    ann.send(&sign_in(PASSWORD), "Sign in")?
        .is(401, "Sign in to Sortie")?;
    ann.send(&sign_in(OTHER), "Sign in")?.is(200, "Signed in")?;

    let session = at.session("ann@example.com", OTHER).await?;
    let key = created(&session, "/v1/auth/me/second-factor", json!({"password": OTHER})).await?;
    let secret = key["secret"].as_str().context("no key")?;
    let code = json!({"code": ann.code(secret, 0)?});
    let confirmed = session.post("/v1/auth/me/second-factor/confirm", &code).await?;
    let recovery = confirmed.expect(200)?.json()?["recovery_codes"][0].clone();
    ann.go("/")?;
    for code in [
        ann.code(secret, 1)?.as_str(),
        recovery.as_str().context("no code")?,
    ] {
        ann.press("Sign out")?.is(200, "Signed out")?;
        ann.follow("Sign in again")?;
        ann.send(&sign_in(OTHER), "Sign in")?
            .is(401, "Sign in to Sortie")?
            .says("the code of your authenticator")?;
        let with = |code| [("Password", OTHER), ("Code", code)];
        ann.send(&with("000000"), "Sign in")?
            .is(401, "Sign in to Sortie")?
            .says("The code is wrong")?;
        ann.send(&with(code), "Sign in")?.is(200, "Signed in")?;
    }
    ann.close()
}

#[tokio::test]
async fn a_person_at_a_desk_loses_the_password_and_adds_a_second_factor() -> Result<()> {
    a_person_loses_the_password_and_adds_a_second_factor(Device::Desk).await
}

#[tokio::test]
async fn a_person_at_a_phone_without_script_loses_the_password_and_adds_a_second_factor() -> Result<()> {
    a_person_loses_the_password_and_adds_a_second_factor(Device::PhoneWithoutScript).await
}
