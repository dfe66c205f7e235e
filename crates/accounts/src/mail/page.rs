//! Texts of all letters. The text part and the HTML part of a mail are generated from the same texts.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use sortie_api::{Role, Timestamp};

use super::{
    letter::{Letter, PaymentLetter},
    text::of_stranger,
};

/// Colours and sizes of the HTML part, as in the product.
const STYLE: &str = "\
:root{color-scheme:light dark}\
body{margin:0;padding:24px 12px;background:#fafafb;color:#12141a;\
font:15px/1.5 ui-sans-serif,system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}\
.card{max-width:480px;margin:0 auto;padding:24px;background:#fff;border:1px solid #e9eaee;border-radius:12px}\
h1{margin:0 0 16px;font-size:20px;line-height:1.3}\
p{margin:0 0 16px}\
.button{display:inline-block;padding:10px 16px;border-radius:8px;background:#4f4be8;color:#fff;\
font-weight:600;text-decoration:none}\
.small{color:#656b79;font-size:13px;overflow-wrap:anywhere}\
.small a{color:#4a47e0}\
.foot{max-width:480px;margin:16px auto 0;padding:0 24px;color:#656b79;font-size:12px}\
@media(prefers-color-scheme:dark){\
body{background:#08090b;color:#f1f2f5}.card{background:#0f1114;border-color:#1d2026}\
.button{background:#5e5bf2}.small,.foot{color:#8a909d}.small a{color:#9a9bff}}";

/// Texts of a mail, for both of its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Page {
    /// Subject of the mail and heading of the letter.
    pub(super) subject: String,
    /// Name of the recipient, or empty.
    name: String,
    /// Paragraphs of the letter.
    said: Vec<String>,
    /// Button: its label and its page.
    action: Option<(&'static str, String)>,
    /// Advice in small type.
    notes: Vec<String>,
    /// Address of the pages of the deployment.
    org_url: String,
}

impl Page {
    /// Writes a letter of the deployment that serves its pages at `org_url`.
    pub(super) fn new(letter: &Letter, org_url: &str) -> Self {
        let sign_in = format!("{org_url}/sign-in");
        let page = match letter {
            Letter::VerifyEmail {
                name,
                url,
                expires_at,
            } => Self::titled("Verify your email address")
                .greets(name)
                .says("Verify that this email address is yours, to use all of Sortie.")
                .offers("Verify the address", url)
                .until(*expires_at)
                .notes("If you have not signed up, ignore this mail."),
            Letter::SignUpAgain { name } => Self::titled("You already have an account")
                .greets(name)
                .says("A person signed up with this email address, which already has an account.")
                .says("If that was you, sign in. If you forgot the password, set a new one on that page.")
                .offers("Sign in", &sign_in)
                .notes("If that was not you, ignore this mail: nothing has changed."),
            Letter::ResetPassword {
                name,
                url,
                expires_at,
            } => Self::titled("Set a new password")
                .greets(name)
                .says("A person asked to reset the password of your account.")
                .offers("Set a new password", url)
                .until(*expires_at)
                .notes("If that was not you, ignore this mail: your password stays as it is."),
            Letter::PasswordWasReset { name } => Self::titled("Your password was changed")
                .greets(name)
                .says("The password of your account was changed by a link that we mailed to this address.")
                .says("All devices are signed out.")
                .offers("Sign in", &sign_in)
                .notes("If that was not you, secure your mailbox and set a new password now."),
            Letter::Invitation {
                organization,
                inviter,
                role,
                url,
                expires_at,
            } => Self::titled(format!("Invitation to {}", of_stranger(organization)))
                .says(format!(
                    "{} invites you to join {} as {}.",
                    of_stranger(inviter),
                    of_stranger(organization),
                    named(*role)
                ))
                .offers("Accept the invitation", url)
                .until(*expires_at)
                .notes("The invitation is only for this address. If you do not expect it, ignore this mail."),
            Letter::OwnershipHandedOver {
                organization,
                from,
                to,
            } => handed_over(&of_stranger(organization), &of_stranger(to)).greets(from),
            Letter::OwnershipReceived {
                organization,
                from,
                to,
            } => received(&of_stranger(organization), &of_stranger(from)).greets(to),
            Letter::ApiDeprecated {
                name,
                version,
                sunset,
                successor,
            } => deprecated(version, *sunset, successor.as_deref()).greets(name),
            Letter::Payment {
                name,
                organization,
                about,
            } => payment(&of_stranger(organization), about).greets(name),
        };
        Self {
            org_url: org_url.to_owned(),
            ..page
        }
    }

