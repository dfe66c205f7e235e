//! Pages of the double for paying customers, and endpoints for tests in other processes.

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, request::Parts};
use serde_json::{Map, Value, json};

use super::{
    DisputeStage, Verdict,
    cards::Card,
    failure::Failure,
    form::{self, Parameters},
    shared::{Answer, Shared, lock, respond},
};

/// Names of the cards in forms.
const CARDS: [(&str, Card); 6] = [
    ("good", Card::Good),
    ("declined", Card::Declined),
    ("insufficient_funds", Card::InsufficientFunds),
    ("needs_authentication", Card::NeedsAuthentication),
    ("awaits_authentication", Card::AwaitsAuthentication),
    ("slow", Card::Slow),
];

/// Answers a request for a page. Returns `None` for a request to the API.
pub(super) fn answer(shared: &Shared, parts: &Parts, body: &Bytes) -> Option<Answer> {
    let path = parts.uri.path();
    let is_post = parts.method == Method::POST;
    let form = || form::decode(body).map(Parameters::new);
    if let Some(id) = path.strip_prefix("/c/pay/") {
        let told = if is_post {
            let paid = form().and_then(|form| act(shared, id, form));
            paid.err().map(|failure| failure.message().to_owned())
        } else {
            None
        };
        return Some(checkout(shared, id, told.as_deref()));
    }
    if path.starts_with("/p/session/") {
        return Some(page(StatusCode::OK, "<h1>Customer portal</h1>"));
    }
    let rest = path.strip_prefix("/_double/")?;
    let done = if is_post {
        form().and_then(|form| control(shared, rest, form))
    } else if rest == "holdings" {
        let holdings = lock(&shared.state).holdings();
        serde_json::to_value(holdings).map_err(|error| Failure::invalid(error.to_string()))
    } else {
        Err(Failure::unrecognized(&parts.method, path))
    };
    let (status, body) = match done {
        Ok(body) => (StatusCode::OK, body),
        Err(failure) => (failure.status, failure.body("req_double")),
    };
    Some(respond(status, headers("application/json"), body.to_string()))
}

fn card(form: &mut Parameters) -> Result<Card, Failure> {
    let name = form.needed_text("card")?;
    let named = CARDS.iter().find(|(known, _)| *known == name);
    named
        .map(|(_, card)| *card)
        .ok_or_else(|| Failure::invalid(format!("There is no card {name}.")))
}

/// The customer presses a button of the page.
fn act(shared: &Shared, session: &str, mut form: Parameters) -> Result<(), Failure> {
    if let Some(answer) = form.text("authentication")? {
        return shared.change(|state| state.authenticate(session, answer == "passed"));
    }
    let card = card(&mut form)?;
    shared.change(|state| state.pay(session, card))
}

/// Returns the page of a session: its form, or a redirect back if the customer has paid.
fn checkout(shared: &Shared, id: &str, told: Option<&str>) -> Answer {
    let state = lock(&shared.state);
    let Some(session) = state.sessions.get(id) else {
        return page(StatusCode::NOT_FOUND, "<h1>Something went wrong</h1>");
    };
    match session.status {
        "open" => {}
        "complete" => {
            let to = session.success_url.replace("{CHECKOUT_SESSION_ID}", id);
            let mut headers = headers("text/html; charset=utf-8");
            if let Ok(to) = to.try_into() {
                headers.insert("location", to);
            }
            return respond(StatusCode::SEE_OTHER, headers, "");
        }
        _ => return page(StatusCode::GONE, "<h1>This session has expired</h1>"),
    }
    let intent = session.intent.as_deref().and_then(|id| state.intents.get(id));
    let awaits = intent.is_some_and(|intent| intent.status == "requires_action");
    let buttons: Vec<_> = if awaits {
        [
            ("passed", "Complete authentication"),
            ("failed", "Fail authentication"),
        ]
        .into_iter()
        .map(|(value, text)| button("authentication", value, text))
        .collect()
    } else {
        let of_card = |(name, _): &(&str, Card)| button("card", name, &format!("Pay with the card {name}"));
        CARDS.iter().map(of_card).collect()
    };
    let told = told
        .map(|told| format!("<p role=\"alert\">{told}</p>"))
        .unwrap_or_default();
    let back = session.cancel_url.as_deref().map(|url| {
        let url = url.replace('&', "&amp;").replace('"', "&quot;");
        format!("<p><a href=\"{url}\">Back</a></p>")
    });
    let body = format!(
        "<h1>Pay ${}.{:02}</h1>{told}<form method=\"post\">{}</form>{}",
        session.amount / 100,
        session.amount % 100,
        buttons.concat(),
        back.unwrap_or_default()
    );
    page(StatusCode::OK, &body)
}

fn button(name: &str, value: &str, text: &str) -> String {
    format!("<p><button name=\"{name}\" value=\"{value}\">{text}</button></p>")
}

fn headers(kind: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(http::header::CONTENT_TYPE, http::HeaderValue::from_static(kind))])
}

fn page(status: StatusCode, body: &str) -> Answer {
    let text = format!("<!doctype html><html lang=\"en\"><title>Checkout</title><body>{body}</body></html>");
    respond(status, headers("text/html; charset=utf-8"), text)
}

/// Performs a request of a test in another process.
fn control(shared: &Shared, path: &str, mut form: Parameters) -> Result<Value, Failure> {
    let done = match path.split('/').collect::<Vec<_>>().as_slice() {
        ["webhooks"] => {
            let (url, secrets) = (form.needed_text("url")?, form.texts("secrets")?);
            let secrets: Vec<_> = secrets.iter().map(String::as_str).collect();
            shared
                .webhooks
                .send_to(&url, &secrets)
                .map_err(|error| Failure::invalid(format!("{error:#}")))?;
            json!({})
        }
        ["customers", id, "card"] => {
            let card = card(&mut form)?;
            let method = shared.change(|state| {
                state.customers.named(id, "customer")?;
                let method = state.add_card(None, card);
                state.save_card(&method, id);
                Ok::<_, Failure>(method)
            })?;
            json!({ "payment_method": method })
        }
        ["disputes"] => {
            let (intent, amount) = (
                form.needed_text("payment_intent")?,
                form.needed_integer("amount")?,
            );
            let made = shared.change(|state| state.dispute(&intent, amount, DisputeStage::Chargeback))?;
            json!({ "dispute": made })
        }
        ["disputes", id, "decide"] => {
            let word = form.one_of("verdict", &["won", "lost"])?;
            let verdict = if word.as_deref() == Some("won") {
                Verdict::Won
            } else {
                Verdict::Lost
            };
            shared.change(|state| state.decide(id, verdict))?;
            json!({})
        }
        ["refunds", id, "fail"] => {
            shared.change(|state| state.fail_refund(id))?;
            json!({})
        }
        _ => return Err(Failure::unrecognized(&Method::POST, path)),
    };
    form.finish()?;
    Ok(done)
}

/// Members of a form, for internal requests of the double.
pub(super) fn members(of: &[(&str, &str)]) -> Map<String, Value> {
    let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), json!(value));
    of.iter().map(pair).collect()
}
