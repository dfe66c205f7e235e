//! The organization API never reveals whether an address has an account (`docs/ACCOUNTS.md#sign-up-and-sign-in`):
//! neither by an answer nor by its timing.
//!
//! Requests with a known and with an unknown address are sent in turn, one after the other. A rank test compares the two
//! samples of times. The long form has a thousand of each and compares the medians as well:
//! `SORTIE_ENUMERATION_PAIRS=1000 cargo nextest run -p sortie --profile durability -E 'test(enumeration)'`.

mod ranks;

use std::{collections::BTreeMap, time::Instant};

use sortie_testkit::MailSink;

use self::ranks::{mann_whitney, median};
use crate::prelude::*;

both_databases![known_and_unknown_addresses_have_the_same_answers_in_the_same_time];

/// Pairs of requests in the ordinary run of the tests.
const PAIRS: usize = 50;
/// Set to a number of pairs by the long form of this test.
const PAIRS_VARIABLE: &str = "SORTIE_ENUMERATION_PAIRS";
/// Pairs from which on the medians are reliable to milliseconds on a busy machine.
const MANY: usize = 1_000;
/// Probability below which the samples count as different.
const LEAST: f64 = 0.01;
/// Attempts: equal times look different once in a hundred cases.
const ATTEMPTS: usize = 3;
/// Largest difference of the medians: of the larger one, or in all.
const SHARE: f64 = 0.02;
const DIFFERENCE: Duration = Duration::from_micros(100);
/// Uses of a known address: mails to an address are limited, and beyond the limit there is less work after the answer.
const USES: usize = 3;
/// Pairs of sign-ups at most.
const SIGN_UPS: usize = 300;
/// Pairs after which the test waits for the work that follows the answers: a node has a bounded queue for it.
const QUEUED: usize = 400;
/// Headers that depend on the time or on the request.
const OF_THE_REQUEST: [&str; 4] = ["date", "x-request-id", "ratelimit", "x-ratelimit-reset"];

/// Operation that takes an address from anybody.
#[derive(Clone, Copy, Debug)]
enum Operation {
    LogIn,
    ForgotPassword,
    SignUp,
}

/// A deployment that verifies addresses first, with people.
struct Rig {
    node: HostedNode,
    mail: MailSink,
    people: usize,
    requests: u32,
}

fn pairs() -> Result<usize> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the long form of the test is asked for in the environment"
    )]
    match std::env::var(PAIRS_VARIABLE) {
        Ok(pairs) => pairs.parse().context(PAIRS_VARIABLE),
        Err(_) => Ok(PAIRS),
    }
}

async fn known_and_unknown_addresses_have_the_same_answers_in_the_same_time(database: Database) -> Checked {
    let pairs = pairs()?;
    let mut rig = Rig::start(database, pairs.div_ceil(USES)).await?;
    for operation in [Operation::LogIn, Operation::ForgotPassword, Operation::SignUp] {
        // After the answer to a sign-up, a password is hashed.
        let pairs = match operation {
            Operation::LogIn | Operation::ForgotPassword => pairs,
            Operation::SignUp => pairs.min(SIGN_UPS),
        };
        let mut attempt = 1;
        while let Err(error) = rig.compare(operation, (pairs, attempt)).await {
            println!("attempt {attempt}: {error:#}");
            ensure!(
                attempt < ATTEMPTS,
                "{operation:?} tells known addresses from unknown ones"
            );
            attempt += 1;
        }
    }
    Ok(())
}

impl Operation {
    const fn path(self) -> &'static str {
        match self {
            Self::LogIn => "/v1/auth/login",
            Self::ForgotPassword => "/v1/auth/forgot-password",
            Self::SignUp => "/v1/auth/signup",
        }
    }

    const fn status(self) -> u16 {
        match self {
            Self::LogIn => 401,
            Self::ForgotPassword | Self::SignUp => 202,
        }
    }

    fn body(self, email: &str) -> Value {
        match self {
            Self::LogIn => json!({"email": email, "password": "some other words 17"}),
            Self::ForgotPassword => json!({"email": email}),
            Self::SignUp => json!({"email": email, "password": "plum anchor violet 42", "name": "Somebody"}),
        }
    }
}