    fn titled(subject: impl Into<String>) -> Self {
        Self {
            subject: subject.into(),
            name: String::new(),
            said: Vec::new(),
            action: None,
            notes: Vec::new(),
            org_url: String::new(),
        }
    }

    fn greets(self, name: &str) -> Self {
        Self {
            name: of_stranger(name),
            ..self
        }
    }

    fn says(mut self, paragraph: impl Into<String>) -> Self {
        self.said.push(paragraph.into());
        self
    }

    fn offers(self, label: &'static str, url: &str) -> Self {
        Self {
            action: Some((label, url.to_owned())),
            ..self
        }
    }

    fn until(self, end: Timestamp) -> Self {
        self.notes(format!("The link works until {}.", moment(end)))
    }

    fn notes(mut self, paragraph: impl Into<String>) -> Self {
        self.notes.push(paragraph.into());
        self
    }

    /// Part for mail programs that cannot show HTML.
    pub(super) fn text(&self) -> String {
        let mut parts = Vec::new();
        if !self.name.is_empty() {
            parts.push(format!("Hello {},", self.name));
        }
        parts.extend(self.said.iter().cloned());
        if let Some((label, url)) = &self.action {
            parts.push(format!("{label}:\n{url}"));
        }
        parts.extend(self.notes.iter().cloned());
        parts.push(format!("Sortie, {}", self.org_url));
        let mut text = parts.join("\n\n");
        text.push('\n');
        text
    }

    /// Part for all other mail programs.
    pub(super) fn html(&self) -> Markup {
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width";
                    meta name="color-scheme" content="light dark";
                    title { (self.subject) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    div class="card" {
                        h1 { (self.subject) }
                        @if !self.name.is_empty() { p { "Hello " (self.name) "," } }
                        @for paragraph in &self.said { p { (paragraph) } }
                        @if let Some((label, url)) = &self.action {
                            p { a class="button" href=(url) { (label) } }
                        }
                        @for note in &self.notes { p class="small" { (note) } }
                        @if let Some((_, url)) = &self.action {
                            p class="small" { "If the button does not work, open this address: " a href=(url) { (url) } }
                        }
                    }
                    p class="foot" { "Sortie, " (self.org_url) }
                }
            }
        }
    }
}

fn handed_over(organization: &str, to: &str) -> Page {
    Page::titled(format!("{to} now owns {organization}"))
        .says(format!(
            "You handed the ownership of {organization} over to {to}. You are an admin there now."
        ))
        .notes(format!(
            "If that was not you, change your password and ask {to} to hand the ownership back."
        ))
}

fn received(organization: &str, from: &str) -> Page {
    Page::titled(format!("You now own {organization}")).says(format!(
        "{from} handed the ownership of {organization} over to you."
    ))
}

fn deprecated(version: &str, sunset: Timestamp, successor: Option<&str>) -> Page {
    let page = Page::titled(format!("API {version} stops working on {}", day(sunset)))
        .says(format!(
            "Version {version} of the Sortie API is deprecated. It stops working on {}.",
            moment(sunset)
        ))
        .says("Programs that use it must move to the next version by then.")
        .notes("You get this mail because you own an organization.");
    match successor {
        Some(url) => page.offers("Read about the next version", url),
        None => page,
    }
}

