//! Outbound connections: the section `network`, the variables that other programs read too, and the same keys of a
//! provider.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use sortie_api::Credential;
use sortie_net::{InvalidVariable, NoProxy, Outbound, ProxyServer};

use super::{Environment, Error, layers::Layers, values::HIDDEN};

/// Value of `proxy` for no proxy.
const NONE: &str = "none";

/// Keys of `[network]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NetworkSection {
    proxy: Option<Credential>,
    no_proxy: Option<Vec<String>>,
    ca_file: Option<PathBuf>,
    proxy_resolves: bool,
}

impl Environment {
    /// The proxies and certificates that the environment names.
    pub(crate) fn outbound(&self) -> Result<Outbound, InvalidVariable> {
        Outbound::from_variables(|name| self.get(name))
    }
}

impl NetworkSection {
    /// Returns the proxies and certificates of a node.
    pub(super) fn outbound(&self, layers: &Layers, environment: &Environment) -> Result<Outbound, Error> {
        // A proxy in the file replaces those of the environment, which then need not be usable.
        let is_replaced = |name: &str| self.proxy.is_some() && name.to_ascii_lowercase().ends_with("_proxy");
        let is_no_proxy = |name: &str| name.eq_ignore_ascii_case("no_proxy");
        let read_variable = |name| {
            environment
                .get(name)
                .filter(|_| !is_replaced(name) || is_no_proxy(name))
        };
        let mut outbound =
            Outbound::from_variables(read_variable).map_err(|error| Error(error.to_string()))?;
        if let Some(hosts) = &self.no_proxy {
            outbound.no_proxy = NoProxy::parse(&hosts.join(","));
        }
        if let Some(text) = &self.proxy {
            let proxy = proxy(text.expose()).map_err(|rule| layers.wrong("network.proxy", rule))?;
            let no_proxy = outbound.no_proxy.clone();
            outbound = outbound.through(proxy, no_proxy);
        }
        if let Some(path) = &self.ca_file {
            outbound.trusted = outbound
                .trusted
                .with_file(path)
                .map_err(|rule| layers.wrong("network.ca_file", &rule))?;
        }
        outbound.proxy_resolves = self.proxy_resolves;
        Ok(outbound)
    }
}

/// Reads the proxies and certificates of one provider over those of the node. Its own proxy is used for every address. The
/// error is the key and its rule.
pub(super) fn of_provider(
    node: &Outbound,
    own: Option<&str>,
    ca_file: Option<&Path>,
) -> Result<Outbound, (&'static str, String)> {
    let mut outbound = node.clone();
    if let Some(text) = own {
        let proxy = proxy(text).map_err(|rule| ("proxy", rule.to_owned()))?;
        outbound = outbound.through(proxy, NoProxy::none());
    }
    if let Some(path) = ca_file {
        let trusted = outbound.trusted.with_file(path);
        outbound.trusted = trusted.map_err(|rule| ("ca_file", rule))?;
    }
    Ok(outbound)
}

fn proxy(text: &str) -> Result<Option<ProxyServer>, &'static str> {
    if text == NONE {
        return Ok(None);
    }
    ProxyServer::parse(text).map(Some)
}

