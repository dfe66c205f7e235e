//! Upgrade of a database whose credentials were sealed without their addresses, by a version before this one.
//!
//! Such credentials open until every node is of this version. Then one node seals them again with the address that
//! their connection has at that moment, and records in the sealed text of the key check that the upgrade is complete.
//! From then on no node opens a credential without an address. That text cannot be written without a master key. An
//! attacker who can write the database could restore the old text with old credentials from a copy. A node that has
//! seen the upgrade complete therefore remembers it in its data folder, and then does not trust the database. Old
//! copies are worthless once the master key was rotated.
//!
//! Nodes of this version publish a mark beside the ids of their master keys, which the version before ignores.

use std::{fs, io, path::PathBuf, sync::atomic::Ordering, time::Duration};

use serde::{Serialize, de::DeserializeOwned};
use sortie_api::Timestamp;
use sortie_store::{CredentialRow, Resealed, RowKey, SealedColumn};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use zeroize::Zeroizing;

use super::{
    Connections,
    addressed::{Address, Addressed, Inline, Unaddressed, inline_addresses},
    definition_in, sealing_failed,
    secrets::Secrets,
    to_sealed_json,
    tokens::Held,
};
use crate::{
    cluster::lease_clock::LeaseClock,
    credentials::master_keys::{ADDRESSED, SEAL_CHECK, seal_context},
    error::Error,
    kit::random::random,
};
use sortie_base::SealContext;

/// Text of the key check once every credential is sealed with its address.
pub(crate) const COMPLETE: &[u8] = b"sortie addressed";

/// Text of the key check before the upgrade, as the version before writes it.
pub(crate) const INCOMPLETE: &[u8] = b"sortie";

/// File in the data folder that marks the upgrade as complete.
const REMEMBERED: &str = "addresses.sealed";

/// Time between two attempts to complete the upgrade.
const ATTEMPTS: Duration = Duration::from_secs(10);

/// Credentials in one transaction.
const PAGE: u32 = 500;

/// Progress of the upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Upgrade {
    /// Every credential names its address.
    Complete,
    /// Names of the live nodes of the version before, which the upgrade waits for.
    Waits(Vec<String>),
}

impl Connections {
    /// Returns the treatment of credentials that were sealed without an address.
    pub(crate) fn unaddressed(&self) -> Unaddressed {
        if self.0.opens_unaddressed.load(Ordering::SeqCst) {
            Unaddressed::Opens
        } else {
            Unaddressed::Refused
        }
    }

    /// Checks at the start whether the upgrade is complete, and completes it if no node of the version before is live.
    /// To be called once this node is registered, and before it works on runs.
    pub(crate) async fn begin_upgrade(&self, leases: &LeaseClock) -> Result<(), Error> {
        let Some((_, text)) = self.key_check().await? else {
            // Nothing is sealed yet. A node of the version before may be the first to seal.
            let is_upgraded = !self.0.sealer.has_key() || self.remembered().try_exists().unwrap_or(true);
            if !is_upgraded && !self.earlier_nodes(leases.now()).await?.is_empty() {
                self.0.opens_unaddressed.store(true, Ordering::SeqCst);
            }
            return Ok(());
        };
        if text == COMPLETE {
            self.remember();
        } else if self.remembered().try_exists().unwrap_or(true) {
            tracing::error!(
                file = %self.remembered().display(),
                "the database says that credentials are not sealed with their addresses, and this node has seen that they \
                 are: credentials without an address are refused. If a backup from before the upgrade was restored, remove \
                 the file and start again"
            );
        } else {
            self.0.opens_unaddressed.store(true, Ordering::SeqCst);
            if let Err(error) = self.complete_upgrade(leases.now()).await {
                tracing::warn!(%error, "cannot seal credentials with their addresses, the next attempt is in 10 seconds");
            }
        }
        Ok(())
    }