fn payment(organization: &str, about: &PaymentLetter) -> Page {
    match about {
        PaymentLetter::TopupDeclined {
            amount_cents,
            again_at,
        } => topup_declined(organization, *amount_cents, *again_at),
        PaymentLetter::TopupsDisabled { amount_cents } => topups_disabled(organization, *amount_cents),
        PaymentLetter::CardGone => card_gone(organization),
        PaymentLetter::CardholderNeeded {
            amount_cents,
            checkout,
        } => cardholder_needed(organization, *amount_cents, checkout.as_deref()),
        PaymentLetter::PaymentDisputed { amount_cents } => payment_disputed(organization, *amount_cents),
    }
}

fn topup_declined(organization: &str, amount_cents: i64, again_at: Timestamp) -> Page {
    Page::titled(format!("The card of {organization} was declined"))
        .says(format!(
            "Sortie could not charge {} for new credits of {organization}: the bank has declined the card.",
            dollars(amount_cents)
        ))
        .says(format!(
            "The next attempt is on {}. Save another card before then if this one does not work.",
            moment(again_at)
        ))
        .notes("When the credits are used up, new runs are refused.")
}

fn topups_disabled(organization: &str, amount_cents: i64) -> Page {
    Page::titled(format!("{organization} buys no more credits automatically"))
        .says(format!(
            "The bank has declined the card of {organization} three times in a row, for {} of credits. Automatic \
             purchases are disabled now.",
            dollars(amount_cents)
        ))
        .says("Save another card, and enable them again.")
        .notes("When the credits are used up, new runs are refused.")
}

fn card_gone(organization: &str) -> Page {
    Page::titled(format!("{organization} buys no more credits automatically"))
        .says(format!(
            "The payment provider has deleted the saved card of {organization}. Nothing was charged. Automatic \
             purchases are disabled now."
        ))
        .says("Save a card, and enable them again.")
        .notes("When the credits are used up, new runs are refused.")
}

fn cardholder_needed(organization: &str, amount_cents: i64, checkout: Option<&str>) -> Page {
    let page = Page::titled(format!("Your bank asks you to confirm a payment of {organization}"))
        .says(format!(
            "Sortie could not charge {} for new credits of {organization}: the bank wants the cardholder to confirm \
             the payment. Nothing was charged.",
            dollars(amount_cents)
        ))
        .says("Automatic purchases are paused until you buy credits manually or enable them again.")
        .notes("When the credits are used up, new runs are refused.");
    match checkout {
        Some(url) => page
            .offers("Buy the credits", url)
            .notes("The page can be paid for 23 hours."),
        None => page,
    }
}

fn payment_disputed(organization: &str, amount_cents: i64) -> Page {
    Page::titled(format!("A payment of {organization} is disputed"))
        .says(format!(
            "The cardholder disputes {} of a payment for credits of {organization}. The bank has taken the money back, so \
             Sortie has taken the credits back. Automatic purchases are disabled now.",
            dollars(amount_cents)
        ))
        .says("The credits return if the bank decides against the dispute.")
        .notes("While the balance is below zero, new runs are refused.")
}

/// Amount of US dollars: `$25.00`.
fn dollars(cents: i64) -> String {
    format!("${}.{:02}", cents / 100, cents % 100)
}

/// Role with its article.
const fn named(role: Role) -> &'static str {
    match role {
        Role::Member => "a member",
        Role::Admin => "an admin",
        Role::Owner => "the owner",
    }
}

/// Time to the minute: `2026-11-20 21:30 UTC`.
fn moment(at: Timestamp) -> String {
    let text = at.to_string();
    let time = text.get(11..16).unwrap_or_default();
    format!("{} {time} UTC", day(at))
}

/// Day in UTC: `2026-11-20`.
fn day(at: Timestamp) -> String {
    at.to_string().get(..10).unwrap_or_default().to_owned()
}