/// Address of a person who has an account.
fn known(nth: usize) -> String {
    format!("known{nth:06}@example.com")
}

impl Rig {
    async fn start(database: Database, people: usize) -> Result<Self> {
        let mail = MailSink::start().await?;
        let options = NodeOptions::default()
            .env("SORTIE_SIGN_UP", "verify_first")
            .env("SORTIE_SMTP_URL", &mail.url())
            .env("SORTIE_MAIL_FROM", "Sortie <sortie@example.com>")
            .env("SORTIE_LOG_FILTER", "warn,sortie::commands::serve=info")
            // Each request comes from a different network, or the limits of networks would end the test.
            .env("SORTIE_TRUSTED_PROXIES", "127.0.0.1");
        let node = HostedNode::start_with(env!("CARGO_BIN_EXE_sortie"), database, options).await?;
        let mut rig = Self {
            node,
            mail,
            people,
            requests: 0,
        };
        for nth in 0..people {
            rig.time(Operation::SignUp, &known(nth)).await?;
        }
        // The accounts are made after the answers.
        for nth in 0..people {
            rig.mail.wait_for_mail_to(&known(nth)).await?;
        }
        Ok(rig)
    }

    /// Sends a request from a new network. Returns the answer and its time.
    async fn time(&mut self, operation: Operation, email: &str) -> Result<(Answer, Duration)> {
        self.requests += 1;
        let [_, a, b, c] = self.requests.to_be_bytes();
        let network = HeaderValue::try_from(format!("10.{a}.{b}.{c}"))?;
        let client = Client::new(self.node.org_address, None).with_header("x-forwarded-for", network);
        let body = operation.body(email);
        let begun = Instant::now();
        let answer = client.post(operation.path(), &body).await?;
        let took = begun.elapsed();
        Ok((answer.expect(operation.status())?, took))
    }

    /// Waits until the work of earlier answers is done: the queue is in order, so the mail of one more sign-up comes last.
    async fn drained(&mut self) -> Checked {
        let last = format!("last{}@example.com", self.requests);
        self.time(Operation::SignUp, &last).await?;
        self.mail.wait_for_mail_to(&last).await.map(drop)
    }

    /// Compares the answers and their times.
    async fn compare(&mut self, operation: Operation, (pairs, attempt): (usize, usize)) -> Checked {
        let (mut of_known, mut of_unknown) = (Vec::new(), Vec::new());
        let mut expected = None;
        for pair in 0..pairs {
            if pair % QUEUED == 0 {
                self.drained().await?;
            }
            let email = known((pair + attempt) % self.people);
            let unknown = format!("nobody{attempt}{pair:05}@example.com");
            // Alternately the first and the second of a pair.
            for is_known in [pair % 2 == 0, pair % 2 != 0] {
                let email = if is_known { &email } else { &unknown };
                let (answer, took) = self.time(operation, email).await?;
                let seen = told(&answer);
                let expected = expected.get_or_insert_with(|| seen.clone());
                assert_eq!(&seen, expected, "{operation:?} of {email}");
                let times = if is_known { &mut of_known } else { &mut of_unknown };
                times.push(took);
            }
        }
        let p = mann_whitney(&of_known, &of_unknown);
        let (known, unknown) = (median(&of_known), median(&of_unknown));
        println!(
            "{operation:?}, {pairs} pairs: medians {known:?} of known and {unknown:?} of unknown addresses, \
             Mann-Whitney p = {p:.3}"
        );
        ensure!(p > LEAST, "p = {p:.5}");
        let most = known.max(unknown).mul_f64(SHARE).max(DIFFERENCE);
        ensure!(
            pairs < MANY || known.abs_diff(unknown) <= most,
            "the medians differ: {known:?} and {unknown:?}"
        );
        Ok(())
    }
}

/// Returns the parts of an answer that must not differ: status, headers and body.
fn told(answer: &Answer) -> (u16, BTreeMap<String, Vec<u8>>, Vec<u8>) {
    let headers = answer
        .headers
        .iter()
        .filter(|(name, _)| !OF_THE_REQUEST.contains(&name.as_str()))
        .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()));
    (answer.status, headers.collect(), answer.body.to_vec())
}
