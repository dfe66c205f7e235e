//! Checks of a running node: from outside, and its own checks.

use jiff::fmt::rfc2822::DateTimeParser;
use sortie_api::{
    Timestamp,
    check::{Check, NodeChecks, Verdict},
};
use sortie_engine::Clock;
use sortie_server::Api;
use url::Url;

use crate::{
    client::{Client, get, path_of},
    connect::is_this_machine,
    failure::{Exit, Failure, Result},
};

/// Maximum difference of the clocks, in seconds. HTTP dates have whole seconds. Beyond the second figure nodes refuse
/// each other's signatures.
const SKEW: i64 = 5;
const TOO_MUCH_SKEW: i64 = 30;

/// Access to the node's own checks.
pub(super) struct Inside {
    /// Client with the key, if there is one.
    pub(super) client: Client,
    /// Whether the node also asks the model providers.
    pub(super) providers: bool,
    /// Reason why the key of the data folder cannot be used.
    pub(super) no_key: Option<Failure>,
}

/// Checks the node at `url`, from outside and from `inside`.
pub(super) async fn checks(client: &Client, url: &str, inside: &Inside) -> Vec<Check> {
    let before = Clock::system().now();
    let time = match client.time().await {
        Ok(time) => time,
        Err(failure) => {
            return vec![
                Check::new("node", Verdict::Fault, failure.to_string())
                    .hint("is it running, is the address right, and does a proxy or a firewall let this machine through?"),
            ];
        }
    };
    let after = Clock::system().now();
    let mut checks = vec![
        Check::new("node", Verdict::Ok, format!("{url} answers")),
        connection(url),
        clocks(time.as_deref(), before, after),
    ];
    let ready = client.ready().await;
    let own = own(inside).await;
    checks.extend(readiness(ready, &own));
    checks.extend(own);
    checks
}

/// Returns a check if the node does not accept runs as usual. The cause is only in `own`, the checks that the node
/// makes of itself.
fn readiness(ready: Result<Vec<String>>, own: &[Check]) -> Option<Check> {
    let name = "ready";
    match ready {
        Ok(degraded) if degraded.is_empty() => None,
        Ok(degraded) => {
            let found = format!("takes runs, and does not have: {}", degraded.join(", "));
            let check = Check::new(name, Verdict::Warning, found);
            Some(check.hint("runs that need it wait: the log of the node has the cause"))
        }
        Err(failure) => {
            let is_cause = |check: &&Check| check.name == "readiness" && check.verdict == Verdict::Fault;
            let found = match own.iter().find(is_cause) {
                Some(cause) => cause.found.clone(),
                None => failure.to_string(),
            };
            let check = Check::new(name, Verdict::Fault, found);
            Some(check.hint("a load balancer sends it nothing: its log says why it is so"))
        }
    }
}

/// Returns the node's own checks, if the key may read them.
async fn own(inside: &Inside) -> Vec<Check> {
    let client = &inside.client;
    let (set, with) = match client.api() {
        Api::Engine => (
            "set SORTIE_API_KEY to a key with the role admin",
            "use a key with the role admin",
        ),
        Api::Organization => (
            "set SORTIE_OPERATOR_KEY to the content of operator.key",
            "use the operator's key",
        ),
    };
    if let Some(failure) = &inside.no_key {
        return vec![Check::new("key", Verdict::Warning, failure.to_string()).hint(set)];
    }
    if !client.has_key() {
        return vec![
            Check::new(
                "key",
                Verdict::Warning,
                "none: the node is not asked what it finds itself",
            )
            .hint(set),
        ];
    }
    let query = [("providers", inside.providers.to_string())];
    let path = path_of(&client.on_all_nodes("checks"), &query);
    match client.ask::<NodeChecks>(get(path)).await {
        Ok(found) => {
            let mut checks = vec![version(&found.version)];
            checks.extend(found.checks);
            checks
        }
        Err(failure) => {
            let check = Check::new("key", Verdict::Fault, failure.to_string());
            let is_denied = matches!(failure.exit, Exit::Denied | Exit::Forbidden);
            vec![if is_denied { check.hint(with) } else { check }]
        }
    }
}

