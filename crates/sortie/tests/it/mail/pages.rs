//! The pages of a whole node together with its mails: each link of a mail leads to the next step.

use sortie_testkit::browser::{Browser, form_token};

use super::*;

both_databases![
    an_invited_person_gets_from_the_mails_into_the_organization,
    a_person_who_verifies_first_asks_for_another_mail_at_the_sign_in,
];

fn browser(node: &HostedNode) -> Result<Browser> {
    let address = node.org_url().trim_start_matches("http://").parse()?;
    Ok(Browser::new(address, &node.org_url()))
}

/// Path of a mailed link on the pages of the node.
fn path(node: &HostedNode, mail: &ReceivedMail) -> Result<String> {
    let link = mail.link()?;
    let path = link.strip_prefix(&*node.org_url()).context("another place")?;
    Ok(path.to_owned())
}

/// Target of the first link of a page that begins with `start`.
fn link(page: &Answer, start: &str) -> Result<String> {
    let text = page.text();
    let rest = text.split_once(&format!("href=\"{start}"));
    let (_, rest) = rest.with_context(|| format!("no link to {start}: {text}"))?;
    let rest = rest.split('"').next().unwrap_or_default();
    Ok(format!("{start}{}", rest.replace("&amp;", "&")))
}

/// Opens a page and sends its form to `action`.
async fn send(browser: &Browser, page: &str, action: &str, fields: &[(&str, &str)]) -> Result<Answer> {
    let form = form_token(&browser.get(page).await?, action)?;
    let mut all = vec![("form", form.as_str())];
    all.extend_from_slice(fields);
    browser.post(action, &all).await
}

async fn an_invited_person_gets_from_the_mails_into_the_organization(database: Database) -> Checked {
    let (node, sink) = mailing(database).await?;
    let ann = verified(&node, &sink, "ann").await?;
    let org = organization(&ann).await?;
    invite(&ann, &org, "bob").await?;
    let invitation = path(&node, &sink.wait_for_mail_to("bob@example.com").await?)?;

    let desk = browser(&node)?;
    let sign_up = link(&desk.get(&invitation).await?, "/sign-up?return=")?;
    let fields = [
        ("name", "Bob"),
        ("email", "bob@example.com"),
        ("password", PASSWORD),
    ];
    let signed_up = send(&desk, &sign_up, "/sign-up", &fields).await?;
    ensure!(
        signed_up.header("location")? == invitation,
        "{}",
        signed_up.text()
    );
    let mail = sink.wait_for(3).await?.pop().context("no mail")?;
    let verify = path(&node, &mail)?;
    ensure!(
        !verify.contains("invitations") && !verify.contains("sti_"),
        "{verify}"
    );

    // A mail that the person asked for replaces the first one, and leads back as well.
    let sent = send(&desk, &invitation, "/verify-email/send", &[]).await?;
    ensure!(sent.status == 202, "{}", sent.text());
    let mail = sink.wait_for(4).await?.pop().context("no mail")?;
    let phone = browser(&node)?;
    ensure!(phone.get(&verify).await?.status == 400);
    let verified = send(&phone, &path(&node, &mail)?, "/verify-email", &[]).await?;
    ensure!(
        link(&verified, "/invitations/")? == invitation,
        "{}",
        verified.text()
    );

    let joined = send(&desk, &invitation, "/invitations/accept", &[]).await?;
    ensure!(
        joined.status == 200 && joined.text().contains("Plum Works"),
        "{}",
        joined.text()
    );
    Ok(())
}

async fn a_person_who_verifies_first_asks_for_another_mail_at_the_sign_in(database: Database) -> Checked {
    let sink = MailSink::start().await?;
    let options = through(&sink).env("SORTIE_SIGN_UP", "verify_first");
    let node = hosted(database, options).await?;
    let ann = browser(&node)?;
    let fields = [
        ("name", "Ann"),
        ("email", "ann@example.com"),
        ("password", PASSWORD),
    ];
    let signed_up = send(&ann, "/sign-up", "/sign-up", &fields).await?;
    ensure!(
        signed_up.status == 202 && signed_up.text().contains("Check your email"),
        "{}",
        signed_up.text()
    );
    sink.wait_for_mail_to("ann@example.com").await?;
    let refused = send(&ann, "/sign-in", "/sign-in", &fields[1..]).await?;
    ensure!(
        refused.status == 403 && refused.text().contains("Verify your email address"),
        "{}",
        refused.text()
    );
    let wrong = send(&ann, "/sign-in", "/sign-in", &[fields[1], ("password", OTHER)]).await?;
    ensure!(
        wrong.status == 401 && !wrong.text().contains("Verify"),
        "{}",
        wrong.text()
    );
    let form = form_token(&refused, "/verify-email/send")?;
    let sent = ann.post("/verify-email/send", &[("form", &form)]).await?;
    ensure!(sent.status == 202, "{}", sent.text());
    let mail = sink.wait_for(2).await?.pop().context("no mail")?;
    let verified = send(&ann, &path(&node, &mail)?, "/verify-email", &[]).await?;
    ensure!(verified.status == 200, "{}", verified.text());
    let signed_in = send(&ann, "/sign-in", "/sign-in", &fields[1..]).await?;
    ensure!(signed_in.status == 303, "{}", signed_in.text());
    Ok(())
}
