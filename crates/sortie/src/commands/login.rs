//! `sortie login`: saves an engine with a key that the engine accepts.

use std::io::stdin;

use sortie_api::{Credential, OrganizationInfo};
use url::Url;

use super::Context;
use crate::{
    args::LoginArgs,
    client::{Client, ClientKey, KeySource, get},
    contexts::{self, Contexts, SavedEngine, context_name},
    failure::{Exit, Failure, Result},
    input::{self, STDIN},
    prompt, terminal,
    user_folders::no_home,
};

/// Maximum length of a key.
const KEY_BYTES: usize = 4096;

pub(super) async fn login(context: &Context, args: LoginArgs) -> Result<Exit> {
    let url = args.address.trim_end_matches('/');
    // Checked before a person types the key.
    Client::new(url, "ADDRESS", None)?;
    let name = match args.name {
        Some(name) => name,
        None => name_of(url)?,
    };
    let mut contexts = Contexts::read(&context.environment)?;
    contexts::file(&context.environment).ok_or_else(no_home)?;
    let key = match prompt::hidden(&format!("API key for {url}: "), KEY_BYTES)? {
        Some(typed) => typed,
        None => input::text(&mut stdin().lock(), STDIN, KEY_BYTES)?,
    };
    let key = key.trim();
    if key.is_empty() {
        return Err(Failure::usage(
            "no API key was given: type it, or send it to standard input",
        ));
    }
    let client = Client::new(url, "ADDRESS", Some(ClientKey::new(key, KeySource::Typed)))?;
    let me: OrganizationInfo = client.ask(get("v1/me")).await?;
    let engine = SavedEngine {
        url: url.to_owned(),
        key: Credential::new(key),
    };
    let replaced = contexts.contexts.insert(name.clone(), engine);
    contexts.current = Some(name.clone());
    let file = contexts.save(&context.environment)?;
    if let Some(other) = replaced.filter(|replaced| replaced.url != url) {
        terminal::note(&format!("{name} was the name of {} before", other.url));
    }
    terminal::note(&format!(
        "{url} accepts the key, which has the role {}; saved as the context {name} in {}",
        me.role,
        file.display()
    ));
    terminal::note(
        "commands use this engine from now on; `sortie contexts use --none` goes back to the data folder",
    );
    Ok(Exit::Success)
}

/// Returns the name of a context for an address: its host, and its port if that is not the scheme's own.
fn name_of(url: &str) -> Result<String> {
    let parsed: Option<Url> = url.parse().ok();
    let name = parsed.and_then(|url| {
        let host = url.host_str()?.to_owned();
        Some(url.port().map_or(host.clone(), |port| format!("{host}:{port}")))
    });
    name.and_then(|name| context_name(&name).ok())
        .ok_or_else(|| Failure::usage(format!("{url}: name the context by --name")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_named_after_its_host_and_port() {
        for (url, name) in [
            ("https://sortie.example.com/api", "sortie.example.com"),
            ("https://sortie.example.com:443", "sortie.example.com"),
            ("http://127.0.0.1:8080", "127.0.0.1:8080"),
        ] {
            assert_eq!(name_of(url).unwrap(), name);
        }
        assert!(
            name_of("http://[::1]:8080")
                .unwrap_err()
                .to_string()
                .contains("--name")
        );
    }
}