/// The address of a proxy without user and password.
pub(super) fn shown(text: &str) -> String {
    match proxy(text) {
        Ok(Some(proxy)) => proxy.to_string(),
        Ok(None) => NONE.to_owned(),
        Err(_) => HIDDEN.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, Flags, SandboxPolicy, tests::load};

    const PROVIDER: &str = "[providers.own]\napi = \"openai-chat\"\nbase_url = \"https://llm.example/v1\"\n";

    fn of(file: &str, variables: &[(&str, &str)]) -> Result<Config, String> {
        load(file, variables, &Flags::default(), SandboxPolicy::Required).map_err(|error| error.to_string())
    }

    /// Proxies of `http://x.example`, of `https://x.example` and of the provider.
    fn proxies(file: &str, variables: &[(&str, &str)]) -> [Option<String>; 3] {
        let config = of(&format!("{file}{PROVIDER}"), variables).unwrap();
        let of_url = |url: &str| config.outbound.proxy_of(&url.parse().unwrap());
        [
            of_url("http://x.example/"),
            of_url("https://x.example/"),
            config.models.providers[0].proxy(),
        ]
        .map(|proxy| proxy.map(ToString::to_string))
    }

    #[test]
    fn the_file_wins_over_the_variables_and_a_provider_over_both() {
        let (a, b, c) = ("http://a:1", "http://b:2", "socks5://c:3");
        let some = |text: &str| Some(text.to_owned());
        let network = |keys: &str| format!("[network]\n{keys}\n");
        let variables = [("HTTPS_PROXY", a), ("http_proxy", b)];
        for (file, variables, expected) in [
            (String::new(), &[][..], [None, None, None]),
            (String::new(), &variables, [some(b), some(a), some(a)]),
            (
                network("proxy = \"c:3\""),
                &variables,
                [some("http://c:3"), some("http://c:3"), some("http://c:3")],
            ),
            (network("proxy = \"none\""), &variables, [None, None, None]),
            // An overridden value need not be usable.
            (
                network("proxy = \"none\""),
                &[("HTTPS_PROXY", "nonsense://x")],
                [None, None, None],
            ),
            (
                network("no_proxy = [\"llm.example\"]"),
                &variables,
                [some(b), some(a), None],
            ),
            (
                network("proxy = \"socks5://c:3\""),
                &[("NO_PROXY", "x.example")],
                [None, None, some(c)],
            ),
        ] {
            assert_eq!(proxies(&file, variables), expected, "{file} {variables:?}");
        }
        for (own, expected) in [("none", None), ("socks5://u:hush@c:3", some(c))] {
            let file = format!("{PROVIDER}proxy = {own:?}\n");
            let config = of(&file, &[("HTTPS_PROXY", a), ("NO_PROXY", "*")]).unwrap();
            let proxy = config.models.providers[0].proxy().map(ToString::to_string);
            assert_eq!(proxy, expected, "{own}");
        }
    }

    #[test]
    fn no_password_of_a_proxy_is_shown() {
        let file =
            format!("[network]\nproxy = \"http://u:hush@a:1\"\n{PROVIDER}proxy = \"socks5h://u:hush@b:2\"\n");
        let config = of(&file, &[]).unwrap();
        let shown = config.to_toml();
        assert!(
            !shown.contains("hush") && !config.to_json().to_string().contains("hush"),
            "{shown}"
        );
        assert!(!format!("{config:?}").contains("hush"));
        assert!(shown.contains("proxy = \"http://a:1\""), "{shown}");
        assert!(shown.contains("proxy = \"socks5h://b:2\""), "{shown}");
    }

    #[test]
    fn a_wrong_setting_is_named_with_its_rule() {
        for (file, variables, told) in [
            (
                "[network]\nproxy = \"http://u:hush@a/path\"\n",
                &[][..],
                "network.proxy (sortie.toml): must be an address",
            ),
            (
                "",
                &[("HTTPS_PROXY", "ftp://hush")],
                "HTTPS_PROXY: must begin with",
            ),
            (
                "[network]\nca_file = \"/nowhere/ca.pem\"\n",
                &[],
                "network.ca_file (sortie.toml): /nowhere/ca.pem: cannot be read",
            ),
            (
                "",
                &[("SSL_CERT_FILE", "/nowhere/ca.pem")],
                "SSL_CERT_FILE: /nowhere/ca.pem: cannot be read",
            ),
            (
                "[providers.own]\napi = \"openai-chat\"\nbase_url = \"https://a\"\nproxy = \"socks4://hush\"\n",
                &[],
                "providers.own.proxy (sortie.toml): must begin with",
            ),
            (
                "[providers.own]\napi = \"openai-chat\"\nbase_url = \"https://a\"\nca_file = \"/dev/null\"\n",
                &[],
                "providers.own.ca_file (sortie.toml): /dev/null: must hold certificates",
            ),
        ] {
            let error = of(file, variables).unwrap_err();
            assert!(error.contains(told) && !error.contains("hush"), "{error}");
        }
    }
}
