//! The double of Stripe's API as a program, for clients in other languages: `cargo run -p sortie-testkit --example stripe`.
//!
//! The program writes one line of JSON with its address and its key, and exits when its standard input closes. It has
//! the recurring price `price_team`. A customer pays on the page of a checkout session. `GET /_double/holdings` returns
//! the records of the double. These endpoints take forms: `POST /_double/webhooks` (`url`, `secrets[]`),
//! `/_double/customers/ID/card` (`card`), `/_double/disputes` (`payment_intent`, `amount`),
//! `/_double/disputes/ID/decide` (`verdict`) and `/_double/refunds/ID/fail`.

use std::io::{self, Write as _};

use sortie_testkit::StripeDouble;

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let double = StripeDouble::start().await?;
    double.add_price("price_team", 49_900);
    let ready = serde_json::json!({"url": double.url(), "secret_key": double.secret_key()});
    let mut out = io::stdout();
    writeln!(out, "{ready}")?;
    out.flush()?;
    let end = tokio::task::spawn_blocking(|| io::copy(&mut io::stdin(), &mut io::sink()));
    end.await??;
    Ok(())
}
