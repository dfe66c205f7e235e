//! Identity providers that people sign in with: the tables `[[sign_in.oidc]]` of the file.

use std::path::PathBuf;

use serde::Deserialize;
use sortie_accounts::{IdentityProvider, RoleRule};
use sortie_api::{Credential, Mode, Role, plain};
use toml::{Table, Value};

use super::{Error, hosted::origin, layers::Layers, values::Reader};

/// Name of the tables.
pub(super) const SECTION: &str = "sign_in.oidc";

/// Maximum length of a name, in characters.
const LONGEST_NAME: usize = 32;
/// Maximum length of a label, in characters.
const LONGEST_LABEL: usize = 50;

/// Keys of `[[sign_in.oidc]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
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

/// Reads the identity providers. Those of a self-hosted engine give people their roles, and need `advertise_url`.
pub(super) fn settings(layers: &Layers) -> Result<Vec<IdentityProvider>, Error> {
    let Some(setting) = layers.table(SECTION) else {
        return Ok(Vec::new());
    };
    let wrong = |rule: &str| Error(format!("{SECTION} ({}): {rule}", setting.source));
    let Value::Array(entries) = &setting.value else {
        return Err(wrong("must be tables, each under `[[sign_in.oidc]]`"));
    };
    let read = Reader(layers);
    let mode = read.mode()?;
    if mode == Mode::SelfHosted && !entries.is_empty() && origin(&read, "advertise_url")?.is_none() {
        return Err(read.wrong("advertise_url", "must be set with `[[sign_in.oidc]]`"));
    }
    let mut providers: Vec<IdentityProvider> = Vec::with_capacity(entries.len());
    for (at, entry) in entries.iter().enumerate() {
        let Value::Table(table) = entry else {
            return Err(wrong("must be tables, each under `[[sign_in.oidc]]`"));
        };
        let read = Table::try_into(table.clone());
        let entry: Entry = read.map_err(|error: toml::de::Error| {
            wrong(&format!("table {}: {}", at + 1, plain::rule(error.message())))
        })?;
        let provider = provider(entry, mode)?;
        if providers.iter().any(|other| other.name == provider.name) {
            return Err(of(&provider.name, "name", "must be that of one provider"));
        }
        if providers.iter().any(|other| other.issuer == provider.issuer) {
            return Err(of(&provider.name, "issuer", "must be that of one provider"));
        }
        providers.push(provider);
    }
    Ok(providers)
}

fn of(name: &str, key: &str, rule: &str) -> Error {
    Error(format!("{SECTION}.{name}.{key}: {rule}"))
}

fn provider(entry: Entry, mode: Mode) -> Result<IdentityProvider, Error> {
    let name = entry.name.clone();
    let is_name = (1..=LONGEST_NAME).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if !is_name {
        return Err(Error(format!(
            "{SECTION}.name: must be 1 to {LONGEST_NAME} lower-case letters, digits and hyphens"
        )));
    }
    let wrong = |key: &str, rule: &str| Err(of(&name, key, rule));
    let label = entry.label.clone().unwrap_or_else(|| name.clone());
    if !(1..=LONGEST_LABEL).contains(&label.chars().count()) || label.chars().any(char::is_control) {
        return wrong(
            "label",
            "must have 1 to 50 characters, without control characters",
        );
    }
    if !IdentityProvider::is_issuer(&entry.issuer) {
        return wrong(
            "issuer",
            "must be an https:// address without user, query or fragment; http:// is for loopback addresses",
        );
    }
    if entry.client_id.is_empty() || entry.client_id.chars().any(char::is_control) {
        return wrong("client_id", "must be a text without control characters");
    }
    let client_secret = secret(&name, &entry)?;
    let trusted_domains: Vec<String> = entry
        .trusted_domains
        .iter()
        .map(|domain| domain.to_lowercase())
        .collect();
    if trusted_domains.is_empty() || !trusted_domains.iter().all(|domain| is_domain(domain)) {
        return wrong(
            "trusted_domains",
            "must be domains of email addresses, such as example.com",
        );
    }
    let is_scope = |scope: &String| {
        !scope.is_empty()
            && scope
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\')
    };
    if !entry.scopes.iter().all(is_scope) {
        return wrong("scopes", "must be scopes of OAuth, such as groups");
    }
    let roles = roles(&name, &entry, mode)?;
    Ok(IdentityProvider {
        label,
        scopes: entry.scopes,
        roles,
        issuer: entry.issuer,
        client_id: entry.client_id,
        client_secret,
        trusted_domains,
        name,
    })
}

