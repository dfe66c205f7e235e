//! `/v1/connections` (`docs/CONNECTIONS.md`), what runs do with connections, and that nobody sees what is
//! secret of them.

mod addresses;
mod authorization;
mod consent;
mod records;
mod runs;
pub(crate) mod secrets;

pub(crate) use self::authorization::authorize;

use anyhow::Result;
use serde_json::{Value, json};
use sortie_testkit::{Answer, Client, http::Method};

/// Saves a connection.
pub(crate) async fn put(client: &Client, name: &str, definition: &Value) -> Result<Answer> {
    let body = serde_json::to_vec(definition)?.into();
    client
        .send(Method::PUT, &format!("/v1/connections/{name}"), body)
        .await
}

/// A run that makes these calls of tools, one after another, and answers with the output of the last one.
pub(crate) fn calls(tools: &[(&str, Value)], connections: &Value) -> Value {
    let blocks: Vec<String> = tools
        .iter()
        .map(|(tool, arguments)| format!("```tool {tool}\n{arguments}\n```\n"))
        .collect();
    let prompt = if blocks.is_empty() {
        "no call".to_owned()
    } else {
        blocks.concat()
    };
    json!({"prompt": prompt, "shell": false, "connections": connections})
}