fn version(node: &str) -> Check {
    let own = env!("CARGO_PKG_VERSION");
    if node == own {
        Check::new("version", Verdict::Ok, format!("{node}, as this command"))
    } else {
        Check::new(
            "version",
            Verdict::Warning,
            format!("{node}, and this command is {own}"),
        )
        .hint("use the command line of the node's version")
    }
}

/// Checks whether a key sent to that address travels in clear.
fn connection(url: &str) -> Check {
    let name = "connection";
    let Ok(parsed) = url.parse::<Url>() else {
        return Check::new(name, Verdict::Fault, format!("{url} is no URL"));
    };
    if parsed.scheme() == "https" {
        Check::new(
            name,
            Verdict::Ok,
            "TLS, with a certificate that this machine trusts",
        )
    } else if is_this_machine(url) {
        Check::new(name, Verdict::Ok, "on this machine")
    } else {
        Check::new(name, Verdict::Warning, "without TLS")
            .hint("whoever is on the way reads the API key: put a proxy with a certificate in front")
    }
}

/// `date` is the time that the node sent. The machine's clock was read before and after it.
fn clocks(date: Option<&str>, before: Timestamp, after: Timestamp) -> Check {
    let name = "clocks";
    let told = date.and_then(|date| DateTimeParser::new().parse_timestamp(date).ok());
    let Some(told) = told else {
        return Check::new(name, Verdict::Warning, "the node does not say what time it is")
            .hint("a proxy in front takes the header Date away");
    };
    let second = |at: Timestamp| at.as_micros().div_euclid(1_000_000);
    let told = told.as_second();
    let apart = if told < second(before) {
        told - second(before)
    } else {
        (told - second(after)).max(0)
    };
    let check = Check::new(name, Verdict::Ok, format!("{} s apart", apart.abs()));
    let verdict = match apart.abs() {
        0..=SKEW => return check,
        ..=TOO_MUCH_SKEW => Verdict::Warning,
        _ => Verdict::Fault,
    };
    Check { verdict, ..check }
        .hint("leases, schedules and what nodes sign for each other need the same time: run a time service (chrony) on all")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000 + 999_999)
    }

    #[test]
    fn clocks_that_are_apart_are_told() {
        // RFC 9110, 5.6.7: 784111777 seconds after 1970.
        let date = Some("Sun, 06 Nov 1994 08:49:37 GMT");
        let now = 784_111_777;
        for (before, after, verdict) in [
            (now, now, Verdict::Ok),
            (now - 4, now + 4, Verdict::Ok),
            (now + 5, now + 6, Verdict::Ok),
            (now + 6, now + 7, Verdict::Warning),
            (now - 30, now - 30, Verdict::Warning),
            (now - 31, now - 31, Verdict::Fault),
            (now + 31, now + 31, Verdict::Fault),
        ] {
            assert_eq!(clocks(date, at(before), at(after)).verdict, verdict, "{before}");
        }
        assert_eq!(clocks(None, at(now), at(now)).verdict, Verdict::Warning);
        assert_eq!(clocks(Some("noon"), at(now), at(now)).verdict, Verdict::Warning);
    }

    #[test]
    fn a_key_in_the_clear_is_told() {
        for (url, verdict) in [
            ("https://a.example", Verdict::Ok),
            ("http://127.0.0.1:8080", Verdict::Ok),
            ("http://localhost", Verdict::Ok),
            ("http://a.example", Verdict::Warning),
            ("http://10.0.0.1", Verdict::Warning),
        ] {
            assert_eq!(connection(url).verdict, verdict, "{url}");
        }
    }

    #[test]
    fn a_node_that_takes_no_runs_is_told_with_the_cause_that_it_finds_itself() {
        let refused = || Err(Failure::unavailable("the database is unavailable, retry later"));
        let cause = Check::new("readiness", Verdict::Fault, "no space left");
        let told = |own: &[Check]| readiness(refused(), own).unwrap().found;
        assert_eq!(told(&[cause]), "no space left");
        let other = Check::new("readiness", Verdict::Ok, "takes runs");
        assert_eq!(told(&[other]), "the database is unavailable, retry later");
        assert!(readiness(Ok(Vec::new()), &[]).is_none());
    }

    #[test]
    fn another_version_is_told() {
        assert_eq!(version(env!("CARGO_PKG_VERSION")).verdict, Verdict::Ok);
        assert_eq!(version("0.0.0-other").verdict, Verdict::Warning);
    }
}
