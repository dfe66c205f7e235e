//! The endpoint of an MCP server: an accepted one has the origin of the connection, and parses to the same URL again.

use url::Url;

use crate::{Bounds, Input, Line};

#[path = "../../../crates/connect/src/mcp/endpoint.rs"]
mod endpoint;

/// The bases allow for a host name of maximum length, which takes quadratic time.
const BOUNDS: Bounds = Bounds {
    memory: Line {
        base: 256 << 10,
        per_byte: 24,
    },
    time: Line {
        base: 60_000_000,
        per_byte: 2_000,
    },
};
/// Maximum size of an event's data, in bytes.
const MOST: usize = 64 << 10;
/// URLs of connections.
const CONNECTIONS: [&str; 4] = [
    "https://a.example/sse",
    "http://127.0.0.1:8080/tools/sse?key=1",
    "https://[2001:db8::1]:8443/",
    "https://xn--bcher-kva.example:444/a/b/c",
];

/// Checks one input.
pub fn check(data: &[u8]) {
    let input = Input::repeated(data, MOST);
    let text = String::from_utf8_lossy(&input.bytes);
    let chosen = input.way(CONNECTIONS);
    let Some(Ok(connection)) = chosen.map(Url::parse) else {
        return;
    };
    let found = BOUNDS.hold(input.bytes.len(), || endpoint::endpoint(&connection, &text));
    let Ok(found) = found else {
        return;
    };
    assert!(text.trim().len() <= endpoint::ENDPOINT_BYTES);
    assert_eq!(
        (found.scheme(), found.host(), found.port_or_known_default()),
        (
            connection.scheme(),
            connection.host(),
            connection.port_or_known_default()
        )
    );
    assert!(found.username().is_empty() && found.password().is_none() && found.fragment().is_none());
    assert_eq!(
        Url::parse(found.as_str()).as_ref(),
        Ok(&found),
        "it is read back as another"
    );
}
