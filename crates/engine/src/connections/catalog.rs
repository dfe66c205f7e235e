//! Catalog of services that can be connected by name and credential alone: remote MCP servers run by their makers, and
//! HTTP APIs with one base URL and one kind of key.

use sortie_api::connection::{AuthType, ConnectionType, KnownService, ShownAuth};

/// Name, kind, URL and authentication of each service, sorted by name.
const SERVICES: &[(&str, ConnectionType, &str, AuthType)] = &[
    (
        "atlassian",
        ConnectionType::Mcp,
        "https://mcp.atlassian.com/v1/mcp",
        AuthType::OAuth,
    ),
    (
        "deepwiki",
        ConnectionType::Mcp,
        "https://mcp.deepwiki.com/mcp",
        AuthType::None,
    ),
    (
        "github",
        ConnectionType::Mcp,
        "https://api.githubcopilot.com/mcp/",
        AuthType::Bearer,
    ),
    (
        "github-api",
        ConnectionType::Http,
        "https://api.github.com/",
        AuthType::Bearer,
    ),
    (
        "gitlab-api",
        ConnectionType::Http,
        "https://gitlab.com/api/v4",
        AuthType::Bearer,
    ),
    (
        "hubspot-api",
        ConnectionType::Http,
        "https://api.hubapi.com/",
        AuthType::Bearer,
    ),
    (
        "linear",
        ConnectionType::Mcp,
        "https://mcp.linear.app/mcp",
        AuthType::OAuth,
    ),
    (
        "notion",
        ConnectionType::Mcp,
        "https://mcp.notion.com/mcp",
        AuthType::OAuth,
    ),
    (
        "notion-api",
        ConnectionType::Http,
        "https://api.notion.com/v1",
        AuthType::Bearer,
    ),
    (
        "sendgrid-api",
        ConnectionType::Http,
        "https://api.sendgrid.com/v3",
        AuthType::Bearer,
    ),
    (
        "sentry",
        ConnectionType::Mcp,
        "https://mcp.sentry.dev/mcp",
        AuthType::OAuth,
    ),
    (
        "slack-api",
        ConnectionType::Http,
        "https://slack.com/api",
        AuthType::Bearer,
    ),
    (
        "stripe",
        ConnectionType::Mcp,
        "https://mcp.stripe.com/",
        AuthType::OAuth,
    ),
    (
        "stripe-api",
        ConnectionType::Http,
        "https://api.stripe.com/v1",
        AuthType::Bearer,
    ),
];

/// Returns the services, sorted by name.
pub(super) fn services() -> Vec<KnownService> {
    SERVICES
        .iter()
        .map(|(name, kind, url, auth)| KnownService {
            name: (*name).to_owned(),
            kind: *kind,
            url: (*url).to_owned(),
            auth: ShownAuth { kind: *auth },
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use sortie_net::Reach;
    use url::Url;

    use super::*;

    #[test]
    fn every_service_can_be_saved_under_its_name() {
        let services = services();
        assert!(services.is_sorted_by(|one, next| one.name < next.name));
        for service in services {
            crate::connections::check_name(&service.name).unwrap();
            let at = crate::connections::fields::At("");
            let url = crate::connections::form::web_url(at, "url", Reach::Public, &service.url).unwrap();
            assert_eq!(url.scheme(), "https", "{}", service.name);
            assert_eq!(
                Url::as_str(&url),
                service.url,
                "as it is shown after it was saved"
            );
        }
    }
}
