//! Checks the providers and their keys by requesting the list of models, which is free.

use std::time::Duration;

use crate::{
    Settings,
    catalog::{base, client},
    provider::{END_WAIT, InvalidSettings, Provider},
};

/// Timeout for a provider.
const PATIENCE: Duration = Duration::from_secs(10);

/// A provider's name, and the models that it lists or a sentence that explains the failure.
pub type Probed = (String, Result<Vec<String>, String>);

/// Requests the models of all providers concurrently. Returns the answer of each.
///
/// # Errors
/// Invalid settings.
pub async fn probe(settings: &Settings) -> Result<Vec<Probed>, InvalidSettings> {
    let mut transports = Vec::with_capacity(settings.providers.len());
    for provider in &settings.providers {
        let ready = Provider {
            name: provider.name.clone(),
            base: base(provider)?,
            key: provider.key.clone(),
            http: client(provider, settings.silence)?,
            end_wait: END_WAIT,
        };
        let transport = (provider.api.0.list)(&ready)?;
        transports.push((provider.name.clone(), ready.base, transport));
    }
    let asked = transports.into_iter().map(|(name, base, transport)| async move {
        let answered = match tokio::time::timeout(PATIENCE, transport.list()).await {
            Ok(answer) => answer.map_err(|error| error.message),
            Err(_) => Err(format!("no answer within {} seconds", PATIENCE.as_secs())),
        };
        (
            name,
            answered.map_err(|reason| format!("{reason} (asked at {base})")),
        )
    });
    Ok(futures_util::future::join_all(asked).await)
}

#[cfg(test)]
mod tests {
    use sortie_api::Credential;

    use super::*;
    use crate::{
        Api, ProviderSettings,
        test_server::{Answer, KEY, Server, api},
    };

    const ALL: [(&str, &str, &str); 4] = [
        ("anthropic", "get /v1/models ", "x-api-key: "),
        ("openai-responses", "get /models ", "authorization: bearer "),
        ("openai-chat", "get /models ", "authorization: bearer "),
        ("gemini", "get /v1beta/models ", "x-goog-api-key: "),
    ];

    async fn asked(api: Api, answer: Answer) -> (Server, Result<Vec<String>, String>) {
        let server = Server::start([answer]).await;
        let settings = Settings {
            providers: vec![ProviderSettings {
                name: "acme".to_owned(),
                api,
                base_url: Some(server.provider.base.clone()),
                key: Some(Credential::new(KEY)),
                outbound: sortie_net::Outbound::default(),
            }],
            ..Settings::default()
        };
        let mut found = probe(&settings).await.unwrap();
        let (name, answered) = found.remove(0);
        assert_eq!((name.as_str(), found.len()), ("acme", 0));
        (server, answered)
    }

    #[tokio::test]
    async fn each_protocol_is_asked_for_its_models_with_the_key() {
        for (name, line, header) in ALL {
            let list = match name {
                "gemini" => r#"{"models":[{"name":"models/one"},{"name":"models/two"}]}"#,
                _ => r#"{"data":[{"id":"one"},{"id":"two"}]}"#,
            };
            let (server, answered) = asked(api(name), Answer::whole("200 OK", "", list)).await;
            let two = vec!["one".to_owned(), "two".to_owned()];
            assert_eq!(answered, Ok(two), "{name}");
            let head = server.head(0);
            assert!(head.starts_with(line), "{name}: {head}");
            assert!(head.contains(&format!("{header}{KEY}")), "{name}: {head}");
        }
    }

    #[tokio::test]
    async fn a_key_that_is_refused_is_told_and_not_shown() {
        for (name, ..) in ALL {
            let body = format!(r#"{{"error":{{"message":"invalid key {KEY}"}}}}"#);
            let (_server, answered) = asked(api(name), Answer::whole("401 Unauthorized", "", &body)).await;
            let reason = answered.unwrap_err();
            assert!(
                reason.contains("401") && !reason.contains(KEY),
                "{name}: {reason}"
            );
        }
    }

    #[tokio::test]
    async fn another_answer_is_no_failure_and_lists_no_models() {
        for list in ["{}", "[]", "x", r#"{"data":[{}]}"#] {
            let (_server, answered) = asked(api("openai-chat"), Answer::whole("200 OK", "", list)).await;
            assert_eq!(answered, Ok(Vec::new()), "{list}");
        }
    }

    #[tokio::test]
    async fn without_providers_nobody_is_asked() {
        assert_eq!(probe(&Settings::default()).await, Ok(Vec::new()));
    }
}
