//! Outbound connections: the proxies and certificates in use, and whether the proxies are reachable.

use sortie_api::check::{Check, Verdict};
use sortie_net::{Outbound, ProxyServer};

use crate::config::Config;

/// Checks the proxies and certificates of a configuration.
pub(super) async fn network(config: &Config) -> Check {
    let node = &config.outbound;
    let mut proxies: Vec<&ProxyServer> = node.http.iter().chain(&node.https).collect();
    let mut hints = Vec::new();
    for provider in &config.models.providers {
        let is_own = provider.outbound.https != node.https || provider.outbound.http != node.http;
        if is_own || provider.outbound.trusted != node.trusted {
            hints.push(format!(
                "provider {}: {}",
                provider.name,
                described(&provider.outbound)
            ));
        }
        proxies.extend(provider.proxy());
    }
    let mut failed = Vec::new();
    for (at, proxy) in proxies.iter().enumerate() {
        if proxies.get(..at).is_some_and(|before| before.contains(proxy)) {
            continue;
        }
        if let Err(reason) = proxy.reach().await {
            failed.push(format!("the proxy {proxy} cannot be reached: {reason}"));
        }
    }
    let check = if failed.is_empty() {
        Check::new("network", Verdict::Ok, described(node))
    } else {
        Check::new("network", Verdict::Fault, failed.join("; "))
            .hint("look at network.proxy, or at HTTPS_PROXY, HTTP_PROXY and ALL_PROXY")
    };
    hints.into_iter().fold(check, Check::hint)
}

fn described(outbound: &Outbound) -> String {
    let proxies = match (&outbound.http, &outbound.https) {
        (None, None) => "no proxy".to_owned(),
        (http, https) if http == https => format!("proxy {}", shown(http.as_ref())),
        (http, https) => format!(
            "proxy of https {}, of http {}",
            shown(https.as_ref()),
            shown(http.as_ref())
        ),
    };
    let sources = outbound.trusted.sources().iter();
    let sources: Vec<_> = sources.map(|path| path.display().to_string()).collect();
    if sources.is_empty() {
        format!("{proxies}; certificate authorities of this program")
    } else {
        format!(
            "{proxies}; certificate authorities of this program and of {}",
            sources.join(", ")
        )
    }
}

fn shown(proxy: Option<&ProxyServer>) -> String {
    proxy.map_or_else(|| "none".to_owned(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_out_is_described_without_passwords() {
        let proxy = |text: &str| Some(ProxyServer::parse(text).unwrap());
        let mut outbound = Outbound::default();
        assert_eq!(
            described(&outbound),
            "no proxy; certificate authorities of this program"
        );
        outbound.https = proxy("http://u:hush@proxy:3128");
        assert_eq!(
            described(&outbound),
            "proxy of https http://proxy:3128, of http none; certificate authorities of this program"
        );
        outbound.http = proxy("http://u:hush@proxy:3128");
        assert!(described(&outbound).starts_with("proxy http://proxy:3128;"));
    }
}
