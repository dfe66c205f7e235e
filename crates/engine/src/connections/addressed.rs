//! Credentials that open only for the address that they were saved with.
//!
//! The address of a connection is stored in clear, its credentials are sealed. The sealed text therefore names the
//! address as well, and a credential does not open if its connection has another address now. An attacker who can write
//! the database but has no master key cannot send the credential to another server.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sortie_api::{
    ConnectionId, ErrorCode, OrgId, Refusal,
    connection::{ConnectionDefinition, ConnectionType},
    request::{RunConnection, RunRequest},
};
use sortie_store::connections::ConnectionRow;

use super::{Connections, definition_of, secrets::Secrets};
use sortie_base::SealContext;

/// A sealed value with its address.
#[derive(Serialize, Deserialize)]
pub(super) struct Addressed<T> {
    #[serde(flatten)]
    pub(super) value: T,
    pub(super) address: Address,
}

impl<T> Addressed<T> {
    /// Returns the value. `Conflict` if it was sealed for another address.
    pub(super) fn accept(self, address: &Address) -> Result<T, Refusal> {
        if self.address == *address {
            Ok(self.value)
        } else {
            Err(ErrorCode::Conflict.because(
                "the credentials were saved for another address than the connection has in the database: save the \
                 connection again"))
        }
    }
}

/// Server or program of a credential: type, URL and command of its connection, as one text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Address(String);

impl Address {
    /// Creates an address. Its form must not change: it is compared with the addresses in sealed values.
    fn new(kind: ConnectionType, url: Option<&str>, command: Option<&[String]>) -> Self {
        Self(serde_json::json!([kind.as_str(), url, command]).to_string())
    }

    /// Returns the address of a saved connection.
    pub(super) fn of(definition: &ConnectionDefinition) -> Self {
        let ConnectionDefinition {
            kind, url, command, ..
        } = definition;
        Self::new(*kind, url.as_deref(), command.as_deref())
    }

    pub(super) fn of_row(row: &ConnectionRow) -> Result<Self, Refusal> {
        Ok(Self::of(&definition_of(row)?))
    }

    /// Returns the address of an inline connection, or `None` for a reference to a saved one.
    pub(super) fn of_inline(connection: &RunConnection) -> Option<Self> {
        Some(Self::new(connection.kind?, connection.url.as_deref(), None))
    }

    /// Returns the address of a pending authorization: that of its connection, and the connection's id. The row of the
    /// authorization names the connection in clear.
    pub(super) fn of_authorization(connection: ConnectionId, address: &Self) -> Self {
        Self(serde_json::json!([connection.to_string(), address.0]).to_string())
    }
}

/// The credentials of the inline connections of one run, by name.
pub(super) type Inline = BTreeMap<String, Addressed<Secrets>>;

/// Returns the addresses of the inline connections in a stored request, by name.
pub(super) fn inline_addresses(definition: &str) -> Result<BTreeMap<String, Address>, Refusal> {
    let request: RunRequest = serde_json::from_str(definition)
        .map_err(|error| Refusal::internal(format!("a stored definition cannot be read: {error}")))?;
    let all = request.connections.into_iter().flatten();
    Ok(all
        .filter_map(|(name, connection)| Some((name, Address::of_inline(&connection)?)))
        .collect())
}

/// Seal context of the credentials of a run's inline connections.
pub(super) fn inline_at(run: &str, org: OrgId) -> SealContext<'_> {
    SealContext {
        table: "run_secret",
        column: "credentials",
        row: run,
        org: Some(org),
    }
}

impl Connections {
    /// Seals a value for its context and for an address.
    pub(super) async fn seal_for<T: Serialize + Sync>(
        &self,
        context: SealContext<'_>,
        address: &Address,
        value: &T,
    ) -> Result<Vec<u8>, Refusal> {
        let address = address.clone();
        self.seal(context, &Addressed { value, address }).await
    }

    /// Opens a value that was sealed for a context and for this address. `Conflict` if it was sealed for another
    /// address.
    pub(super) fn open_for<T: DeserializeOwned>(
        &self,
        context: SealContext<'_>,
        address: &Address,
        sealed: &[u8],
    ) -> Result<T, Refusal> {
        self.open::<Addressed<T>>(context, sealed)?.accept(address)
    }

    /// Seals the inline credentials of a run, each for the address of its connection in the run's definition.
    pub(crate) async fn seal_inline(
        &self,
        (org, run): (OrgId, sortie_api::RunId),
        secrets: &BTreeMap<String, Secrets>,
        definition: &str,
    ) -> Result<Vec<u8>, Refusal> {
        let mut addresses = inline_addresses(definition)?;
        let mut all = BTreeMap::new();
        for (name, value) in secrets {
            let address = addresses.remove(name).ok_or_else(|| {
                Refusal::internal("credentials of a connection that the definition does not have")
            })?;
            all.insert(name, Addressed { value, address });
        }
        self.seal(inline_at(&run.to_string(), org), &all).await
    }
}

#[cfg(test)]
#[path = "addressed_tests.rs"]
mod tests;