    /// Tries every [`ATTEMPTS`] to complete the upgrade, until it is complete or the node stops.
    pub(crate) async fn keep_upgrading(self, leases: LeaseClock, stop: CancellationToken) {
        let mut tick = tokio::time::interval(ATTEMPTS);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut waits_for = Vec::new();
        while self.unaddressed() == Unaddressed::Opens {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = tick.tick() => {}
            }
            match self.complete_upgrade(leases.now()).await {
                Ok(Upgrade::Complete) => return,
                Ok(Upgrade::Waits(nodes)) if nodes != waits_for => {
                    tracing::info!(
                        ?nodes,
                        "credentials are sealed with their addresses once no node of an earlier version is at work"
                    );
                    waits_for = nodes;
                }
                Ok(Upgrade::Waits(_)) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot seal credentials with their addresses, the next attempt is in 10 seconds");
                }
            }
        }
    }

    /// Seals every credential with its address and records that, unless a node of the version before is live.
    async fn complete_upgrade(&self, now: Timestamp) -> Result<Upgrade, Error> {
        let mut check = self.key_check().await?;
        if check.is_none() {
            // Nothing is sealed yet.
            let earlier = self.earlier_nodes(now).await?;
            if !earlier.is_empty() {
                return Ok(Upgrade::Waits(earlier));
            }
            self.check_keys().await?;
            check = self.key_check().await?;
        }
        let (sealed, text) =
            check.ok_or_else(|| Error::Internal("the sealed text of the key check is gone".to_owned()))?;
        if text != COMPLETE {
            // Checked again afterwards: a node of the version before may have started meanwhile.
            let mut resealed = 0;
            for last in [false, true] {
                let earlier = self.earlier_nodes(now).await?;
                if !earlier.is_empty() {
                    return Ok(Upgrade::Waits(earlier));
                }
                if !last {
                    resealed = self.seal_addresses().await?;
                }
            }
            let new = self.0.sealer.seal(SEAL_CHECK, COMPLETE, random()?);
            let check = Resealed {
                row: RowKey::Text(SEAL_CHECK.row.to_owned()),
                old: sealed,
                new: new.map_err(sealing_failed)?,
            };
            if self
                .0
                .store
                .reseal(SealedColumn::SealCheck, vec![check], None)
                .await?
                == 0
            {
                return Err(Error::Conflict(
                    "another node has changed the key check".to_owned(),
                ));
            }
            tracing::info!(resealed, "sealed all credentials with their addresses");
        }
        self.0.opens_unaddressed.store(false, Ordering::SeqCst);
        self.remember();
        Ok(Upgrade::Complete)
    }

    /// Returns the text of the key check, sealed and opened.
    async fn key_check(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>, Error> {
        let start = RowKey::Text(String::new());
        let rows = self
            .0
            .store
            .sealed_rows(SealedColumn::SealCheck, start, 1)
            .await?;
        let Some(row) = rows.into_iter().next() else {
            return Ok(None);
        };
        let text = self
            .0
            .sealer
            .open(SEAL_CHECK, &row.sealed)
            .map_err(sealing_failed)?;
        Ok(Some((row.sealed, text.to_vec())))
    }

    /// Returns the names of the live nodes that do not seal addresses.
    async fn earlier_nodes(&self, now: Timestamp) -> Result<Vec<String>, Error> {
        let seals_addresses = |ids: &Option<Vec<String>>| ids.iter().flatten().any(|id| id == ADDRESSED);
        let mut nodes = self.0.store.node_master_keys(now).await?;
        nodes.retain(|node| !seals_addresses(&node.ids));
        Ok(nodes.into_iter().map(|node| node.name).collect())
    }

    /// Seals the credentials without an address with the one that is stored beside them. Pending authorizations are
    /// left out: they last ten minutes, and can be started again.
    async fn seal_addresses(&self) -> Result<u64, Error> {
        let mut done = 0;
        for column in [
            SealedColumn::ConnectionCredentials,
            SealedColumn::ConnectionTokens,
            SealedColumn::RunSecret,
        ] {
            let mut after = RowKey::Text(String::new());
            loop {
                let rows = self.0.store.credential_rows(column, after, PAGE).await?;
                let Some(last) = rows.last() else {
                    break;
                };
                after = last.sealed.row.clone();
                let mut values = Vec::new();
                for row in rows {
                    let RowKey::Text(name) = &row.sealed.row else {
                        continue;
                    };
                    let context = seal_context(column, name, row.sealed.org);
                    match self.with_address(column, context, &row) {
                        Ok(Some(text)) => values.push(Resealed {
                            new: self.seal_text(context, &text).await?,
                            row: row.sealed.row,
                            old: row.sealed.sealed,
                        }),
                        Ok(None) => {}
                        // Another attempt would fail as well: the key is unknown, or the text is damaged.
                        Err(error) => {
                            let (table, column) = (column.table(), column.column());
                            tracing::error!(%error, row = name, "{table}.{column} cannot be sealed with its address");
                        }
                    }
                }
                if !values.is_empty() {
                    done += self.0.store.reseal(column, values, None).await?;
                }
            }
        }
        Ok(done)
    }

    /// Returns the text of a credential with its address, for sealing. `None` if it names an address already. Fails
    /// only for a value that another attempt could not read either.
    fn with_address(
        &self,
        column: SealedColumn,
        context: SealContext<'_>,
        found: &CredentialRow,
    ) -> Result<Option<Zeroizing<Vec<u8>>>, Error> {
        let sealed = &found.sealed.sealed;
        let address = || Ok::<_, Error>(Address::of(&definition_in(&found.definition)?));
        match column {
            SealedColumn::ConnectionCredentials => self.addressed::<Secrets>(context, sealed, address()?),
            SealedColumn::ConnectionTokens => self.addressed::<Held>(context, sealed, address()?),
            SealedColumn::RunSecret => {
                let mut all: Inline = self.open(context, sealed)?;
                if all.values().all(|one| one.address.is_some()) {
                    return Ok(None);
                }
                let mut addresses = inline_addresses(&found.definition)?;
                for (name, one) in &mut all {
                    one.address = one.address.take().or_else(|| addresses.remove(name));
                }
                to_sealed_json(&all).map(Some)
            }
            SealedColumn::SealCheck
            | SealedColumn::OauthFlow
            | SealedColumn::ScheduleSecret
            | SealedColumn::Delivery
            | SealedColumn::ConnectionIssuer
            | SealedColumn::ConnectionChallenge
            | SealedColumn::Mail
            | SealedColumn::PersonTotp => Ok(None),
        }
    }

    fn addressed<T: Serialize + DeserializeOwned>(
        &self,
        context: SealContext<'_>,
        sealed: &[u8],
        address: Address,
    ) -> Result<Option<Zeroizing<Vec<u8>>>, Error> {
        let mut found: Addressed<T> = self.open(context, sealed)?;
        if found.address.is_some() {
            return Ok(None);
        }
        found.address = Some(address);
        to_sealed_json(&found).map(Some)
    }

    /// Returns the marker file if it contradicts the database: this node then refuses credentials without an address,
    /// although the database says that the upgrade is not complete.
    pub(crate) async fn contradicted(&self) -> Result<Option<PathBuf>, Error> {
        if self.unaddressed() == Unaddressed::Opens {
            return Ok(None);
        }
        let check = self.key_check().await?;
        let is_incomplete = check.is_some_and(|(_, text)| text != COMPLETE);
        Ok(is_incomplete.then(|| self.remembered()))
    }

    fn remembered(&self) -> PathBuf {
        self.0.data_dir.join(REMEMBERED)
    }

    /// Writes the marker file. A node that cannot write it trusts the database at its next start.
    fn remember(&self) {
        match fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(self.remembered())
        {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                tracing::warn!(%error, file = %self.remembered().display(), "cannot write to the data folder");
            }
            Ok(_) | Err(_) => {}
        }
    }
}

#[cfg(test)]
#[path = "upgrade_tests.rs"]
mod tests;
