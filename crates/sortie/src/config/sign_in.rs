//! Identity providers that people sign in with: the tables `[[sign_in.oidc]]` of the file.

use std::path::PathBuf;

use serde::Deserialize;
use sortie_accounts::{IdentityProvider, RoleRule};
use sortie_api::{Credential, Mode, Role, plain};

use super::{Error, hosted::origin, layers::Layers, settings::Settings, values::ShortName};

/// Maximum length of a label, in characters.
const LONGEST_LABEL: usize = 50;

/// Keys of `[sign_in]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SignInSection {
    #[serde(default)]
    oidc: Vec<ProviderEntry>,
}

/// Keys of `[[sign_in.oidc]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProviderEntry {
    name: ShortName,
    label: Option<String>,
    issuer: String,
    client_id: String,
    client_secret: Option<Credential>,
    client_secret_file: Option<PathBuf>,
    trusted_domains: Vec<String>,
    #[serde(default)]
    scopes: Vec<String>,
    role_claim: Option<String>,
    #[serde(default)]
    admin_values: Vec<String>,
    #[serde(default)]
    member_values: Vec<String>,
    default_role: Option<Role>,
}

/// Key and the rule that its value breaks.
type Mistake = (&'static str, String);

/// Returns the identity providers. Those of a self-hosted engine give people their roles, and need `advertise_url`.
pub(super) fn providers(settings: &Settings, layers: &Layers) -> Result<Vec<IdentityProvider>, Error> {
    let entries = &settings.sign_in_section.oidc;
    if settings.mode == Mode::SelfHosted && !entries.is_empty() {
        let url = settings.advertise_url.as_ref();
        url.ok_or("must be set with `[[sign_in.oidc]]`")
            .and_then(origin)
            .map_err(|rule| layers.wrong("advertise_url", rule))?;
    }
    let mut providers: Vec<IdentityProvider> = Vec::with_capacity(entries.len());
    for entry in entries {
        let name = String::from(entry.name.clone());
        let wrong = |key: &str, rule: &str| layers.wrong(&format!("sign_in.oidc.{name}.{key}"), rule);
        let provider = entry
            .provider(settings.mode)
            .map_err(|(key, rule)| wrong(key, &rule))?;
        let rule = "must be that of one provider";
        if providers.iter().any(|other| other.name == provider.name) {
            return Err(wrong("name", rule));
        }
        if providers.iter().any(|other| other.issuer == provider.issuer) {
            return Err(wrong("issuer", rule));
        }
        providers.push(provider);
    }
    Ok(providers)
}

impl ProviderEntry {
    fn provider(&self, mode: Mode) -> Result<IdentityProvider, Mistake> {
        let name = String::from(self.name.clone());
        let label = self.label.clone().unwrap_or_else(|| name.clone());
        let is_label =
            (1..=LONGEST_LABEL).contains(&label.chars().count()) && !label.chars().any(char::is_control);
        let domains = self.trusted_domains.iter().map(|domain| domain.to_lowercase());
        let trusted_domains: Vec<String> = domains.collect();
        for (key, is_right, rule) in [
            (
                "label",
                is_label,
                "must have 1 to 50 characters, without control characters",
            ),
            (
                "issuer",
                IdentityProvider::is_issuer(&self.issuer),
                "must be an https:// address without user, query or fragment; http:// is for loopback addresses",
            ),
            (
                "client_id",
                is_text(&self.client_id),
                "must be a text without control characters",
            ),
            (
                "trusted_domains",
                !trusted_domains.is_empty() && trusted_domains.iter().all(|domain| is_domain(domain)),
                "must be domains of email addresses, such as example.com",
            ),
            (
                "scopes",
                self.scopes.iter().all(|scope| is_scope(scope)),
                "must be scopes of OAuth, such as groups",
            ),
        ] {
            if !is_right {
                return Err((key, rule.to_owned()));
            }
        }
        Ok(IdentityProvider {
            label,
            scopes: self.scopes.clone(),
            roles: self.roles(mode).map_err(|(key, rule)| (key, rule.to_owned()))?,
            issuer: self.issuer.clone(),
            client_id: self.client_id.clone(),
            client_secret: self.secret()?,
            trusted_domains,
            name,
        })
    }

    /// Returns the rule of the roles: on a self-hosted engine some people must get one, on a hosted one organizations give
    /// roles.
    fn roles(&self, mode: Mode) -> Result<Option<RoleRule>, (&'static str, &'static str)> {
        let has_values = !self.admin_values.is_empty() || !self.member_values.is_empty();
        let has_any = has_values || self.role_claim.is_some() || self.default_role.is_some();
        let rule = match (&self.role_claim, self.default_role) {
            _ if mode == Mode::Hosted && has_any => {
                "needs mode = \"self-hosted\", as do the other keys of roles"
            }
            _ if mode == Mode::Hosted => return Ok(None),
            (None, _) if has_values => "must be set with admin_values and member_values",
            (None, None) => "or default_role must be set: everybody would be refused",
            (Some(_), _) if !has_values => "must be set with admin_values or member_values",
            (_, Some(Role::Owner)) => return Err(("default_role", "must be `member` or `admin`")),
            (claim, default_role) => {
                return Ok(Some(RoleRule {
                    claim: claim.clone(),
                    admin_values: self.admin_values.clone(),
                    member_values: self.member_values.clone(),
                    default_role,
                }));
            }
        };
        Err(("role_claim", rule))
    }

    /// Returns the secret. No message repeats it.
    fn secret(&self) -> Result<Credential, Mistake> {
        let wrong = |rule: &str| Err(("client_secret", rule.to_owned()));
        let secret = match (&self.client_secret, &self.client_secret_file) {
            (Some(_), Some(_)) => return wrong("and client_secret_file cannot both be set"),
            (None, None) => return wrong("or client_secret_file must be set"),
            (Some(secret), None) => secret.clone(),
            (None, Some(path)) => {
                let text = super::read_value(path).map_err(|error| {
                    let rule = format!("{}: cannot be read: {}", path.display(), plain::io(&error));
                    ("client_secret_file", rule)
                })?;
                Credential::new(text.as_str())
            }
        };
        if is_text(secret.expose()) {
            Ok(secret)
        } else {
            wrong("must be a text without control characters")
        }
    }
}

fn is_text(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(char::is_control)
}

fn is_scope(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\')
}

fn is_domain(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && label
                .chars()
                .all(|letter| letter.is_alphanumeric() || letter == '-')
    };
    text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{of_file, refusal};

    const HOSTED: &str = "mode = \"hosted\"\norg_listen = \"127.0.0.1:8081\"\n\
        org_url = \"https://accounts.example\"\nadvertise_url = \"https://engine.example\"\n";

    const PROVIDER: &str = "[[sign_in.oidc]]\nname = \"okta\"\nlabel = \"Example & Co\"\n\
        issuer = \"https://idp.example/\"\nclient_id = \"c-1\"\nclient_secret = \"hush\"\n\
        trusted_domains = [\"Example.com\", \"example.org\"]\n";

    fn with(from: &str, to: &str) -> String {
        assert!(PROVIDER.contains(from), "{from}");
        format!("{HOSTED}{}", PROVIDER.replace(from, to))
    }

    #[test]
    fn providers_are_read_and_shown_without_their_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, "of-its-own\n").unwrap();
        let second = PROVIDER
            .replace("okta", "second")
            .replace("idp.example/", "second.example")
            .replace("label = \"Example & Co\"\n", "")
            .replace(
                "client_secret = \"hush\"",
                &format!("client_secret_file = {path:?}"),
            );
        let config = of_file(&format!("{HOSTED}{PROVIDER}{second}")).unwrap();
        let [okta, second] = config.sign_in.as_slice() else {
            panic!("{config:?}")
        };
        assert_eq!(
            (okta.name.as_str(), okta.label.as_str()),
            ("okta", "Example & Co")
        );
        assert_eq!(okta.issuer, "https://idp.example/", "as the provider writes it");
        assert_eq!(okta.trusted_domains, ["example.com", "example.org"]);
        assert_eq!(okta.client_secret.expose(), "hush");
        assert_eq!(second.label, "second");
        assert_eq!(second.client_secret.expose(), "of-its-own");
        for shown in [
            config.to_toml(),
            config.to_json().to_string(),
            format!("{config:?}"),
        ] {
            assert!(
                shown.contains("https://idp.example/") && shown.contains("example.org"),
                "{shown}"
            );
            assert!(
                !shown.contains("hush") && !shown.contains("of-its-own"),
                "{shown}"
            );
        }
        assert_eq!(
            of_file(&config.to_toml()).unwrap().sign_in.len(),
            2,
            "in the form of the file"
        );
    }

    #[test]
    fn a_self_hosted_engine_gives_roles_by_the_claims() {
        let url = "advertise_url = \"https://Sortie.example:443\"\n";
        let roles = "role_claim = \"groups\"\nadmin_values = [\"admins\"]\nscopes = [\"groups\"]\n";
        let config = of_file(&format!("{url}{PROVIDER}{roles}")).unwrap();
        let [okta] = config.sign_in.as_slice() else {
            panic!("{config:?}")
        };
        let rule = okta.roles.as_ref().unwrap();
        assert_eq!((rule.claim.as_deref(), rule.default_role), (Some("groups"), None));
        assert_eq!(
            (&rule.admin_values, &okta.scopes),
            (&vec!["admins".to_owned()], &vec!["groups".to_owned()])
        );
        let shown = config.to_toml();
        assert!(shown.contains("admin_values = [\"admins\"]"), "{shown}");
        assert!(of_file(&shown).is_ok(), "{shown}");
        let everybody = format!("{url}{PROVIDER}default_role = \"admin\"\n");
        assert!(of_file(&everybody).is_ok());
        for (file, rule) in [
            (
                format!("{PROVIDER}{roles}"),
                "advertise_url: must be set with `[[sign_in.oidc]]`",
            ),
            (
                format!("advertise_url = \"http://sortie.example\"\n{PROVIDER}{roles}"),
                "advertise_url (sortie.toml): must begin with https:// unless its host is a loopback address",
            ),
            (
                format!("advertise_url = \"https://sortie.example/engine\"\n{PROVIDER}{roles}"),
                "advertise_url (sortie.toml): must have no path",
            ),
            (
                format!("{url}{PROVIDER}"),
                "sign_in.oidc.okta.role_claim (sortie.toml): or default_role must be set: everybody would be refused",
            ),
            (
                format!("{url}{PROVIDER}role_claim = \"groups\"\n"),
                "sign_in.oidc.okta.role_claim (sortie.toml): must be set with admin_values or member_values",
            ),
            (
                format!("{url}{PROVIDER}member_values = [\"x\"]\n"),
                "sign_in.oidc.okta.role_claim (sortie.toml): must be set with admin_values and member_values",
            ),
            (
                format!("{url}{PROVIDER}default_role = \"owner\"\n"),
                "sign_in.oidc.okta.default_role (sortie.toml): must be `member` or `admin`",
            ),
        ] {
            assert_eq!(refusal(&file), rule);
        }
    }

    #[test]
    fn each_rule_of_a_provider_is_told_with_its_name() {
        for (file, rule) in [
            (
                with("okta", "Okta"),
                "sign_in.oidc (sortie.toml): entry 1: name must be 1 to 32 lower-case letters, digits and hyphens",
            ),
            (
                with("https://idp", "http://idp"),
                "sign_in.oidc.okta.issuer (sortie.toml): must be an https:// address without user, query or fragment; http:// is for \
                 loopback addresses",
            ),
            (
                with("\"c-1\"", "\"\""),
                "sign_in.oidc.okta.client_id (sortie.toml): must be a text without control characters",
            ),
            (
                with("client_secret = \"hush\"\n", ""),
                "sign_in.oidc.okta.client_secret (sortie.toml): or client_secret_file must be set",
            ),
            (
                with("\"hush\"", "\"a\"\nclient_secret_file = \"b\""),
                "sign_in.oidc.okta.client_secret (sortie.toml): and client_secret_file cannot both be set",
            ),
            (
                with("client_secret = \"hush\"", "client_secret_file = \"/no/such\""),
                "sign_in.oidc.okta.client_secret_file (sortie.toml): /no/such: cannot be read: No such file or directory",
            ),
            (
                with("[\"Example.com\", \"example.org\"]", "[]"),
                "sign_in.oidc.okta.trusted_domains (sortie.toml): must be domains of email addresses, such as example.com",
            ),
            (
                with("\"example.org\"", "\"*.example.org\""),
                "sign_in.oidc.okta.trusted_domains (sortie.toml): must be domains of email addresses, such as example.com",
            ),
            (
                format!("{HOSTED}{PROVIDER}{PROVIDER}"),
                "sign_in.oidc.okta.name (sortie.toml): must be that of one provider",
            ),
            (
                format!("{HOSTED}{PROVIDER}{}", PROVIDER.replace("okta", "other")),
                "sign_in.oidc.other.issuer (sortie.toml): must be that of one provider",
            ),
            (
                format!("{HOSTED}sign_in.oidc = 1"),
                "sign_in.oidc (sortie.toml): must be tables, each under `[[sign_in.oidc]]`",
            ),
            (
                with("\"hush\"", "\"hush\"\nscopes = [\"a b\"]"),
                "sign_in.oidc.okta.scopes (sortie.toml): must be scopes of OAuth, such as groups",
            ),
            (
                with("\"hush\"", "\"hush\"\ndefault_role = \"member\""),
                "sign_in.oidc.okta.role_claim (sortie.toml): needs mode = \"self-hosted\", as do the other keys of roles",
            ),
        ] {
            assert_eq!(refusal(&file), rule);
        }
        assert_eq!(
            refusal(&with("client_id", "client")),
            "sign_in.oidc (sortie.toml): entry 1: unknown key `client`; did you mean `client_id`?"
        );
        let key = refusal("sign_in.saml = 1");
        assert!(
            key.starts_with("sortie.toml: unknown key `sign_in.saml`"),
            "{key}"
        );
    }
}