/// Reads the rule of the roles: on a self-hosted engine some people must get one, on a hosted one organizations give roles.
fn roles(name: &str, entry: &Entry, mode: Mode) -> Result<Option<RoleRule>, Error> {
    let has_values = !entry.admin_values.is_empty() || !entry.member_values.is_empty();
    if mode == Mode::Hosted {
        if has_values || entry.role_claim.is_some() || entry.default_role.is_some() {
            return Err(of(
                name,
                "role_claim",
                "needs mode = \"self-hosted\", as do the other keys of roles",
            ));
        }
        return Ok(None);
    }
    match &entry.role_claim {
        None if has_values => Err(of(
            name,
            "role_claim",
            "must be set with admin_values and member_values",
        )),
        None if entry.default_role.is_none() => Err(of(
            name,
            "role_claim",
            "or default_role must be set: everybody would be refused",
        )),
        Some(_) if !has_values => Err(of(
            name,
            "role_claim",
            "must be set with admin_values or member_values",
        )),
        _ if entry.default_role == Some(Role::Owner) => {
            Err(of(name, "default_role", "must be `member` or `admin`"))
        }
        claim => Ok(Some(RoleRule {
            claim: (*claim).clone(),
            admin_values: entry.admin_values.clone(),
            member_values: entry.member_values.clone(),
            default_role: entry.default_role,
        })),
    }
}

