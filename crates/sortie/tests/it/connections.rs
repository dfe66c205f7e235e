//! `/v1/connections` (`docs/CONNECTIONS.md`), the use of connections in runs, and the secrecy of their credentials.

mod addresses;
mod authorization;
mod consent;
mod records;
mod runs;
pub(crate) mod secrets;

pub(crate) use self::authorization::authorize;

use crate::prelude::*;

/// Saves a connection.
pub(crate) fn put(client: &Client, name: &str, definition: &Value) -> Pending {
    client.put(&format!("/v1/connections/{name}"), definition)
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