/// Reads the secret. No message repeats it.
fn secret(name: &str, entry: &Entry) -> Result<Credential, Error> {
    let secret = match (&entry.client_secret, &entry.client_secret_file) {
        (Some(_), Some(_)) => {
            return Err(of(
                name,
                "client_secret",
                "and client_secret_file cannot both be set",
            ));
        }
        (Some(secret), None) => secret.clone(),
        (None, Some(path)) => {
            let text = super::read_value(path).map_err(|error| {
                let rule = format!("{}: cannot be read: {}", path.display(), plain::io(&error));
                of(name, "client_secret_file", &rule)
            })?;
            Credential::new(text.as_str())
        }
        (None, None) => return Err(of(name, "client_secret", "or client_secret_file must be set")),
    };
    if secret.expose().is_empty() || secret.expose().chars().any(char::is_control) {
        return Err(of(
            name,
            "client_secret",
            "must be a text without control characters",
        ));
    }
    Ok(secret)
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

/// The providers in the form of the file, without their secrets.
pub(super) fn as_toml(providers: &[IdentityProvider]) -> String {
    let shown = providers.iter().map(|provider| {
        let lines = described(provider)
            .into_iter()
            .map(|(key, value)| format!("{key} = {value}\n"));
        format!("\n[[{SECTION}]]\n{}", lines.collect::<String>())
    });
    shown.collect()
}

/// The providers, without their secrets.
pub(super) fn as_json(providers: &[IdentityProvider]) -> serde_json::Value {
    let shown = providers.iter().map(|provider| {
        let entry = described(provider).into_iter().map(|(key, value)| {
            let value = value.try_into().unwrap_or_default();
            (key.to_owned(), value)
        });
        serde_json::Value::Object(entry.collect())
    });
    shown.collect()
}

fn described(provider: &IdentityProvider) -> Vec<(&'static str, Value)> {
    let text = |text: &str| Value::String(text.to_owned());
    let list = |texts: &[String]| Value::Array(texts.iter().map(|of| text(of)).collect());
    let mut described = vec![
        ("name", text(&provider.name)),
        ("label", text(&provider.label)),
        ("issuer", text(&provider.issuer)),
        ("client_id", text(&provider.client_id)),
        ("client_secret", text(super::print::HIDDEN)),
        ("trusted_domains", list(&provider.trusted_domains)),
        ("scopes", list(&provider.scopes)),
    ];
    if let Some(rule) = &provider.roles {
        described.extend(rule.claim.as_ref().map(|claim| ("role_claim", text(claim))));
        described.push(("admin_values", list(&rule.admin_values)));
        described.push(("member_values", list(&rule.member_values)));
        described.extend(
            rule.default_role
                .map(|role| ("default_role", text(role.as_str()))),
        );
    }
    described
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
                "sign_in.oidc.okta.role_claim: or default_role must be set: everybody would be refused",
            ),
            (
                format!("{url}{PROVIDER}role_claim = \"groups\"\n"),
                "sign_in.oidc.okta.role_claim: must be set with admin_values or member_values",
            ),
            (
                format!("{url}{PROVIDER}member_values = [\"x\"]\n"),
                "sign_in.oidc.okta.role_claim: must be set with admin_values and member_values",
            ),
            (
                format!("{url}{PROVIDER}default_role = \"owner\"\n"),
                "sign_in.oidc.okta.default_role: must be `member` or `admin`",
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
                "sign_in.oidc.name: must be 1 to 32 lower-case letters, digits and hyphens",
            ),
            (
                with("https://idp", "http://idp"),
                "sign_in.oidc.okta.issuer: must be an https:// address without user, query or fragment; http:// is for \
                 loopback addresses",
            ),
            (
                with("\"c-1\"", "\"\""),
                "sign_in.oidc.okta.client_id: must be a text without control characters",
            ),
            (
                with("client_secret = \"hush\"\n", ""),
                "sign_in.oidc.okta.client_secret: or client_secret_file must be set",
            ),
            (
                with("\"hush\"", "\"a\"\nclient_secret_file = \"b\""),
                "sign_in.oidc.okta.client_secret: and client_secret_file cannot both be set",
            ),
            (
                with("client_secret = \"hush\"", "client_secret_file = \"/no/such\""),
                "sign_in.oidc.okta.client_secret_file: /no/such: cannot be read: No such file or directory",
            ),
            (
                with("[\"Example.com\", \"example.org\"]", "[]"),
                "sign_in.oidc.okta.trusted_domains: must be domains of email addresses, such as example.com",
            ),
            (
                with("\"example.org\"", "\"*.example.org\""),
                "sign_in.oidc.okta.trusted_domains: must be domains of email addresses, such as example.com",
            ),
            (
                format!("{HOSTED}{PROVIDER}{PROVIDER}"),
                "sign_in.oidc.okta.name: must be that of one provider",
            ),
            (
                format!("{HOSTED}{PROVIDER}{}", PROVIDER.replace("okta", "other")),
                "sign_in.oidc.other.issuer: must be that of one provider",
            ),
            (
                format!("{HOSTED}sign_in.oidc = 1"),
                "sign_in.oidc (sortie.toml): must be tables, each under `[[sign_in.oidc]]`",
            ),
            (
                with("\"hush\"", "\"hush\"\nscopes = [\"a b\"]"),
                "sign_in.oidc.okta.scopes: must be scopes of OAuth, such as groups",
            ),
            (
                with("\"hush\"", "\"hush\"\ndefault_role = \"member\""),
                "sign_in.oidc.okta.role_claim: needs mode = \"self-hosted\", as do the other keys of roles",
            ),
        ] {
            assert_eq!(refusal(&file), rule);
        }
        let unknown = refusal(&with("client_id", "client"));
        assert!(
            unknown.starts_with("sign_in.oidc (sortie.toml): table 1: unknown field `client`"),
            "{unknown}"
        );
        let key = refusal("sign_in.saml = 1");
        assert!(
            key.starts_with("sortie.toml: unknown key `sign_in.saml`"),
            "{key}"
        );
    }
}
